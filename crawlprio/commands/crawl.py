"""The commands that crawl with the spider `site`: `crawl`, `resume`, `replay`, and their base."""

from __future__ import annotations

import argparse
import json
import os
import shlex
import sys
from collections.abc import Mapping
from importlib import import_module
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple

from scrapy.commands import BaseRunSpiderCommand
from scrapy.commands.crawl import Command as ScrapyCrawlCommand
from scrapy.exceptions import UsageError

from crawlprio.commands import (
    Described,
    Option,
    field_of,
    in_one_line,
    program,
    refuse_unknown_options,
    setting_option,
)
from crawlprio.errors import ConfigError, CrawlprioError, printable
from crawlprio.extras import load_named
from crawlprio.graph.compiled import notice
from crawlprio.live.roles import OF_THE_RUN, WORKER, facts_of
from crawlprio.orderings import NAMED, make_ordering
from crawlprio.plugins import load_all
from crawlprio.safe_files import is_missing
from crawlprio.settings_table.config import (
    VALUE_MODELS,
    from_command_line,
    given_components,
    given_settings,
    limits_of,
    read_setting,
    require_extras,
    robot_of,
    user_agent,
)
from crawlprio.settings_table.setting_types import Int
from crawlprio.settings_table.table import SETTINGS
from crawlprio.store import Store

if TYPE_CHECKING:
    from scrapy import Spider
    from scrapy.crawler import Crawler
    from scrapy.settings import Settings


def _setting_options() -> dict[str, Option]:
    """Return the options that settings declare, by name."""
    options = {}
    for setting in SETTINGS.values():
        if setting.option:
            name, _, metavar = setting.option.partition(" ")
            options[name] = setting_option(setting, metavar or None, setting.default)
    options["--at-once"] = options["--at-once"]._replace(kind=Int(1))
    return options


OPTIONS = _setting_options()
"""Options that set a setting."""

SPIDERS = {
    "--follow": Option(
        "site|domain|web",
        "which links to follow: those within the seeds' hosts (default), those within their "
        "registered domains, or all",
    ),
    "--allow": Option("REGEX", "follow only URLs that contain a match"),
    "--deny": Option("REGEX", "follow no URL that contains a match"),
}
"""Options that are arguments of the spider."""

ROBOT = {
    "--contact": Option("WHO", "mail address or URL to name in the user agent"),
    "--agent": Option("NAME", "name of your robot in the user agent: NAME[/VERSION]"),
}
"""Options that make up the user agent."""

_TOPICAL: dict[str, Any] = {"ORDERING": "value", "TOPIC_OPTIONS": '{"distance": 0}'}
"""What `--topic` sets beside the topic and its value model, unless it is given."""

_NOT_OURS = ("SPIDER_MODULES", "BOT_NAME")


class Recorded(NamedTuple):
    """What the last run of a crawl recorded.

    `ordering` and `value_model`: what ruled it; empty: none. `kept`: its settings, and its spider's
    arguments, that apply again. `lost`: names of its settings that were neither kept nor given
    again.
    """

    ordering: str
    value_model: str
    kept: dict[str, Any]
    lost: list[str]


def bundled_settings() -> dict[str, Any]:
    """Return the settings of the bundled project, for a crawl outside it."""
    module = import_module("crawlprio.settings")
    return {
        name: getattr(module, name)
        for name in dir(module)
        if name.isupper() and name not in _NOT_OURS
    }


