"""What the commands share that crawl with the spider `site` and the bundled settings, anywhere."""

from __future__ import annotations

import argparse
import sys
from importlib import import_module
from typing import Any, ClassVar

from scrapy.commands import BaseRunSpiderCommand

from crawlprio.commands import HelpFormatter, end_in_one_line, unknown_option
from crawlprio.errors import CrawlprioError

_NOT_OURS = ("SPIDER_MODULES", "BOT_NAME")


def bundled_settings() -> dict[str, Any]:
    """Return the settings of the bundled project, for a crawl outside of it."""
    module = import_module("crawlprio.settings")
    return {
        name: getattr(module, name)
        for name in dir(module)
        if name.isupper() and name not in _NOT_OURS
    }


class SiteCrawlCommand(BaseRunSpiderCommand):
    """A command that crawls; bad input ends it with status 2, a crawl in which nothing came with 1.

    A subclass has `prepare` in place of `process_options` and `run`.
    """

    requires_project = False
    default_settings: ClassVar[dict[str, Any]] = bundled_settings()

    def add_options(self, parser: argparse.ArgumentParser) -> None:
        super().add_options(parser)
        parser.formatter_class = HelpFormatter
        setattr(parser, "error", end_in_one_line)  # noqa: B010

    def prepare(self, args: list[str], opts: argparse.Namespace) -> None:
        """Turn arguments and options into settings, and into `opts.spargs` of the spider.

        Raises
        ------
        CrawlprioError
            for bad input.
        """
        raise NotImplementedError

    def process_options(self, args: list[str], opts: argparse.Namespace) -> None:
        """Refuse bad input before Scrapy makes an event loop that nothing closes."""
        super().process_options(args, opts)
        try:
            unknown_option(args)
            self.prepare(args, opts)
        except CrawlprioError as error:
            print(error, file=sys.stderr)
            sys.exit(2)

    def set(self, name: str, value: object) -> None:
        """Give a setting a value as the command line would."""
        assert self.settings is not None
        self.settings.set(name, value, "cmdline")

    def run(self, args: list[str], opts: argparse.Namespace) -> None:
        from crawlprio.live.crawl import Crawl
        from crawlprio.spiders.site import SiteSpider

        assert self.crawler_process is not None
        crawler = self._create_crawler(SiteSpider)
        self.crawler_process.crawl(crawler, **opts.spargs)
        self.crawler_process.start()
        if self.crawler_process.bootstrap_failed:
            self.exitcode = 2 if Crawl.of(crawler).failure is not None else 1
