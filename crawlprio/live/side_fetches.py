"""Fetches of what a crawl needs beside its pages: sitemaps, requisites, what scripts ask for."""

from __future__ import annotations

import logging
import re
from asyncio import Future, ensure_future, shield
from collections import Counter, OrderedDict, deque
from collections.abc import Iterable
from time import monotonic
from typing import Any
from weakref import WeakKeyDictionary

from scrapy import Request, signals
from scrapy.exceptions import DontCloseSpider
from scrapy.http import Response
from scrapy.http.request import NO_CALLBACK
from scrapy.settings import BaseSettings
from scrapy.utils.defer import deferred_from_coro, maybe_deferred_to_future
from twisted.internet.defer import DeferredSemaphore

from crawlprio.errors import ConfigError, CrawlprioError
from crawlprio.live import engine
from crawlprio.live.crawl_context import CrawlContext, CrawlPart
from crawlprio.live.crawl_counters import cause_of
from crawlprio.live.dispatch import site_of
from crawlprio.live.downloader import SIDE_FETCH
from crawlprio.live.engine import sleep
from crawlprio.live.requests import forget_inherited
from crawlprio.settings_table.config import read_setting
from crawlprio.store.side_tables import SideRow
from crawlprio.web.addresses import ALLOW_PRIVATE

logger = logging.getLogger("crawlprio")

LOOK_SECONDS = 0.05
"""Seconds between two looks at what has no event: a paused crawl, or seeds without addresses."""

_MAX_CACHED = 64_000_000
_USUAL_AGE = 60.0
_DIRECTIVE = re.compile(r"(no-store|no-cache|max-age)\s*(?:=\s*\"?(\d{1,9}))?").finditer
_SCRIPT = re.compile(rb"\s*(?:text|application)/(?:x-)?(?:java|ecma)script", re.IGNORECASE).match


class AnswerCache:
    """The latest answers of a crawl's side fetches, by URL: `max_bytes` of bodies at most.

    Scripts are kept for the whole crawl. Others are fresh for as long as their Cache-Control says,
    or 60 s. The least recently used go first.
    """

    def __init__(self, max_bytes: int = _MAX_CACHED) -> None:
        self._max_bytes = max_bytes
        self._n_bytes = 0
        self._kept: OrderedDict[str, tuple[Response, float]] = OrderedDict()

    def get(self, url: str, now: float) -> Response | None:
        """Return a fresh answer, if there is one."""
        answer, until = self._kept.get(url, (None, 0.0))
        if now >= until:
            self._drop(url)
            return None
        self._kept.move_to_end(url)
        return answer

    def put(self, url: str, answer: Response, now: float) -> None:
        """Keep an answer for as long as it is fresh."""
        age = fresh_seconds(answer)
        if age <= 0 or len(answer.body) > self._max_bytes:
            return
        self._drop(url)
        self._kept[url] = (answer, now + age)
        self._n_bytes += len(answer.body)
        while self._n_bytes > self._max_bytes:
            self._drop(next(iter(self._kept)))

    def _drop(self, url: str) -> None:
        answer, _ = self._kept.pop(url, (None, 0.0))
        self._n_bytes -= 0 if answer is None else len(answer.body)


def fresh_seconds(answer: Response) -> float:
    """Return for how long an answer may be used again; a failure is asked for again."""
    if not 200 <= answer.status < 300 and answer.status not in (404, 410):
        return 0.0
    if _SCRIPT(answer.headers.get("Content-Type") or b""):
        return float("inf")
    lines = b",".join(answer.headers.getlist("Cache-Control")).decode("latin-1").lower()
    said = {found[1]: found[2] for found in _DIRECTIVE(lines)}
    if "no-store" in said or "no-cache" in said:
        return 0.0
    return float(said["max-age"]) if said.get("max-age") else _USUAL_AGE