class SiteCrawlCommand(Described, BaseRunSpiderCommand):
    """A command that crawls, with the exit statuses that `docs/reliability.md` lists.

    A subclass implements `prepare` instead of `process_options` and `run`.
    """

    settings: Settings
    requires_project = False
    default_settings: ClassVar[dict[str, Any]] = bundled_settings()
    options: ClassVar[Mapping[str, Option]] = SPIDERS | OPTIONS | ROBOT

    def add_options(self, parser: argparse.ArgumentParser) -> None:
        self.set_up(parser)
        super().add_options(parser)

    def prepare(self, args: list[str], opts: argparse.Namespace) -> None:
        """Convert arguments and options to settings, and to spider arguments in `opts.spargs`.

        Raises `CrawlprioError` for invalid input.
        """
        raise NotImplementedError

    def process_options(self, args: list[str], opts: argparse.Namespace) -> None:
        """Refuse invalid input before Scrapy creates an event loop that nothing would close."""
        super().process_options(args, opts)
        if facts_of(WORKER) is not None:
            self.set("CRAWLPRIO_PRINT", False)
        try:
            refuse_unknown_options(self.title.lower(), args)
            self.parse_options(opts)
            if getattr(opts, "topic", None):
                for name, value in _TOPICAL.items():
                    self.set_default(name, value)
                self.set_default("CRAWLPRIO_VALUE", f"words:{opts.topic}")
            self.prepare(args, opts)
            require_extras(self.settings)
            # Scrapy imports them later, when the working folder is not searched.
            for name, path in given_components(self.settings):
                load_named(name, path)
            self._check_store()
            for begin in load_all("before the event loop"):
                begin(self.settings)
        except (CrawlprioError, OSError) as error:
            print(in_one_line(error), file=sys.stderr)
            sys.exit(2)

    def set(self, name: str, value: object) -> None:
        """Set a setting as the command line would."""
        self.settings.set(name, value, "cmdline")

    def set_default(self, name: str, value: object) -> None:
        """Set a setting unless the command line does; override what a project sets."""
        if not from_command_line(self.settings, name):
            self.set(name, value)

    def take_options(self, opts: argparse.Namespace) -> None:
        """Convert the options of a crawl to settings, and to arguments of its spider."""
        for names, option in self.own_options().items():
            value = getattr(opts, field_of(names))
            if value is not None and names in SPIDERS:
                opts.spargs[field_of(names)] = value
            elif value is not None and option.setting:
                self.set(option.setting, value)
        if opts.agent is not None or opts.contact is not None:
            agent = user_agent(
                opts.agent, opts.contact, str(read_setting(self.settings, "USER_AGENT"))
            )
            self.set("USER_AGENT", agent)
            self.set("ROBOTSTXT_USER_AGENT", robot_of(agent))

    def take_recorded(self, store: Path, opts: argparse.Namespace) -> Recorded:
        """Take the spider arguments and settings that a crawl had, except those given here."""
        from crawlprio.live.spider_arguments import read_arguments

        with Store.open(store, readonly=True) as recorded:
            kept = read_arguments(recorded)
            ruled = recorded.orderings()
            model = recorded.get_meta("value_model")
        for name, value in kept.values.items():
            if not from_command_line(self.settings, name):
                self.set(name, value)
        self.take_options(opts)
        lost = [name for name in kept.lost if not from_command_line(self.settings, name)]
        before = {k: v for k, v in kept.arguments.items() if k != "seeds" and k not in opts.spargs}
        now = given_settings(self.settings)
        before |= {k: v for k, v in kept.values.items() if now.get(k) == v is not None}
        opts.spargs = {**kept.arguments, **opts.spargs}
        return Recorded(ruled[-1][1] if ruled else "", model, before, lost)

    def option(self, name: str, value: object = None) -> str:
        """Return the option that sets a setting or an argument of the spider, with its value."""
        names = {field_of(each): each for each in SPIDERS}
        flag = (names | {option.setting: each for each, option in OPTIONS.items()}).get(name, "")
        if value is None or (flag and self.options[flag].metavar is None):
            return flag or f"-s {name}"
        quoted = shlex.quote(str(value))
        return f"{flag} {quoted}" if flag else f"-s {name}={quoted}"

    def run(self, args: list[str], opts: argparse.Namespace) -> None:
        from crawlprio.spiders.site import SiteSpider

        self.crawl(SiteSpider, opts)

    def crawl(self, spider: type[Spider], opts: argparse.Namespace) -> Crawler:
        """Crawl with a spider; set the exit status, and return the crawler."""
        from crawlprio.live.crawl_context import CrawlContext
        from crawlprio.live.engine import forced_end

        assert self.crawler_process is not None
        crawler = self._create_crawler(spider)
        self.crawler_process.crawl(crawler, **opts.spargs)
        with forced_end(self.crawler_process, lambda: CrawlContext.of(crawler).has_begun):
            self.crawler_process.start()
        crawl = CrawlContext.of(crawler)
        if crawl.is_running:  # a second Ctrl-C stopped the event loop
            crawl.close("interrupted")
            self.exitcode = 130
        elif self.crawler_process.bootstrap_failed:
            self.exitcode = 1 if isinstance(crawl.failure, OF_THE_RUN | None) else 2
        return crawler

    def _check_store(self) -> None:
        """Refuse a store whose folder does not exist; a job directory is created."""
        store = read_setting(self.settings, "CRAWLPRIO_STORE")
        if store is None or from_command_line(self.settings, "JOBDIR"):
            return
        if os.path.isdir(store):
            raise ConfigError(f"CRAWLPRIO_STORE is {str(store)!r}, which is a folder; name a file.")
        if is_missing(store.parent):
            raise ConfigError(
                f"CRAWLPRIO_STORE is {str(store)!r}, but there is no folder {store.parent}; "
                "create it first."
            )


