"""Batches of the best pages by any other ordering; links are seen between batches."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Any

import numpy as np

from crawlprio.graph.pages import NO_PAGE, NO_PAGES, Visit
from crawlprio.orderings import guard
from crawlprio.orderings.base import Changed, Keys, Ordering, Pages, checked_number
from crawlprio.plugins.papers.combined import Combined


class _Members(Combined):
    """The sum of the orderings by which batches are chosen."""

    name = "batched"


class Batched(Ordering):
    """The best pages by other orderings in batches; once all of a batch are fetched comes the next.

    A batch is the `every` waiting pages with the largest weighted sum of the keys of other
    orderings, or all if there are fewer. All other pages are held back, even those of sites that
    are ready, so a batch takes as long as its busiest site. Failed pages count as fetched.

    Source: the batches of the real crawls of Castillo, Marin, Rodriguez & Baeza-Yates, Scheduling
    algorithms for Web crawling, LA-WEB 2004, section VI (100,000 pages), and of Baeza-Yates,
    Castillo, Marin & Rodriguez, Crawling a country, WWW 2005, section 5 (200,000). Departure: hot
    pages and requests with a priority above 0 leave at once, and take a place in the batch. O(n log
    n) per batch of n waiting pages, besides the cost of the orderings.

    Parameters
    ----------
    every
        Number of pages in a batch; default 100,000, 1 or more.
    weights
        As for `combined`: name of an ordering -> its weight; default: opic alone.
    options
        Name of an ordering -> dict of its options.
    """

    name = "batched"
    initial_key = -1.0
    held_below = 0.0

    def __init__(
        self,
        every: int = 100_000,
        weights: Mapping[str, float] = MappingProxyType({"opic": 1.0}),
        options: Mapping[str, Mapping[str, Any]] | None = None,
    ) -> None:
        self._every = int(checked_number(self.name, "every", every, least=1, whole=True))
        self._inner = _Members(weights, options)
        self.members = [self._inner]
        self.needs_anchors, self.needs_truth = self._inner.needs_anchors, self._inner.needs_truth

    @property
    def needs_compiled(self) -> bool:
        return self._inner.needs_compiled

    def compile(self) -> None:
        """Compile what the members run."""
        self._inner.compile()

    def open(self, pages: Pages, truth: Callable[[int], float] | None = None) -> None:
        super().open(pages, truth)
        self._is_fetched = np.zeros(len(self.keys), dtype=np.bool_)
        self._left: set[int] = set()
        self._n_fetched = 0
        guard.open_ordering(self._inner, pages, truth)

    def observe(self, visit: Visit) -> Changed:
        guard.learn(self._inner, visit, self.n_pages, again=False)
        self._is_fetched.resize(len(self.keys), refcheck=False)
        if visit.page != NO_PAGE:
            self._is_fetched[visit.page] = True
            self._n_fetched += 1
            self._left.discard(visit.page)
        if self._left and self._n_fetched < self._every:
            return NO_PAGES
        waiting = np.flatnonzero(~self._is_fetched[: self.n_pages]).astype(np.int32)
        by_key = np.argsort(-self._inner.keys[waiting], kind="stable")
        batch = waiting[by_key[: self._every]]
        self.keys[waiting] = self.initial_key
        self.keys[batch] = np.arange(len(batch), 0, -1)
        self._left, self._n_fetched = set(batch.tolist()), 0
        return waiting

    def recomputation(self) -> Callable[[], Keys] | None:
        return self._inner.recomputation()

    def accept(self, result: Keys) -> Changed:
        self._inner.accept(result)
        return NO_PAGES
