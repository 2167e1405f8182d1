"""The fetches of what pages need to look like themselves, once their crawl is over."""

from __future__ import annotations

import logging
from collections import defaultdict, deque
from collections.abc import Sequence
from time import monotonic, time
from typing import TYPE_CHECKING

from scrapy import Request, signals
from scrapy.exceptions import DontCloseSpider
from scrapy.http import HtmlResponse, Response
from scrapy.http.request import NO_CALLBACK
from scrapy.utils.asyncio import call_later
from scrapy.utils.defer import deferred_from_coro, maybe_deferred_to_future
from twisted.internet.defer import Deferred, DeferredSemaphore
from twisted.python.failure import Failure

from crawlprio.errors import ConfigError, CrawlprioError
from crawlprio.live import engine
from crawlprio.live.counts import cause_of
from crawlprio.live.downloader import KEPT_EXCHANGES, WAITS_OUTSIDE, SiteBusy
from crawlprio.live.parts import CrawlPart
from crawlprio.measure.stored_crawl import COVERED, ENOUGH_PAGES
from crawlprio.plugins.archive.page_requisites import (
    requisites_of_page,
    requisites_of_style,
    target_of_redirect,
)
from crawlprio.settings_table.config import is_in_redis, read_setting, require_extras
from crawlprio.store.requisite_rows import Need, RequisiteRow, StoredRequisites
from crawlprio.web.addresses import ALLOW_PRIVATE
from crawlprio.web.scope import registered_domain
from crawlprio.web.urls import host_of, normalise_url

if TYPE_CHECKING:
    from scrapy.settings import BaseSettings

    from crawlprio.live.running import RunningCrawl
    from crawlprio.plugins.archive.warc_records import Exchange

logger = logging.getLogger("crawlprio")

_OWN = "CRAWLPRIO_REQUISITES"
_AFTER = (
    *("finished", "closespider_pagecount", "closespider_pagecount_no_item"),
    *("closespider_itemcount", COVERED, ENOUGH_PAGES),
)
"""Scrapy's reasons to end a crawl after which requisites are fetched. After any other (Ctrl-C, a
time limit, an error) they wait for a later run."""

_POLL_SECONDS = 0.05
_MAX_SLEEP = 60.0
_NO_NEED = Need(0, 0)


