"""The command `crawlprio replay`: a virtual crawl of a recording, through the real engine."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import ClassVar

from crawlprio.commands import program
from crawlprio.commands.crawl import OPTIONS, SiteCrawlCommand
from crawlprio.errors import ConfigError
from crawlprio.settings_table import SETTINGS

OWN_FILES = {
    "CRAWLPRIO_STORE": "replay.sqlite",
    "CRAWLPRIO_PLOT": "replay.png",
    "CRAWLPRIO_RECEIPT": False,
}
"""What keeps the files of a replay apart from those of the crawls beside it."""


class Command(SiteCrawlCommand):
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
        from crawlprio.settings_table.config import read_setting

        if len(args) != 1:
            raise ConfigError(
                f"{program()} replay takes one recording, a WARC file, a folder of them or a "
                "crawl store."
            )
        if not Path(args[0]).exists():
            raise ConfigError(
                f"{args[0]}: no such file; give a WARC file, a folder of them or a crawl store."
            )
        self.set("CRAWLPRIO_REPLAY", args[0])
        if opts.value is not None:
            self.set("CRAWLPRIO_VALUE", opts.value)
        for name, own in OWN_FILES.items():
            if str(read_setting(self.settings, name)) == str(SETTINGS[name].default):
                self.set(name, own)
