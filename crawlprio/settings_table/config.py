"""The configuration of a crawl, read from its settings and checked once at its start.

Whoever needs a setting that `CrawlConfig` has not reads it by `read_setting`, and by nothing else.
An invalid value, or an unknown name with our prefix, is a `ConfigError` of one sentence.
"""

from __future__ import annotations

import logging
import re
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, fields, replace
from difflib import get_close_matches
from pathlib import Path
from typing import Any

from scrapy.settings import SETTINGS_PRIORITIES, BaseSettings, default_settings
from scrapy.utils.misc import load_object

from crawlprio import __version__
from crawlprio.errors import ConfigError
from crawlprio.frontier import Politeness
from crawlprio.frontier.priority_classes import Demotion
from crawlprio.graph.topic import HotQueue, Topic
from crawlprio.measure.stored_crawl import LIMITS, SCRAPY_LIMITS
from crawlprio.orderings import Ordering, make_ordering
from crawlprio.plugins import ADDED, load, missing
from crawlprio.safe_files import is_missing
from crawlprio.settings_table.setting_types import (
    CONTACT,
    OWN_PREFIX,
    ShareToReach,
    Text,
    can_write,
    checked,
)
from crawlprio.settings_table.table import DELAY_RULES, FORMER_NAMES, POLITENESS, SETTINGS

logger = logging.getLogger("crawlprio")

_OWN_SETTINGS = [name for name, setting in SETTINGS.items() if setting.is_ours]
_POLITE = [
    *(setting.name for setting in POLITENESS.settings if not setting.is_ours),
    *("USER_AGENT", "ROBOTSTXT_USER_AGENT", "DOWNLOAD_SLOTS", "AUTOTHROTTLE_ENABLED"),
]
"""Scrapy's settings that keep a crawl polite: a misspelt one is an error, not a warning."""

_ALIKE = 0.87
"""Share of letters that a misspelt name has in common with its setting."""

VALUE_MODELS = ADDED["value models"]
"""The settings that name a model of what pages are worth."""

_TOPIC_OPTIONS = ("distance", "title", "body", "stem")

NO_LIMIT = 2**30
"""Fetches at once on a site where 0 is set, which means any number."""