class BesideFetcher:
    """Makes fetches that are no page of a crawl: `at_once` at a time, each when its site allows it.

    Robots.txt, delays, the guard of private addresses, retries and size limits hold as for pages,
    but no ordering, budget or link graph knows of these fetches. A fetch waits for its site here,
    as one that waits inside the downloader would count towards CONCURRENT_REQUESTS; meanwhile no
    page of that site leaves. Responses count for Scrapy, and so towards `--pages`, if they are
    `counted`. While the spider closes, only a `late` one goes on: for its last pages.
    """

    def __init__(
        self, crawl: CrawlContext, at_once: int, *, counted: bool = False, late: bool = False
    ) -> None:
        self.crawl = crawl
        self._slots = DeferredSemaphore(at_once)
        self._is_counted = counted
        self._is_late = late
        self._is_stopped = False
        self._cache = AnswerCache()
        self._asked: dict[str, Future[Response | None]] = {}

    @property
    def goes_on(self) -> bool:
        """Whether more fetches may start."""
        if not self.crawl.is_running or self._is_stopped:
            return False
        return self._is_late or not engine.is_closing(self.crawl.crawler)

    def stop(self) -> None:
        """Start no more fetches."""
        self._is_stopped = True

    def request(self, url: str, **meta: Any) -> Request:
        """Return a request for a URL that something fetched has named."""
        guarded = {ALLOW_PRIVATE: self.crawl.addresses.is_open, "allow_offsite": True}
        return Request(url, callback=NO_CALLBACK, meta={**guarded, SIDE_FETCH: None, **meta})

    async def get(self, url: str) -> Response | None:
        """Return the answer to a URL, one of an earlier call if it is fresh.

        Who asks while it is fetched gets the same answer. None: the crawl ends. A fetch that fails
        raises what it failed with.
        """
        found = self._cache.get(url, monotonic())
        if found is not None:
            return found
        if url not in self._asked:  # a task of its own: who asked may give up
            self._asked[url] = ensure_future(self._answer(url))
            self._asked[url].add_done_callback(lambda asked: self._answered(url, asked))
        return await shield(self._asked[url])

    async def _answer(self, url: str) -> Response | None:
        answer = await self.response(self.request(url))
        if answer is not None:
            self._cache.put(url, answer, monotonic())
        return answer

    def _answered(self, url: str, asked: Future[Response | None]) -> None:
        del self._asked[url]
        if not asked.cancelled():
            asked.exception()  # which asyncio would log if nobody waits any more

    async def response(self, request: Request) -> Response | None:
        """Return the response to a request, or what follows it; None if the crawl ends before."""
        while True:
            forget_inherited(request)
            await self._wait_for(site_of(request))
            await maybe_deferred_to_future(self._slots.acquire())
            try:
                if not self.goes_on:
                    return None
                answer = await engine.fetch_once(
                    self.crawl.crawler, request, is_counted=self._is_counted
                )
            finally:
                self._slots.release()
            if isinstance(answer, Response):
                answer.request = request
                return answer
            if answer is request:  # its site is busy, or the crawl is paused
                await sleep(LOOK_SECONDS)
            request = answer

    async def _wait_for(self, site: str) -> None:
        """Wait until a fetch may start on a site, before any other page of it."""
        clock = self.crawl.clock
        clock.hold(site)
        try:
            await clock.turn(site, lambda: not self.goes_on or clock.may_start(site))
        finally:
            clock.hold(site, -1)


_FETCHERS: WeakKeyDictionary[CrawlContext, BesideFetcher] = WeakKeyDictionary()


async def fetch_beside(crawl: CrawlContext, url: str) -> Response | None:
    """Return the answer to what a page needs beside itself, fetched under the rules of a crawl.

    Waits for the site; an answer that is fresh is used again. None: the crawl ends before. A fetch
    that fails, or that robots.txt or the guard of private addresses forbids, raises.
    """
    if crawl not in _FETCHERS:
        _FETCHERS[crawl] = BesideFetcher(crawl, crawl.config.concurrency or 1_000, late=True)
    return await _FETCHERS[crawl].get(url)


