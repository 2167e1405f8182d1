"""Figures of a running crawl: what it fetched and failed to fetch, by cause, and its coverage."""

from __future__ import annotations

import logging
import math
import sys
from array import array
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from time import monotonic
from typing import Any

import numpy as np
from scrapy import Request
from scrapy.utils.asyncio import run_in_thread
from scrapy.utils.defer import deferred_from_coro
from twisted.python.failure import Failure

from crawlprio.graph.pages import PageTable, Visit
from crawlprio.measure.receipt_document import duration, short_share
from crawlprio.measure.stored_crawl import COVERED, ENOUGH_PAGES
from crawlprio.ranking.coverage import Coverage
from crawlprio.settings_table.config import CrawlConfig
from crawlprio.store.hashtable import HashTable
from crawlprio.store.outcomes import REFUSED, ROBOTS, UNREACHABLE, failure_of, has_links
from crawlprio.store.saved_state import SavedState
from crawlprio.web.content import CUT, NOT_DECODED, TOO_LARGE
from crawlprio.web.urls import host_of

_MAX_CAUSES = 100
"""Causes that are counted separately; all others count as one."""


class CrawlCounters:
    """Counts the visits of a crawl.

    A page counts as fetched if it was got: with a 2xx status, or a redirect that was followed.
    `visited` has the fetched pages in order, one that was fetched again twice; `n_before` of them
    were fetched in earlier runs. `n_unique` pages have a body that no earlier page had. `failures`
    counts the pages without a response, with an error status or refused, by cause; those that
    robots.txt forbids are counted apart. `n_checks` are the fetches of this run that found a page
    as it was, or in an update failed; CRAWLPRIO_MAX_PAGES counts them too. `value` is what the
    pages are worth to the value model, in all.
    """

    def __init__(self, pages: PageTable) -> None:
        self._pages = pages
        self.visited = array("i")
        self.n_before = 0
        self.n_checks = 0
        self.failures: Counter[str] = Counter()
        self.n_forbidden = 0
        self.n_unique = 0
        self.n_links = 0
        self.value = 0.0
        self.n_sites = 0
        self._sites_visited = bytearray()
        self._bodies = HashTable()

    @property
    def n_fetched(self) -> int:
        return len(self.visited)

    @property
    def n_in_run(self) -> int:
        """Pages fetched or found as they were in this run."""
        return self.n_fetched - self.n_before + self.n_checks

    @property
    def n_failed(self) -> int:
        """Pages whose fetch failed, without those that robots.txt forbids."""
        return self.failures.total()

    def count(self, visit: Visit) -> None:
        self.n_links += len(visit.targets)
        cause = failure_of(visit)
        if cause == ROBOTS:
            self.n_forbidden += 1
            return
        if cause:
            is_other = len(self.failures) >= _MAX_CAUSES and cause not in self.failures
            self.failures["other" if is_other else cause] += 1
            return
        self.visited.append(visit.page)
        self.value += visit.value or 0.0
        site = int(self._pages.sites[visit.page])
        if site >= len(self._sites_visited):
            self._sites_visited.extend(bytes(self._pages.n_sites - len(self._sites_visited)))
        self.n_sites += not self._sites_visited[site]
        self._sites_visited[site] = 1
        if visit.status < 300 and (
            not visit.content_hash or self._bodies.add(visit.content_hash, 0)
        ):
            self.n_unique += 1

    def save(self, state: SavedState, refused: Iterable[str]) -> None:
        """Put all counts into a saved state, without the failures by the causes `refused`.

        The next run asks for their pages again.
        """
        failures = self.failures - Counter(cause.partition(":")[0] for cause in refused)
        counts = [dict(failures), self.n_unique, self.n_links, self.n_sites, self.value]
        state.facts["figures"] = counts
        bodies, _ = self._bodies.entries()
        state.put(
            {
                "figures.visited": np.asarray(self.visited),
                "figures.sites": np.frombuffer(self._sites_visited, np.uint8),
                "figures.bodies": bodies,
            }
        )

    def restore(self, state: SavedState) -> None:
        """Load the counts of a saved state."""
        failures, self.n_unique, self.n_links, self.n_sites, self.value = state.facts["figures"]
        self.failures = Counter(failures)
        self.visited = array("i", state.take("figures.visited", np.int32).tobytes())
        self._sites_visited = bytearray(state.take("figures.sites", np.uint8).tobytes())
        bodies = state.take("figures.bodies", np.int64)
        self._bodies.load(bodies, np.zeros(len(bodies), dtype=np.int32))

    def causes(self) -> str:
        """Return the causes of failures with their counts, most frequent first."""
        return ", ".join(f"{cause}: {count:,}" for cause, count in self.failures.most_common())


