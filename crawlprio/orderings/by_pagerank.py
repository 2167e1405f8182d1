"""Orderings by the PageRank of the pages seen so far: pagerank, partial-pagerank, batch-pagerank.

`crawlprio.ranking` computes PageRank. This module decides when to compute it, from counts alone,
and which keys apply in between.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import partial
from typing import ClassVar

import numpy as np

from crawlprio.graph.compiled import Addresses, njit
from crawlprio.graph.pages import NO_PAGES, PageIds, Visit
from crawlprio.orderings.base import (
    ALL_PAGES,
    Changed,
    CompiledOrdering,
    KeyHistory,
    Keys,
    Pages,
    Part,
    Rows,
    checked_number,
    checked_switch,
    made_of,
    pages_in_turn,
)
from crawlprio.ranking.pagerank import partial_pagerank, round_significant, with_room

UPDATES_PER_VISIT = 25_000
"""Link updates that each visit adds to the budget for the next computation of `pagerank`."""

UPDATES_PER_LINK = 25
"""Link updates charged for a computation per link seen: the sweeps and their preparation."""


def crawl_ranks(rows: Rows, damping: float, *, plain: bool = False) -> Keys:
    """Return the PageRank of the pages of a crawl, rounded so that equal ranks tie.

    `plain`: compute it in Python.

    The result depends on the links alone. A warm start from earlier ranks would save 10 to 20 % of
    the time, but could change the last digit of a rank, and so the order of a resumed crawl. Ranks
    are computed to about 13 digits and rounded to 8.
    """
    row_start, row_length, targets = rows
    ranks = partial_pagerank(
        row_start, row_length, targets, damping=damping, relative_tolerance=1e-13, plain=plain
    )
    return round_significant(ranks, plain=plain)


class SeenLinks:
    """The links of all fetched pages, in the arrays that PageRank reads.

    Appending a row takes amortised O(links of the page). The row of a page that is fetched again
    replaces its earlier row, and `n_links` counts those in the current rows. Memory: 4 bytes per
    link and 12 per page.
    """

    def __init__(self) -> None:
        self.n_links = 0
        self._row_start = np.full(1024, -1, dtype=np.int64)
        self._row_length = np.zeros(1024, dtype=np.int32)
        self._targets: PageIds = np.empty(8192, dtype=np.int32)
        self._end = 0

    def append(self, page: int, targets: PageIds, n_pages: int) -> bool:
        """Add the row of a fetched page, given `n_pages` known pages; return whether it is new."""
        self._row_start = with_room(self._row_start, n_pages, -1)
        self._row_length = with_room(self._row_length, n_pages)
        end = self._end + len(targets)
        self._targets = with_room(self._targets, end)
        self._targets[self._end : end] = targets
        self.n_links += len(targets) - int(self._row_length[page])
        is_first = bool(self._row_start[page] < 0)
        self._row_start[page] = self._end
        self._row_length[page] = len(targets)
        self._end = end
        return is_first

    def snapshot(self, n_pages: int) -> Rows:
        """Return the rows of the first `n_pages` pages; later rows do not change them."""
        starts, lengths = self._row_start[:n_pages].copy(), self._row_length[:n_pages].copy()
        return starts, lengths, self._targets[: self._end]

    def n_not_fetched(self, n_pages: int) -> int:
        """Return how many of the first `n_pages` pages have not been fetched. O(n_pages)."""
        return int(np.count_nonzero(self._row_start[:n_pages] < 0))


@njit(cache=True)
def share_values(
    keys: Keys, page: int, targets: PageIds, first: int, last: int, again: bool,
    numbers: Keys, sites: PageIds, addresses: Addresses,
) -> int:  # fmt: skip
    """The key of an unranked page is the sum of key / links over fetched pages that link to it.

    `numbers`: number of ranked pages (the ids below it); first key of a seed; first key of any
    other page.
    """
    keys[first:last] = numbers[1] if page < 0 else numbers[2]
    if again or len(targets) == 0:
        return 0
    n_ranked = int(numbers[0])
    share = keys[page] / len(targets)
    for target in targets:
        if target >= n_ranked:
            keys[target] += share
    return 0


@njit(cache=True)
def wait_for_ranks(
    keys: Keys, page: int, targets: PageIds, first: int, last: int, again: bool,
    numbers: Keys, sites: PageIds, addresses: Addresses,
) -> int:  # fmt: skip
    """All new pages have the same key until ranks are computed; `numbers` as above."""
    keys[first:last] = numbers[1] if page < 0 else numbers[2]
    return 0


class PartialPageRank(CompiledOrdering):
    """PageRank every `every` visits; pages found in between get shares of their parents' keys.

    The seeds start with 1 / (number of seeds) each. The key of a page found since the last
    computation is the sum, over the fetched pages that link to it, of their key divided by their
    number of links; a page known at that time keeps its key until the next. Pages that are known
    but not fetched count as dangling.

    Source: Castillo, Marin, Rodriguez & Baeza-Yates, Scheduling algorithms for Web crawling, LA-WEB
    2004, section V ("Partial"). Departure: ranks are rounded to 8 significant digits, so
    that equal ranks leave in order of discovery.

    Visits may be observed while a computation runs. Its ranks are then adopted as if they had been
    available at once: the visits since it started are replayed on the new ranks.

    Parameters
    ----------
    every
        Visits from one computation to the next; default 100,000, 1 or more.
    damping
        Probability of following a link; default 0.85.

    Attributes
    ----------
    n_ranked
        Pages known at the last computation; ids below it keep their keys until the next.
    """

    name = "partial-pagerank"
    rule = share_values
    changes_known: ClassVar[bool] = True

    def __init__(self, every: int = 100_000, damping: float = 0.85) -> None:
        self.every: int | None = int(checked_number(self.name, "every", every, least=1, whole=True))
        self.damping = checked_number(self.name, "damping", damping, least=0, below=1)

    @property
    def n_ranked(self) -> int:
        return int(self.numbers[0])

    is_slow_in_python = True

    def compile(self) -> None:
        """Compile the rule and the solver of PageRank."""
        super().compile()
        none = np.zeros(1, dtype=np.int64)
        crawl_ranks((none, none.astype(np.int32), NO_PAGES), self.damping)

    def first_numbers(self) -> Keys:
        return np.array([0.0, 0.0, self.initial_key])

    def open(self, pages: Pages, truth: Callable[[int], float] | None = None) -> None:
        super().open(pages, truth)
        self.n_visits = 0
        self._seen = SeenLinks()
        self._n_seeds = 0
        self._n_ranked_waiting = 0
        self._n_visits_then = 0
        self._n_pages_observed = 0
        self._visits_since: list[tuple[Visit, int, int]] | None = None

    def discover(self, first: int, last: int, visit: Visit) -> None:
        if visit.page < 0:
            self._n_seeds += last - first
            if first == 0 or self.n_visits > 0:
                self.numbers[1] = self._key_of_seeds()
            if self.n_visits == 0:
                self.numbers[0] = last
                self._n_ranked_waiting = last
        super().discover(first, last, visit)

    def observe(self, visit: Visit) -> Changed:
        first, self._n_pages_observed = self._n_pages_observed, self.n_pages
        if visit.page < 0:
            if self._visits_since is not None:
                self._visits_since.append((visit, first, self.n_pages))
            return visit.targets
        changed: Changed = visit.targets
        if self.n_visits == 0 and self._key_of_seeds() != self.numbers[1]:
            # Seeds added one by one share equally too, but their number is only known now.
            self.numbers[1] = self._key_of_seeds()
            self.keys[: self.n_ranked] = self.numbers[1]
            changed = ALL_PAGES
        self.n_visits += 1
        super().observe(visit)
        is_first = self._seen.append(visit.page, visit.targets, self.n_pages)
        if is_first and visit.page < self.n_ranked:
            self._n_ranked_waiting -= 1
        if self._visits_since is not None:
            self._visits_since.append((visit, first, self.n_pages))
        return changed

    def recomputation(self) -> Callable[[], Keys] | None:
        """Return the computation of all ranks if one is due and none is running."""
        if self._visits_since is not None or not self._is_due():
            return None
        self._visits_since = []
        self._n_visits_then = self.n_visits
        return partial(self.keys_of, self._seen.snapshot(self.n_pages))

    def keys_of(self, rows: Rows) -> Keys:
        """Return the keys of all pages from the links seen; runs in any thread."""
        return crawl_ranks(rows, self.damping, plain=self.is_plain)

    def accept(self, result: Keys) -> Changed:
        """Adopt ranks; pages without a rank get keys derived from the new ranks."""
        n_ranked = len(result)
        self.keys[:n_ranked] = result
        self.keys[n_ranked : self.n_pages] = self.initial_key
        self.numbers[0] = n_ranked
        self._n_ranked_waiting = self._seen.n_not_fetched(n_ranked)
        since, self._visits_since = self._visits_since or [], None
        for visit, first, last in since:
            super().discover(first, last, visit)
            if visit.page >= 0:
                self._apply(visit.page, visit.targets, last, last, False)
        return ALL_PAGES

    def explain_history(self, history: KeyHistory) -> Part:
        key = history.key
        if history.page < self.n_ranked:
            if self._n_visits_then == 0:
                return Part(f"one of {self._n_seeds:,} seeds", key)
            return Part(f"its PageRank in the graph of {self._n_visits_then:,} visits", key)
        first = history.first_key if history.found.page < 0 else self.initial_key
        parts = [Part("the first key of a page without a rank", first)]
        if self.changes_known:
            for giver, of_giver, n_links, _ in history.links:
                parts.append(Part(f"its key, over {n_links:,} links", of_giver / n_links, giver))
        return made_of("shares of the keys of pages that link to it", parts)

    def due_at(self, n_links: int) -> int:
        """Return the number of visits at which a computation is due, given `n_links` links seen."""
        assert self.every is not None
        return self._n_visits_then + self.every

    def compute_keys(self, rows: Rows, n_visits: int) -> Keys:
        self._n_visits_then = n_visits
        keys = self.keys_of(rows)
        self.numbers[0] = len(keys)
        return keys

    def _is_due(self) -> bool:
        """Whether keys are due for computation after the last visit."""
        return self.n_visits >= self.due_at(self._seen.n_links)

    def _key_of_seeds(self) -> float:
        return 1.0 / max(self._n_seeds, 1)


class PageRank(PartialPageRank):
    """Pages with the largest PageRank in the graph seen so far first.

    With `every` 1, ranks are recomputed after each visit, as in the source, which takes time
    quadratic in the length of the crawl. By default they are as fresh as a budget allows; it
    depends on counts alone, so that a live crawl and a simulated one agree. Each visit adds 25,000
    link updates to the budget, a computation costs 25 per link seen, and it runs after the first
    visit at which the budget since the last one covers its cost. It therefore runs after every
    visit up to 1,000 links seen, and after every 1,000 visits at 1,000,000 links. In between, keys
    follow `PartialPageRank`.

    Source: Cho, Garcia-Molina & Page, Efficient crawling through URL ordering, WWW7, 1998, Fig. 2
    (3); departures as in `PartialPageRank`, and damping 0.85 (there 0.9).

    Parameters
    ----------
    every
        Visits from one computation to the next, 1 or more; default None: 1 up to 1,000 links seen,
        and in proportion to the links from then on (1,000 at a million).
    damping
        Probability of following a link; default 0.85.

    Notes
    -----
    By default, computing ranks and sorting by them takes about 0.1 ms per visit at any size: 70 to
    170 microseconds on three crawls of 6,000 to 40,000 visits.
    """

    name = "pagerank"
    rule = share_values

    def __init__(self, every: int | None = None, damping: float = 0.85) -> None:
        super().__init__(1 if every is None else every, damping)
        if every is None:
            self.every = None

    def due_at(self, n_links: int) -> int:
        if self.every is not None:
            return super().due_at(n_links)
        cost = n_links * UPDATES_PER_LINK
        return self._n_visits_then + max(-(-cost // UPDATES_PER_VISIT), 1)


class BatchPageRank(PartialPageRank):
    """The best pages by PageRank in batches; once all of a batch are fetched comes the next.

    A batch is the best `every` waiting pages, or all if there are fewer; the first is of seeds, in
    order of discovery. All other pages are held back, even those of sites that are ready: under
    delays, a batch takes as long as its busiest site. With `site_share`, a batch takes so many
    pages of each site at most before it takes more of any. Failed pages count as fetched. When the
    last page of a batch is fetched, keys are computed. Pages that are known but not fetched count
    as dangling.

    Source: Castillo, Marin, Rodriguez & Baeza-Yates, Scheduling algorithms for Web crawling, LA-WEB
    2004, section V ("Batch"); Baeza-Yates, Castillo, Marin & Rodriguez, Crawling a
    country, WWW 2005, section 4.1. Departures: ranks are rounded to 8 significant digits; pages of
    the hot queue and requests with a priority above 0 leave at once, and take a place in the batch;
    if none of a batch can be fetched any more (`CRAWLPRIO_MAX_WAITING` dropped it), other pages
    leave instead.

    Parameters
    ----------
    every
        Number of pages in a batch; default 100,000, 1 or more.
    damping
        Probability of following a link; default 0.85.
    fill
        True: hold no page back. Keys are computed after `every` visits, or sooner if all pages
        known at the last computation are fetched. Where sites rest or several pages are fetched at
        a time, worse pages then take the places of those whose sites are not ready, and no robot
        waits for the end of a batch. Default False. Without a clock, the order is the same.
    """

    name = "batch-pagerank"
    rule = wait_for_ranks
    changes_known: ClassVar[bool] = False
    due_when_ranked_are_fetched: ClassVar[bool] = True
    reads_sites: ClassVar[bool] = True
    initial_key = -1.0

    def __init__(self, every: int = 100_000, damping: float = 0.85, fill: bool = False) -> None:
        super().__init__(every, damping)
        self.fill = checked_switch(self.name, "fill", fill)
        self.held_below = -math.inf if self.fill else 0.0

    def discover(self, first: int, last: int, visit: Visit) -> None:
        super().discover(first, last, visit)
        if visit.page < 0 and self.n_visits == 0 and not self.fill:
            self.keys[max(first, self.every or 0) : last] = self.initial_key
            if self.site_share and last > (self.every or 0):
                self.keys[:last] = 0.0
                self._hold_back(self.keys, np.arange(last, dtype=np.int32))

    def observe(self, visit: Visit) -> Changed:
        changed = super().observe(visit)
        return ALL_PAGES if visit.page < 0 and self.site_share else changed

    def keys_of(self, rows: Rows) -> Keys:
        """Return the ranks of all pages, less 1 for waiting pages outside the next batch."""
        keys = super().keys_of(rows)
        if not self.fill:
            self._hold_back(keys, np.flatnonzero(rows[0] < 0).astype(np.int32))
        return keys

    def _hold_back(self, keys: Keys, waiting: PageIds) -> None:
        """Subtract 1 from the keys of waiting pages outside the next batch."""
        assert self.every is not None
        batch = waiting[np.argsort(-keys[waiting], kind="stable")]
        if self.site_share:
            sites, share = self.pages.sites, self.site_share
            batch = pages_in_turn(batch, sites, self.every, share, lambda page, _: keys[page])
        keys[np.setdiff1d(waiting, batch[: self.every], assume_unique=True)] -= 1.0

    def explain_history(self, history: KeyHistory) -> Part:
        part = super().explain_history(history)
        if self.fill or part.amount >= 0.0 or history.page >= self.n_ranked:
            return part
        return part._replace(what=f"{part.what}, less 1: held back until a batch is fetched")

    def _is_due(self) -> bool:
        if self._n_ranked_waiting == 0 and self.n_visits > self._n_visits_then:
            return True
        return super()._is_due()

    def _key_of_seeds(self) -> float:
        return 0.0 if self.n_visits == 0 else self.initial_key