class Command(SiteCrawlCommand):
    """`crawlprio crawl URL...` crawls with the spider `site` and the bundled settings."""

    title = "Crawl"
    takes = "[options] URL... | @FILE | --demo"
    does = "Crawl sites, important pages first"
    about = (
        "Crawl from each URL (@FILE: one per line), important pages first. The crawl is "
        "polite: it obeys robots.txt, and fetches one page at a time from each site. All pages "
        "and links are recorded in a crawl store, which crawlprio score, simulate, links and "
        "replay read. With --folder, the crawl can be stopped at any time and resumed."
    )
    examples = (
        "crawl https://example.org/ --folder example --pages 10000",
        "crawl https://a.example/ https://b.example/ --contact me@a.example",
        "crawl @seeds.txt --follow domain --ordering rankmass",
        "crawl https://example.org/ --pages 10000 --plan",
        "crawl --demo --pages 2000",
    )

    options: ClassVar = {
        **SiteCrawlCommand.options,
        "--folder": Option(
            "FOLDER", "keep the crawl in FOLDER, to resume it with crawlprio resume"
        ),
        "--demo": Option(None, "crawl the demo web, served on this machine"),
        "--plan": Option(
            None, "fetch robots.txt, sitemaps and home pages only, and say what a crawl would do"
        ),
        "--json": Option(None, "with --plan: print it as JSON"),
    }

    def prepare(self, args: list[str], opts: argparse.Namespace) -> None:
        self.take_options(opts)
        if opts.value is not None:
            self.set_default("ORDERING", "value")
        if opts.folder is not None and not opts.plan:
            if not opts.folder:
                raise ConfigError("--folder is empty; name a folder, or leave it out.")
            self.set("JOBDIR", opts.folder)
        if args:
            opts.spargs["seeds"] = _seeds(args)
        has_seeds = not {"seeds", "url"}.isdisjoint(opts.spargs)
        if opts.plan and not has_seeds:
            raise ConfigError("--plan needs a URL, and does not go with --demo; give a URL.")
        if opts.json and not opts.plan:
            raise ConfigError("--json prints a plan; add --plan, or leave --json out.")
        if opts.demo and has_seeds:
            raise ConfigError("--demo crawls the demo web and takes no URL; leave out one of them.")
        if not (opts.demo or has_seeds):
            raise ConfigError(
                "crawlprio crawl needs a URL, as in crawlprio crawl https://example.org/; to crawl "
                "the demo web, give --demo."
            )
        if has_seeds:
            from crawlprio.spiders.site import SiteSpider

            SiteSpider(**opts.spargs)  # refuses what the crawl would, before anything starts
        if opts.plan:
            self._prepare_plan()

    def _prepare_plan(self) -> None:
        """Turn the settings of the crawl into those of its dry run."""
        from crawlprio.commands.planning import planning_settings

        assert self.settings is not None
        # What the crawl needs, and the dry run does without.
        require_extras(self.settings)
        make_ordering(*(read_setting(self.settings, n) for n in ("ORDERING", "ORDERING_OPTIONS")))
        self._limits = limits_of(self.settings)
        self._folder = TemporaryDirectory()
        for name, value in planning_settings(self.settings, self._folder.name).items():
            self.set(name, value)

    def run(self, args: list[str], opts: argparse.Namespace) -> None:
        if not opts.plan:
            super().run(args, opts)
            return

        from crawlprio.commands.planning import PlanSpider, has_answer, lines_of_plan, plan_of
        from crawlprio.show.tables import PipeSafeConsole

        with self._folder:
            spider = self.crawl(PlanSpider, opts).spider
        if not self.exitcode and isinstance(spider, PlanSpider):
            plan = plan_of(spider.found, self._limits)
            lines = map(printable, lines_of_plan(plan))
            text = json.dumps(plan, indent=1) if opts.json else "\n".join(lines)
            PipeSafeConsole().out(text, highlight=False)
            self.exitcode = 0 if has_answer(plan) else 1