class Requisites(CrawlPart):
    """Archives the images, styles, scripts, fonts and icons of fetched pages, after the last page.

    What a page needs is recorded with its visit. When the crawl has no more pages, or has reached a
    limit of them, no page is handed out any more. Then the requisites are fetched, and what their
    styles need, each once. The record that one is done is in the transaction of its response, so a
    crawl that is killed resumes where it was.

    Robots.txt, delays, the guard of private addresses, retries and size limits hold as for pages.
    But they are no pages: no ordering, budget, link graph, receipt or limit counts them.
    """

    keeps = True

    def __init__(self, crawl: RunningCrawl) -> None:
        super().__init__(crawl)
        self._crawler = crawl.crawler
        settings = crawl.crawler.settings
        _check(settings)
        self._is_anywhere = read_setting(settings, _OWN) == "all"
        self._max_count: int = read_setting(settings, "CRAWLPRIO_MAX_REQUISITES")
        self._max_bytes: int = read_setting(settings, "CRAWLPRIO_MAX_REQUISITE_BYTES")
        self._page_count: int = read_setting(settings, "CRAWLPRIO_MAX_REQUISITES_PER_PAGE")
        self._page_bytes: int = read_setting(settings, "CRAWLPRIO_MAX_REQUISITE_BYTES_PER_PAGE")
        self._stored: StoredRequisites | None = None
        self._begun = self._is_over = self._is_stopped = False
        self._slots = DeferredSemaphore(1)
        self._queues: dict[str, deque[RequisiteRow]] = {}
        self._n_workers: defaultdict[str, int] = defaultdict(int)
        self._last_row = 0
        self._needs: dict[str, Need] = {}
        self._n_bytes = 0
        self._sleepers: set[Deferred[None]] = set()

    def opened(self) -> None:
        store = self.crawl.recorder.store
        if store is None or self.crawl.recorder.archive is None:
            return
        self._stored = StoredRequisites(store.path, self._max_count)
        store.attach(self._stored)
        connect = self._crawler.signals.connect
        connect(self._response_received, signal=signals.response_received)
        connect(self._spider_idle, signal=signals.spider_idle)
        engine.before_closing(self._crawler, self._finish)

    # What pages need

    def _response_received(self, response: Response, request: Request) -> None:
        """Note what a page needs, for the transaction of its visit."""
        is_page = request.callback is not NO_CALLBACK and isinstance(response, HtmlResponse)
        if self._stored is not None and is_page and 200 <= response.status < 300:
            urls = requisites_of_page(response.body, response.url, _content_type(response))
            page = normalise_url(response.url) or request.url
            self._stored.name(self._allowed(urls, page, self._page_count), page)

    def _allowed(self, urls: Sequence[str], page: str, room: int) -> Sequence[str]:
        """Return the first URLs that a page may need, by their hosts."""
        if not self._is_anywhere:
            domain = registered_domain(host_of(page))
            urls = [url for url in urls if registered_domain(host_of(url)) == domain]
        return urls[: max(room, 0)]

    # After the last page

    async def _finish(self, reason: str) -> None:
        """Fetch the requisites before the spider is closed, unless the crawl is to end now."""
        if reason not in _AFTER or not self.crawl.is_running:
            self._is_stopped = True
            self._wake()
        elif self._begun:
            while self._goes_on and not self._is_over:
                await self._sleep(_MAX_SLEEP)
        else:
            self._begun = True
            try:
                await self._fetch_all()
            except CrawlprioError as error:
                self.crawl.fail(error)
            self._is_over = True
            self._wake()

    def _spider_idle(self) -> None:
        """Keep the spider open while requisites are fetched."""
        if self._begun and self._goes_on and not self._is_over:
            raise DontCloseSpider

    @property
    def _goes_on(self) -> bool:
        return self.crawl.is_running and not self._is_stopped

    async def _fetch_all(self) -> None:
        """Fetch all requisites, with as many workers per host as it may have fetches."""
        assert self._stored is not None
        engine.hand_out_no_more(self._crawler)
        while self._goes_on and engine.is_fetching(self._crawler):
            await self._sleep(_POLL_SECONDS)
        if not self._goes_on:
            return
        self.crawl.recorder.flush()
        self._stored.end_archived()
        self._needs = self._stored.needs()
        self._n_bytes = sum(need.n_bytes for need in self._needs.values())
        self._slots = DeferredSemaphore(self.crawl.config.concurrency or 1_000)
        self._queue_new()
        n_waiting = sum(map(len, self._queues.values()))
        full = "; CRAWLPRIO_MAX_REQUISITES is reached" if self._stored.is_full else ""
        logger.info("The pages are done; fetching %d page requisites%s.", n_waiting, full)
        while self._goes_on and self._n_workers:
            await self._sleep(_MAX_SLEEP)

    def _queue_new(self) -> None:
        """Queue what was named since the last call, and start workers for it."""
        assert self._stored is not None
        hosts = set()
        for row in self._stored.waiting(self._last_row):
            self._last_row = row.number
            host = host_of(row.url)
            hosts.add(host)
            self._queues.setdefault(host, deque()).append(row)
        limit = self.crawl.config.limit or 8
        for host in hosts:
            for _ in range(min(limit, len(self._queues[host])) - self._n_workers[host]):
                self._n_workers[host] += 1
                deferred_from_coro(self._work(host)).addBoth(self._worked, host)

    async def _work(self, host: str) -> None:
        """Fetch the requisites of one host, one after the other."""
        queue = self._queues[host]
        while queue and self._goes_on:
            await self._fetch(queue.popleft())

    def _worked(self, result: Failure | None, host: str) -> None:
        self._n_workers[host] -= 1
        if not self._n_workers[host]:
            del self._n_workers[host]
        if isinstance(result, Failure) and isinstance(result.value, CrawlprioError):
            self.crawl.fail(result.value)
        elif isinstance(result, Failure):
            logger.error("A page requisite could not be archived: %s", result.getTraceback())
        if not self._n_workers:
            self._wake()

    async def _fetch(self, row: RequisiteRow) -> None:
        """Fetch a requisite, and record what became of it."""
        bound = self._beyond(row)
        if bound:
            self._end(row, None, 0, f"{bound} is reached")
            self._count("left")
            return
        kept: list[Exchange] = []
        request = Request(row.url, callback=NO_CALLBACK)
        request.meta.update(
            {
                ALLOW_PRIVATE: self.crawl.addresses.is_open,
                KEPT_EXCHANGES: kept,
                WAITS_OUTSIDE: True,
                "allow_offsite": True,
                "dont_redirect": True,
            }
        )
        try:
            response = await self._download(request)
        except Exception as error:
            if self.crawl.is_running:
                self._end(row, None, 0, cause_of(error, request))
                self._count("failed")
            return
        if response is not None and self.crawl.is_running:
            self._record(row, response, kept)

    async def _download(self, request: Request) -> Response | None:
        """Return the response to a request or its retries; None if the crawl ends before."""
        host = host_of(request.url)
        while True:
            await self._wait_for(host)
            await maybe_deferred_to_future(self._slots.acquire())
            try:
                if not self._goes_on:
                    return None
                answer = await engine.fetch_uncounted(self._crawler, request)
            except SiteBusy:  # or the crawl is paused
                await self._sleep(_POLL_SECONDS)
                continue
            finally:
                self._slots.release()
            if isinstance(answer, Response):
                return answer
            request = answer

    async def _wait_for(self, host: str) -> None:
        """Wait until a fetch may start on a site."""
        clock = self.crawl.clock
        while self._goes_on:
            rest = clock.next_start(host) - monotonic()
            if rest <= 0 and clock.has_room(host):
                return
            await self._sleep(min(max(rest, _POLL_SECONDS), _MAX_SLEEP))

    def _beyond(self, row: RequisiteRow) -> str:
        """Return the setting whose bound forbids to fetch a requisite; empty if none does."""
        if self._n_bytes >= self._max_bytes:
            return "CRAWLPRIO_MAX_REQUISITE_BYTES"
        if self._needs.get(row.page, _NO_NEED).n_bytes >= self._page_bytes:
            return "CRAWLPRIO_MAX_REQUISITE_BYTES_PER_PAGE"
        return ""

    def _record(self, row: RequisiteRow, response: Response, kept: list[Exchange]) -> None:
        """Archive a response, name what it needs, and end its requisite, in one transaction."""
        for exchange in kept:
            self.crawl.recorder.archive_fetch(exchange)
        assert self._stored is not None
        need, n_bytes = self._needs.get(row.page, _NO_NEED), len(response.body)
        room = self._page_count - need.n_requisites
        named = self._allowed(_named_by(response), row.page, room)
        self._needs[row.page] = Need(need.n_requisites + len(named), need.n_bytes + n_bytes)
        self._n_bytes += n_bytes
        self._stored.name(named, row.page)
        is_good = 200 <= response.status < 300
        self._end(row, time(), n_bytes, "" if is_good else f"status {response.status}")
        self._count("fetched")
        if named:
            self._queue_new()

    def _end(self, row: RequisiteRow, fetched_at: float | None, n_bytes: int, remark: str) -> None:
        assert self._stored is not None
        self._stored.end(row, fetched_at, n_bytes, remark)
        self.crawl.recorder.flush()

    def _count(self, name: str) -> None:
        self._crawler.stats.inc_value(f"crawlprio/requisites/{name}")

    # Time

    async def _sleep(self, seconds: float) -> None:
        """Wait for some seconds, or until `_wake`."""
        over: Deferred[None] = Deferred()
        self._sleepers.add(over)
        timer = call_later(seconds, over.callback, None)
        try:
            await maybe_deferred_to_future(over)
        finally:
            self._sleepers.discard(over)
            timer.cancel()

    def _wake(self) -> None:
        for over in list(self._sleepers):
            if not over.called:
                over.callback(None)


