"""The requests that wait for their page to be handed out: in the job directory, or else in memory.

Nothing here decides an order, or knows how requests are written.
"""

from __future__ import annotations

from collections.abc import Callable

from scrapy import Request


class WaitingRequests:
    """Keeps one request for a page; one that is saved takes a byte of memory for each page known.

    Parameters
    ----------
    load
        returns the saved request of a page, None if there is none.
    """

    def __init__(self, load: Callable[[int], Request | None]) -> None:
        self._load = load
        self._in_memory: dict[int, Request] = {}
        self._saved = bytearray()

    def __contains__(self, page: int) -> bool:
        return page in self._in_memory or self._is_saved(page)

    def hold(self, page: int, request: Request, *, saved: bool = False) -> None:
        """Keep the request of a page, in memory unless it is saved."""
        if not saved:
            self._in_memory[page] = request
            return
        if page >= len(self._saved):
            self._saved.extend(bytes(max(page + 1, 2 * len(self._saved)) - len(self._saved)))
        self._saved[page] = 1

    def pop(self, page: int) -> Request | None:
        """Return the request of a page, and keep it no more; None if there is none."""
        request = self._in_memory.pop(page, None)
        if self._is_saved(page):
            self._saved[page] = 0
            if request is None:
                request = self._load(page)
        return request

    def _is_saved(self, page: int) -> bool:
        return page < len(self._saved) and self._saved[page] == 1
