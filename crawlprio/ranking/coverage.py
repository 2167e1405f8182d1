"""A lower bound on the share of all importance that the pages fetched so far hold."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from crawlprio.arrays import integers
from crawlprio.compiled import njit
from crawlprio.pages import PageIds
from crawlprio.ranking.room import with_room

Floats = NDArray[np.float64]
Longs = NDArray[np.int64]
Totals = NDArray[np.void]

NOT_FETCHED = -1

MAX_PAGES = 2**31 - 1
"""Page ids are int32."""

LEAST_GAIN = 0.003
"""Minimum gain, as a share of its mass, at which a page passes mass on again."""

LINKS_A_VISIT = 256
"""Approximate number of links over which each visit passes mass on again; bounds its work."""

TOTALS = np.dtype(
    [
        ("fetched_mass", np.float64),
        ("dead_end_mass", np.float64),
        ("n_fetched", np.int64),
        ("n_links", np.int64),
        ("cursor", np.int64),
    ],
    align=True,
)
"""Mass of the fetched pages, and of the fetched pages without links; number of fetched pages and of
their links; row of the page examined last."""


@njit(cache=True)
def receive(
    row_of: PageIds, ends: Longs, mass: Floats, totals: Totals, page: int, x: float
) -> None:
    """Add mass to a page."""
    mass[page] += x
    row = row_of[page]
    if row != NOT_FETCHED:
        totals[0].fetched_mass += x
        if ends[row] == ends[row + 1]:
            totals[0].dead_end_mass += x


@njit(cache=True)
def pass_on(
    row_of: PageIds,
    ends: Longs,
    links: PageIds,
    mass: Floats,
    sent: Floats,
    totals: Totals,
    damping: float,
    page: int,
) -> int:
    """Pass on the mass that a fetched page gained since the last time; return its link count."""
    begin, end = int(ends[row_of[page]]), int(ends[row_of[page] + 1])
    share = damping * (mass[page] - sent[page]) / max(end - begin, 1)
    sent[page] = mass[page]
    for at in range(begin, end):
        receive(row_of, ends, mass, totals, links[at], share)
    return end - begin


@njit(cache=True)
def add_row(
    row_of: PageIds,
    ends: Longs,
    links: PageIds,
    mass: Floats,
    totals: Totals,
    page: int,
    targets: PageIds,
) -> None:
    """Record a fetched page and its links."""
    row, end = totals[0].n_fetched, totals[0].n_links + len(targets)
    row_of[page] = row
    links[totals[0].n_links : end] = targets
    ends[row + 1] = end
    totals[0].n_fetched = row + 1
    totals[0].n_links = end
    totals[0].fetched_mass += mass[page]
    if len(targets) == 0:
        totals[0].dead_end_mass += mass[page]


@njit(cache=True)
def pass_on_again(
    row_of: PageIds,
    ends: Longs,
    links: PageIds,
    fetched: PageIds,
    mass: Floats,
    sent: Floats,
    totals: Totals,
    damping: float,
    least_gain: float,
    n_links: int,
) -> int:
    """Cycle through the fetched pages; those that gained enough mass pass it on.

    Stops after a full round or when `n_links` links have been used, where examining a page counts
    as one link. Returns the number of pages that passed mass on.
    """
    n_passed = 0
    for _ in range(totals[0].n_fetched):
        if n_links <= 0:
            break
        n_links -= 1
        totals[0].cursor = (totals[0].cursor + 1) % totals[0].n_fetched
        page = fetched[totals[0].cursor]
        row = row_of[page]
        if ends[row] < ends[row + 1] and mass[page] - sent[page] > least_gain * mass[page]:
            n_links -= pass_on(row_of, ends, links, mass, sent, totals, damping, page)
            n_passed += 1
    return n_passed


class Coverage:
    """A lower bound on the share of all importance that has been fetched, updated during a crawl.

    Importance is PageRank personalised to the seeds: a random surfer starts at a seed, follows a
    link with probability `damping`, and otherwise, or if the page has no links, restarts at a seed.
    For each page, the probability of the paths that reach it through fetched pages only is known;
    other paths can only add to it. The sum over all fetched pages is therefore a lower bound, for a
    web of any size and any crawl order. It holds for the web within the crawl's scope: links that
    leave the scope do not count.

    Let x(p) be the mass of a page: 1 for each seed, plus damping * x(q) / links(q) from each
    fetched page q that links to it. Let D be the fetched pages without links. The bound is ::

        (1 - damping) * sum of x over fetched pages / (seeds - damping * sum of x over D)

    Mass that reaches a page after it was fetched is passed on gradually, by cycling through the
    fetched pages. Mass not passed on yet makes the bound lower, never too high.

    Source: Cho & Schonfeld, RankMass crawler: a crawler with high PageRank coverage guarantee, VLDB
    2007, section 3; the term for pages without links is ours.

    Parameters
    ----------
    damping
        Probability of following a link; default 0.85, 0 or more, below 1.

    Notes
    -----
    A visit takes O(links + 256). Memory: 20 bytes per known page, 12 per fetched page and 4 per
    link.
    """

    def __init__(self, damping: float = 0.85) -> None:
        self._damping = damping
        self._n_seeds = 0
        self._mass = np.zeros(1024)
        self._sent = np.zeros(1024)
        self._row_of = np.full(1024, NOT_FETCHED, dtype=np.int32)
        self._fetched = np.zeros(1024, dtype=np.int32)
        self._ends = np.zeros(1025, dtype=np.int64)
        self._links = np.zeros(8192, dtype=np.int32)
        self._totals = np.zeros(1, dtype=TOTALS)
        self._totals["cursor"] = -1

    def add_seeds(self, pages: Sequence[int]) -> None:
        """Add pages that the crawl starts from; add each only once.

        Raises
        ------
        GraphError
            If an id is negative, or is no integer that fits int32.
        """
        ids = integers("pages", pages, below=MAX_PAGES).tolist()
        self._n_seeds += len(ids)
        self._make_room(max(ids, default=-1) + 1)
        for page in ids:
            receive(self._row_of, self._ends, self._mass, self._totals, page, 1.0)

    def observe(self, page: int, targets: PageIds) -> None:
        """Record a page that was fetched, or failed, and its distinct links.

        If a page is fetched again, the links of its first fetch count.

        Raises
        ------
        GraphError
            As `add_seeds`.
        """
        integers("page", [page], below=MAX_PAGES)
        targets = integers("targets", targets, np.int32, below=MAX_PAGES)
        self._make_room(max(page, int(targets.max(initial=-1))) + 1)
        if self._row_of[page] != NOT_FETCHED:
            return
        totals = self._totals[0]
        n_fetched = int(totals["n_fetched"])
        self._fetched = with_room(self._fetched, n_fetched + 1)
        self._fetched[n_fetched] = page
        self._ends = with_room(self._ends, n_fetched + 2)
        self._links = with_room(self._links, int(totals["n_links"]) + len(targets))
        add_row(self._row_of, self._ends, self._links, self._mass, self._totals, page, targets)
        pass_on(
            self._row_of,
            self._ends,
            self._links,
            self._mass,
            self._sent,
            self._totals,
            self._damping,
            page,
        )
        self._pass_on_again(LEAST_GAIN, LINKS_A_VISIT)

    def settle(self, least_gain: float = 1e-4) -> None:
        """Pass mass on until no page has gained more than `least_gain` of its mass.

        O(rounds * links).
        """
        while self._pass_on_again(least_gain, 2**62):
            pass

    @property
    def bound(self) -> float:
        """Lower bound on the share of all importance that the fetched pages hold; 0 at first."""
        totals = self._totals[0]
        rest = self._n_seeds - self._damping * float(totals["dead_end_mass"])
        return (1.0 - self._damping) * float(totals["fetched_mass"]) / rest if rest > 0 else 0.0

    def _pass_on_again(self, least_gain: float, n_links: int) -> int:
        return pass_on_again(
            self._row_of,
            self._ends,
            self._links,
            self._fetched,
            self._mass,
            self._sent,
            self._totals,
            self._damping,
            least_gain,
            n_links,
        )

    def _make_room(self, n_pages: int) -> None:
        self._mass = with_room(self._mass, n_pages)
        self._sent = with_room(self._sent, n_pages)
        self._row_of = with_room(self._row_of, n_pages, NOT_FETCHED)
