"""How many pages a worker leases before they are asked for."""

from __future__ import annotations

MAX_AHEAD = 16
"""Pages that are leased ahead at most, and at first half as many as there may be fetches."""

_LEAST_AHEAD = 2


class Lookahead:
    """Grows when the worker had to wait for pages that there were, and shrinks when it had enough.

    Pages that are leased early are chosen by keys that visits may change meanwhile.

    Parameters
    ----------
    fixed
        pages ahead, always; None: as many as it takes.
    concurrency
        fetches at once at most; with one, no page is leased ahead.

    Attributes
    ----------
    n_pages
        pages to have, those that are being asked for included; 1: a page is leased when it is asked
        for.
    """

    def __init__(self, fixed: int | None, concurrency: int | None) -> None:
        at_first = min((concurrency or 2 * MAX_AHEAD) // 2, MAX_AHEAD)
        self.n_pages = max(at_first if fixed is None else fixed, 1)
        self._adapts = fixed is None and self.n_pages > 1
        self._has_waited = False

    def is_low(self, n_left: int) -> bool:
        """Whether it is time to ask for more, with so many pages left."""
        return self.n_pages > 1 and n_left <= self.n_pages // 2

    def ran_out(self, is_asking: bool) -> None:
        """Note that a page was wanted and there was none; whether some had been asked for."""
        self._has_waited |= is_asking

    def was_answered(self, n_asked: int, n_leased: int, n_left: int) -> None:
        """Note how many pages came, and how many were left until then."""
        if self._adapts:
            if self._has_waited:
                if n_leased == n_asked > 0:
                    self.n_pages = min(2 * self.n_pages, MAX_AHEAD)
            elif n_left > self.n_pages // 4:
                self.n_pages = max(self.n_pages - 1, _LEAST_AHEAD)
        self._has_waited = False
