"""All that crawlprio needs of Scrapy's engine beyond its public interface, in one place.

Scrapy has no public way to wake the engine, to see which requests it is still busy with, who takes
its items or listens to its signals, to switch off the delays of its downloader, or to make the
process exit with an error. A test fails first if one of these private names changes.
"""

from __future__ import annotations

import math
import sys
from collections.abc import Callable
from pathlib import Path
from time import monotonic
from typing import TYPE_CHECKING, Any

from pydispatch import dispatcher  # type: ignore[import-untyped]
from scrapy import Request, signals
from scrapy.core.downloader.middleware import DownloaderMiddlewareManager
from scrapy.exceptions import CloseSpider, _InvalidOutput
from scrapy.extensions.corestats import CoreStats
from scrapy.http import Response
from scrapy.pipelines import ItemPipelineManager
from scrapy.pipelines.media import MediaPipeline
from scrapy.utils.asyncio import call_later
from scrapy.utils.defer import deferred_from_coro, ensure_awaitable
from scrapy.utils.misc import load_object
from scrapy.utils.python import global_object_name
from twisted.internet.defer import Deferred

from crawlprio.live.logformatter import QuietLogFormatter

if TYPE_CHECKING:
    from collections.abc import Coroutine

    from scrapy.crawler import Crawler
    from scrapy.utils.asyncio import CallLaterResult
    from twisted.python.failure import Failure

_NOBODY: dict[object, list[object]] = {}


class EngineAlarm:
    """Wakes the engine at one future moment, so that a page is asked for when its site is ready.

    Parameters
    ----------
    crawler
        its engine must exist when the alarm is first set.
    """

    def __init__(self, crawler: Crawler) -> None:
        self._crawler = crawler
        self._timer: CallLaterResult | None = None
        self._at = math.inf

    def set(self, at: float) -> None:
        """Wake the engine at `at` on the monotonic clock, unless it will be woken sooner."""
        if at >= self._at or at == math.inf:
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
        wake(self._crawler)


def wake(crawler: Crawler) -> None:
    """Make the engine ask the scheduler for requests soon."""
    slot = crawler.engine._slot
    if slot is not None and slot.closing is None:
        slot.nextcall.schedule()


def watch_requests(
    crawler: Crawler,
    *,
    outcome: Callable[[Request, Response | Request | Failure], None],
    done: Callable[[Request], None],
) -> None:
    """Have it told what becomes of each request that the engine takes from the scheduler.

    Parameters
    ----------
    outcome
        is called with what the downloader and its middlewares made of a request, before the engine
        sees that: a response or failure for the spider, or another request to schedule.
    done
        is called when the engine is done with a request: its callback has ended, the requests that
        it yielded are scheduled, its items have gone through the pipelines.

    Notes
    -----
    To be called once the engine has its slot: from the scheduler's `open`, at the earliest.
    """
    engine = crawler.engine
    assert engine._slot is not None
    engine._slot.inprogress = _InProgress(done)
    fetch = engine.downloader.fetch

    def fetch_watched(request: Request, *args: Any) -> Any:
        def tell(result: Any) -> Any:
            outcome(request, result)
            return result

        # A downloader of the project's own need not return a Deferred.
        fetched: Any = fetch(request, *args)
        return fetched.addBoth(tell) if isinstance(fetched, Deferred) else tell(fetched)

    setattr(engine.downloader, "fetch", fetch_watched)  # noqa: B010


class _InProgress(set["Request"]):
    """The engine's set of requests in progress, which tells when one is taken out."""

    def __init__(self, done: Callable[[Request], None]) -> None:
        super().__init__()
        self._done = done

    def remove(self, request: Request) -> None:
        super().remove(request)
        self._done(request)


class DownloaderMiddlewares(DownloaderMiddlewareManager):
    """Scrapy's chain of downloader middlewares, which awaits only what has to be awaited.

    Scrapy makes a coroutine of every answer, and the name of every method for a warning that is
    hardly ever given: with a dozen plain methods, 4 % of a page's time.
    """

    async def _process_request(
        self, request: Request, download_func: Callable[[Request], Coroutine[Any, Any, Response]]
    ) -> Response | Request:
        for method in self.methods["process_request"]:
            assert method is not None
            answer = self._handle_mw_method(method, request=request)
            if answer is None:
                continue
            answer = await ensure_awaitable(answer, _warn=global_object_name(method))
            if isinstance(answer, (Response, Request)):
                return answer
            if answer is not None:
                raise _InvalidOutput(
                    f"Middleware {method.__qualname__} must return None, Response or Request, "
                    f"got {type(answer).__name__}"
                )
        return await download_func(request)

    async def _process_response(
        self, response: Response | Request, request: Request
    ) -> Response | Request:
        if isinstance(response, Request):
            return response
        for method in self.methods["process_response"]:
            assert method is not None
            answer = self._handle_mw_method(method, request=request, response=response)
            if not isinstance(answer, (Response, Request)):
                answer = await ensure_awaitable(answer, _warn=global_object_name(method))
            if isinstance(answer, Request):
                return answer
            if not isinstance(answer, Response):
                raise _InvalidOutput(
                    f"Middleware {method.__qualname__} must return Response or Request, "
                    f"got {type(answer)}"
                )
            response = answer
        return response


