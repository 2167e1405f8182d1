"""The likely coverage of a running crawl, estimated while it runs, and the time it has left."""

from __future__ import annotations

import logging
import math
import sys
from collections.abc import Callable
from pathlib import Path
from time import monotonic
from typing import TYPE_CHECKING, Any

from scrapy.utils.asyncio import run_in_thread
from scrapy.utils.defer import deferred_from_coro

from crawlprio.measure.receipt_document import duration, short_share

if TYPE_CHECKING:
    from twisted.python.failure import Failure

logger = logging.getLogger("crawlprio")

SHARE, SHARE_TO_STOP = 0.005, 0.02
"""Share of the time of a crawl that estimates of its coverage may take, and if they may end it."""

FIRST_ESTIMATE = 100
"""Pages fetched before the first estimate, and at least between two."""


class CoverageSoFar:
    """The likely coverage of a running crawl, estimated in a thread.

    An estimate reads the whole store. The next one is due when a quarter more pages are fetched,
    but not before the last one is `SHARE`, or `SHARE_TO_STOP`, of the time since. `stop` is called
    once the likely share has reached `stop_at`, if that is given.
    """

    def __init__(
        self,
        store: Path,
        stop_at: float | None = None,
        stop: Callable[[], object] = lambda: None,
    ) -> None:
        self._store = store
        self._stop_at, self._stop = stop_at, stop
        self._due_at = FIRST_ESTIMATE
        self._not_before = 0.0
        self._found: dict[str, Any] | None = None

    def coverage(self, n_fetched: int) -> dict[str, Any] | None:
        """Return the last estimate, None before the first; start the next if it is due."""
        if n_fetched >= self._due_at and monotonic() >= self._not_before:
            self._due_at = n_fetched + max(n_fetched // 4, FIRST_ESTIMATE)
            deferred_from_coro(self._estimate()).addErrback(self._give_up)
        return self._found

    def text(self, n_fetched: int) -> str:
        """Return the last estimate, in words; empty before the first. Start the next if due."""
        found = self.coverage(n_fetched)
        return "" if found is None else f"importance {short_share(found)}"

    async def _estimate(self) -> None:
        self._not_before = math.inf
        found, seconds = await run_in_thread(_timed_coverage, self._store)
        self._found, likely = found, found["likely"]
        share = SHARE if self._stop_at is None else SHARE_TO_STOP
        self._not_before = monotonic() + seconds / share
        if None not in (self._stop_at, likely) and likely >= self._stop_at:
            self._stop()

    def _give_up(self, failure: Failure) -> None:
        """Show no more estimates; the crawl itself reports a store that cannot be read."""
        logger.debug("No estimate of the coverage: %s", failure.getErrorMessage())
        self._due_at = sys.maxsize


def _timed_coverage(store: Path) -> tuple[dict[str, Any], float]:
    """Return the coverage of a crawl, and the seconds that it took without the first imports."""
    from crawlprio.measure.receipt_document import coverage_of

    begun = monotonic()
    return coverage_of(store), monotonic() - begun


def time_left(n_left: float, per_second: float) -> str:
    """Return in words how long so many pages take; empty if none are left, or no limit is set."""
    if not 0 < n_left < math.inf or per_second <= 0:
        return ""
    return duration(n_left / per_second)
