"""How many pages a worker leases ahead of need."""

from __future__ import annotations

MAX_AHEAD = 16
"""The most pages leased ahead; the initial number is half the concurrency, up to this bound."""

_LEAST_AHEAD = 2


class Ahead:
    """Leases further ahead after the worker had to wait, and less far while leased pages pile up.

    Leasing ahead costs order: visits may change the keys by which the pages were chosen.

    Parameters
    ----------
    n
        A fixed number of pages; None: adapt.
    concurrency
        Fetches at once; None: unlimited.

    Attributes
    ----------
    n
        The current number of pages.
    """

    def __init__(self, n: int | None, concurrency: int | None) -> None:
        self._adapts = n is None
        if n is None:
            n = min((concurrency or 2 * MAX_AHEAD) // 2, MAX_AHEAD)
        self.n = max(n, 1)
        self._has_waited = False

    def count_miss(self, *, is_asking: bool) -> None:
        """Count a moment without a page at hand; `is_asking`: an answer is pending."""
        self._has_waited |= is_asking

    def adapt(self, n_asked: int, n_leased: int, n_there: int) -> None:
        """Adapt to a batch: pages asked for, leased, and still at hand when it arrived."""
        if not self._adapts or self.n == 1 or not n_asked:
            return
        if self._has_waited:
            if n_leased == n_asked:
                self.n = min(2 * self.n, MAX_AHEAD)
        elif n_there > self.n // 4:
            self.n = max(self.n - 1, _LEAST_AHEAD)
        self._has_waited = False
