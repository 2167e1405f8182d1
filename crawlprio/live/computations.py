"""Long computations of an ordering, done off the event loop; what they compute is the core's."""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import TYPE_CHECKING

from scrapy.utils.asyncio import run_in_thread
from scrapy.utils.defer import deferred_from_coro
from twisted.python.failure import Failure

from crawlprio.errors import CrawlprioError
from crawlprio.frontier import Frontier
from crawlprio.live import engine
from crawlprio.orderings.base import Keys

if TYPE_CHECKING:
    from scrapy.crawler import Crawler

logger = logging.getLogger(__name__)


class Computations:
    """Does what an ordering has to recompute in a thread, and brings the keys up to date after it.

    An ordering has at most one under way; it works on a snapshot, while the crawl goes on.

    Attributes
    ----------
    under_way
        whether a result is still to come.
    """

    def __init__(self, crawler: Crawler, frontier: Frontier) -> None:
        self._crawler = crawler
        self._frontier = frontier
        self._closed = False
        self.under_way = False
        frontier.recompute = self._start

    def close(self) -> None:
        """Drop the result that is still to come."""
        self._closed = True

    def _start(self, work: Callable[[], Keys]) -> None:
        self.under_way = True
        deferred_from_coro(self._compute(work)).addErrback(self._failed)

    async def _compute(self, work: Callable[[], Keys]) -> None:
        result = await run_in_thread(work)
        self.under_way = False
        if not self._closed:
            self._frontier.accept(result)
            engine.wake(self._crawler)

    def _failed(self, failure: Failure) -> None:
        self.under_way = False
        if isinstance(failure.value, CrawlprioError):
            engine.stop_crawl(self._crawler, failure.value)
            return
        logger.error("The ordering could not be recomputed: %s", failure.getTraceback())
        engine.wake(self._crawler)
