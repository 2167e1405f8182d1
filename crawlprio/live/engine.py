"""All that crawlprio needs of Scrapy's engine beyond its public interface, in one place.

Scrapy has no public way to wake the engine, to see which requests it is still busy with, who takes
its items or listens to its signals, to switch off the delays of its downloader, or to make the
process exit with an error. A test fails first if one of these private names changes.
"""

from __future__ import annotations

import logging
import math
from collections.abc import Set
from time import monotonic
from typing import TYPE_CHECKING, Any
from weakref import WeakSet

from pydispatch import dispatcher  # type: ignore[import-untyped]
from scrapy import signals
from scrapy.exceptions import CloseSpider
from scrapy.extensions.corestats import CoreStats
from scrapy.pipelines import ItemPipelineManager
from scrapy.utils.asyncio import call_later
from scrapy.utils.defer import deferred_from_coro

from crawlprio.errors import CrawlprioError
from crawlprio.live.logformatter import QuietLogFormatter

if TYPE_CHECKING:
    from scrapy import Request
    from scrapy.crawler import Crawler
    from scrapy.utils.asyncio import CallLaterResult

logger = logging.getLogger("crawlprio")

_refused: WeakSet[Crawler] = WeakSet()

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
    """Let the engine ask the scheduler for requests soon."""
    slot = crawler.engine._slot
    if slot is not None and slot.closing is None:
        slot.nextcall.schedule()


def is_shell(crawler: Crawler) -> bool:
    """Return whether a person asks for each page, in `scrapy shell`: its spider never ends."""
    slot = crawler.engine._slot
    return slot is not None and not slot.close_if_idle


def requests_in_progress(crawler: Crawler) -> Set[Request]:
    """Return the requests handed out that are not done with, callback and items included."""
    slot = crawler.engine._slot
    return slot.inprogress if slot is not None else frozenset()


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
    """Let the stock downloader add no delay or jitter of its own to those of crawlprio."""
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


def refuse_to_start(crawler: Crawler, error: CrawlprioError) -> CloseSpider:
    """Log why a crawl cannot start; return the exception that then ends it, to be raised.

    It may be raised when the spider is opened, or the scheduler. Scrapy closes the spider in good
    order. A crawler that ends without a spider counts as not having started, so that the command
    exits with an error. Only the first refusal of a crawler is logged.
    """
    _report(crawler, error)
    return CloseSpider("crawlprio_refused")


def stop_crawl(crawler: Crawler, error: CrawlprioError) -> None:
    """Log why a crawl cannot go on, and close its spider; the command exits with an error."""
    if _report(crawler, error):
        deferred_from_coro(crawler.engine.close_spider_async(reason="crawlprio_failed"))


def _report(crawler: Crawler, error: CrawlprioError) -> bool:
    """Log the first error of a crawl and let it end without a spider; return whether it is that."""
    if crawler in _refused:
        return False
    _refused.add(crawler)
    logger.error("%s", error)

    def forget_spider() -> None:
        crawler.spider = None

    crawler.signals.connect(forget_spider, signal=signals.spider_closed, weak=False)
    return True
