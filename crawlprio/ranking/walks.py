"""Random walks into the pages that a crawl did not fetch: they prove its share, by a sample.

Importance is the PageRank of `coverage`: its surfer starts at the seeds. It equals the probability
that the surfer is at a page when they first stop following links, so where walks end is a sample of
it. What happens as long as a walk stays among fetched pages is known; only from the first page
that was not fetched on does a walk have to be drawn, and its pages fetched.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from random import Random
from typing import NamedTuple

import numpy as np

from crawlprio.graph.arrays import Flags
from crawlprio.graph.pages import NO_PAGE
from crawlprio.ranking.coverage_estimate import DAMPING, Fetches

CONFIDENCE = 0.95
"""Probability that the share is at least `Certificate.at_least`."""


class Certificate(NamedTuple):
    """What walks prove of the share of all importance that is fetched.

    `at_least`: the share is at least this, with probability `CONFIDENCE` over the draw of the
    walks. `at_most`: it is at most this, with the same probability. `likely`: the estimate,
    unbiased once all walks have ended. `certain`: the part that needs no walk: the bound of
    `coverage`. `n_walks`, `n_back` and `n_open`: walks drawn; those that ended at a fetched
    page; those that have not ended.
    """

    at_least: float
    at_most: float
    likely: float
    certain: float
    n_walks: int
    n_back: int
    n_open: int


@dataclass
class _Walk:
    """A walk: where it is, and whether it goes on from there. `is_back` is None until it ends."""

    random: Random
    page: int
    is_leaving: bool = False
    is_back: bool | None = None


class Walks:
    """Walks of a random surfer, each from the moment when it first leaves the fetched pages.

    At each page the surfer stops with probability 1 - `DAMPING`. Otherwise they follow a random
    link, or go to a random seed if the page has no links. Pages that are not fetched are asked for,
    by `wanted`, until `answer` has given the links of all that are needed.

    The number of walks that end at a fetched page is binomial: each does so with the same unknown
    probability, whatever the rest of the web is like. So the interval of Clopper and Pearson
    (Biometrika 1934) for that probability holds on every web. Walks that have not ended count as
    ended elsewhere in `at_least`, and as ended at a fetched page in `at_most`.

    Walks as a judge of a set of pages: Henzinger, Heydon, Mitzenmacher & Najork, Measuring index
    quality using random walks on the Web, WWW 1999. There walks start anywhere, and their ends are
    only nearly distributed as PageRank.

    `fetches`: the pages fetched, and their links. `is_got`: bool, shape (n_pages,): whose
    importance is counted; failed pages are fetched, but not got. `nowhere`: a page that stands for
    what is not known: walks that come to it stay open. `n_walks`: how many; each has its own
    random stream, so raising the number keeps the walks already made. `seed`: of those streams.

    Raises `ValueError` if there are no walks, or nowhere to walk: every page that can be reached is
    fetched.

    A walk needs at most DAMPING / (1 - DAMPING), 5.7, pages on average.
    """

    def __init__(
        self, fetches: Fetches, is_got: Flags, n_walks: int, seed: str, nowhere: int = NO_PAGE
    ) -> None:
        if n_walks < 1:
            raise ValueError(f"n_walks is {n_walks}; draw at least 1")
        visits, dead_ends = fetches.visits()
        visits = visits / (1.0 - DAMPING * dead_ends)
        # By page, how likely it is that a walk leaves the fetched pages there.
        beyond = np.where(fetches.is_fetched, 0.0, visits)
        pages = np.flatnonzero(beyond)
        if not len(pages):
            raise ValueError("no page is left to walk to")
        self.certain = (1.0 - DAMPING) * float(visits[fetches.is_fetched & is_got].sum())
        self._is_got, self._nowhere = is_got, nowhere
        self._fetches = fetches
        self._seeds = fetches.seeds.tolist()
        self._links: dict[int, list[int]] = {}
        self._beyond = float(beyond.sum())
        upto = np.cumsum(beyond[pages])
        self._walks = []
        for number in range(n_walks):
            random = Random(f"{seed} {number}")
            at = int(np.searchsorted(upto, random.random() * self._beyond, side="right"))
            self._walks.append(_Walk(random, int(pages[min(at, len(pages) - 1)])))
        self._waiting: dict[int, list[_Walk]] = {}
        for walk in self._walks:
            self._go(walk)

    @property
    def wanted(self) -> list[int]:
        """Pages whose links are needed, in the order in which walks came to them."""
        return list(self._waiting)

    def answer(self, page: int, links: Sequence[int]) -> list[int]:
        """Supply the links of an unfetched page; return the further pages needed.

        `page`: one of `wanted`, or a page that may yet be. `links`: distinct but for `nowhere`,
        without the page itself; those not known to the crawl have ids from `n_pages`. Empty for a
        page that cannot be got.
        """
        self._links[page] = list(links)
        before = set(self._waiting)
        for walk in self._waiting.pop(page, []):
            self._go(walk)
        return [page for page in self._waiting if page not in before]

    def certificate(self) -> Certificate:
        """Return what the walks prove so far."""
        from scipy.special import betaincinv

        n = len(self._walks)
        n_back = sum(walk.is_back is True for walk in self._walks)
        n_open = sum(walk.is_back is None for walk in self._walks)
        most = n_back + n_open
        low = float(betaincinv(n_back, n - n_back + 1, 1.0 - CONFIDENCE)) if n_back else 0.0
        high = float(betaincinv(most + 1, n - most, CONFIDENCE)) if most < n else 1.0
        likely = n_back / (n - n_open) if n_open < n else 0.0
        at_least, at_most, likely = (
            self.certain + self._beyond * share for share in (low, high, likely)
        )
        return Certificate(at_least, at_most, likely, self.certain, n, n_back, n_open)

    def _go(self, walk: _Walk) -> None:
        """Walk on until the end, or to a page whose links are needed."""
        while walk.page != self._nowhere:
            if not walk.is_leaving:
                if walk.random.random() >= DAMPING:
                    is_known = walk.page < len(self._is_got)
                    walk.is_back = is_known and bool(self._is_got[walk.page])
                    return
                walk.is_leaving = True
            links = self._links_of(walk.page)
            if links is None:
                self._waiting.setdefault(walk.page, []).append(walk)
                return
            walk.page = walk.random.choice(links or self._seeds)
            walk.is_leaving = False

    def _links_of(self, page: int) -> Sequence[int] | None:
        """Return the links of a page; None if they are not known yet."""
        fetches = self._fetches
        if page < fetches.n_pages and fetches.is_fetched[page]:
            row = fetches.at[page]
            found: list[int] = fetches.links[fetches.ends[row] : fetches.ends[row + 1]].tolist()
            return found
        return self._links.get(page)