@dataclass(frozen=True)
class CrawlConfig:
    """The settings of one crawl, parsed.

    A field has the name and the value of its setting, without CRAWLPRIO_, unless it says otherwise.
    `ordering_name` is ORDERING as it was given, for reports.
    """

    ordering_name: str
    ordering: Ordering
    topic: Topic | None
    topic_options: dict[str, int]
    """What the hot queue takes: `distance`, `title` and `body`."""
    value_model: Any
    """The `ScoredModel` that a setting of the kind `value models` names, or None."""
    new_demotion: Callable[[], Demotion | None]
    """Returns a new rule that puts pages off, or None."""
    politeness: Politeness
    limit: int
    """CONCURRENT_REQUESTS_PER_DOMAIN, a large number for 0."""
    store_path: Path | None
    resumes: bool
    """Whether JOBDIR is set, so that the crawl in an existing store is resumed."""
    fetches_again: bool
    """Whether a setting has the known pages of that crawl fetched again."""
    keeps_items: bool
    keeps_bodies: bool
    concurrency: int
    """CONCURRENT_REQUESTS; 0: no limit."""
    slots: dict[str, tuple[float | None, int | None]]
    """DOWNLOAD_SLOTS: delay (seconds) and limit by host; None: the default."""
    max_concurrent_requests: int | None
    pages_per_visit: int
    max_pages_per_site: int | None
    max_pages_per_domain: int | None
    max_pages_per_pattern: int | None
    max_sites: int | None
    max_pages: int | None
    max_waiting: int | None
    stop_at_coverage: ShareToReach | None
    kept_headers: frozenset[bytes] | None
    max_store_bytes: int | None
    keep_stores: int | None

    @classmethod
    def from_settings(
        cls, settings: BaseSettings, ordering: str | None = None, *, records: bool = True
    ) -> CrawlConfig:
        """Read and check all settings; `ordering` overrides ORDERING.

        The first unknown name or invalid value is a ConfigError, whether or not this crawl would
        use it; a name that looks like a misspelt setting is a warning. With `records` False,
        nothing is recorded, whatever CRAWLPRIO_STORE says.
        """
        for sentence in misspelt_names(settings):
            logger.warning("%s", sentence)
        require_extras(settings)  # reading the settings creates folders
        values = {name: read_setting(settings, name) for name in SETTINGS}
        is_explicit = settings.getpriority("CRAWLPRIO_STORE") is not None
        store_path = _store_path(values, is_explicit=is_explicit) if records else None
        name, options = ordering or values["ORDERING"], values["ORDERING_OPTIONS"]
        again = [each.again for each in SETTINGS.values() if each.again and values[each.name]]
        if again and values["JOBDIR"] and not is_missing(store_path or ""):
            name, options = again[0], {}
        made = make_ordering(name, options)
        judges = next(filter(values.get, VALUE_MODELS), "")
        if made.needs_values and not judges:
            raise ConfigError(
                f"ORDERING is {name!r}, which needs to know what pages are worth; set "
                f"{' or '.join(VALUE_MODELS)} (--value)."
            )
        model: Any = load("value models", judges)(values[judges]) if judges else None
        if made.needs_values:
            made.judge = model.judge
        topic, topic_options = topic_of(settings)
        demotes = next(filter(values.get, ADDED["demotions"]), "")
        named = {field.name: OWN_PREFIX + field.name.upper() for field in fields(cls)}
        return cls(
            ordering_name=name if isinstance(name, str) else getattr(name, "__name__", str(name)),
            ordering=made,
            topic=topic,
            topic_options=topic_options,
            value_model=model,
            new_demotion=lambda: load("demotions", demotes)(values[demotes]) if demotes else None,
            **_site_rules(values),
            store_path=store_path,
            resumes=values["JOBDIR"] is not None,
            fetches_again=bool(again),
            keeps_items=is_kept(settings, "CRAWLPRIO_ITEMS", "items") and records,
            keeps_bodies=is_kept(settings, "CRAWLPRIO_BODIES", "bodies") and records,
            concurrency=values["CONCURRENT_REQUESTS"],
            **{name: values[own] for name, own in named.items() if own in values},
        )

    def with_site_rules_of(self, settings: BaseSettings) -> CrawlConfig:
        """Return this with the delays and limits of sites that other settings have."""
        return replace(
            self, **_site_rules({name: read_setting(settings, name) for name in SETTINGS})
        )

    def hot_queue(self) -> HotQueue | None:
        """Return a new hot queue for the topic, or None if there is none."""
        return None if self.topic is None else HotQueue(self.topic, **self.topic_options)


def read_setting(settings: BaseSettings, name: str) -> Any:
    """Return the value of a setting of the table, checked and parsed by its kind.

    A setting that is not set has its default under the add-on, because the bundled project sets all
    of its own. None means Scrapy's default for one of Scrapy's settings, as in Scrapy.
    """
    setting = SETTINGS[name]
    given = setting.former_name if setting.former_name in settings else name
    value = settings[given] if given in settings else setting.guest_default  # noqa: SIM401 - None
    if value is None and not setting.is_ours:
        value = setting.guest_default
    return checked(name, setting.kind, value)


def invalid_stock_settings(settings: BaseSettings) -> Iterator[tuple[str, ConfigError]]:
    """Yield each of Scrapy's settings that has an invalid value, and its error.

    Scrapy's own components would read them first, and fail with a traceback.
    """
    for name, setting in SETTINGS.items():
        if not setting.is_ours:
            try:
                read_setting(settings, name)
            except ConfigError as error:
                yield name, error
    for name, default in vars(default_settings).items():
        if name in SETTINGS or not isinstance(default, int | float) or settings[name] is None:
            continue
        read, kind = (
            (settings.getbool, "True or False")
            if isinstance(default, bool) or name.endswith("_ENABLED")
            else (settings.getfloat, "a number")
        )
        try:
            read(name)
        except (TypeError, ValueError):
            yield name, ConfigError(f"{name} is {settings[name]!r}; give {kind}.")


