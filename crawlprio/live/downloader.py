"""Scrapy's downloader without the queues and delays of its own.

`PolitenessMiddleware` lets a fetch through when its site may be fetched from, so that nothing is
left to wait for here.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from scrapy import Request, signals
from scrapy.core.downloader import Downloader as StockDownloader
from scrapy.http import Response
from scrapy.utils.defer import deferred_from_coro

from crawlprio.live.engine import DownloaderMiddlewares, is_listened_to

if TYPE_CHECKING:
    from scrapy.crawler import Crawler
    from twisted.internet.defer import Deferred


class FetchObserver:
    """Is told of every fetch of a crawl, robots.txt and media included; by default ignores it."""

    def fetch_started(self, request: Request) -> None:
        """Called before anything is sent."""

    def fetch_answered(self, request: Request, response: Response) -> None:
        """Called when the whole answer is there, before `fetch_ended`."""

    def fetch_ended(self, request: Request) -> None:
        """Called once for each fetch that started, whether it was answered or failed."""


class FetchGate(FetchObserver):
    """A downloader middleware that lets no fetch through before its site's time has come."""


class Downloader(StockDownloader):
    """Fetches at once whatever the downloader middlewares let through.

    Set it as `DOWNLOADER`; the add-on does. Scrapy's own keeps a queue for each host and starts a
    task for each turn of it, to keep delays and limits that crawlprio keeps already. Signals,
    `meta["download_slot"]` and the middlewares work as they do there; `slots` stays empty. Where no
    `FetchGate` is among the middlewares it does all that Scrapy's own does.
    """

    def __init__(self, crawler: Crawler) -> None:
        super().__init__(crawler)
        middlewares = self.middleware.middlewares
        self.at_once = any(isinstance(mw, FetchGate) for mw in middlewares)
        if self.at_once:
            self.middleware = DownloaderMiddlewares(*middlewares, crawler=crawler)
        self.observers: list[FetchObserver] = []
        self.is_filled: Callable[[], bool] = lambda: False

    def needs_backout(self) -> bool:
        """Whether as much is fetched, or waits for its site's time, as may be at once.

        Scrapy's own downloader holds what waits for its site's time; here it waits in the frontier,
        which `is_filled` asks.
        """
        return super().needs_backout() or self.is_filled()

    def fetch(self, request: Request) -> Deferred[Response | Request]:  # type: ignore[override]
        """Fetch a page through the middlewares; what they make of it is the result."""
        if not self.at_once:
            return super().fetch(request)
        self.active.add(request)
        fetched = deferred_from_coro(self.middleware.download_async(self._fetch, request))

        def forget(result: Response | Request) -> Response | Request:
            self.active.remove(request)
            return result

        return fetched.addBoth(forget)

    async def _fetch(self, request: Request) -> Response:
        """Have the handler fetch a page, and tell who wants to know."""
        request.meta[self.DOWNLOAD_SLOT] = self.get_slot_key(request)
        self._send(signals.request_reached_downloader, request=request)
        for observer in self.observers:
            observer.fetch_started(request)
        try:
            response = await self.handlers.download_request_async(request)
            self._send(signals.response_downloaded, response=response, request=request)
            for observer in self.observers:
                observer.fetch_answered(request, response)
            return response
        finally:
            for observer in self.observers:
                observer.fetch_ended(request)
            self._send(signals.request_left_downloader, request=request)

    def _send(self, signal: object, **arguments: object) -> None:
        """Send a signal to those who listen."""
        if is_listened_to(self.crawler, signal):
            self.signals.send_catch_log(signal=signal, spider=self.crawler.spider, **arguments)


def observe_fetches(crawler: Crawler, observer: FetchObserver) -> None:
    """Tell an observer of fetches: directly, or by signals under another downloader.

    A signal costs some 10 µs for each receiver.
    """
    downloader = crawler.engine.downloader
    if isinstance(downloader, Downloader) and downloader.at_once:
        downloader.observers.append(observer)
        return
    connect = crawler.signals.connect
    connect(observer.fetch_started, signal=signals.request_reached_downloader)
    connect(observer.fetch_answered, signal=signals.response_downloaded)
    connect(observer.fetch_ended, signal=signals.request_left_downloader)


def fill_downloader(crawler: Crawler, is_filled: Callable[[], bool]) -> None:
    """Have the engine told that the downloader is full whenever `is_filled` says so.

    Nothing happens under a downloader that is not crawlprio's.
    """
    downloader = crawler.engine.downloader
    if isinstance(downloader, Downloader):
        downloader.is_filled = is_filled
