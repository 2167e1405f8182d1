"""The command `crawlprio certify`: proves by random walks what share a crawl has."""

from __future__ import annotations

import argparse
import json
import sys
from tempfile import TemporaryDirectory
from typing import ClassVar

from crawlprio.commands.arguments import checked_option, store_of
from crawlprio.commands.site_crawl import OPTIONS, SiteCrawlCommand
from crawlprio.errors import ConfigError, CrawlprioError, StoreError
from crawlprio.setting_table.kinds import Whole

N_WALKS = 200


class Command(SiteCrawlCommand):
    """`crawlprio certify FOLDER` fetches a random sample of pages beyond a crawl."""

    title = "Certify"
    examples = (
        "certify example",
        "certify example --walks 1000 --delay 2",
        "certify example/crawl.sqlite --json",
    )
    options: ClassVar = {name: OPTIONS[name] for name in ("pages", "delay", "at-once")}
    arguments: ClassVar[dict[str, tuple[str, str]]] = {}

    def syntax(self) -> str:
        return "[options] STORE|FOLDER"

    def short_desc(self) -> str:
        return "Prove by a random sample what share a crawl has"

    def long_desc(self) -> str:
        return (
            "Follow random walks from the pages that a crawl of the spider 'site' got to pages "
            "that it did not get, and fetch those, with the settings of the crawl. Where the walks "
            "end is a sample of the importance of all pages, so it proves, with 95 % confidence, "
            "what share the crawl has at least. The result is kept in the store, and is part of "
            "its receipt; the pages are not. Choose the number of walks before you see a result."
        )

    def add_crawl_options(self, group: argparse._ArgumentGroup) -> None:
        group.add_argument(
            "--walks",
            metavar="N",
            help=f"random walks, each of 6 fetches at most on average; default: {N_WALKS}",
        )
        group.add_argument("--json", action="store_true", help="print the result as JSON")
        super().add_crawl_options(group)

    def prepare(self, args: list[str], opts: argparse.Namespace) -> None:
        from crawlprio.commands.walking import (
            Evidence,
            Judged,
            keep_certificate,
            walking_settings,
        )

        assert self.settings is not None
        if len(args) != 1:
            given = f"{len(args)} arguments" if args else "none"
            raise ConfigError(f"crawlprio certify takes one STORE or FOLDER and was given {given}.")
        self._store = store_of(args[0])
        if not self._store.is_file():
            raise ConfigError(f"{self._store} is missing; name the store of a crawl.")
        n_walks = checked_option("--walks", Whole(1), opts.walks) or N_WALKS
        keep_certificate(self._store, None)
        self.take_recorded(self._store, opts)
        self._folder = TemporaryDirectory()
        for name, value in walking_settings(self.settings, self._folder.name).items():
            self.set(name, value)
        self._judged = Judged(self._store)
        try:
            self._walks = self._judged.walks(n_walks)
        except ValueError as error:
            raise StoreError(f"{self._store}: {error}, so there is nothing to prove.") from None
        beside = self._store.with_name(f"{self._store.stem}.walks.jsonl")
        self._evidence = Evidence(beside, self._judged.created)

    def run(self, args: list[str], opts: argparse.Namespace) -> None:
        from crawlprio.commands.walking import WalkSpider, certificate_of, keep_certificate
        from crawlprio.live.console import PipeSafeConsole
        from crawlprio.receipt.document import make_receipt
        from crawlprio.receipt.files import NAME, write_receipt
        from crawlprio.receipt.sentences import sentence_of_certificate

        opts.spargs |= {"judged": self._judged, "walks": self._walks, "evidence": self._evidence}
        with self._folder:
            spider = self.crawl(WalkSpider, opts).spider
        if self.exitcode or not isinstance(spider, WalkSpider):
            return
        certificate = certificate_of(spider)
        try:
            keep_certificate(self._store, certificate)
            write_receipt(make_receipt(self._store), self._store.with_name(NAME))
        except CrawlprioError as error:
            print(error, file=sys.stderr)
            self.exitcode = 1
            return
        text = json.dumps(certificate) if opts.json else sentence_of_certificate(certificate)
        PipeSafeConsole().out(text, highlight=False)
