"""What a crawl keeps in its store for the receipt, its coverage so far, and the receipt itself."""

from __future__ import annotations

import json
import logging
import math
import sys
from collections.abc import Callable
from pathlib import Path
from time import monotonic
from typing import TYPE_CHECKING, Any

from scrapy.utils.asyncio import run_in_thread
from scrapy.utils.defer import deferred_from_coro

from crawlprio.config import read_setting, scrapys_own
from crawlprio.receipt.rules import ENDED_KEY, LIMITS, SCRAPY_LIMITS, SETTINGS_KEY
from crawlprio.receipt.sentences import duration
from crawlprio.store import Store

if TYPE_CHECKING:
    from scrapy.settings import BaseSettings
    from twisted.python.failure import Failure

    from crawlprio.live.recorder import Recorder

logger = logging.getLogger("crawlprio")

SHARE, SHARE_TO_STOP = 0.005, 0.02
"""Share of the time of a crawl that estimates of its coverage may take, and if they may end it."""

FIRST_ESTIMATE = 100
"""Pages fetched before the first estimate, and at least between two."""


def certain_share(stop_at: float | str | None) -> float | None:
    """Return the share in CRAWLPRIO_STOP_AT_COVERAGE that is to be certain; None: there is none."""
    return stop_at if isinstance(stop_at, float) else None


def likely_share(stop_at: float | str | None) -> float | None:
    """Return the share that is to be likely; None: there is none."""
    return float(stop_at.removeprefix("likely:")) if isinstance(stop_at, str) else None


def keep_settings(store: Store, settings: BaseSettings) -> None:
    """Record the values of the settings that limit a crawl, when a run begins."""
    values = {name: read_setting(settings, name) for name in LIMITS}
    values |= scrapys_own(settings, SCRAPY_LIMITS)
    kept = {name: value for name, value in values.items() if _is_plain(value)}
    store.set_meta(SETTINGS_KEY, json.dumps(kept))
    store.set_meta(ENDED_KEY, "")


def made_receipt(recorder: Recorder, settings: BaseSettings, reason: str) -> dict[str, Any] | None:
    """Return the receipt when a run ends, from what is on disk; None if there is to be none.

    The archive of the crawl gets it too.

    Raises
    ------
    StoreError
        If the store cannot be written or read.
    """
    if recorder.store is None or not read_setting(settings, "CRAWLPRIO_RECEIPT"):
        return None
    recorder.finish(reason)
    from crawlprio.receipt.document import make_receipt

    receipt = make_receipt(recorder.store.path)
    if recorder.archive is not None:
        recorder.archive.add_receipt(json.dumps(receipt))
    return receipt


def _is_plain(value: object) -> bool:
    return isinstance(value, str | int | float | bool | None)


class CoverageSoFar:
    """The likely coverage of a running crawl, estimated in a thread.

    An estimate reads the whole store. The next one is due when a quarter more pages are fetched,
    but not before the last one is `SHARE`, or `SHARE_TO_STOP`, of the time since.

    Parameters
    ----------
    store
        path of the crawl's store.
    stop_at, stop
        the likely share from which on `stop` is called; None: never.
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
        self._interval: tuple[float, float] | None = None

    def interval(self, n_fetched: int) -> tuple[float, float] | None:
        """Return the last estimate, None before the first; start the next if it is due."""
        if n_fetched >= self._due_at and monotonic() >= self._not_before:
            self._due_at = n_fetched + max(n_fetched // 4, FIRST_ESTIMATE)
            deferred_from_coro(self._estimate()).addErrback(self._give_up)
        return self._interval

    def text(self, n_fetched: int) -> str:
        """Return the last estimate, in words; empty before the first. Start the next if due."""
        found = self.interval(n_fetched)
        return "" if found is None else f"importance {found[0]:.0%} to {found[1]:.0%}"

    async def _estimate(self) -> None:
        self._not_before = math.inf
        coverage, seconds = await run_in_thread(_timed_coverage, self._store)
        self._interval = coverage["interval"][0], coverage["interval"][1]
        share = SHARE if self._stop_at is None else SHARE_TO_STOP
        self._not_before = monotonic() + seconds / share
        if self._stop_at is not None and coverage["likely"] >= self._stop_at:
            self._stop()

    def _give_up(self, failure: Failure) -> None:
        """Show no more estimates; the crawl itself reports a store that cannot be read."""
        logger.debug("No estimate of the coverage: %s", failure.getErrorMessage())
        self._due_at = sys.maxsize


def _timed_coverage(store: Path) -> tuple[dict[str, Any], float]:
    """Return the coverage of a crawl, and the seconds that it took without the first imports."""
    import scipy.sparse  # noqa: F401

    from crawlprio.receipt.document import coverage_of

    begun = monotonic()
    return coverage_of(store), monotonic() - begun


def time_left(n_responses: int, limit: float, per_second: float) -> str:
    """Return how long the page limit of a run is away, in words; empty if there is none."""
    n_left = limit - n_responses
    if n_left <= 0 or per_second <= 0:
        return ""
    return f"{duration(n_left / per_second)} left"
