"""A bound on the waiting pages: a limited buffer that drops the lowest-ranked ones."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from crawlprio.frontier.struct_layouts import Records, best_rows

KEPT, DROPPED, VISITED = 1, 2, 4


class LimitedBuffer:
    """Keeps at most about 1.1 times `capacity` unvisited pages and drops the lowest-ranked ones.

    When the known, unvisited pages exceed `capacity` by more than a tenth, pages are dropped until
    `capacity` are left: lowest priority class first, then lowest key, then latest discovery. A
    dropped page stays known, and its key keeps changing with the evidence. A later link to it
    brings it back if there is room, or if it ranks above all pages of the last drop. Seeds and
    explicitly requested pages are never dropped, but they count.

    All of this depends on the visits alone, so a resumed crawl has dropped the same pages. That is
    why a leased page is dropped as if it were waiting; its visit then undoes the drop.

    Source: Cho, Garcia-Molina & Page, Efficient crawling through URL ordering, WWW7, 1998, section
    3 (crawl with a limited buffer). Departures: pages are dropped a tenth of the capacity at a
    time, and may come back.

    Cost: O(known pages) each time a tenth of `capacity` is dropped. Memory: 1 byte per page.
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
        if n_pages > len(self._marks):
            marks = np.zeros(max(n_pages, 2 * len(self._marks)), dtype=np.uint8)
            marks[: len(self._marks)] = self._marks
            self._marks = marks

    def is_dropped(self, page: int) -> bool:
        """Return whether a page was dropped and has not come back."""
        return bool(self._marks[page] & DROPPED)

    def keep(self, page: int) -> None:
        """Never drop this page from now on; undo its drop if it was dropped."""
        self.n_dropped -= self.is_dropped(page)
        self._marks[page] = int(self._marks[page]) & ~DROPPED | KEPT

    def keep_all(self, first: int, last: int) -> None:
        """Never drop the pages first, ..., last - 1."""
        self._marks[first:last] |= KEPT

    def count_visit(self, page: int) -> None:
        self.n_dropped -= self.is_dropped(page)
        self._n_visited += int(self._marks[page]) & VISITED == 0
        self._marks[page] = VISITED

    def returning(
        self,
        targets: NDArray[np.int32],
        n_pages: int,
        priority_classes: Records,
        keys: NDArray[np.float64],
    ) -> list[int]:
        """Return the dropped pages among `targets` that come back, in the order of `targets`.

        `priority_classes` and `keys` are by page id.
        """
        back: list[int] = []
        if self.n_dropped:
            for page in targets[self._marks[targets] & DROPPED != 0].tolist():
                rank = (int(priority_classes[page]), float(keys[page]), -page)
                if self._n_open(n_pages) < self.capacity or rank > self._last_dropped:
                    self._marks[page] = 0
                    self.n_dropped -= 1
                    back.append(page)
        return back

    def surplus(
        self, n_pages: int, priority_classes: Records, keys: NDArray[np.float64]
    ) -> NDArray[np.int32] | None:
        """Drop the lowest-ranked pages if there are too many; return their ids, ascending."""
        n_open = self._n_open(n_pages)
        if n_open <= self._next_drop:
            return None
        open_pages = np.flatnonzero(self._marks[:n_pages] == 0).astype(np.int32)
        n_least = min(n_open - self.capacity, len(open_pages))
        self._next_drop = max(self._limit, n_open - n_least + self._limit - self.capacity)
        if n_least == 0:
            return None
        ranks = (priority_classes[open_pages], keys[open_pages], -open_pages)
        dropped = open_pages[np.sort(best_rows(ranks, n_least))]
        self._marks[dropped] = DROPPED
        self.n_dropped += n_least
        # Ties go to the smallest id: the page discovered first ranks highest.
        priority_class = priority_classes[dropped].max()
        best = dropped[priority_classes[dropped] == priority_class]
        key = keys[best].max()
        self._last_dropped = (int(priority_class), float(key), -int(best[keys[best] == key][0]))
        return dropped

    def _n_open(self, n_pages: int) -> int:
        """Pages that are neither visited nor dropped."""
        return n_pages - self._n_visited - self.n_dropped