def items_are_taken(crawler: Crawler, but_by: type) -> bool:
    """Return whether anything sees items but one class of pipelines and the count of items.

    That is another pipeline, who listens to `item_scraped` (feeds do), or a log line for each.
    """
    processor = crawler.engine.scraper.itemproc
    listeners = dispatcher.liveReceivers(dispatcher.getAllReceivers(crawler, signals.item_scraped))
    return (
        type(processor) is not ItemPipelineManager
        or any(not isinstance(pipeline, but_by) for pipeline in processor.middlewares)
        or any(not isinstance(getattr(own, "__self__", None), CoreStats) for own in listeners)
        or not isinstance(crawler.logformatter, QuietLogFormatter)
    )


def is_listened_to(crawler: Crawler, signal: object) -> bool:
    """Return whether anything is connected to a signal of a crawler; false for certain if not.

    Sending a signal that nobody listens to costs 5 µs, asking 1 µs.
    """
    of_crawler = dispatcher.connections.get(id(crawler), _NOBODY)
    of_all = dispatcher.connections.get(id(dispatcher.Any), _NOBODY)
    return bool(
        of_crawler.get(signal)
        or of_crawler.get(dispatcher.Any)
        or of_all.get(signal)
        or of_all.get(dispatcher.Any)
    )


def silence_downloader_delays(crawler: Crawler) -> None:
    """Switch off the delays and the jitter of the stock downloader."""
    downloader: Any = crawler.engine.downloader
    downloader._delay = 0.0
    downloader._jitter = 0.0
    downloader.per_slot_settings = {
        host: {**slot, "delay": 0.0, "jitter": 0.0}
        for host, slot in downloader.per_slot_settings.items()
    }


def silence_slot_delay(crawler: Crawler, request: Request) -> None:
    """Undo the delay that AutoThrottle gave the downloader slot of a request."""
    slot = crawler.engine.downloader.slots.get(request.meta.get("download_slot", ""))
    if slot is not None:
        slot.delay = 0.0


def refusal() -> CloseSpider:
    """Return the exception that ends a crawl at its start, to be raised when the spider is opened.

    Scrapy then closes the spider in good order.
    """
    return CloseSpider("crawlprio_refused")


def close_spider(crawler: Crawler, reason: str = "crawlprio_failed") -> None:
    """Close the spider once what is being fetched has been, for a reason that Scrapy reports."""
    deferred_from_coro(crawler.engine.close_spider_async(reason=reason))


def exit_with_error(crawler: Crawler) -> None:
    """Make the command that runs a crawler exit with an error once its spider is closed.

    To Scrapy a crawler that ends without a spider has not started.
    """

    def forget_spider() -> None:
        crawler.spider = None

    for signal in (signals.spider_closed, signals.engine_stopped):
        crawler.signals.connect(forget_spider, signal=signal, weak=False)
    if crawler.engine._slot is not None and crawler.engine._slot.closing is not None:
        call_later(0, forget_spider)


def watch_media(crawler: Crawler, note: Callable[[Request], None]) -> None:
    """Have it told of each request that a media pipeline makes, before it is made.

    Their URLs come from items, and so from pages; other requests that bypass the scheduler are made
    by a project's own code.
    """
    for pipeline in getattr(crawler.engine.scraper.itemproc, "middlewares", ()):
        if isinstance(pipeline, MediaPipeline):
            modify = pipeline._modify_media_request

            def modify_noted(request: Request, modify: Any = modify) -> None:
                modify(request)
                note(request)

            setattr(pipeline, "_modify_media_request", modify_noted)  # noqa: B010


def uses_spider_middleware(crawler: Crawler, path: str) -> bool:
    """Return whether Scrapy calls the `process_spider_output` of a class, given by import path.

    Scrapy leaves a middleware out without an error where it cannot mix its kind with another.
    """
    middleware = crawler.get_spider_middleware(load_object(path))
    methods = crawler.engine.scraper.spidermw.methods["process_spider_output"]
    return middleware is not None and middleware.process_spider_output in methods


_PROGRAMS = frozenset({"scrapy", "scrapy.exe", "scrapy.cmdline"})
_INSPECTIONS = frozenset({"bench", "check", "fetch", "parse", "shell", "view"})


def is_inspection() -> bool:
    """Return whether this process runs a command of Scrapy's that looks at pages, not a crawl."""
    # Scrapy has taken the name of its command out of sys.argv by now.
    words = [Path(word).name for word in sys.orig_argv]
    at = next((at for at, word in enumerate(words) if word in _PROGRAMS), len(words))
    command = next((word for word in words[at + 1 :] if not word.startswith("-")), "")
    return command in _INSPECTIONS
