"""The command `crawlprio certify`: proves by random walks the share of importance that a crawl has.

It has the settings, middlewares and delays of the crawl that it judges; its spider follows no link
but those of the walks. Each page that it got is kept in a file beside the store, so that a run that
is killed, or one with more walks, fetches no page twice.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import AsyncIterator, Iterable
from itertools import compress
from operator import not_
from pathlib import Path
from random import Random
from tempfile import TemporaryDirectory
from typing import Any, ClassVar, NamedTuple, Self

from scrapy import Request, signals
from scrapy.crawler import Crawler
from scrapy.exceptions import DontCloseSpider
from scrapy.settings import BaseSettings

from crawlprio.commands import Option, only_argument, store_of
from crawlprio.commands.crawl import OPTIONS, ROBOT, SiteCrawlCommand
from crawlprio.commands.planning import planning_settings
from crawlprio.errors import ConfigError, CrawlprioError, StoreError
from crawlprio.graph.pages import NO_PAGE, Visit
from crawlprio.items import LinkPairs
from crawlprio.live import engine
from crawlprio.live.crawl_context import CrawlContext
from crawlprio.measure.receipt_document import make_receipt, sentence_of_certificate, write_receipt
from crawlprio.measure.walk_verification import (
    WalkAnswer,
    WalkEvidence,
    WalkVerification,
    draw_of,
    is_final,
    keep_certificate,
)
from crawlprio.ranking.walks import Walks
from crawlprio.settings_table.config import read_setting
from crawlprio.settings_table.setting_types import Int
from crawlprio.spiders.site import SiteSpider, SpiderNotes
from crawlprio.store.outcomes import ROBOTS, failure_of
from crawlprio.web.addresses import ALLOW_PRIVATE
from crawlprio.web.anchors import ParsedPage
from crawlprio.web.urls import host_of


def walking_settings(settings: BaseSettings, folder: str) -> dict[str, Any]:
    """Return the settings that differ from the crawl's; the walks' store goes to `folder`."""
    return {
        **planning_settings(settings, folder),
        "CRAWLPRIO_MAX_PAGES": read_setting(settings, "CRAWLPRIO_MAX_PAGES"),
        "CLOSESPIDER_TIMEOUT": 0,
        "CRAWLPRIO_PROGRESS": read_setting(settings, "CRAWLPRIO_PROGRESS"),
        "CRAWLPRIO_SITEMAPS": None,
        "CRAWLPRIO_MAX_PAGES_PER_PATTERN": None,
    }


class AskedWalks(NamedTuple):
    """The walks to make: their store, seed and number, and where their answers are kept."""

    store: Path
    draw: str
    n_walks: int
    evidence: WalkEvidence


class WalkSpider(SiteSpider):
    """Fetches the waiting seeds, then the pages that walks ask for.

    `judged`: the crawl to judge. `walks`: the walks; None until all seeds have answered or failed.
    `failure`: why there are none.
    """

    judged: WalkVerification
    walks: Walks | None = None
    failure: CrawlprioError | None = None

    @classmethod
    def from_crawler(cls, crawler: Crawler, *args: Any, asked: AskedWalks, **kwargs: Any) -> Self:
        spider = super().from_crawler(crawler, *args, **kwargs)
        spider._asked = asked
        spider._random = Random(f"{asked.draw} controls")
        spider._found = {}
        crawler.signals.connect(spider._idle, signal=signals.spider_idle)
        return spider

    def part_of(self, crawl: CrawlContext) -> SpiderNotes:
        return SpiderNotes(crawl, self)

    _asked: AskedWalks
    _random: Random
    _found: dict[int, tuple[list[str], list[str]]]

    async def start(self) -> AsyncIterator[Any]:
        """Request the seeds that wait, or else the first pages of the walks."""
        crawl = CrawlContext.of(self.crawler)
        try:
            await crawl.admit_seeds(map(host_of, self.seeds))
        finally:
            crawl.awaits_seeds = False
        try:
            self.judged = WalkVerification(
                self._asked.store,
                self.scope,
                self._depth_limit,
                crawl.identities.of_url,
                obeys_nofollow=self._obeys_nofollow,
                answers=self._asked.evidence.found,
            )
            waiting = self.judged.waiting_seeds()
        except CrawlprioError as error:
            self.failure = error
            return
        for page in waiting or self._begin():
            yield self._request(page)

    def _idle(self) -> None:
        """Begin the walks once the seeds have answered."""
        if self.walks is None and self.failure is None:
            self._fetch(self._begin())
            if self.walks is not None:
                raise DontCloseSpider

    def _begin(self) -> list[int]:
        """Draw the walks, and return the pages that they ask for first."""
        try:
            walks = self.judged.walks(self._asked.n_walks, self._asked.draw)
            wanted = self.judged.advance(walks, walks.wanted)
        except ValueError as error:
            self.failure = StoreError(
                f"{self._asked.store}: {error}, so there is nothing to prove."
            )
        except CrawlprioError as error:
            self.failure = error
        else:
            self.walks = walks
            return wanted
        return []

    def _sort_links(self, page: ParsedPage, pairs: LinkPairs, depth: int, nofollow: bool) -> None:
        """Note the links of a page, those with nofollow apart."""
        urls = self._urls_of(page)
        is_nofollow = [self._obeys_nofollow and (nofollow or each) for each in page.nofollows]
        kept = list(compress(urls, map(not_, is_nofollow)))
        self._found[self.judged.page(pairs.source)] = (kept, list(compress(urls, is_nofollow)))

    def note_end(self, reason: str) -> None:
        self._asked.evidence.close()

    def note_visit(self, visit: Visit) -> None:
        """Tell the walks what a page links to, and request the pages that they come to next.

        A page that may have answered the crawl otherwise leaves its walks open. They would go on
        from a seed, as from a page without links, and an outage, or a site that lets no walker in,
        would prove that all was fetched.
        """
        if visit.page == NO_PAGE or self.failure is not None:
            return
        pages = CrawlContext.of(self.crawler).recorder.pages
        url = pages.url(visit.page)
        page = self.judged.page(url)
        found = self._found.pop(page, None)
        if not is_final(visit):
            if visit.error.startswith(ROBOTS) or 400 <= visit.status < 429:
                self.judged.refused(page)
            return
        links: tuple[list[str], list[str]] = ([], [])
        if 300 <= visit.status < 400:
            links = (pages.urls(visit.targets.tolist()), [])
        elif not failure_of(visit):
            if found is None:
                return
            links = found
        answer = WalkAnswer(url, *links, visit.status, visit.content_hash)
        self._asked.evidence.add(answer)
        self.judged.add(answer)
        if self.walks is not None:
            self._continue(page)

    def _continue(self, page: int) -> None:
        assert self.walks is not None
        try:
            wanted = self.judged.advance(self.walks, {page}.intersection(self.walks.wanted))
        except CrawlprioError as error:
            self.failure = error
            engine.close_spider(self.crawler)
            return
        control = self.judged.control(page, self._random)
        self._fetch([*wanted, control] if control != NO_PAGE else wanted)

    def certificate(self, n_visits: int) -> dict[str, Any]:
        """Return what the walks prove; raise `CrawlprioError` with the reason if nothing."""
        if self.failure is not None:
            raise self.failure
        if self.walks is None:
            raise StoreError(
                f"{self._asked.store}: not all of its seeds were fetched, so nothing is certified."
            )
        return self.judged.certificate(self.walks, self._asked.draw, n_visits)

    def _fetch(self, pages: Iterable[int]) -> None:
        for page in pages:
            self.crawler.engine.crawl(self._request(page))

    def _request(self, page: int) -> Request:
        meta = {"depth": 1, ALLOW_PRIVATE: CrawlContext.of(self.crawler).addresses.is_open}
        return Request(self.judged.url(page), meta=meta)


N_WALKS = 200


class Command(SiteCrawlCommand):
    """`crawlprio certify FOLDER` fetches a random sample of pages beyond a crawl."""

    title = "Certify"
    takes = "[options] STORE|FOLDER"
    does = "Prove by a random sample what share a crawl has"
    about = (
        "Follow random walks from the pages that a crawl of the spider 'site' fetched to pages "
        "that it did not get, and fetch those, with the settings of the crawl. Where the walks "
        "end is a sample of the importance of all pages, so it proves, with 95 % confidence, "
        "what share the crawl has at least. The result is kept in the store, and is part of "
        "its receipt; the pages are not. Choose the number of walks before you see a result."
    )
    examples = (
        "certify example",
        "certify example --walks 1000 --delay 2",
        "certify example/crawl.sqlite --json",
    )
    options: ClassVar = {
        "--walks": Option(
            "N",
            f"random walks, each of 6 fetches at most on average; default: {N_WALKS}",
            Int(1),
            N_WALKS,
        ),
        "--json": Option(None, "print the result as JSON"),
        **{name: OPTIONS[name] for name in ("--pages", "--delay", "--at-once")},
        **ROBOT,
    }

    def prepare(self, args: list[str], opts: argparse.Namespace) -> None:
        self._store = store_of(only_argument("certify", "STORE or FOLDER", args))
        created, self._draw, self._n_visits = draw_of(self._store)
        self.take_recorded(self._store, opts)
        self._folder = TemporaryDirectory()
        for name, value in walking_settings(self.settings, self._folder.name).items():
            self.set(name, value)
        beside = self._store.with_name(f"{self._store.stem}.walks.jsonl")
        evidence = WalkEvidence(beside, created)
        opts.spargs["asked"] = AskedWalks(self._store, self._draw, opts.walks, evidence)

    def run(self, args: list[str], opts: argparse.Namespace) -> None:
        from crawlprio.show.tables import PipeSafeConsole

        with self._folder:
            spider = self.crawl(WalkSpider, opts).spider
        if self.exitcode or not isinstance(spider, WalkSpider):
            return
        certificate, failure = None, None
        try:
            certificate = spider.certificate(self._n_visits)
        except CrawlprioError as error:
            failure = error
        try:
            keep_certificate(self._store, certificate)
            write_receipt(make_receipt(self._store), self._store)
        except CrawlprioError as error:
            failure = failure or error
        if failure is not None or certificate is None:
            print(failure, file=sys.stderr)
            self.exitcode = 2 if isinstance(failure, ConfigError) else 1
            return
        text = json.dumps(certificate)
        if not opts.json:
            text = (
                f"{sentence_of_certificate(certificate)}\n"
                f"{certificate['walked_without_links']:,} of "
                f"{certificate['walked_pages']:,} pages that walks came to had no links, and "
                f"{certificate['crawled_without_links']:,} of {certificate['crawled_pages']:,} "
                "that the crawl fetched."
            )
        PipeSafeConsole().out(text, highlight=False)
