"""A bound on the number of waiting pages: which to drop, and which to take back."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from crawlprio.compiled import njit
from crawlprio.frontier import heaps
from crawlprio.frontier.records import UNKNOWN, WAITING, Entries, Records, wide

KEPT, DROPPED, VISITED = 1, 2, 4


class LimitedBuffer:
    """Keeps at most some 1.1 times `capacity` pages that are not visited; the least are dropped.

    When more than a tenth too many are known and not visited, the least promising are dropped until
    `capacity` are left: by lowest tier, then lowest key, then latest discovery. A dropped page
    stays known, and its key goes on changing with the evidence. A later link to it brings it back
    if there is room or if it ranks before all that were dropped last. Seeds, and pages for which a
    request came, are never dropped, but count.

    All of this depends on the visits alone: a page that is leased is dropped as if it waited, which
    its visit makes good. So a crawl that is resumed has dropped the same pages.

    Source: Cho, Garcia-Molina & Page, Efficient crawling through URL ordering, WWW7, 1998, section
    3 (crawl with a limited buffer). Departures: pages are dropped a tenth at a time, and may come
    back.

    Cost: O(pages known) each time that a tenth of `capacity` is dropped. Memory: 1 byte a page.

    Parameters
    ----------
    capacity
        pages, 1 or more.
    """

    def __init__(self, capacity: int) -> None:
        self.capacity = capacity
        self.n_dropped = 0
        self._marks = np.zeros(1024, dtype=np.uint8)
        self._n_visited = 0
        self._limit = capacity + max(capacity // 10, 1)
        self._next_drop = self._limit
        self._last_dropped: tuple[int, float, int] = (0, 0.0, 0)

    def make_room(self, n_pages: int) -> None:
        """Make room for so many pages."""
        if n_pages > len(self._marks):
            marks = np.zeros(max(n_pages, 2 * len(self._marks)), dtype=np.uint8)
            marks[: len(self._marks)] = self._marks
            self._marks = marks

    def is_dropped(self, page: int) -> bool:
        """Return whether a page was dropped and has not come back."""
        return bool(self._marks[page] & DROPPED)

    def keep(self, page: int) -> None:
        """Never drop a page from now on; it comes back if it was dropped."""
        self.n_dropped -= self.is_dropped(page)
        self._marks[page] = int(self._marks[page]) & ~DROPPED | KEPT

    def keep_all(self, first: int, last: int) -> None:
        """Never drop the pages first, ..., last - 1."""
        self._marks[first:last] |= KEPT

    def note_visit(self, page: int) -> None:
        """Note that a page was visited."""
        self.n_dropped -= self.is_dropped(page)
        self._n_visited += int(self._marks[page]) & VISITED == 0
        self._marks[page] = VISITED

    def returning(
        self, targets: NDArray[np.int32], n_pages: int, tiers: Records, keys: NDArray[np.float64]
    ) -> list[int]:
        """Return which of the pages that a visit links to come back, in its order.

        Parameters
        ----------
        n_pages
            pages known.
        tiers, keys
            by page id.
        """
        back: list[int] = []
        if self.n_dropped:
            for page in targets[self._marks[targets] & DROPPED != 0].tolist():
                rank = (int(tiers[page]), float(keys[page]), -page)
                if self._n_open(n_pages) < self.capacity or rank > self._last_dropped:
                    self._marks[page] = 0
                    self.n_dropped -= 1
                    back.append(page)
        return back

    def surplus(
        self, n_pages: int, tiers: Records, keys: NDArray[np.float64]
    ) -> NDArray[np.int32] | None:
        """Drop the least promising pages if there are too many; return them, by id."""
        n_open = self._n_open(n_pages)
        if n_open <= self._next_drop:
            return None
        open_pages = np.flatnonzero(self._marks[:n_pages] == 0).astype(np.int32)
        n_least = min(n_open - self.capacity, len(open_pages))
        self._next_drop = max(self._limit, n_open - n_least + self._limit - self.capacity)
        if n_least == 0:
            return None
        dropped = open_pages[_least(tiers[open_pages], keys[open_pages], n_least)]
        self._marks[dropped] = DROPPED
        self.n_dropped += n_least
        # By id last: the one discovered first is the best of equals.
        tier = tiers[dropped].max()
        best = dropped[tiers[dropped] == tier]
        key = keys[best].max()
        self._last_dropped = (int(tier), float(key), -int(best[keys[best] == key][0]))
        return dropped

    def _n_open(self, n_pages: int) -> int:
        """Pages that are neither visited nor dropped."""
        return n_pages - self._n_visited - self.n_dropped


def _least(tiers: NDArray[np.int32], keys: NDArray[np.float64], n_least: int) -> NDArray[np.int64]:
    """Where the least stand, ascending: by tier, then key, then from the end. O(n)."""
    chosen = np.zeros(len(keys), dtype=bool)
    for tier in np.unique(tiers):
        of_tier = np.flatnonzero(tiers == tier)
        if len(of_tier) > n_least:
            lowest = keys[of_tier]
            bound = np.partition(lowest, n_least - 1)[n_least - 1]
            below = of_tier[lowest < bound]
            equal = of_tier[lowest == bound]
            chosen[below] = True
            chosen[equal[len(equal) - (n_least - len(below)) :]] = True
            break
        chosen[of_tier] = True
        n_least -= len(of_tier)
        if n_least == 0:
            break
    return np.flatnonzero(chosen)


@njit(cache=True)
def take_out(
    pages: Records,
    sites: Records,
    heap: Entries,
    totals: Records,
    dropped: NDArray[np.int32],
) -> int:
    """Take pages out of the queue, as if they were unknown; return how many were in it."""
    n_waiting = 0
    for at in range(len(dropped)):
        page = wide(dropped[at])
        if pages[page].state == WAITING:
            heaps.remove(pages, sites, heap, totals, page, wide(UNKNOWN))
            n_waiting += 1
    return n_waiting
