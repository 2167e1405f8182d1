"""The command `crawlprio crawl`: sites in order of importance, from any folder."""

from __future__ import annotations

import argparse

from crawlprio.commands.site_crawl import SiteCrawlCommand
from crawlprio.errors import ConfigError
from crawlprio.setting_table import SETTINGS

_SETTINGS = {
    "ordering": ("ORDERING", "NAME", "which waiting page comes next; default: {default}"),
    "topic": ("TOPIC", "WORDS", "words and phrases, with commas between, that come first"),
    "pages": ("CLOSESPIDER_PAGECOUNT", "N", "stop after N answers, those of robots.txt included"),
    "delay": ("DOWNLOAD_DELAY", "SECONDS", "the least pause on a site; default: {default}"),
    "at-once": ("CONCURRENT_REQUESTS", "N", "fetches at once on all sites; default: {default}"),
    "depth": ("DEPTH_LIMIT", "N", "links from a seed to a page at most; default: no limit"),
    "store": ("CRAWLPRIO_STORE", "FILE", "where all is recorded; default: {default}"),
    "folder": ("JOBDIR", "FOLDER", "keep the crawl in FOLDER, to resume it with crawlprio resume"),
}
"""Options that stand for a setting: its name, what the option takes, and what it is."""

_ARGUMENTS = {
    "follow": ("site|domain|web", "which links: those within the seeds' hosts, the default, their "
               "registered domains, or all"),
    "allow": ("REGEX", "follow only URLs in which this is found"),
    "deny": ("REGEX", "follow no URL in which this is found"),
}  # fmt: skip
"""Options that are arguments of the spider."""


class Command(SiteCrawlCommand):
    """`crawlprio crawl URL...` crawls with the spider `site` and the settings of the project."""

    def syntax(self) -> str:
        return "[options] URL... | @FILE | --demo"

    def short_desc(self) -> str:
        return "Crawl sites, the important pages first"

    def long_desc(self) -> str:
        return (
            "Crawl from each URL (@FILE: one a line), the important pages first, politely: "
            "robots.txt is obeyed, and a site has one fetch at a time. All pages and links are "
            "recorded in a crawl store, which crawlprio score, simulate, links and replay read. "
            "With --folder the crawl can be ended at any moment, and resumed."
        )

    def add_options(self, parser: argparse.ArgumentParser) -> None:
        group = parser.add_argument_group(title="Crawl")
        for option, (metavar, meaning) in _ARGUMENTS.items():
            group.add_argument(f"--{option}", metavar=metavar, help=meaning)
        for option, (name, metavar, meaning) in _SETTINGS.items():
            setting = SETTINGS.get(name)
            text = meaning.format(default=setting.default) if setting else meaning
            group.add_argument(f"--{option}", metavar=metavar, help=text)
        group.add_argument(
            "--demo", action="store_true", help="crawl a made-up web, served on this machine"
        )
        super().add_options(parser)

    def prepare(self, args: list[str], opts: argparse.Namespace) -> None:
        for option in _ARGUMENTS:
            if getattr(opts, option) is not None:
                opts.spargs[option] = getattr(opts, option)
        for option, (name, _, _) in _SETTINGS.items():
            value = getattr(opts, option.replace("-", "_"))
            if value is not None:
                self.set(name, value)
        if args:
            opts.spargs["seeds"] = _seeds(args)
        has_seeds = not {"seeds", "url"}.isdisjoint(opts.spargs)
        if opts.demo and has_seeds:
            raise ConfigError(
                "--demo crawls a made-up web and takes no URL; leave out one of them."
            )
        if not (opts.demo or has_seeds):
            raise ConfigError(
                "crawlprio crawl was given no URL; say where to start, as in crawlprio crawl "
                "https://example.org/, or crawl the made-up web with --demo."
            )
        if has_seeds:
            _check(opts.spargs)


def _seeds(args: list[str]) -> str:
    """The seeds as the spider takes them."""
    if len(args) > 1 and any(arg.startswith("@") for arg in args):
        raise ConfigError(f"found {' '.join(args)}; give URLs or one @FILE.")
    if len(args) == 1:
        return args[0]
    return ",".join(arg.replace(",", "%2C") for arg in args)


def _check(arguments: dict[str, str]) -> None:
    """Refuse what the spider would refuse, before anything is started."""
    from crawlprio.spiders.site import SiteSpider

    SiteSpider(**arguments)
