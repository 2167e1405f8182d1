"""Counts of what a crawl has fetched so far, over all runs of a resumed crawl."""

from __future__ import annotations

from array import array
from collections import Counter

from crawlprio.pages import PageTable, Visit
from crawlprio.store.hashtable import HashTable
from crawlprio.store.outcomes import ROBOTS, failure_of

_MAX_CAUSES = 100
"""Causes that are counted separately; all others count as one."""


class Figures:
    """Counts the visits of a crawl.

    A page counts as fetched if it was got: with a 2xx status, or a redirect that was followed.

    Attributes
    ----------
    visited
        ids of fetched pages, in order; a page fetched again is listed again.
    n_before
        pages fetched in earlier runs.
    failures
        number of pages without a response, with an error status or refused, by cause.
    n_forbidden
        pages that were not fetched because robots.txt forbids them.
    n_unique
        pages whose body no earlier page had.
    n_links
        links recorded.
    n_sites
        sites from which something was fetched.
    """

    def __init__(self, pages: PageTable) -> None:
        self._pages = pages
        self.visited = array("i")
        self.n_before = 0
        self.failures: Counter[str] = Counter()
        self.n_forbidden = 0
        self.n_unique = 0
        self.n_links = 0
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
        site = int(self._pages.sites[visit.page])
        if site >= len(self._sites_visited):
            self._sites_visited.extend(bytes(self._pages.n_sites - len(self._sites_visited)))
        self.n_sites += not self._sites_visited[site]
        self._sites_visited[site] = 1
        if visit.status < 300 and (
            not visit.content_hash or self._bodies.add(visit.content_hash, 0)
        ):
            self.n_unique += 1

    def causes(self) -> str:
        """Return the causes of failures with their counts, most frequent first."""
        return ", ".join(f"{cause}: {count:,}" for cause, count in self.failures.most_common())

    def _count_failure(self, cause: str) -> None:
        if len(self.failures) >= _MAX_CAUSES and cause not in self.failures:
            cause = "other"
        self.failures[cause] += 1
