"""How many pages a worker leases before they are asked for."""

from __future__ import annotations

MAX_AHEAD = 16
"""Pages that are leased ahead at most, and at first half as many as there may be fetches."""

_LEAST_AHEAD = 2


class Ahead:
    """Leases further ahead if the worker had to wait for pages that there were, else less far.

    Pages that are leased early are chosen by keys that visits may change meanwhile.

    Parameters
    ----------
    n
        pages; None: as many as it takes, by what becomes of them.
    concurrency
        fetches at once; None: no bound.

    Attributes
    ----------
    n
        how many by now.
    """

    def __init__(self, n: int | None, concurrency: int | None) -> None:
        self._adapts = n is None
        if n is None:
            n = min((concurrency or 2 * MAX_AHEAD) // 2, MAX_AHEAD)
        self.n = max(n, 1)
        self._has_waited = False

    def found_none(self, *, is_asking: bool) -> None:
        """Note that a page was asked for and none is there; `is_asking`: some are on their way."""
        self._has_waited |= is_asking

    def came(self, n_asked: int, n_leased: int, n_there: int) -> None:
        """Note that pages came, and how many were there before."""
        if not self._adapts or self.n == 1 or not n_asked:
            return
        if self._has_waited:
            if n_leased == n_asked:
                self.n = min(2 * self.n, MAX_AHEAD)
        elif n_there > self.n // 4:
            self.n = max(self.n - 1, _LEAST_AHEAD)
        self._has_waited = False
