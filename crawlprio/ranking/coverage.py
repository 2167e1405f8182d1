"""A lower bound on the share of all importance that the pages fetched so far hold."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from crawlprio.graph.arrays import Flags, Floats, Longs, integers
from crawlprio.graph.compiled import njit, record
from crawlprio.graph.linkgraph import MAX_PAGES
from crawlprio.graph.pages import PageIds
from crawlprio.ranking.coverage_estimate import DAMPING
from crawlprio.ranking.pagerank import with_room

Totals = NDArray[np.void]

NOT_FETCHED = -1

LEAST_GAIN = 0.003
"""Minimum gain, as a share of its mass, at which a page passes mass on again."""

LINKS_A_VISIT = 256
"""Approximate number of links over which each visit passes mass on again; bounds its work."""

TOTALS = record("f8 got_mass dead_end_mass", "i8 n_fetched n_links cursor")
"""Mass of the pages got, and of the fetched pages without links; number of rows and of their links;
row examined last."""


class Arrays(NamedTuple):
    """What is known of the pages of a crawl; grows with it.

    `mass`, `sent`, `is_got` and `row_of` are by page: its mass, how much of that it passed on,
    whether it was got, and its row. `fetched`, `ends` and `links` are by row: the page, and where
    its links end. `totals`: one element, `TOTALS`.
    """

    mass: Floats
    sent: Floats
    is_got: Flags
    row_of: PageIds
    fetched: PageIds
    ends: Longs
    links: PageIds
    totals: Totals


@njit(cache=True)
def receive(of: Arrays, page: int, x: float) -> None:
    """Add mass to a page."""
    of.mass[page] += x
    if of.is_got[page]:
        of.totals[0].got_mass += x
    row = of.row_of[page]
    if row != NOT_FETCHED and of.ends[row] == of.ends[row + 1]:
        of.totals[0].dead_end_mass += x


@njit(cache=True)
def pass_on(of: Arrays, page: int) -> int:
    """Pass on the mass that a fetched page gained since the last time; return its link count."""
    begin, end = int(of.ends[of.row_of[page]]), int(of.ends[of.row_of[page] + 1])
    share = DAMPING * (of.mass[page] - of.sent[page]) / max(end - begin, 1)
    of.sent[page] = of.mass[page]
    for at in range(begin, end):
        receive(of, of.links[at], share)
    return end - begin


@njit(cache=True)
def pass_on_again(of: Arrays, least_gain: float, n_links: int) -> int:
    """Cycle through the fetched pages; those that gained enough mass pass it on.

    Stops after a full round or when `n_links` links have been used, where examining a page counts
    as one link. Returns the number of pages that passed mass on.
    """
    totals, n_passed = of.totals, 0
    for _ in range(totals[0].n_fetched):
        if n_links <= 0:
            break
        n_links -= 1
        totals[0].cursor = (totals[0].cursor + 1) % totals[0].n_fetched
        page = of.fetched[totals[0].cursor]
        row = of.row_of[page]
        gain = of.mass[page] - of.sent[page]
        if of.ends[row] < of.ends[row + 1] and gain > least_gain * of.mass[page]:
            n_links -= pass_on(of, page)
            n_passed += 1
    return n_passed


@njit(cache=True)
def add_row(of: Arrays, page: int, targets: PageIds) -> None:
    """Record the links of a fetched page, and pass mass on; they replace a row without links."""
    totals = of.totals
    if of.row_of[page] != NOT_FETCHED:
        totals[0].dead_end_mass -= of.mass[page]
        of.sent[page] = 0.0
    row, end = totals[0].n_fetched, totals[0].n_links + len(targets)
    of.row_of[page] = row
    of.fetched[row] = page
    of.links[totals[0].n_links : end] = targets
    of.ends[row + 1] = end
    totals[0].n_fetched = row + 1
    totals[0].n_links = end
    if len(targets) == 0:
        totals[0].dead_end_mass += of.mass[page]
    pass_on(of, page)
    pass_on_again(of, LEAST_GAIN, LINKS_A_VISIT)


class Coverage:
    """A lower bound on the share of all importance that has been fetched, updated during a crawl.

    Importance is PageRank personalised to the seeds: a random surfer starts at a seed, follows a
    link with probability 0.85, and otherwise, or if the page has no links, restarts at a seed.
    For each page, the probability of the paths that reach it through fetched pages only is known;
    other paths can only add to it. The sum over all fetched pages is therefore a lower bound, for a
    web of any size and any crawl order. It holds for the web within the crawl's scope: links that
    leave the scope do not count.

    Let x(p) be the mass of a page: 1 for each seed, plus 0.85 * x(q) / links(q) from each
    fetched page q that links to it. Let D be the fetched pages without links. The bound is ::

        (1 - 0.85) * sum of x over pages got / (seeds - 0.85 * sum of x over D)

    Mass that reaches a page after it was fetched is passed on gradually, by cycling through the
    fetched pages. Mass not passed on yet makes the bound lower, never too high.

    Source: Cho & Schonfeld, RankMass crawler: a crawler with high PageRank coverage guarantee, VLDB
    2007, section 3; the term for pages without links is ours.

    A visit takes O(links + 256). Memory: 21 bytes per known page, 12 per fetched page and 4 per
    link.
    """

    def __init__(self) -> None:
        self._n_seeds = 0
        self._of = Arrays(
            mass=np.zeros(1024),
            sent=np.zeros(1024),
            is_got=np.zeros(1024, dtype=np.bool_),
            row_of=np.full(1024, NOT_FETCHED, dtype=np.int32),
            fetched=np.zeros(1024, dtype=np.int32),
            ends=np.zeros(1025, dtype=np.int64),
            links=np.zeros(8192, dtype=np.int32),
            totals=np.zeros(1, dtype=TOTALS),
        )
        self._of.totals["cursor"] = -1

    def add_seeds(self, pages: Sequence[int]) -> None:
        """Add pages that the crawl starts from; add each only once.

        Raises `GraphError` if an id is negative, or not an integer that fits int32.
        """
        ids = integers("pages", pages, below=MAX_PAGES).tolist()
        self._n_seeds += len(ids)
        self._make_room(max(ids, default=-1) + 1)
        for page in ids:
            receive(self._of, page, 1.0)

    def observe(self, page: int, targets: PageIds, *, is_got: bool = True) -> None:
        """Record the distinct links of a page that was fetched; `is_got` says if it did not fail.

        A failed page ends the surfer's path, and is no part of what was fetched. If a page is
        fetched again, the first links that were got count.

        Raises `GraphError` as `add_seeds` does.
        """
        integers("page", [page], below=MAX_PAGES)
        targets = integers("targets", targets, np.int32, below=MAX_PAGES)
        self._make_room(max(page, int(targets.max(initial=-1))) + 1)
        of, totals = self._of, self._of.totals[0]
        if is_got and not of.is_got[page]:
            of.is_got[page] = True
            totals["got_mass"] += of.mass[page]
        row = of.row_of[page]
        has_links = row != NOT_FETCHED and of.ends[row] < of.ends[row + 1]
        if row != NOT_FETCHED and (has_links or not is_got or not len(targets)):
            return
        n_fetched = int(totals["n_fetched"])
        self._of = of = of._replace(
            fetched=with_room(of.fetched, n_fetched + 1),
            ends=with_room(of.ends, n_fetched + 2),
            links=with_room(of.links, int(totals["n_links"]) + len(targets)),
        )
        add_row(of, page, targets)

    def settle(self, least_gain: float = 1e-4) -> None:
        """Pass mass on until no page has gained more than `least_gain` of its mass.

        O(rounds * links).
        """
        while pass_on_again(self._of, least_gain, 2**62):
            pass

    @property
    def bound(self) -> float:
        """Lower bound on the share of all importance that the fetched pages hold; 0 at first."""
        totals = self._of.totals[0]
        rest = self._n_seeds - DAMPING * float(totals["dead_end_mass"])
        return (1.0 - DAMPING) * float(totals["got_mass"]) / rest if rest > 0 else 0.0

    def _make_room(self, n_pages: int) -> None:
        of = self._of
        if n_pages <= len(of.mass):
            return
        self._of = of._replace(
            mass=with_room(of.mass, n_pages),
            sent=with_room(of.sent, n_pages),
            is_got=with_room(of.is_got, n_pages),
            row_of=with_room(of.row_of, n_pages, NOT_FETCHED),
        )
