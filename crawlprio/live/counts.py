"""Counts of what a crawl knows, fetched and failed to fetch, by cause."""

from __future__ import annotations

from array import array
from collections import Counter
from collections.abc import Iterable

import numpy as np
from scrapy import Request

from crawlprio.graph.pages import PageTable, Visit
from crawlprio.store.hashtable import HashTable
from crawlprio.store.outcomes import REFUSED, ROBOTS, TOO_LARGE, UNREACHABLE, failure_of
from crawlprio.store.saved_state import SavedState
from crawlprio.web.urls import host_of

_MAX_CAUSES = 100
"""Causes that are counted separately; all others count as one."""


class Figures:
    """Counts the visits of a crawl.

    A page counts as fetched if it was got: with a 2xx status, or a redirect that was followed.
    `visited` has the fetched pages in order, one that was fetched again twice; `n_before` of them
    were fetched in earlier runs. `n_unique` pages have a body that no earlier page had. `failures`
    counts the pages without a response, with an error status or refused, by cause; those that
    robots.txt forbids are counted apart. `value` is what the pages are worth to the value model, in
    all.
    """

    def __init__(self, pages: PageTable) -> None:
        self._pages = pages
        self.visited = array("i")
        self.n_before = 0
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
        """Pages fetched."""
        return len(self.visited)

    @property
    def n_failed(self) -> int:
        """Pages that were asked for and not got, except those robots.txt forbids."""
        return self.failures.total()

    def count(self, visit: Visit) -> None:
        """Count one visit."""
        self.n_links += len(visit.targets)
        cause = failure_of(visit)
        if cause == ROBOTS:
            self.n_forbidden += 1
            return
        if cause:
            self._count_failure(cause)
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
        """Put all counts into a saved state, but not refusals, for these causes.

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

    def _count_failure(self, cause: str) -> None:
        if len(self.failures) >= _MAX_CAUSES and cause not in self.failures:
            cause = "other"
        self.failures[cause] += 1


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
    "ResponseDataLossError": "cut short",
    "UnsupportedURLSchemeError": "scheme not supported",
    "NotSupported": "scheme not supported",
    "DownloadFailedError": "connection failed",
    "ConnectionLost": "connection failed",
    "ConnectionDone": "connection failed",
    "ResponseNeverReceived": "connection failed",
    "ResponseFailed": "connection failed",
}
"""Causes by class name of the exception or of one of its bases, from Scrapy and Twisted."""


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
        if _is_tls(cause):
            return "TLS failed"
    for cls in type(error).__mro__:
        if cls.__name__ in _CAUSES:
            return _CAUSES[cls.__name__]
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


def _is_tls(error: BaseException) -> bool:
    return type(error).__module__.startswith(("OpenSSL", "service_identity", "ssl"))
