"""Every use of Scrapy's private interfaces, in one place.

Scrapy has no public way to wake the engine, to see which requests are in progress or what consumes
items and signals, to see what errbacks yield, to disable the downloader's delays, or to make the
process exit with an error. A test fails first if one of these private names changes.
"""

from __future__ import annotations

import logging
import math
import os
import sys
import threading
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from time import monotonic
from typing import TYPE_CHECKING, Any

from pydispatch import dispatcher  # type: ignore[import-untyped]
from scrapy import Request, Spider, signals
from scrapy.extensions.corestats import CoreStats
from scrapy.http import Response
from scrapy.logformatter import LogFormatter, LogFormatterResult
from scrapy.pipelines import ItemPipelineManager
from scrapy.utils.asyncgen import as_async_generator
from scrapy.utils.asyncio import call_later
from scrapy.utils.defer import deferred_from_coro, maybe_deferred_to_future
from scrapy.utils.misc import load_object
from twisted.internet.defer import Deferred
from twisted.python.failure import Failure
from twisted.web.client import HTTPConnectionPool

from crawlprio.live.counts import cause_of

if TYPE_CHECKING:
    from scrapy.core.downloader import Downloader, Slot
    from scrapy.crawler import Crawler
    from scrapy.utils.asyncio import CallLaterResult


async def sleep(seconds: float) -> None:
    """Return after some seconds; after 0, once the event loop has had a turn."""
    over: Deferred[None] = Deferred()
    call_later(seconds, over.callback, None)
    await maybe_deferred_to_future(over)


logger = logging.getLogger("crawlprio")


class QuietLogFormatter(LogFormatter):
    """Logs nothing for a fetched page or a scraped item, and one line for a failed fetch.

    The final table counts them all, and Scrapy would format a line for each even where the log
    level discards it. `LOG_FORMATTER = "scrapy.logformatter.LogFormatter"` restores those lines and
    the tracebacks of failed fetches.
    """

    def crawled(self, *args: Any, **kwargs: Any) -> None:  # type: ignore[override]
        return None

    def scraped(self, *args: Any, **kwargs: Any) -> LogFormatterResult | None:  # type: ignore[override]
        return None

    def download_error(
        self, failure: Failure, request: Request, spider: Spider, errmsg: str | None = None
    ) -> LogFormatterResult:
        """Log a failed fetch in one line, and keep Scrapy from logging it with a traceback."""
        assert failure.value is not None
        logger.warning("%s: %s", request.url, cause_of(failure.value, request))
        return {"level": logging.NOTSET, "msg": "", "args": {}}


_NO_RECEIVERS: dict[object, list[object]] = {}


