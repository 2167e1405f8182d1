"""Scrapy's downloader without its own queues and delays, and its stats without what costs time.

`PolitenessMiddleware` lets a fetch through only when its site may be fetched from, so nothing has
to wait here.
"""

from __future__ import annotations

import errno
import logging
import os
from asyncio import CancelledError
from collections.abc import Callable

from scrapy import Request, signals
from scrapy.core.downloader import Downloader as StockDownloader
from scrapy.crawler import Crawler
from scrapy.downloadermiddlewares.stats import DownloaderStats
from scrapy.exceptions import CannotResolveHostError
from scrapy.http import Response
from scrapy.statscollectors import MemoryStatsCollector
from scrapy.utils.defer import deferred_from_coro, maybe_deferred_to_future
from twisted.internet import defer
from twisted.internet.defer import Deferred

from crawlprio.live.engine import has_receivers, is_closing, sleep, slot_of

logger = logging.getLogger("crawlprio")

_OWN_FAULTS = frozenset({errno.EMFILE, errno.ENFILE, errno.ENOMEM, errno.ENOBUFS})

SIDE_FETCH = "_crawlprio_side_fetch"
"""The `meta` key of a request that comes back as it is if it would have to wait for its site.

A list as its value gets the records of the last answer, which its owner keeps.
"""


class FetchObserver:
    """Receives every fetch of a crawl, including robots.txt and media; ignores it by default."""

    def fetch_started(self, request: Request) -> None:
        """Called before anything is sent."""

    def fetch_cut(self, request: Request, response: Response) -> None:
        """Called before anything else with a response that has flags: its body may not be whole.

        What this raises is what the fetch fails with.
        """

    def fetch_answered(self, request: Request, response: Response) -> None:
        """Called when the complete response has arrived, before `fetch_ended`."""

    def fetch_ended(self, request: Request) -> None:
        """Called once for each fetch that started, whether it succeeded or failed."""


FETCH_HOOKS = tuple(name for name in vars(FetchObserver) if name.startswith("fetch_"))
"""The methods of `FetchObserver`."""


class FetchGate(FetchObserver):
    """A downloader middleware that lets no fetch through before its site may be fetched from."""


class FetchAborted(Exception):
    """A fetch was ended by `Downloader.abort`."""


