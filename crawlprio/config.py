"""What the settings of a crawl say, checked once at its start; the only reader of setting names.

Every bad value is a `ConfigError` of one sentence: setting, value, what is allowed.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from scrapy.settings import BaseSettings
from scrapy.utils.job import job_dir

from crawlprio.errors import ConfigError
from crawlprio.frontier import Politeness
from crawlprio.orderings import Ordering, make_ordering
from crawlprio.topic import HotQueue, Topic
from crawlprio.web.addresses import PRIVATE_ADDRESSES


@dataclass(frozen=True)
class CrawlConfig:
    """The settings of one crawl.

    Parameters
    ----------
    ordering_name
        ORDERING as it was given; the name that reports show.
    ordering
        the ordering itself, with ORDERING_OPTIONS.
    topic
        TOPIC; None without one.
    topic_options
        `distance`, `title` and `body` of the hot queue (TOPIC_OPTIONS).
    politeness
        the delay rules (DOWNLOAD_DELAY, CRAWLPRIO_*).
    limit
        fetches at once on a site (CONCURRENT_REQUESTS_PER_DOMAIN).
    concurrency
        fetches in flight, r (CONCURRENT_REQUESTS); 0: no limit.
    pages_per_visit
        k (CRAWLPRIO_PAGES_PER_VISIT).
    max_pages_per_site, max_pages_per_domain, max_pages_per_pattern
        pages of a site, of a registered domain, and of one pattern of URLs that are ever fetched
        (CRAWLPRIO_MAX_PAGES_PER_SITE and the like); None: no limit.
    max_waiting
        pages that may wait (CRAWLPRIO_MAX_WAITING); None: no limit.
    private_addresses
        "seeds", "allow" or "refuse" (CRAWLPRIO_PRIVATE_ADDRESSES).
    slots
        DOWNLOAD_SLOTS: own delay (seconds) and limit of single sites, by host; None: as for others.
    store_path
        where the crawl store goes; None: nothing is recorded.
    resumes
        whether JOBDIR is set, so that an existing store is gone on with.
    """

    ordering_name: str
    ordering: Ordering
    topic: Topic | None
    topic_options: dict[str, int]
    politeness: Politeness
    limit: int
    concurrency: int
    pages_per_visit: int
    max_pages_per_site: int | None
    max_pages_per_domain: int | None
    max_pages_per_pattern: int | None
    max_waiting: int | None
    private_addresses: str
    slots: dict[str, tuple[float | None, int | None]]
    store_path: Path | None
    resumes: bool

    @classmethod
    def from_settings(
        cls, settings: BaseSettings, ordering: str | None = None, *, records: bool = True
    ) -> CrawlConfig:
        """Read and check all settings.

        Parameters
        ----------
        ordering
            stands in for ORDERING where it is given.
        records
            False: nothing is recorded, whatever CRAWLPRIO_STORE says.

        Raises
        ------
        ConfigError
            for the first bad value.
        """
        name = ordering or settings.get("ORDERING", "opic")
        topic, topic_options = _topic(settings)
        jobdir = job_dir(settings)
        store = given(settings, "CRAWLPRIO_STORE", "crawl.sqlite")
        path = None if not records or store in (None, "", "None", False) else Path(str(store))
        if path is not None and jobdir is not None and not path.is_absolute():
            path = Path(jobdir) / path
        return cls(
            ordering_name=name if isinstance(name, str) else getattr(name, "__name__", str(name)),
            ordering=make_ordering(name, _options(settings, "ORDERING_OPTIONS")),
            topic=topic,
            topic_options=topic_options,
            politeness=Politeness(
                delay=_number(settings, "DOWNLOAD_DELAY", 0.0),
                small_site_delay=(
                    None
                    if settings.get("CRAWLPRIO_SMALL_SITE_DELAY") in (None, "", "None")
                    else _number(settings, "CRAWLPRIO_SMALL_SITE_DELAY", 0.0)
                ),
                small_site_pages=_whole(settings, "CRAWLPRIO_SMALL_SITE_PAGES", 100),
                adaptive=_number(settings, "CRAWLPRIO_ADAPTIVE_DELAY", 0.0),
                max_adaptive=_number(settings, "CRAWLPRIO_MAX_ADAPTIVE_DELAY", 60.0),
                max_crawl_delay=_number(settings, "CRAWLPRIO_MAX_CRAWL_DELAY", 300.0),
                max_back_off=_number(settings, "CRAWLPRIO_MAX_BACK_OFF", 3600.0),
            ),
            limit=_whole(settings, "CONCURRENT_REQUESTS_PER_DOMAIN", 8) or 2**30,
            concurrency=_whole(settings, "CONCURRENT_REQUESTS", 16),
            pages_per_visit=_whole(settings, "CRAWLPRIO_PAGES_PER_VISIT", 1, least=1),
            max_pages_per_site=_budget(settings, "CRAWLPRIO_MAX_PAGES_PER_SITE"),
            max_pages_per_domain=_budget(settings, "CRAWLPRIO_MAX_PAGES_PER_DOMAIN"),
            max_pages_per_pattern=_budget(settings, "CRAWLPRIO_MAX_PAGES_PER_PATTERN"),
            max_waiting=_budget(settings, "CRAWLPRIO_MAX_WAITING"),
            private_addresses=_private_addresses(settings),
            slots=_slots(settings),
            store_path=path,
            resumes=jobdir is not None,
        )

    def hot_queue(self) -> HotQueue | None:
        """Return a new hot queue for the topic, or None without one."""
        return None if self.topic is None else HotQueue(self.topic, **self.topic_options)


def bad_stock_number(settings: BaseSettings) -> tuple[str, ConfigError] | None:
    """Return the first bad one of the settings that Scrapy itself reads, and what to say of it.

    Scrapy's downloader reads these before any component of a project, and fails with a traceback.
    """
    checks: dict[str, Callable[[BaseSettings, str, Any], object]] = {
        "CONCURRENT_REQUESTS": _whole,
        "CONCURRENT_REQUESTS_PER_DOMAIN": _whole,
        "DOWNLOAD_DELAY": _number,
        "DOWNLOAD_SLOTS": lambda settings, *_: _slots(settings),
        "JOBDIR": lambda settings, *_: _job_folder(settings),
    }
    for name, check in checks.items():
        try:
            check(settings, name, 0)
        except ConfigError as error:
            return name, error
    return None


def _job_folder(settings: BaseSettings) -> str | None:
    """JOBDIR, which is made if it is not there."""
    try:
        return job_dir(settings)
    except OSError as error:
        raise ConfigError(
            f"JOBDIR is {settings.get('JOBDIR')!r}, and no such folder can be made "
            f"({error.strerror}); name another one."
        ) from None


def given(settings: BaseSettings, name: str, default: Any) -> Any:
    """Return a setting, None too where it is set to that, or the default where it is not set."""
    return settings[name] if name in settings else default  # noqa: SIM401 - get() drops None


def _topic(settings: BaseSettings) -> tuple[Topic | None, dict[str, int]]:
    """TOPIC and TOPIC_OPTIONS, checked."""
    options = _options(settings, "TOPIC_OPTIONS")
    known = ("distance", "title", "body", "stem")
    for option in options:
        if option not in known:
            raise ConfigError(f"TOPIC_OPTIONS names {option!r}; known options: {', '.join(known)}.")
    terms = settings.get("TOPIC")
    if not terms:
        return None, {}
    topic = Topic(terms, stem=options.pop("stem", None))
    HotQueue(topic, **options)
    return topic, options


def _options(settings: BaseSettings, name: str) -> dict[str, Any]:
    """A setting that is a dict, or JSON of one on the command line."""
    try:
        return dict(settings.getdict(name))
    except (TypeError, ValueError):
        raise ConfigError(
            f"{name} is {settings.get(name)!r}; give a dict, as JSON on the command line: "
            "'{\"option\": 1}'."
        ) from None


def _slots(settings: BaseSettings) -> dict[str, tuple[float | None, int | None]]:
    """DOWNLOAD_SLOTS, checked."""
    slots: dict[str, tuple[float | None, int | None]] = {}
    for host, slot in _options(settings, "DOWNLOAD_SLOTS").items():
        if not isinstance(slot, Mapping):
            raise ConfigError(
                f"DOWNLOAD_SLOTS of {host!r} is {slot!r}; give a dict with delay or concurrency."
            )
        delay, limit = slot.get("delay"), slot.get("concurrency")
        slots[host] = (
            None if delay is None else _checked_number(f"DOWNLOAD_SLOTS of {host!r}: delay", delay),
            None
            if limit is None
            else _checked_whole(f"DOWNLOAD_SLOTS of {host!r}: concurrency", limit, 1),
        )
    return slots


def _budget(settings: BaseSettings, name: str) -> int | None:
    """A setting that bounds a number of pages; None where it is not set."""
    if settings.get(name) in (None, "", "None"):
        return None
    return _whole(settings, name, 0, least=1)


def _private_addresses(settings: BaseSettings) -> str:
    """CRAWLPRIO_PRIVATE_ADDRESSES, checked."""
    mode = settings.get("CRAWLPRIO_PRIVATE_ADDRESSES", "seeds")
    if mode not in PRIVATE_ADDRESSES:
        raise ConfigError(
            f"CRAWLPRIO_PRIVATE_ADDRESSES is {mode!r}; known values: "
            f"{', '.join(PRIVATE_ADDRESSES)}."
        )
    return str(mode)


def _number(settings: BaseSettings, name: str, default: float) -> float:
    """A setting in seconds or the like: a finite number of 0 or more."""
    return _checked_number(name, settings.get(name, default))


def _checked_number(name: str, value: Any) -> float:
    try:
        number = float(value)
    except (TypeError, ValueError):
        number = math.nan
    if not 0 <= number < math.inf:
        raise ConfigError(f"{name} is {value!r}; give a number of 0 or more.")
    return number


def _whole(settings: BaseSettings, name: str, default: int, *, least: int = 0) -> int:
    """A setting that counts: a whole number of `least` or more."""
    return _checked_whole(name, settings.get(name, default), least)


def _checked_whole(name: str, value: Any, least: int) -> int:
    try:
        number = int(value)
        if number != float(value) or number < least:
            raise ValueError
    except (TypeError, ValueError, OverflowError):
        raise ConfigError(f"{name} is {value!r}; give a whole number of {least} or more.") from None
    return number
