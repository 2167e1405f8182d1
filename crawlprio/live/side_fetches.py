"""Fetches of what a crawl needs beside its pages: sitemaps while it runs, requisites after it."""

from __future__ import annotations

import logging
from collections import Counter, deque
from collections.abc import Iterable
from time import monotonic
from typing import TYPE_CHECKING, Any

from scrapy import Request, signals
from scrapy.exceptions import DontCloseSpider
from scrapy.http import Response
from scrapy.http.request import NO_CALLBACK
from scrapy.utils.defer import deferred_from_coro, maybe_deferred_to_future
from twisted.internet.defer import DeferredSemaphore

from crawlprio.errors import ConfigError, CrawlprioError
from crawlprio.live import engine
from crawlprio.live.counts import cause_of
from crawlprio.live.dispatch import site_of
from crawlprio.live.downloader import SIDE_FETCH
from crawlprio.live.engine import sleep
from crawlprio.live.requests import forget_inherited
from crawlprio.live.running import CrawlPart, RunningCrawl
from crawlprio.settings_table.config import read_setting
from crawlprio.store.side_tables import SideRow
from crawlprio.web.addresses import ALLOW_PRIVATE

if TYPE_CHECKING:
    from scrapy.settings import BaseSettings


logger = logging.getLogger("crawlprio")

LOOK_SECONDS = 0.05
"""Seconds between two looks at what has no event: a busy site, or seeds without addresses."""

_MAX_SLEEP = 1.0
"""Seconds after which a fetch that waits for its site notices that the crawl ends."""


class SideFetches(CrawlPart):
    """A part of a crawl that fetches what is no page, and no evidence.

    Robots.txt, delays, the guard of private addresses, retries and size limits hold as for pages,
    but no ordering, budget or link graph knows of these fetches. A fetch waits for its site here,
    as one that waits inside the downloader would count towards CONCURRENT_REQUESTS; meanwhile no
    page of that site leaves. The spider stays open until all are made.

    The part stores what is to be fetched, and queues it. It records in one transaction what it got
    and that this is done, so that a crawl that is killed fetches the rest when it is resumed.

    Of each lane, `per_lane` rows are worked on at once, and `at_once` fetches are in flight.
    """

    keeps = True
    asks = ""
    """The beginning of a refusal: what setting asks for what."""

    is_counted = True
    """Whether responses count for Scrapy, and so towards `--pages`."""

    def __init__(self, crawl: RunningCrawl, *, per_lane: int, at_once: int) -> None:
        super().__init__(crawl)
        self._queues: dict[str, deque[SideRow]] = {}
        self._n_workers: Counter[str] = Counter()
        self._per_lane = per_lane
        self._slots = DeferredSemaphore(at_once)
        self._is_stopped = False
        problem = self.lacks(crawl.crawler.settings)
        if problem:
            raise ConfigError(f"{self.asks}, but {problem}.")

    def opened(self) -> None:
        self.crawl.crawler.signals.connect(self._stay_open, signal=signals.spider_idle)

    # What each part says

    def lacks(self, settings: BaseSettings) -> str:
        """Return what the part lacks, and the remedy; empty if it can work."""
        if read_setting(settings, "CRAWLPRIO_STORE") is None:
            return "CRAWLPRIO_STORE is None, so there is nowhere to record them; name a file"
        return ""

    def lane(self, row: SideRow) -> str:
        """Return the queue of a fetch; those of one queue leave in order."""
        return ""

    def request(self, row: SideRow) -> Request | None:
        """Return the request for a row, made by `side_request`; None to leave it out."""
        raise NotImplementedError

    async def fetched(self, row: SideRow, response: Response) -> None:
        """Record a response of any status."""
        raise NotImplementedError

    def failed(self, row: SideRow, cause: str) -> None:
        """Record why there is no response; a later run tries again."""
        raise NotImplementedError

    # What each part may use

    def queue(self, rows: Iterable[SideRow]) -> None:
        """Fetch these rows, behind those of their lanes that wait."""
        for row in rows:
            lane = self.lane(row)
            self._queues.setdefault(lane, deque()).append(row)
            if self._n_workers[lane] < self._per_lane:
                self._n_workers[lane] += 1
                deferred_from_coro(self._work(lane))

    def side_request(self, url: str, **meta: Any) -> Request:
        """Return a request for a URL that something fetched has named."""
        guarded = {ALLOW_PRIVATE: self.crawl.addresses.is_open, "allow_offsite": True}
        return Request(url, callback=NO_CALLBACK, meta={**guarded, SIDE_FETCH: None, **meta})

    @property
    def is_busy(self) -> bool:
        """Whether fetches wait or are in flight."""
        return bool(self._n_workers)

    @property
    def goes_on(self) -> bool:
        """Whether more fetches may start."""
        crawl = self.crawl
        return crawl.is_running and not (self._is_stopped or engine.is_closing(crawl.crawler))

    def stop(self) -> None:
        """Start no more fetches."""
        self._is_stopped = True

    def _stay_open(self) -> None:
        if self.is_busy and self.goes_on:
            raise DontCloseSpider

    # Fetching

    async def _work(self, lane: str) -> None:
        """Make the fetches of a lane, one after the other."""
        try:
            await sleep(0)  # until the middlewares that check each fetch are open
            while self.goes_on and self.crawl.awaits_seeds:
                await sleep(LOOK_SECONDS)
            queue = self._queues[lane]
            while queue and self.goes_on:
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
                response = await self._response(request)
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

    async def _response(self, request: Request) -> Response | None:
        """Return the response to a request, or what follows it; None if the crawl ends before."""
        while True:
            forget_inherited(request)
            await self._wait_for(site_of(request))
            await maybe_deferred_to_future(self._slots.acquire())
            try:
                if not self.goes_on:
                    return None
                answer = await engine.fetch_once(
                    self.crawl.crawler, request, is_counted=self.is_counted
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
            while self.goes_on:
                rest = clock.next_start(site) - monotonic()
                if rest <= 0 and clock.has_room(site):
                    return
                await sleep(min(max(rest, LOOK_SECONDS), _MAX_SLEEP))
        finally:
            clock.hold(site, -1)
