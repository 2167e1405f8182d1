"""How a queue puts off the pages that are likely to repeat others, and lets them back."""

from __future__ import annotations

from collections.abc import Callable, Iterable

import numpy as np

from crawlprio.frontier.records import WAITING, Records
from crawlprio.novelty import Novelty
from crawlprio.orderings.base import Pages

PUT_OFF = 2
"""How much smaller the tier of such a page is: one step of the priority of its request."""


class PutsOff:
    """The part of `PageQueue` that changes the tiers of pages as its `novelty` judges them."""

    novelty: Novelty | None
    pages: Pages
    _pages: Records
    put_back: Callable[[int], None]
    site_limit: Callable[[int], int]
    set_ready_at: Callable[[int, float], None]
    _set_tier: Callable[[int, int], None]

    def take_back(self, page: int, now: float) -> None:
        """Put back a page that `next_page` has just returned, as if it had not."""
        self.put_back(page)
        site = int(self.pages.sites[page])
        if self.site_limit(site) > 1:
            self.set_ready_at(site, now)  # handing out the page moved it

    def is_put_off(self, page: int) -> bool:
        """Return whether a page is put off now."""
        return self.novelty is not None and self.novelty.is_put_off(page)

    def usual_tier(self, page: int) -> int:
        """Return the tier that a page has while it is not put off."""
        return int(self._pages["tier"][page]) + (PUT_OFF if self.is_put_off(page) else 0)

    def judge_all(self) -> None:
        """Put off all waiting pages that would be put off when they came first. O(pages)."""
        if self.novelty is not None:
            for page in np.flatnonzero(self._pages["state"] == WAITING).tolist():
                if self.novelty.puts_off(page, self.pages):
                    self._change_tier(page, -PUT_OFF)

    def _puts_off(self, page: int) -> bool:
        """Judge a leased page; return whether it is put off from now on."""
        if self.novelty is None or not self.novelty.puts_off(page, self.pages):
            return False
        self._change_tier(page, -PUT_OFF)
        return True

    def _let_back(self, pages: Iterable[int]) -> None:
        """Give pages the tiers that they had before they were put off."""
        for page in pages:
            self._change_tier(page, PUT_OFF)

    def _change_tier(self, page: int, change: int) -> None:
        self._set_tier(page, int(self._pages["tier"][page]) + change)