class Alarm:
    """Calls a function once, from the event loop, at the earliest time that was set since."""

    def __init__(self, function: Callable[[], object]) -> None:
        self._function = function
        self._timer: CallLaterResult | None = None
        self._at = math.inf

    def set(self, at: float = -math.inf) -> None:
        """Call it at `at` on the monotonic clock, by default soon, unless it will be sooner."""
        if at >= self._at:
            return
        self.cancel()
        self._at = at
        self._timer = call_later(max(at - monotonic(), 0.0), self._ring)

    def cancel(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
        self._timer = None
        self._at = math.inf

    def _ring(self) -> None:
        self._timer = None
        self._at = math.inf
        self._function()


def wake(crawler: Crawler) -> None:
    """Make the engine ask the scheduler for requests soon."""
    slot = crawler.engine._slot
    if slot is not None and slot.closing is None:
        slot.nextcall.schedule()


def is_closing(crawler: Crawler) -> bool:
    """Return whether the spider is being closed."""
    slot = crawler.engine._slot
    return slot is None or slot.closing is not None


def watch_requests(
    crawler: Crawler,
    *,
    outcome: Callable[[Request, Response | Request | Failure], None],
    done: Callable[[Request], None],
) -> None:
    """Watch what becomes of each request that the engine takes from the scheduler.

    `outcome` is called with the result of the downloader and its middlewares, before the engine
    sees it: a response or failure for the spider, or another request to schedule. `done` is called
    when the callback of a request has ended, the requests that it yielded are scheduled, and its
    items have passed through the pipelines. Call it from the scheduler's `open`, at the earliest:
    the engine must have its slot.
    """
    engine = crawler.engine
    assert engine._slot is not None
    engine._slot.inprogress = _InProgress(done)
    fetch = engine.downloader.fetch

    def fetch_watched(request: Request, *args: Any) -> Any:
        def tell(result: Any) -> Any:
            outcome(request, result)
            return result

        # A project's own downloader need not return a Deferred.
        fetched: Any = fetch(request, *args)
        return fetched.addBoth(tell) if isinstance(fetched, Deferred) else tell(fetched)

    setattr(engine.downloader, "fetch", fetch_watched)  # noqa: B010


def watch_errbacks(crawler: Crawler, yielded: Callable[[Request, Request], None]) -> None:
    """Call `yielded` with each failed request and each that its errback yields.

    No spider middleware sees these.
    """
    scraper = crawler.engine.scraper
    call = scraper.call_spider_async

    async def call_watched(result: Response | Failure, request: Request) -> Any:
        output = await call(result, request)
        return output if isinstance(result, Response) else watched(request, output)

    async def watched(failed: Request, outputs: Any) -> AsyncIterator[Any]:
        async for output in as_async_generator(outputs):
            if isinstance(output, Request):
                yielded(failed, output)
            yield output

    setattr(scraper, "call_spider_async", call_watched)  # noqa: B010


class _InProgress(set["Request"]):
    """The engine's set of requests in progress, which reports each removal."""

    def __init__(self, done: Callable[[Request], None]) -> None:
        super().__init__()
        self._done = done

    def remove(self, request: Request) -> None:
        super().remove(request)
        self._done(request)


def items_are_consumed(crawler: Crawler, other_than: type) -> bool:
    """Return whether anything besides one pipeline class and the item count consumes items.

    That may be another pipeline, a receiver of `item_scraped` (feeds have one), or a log line for
    each item.
    """
    processor = crawler.engine.scraper.itemproc
    return (
        type(processor) is not ItemPipelineManager
        or any(not isinstance(pipeline, other_than) for pipeline in processor.middlewares)
        or not is_only_counted(crawler, signals.item_scraped)
        or not isinstance(crawler.logformatter, QuietLogFormatter)
    )


def is_only_counted(crawler: Crawler, signal: object) -> bool:
    """Return whether nothing receives a signal but Scrapy's `CoreStats`."""
    listeners = dispatcher.liveReceivers(dispatcher.getAllReceivers(crawler, signal))
    return all(isinstance(getattr(own, "__self__", None), CoreStats) for own in listeners)


def has_receivers(crawler: Crawler, signal: object) -> bool:
    """Return whether anything is connected to a signal of a crawler.

    Sending a signal without receivers costs 5 µs, this check 1 µs.
    """
    of_crawler = dispatcher.connections.get(id(crawler), _NO_RECEIVERS)
    of_all = dispatcher.connections.get(id(dispatcher.Any), _NO_RECEIVERS)
    return bool(
        of_crawler.get(signal)
        or of_crawler.get(dispatcher.Any)
        or of_all.get(signal)
        or of_all.get(dispatcher.Any)
    )


def disable_downloader_delays(crawler: Crawler) -> None:
    """Disable the delays and the jitter of Scrapy's own downloader."""
    downloader: Any = crawler.engine.downloader
    downloader._delay = 0.0
    downloader._jitter = 0.0
    downloader.per_slot_settings = {
        host: {**slot, "delay": 0.0, "jitter": 0.0}
        for host, slot in downloader.per_slot_settings.items()
    }


def connection_pools(crawler: Crawler) -> list[Any]:
    """Return the connection pools of the download handlers that have Scrapy's HTTP/1.1 pool."""
    handlers: Any = crawler.engine.downloader.handlers
    found = [getattr(handlers._get_handler(name), "_pool", None) for name in ("http", "https")]
    return [pool for pool in found if isinstance(pool, HTTPConnectionPool)]


def transport_of(connection: Any, renewed: Callable[[Any], Any]) -> Any:
    """Return the transport of a pooled connection; `renewed` gets the one that replaces it.

    Twisted connects again if the server closed the connection while it was idle.
    """
    connect_again = getattr(connection, "_newConnection", None)
    if connect_again is not None:
        connection._newConnection = lambda: connect_again().addCallback(renewed)
    return getattr(connection, "_clientProtocol", connection).transport


def slot_of(downloader: Downloader, request: Request) -> Slot:
    """Return the downloader's slot of a request, in which AutoThrottle reads and sets the delay.

    Scrapy forgets it once it has been idle for a minute.
    """
    _, slot = downloader._get_slot(request)
    slot.lastseen = monotonic()
    return slot


def close_spider(crawler: Crawler, reason: str = "crawlprio_failed") -> Deferred[None]:
    """Close the spider once the fetches in flight have ended; Scrapy reports the reason.

    Nothing happens if the spider is closed already: whoever says so from afar may be late.
    """

    async def close() -> None:
        if crawler.engine.spider is not None:
            await crawler.engine.close_spider_async(reason=reason)  # or `before_closing`'s

    return deferred_from_coro(close())


_SECONDS_TO_STOP = 5.0


@contextmanager
def forced_end(process: Any) -> Iterator[None]:
    """End a crawler process with status 130 on a second Ctrl-C, even while its event loop is busy.

    Scrapy then asks the event loop to stop and ignores all further signals. While code is compiled,
    say, the loop would not get to it for half a minute.
    """
    kill = process._signal_kill
    timers: list[threading.Timer] = []

    def kill_soon(*signal: Any) -> None:
        kill(*signal)
        timers.append(threading.Timer(_SECONDS_TO_STOP, os._exit, (130,)))
        timers[-1].daemon = True
        timers[-1].start()

    process._signal_kill = kill_soon
    yield
    for timer in timers:
        timer.cancel()


def exit_with_error(crawler: Crawler) -> None:
    """Make the command that runs a crawler exit with an error once its spider is closed.

    To Scrapy, a crawler that ends without a spider never started.
    """

    def forget_spider() -> None:
        crawler.spider = None

    for signal in (signals.spider_closed, signals.engine_stopped):
        crawler.signals.connect(forget_spider, signal=signal, weak=False)
    if crawler.engine._slot is not None and crawler.engine._slot.closing is not None:
        call_later(0, forget_spider)


def uses_spider_middleware(crawler: Crawler, path: str) -> bool:
    """Return whether Scrapy calls the `process_spider_output` of a class, given by import path.

    Scrapy silently leaves out a middleware of a kind that it cannot mix with the others.
    """
    middleware = crawler.get_spider_middleware(load_object(path))
    methods = crawler.engine.scraper.spidermw.methods["process_spider_output"]
    return middleware is not None and middleware.process_spider_output in methods


def before_closing(crawler: Crawler, finish: Callable[[str], Awaitable[None]]) -> None:
    """Await `finish`, with Scrapy's reason, each time that the spider is to be closed.

    Whoever asks for it while the spider is closing waits for that.
    """
    engine = crawler.engine
    close = engine.close_spider_async

    async def close_after(*, reason: str = "cancelled") -> None:
        await finish(reason)
        if engine._slot is not None:
            await close(reason=reason)

    setattr(engine, "close_spider_async", close_after)  # noqa: B010


def hand_out_no_more(crawler: Crawler) -> None:
    """Ask the scheduler for no more requests; those that were handed out are unaffected."""
    slot = crawler.engine._slot
    if slot is not None:
        setattr(slot.scheduler, "next_request", lambda: None)  # noqa: B010


def is_fetching(crawler: Crawler) -> bool:
    """Return whether Scrapy is not done with all requests that were handed out."""
    slot = crawler.engine._slot
    return slot is not None and bool(slot.inprogress)


async def fetch_once(crawler: Crawler, request: Request, *, is_counted: bool) -> Response | Request:
    """Fetch through the downloader middlewares, one of which may return another request instead.

    The spider closes only once it is done. Scrapy counts a response (`--pages`) if it `is_counted`.
    """
    engine = crawler.engine
    slot = engine._slot
    assert slot is not None
    fetch = engine._download if is_counted else engine.downloader.fetch
    slot.add_request(request)
    try:
        return await maybe_deferred_to_future(fetch(request))
    finally:
        slot.remove_request(request)


_PROGRAMS = frozenset({"scrapy", "scrapy.exe", "scrapy.cmdline"})
_INSPECTIONS = frozenset({"bench", "check", "fetch", "parse", "shell", "view"})


def is_inspection() -> bool:
    """Return whether this process runs a Scrapy command that inspects pages, not a crawl."""
    # Scrapy has removed the name of its command from sys.argv by now.
    words = [Path(word).name for word in sys.orig_argv]
    at = next((at for at, word in enumerate(words) if word in _PROGRAMS), len(words))
    command = next((word for word in words[at + 1 :] if not word.startswith("-")), "")
    return command in _INSPECTIONS