def _seeds(args: list[str]) -> str:
    """Return the seeds in the form that the spider takes."""
    if len(args) > 1 and any(arg.startswith("@") for arg in args):
        raise ConfigError(f"found {' '.join(args)}; give URLs or one @FILE.")
    if len(args) == 1:
        return args[0]
    return ",".join(arg.replace(",", "%2C") for arg in args)


class ResumeCommand(SiteCrawlCommand):
    """`crawlprio resume FOLDER` resumes with the arguments and settings that the crawl had."""

    title = "Resume"
    takes = "[options] FOLDER"
    does = "Resume a crawl from its folder, however it ended"
    about = (
        "Resume the crawl of the spider 'site' that was started with crawlprio crawl --folder "
        "FOLDER or -s JOBDIR=FOLDER, however it ended, with the options of its last run; those "
        "given here replace them. The first line says which apply. Classes, keys, passwords "
        "and limits of one run (--pages) are not kept."
    )
    examples = (
        "resume example",
        "resume example --pages 10000 --delay 2",
        "resume example --ordering opic",
    )

    def prepare(self, args: list[str], opts: argparse.Namespace) -> None:
        if len(args) != 1:
            given = f"{len(args)} arguments" if args else "none"
            name = self.title.lower()
            raise ConfigError(f"crawlprio {name} takes one FOLDER and was given {given}.")
        folder = Path(args[0])
        stores = list(folder.glob("*.sqlite"))
        if opts.store is not None:
            self.set("CRAWLPRIO_STORE", opts.store)
        elif len(stores) == 1 and not from_command_line(self.settings, "CRAWLPRIO_STORE"):
            self.set("CRAWLPRIO_STORE", stores[0].name)
        path = folder / (read_setting(self.settings, "CRAWLPRIO_STORE") or "")
        if is_missing(path):
            raise ConfigError(
                f"{folder} has no crawl to resume ({path} is missing); start one with crawlprio "
                f"crawl URL --folder {folder}."
            )
        self.set("JOBDIR", str(folder))
        before = self.take_recorded(path, opts)
        models = (read_setting(self.settings, name) for name in VALUE_MODELS)
        if before.value_model and not any(models):
            raise ConfigError(
                f"the crawl in {folder} used the value model {before.value_model}, and a store "
                "must not choose code or files to load; give the model again, with --value."
            )
        if before.ordering not in ("", *NAMED) and not from_command_line(self.settings, "ORDERING"):
            raise ConfigError(
                f"the crawl in {folder} used the ordering {before.ordering}, and a store must not "
                "choose code to run; give the ordering again, with --ordering."
            )
        missed = [
            name for name in before.lost if name in SETTINGS and not SETTINGS[name].is_of_one_run
        ]
        if missed:
            raise ConfigError(
                f"the crawl in {folder} had {', '.join(map(self.option, missed))}, which a resume "
                "does not restore (no code, keys or missing files); give it again."
            )
        self._print_kept(before)

    def _print_kept(self, before: Recorded) -> None:
        """Print in one line which options of the last run apply to this one, and which do not."""
        kept = [self.option(*of) for of in before.kept.items() if of[0] != "ROBOTSTXT_USER_AGENT"]
        gone = ", ".join(map(self.option, before.lost))
        if (kept or gone) and read_setting(self.settings, "CRAWLPRIO_PRINT"):
            told = f"options as before: {' '.join(kept) or 'none'}"
            notice(printable(f"{told}; not kept: {gone}." if gone else f"{told}."))