def _named_by(response: Response) -> list[str]:
    """Return what a requisite leads to: the target of a redirect, or what a style sheet needs."""
    location = response.headers.get("Location")
    if location and 300 <= response.status < 400:
        return target_of_redirect(location.decode("utf-8", "replace"), response.url)
    content_type = _content_type(response)
    is_style = content_type.partition(";")[0].strip().lower() == "text/css"
    if not is_style or not 200 <= response.status < 300:
        return []
    return requisites_of_style(response.body, response.url, content_type)


def _content_type(response: Response) -> str:
    return (response.headers.get("Content-Type") or b"").decode("latin-1")


def _check(settings: BaseSettings) -> None:
    """Refuse CRAWLPRIO_REQUISITES where requisites cannot be recorded or archived."""
    require_extras(settings)
    if is_in_redis(settings):
        problem = "CRAWLPRIO_FRONTIER is redis, whose workers have no store; crawl without it"
    elif read_setting(settings, "CRAWLPRIO_WARC") is None:
        problem = "CRAWLPRIO_WARC names no folder to archive them in; name one (--warc FOLDER)"
    elif read_setting(settings, "CRAWLPRIO_STORE") is None:
        problem = "CRAWLPRIO_STORE is None, so there is nowhere to record them; name a file"
    else:
        return
    raise ConfigError(f"CRAWLPRIO_REQUISITES asks for page requisites, but {problem}.")
