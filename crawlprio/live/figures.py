"""What a crawl has fetched so far, in numbers, all runs of a resumed crawl together."""

from __future__ import annotations

from array import array

from crawlprio.pages import PageTable, Visit
from crawlprio.store.hashtable import HashTable


class Figures:
    """Counts the visits of a crawl.

    Attributes
    ----------
    visited
        pages fetched, by id, in order; a page fetched again stands there again.
    n_before
        pages fetched in earlier runs.
    n_failed
        pages without an answer or with an error status.
    n_unique
        pages with a body that no page before had.
    n_links
        links recorded.
    n_sites
        sites from which something was fetched.
    """

    def __init__(self, pages: PageTable) -> None:
        self._pages = pages
        self.visited = array("i")
        self.n_before = 0
        self.n_failed = 0
        self.n_unique = 0
        self.n_links = 0
        self.n_sites = 0
        self._sites_visited = bytearray()
        self._bodies = HashTable()

    @property
    def n_visits(self) -> int:
        """Pages fetched."""
        return len(self.visited)

    def count(self, visit: Visit) -> None:
        """Count one visit."""
        self.visited.append(visit.page)
        site = int(self._pages.sites[visit.page])
        if site >= len(self._sites_visited):
            self._sites_visited.extend(bytes(self._pages.n_sites - len(self._sites_visited)))
        self.n_sites += not self._sites_visited[site]
        self._sites_visited[site] = 1
        self.n_links += len(visit.targets)
        if visit.status == 0 or visit.status >= 400:
            self.n_failed += 1
        elif visit.status < 300 and (
            not visit.content_hash or self._bodies.add(visit.content_hash, 0)
        ):
            self.n_unique += 1