OWN_FILES = {
    "CRAWLPRIO_STORE": "replay.sqlite",
    "CRAWLPRIO_PLOT": "replay.png",
    "CRAWLPRIO_RECEIPT": False,
}
"""What keeps the files of a replay apart from those of the crawls beside it."""


class ReplayCommand(SiteCrawlCommand):
    """Crawls WARC files or a crawl store with the spider `site`, served over HTTP on loopback.

    Pages come from the recording for http and https alike; a page that it lacks gets a 404. Nothing
    is fetched from anywhere else.
    """

    title = "Replay"
    takes = "[options] WARC|STORE"
    does = "Crawl WARC files or a crawl store as if it were the web"
    about = (
        "Crawl a recording, a WARC file, a folder of them or a crawl store, with the spider "
        "'site' as if it were the web: -a seeds=URL sets where to start, -s ORDERING=NAME sets "
        "the order, and -s CRAWLPRIO_MAX_PAGES=N sets when to stop. It is recorded in "
        "replay.sqlite and drawn in replay.png, unless CRAWLPRIO_STORE and CRAWLPRIO_PLOT say "
        "otherwise."
    )
    examples = (
        "replay crawl.sqlite -s ORDERING=opic",
        "replay pages.warc.gz -a seeds=http://example.org/ -s TOPIC=chess",
    )

    options: ClassVar = {"--value": OPTIONS["--value"]}

    def prepare(self, args: list[str], opts: argparse.Namespace) -> None:
        if len(args) != 1:
            raise ConfigError(
                f"{program()} replay takes one recording, a WARC file, a folder of them or a "
                "crawl store."
            )
        if is_missing(args[0]):
            raise ConfigError(
                f"{args[0]}: no such file; give a WARC file, a folder of them or a crawl store."
            )
        self.set("CRAWLPRIO_REPLAY", args[0])
        if opts.value is not None:
            self.set("CRAWLPRIO_VALUE", opts.value)
        for name, own in OWN_FILES.items():
            if str(read_setting(self.settings, name)) == str(SETTINGS[name].default):
                self.set(name, own)


class ProjectCrawlCommand(ScrapyCrawlCommand):
    """`scrapy crawl` of the bundled project, which refuses unknown options by their names.

    Scrapy takes them for more spiders. It names a command by its module, and the last class counts.
    """

    def run(self, args: list[str], opts: argparse.Namespace) -> None:
        unknown = next((arg for arg in args if arg.startswith("-")), None)
        if unknown is not None:
            raise UsageError(
                f"scrapy crawl has no option {unknown}; see scrapy crawl --help, or crawlprio "
                "crawl --help, which has more.",
                print_help=False,
            )
        super().run(args, opts)