class Goal:
    """When a run has enough: pages, or by CRAWLPRIO_STOP_AT_COVERAGE a certain share of importance.

    `coverage` is a lower bound of that share, if it is asked for. `reached` is called with the
    reason, after each page once there is enough.
    """

    def __init__(
        self, config: CrawlConfig, figures: CrawlCounters, reached: Callable[[str], object]
    ) -> None:
        self._max_pages, self._figures, self._reached = config.max_pages, figures, reached
        stop_at = config.stop_at_coverage
        self._share = math.inf if stop_at is None else stop_at.share
        self.coverage = None if stop_at is None or not stop_at.is_certain else Coverage()
        self._has_links = False

    def add_seeds(self, pages: Sequence[int]) -> None:
        if self.coverage is not None:
            self.coverage.add_seeds(pages)

    def observe(self, visit: Visit) -> None:
        """Take note of a visit, of this run or an earlier one."""
        if self.coverage is not None:
            self._has_links = self._has_links or has_links(visit)
            self.coverage.observe(visit.page, visit.targets, is_got=not failure_of(visit))

    def count_check(self) -> None:
        """Count a fetch that found its page unchanged, for CRAWLPRIO_MAX_PAGES."""
        self._figures.n_checks += 1
        self.check()

    def check(self) -> None:
        """End the run if it has enough."""
        if self.enough:
            self._reached(self.enough)

    @property
    def enough(self) -> str:
        """The reason to stop: CRAWLPRIO_STOP_AT_COVERAGE or CRAWLPRIO_MAX_PAGES, or empty."""
        certain = self.certain_share
        if certain is not None and certain >= self._share:
            return COVERED
        return ENOUGH_PAGES if self.n_left <= 0 else ""

    @property
    def n_left(self) -> float:
        """Pages that this run may still get; infinite if no limit is kept here."""
        return math.inf if self._max_pages is None else self._max_pages - self._figures.n_in_run

    @property
    def certain_share(self) -> float | None:
        """The certain share of all importance; None if not asked for, or no page has a link."""
        if self.coverage is None or not self._has_links:
            return None
        return self.coverage.bound


_CAUSES = {
    "CannotResolveHostError": "name not resolved",
    "DNSLookupError": "name not resolved",
    "UnknownHostError": "name not resolved",
    "DownloadConnectionRefusedError": "connection refused",
    "ConnectionRefusedError": "connection refused",
    "DownloadTimeoutError": "timed out",
    "TimeoutError": "timed out",
    "TCPTimedOutError": "timed out",
    "DownloadCancelledError": TOO_LARGE,
    "TooLarge": TOO_LARGE,
    "ResponseDataLossError": CUT,
    "NotDecoded": NOT_DECODED,
    **dict.fromkeys(("zlib.error", "brotli.error", "ZstdError", "BadGzipFile"), NOT_DECODED),
    "UnsupportedURLSchemeError": "scheme not supported",
    "NotSupported": "scheme not supported",
    "DownloadFailedError": "connection failed",
    "ConnectionLost": "connection failed",
    "ConnectionDone": "connection failed",
    "ResponseNeverReceived": "connection failed",
    "ResponseFailed": "connection failed",
}
"""Causes by class name of the exception or of one of its bases, with its module if need be."""

_OF_CONNECTIONS = ("name not resolved", "connection refused", "timed out", "connection failed")


def cause_of(error: BaseException, request: Request) -> str:
    """Return why a fetch failed: a fixed phrase, or the name of the exception's class.

    If no connection was made and there is a proxy, perhaps from the environment, it is named.
    """
    cause, proxy = _cause_of(error), request.meta.get("proxy")
    if cause in _OF_CONNECTIONS and isinstance(proxy, str) and proxy:
        return f"{cause} through the proxy {host_of(proxy)}"
    return cause


def _cause_of(error: BaseException) -> str:
    """Return why a fetch failed, whatever way it went."""
    for cause in _chain(error):
        text = str(cause)
        if text.startswith(UNREACHABLE):
            return text
        if "robots.txt" in text and type(cause).__name__ == "IgnoreRequest":
            return ROBOTS
        if type(cause).__module__.startswith(("OpenSSL", "service_identity", "ssl")):
            return "TLS failed"
    for cls in type(error).__mro__:
        for name in (cls.__name__, f"{cls.__module__}.{cls.__name__}"):
            if name in _CAUSES:
                return _CAUSES[name]
    if type(error).__name__ == "IgnoreRequest":
        return f"{REFUSED}: {error}" if str(error) else REFUSED
    return type(error).__name__


def _chain(error: BaseException) -> list[BaseException]:
    """Return the exception and all that it was raised from or wraps."""
    chain: list[BaseException] = []
    todo: list[BaseException | None] = [error]
    while todo and len(chain) < 20:
        found = todo.pop()
        if found is None or found in chain:
            continue
        chain.append(found)
        todo += [found.__cause__, found.__context__]
        for reason in getattr(found, "reasons", None) or ():
            todo.append(getattr(reason, "value", None))
    return chain


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
        self, store: Path, stop_at: float | None = None, stop: Callable[[], object] = lambda: None
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
        return "" if found is None else f"importance from the seeds {short_share(found)}"

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