def stock_default(name: str) -> Any:
    """Return Scrapy's default of one of its settings, or scrapy-redis's of one of its own."""
    return SETTINGS[name].guest_default if name in SETTINGS else getattr(default_settings, name)


_SHARDS = "CRAWLPRIO_REDIS_SHARDS"
"""A setting that there was."""


def misspelt_names(settings: BaseSettings) -> list[str]:
    """Return a warning for each unknown name that resembles a known setting.

    One that begins with `CRAWLPRIO_`, which can be meant for nothing else, is a ConfigError, and so
    is one that resembles a setting that keeps a crawl polite.
    """
    sentences = []
    known = [*SETTINGS, *filter(str.isupper, vars(default_settings))]
    for name in settings:
        if name in SETTINGS or hasattr(default_settings, name) or name.startswith("_"):
            continue
        if name == "USER_AGENTS":
            continue  # many middlewares read it: a list, or a file
        if name in FORMER_NAMES:
            sentences.append(
                f"{name} is now {FORMER_NAMES[name]}; the next version will not read the old name."
            )
            continue
        if name == _SHARDS and str(settings[name]) in ("1", "None", ""):
            continue  # as every crawl is
        if name == _SHARDS:
            raise ConfigError(
                f"{name} is {settings[name]!r}, but crawls are not spread over shards any more; "
                "leave it out, or split the seeds between several crawls and join their stores "
                "with 'crawlprio links collect'."
            )
        if name.upper().startswith(OWN_PREFIX):
            near = get_close_matches(name.upper(), _OWN_SETTINGS, 1, 0.0)[0]
            lost = ", ".join(sorted(set(missing("sections").values())))
            whose = f"this copy of crawlprio, which lacks plugins ({lost})" if lost else "crawlprio"
            raise ConfigError(f"{name} is not a setting of {whose}; the nearest is {near}.")
        near = next(iter(get_close_matches(name.upper(), known, 1, _ALIKE)), "")
        if not near or _holds_many(settings[name]) > _holds_many(stock_default(near)):
            continue
        if near in _POLITE:
            raise ConfigError(
                f"{name} is not a setting of Scrapy or crawlprio; the nearest is {near}."
            )
        sentences.append(
            f"{name} is set, but neither Scrapy nor crawlprio reads it; if you mean {near}, set "
            "that."
        )
    return sentences


def _holds_many(value: object) -> bool:
    """Return whether a value is a list or the like, as USER_AGENTS is and USER_AGENT is not."""
    return isinstance(value, list | tuple | set | dict | BaseSettings)


def from_command_line(settings: BaseSettings, name: str) -> bool:
    """Return whether the value of a setting comes from the command line."""
    return settings.getpriority(name) == SETTINGS_PRIORITIES["cmdline"]


def sets_concurrency(settings: BaseSettings) -> bool:
    """Return whether CONCURRENT_REQUESTS is set with at least the priority of its maximum."""
    name, most = "CONCURRENT_REQUESTS", "CRAWLPRIO_MAX_CONCURRENT_REQUESTS"
    given, grown = settings.getpriority(name), settings.getpriority(most)
    is_other = read_setting(settings, name) != SETTINGS[name].default
    return given is not None and given >= (grown or 0) and (is_other or given > (grown or 0))


def given_settings(settings: BaseSettings) -> dict[str, Any]:
    """Return the settings that the command line gave, unparsed, by name."""
    return {name: settings[name] for name in sorted(settings) if from_command_line(settings, name)}


def changed_settings(settings: BaseSettings) -> dict[str, Any]:
    """Return the settings of the table that are not at their default, unparsed."""
    given = {name: settings[name] for name in SETTINGS if name in settings}
    return {name: value for name, value in given.items() if value != SETTINGS[name].guest_default}


def require_extras(settings: BaseSettings) -> None:
    """Raise ConfigError if a setting needs a plugin or package that is missing; create nothing."""
    for name, setting in SETTINGS.items():
        setting.require(settings.get(name))


