"""Orderings that estimate nothing: breadth-first, backlink count, larger sites first and others."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import ClassVar

import numpy as np

from crawlprio.graph.compiled import Addresses, njit
from crawlprio.graph.pages import PageIds, Visit
from crawlprio.orderings.base import (
    Changed,
    CompiledOrdering,
    KeyHistory,
    Keys,
    Pages,
    Part,
    checked_seed,
    made_of,
    uniform,
)


@njit(cache=True)
def count_links(
    keys: Keys, page: int, targets: PageIds, first: int, last: int, again: bool,
    numbers: Keys, sites: PageIds, addresses: Addresses,
) -> int:  # fmt: skip
    """A page's key is the number of fetched pages that link to it."""
    for new in range(first, last):
        keys[new] = 0.0
    if not again:
        for target in targets:
            keys[target] += 1.0
    return 0


class BacklinkCount(CompiledOrdering):
    """Pages with the most links from fetched pages first.

    Source: Cho, Garcia-Molina & Page, Efficient crawling through URL ordering, WWW7, 1998, Fig. 2
    (2). O(1) per link and page, and a heap operation for each waiting target.
    """

    rule = count_links
    changes_known: ClassVar[bool] = True

    def explain_history(self, history: KeyHistory) -> Part:
        links = (Part("a link", 1.0, link.page) for link in history.links)
        return made_of("links from fetched pages", links)


@njit(cache=True)
def keep_zero(
    keys: Keys, page: int, targets: PageIds, first: int, last: int, again: bool,
    numbers: Keys, sites: PageIds, addresses: Addresses,
) -> int:  # fmt: skip
    """All keys are 0: pages leave in order of discovery."""
    for new in range(first, last):
        keys[new] = 0.0
    return 0


@njit(cache=True)
def run_clocks(
    keys: Keys, page: int, targets: PageIds, first: int, last: int, again: bool,
    numbers: Keys, sites: PageIds, addresses: Addresses,
) -> int:  # fmt: skip
    """A new page's key is that of the page that links to it, plus ln u with u from (0, 1].

    `numbers`: the seed of u; the key of the last page visited, from which seeds continue.
    """
    seed = int(numbers[0])
    parent_key = numbers[1] if page < 0 else keys[page]
    for new in range(first, last):
        keys[new] = parent_key + math.log(1.0 - uniform(seed, new))
    if not again:
        numbers[1] = parent_key
    return 0


@njit(cache=True)
def number_visits(
    keys: Keys, page: int, targets: PageIds, first: int, last: int, again: bool,
    numbers: Keys, sites: PageIds, addresses: Addresses,
) -> int:  # fmt: skip
    """A new page's key is the number of the visit that found it, 0 for a seed.

    `numbers`: the number of visits so far.
    """
    keys[first:last] = 0.0 if page < 0 else numbers[0] + 1.0
    if not again:
        numbers[0] += 1.0
    return 0


class Random(CompiledOrdering):
    """Each next page drawn uniformly from all waiting pages: the baseline for other orderings.

    Each page has a virtual clock. It starts at the time at which the clock of the page that links
    to it ended (for a seed, at 0 or where the clock of the last visited page ended) and runs for an
    exponentially distributed time of mean 1. The page whose clock ends first is fetched next.
    Exponential times are memoryless, so at any moment the time left has the same distribution for
    all waiting pages, however long they have waited, and each is equally likely to be next. The key
    is minus the time at which the clock ends.

    Source: the random order that Najork & Wiener 2001 (section 1) and Baeza-Yates et al. 2005
    (section 4) compare with; exponential clocks: Feller, An Introduction to Probability Theory and
    Its Applications II, 1971, section I.6. O(1) per link.

    Parameters
    ----------
    seed
        Whole number of 0 or more, below 2**53; default 0. Crawls with the same seed and the same
        order of visits fetch the same pages.

    Notes
    -----
    The draw is uniform as long as keys alone decide: one fetch at a time, no delays, no hot queue.
    With several fetches in flight, the clocks of a page's links start at the virtual time at which
    the page was handed out, so links whose clocks have ended in the meantime leave next. The clocks
    of a site's pages keep running during its delay, so the site catches up once it is ready.

    Keys fall by 1 / (waiting pages) per fetch on average: to -ln n if all n pages are known from
    the start, and to -n on a chain, where one page waits at a time. At -10**9 they are still
    distinguishable to 10**-7; ties leave in order of discovery.
    """

    rule = run_clocks
    initial_key = -1.0

    def __init__(self, seed: int = 0) -> None:
        self._seed = checked_seed("random", seed)

    def first_numbers(self) -> Keys:
        return np.array([self._seed, 0.0])

    def open(self, pages: Pages, truth: Callable[[int], float] | None = None) -> None:
        super().open(pages, truth)
        self.initial_key = -1.0

    def observe(self, visit: Visit) -> Changed:
        changed = super().observe(visit)
        # A page queued before the visit that links to it is observed gets the mean clock.
        self.initial_key = float(self.numbers[1]) - 1.0
        return changed

    def explain_history(self, history: KeyHistory) -> Part:
        what, found = "minus the time at which its clock ends", history.found
        if found.page < 0:
            return Part(f"{what}, drawn", history.key)
        begin = Part("when its clock ended", found.key, found.page)
        drawn = math.log(1.0 - uniform(self._seed, history.page))
        return made_of(what, (begin, Part("for how long its own clock runs, drawn", drawn)))


class BreadthFirst(CompiledOrdering):
    """Pages in the order in which they were discovered.

    Source: Cho, Garcia-Molina & Page 1998, Fig. 2 (1); Najork & Wiener, Breadth-first search
    crawling yields high-quality pages, WWW10, 2001. O(1) per link.
    """

    rule = keep_zero

    def explain(self, page: int) -> Part:
        return Part(
            "the same for all pages: they leave in order of discovery", float(self.keys[page])
        )


class DepthFirst(CompiledOrdering):
    """Links of the most recently fetched page first, in page order.

    A page that is linked again keeps its place. O(1) per link.
    """

    rule = number_visits

    def first_numbers(self) -> Keys:
        return np.zeros(1)

    def explain_history(self, history: KeyHistory) -> Part:
        return Part("the number of the visit that found it", history.key, history.found.page)


class LargerSitesFirst(CompiledOrdering):
    """The ready site with the most waiting pages first; within a site, order of discovery.

    Keeps many sites active until the end of a crawl, so that per-site delays slow it down less.
    Ties go to the site whose first waiting page was discovered first.

    Source: Castillo, Marin, Rodriguez & Baeza-Yates, Scheduling algorithms for Web crawling, LA-WEB
    2004, section V ("Length"). O(log sites) per page.
    """

    rule = keep_zero
    by_waiting_pages: ClassVar[bool] = True

    def explain(self, page: int) -> Part:
        what = "the same for all pages: the site with the most waiting pages comes first"
        return Part(what, float(self.keys[page]))

    def site_key(self, site: int, best_key: float, n_waiting: int) -> float:
        return n_waiting
