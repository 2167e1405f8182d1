"""The command `crawlprio crawl`: crawls sites in order of importance, from any folder."""

from __future__ import annotations

import argparse

from crawlprio.commands.site_crawl import SiteCrawlCommand
from crawlprio.errors import ConfigError

_SETTINGS = {
    "ordering": ("ORDERING", "NAME", "how to choose the next page; default: {default}"),
    "topic": ("TOPIC", "WORDS", "comma-separated words and phrases; pages about them come first"),
    "pages": ("CLOSESPIDER_PAGECOUNT", "N", "stop after N responses, counting robots.txt files"),
    "delay": ("DOWNLOAD_DELAY", "SECONDS", "minimum delay on a site; default: {default}"),
    "at-once": ("CONCURRENT_REQUESTS", "N", "maximum concurrent fetches; default: {default}"),
    "depth": ("DEPTH_LIMIT", "N", "maximum links from a seed to a page; default: no limit"),
    "store": ("CRAWLPRIO_STORE", "FILE", "crawl store to record in; default: {default}"),
    "folder": ("JOBDIR", "FOLDER", "keep the crawl in FOLDER, to resume it with crawlprio resume"),
}
"""Options that set a setting: the name of the setting, the metavar, and the help text."""

_ARGUMENTS = {
    "follow": ("site|domain|web", "which links to follow: those within the seeds' hosts (default), "
               "those within their registered domains, or all"),
    "allow": ("REGEX", "follow only URLs that contain a match"),
    "deny": ("REGEX", "follow no URL that contains a match"),
}  # fmt: skip
"""Options that are arguments of the spider."""


class Command(SiteCrawlCommand):
    """`crawlprio crawl URL...` crawls with the spider `site` and the bundled settings."""

    def syntax(self) -> str:
        return "[options] URL... | @FILE | --demo"

    def short_desc(self) -> str:
        return "Crawl sites, important pages first"

    def long_desc(self) -> str:
        return (
            "Crawl from each URL (@FILE: one per line), important pages first. The crawl is "
            "polite: it obeys robots.txt, and fetches one page at a time from each site. All pages "
            "and links are recorded in a crawl store, which crawlprio score, simulate, links and "
            "replay read. With --folder, the crawl can be stopped at any time and resumed."
        )

    def add_options(self, parser: argparse.ArgumentParser) -> None:
        assert self.settings is not None
        group = parser.add_argument_group(title="Crawl")
        for option, (metavar, meaning) in _ARGUMENTS.items():
            group.add_argument(f"--{option}", metavar=metavar, help=meaning)
        for option, (name, metavar, meaning) in _SETTINGS.items():
            text = meaning.format(default=self.default_settings.get(name))
            group.add_argument(f"--{option}", metavar=metavar, help=text)
        group.add_argument(
            "--demo", action="store_true", help="crawl the demo web, served on this machine"
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
            raise ConfigError("--demo crawls the demo web and takes no URL; leave out one of them.")
        if not (opts.demo or has_seeds):
            raise ConfigError(
                "crawlprio crawl was given no URL; say where to start, as in crawlprio crawl "
                "https://example.org/, or crawl the demo web with --demo."
            )
        if has_seeds:
            _check(opts.spargs)


def _seeds(args: list[str]) -> str:
    """Return the seeds in the form that the spider takes."""
    if len(args) > 1 and any(arg.startswith("@") for arg in args):
        raise ConfigError(f"found {' '.join(args)}; give URLs or one @FILE.")
    if len(args) == 1:
        return args[0]
    return ",".join(arg.replace(",", "%2C") for arg in args)


def _check(arguments: dict[str, str]) -> None:
    """Refuse what the spider would refuse, before anything starts."""
    from crawlprio.spiders.site import SiteSpider

    SiteSpider(**arguments)
