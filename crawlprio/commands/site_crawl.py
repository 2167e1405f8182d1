"""The base of the commands that crawl with the spider `site` and the bundled settings."""

from __future__ import annotations

import argparse
import sys
from importlib import import_module
from typing import Any, ClassVar

from scrapy.commands import BaseRunSpiderCommand

from crawlprio.commands import HelpFormatter, exit_in_one_line, refuse_unknown_options
from crawlprio.errors import CrawlprioError

_NOT_OURS = ("SPIDER_MODULES", "BOT_NAME")


def bundled_settings() -> dict[str, Any]:
    """Return the settings of the bundled project, for a crawl outside it."""
    module = import_module("crawlprio.settings")
    return {
        name: getattr(module, name)
        for name in dir(module)
        if name.isupper() and name not in _NOT_OURS
    }


class SiteCrawlCommand(BaseRunSpiderCommand):
    """A command that crawls; exits with 2 for invalid input, and with 1 if nothing was fetched.

    A subclass implements `prepare` instead of `process_options` and `run`.
    """

    requires_project = False
    default_settings: ClassVar[dict[str, Any]] = bundled_settings()

    def add_options(self, parser: argparse.ArgumentParser) -> None:
        super().add_options(parser)
        parser.formatter_class = HelpFormatter
        setattr(parser, "error", exit_in_one_line)  # noqa: B010

    def prepare(self, args: list[str], opts: argparse.Namespace) -> None:
        """Convert arguments and options to settings, and to spider arguments in `opts.spargs`.

        Raises
        ------
        CrawlprioError
            for invalid input.
        """
        raise NotImplementedError

    def process_options(self, args: list[str], opts: argparse.Namespace) -> None:
        """Refuse invalid input before Scrapy creates an event loop that nothing would close."""
        super().process_options(args, opts)
        try:
            refuse_unknown_options(args)
            self.prepare(args, opts)
        except CrawlprioError as error:
            print(error, file=sys.stderr)
            sys.exit(2)

    def set(self, name: str, value: object) -> None:
        """Set a setting as the command line would."""
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
