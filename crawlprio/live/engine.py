"""Every use of Scrapy's private interfaces, in one place.

Scrapy has no public way to wake the engine, to see which requests are in progress or what consumes
items and signals, to see what errbacks yield, to add a middleware once the settings are final, to
disable the downloader's delays, or to make the process exit with an error. A test fails first if
one of these private names changes.
"""

from __future__ import annotations

import logging
import math
import os
import ssl
import sys
import threading
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from time import monotonic
from types import FrameType
from typing import Any

from pydispatch import dispatcher  # type: ignore[import-untyped]
from scrapy import Request, Spider, signals
from scrapy.core.downloader import Downloader, Slot
from scrapy.crawler import Crawler
from scrapy.exceptions import (
    DownloadCancelledError,
    DownloadConnectionRefusedError,
    DownloadFailedError,
    DownloadTimeoutError,
    NotConfigured,
    ResponseDataLossError,
    StopDownload,
)
from scrapy.extensions.corestats import CoreStats
from scrapy.http import Headers, Response
from scrapy.logformatter import LogFormatter, LogFormatterResult
from scrapy.pipelines import ItemPipelineManager
from scrapy.responsetypes import responsetypes
from scrapy.settings import BaseSettings
from scrapy.utils import _download_handlers
from scrapy.utils.asyncgen import as_async_generator
from scrapy.utils.asyncio import CallLaterResult, call_later
from scrapy.utils.defer import deferred_from_coro, maybe_deferred_to_future
from scrapy.utils.misc import build_from_crawler, load_object
from scrapy.utils.ssl import _make_ssl_context
from twisted.internet.defer import Deferred
from twisted.python.failure import Failure
from twisted.web.client import HTTPConnectionPool
from twisted.web.iweb import UNKNOWN_LENGTH