class SideFetches(CrawlPart):
    """A part of a crawl that fetches what is no page, and no evidence, by a `BesideFetcher`.

    The spider stays open until all fetches are made.

    The part stores what is to be fetched, and queues it. It records in one transaction what it got
    and that this is done, so that a crawl that is killed fetches the rest when it is resumed.

    Of each lane, `per_lane` rows are worked on at once, and `at_once` fetches are in flight.
    """

    keeps = True
    asks = ""
    """The beginning of a refusal: what setting asks for what."""

    is_counted = True
    """Whether responses count for Scrapy, and so towards `--pages`."""

    def __init__(self, crawl: CrawlContext, *, per_lane: int, at_once: int) -> None:
        super().__init__(crawl)
        self._queues: dict[str, deque[SideRow]] = {}
        self._n_workers: Counter[str] = Counter()
        self._per_lane = per_lane
        self.fetcher = BesideFetcher(crawl, at_once, counted=self.is_counted)
        problem = self.lacks(crawl.crawler.settings)
        if problem:
            raise ConfigError(f"{self.asks}, but {problem}.")

    def opened(self) -> None:
        self.crawl.crawler.signals.connect(self._stay_open, signal=signals.spider_idle)

    def lacks(self, settings: BaseSettings) -> str:
        """Return what the part lacks, and the remedy; empty if it can work."""
        if read_setting(settings, "CRAWLPRIO_STORE") is None:
            return "CRAWLPRIO_STORE is None, so there is nowhere to record them; name a file"
        return ""

    def lane(self, row: SideRow) -> str:
        """Return the queue of a fetch; those of one queue leave in order."""
        return ""

    def request(self, row: SideRow) -> Request | None:
        """Return the request for a row, made by `fetcher.request`; None to leave it out."""
        raise NotImplementedError

    async def fetched(self, row: SideRow, response: Response) -> None:
        """Record a response of any status."""
        raise NotImplementedError

    def failed(self, row: SideRow, cause: str) -> None:
        """Record why there is no response; a later run tries again."""
        raise NotImplementedError

    def queue(self, rows: Iterable[SideRow]) -> None:
        """Fetch these rows, behind those of their lanes that wait."""
        for row in rows:
            lane = self.lane(row)
            self._queues.setdefault(lane, deque()).append(row)
            if self._n_workers[lane] < self._per_lane:
                self._n_workers[lane] += 1
                deferred_from_coro(self._work(lane))

    @property
    def is_busy(self) -> bool:
        """Whether fetches wait or are in flight."""
        return bool(self._n_workers)

    def _stay_open(self) -> None:
        if self.is_busy and self.fetcher.goes_on:
            raise DontCloseSpider

    async def _work(self, lane: str) -> None:
        """Make the fetches of a lane, one after the other."""
        try:
            await sleep(0)  # until the middlewares that check each fetch are open
            while self.fetcher.goes_on and self.crawl.awaits_seeds:
                await sleep(LOOK_SECONDS)
            queue = self._queues[lane]
            while queue and self.fetcher.goes_on:
                await self._fetch(queue.popleft())
        finally:
            self._n_workers[lane] -= 1
            if not self._n_workers[lane]:
                del self._n_workers[lane]
            if self.crawl.is_running:
                engine.wake(self.crawl.crawler)

    async def _fetch(self, row: SideRow) -> None:
        """Make a fetch, and let the part record it; what goes wrong there ends no other fetch."""
        try:
            request = self.request(row)
            if request is None:
                return
            try:
                response = await self.fetcher.response(request)
            except Exception as error:
                if self.crawl.is_running:
                    self.failed(row, cause_of(error, request))
            else:
                if response is not None and self.crawl.is_running:
                    await self.fetched(row, response)
        except CrawlprioError as error:
            self.crawl.fail(error)
        except Exception:
            if self.crawl.is_running:
                logger.exception("%s could not be read.", row.url)
