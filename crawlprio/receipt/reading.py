"""What a store says of its crawl, read once for a receipt."""

from __future__ import annotations

from array import array
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from crawlprio.pages import NO_PAGE, Visit
from crawlprio.ranking.likely import Fetches
from crawlprio.store.outcomes import failure_of, is_refusal
from crawlprio.store.reader import StoreReader

FEWEST_GAPS = 5
"""Gaps on a site from which its pace is known."""


@dataclass
class Pace:
    """How fast a site was fetched from.

    Parameters
    ----------
    n_fetches, seconds
        Fetches that ended, and how long they took together.
    gap
        Shortest time from the end of a fetch to the start of the next.
    ended_at
        End of the last fetch.
    """

    n_fetches: int = 0
    seconds: float = 0.0
    gap: float = 0.0
    ended_at: float = 0.0

    def add(self, visit: Visit) -> None:
        gap = max(0.0, visit.fetched_at - visit.elapsed - self.ended_at)
        self.gap = gap if self.n_fetches <= 1 else min(gap, self.gap)
        self.n_fetches += 1
        self.seconds += visit.elapsed
        self.ended_at = visit.fetched_at

    @property
    def seconds_a_page(self) -> float:
        """Seconds from page to page that the site was seen to need; 0 if it is not known."""
        if self.n_fetches <= FEWEST_GAPS:
            return 0.0
        return self.gap + self.seconds / self.n_fetches


@dataclass
class StoredCrawl:
    """The outcome of a crawl, by page. A page that was visited again counts as last visited.

    Parameters
    ----------
    sites, hosts
        The site of every page, and the host of every site.
    seeds
        Pages that the crawl started from.
    statuses
        Pages got, by status.
    failures
        Pages not got, in the order of their first visit, with the cause.
    paces
        By site.
    n_bytes, begin, end
        Length of all bodies, start of the first fetch and end of the last one; 0 without fetches.
    """

    sites: NDArray[np.int32]
    hosts: list[str]
    seeds: list[int]
    statuses: Counter[int] = field(default_factory=Counter)
    failures: dict[int, str] = field(default_factory=dict)
    paces: dict[int, Pace] = field(default_factory=dict)
    n_bytes: int = 0
    n_links: int = 0
    begin: float = 0.0
    end: float = 0.0

    def __post_init__(self) -> None:
        self._got: dict[int, int] = {}
        self._row_of: dict[int, int] = {}
        self._order = array("i")
        self._ends = array("q", [0])
        self._links = array("i")

    @classmethod
    def read(cls, store: StoreReader, visits: Iterable[Visit] | None = None) -> StoredCrawl:
        """Read a crawl; raise `StoreError` if its store is damaged. O(pages + links).

        `visits` are all of the store, if they are read for another purpose as well.
        """
        crawl = cls(*store.page_sites(), store.seeds())
        for visit in store.visits(texts=False, anchors=False) if visits is None else visits:
            if visit.page != NO_PAGE:
                crawl._add(visit)
        for page, status in crawl._got.items():
            crawl.statuses[status] += 1
            crawl.failures.pop(page, None)
        return crawl

    @property
    def n_got(self) -> int:
        """Pages that were got."""
        return len(self._got)

    @cached_property
    def is_got(self) -> NDArray[np.bool_]:
        """bool, shape (n_pages,)."""
        got = np.zeros(len(self.sites), dtype=np.bool_)
        got[list(self._got)] = True
        return got

    @cached_property
    def fetches(self) -> Fetches:
        """The pages that need no further fetch, got or failed, with their links."""
        rows = np.array(sorted(self._row_of.values()), dtype=np.int64)
        order, links = (np.array(ids, dtype=np.int32) for ids in (self._order, self._links))
        ends = np.array(self._ends, dtype=np.int64)
        degrees = np.diff(ends)
        is_kept = np.zeros(len(order), dtype=np.bool_)
        is_kept[rows] = True
        return Fetches(
            len(self.sites),
            np.array(self.seeds, dtype=np.int32),
            order[is_kept],
            np.concatenate([[0], np.cumsum(degrees[is_kept])]).astype(np.int64),
            links[np.repeat(is_kept, degrees)],
        )

    def _add(self, visit: Visit) -> None:
        page = visit.page
        cause = failure_of(visit)
        if cause:
            if page not in self._got:
                self.failures[page] = cause
        else:
            self._got[page] = visit.status
        # The first links that were got count, as in the bound of a running crawl.
        if page not in self._row_of or (not cause and self._has_no_links(page)):
            self._row_of[page] = len(self._order)
            self._order.append(page)
            self._links.frombytes(np.ascontiguousarray(visit.targets, dtype=np.int32).tobytes())
            self._ends.append(len(self._links))
        self.n_links += len(visit.targets)
        self.n_bytes += visit.n_bytes
        if not is_refusal(visit.status, visit.error):
            self._time(visit)

    def _has_no_links(self, page: int) -> bool:
        row = self._row_of[page]
        return self._ends[row] == self._ends[row + 1]

    def _time(self, visit: Visit) -> None:
        """Note when a fetch happened."""
        begin = visit.fetched_at - visit.elapsed
        self.begin = min(self.begin or begin, begin)
        self.end = max(self.end, visit.fetched_at)
        self.paces.setdefault(int(self.sites[visit.page]), Pace()).add(visit)
