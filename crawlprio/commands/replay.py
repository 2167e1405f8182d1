"""`scrapy replay`: a virtual crawl, through the real engine, of a recorded repository."""

from __future__ import annotations

import argparse
import sys
from importlib import import_module
from pathlib import Path
from typing import Any, ClassVar

from scrapy.commands import BaseRunSpiderCommand
from scrapy.exceptions import UsageError

_NOT_OURS = ("SPIDER_MODULES", "BOT_NAME")


def _bundled_settings() -> dict[str, Any]:
    """The settings of the bundled project, which a replay has outside a project too."""
    module = import_module("crawlprio.settings")
    return {
        name: getattr(module, name)
        for name in dir(module)
        if name.isupper() and name not in _NOT_OURS
    }


class Command(BaseRunSpiderCommand):
    """Crawls a WARC file or a crawl store with the spider `site`, served over HTTP on loopback.

    Pages come from the recording whether asked for by http or https; what it lacks is answered with
    404. Nothing is fetched from anywhere else.
    """

    requires_project = False
    default_settings: ClassVar[dict[str, Any]] = _bundled_settings()

    def syntax(self) -> str:
        return "[options] WARC|STORE"

    def short_desc(self) -> str:
        return "Crawl a WARC file or a crawl store as if it were the web"

    def long_desc(self) -> str:
        return (
            "Crawl a recording, a WARC file or a crawl store, with the spider 'site' as if it were "
            "the web: -a seeds=URL says where to start, -s ORDERING=NAME in which order, "
            "-s CLOSESPIDER_PAGECOUNT=N when to stop."
        )

    def process_options(self, args: list[str], opts: argparse.Namespace) -> None:
        """Refuse what is no recording before Scrapy makes an event loop that nothing closes."""
        super().process_options(args, opts)
        if len(args) != 1:
            raise UsageError("scrapy replay takes one recording, a WARC file or a crawl store.")
        if not Path(args[0]).is_file():
            print(f"{args[0]}: no such file; give a WARC file or a crawl store.", file=sys.stderr)
            sys.exit(2)

    def run(self, args: list[str], opts: argparse.Namespace) -> None:
        from crawlprio.spiders.site import SiteSpider

        assert self.settings is not None
        assert self.crawler_process is not None
        crawler = self._create_crawler(SiteSpider)
        crawler.settings.set("CRAWLPRIO_REPLAY", args[0], "cmdline")
        self.crawler_process.crawl(crawler, **opts.spargs)
        self.crawler_process.start()
        if self.crawler_process.bootstrap_failed:
            self.exitcode = 2