def limits_of(settings: BaseSettings) -> dict[str, Any]:
    """Return the values of the settings that limit a crawl, as they are written."""
    values = {name: read_setting(settings, name) for name in LIMITS}
    stop_at = values["CRAWLPRIO_STOP_AT_COVERAGE"]
    values["CRAWLPRIO_STOP_AT_COVERAGE"] = None if stop_at is None else stop_at.written
    for name in SCRAPY_LIMITS:
        with suppress(TypeError, ValueError):  # which Scrapy reports
            if (limit := settings.getfloat(name)) > 0:
                values[name] = limit
    return values


def given_components(settings: BaseSettings) -> Iterator[tuple[str, str]]:
    """Yield setting and import path of each part of Scrapy that the command line gave."""
    for name, value in given_settings(settings).items():
        paths: list[Any] = []
        if hasattr(default_settings, f"{name}_BASE") or name in ("ADDONS", "ITEM_PIPELINES"):
            parts = settings.getdict(name).items()
            paths = [word for pair in parts if pair[1] is not None for word in pair]
        elif str(getattr(default_settings, name, "")).startswith("scrapy."):
            paths = [value]
        yield from ((name, path) for path in paths if isinstance(path, str) and "." in path)


def names_component(settings: BaseSettings, name: str, component: type) -> bool:
    """Return whether a setting that lists components names this one, even to disable it."""
    return any(load_object(path) is component for path in settings.getdict(name))


def names_own_components(settings: BaseSettings, name: str) -> bool:
    """Return whether a dict of components enables any that are not Scrapy's or crawlprio's."""
    used = (path for path, order in settings.getdict(name).items() if order is not None)
    return any(
        not load_object(path).__module__.startswith(("scrapy.", "crawlprio.")) for path in used
    )


def writes_feeds(settings: BaseSettings) -> bool:
    """Return whether items are written to files, as with `-o`."""
    return bool(settings.getdict("FEEDS"))


def writes_items_to_stdout(settings: BaseSettings) -> bool:
    """Return whether a feed writes to standard output, as with `-o -:jsonl`."""
    return any(str(feed) in ("-", "stdout:") for feed in settings.getdict("FEEDS"))


def download_handler(settings: BaseSettings, scheme: str) -> Any:
    """Return the download handler of a scheme, a class or an import path; None if there is none."""
    return settings.getwithbase("DOWNLOAD_HANDLERS").get(scheme)


def use_download_handler(settings: BaseSettings, path: str) -> None:
    """Fetch http and https with a handler, unless the project names one of its own."""
    settings["DOWNLOAD_HANDLERS_BASE"].update({"http": path, "https": path})


def needs_twisted_tls(settings: BaseSettings) -> bool:
    """Return whether settings of TLS ask for what only Scrapy's handler on Twisted does."""
    own = {"DOWNLOADER_CLIENTCONTEXTFACTORY": "SENTINEL", "DOWNLOADER_CLIENT_TLS_METHOD": "TLS"}
    return settings.getbool("DOWNLOADER_CLIENT_TLS_VERBOSE_LOGGING") or any(
        settings[name] != usual for name, usual in own.items()
    )


def is_kept(settings: BaseSettings, name: str, what: str) -> bool:
    """Return whether a setting has something kept in the store, which must then exist."""
    is_on = bool(read_setting(settings, name))
    if is_on and read_setting(settings, "CRAWLPRIO_STORE") is None:
        raise ConfigError(
            f"{name} is on, but CRAWLPRIO_STORE is None, so there is no store to keep {what} in; "
            "name a file."
        )
    return is_on


def _site_rules(values: dict[str, Any]) -> dict[str, Any]:
    """Return the delays and limits of sites; AutoThrottle begins with a delay of its own."""
    rules = {rule: values[setting.name] for rule, setting in DELAY_RULES.items()}
    if values["AUTOTHROTTLE_ENABLED"]:
        rules["delay"] = max(rules["delay"], values["AUTOTHROTTLE_START_DELAY"])
    return {
        "politeness": Politeness(**rules),
        "limit": values["CONCURRENT_REQUESTS_PER_DOMAIN"] or NO_LIMIT,
        "slots": values["DOWNLOAD_SLOTS"],
    }