from crawlprio.live.crawl_counters import cause_of
from crawlprio.settings_table.config import needs_twisted_tls, read_setting


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
        self._timer = call_later(max(at - monotonic(), 0.0), self.ring)

    def cancel(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
        self._timer = None
        self._at = math.inf

    def ring(self) -> None:
        """Call it now, and at no time that was set before."""
        self.cancel()
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
    """Return whether anything other than one pipeline class and the item count consumes items.

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


class Reception:
    """What Scrapy's download handlers do as a response comes in: tell receivers, limit its size."""

    stopped: StopDownload | None = None

    def __init__(self, crawler: Crawler, request: Request, most: int, warn_at: int) -> None:
        self._crawler, self._request, self._started = crawler, request, monotonic()
        # Scrapy's own still reads attributes of the spider, which are deprecated.
        most, warn_at = (
            request.meta.get(name, getattr(crawler.spider, name, usual))
            for name, usual in (("download_maxsize", most), ("download_warnsize", warn_at))
        )
        self._most, self._warn_at = most, warn_at

    def begin(self, headers: Headers, length: int | None) -> bool:
        """Take note of the head, and return whether to go on."""
        self._request.meta["download_latency"] = monotonic() - self._started
        known = UNKNOWN_LENGTH if length is None else length
        self._tell(signals.headers_received, headers=headers, body_length=known)
        return self._may_go_on(length or 0, expected=True)

    def go_on(self, data: bytes, size: int) -> bool:
        """Take note of a part of the body, now of some size, and return whether to go on."""
        self._tell(signals.bytes_received, data=data)
        return self._may_go_on(size, expected=False)

    def response(
        self, status: int, headers: Headers, body: bytes, flags: list[str], *about: Any
    ) -> Response:
        """Return the response; raise StopDownload if a receiver wants it to fail."""
        url = self._request.url.partition("#")[0]
        # Its class copies headers value by value, if they are given to it.
        kind = responsetypes.from_args(headers=headers, url=url, body=body)
        response = kind(url, status, None, body, flags, None, *about)
        response._headers = headers
        if self.stopped:
            response.flags.append("download_stopped")
            if self.stopped.fail:
                self.stopped.response = response
                raise self.stopped
        return response

    def _tell(self, signal: object, **arguments: object) -> None:
        if has_receivers(self._crawler, signal):
            self.stopped = _download_handlers.check_stop_download(
                signal, self._crawler, self._request, **arguments
            )

    def _may_go_on(self, size: int, *, expected: bool) -> bool:
        """Return whether no receiver has stopped it; raise DownloadCancelledError if too large."""
        if self.stopped:
            return False
        if self._most and size > self._most:
            text = _download_handlers.get_maxsize_msg(
                size, self._most, self._request, expected=expected
            )
            logger.warning(text)
            raise DownloadCancelledError(text)
        if self._warn_at and size > self._warn_at:
            logger.warning(
                _download_handlers.get_warnsize_msg(
                    size, self._warn_at, self._request, expected=expected
                )
            )
            self._warn_at = 0
        return True


def fail_if_data_is_lost(handler: Any, request: Request) -> None:
    """Raise ResponseDataLossError unless parts of bodies are wanted; a handler warns once."""
    if request.meta.get("download_fail_on_dataloss", handler._fail_on_dataloss):
        if not handler._fail_on_dataloss_warned:
            handler._fail_on_dataloss_warned = True
            logger.warning(_download_handlers.get_dataloss_msg(request.url))
        raise ResponseDataLossError(request.url)


def failure_of(error: OSError | UnicodeError, url: str, seconds: float) -> Exception:
    """Return what Scrapy's download handlers fail with after an error of a connection."""
    if isinstance(error, TimeoutError):
        return DownloadTimeoutError(f"Getting {url} took longer than {seconds} seconds.")
    is_refused = isinstance(error, ConnectionRefusedError)
    return (DownloadConnectionRefusedError if is_refused else DownloadFailedError)(str(error))


def tls_context(settings: BaseSettings) -> ssl.SSLContext | None:
    """Return the TLS context of a crawl; None if its settings ask for what only Twisted's does."""
    if needs_twisted_tls(settings):
        return None
    context = _make_ssl_context(settings)
    context.options |= 0x4  # OP_LEGACY_SERVER_CONNECT, as in Scrapy's own contexts
    return context


class WatchedSlot(Slot):
    """A slot of Scrapy's downloader that reports each change of its delay or concurrency.

    `changed` gets the new delay, or the new number of fetches at once; None stands for no change.
    """

    def __init__(self, slot: Slot, changed: Callable[[float | None, int | None], object]) -> None:
        super().__init__(slot.concurrency, slot.delay, slot.jitter)
        self.changed = changed

    def __setattr__(self, name: str, value: Any) -> None:
        is_change = "changed" in self.__dict__ and self.__dict__.get(name) != value
        super().__setattr__(name, value)
        if is_change and name == "delay":
            self.changed(value, None)
        elif is_change and name == "concurrency":
            self.changed(None, value)


def slot_of(downloader: Downloader, request: Request) -> Slot:
    """Return the downloader's slot of a request; Scrapy forgets it after a minute without any."""
    _, slot = downloader._get_slot(request)
    slot.lastseen = monotonic()
    return slot


def watch_slots(
    crawler: Crawler, changed: Callable[[str, float | None, int | None], object]
) -> None:
    """Call `changed` with the name of each downloader slot that is given another delay or limit.

    Extensions and callbacks change them, as AutoThrottle does. A project's own downloader need not
    have slots.
    """
    downloader: Any = crawler.engine.downloader
    get_slot = getattr(downloader, "_get_slot", None)
    if get_slot is None:
        return

    def get_watched(request: Request, *spider: Any) -> tuple[str, Slot]:
        name, slot = get_slot(request, *spider)
        if not isinstance(slot, WatchedSlot):
            slot = downloader.slots[name] = WatchedSlot(slot, partial(changed, name))
        return name, slot

    downloader._get_slot = get_watched


def set_slot_rules(crawler: Crawler, settings: BaseSettings) -> None:
    """Give the slots of Scrapy's downloader the delays and concurrency that settings have."""
    downloader: Any = crawler.engine.downloader
    read = partial(read_setting, settings)
    downloader._delay = max(downloader._delay, read("DOWNLOAD_DELAY"))
    downloader.domain_concurrency = read("CONCURRENT_REQUESTS_PER_DOMAIN")
    downloader.per_slot_settings = {
        host: {"delay": read("DOWNLOAD_DELAY") if delay is None else delay}
        | ({} if limit is None else {"concurrency": limit})
        for host, (delay, limit) in read("DOWNLOAD_SLOTS").items()
    }


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
def forced_end(process: Any, has_begun: Callable[[], bool]) -> Iterator[None]:
    """End a crawler process with status 130 on a second Ctrl-C, even while its event loop is busy.

    Scrapy then asks the event loop to stop and ignores all further signals. While code is compiled,
    say, the loop would not get to it for half a minute. Until `has_begun()`, the first SIGINT or
    SIGTERM ends it at once, with status 130 or 143.
    """
    shut_down, kill = process._signal_shutdown, process._signal_kill
    timers: list[threading.Timer] = []

    def end(number: int, frame: FrameType | None) -> None:
        if not has_begun():
            os.write(2, b"Interrupted.\n")  # a signal may interrupt a print
            os._exit(128 + number)
        shut_down(number, frame)

    def kill_soon(*signal: Any) -> None:
        kill(*signal)
        timers.append(threading.Timer(_SECONDS_TO_STOP, os._exit, (130,)))
        timers[-1].daemon = True
        timers[-1].start()

    process._signal_shutdown, process._signal_kill = end, kill_soon
    yield
    for timer in timers:
        timer.cancel()


def exit_with_error(crawler: Crawler) -> None:
    """Make the command that runs a crawler exit with an error once its spider is closed.

    To Scrapy, a crawler that ends without a spider never started.
    """

    def forget_spider() -> None:
        crawler.spider = None

    for closed in (signals.spider_closed, signals.engine_stopped):
        crawler.signals.connect(forget_spider, signal=closed, weak=False)
    if crawler.engine._slot is not None and crawler.engine._slot.closing is not None:
        call_later(0, forget_spider)


def uses_spider_middleware(crawler: Crawler, path: str) -> bool:
    """Return whether Scrapy calls the `process_spider_output` of a class, given by import path.

    Scrapy silently leaves out a middleware of a kind that it cannot mix with the others.
    """
    middleware = crawler.get_spider_middleware(load_object(path))
    methods = crawler.engine.scraper.spidermw.methods["process_spider_output"]
    return middleware is not None and middleware.process_spider_output in methods


def add_middleware(crawler: Crawler, setting: str, added: type, *, is_outermost: bool) -> None:
    """Add a middleware outside or inside all others of SPIDER_ or DOWNLOADER_MIDDLEWARES.

    Nothing happens if one of its class is in use, if it is not configured, or if the project's own
    downloader has no middlewares. Call it in the scheduler's `open`, at the latest.
    """
    engine = crawler.engine
    is_of_spider = setting == "SPIDER_MIDDLEWARES"
    manager: Any = (
        engine.scraper.spidermw if is_of_spider else getattr(engine.downloader, "middleware", None)
    )
    if manager is None or any(isinstance(each, added) for each in manager.middlewares):
        return
    try:
        middleware: Any = build_from_crawler(added, crawler)
    except NotConfigured:
        return
    if not is_outermost:
        manager._add_middleware(middleware)
        manager.middlewares = (*manager.middlewares, middleware)
        return
    for name, methods in type(manager)(middleware, crawler=crawler).methods.items():
        is_inward = name == "process_spider_input"
        (manager.methods[name].extendleft if is_inward else manager.methods[name].extend)(methods)
    manager.middlewares = (middleware, *manager.middlewares)
    if engine._start is not None and hasattr(middleware, "process_start"):
        engine._start = middleware.process_start(engine._start)


def ask_last(crawler: Crawler, process_request: Callable[..., Any]) -> None:
    """Have the downloader call this method of a middleware last, just before it fetches."""
    manager = getattr(crawler.engine.downloader, "middleware", None)
    methods = [] if manager is None else manager.methods["process_request"]
    if process_request in methods:
        methods.remove(process_request)
        methods.append(process_request)


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
