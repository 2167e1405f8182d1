"""The requests that wait for their page to be handed out, in the job directory or in memory."""

from __future__ import annotations

from collections.abc import Callable
from heapq import heappop, heappush
from typing import NamedTuple, Protocol

_Waiting = tuple[int, int, int | None, object]


class SavedRequest(NamedTuple):
    """A waiting request as stored: its number in the store, its page, and its JSON."""

    number: int
    page: int
    request: bytes


class SavedRequests(Protocol):
    """Reads saved requests."""

    def saved(self, number: int) -> bytes: ...

    def saved_of(self, page: int) -> list[SavedRequest]: ...


class WaitingRequests:
    """Keeps requests by page: higher priority first, then older first.

    Saved requests that are the only ones of their pages take one byte of memory per known page.
    """

    def __init__(self, saved: SavedRequests, priority_of: Callable[[bytes], int]) -> None:
        self._saved = saved
        self._priority_of = priority_of
        self._heaps: dict[int, list[_Waiting]] = {}
        self._alone = bytearray()
        self._n_added = 0
        self.n_more = 0
        """Number of requests that wait behind another one for the same page."""

    def has(self, page: int) -> bool:
        """Return whether a request waits for a page."""
        return page in self._heaps or self._is_alone(page)

    def add(self, page: int, priority: int, request: object | None, number: int | None) -> None:
        """Add another request for a page; None stands for the saved one with this number."""
        heap = self._heaps.setdefault(page, [])
        if self._is_alone(page):
            self._alone[page] = 0
            saved = self._saved.saved_of(page)[0]
            self._push(heap, self._priority_of(saved.request), None, saved.number)
        self.n_more += bool(heap)
        self._push(heap, priority, request, number)

    def add_saved(self, page: int) -> None:
        """Add the saved request of a page that has no other, waiting or leased."""
        if page >= len(self._alone):
            room = max(page + 1, 2 * len(self._alone)) - len(self._alone)
            self._alone.extend(bytes(room))
        self._alone[page] = 1

    def pop(self, page: int) -> tuple[object | None, int | None]:
        """Remove a page's first request; return it and its number, each None if there is none."""
        if self._is_alone(page):
            self._alone[page] = 0
            saved = self._saved.saved_of(page)[0]
            return saved.request, saved.number
        heap = self._heaps.get(page)
        if heap is None:
            return None, None
        _, _, number, request = heappop(heap)
        if heap:
            self.n_more -= 1
        else:
            del self._heaps[page]
        if request is None and number is not None:
            request = self._saved.saved(number)
        return request, number

    def next_priority(self, page: int) -> int | None:
        """Return the priority of the first request of a page; None without one."""
        heap = self._heaps.get(page)
        return -heap[0][0] if heap else None

    def _push(
        self, heap: list[_Waiting], priority: int, request: object | None, number: int | None
    ) -> None:
        self._n_added += 1
        heappush(heap, (-priority, self._n_added, number, request))

    def _is_alone(self, page: int) -> bool:
        return page < len(self._alone) and self._alone[page] == 1