def topic_of(settings: BaseSettings, words: Any = None) -> tuple[Topic | None, dict[str, int]]:
    """Return TOPIC, or the topic of other words, and what its hot queue takes of TOPIC_OPTIONS."""
    terms = read_setting(settings, "TOPIC") if words is None else words
    options = read_setting(settings, "TOPIC_OPTIONS")
    for option in options:
        if option not in _TOPIC_OPTIONS:
            raise ConfigError(
                f"TOPIC_OPTIONS names {option!r}; known options: {', '.join(_TOPIC_OPTIONS)}."
            )
    if not terms:
        return None, {}
    topic = Topic(terms, stem=options.pop("stem", None))
    HotQueue(topic, **options)
    return topic, options


def scheduler_of(settings: BaseSettings) -> str:
    """Return the path of the scheduler, which a project may give as a class."""
    named = settings["SCHEDULER"]
    return named if isinstance(named, str) else f"{named.__module__}.{named.__qualname__}"


def queue_ordering(settings: BaseSettings) -> str | None:
    """Return the ordering that SCHEDULER_PRIORITY_QUEUE names, which precedes ORDERING, if any."""
    with suppress(ImportError, NameError, TypeError, ValueError):  # which Scrapy reports
        return getattr(load_object(settings["SCHEDULER_PRIORITY_QUEUE"]), "ordering", None)
    return None


def _store_path(values: Mapping[str, Any], *, is_explicit: bool) -> Path | None:
    """Return the path of the crawl store; inside JOBDIR, create its folder if it does not exist.

    The default store does not stop a crawl whose working folder is read-only.
    """
    store: Path | None = values["CRAWLPRIO_STORE"]
    jobdir = values["JOBDIR"]
    if store is None:
        return None
    if jobdir is None:
        if is_explicit or can_write(store.parent):
            return store
        logger.warning(
            "%s cannot be written in %s: nothing is recorded; set CRAWLPRIO_STORE to a writable "
            "file, or to None.",
            store,
            Path.cwd(),
        )
        return None
    path = Path(jobdir) / store
    try:
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    except OSError as error:
        raise ConfigError(
            f"CRAWLPRIO_STORE is {str(store)!r}, whose folder cannot be created in JOBDIR "
            f"{jobdir!r} ({error.strerror}); name another file."
        ) from None
    return path


_PRODUCT = re.compile(r"[\w!#$%&'*+.^`|~-]+(/[\w!#$%&'*+.^`|~-]+)?", re.ASCII).fullmatch
_OUR_AGENT = re.compile(r"(?:(\S+) )?crawlprio/\S+ \(\+?(.*)\)").fullmatch
_NO_CONTACT = "a Scrapy crawler"


def user_agent(name: str | None, contact: str | None, earlier: str) -> str:
    """Return a user agent that names the robot, if it has a name, crawlprio and the contact.

    What is not given is taken from the user agent so far, `earlier`. A name with spaces, or a
    contact that is neither a mail address nor a URL, is a ConfigError.
    """
    if name is not None and not _PRODUCT(name):
        raise ConfigError(f"--agent is {name!r}; give a name without spaces, as in mybot/1.0.")
    if contact is not None:
        checked("--contact", Text(*CONTACT), contact)
    found = _OUR_AGENT(earlier)
    if found is not None:
        name, contact = name or found[1], contact or found[2]
    comment = contact or _NO_CONTACT
    parts = (name, f"crawlprio/{__version__}", f"({'+' * ('://' in comment)}{comment})")
    return " ".join(filter(None, parts))


def lacks_contact(agent: str) -> bool:
    """Return whether a user agent is the bundled project's, and names nobody."""
    found = _OUR_AGENT(agent)
    return found is not None and found[2] == _NO_CONTACT


def robot_of(agent: str) -> str:
    """Return the part of a user agent that names the robot, without the contact."""
    return agent.partition(" (")[0]
