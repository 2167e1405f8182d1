"""Long computations of an ordering, run off the event loop."""

from __future__ import annotations

import logging
from collections.abc import Callable

from scrapy.utils.asyncio import run_in_thread
from scrapy.utils.defer import deferred_from_coro
from twisted.python.failure import Failure

from crawlprio.errors import CrawlprioError
from crawlprio.frontier import PageQueue
from crawlprio.orderings.base import Keys

logger = logging.getLogger(__name__)


class Computations:
    """Recomputes an ordering's keys in a thread, on a snapshot, while the crawl continues.

    At most one computation of an ordering runs at a time.

    Parameters
    ----------
    queue
        receives the keys once they are computed.
    done
        called after that.
    failed
        called with the error when the ordering fails.

    Attributes
    ----------
    under_way
        whether a computation is running.
    """

    def __init__(
        self,
        queue: PageQueue,
        done: Callable[[], object],
        failed: Callable[[CrawlprioError], object],
    ) -> None:
        self._queue = queue
        self._done = done
        self._failed = failed
        self._is_closed = False
        self.under_way = False
        queue.recompute = self._start

    def close(self) -> None:
        """Discard the result of the computation under way."""
        self._is_closed = True

    def _start(self, work: Callable[[], Keys]) -> None:
        self.under_way = True
        deferred_from_coro(self._compute(work)).addErrback(self._report)

    async def _compute(self, work: Callable[[], Keys]) -> None:
        result = await run_in_thread(work)
        self.under_way = False
        if not self._is_closed:
            self._queue.accept(result)
            self._done()

    def _report(self, failure: Failure) -> None:
        self.under_way = False
        if isinstance(failure.value, CrawlprioError):
            self._failed(failure.value)
            return
        logger.error("The ordering could not be recomputed: %s", failure.getTraceback())
        self._queue.hold_none_back()
        self._done()