class Downloader(StockDownloader):
    """Fetches immediately whatever the downloader middlewares let through.

    Set it as `DOWNLOADER`; the add-on does. Scrapy's own downloader keeps a queue per host and
    starts a task for each turn of it, to enforce delays and limits that crawlprio already enforces.
    Signals, `meta["download_slot"]`, `slots` and the middlewares work as they do there. Without a
    `FetchGate` among the middlewares it behaves exactly like Scrapy's own. It is full with
    `total_concurrency` fetches in flight (0: with no number of them), and whenever `is_filled` says
    that as many requests wait for their sites as Scrapy's own would hold. Each fetch costs 20 µs
    more if `abort` can end it.
    """

    def __init__(self, crawler: Crawler) -> None:
        super().__init__(crawler)
        self.at_once = any(isinstance(mw, FetchGate) for mw in self.middleware.middlewares)
        self.observers: list[FetchObserver] = []
        self._fetching: dict[Request, Deferred[Response]] = {}
        self._aborted: set[Request] = set()
        self._has_warned = False
        self.is_filled: Callable[[], bool] = lambda: False
        self.can_abort = False

    def needs_backout(self) -> bool:
        """Return whether fetches in flight, or requests waiting for sites, fill the downloader."""
        return super().needs_backout() or self.is_filled()

    def fetch(self, request: Request) -> Deferred[Response | Request]:  # type: ignore[override]
        """Fetch a page through the middlewares and return their result."""
        if not self.at_once:
            return super().fetch(request)
        self.active.add(request)
        fetched = deferred_from_coro(self.middleware.download_async(self._fetch, request))

        def forget(result: Response | Request) -> Response | Request:
            self.active.remove(request)
            return result

        return fetched.addBoth(forget)

    async def _fetch(self, request: Request) -> Response:
        """Fetch a page with its download handler, and notify observers and signal receivers."""
        request.meta[self.DOWNLOAD_SLOT] = self.get_slot_key(request)
        slot = slot_of(self, request)
        slot.active.add(request)
        slot.transferring.add(request)
        self._send(signals.request_reached_downloader, request=request)
        for observer in self.observers:
            observer.fetch_started(request)
        try:
            response = await self._fetch_when_possible(request)
            if response.flags:
                for observer in self.observers:
                    observer.fetch_cut(request, response)
            self._send(signals.response_downloaded, response=response, request=request)
            for observer in self.observers:
                observer.fetch_answered(request, response)
            return response
        finally:
            slot.active.remove(request)
            slot.transferring.remove(request)
            for observer in self.observers:
                observer.fetch_ended(request)
            self._send(signals.request_left_downloader, request=request)

    async def _fetch_when_possible(self, request: Request) -> Response:
        """Fetch a page; while this machine lacks files or memory, wait a second and try again."""
        while True:
            try:
                return await self._fetch_with_handler(request)
            except Exception as error:
                lack = _lack_behind(error)
                if not lack:
                    raise
                if is_closing(self.crawler):
                    raise FetchAborted from None
                if not self._has_warned:
                    self._has_warned = True
                    logger.warning(
                        "%s: this is not the fault of %s; each such fetch is retried after a "
                        "second. Raise the limit (ulimit -n), or lower CONCURRENT_REQUESTS.",
                        os.strerror(lack),
                        request.url,
                    )
            await sleep(1)

    async def _fetch_with_handler(self, request: Request) -> Response:
        """Fetch a page with its download handler, which `abort` can cancel."""
        if not self.can_abort:
            return await self.handlers.download_request_async(request)
        fetching = deferred_from_coro(self.handlers.download_request_async(request))
        self._fetching[request] = fetching
        try:
            return await maybe_deferred_to_future(fetching)
        except (CancelledError, defer.CancelledError):
            if request in self._aborted:
                raise FetchAborted from None
            raise
        finally:
            del self._fetching[request]
            self._aborted.discard(request)

    def abort(self, request: Request) -> None:
        """Cancel the download handler of a fetch, which closes its connection, if it is running.

        The fetch then fails with `FetchAborted`. Scrapy's handlers for HTTP can be cancelled at any
        time; one that cannot runs to its end.
        """
        if request in self._fetching:
            self._aborted.add(request)
            self._fetching[request].cancel()

    def _send(self, signal: object, **arguments: object) -> None:
        if has_receivers(self.crawler, signal):
            self.signals.send_catch_log(signal=signal, spider=self.crawler.spider, **arguments)


def _lack_behind(error: BaseException | None) -> int:
    """Return the error number of what this machine lacked for a fetch; 0 if it lacked nothing."""
    while error is not None:
        # What a name lookup failed of is not told; it needs a file, as this does.
        if isinstance(error, CannotResolveHostError):
            try:
                os.close(os.dup(0))
            except OSError as lack:
                error = lack
        number = getattr(error, "osError", None) or getattr(error, "errno", None)
        if number in _OWN_FAULTS:
            return int(number or 0)
        error = error.__cause__
    return 0


def own_downloader(crawler: Crawler) -> Downloader | None:
    """Return the downloader of a crawl if it is crawlprio's."""
    downloader = crawler.engine.downloader
    return downloader if isinstance(downloader, Downloader) else None


def observe_fetches(crawler: Crawler, observer: FetchObserver) -> None:
    """Notify an observer of fetches: directly, or through signals under another downloader.

    A signal costs about 10 µs per receiver.
    """
    own = own_downloader(crawler)
    if own is not None and own.at_once:
        own.observers.append(observer)
        return
    connect = crawler.signals.connect
    connect(observer.fetch_started, signal=signals.request_reached_downloader)
    connect(observer.fetch_answered, signal=signals.response_downloaded)
    connect(observer.fetch_ended, signal=signals.request_left_downloader)


class StatsCollector(MemoryStatsCollector):
    """Scrapy's own stats collector without the check for a deprecated argument in every call.

    Set it as `STATS_CLASS`; the bundled project does. Scrapy wraps each method to warn about a
    `spider` argument. With a dozen counts per page, that costs 3 % of the time per page.
    """

    __getattribute__ = object.__getattribute__


class FetchStats(DownloaderStats):
    """Scrapy's own stats of requests and responses, except for `downloader/request_bytes`.

    To count those bytes, Scrapy serializes every request a second time, which costs 3 % of the time
    per page.
    """

    def process_request(self, request: Request) -> None:  # type: ignore[override]
        self.stats.inc_value("downloader/request_count")
        self.stats.inc_value(f"downloader/request_method_count/{request.method}")
