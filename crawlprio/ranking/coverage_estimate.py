"""The likely share of importance of what is fetched, with its calibrated constants.

Importance is the PageRank of `coverage`: its surfer starts at the seeds. `coverage` says what is
certain; this module also estimates what flows through pages that are not fetched.
`experiments/calibration.py` computes the constants and judges them; `docs/coverage.md` says how
often the interval held on webs that took no part.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from crawlprio.graph.arrays import Flags, Floats, Ints, Longs

CONFIDENCE = 0.9
"""Share of crawls of other webs in which the interval is to hold the truth."""

LEAST = 0.02
"""Parts are taken to be at least this, and at most 1 minus this, before the logit. The interval
reaches to the bound, or to 1, if an estimate is beyond."""

ERRORS = (-1.01, 0.33)
"""Added to the logit of the lower estimate, and of the higher one. An error is the logit of the
true part minus that of the estimated part, where the part is the share of the importance beyond the
certain bound that was fetched. These leave out 3 % of the errors on either side in the worst kind
of crawl: five orderings, from one seed and from ten."""

WIDEST = 0.5
"""Widest interval that is worth saying."""

DAMPING = 0.85

LINKS_AT_ONCE = 1 << 20
"""Links for which memory is taken at once, or as many as there are pages."""

LEAST_CHANGE = 1e-7
"""Mass that still moves, as a share of all, at which the computation of mass ends."""

OPENED = 10
"""Fetched pages from which on a folder counts as opened."""

MOST_STEPS = 120
"""Steps after which it ends in any case; less than `DAMPING ** MOST_STEPS` is then left."""


@dataclass(frozen=True, eq=False)
class Fetches:
    """What a crawl has fetched: rows of links, in the order of the fetches.

    `n_pages`: number of known pages. `seeds`: distinct pages that the crawl started from. `order`:
    int32, shape (n_fetched,): the fetched pages, each once; failed pages have no links. `ends`:
    int64, shape (n_fetched + 1,): the links of `order[i]` are `links[ends[i]:ends[i + 1]]`.
    `links`: int32: distinct targets of each page, without the page itself. `folders`: int32, shape
    (n_pages,): the folder that each page is in; None: all are in one.
    """

    n_pages: int
    seeds: Ints
    order: Ints
    ends: Longs
    links: Ints
    folders: Ints | None = None

    @cached_property
    def degrees(self) -> Longs:
        """Number of links of each fetched page."""
        return np.diff(self.ends)

    def blocks(self) -> Iterator[tuple[slice, Ints]]:
        """Yield places in the order, and the links of these pages, about a million at a time.

        So what is computed for each link takes little memory.
        """
        n, most = len(self.order), max(LINKS_AT_ONCE, self.n_pages)
        first = 0
        while first < n:
            end = np.searchsorted(self.ends, self.ends[first] + most, "right")
            last = max(first + 1, int(end) - 1)
            yield slice(first, last), self.links[self.ends[first] : self.ends[last]]
            first = last

    def per_link(self, values: NDArray[Any], pages: slice) -> NDArray[Any]:
        """Return for each link of the pages at these places the value of its page."""
        return np.repeat(values[pages], self.degrees[pages])

    def passed(self, amounts: Floats) -> Floats:
        """Return what each page gets if each fetched page passes its amount along each link.

        `amounts` is float64, by place in the order; the result has the shape (n_pages,).
        """
        passed = np.zeros(self.n_pages)
        # A sparse matrix is twice as fast, but scipy would cost each crawl 9 MB and 0.1 s.
        for pages, links in self.blocks():
            passed += np.bincount(links, self.per_link(amounts, pages), self.n_pages)
        return passed

    @cached_property
    def at(self) -> Longs:
        """int64, shape (n_pages,): place of each page in the order; `n_pages` if not fetched."""
        at = np.full(self.n_pages, self.n_pages, dtype=np.int64)
        at[self.order] = np.arange(len(self.order))
        return at

    @cached_property
    def is_fetched(self) -> Flags:
        """bool, shape (n_pages,)."""
        return self.at < self.n_pages

    @cached_property
    def is_strange(self) -> Flags:
        """bool, shape (n_pages,): whether a page waits in a folder that was not opened."""
        if self.folders is None:
            return ~self.is_fetched & (len(self.order) < OPENED)
        n_fetched = np.bincount(
            self.folders[self.order], minlength=int(self.folders.max(initial=-1)) + 1
        )
        is_strange: Flags = ~self.is_fetched & (n_fetched[self.folders] < OPENED)
        return is_strange

    def visits(self) -> tuple[Floats, float]:
        """Return `visits_from` the seeds, each as likely, and how many of them are of dead ends."""
        start = np.zeros(self.n_pages)
        start[self.seeds] = 1.0 / max(len(self.seeds), 1)
        visits = self.visits_from(start)
        return visits, float(visits[self.order[self.degrees == 0]].sum())

    def visits_from(self, start: Floats) -> Floats:
        """Return how often the surfer visits each page before a restart, if paths end at waiting
        pages.

        `start` is where the surfer starts: float64, shape (n_pages,), sum 1. The result, of the
        same shape, is a little too low, never too high. O(links * steps).
        """
        shares = DAMPING / np.maximum(self.degrees, 1)
        visits = moving = start
        for _ in range(MOST_STEPS):
            moving = self.passed(shares * moving[self.order])
            visits = visits + moving
            if moving.sum() <= LEAST_CHANGE:
                break
        return visits


class Estimates(NamedTuple):
    """Two estimates of a share.

    `bound`: the certain share. `lower` and `higher`: if nobody returns from folders that were not
    opened, and if everybody returns from there at once.
    """

    bound: float
    lower: float
    higher: float


def folders_of(urls: Iterable[str]) -> Ints:
    """Return a number for the host and folder of each URL, equal for equal ones."""
    folders = (str(url).partition("?")[0].rpartition("/")[0] for url in urls)
    # Hashes of 64 bits, as each of a million invented hosts may be a folder of its own.
    return np.unique(np.fromiter(map(hash, folders), np.int64), return_inverse=True)[1].astype(
        np.int32
    )


class Likely(NamedTuple):
    """The share of all importance that is fetched, and what is likely to come.

    `at_least`: the share that is certain. `likely`: the estimate. `low` and `high`: an interval
    that holds the true share in `confidence` of crawls of webs like those it was calibrated on
    (`calibration`). `confidence`: 0.9. `shares`: float64, shape (n_pages,): the estimated share of
    each page; of a waiting page, only what reaches it through fetched pages. `estimates`: what the
    interval was made of; None where nothing had to be estimated.
    """

    at_least: float
    likely: float
    low: float
    high: float
    confidence: float
    shares: Floats
    estimates: Estimates | None = None

    def best(self, among: Flags, n: int) -> list[int]:
        """Return the pages with the largest shares above 0, ties by id."""
        pages = np.flatnonzero(among & (self.shares > 0.0))
        order = np.lexsort((pages, -self.shares[pages]))
        return [int(page) for page in pages[order[:n]]]


def likely_coverage(fetches: Fetches) -> Likely:
    """Return the share of all importance that is certain, and the share that is likely.

    The fetched part of the web is known. The rest is taken for a single page, which links to
    fetched pages as the fetched siblings of the waiting pages did: pages of the later half of the
    fetches that are linked from the same pages, counted by how much of what these pass on goes to
    waiting pages. A link counts as one to a fetched page if that was fetched before the sibling,
    because what a waiting page leads to is not fetched yet either.

    That says nothing of pages in folders of which little or nothing was opened: another language,
    say, or the site of a seed that waits. Their siblings are of the opened part, and they may lead
    only to each other. So there are two estimates: in the lower one nobody returns from such pages,
    in the higher one everybody returns at once. The estimate lies between the two.

    The interval adds to either what it erred by on other webs.

    It lies between 0 and 1 if no fetched page is a seed, or can be reached from one.

    O(links * steps) time, two rounds of at most `MOST_STEPS`; 100 to 130 bytes per page.
    """
    n_pages = fetches.n_pages
    visits, dead_ends = fetches.visits()
    fetched = fetches.is_fetched
    n_fetched_visits = float(visits[fetched].sum())
    n_waiting_visits = float(visits[~fetched].sum())
    if n_fetched_visits == 0.0:
        return Likely(0.0, 0.0, 0.0, 1.0, CONFIDENCE, np.zeros(n_pages))
    if n_waiting_visits == 0.0:
        return Likely(1.0, 1.0, 1.0, 1.0, CONFIDENCE, visits / visits.sum())
    bound = (1.0 - DAMPING) * n_fetched_visits / (1.0 - DAMPING * dead_ends)
    rest = _rest_of_the_web(fetches, visits)
    n_strange_visits = float(visits[fetches.is_strange].sum())
    arrivals = np.array([n_waiting_visits - n_strange_visits, n_strange_visits])
    found = Estimates(
        bound,
        rest.share(n_fetched_visits, arrivals, returns=0.0, stays=DAMPING),
        rest.share(n_fetched_visits, arrivals, returns=DAMPING, stays=0.0),
    )
    low, likely, high = interval(found)
    of_waiting = (1.0 - likely) * (1.0 - rest.stays) / n_waiting_visits
    shares = visits * np.where(fetched, likely / n_fetched_visits, of_waiting)
    return Likely(bound, likely, low, high, CONFIDENCE, shares, found)


def interval(found: Estimates, errors: tuple[float, float] = ERRORS) -> tuple[float, float, float]:
    """Return (low, likely, high), none below the certain share."""
    bound, rest = found.bound, 1.0 - found.bound
    if rest <= 0.0:
        return 1.0, 1.0, 1.0
    lower, higher = (logit_of(share, bound) for share in (found.lower, found.higher))
    shifted = (lower + errors[0], (lower + higher) / 2.0, higher + errors[1])
    low, likely, high = (bound + rest / (1.0 + math.exp(-logit)) for logit in shifted)
    if found.lower - bound <= LEAST * rest:
        low = bound
    if 1.0 - found.higher <= LEAST * rest:
        high = 1.0
    return low, likely, high


def logit_of(share: float, bound: float) -> float:
    """Return the logit of the part of what is not certain."""
    part = min(max((share - bound) / max(1.0 - bound, 1e-12), LEAST), 1.0 - LEAST)
    return math.log(part / (1.0 - part))


class _Rest(NamedTuple):
    """What a surfer does at a waiting page of an opened folder, and after a return from there.

    `goes_back` and `stays`: probability that the next page is fetched, and that it waits, too.
    `n_fetched`, `n_opened` and `n_strange`: visits after a return, until a restart or a waiting
    page: of fetched pages, and of waiting ones in opened folders, and in others.
    """

    goes_back: float
    stays: float
    n_fetched: float
    n_opened: float
    n_strange: float

    def share(
        self, n_fetched_visits: float, arrivals: Floats, *, returns: float, stays: float
    ) -> float:
        """Return the share of fetched pages, given what a surfer does in folders not opened.

        `arrivals`: visits of waiting pages in opened folders, and in others, that come from fetched
        pages alone. `returns` and `stays`: probabilities.
        """
        back, on = np.array([self.goes_back, returns]), np.array([self.stays, stays])
        again = np.outer([self.n_opened, self.n_strange], back)
        waiting = np.linalg.solve(np.eye(2) - again - np.diag(on), arrivals)
        fetched = n_fetched_visits + float(back @ waiting) * self.n_fetched
        return fetched / (fetched + float(waiting.sum()))


def _rest_of_the_web(fetches: Fetches, visits: Floats) -> _Rest:
    weights = _siblings(fetches, visits)
    each = weights / np.maximum(fetches.degrees, 1)
    places = np.arange(len(fetches.order))
    returns = np.zeros(fetches.n_pages)
    for pages, links in fetches.blocks():
        is_back = fetches.at[links] < fetches.per_link(places, pages)
        of_link = fetches.per_link(each, pages)
        returns += np.bincount(links[is_back], of_link[is_back], fetches.n_pages)
    total = float(weights[fetches.degrees > 0].sum())
    back = float(returns.sum())
    all_weights = float(weights.sum())
    follows = DAMPING * total / all_weights if all_weights else 0.0
    goes_back = follows * back / total if total else 0.0
    if goes_back == 0.0:
        return _Rest(0.0, follows, 0.0, 0.0, 0.0)
    after = fetches.visits_from(returns / back)
    n_fetched = float(after[fetches.is_fetched].sum())
    n_strange = float(after[fetches.is_strange].sum())
    n_opened = float(after.sum()) - n_fetched - n_strange
    return _Rest(goes_back, follows - goes_back, n_fetched, n_opened, n_strange)


def _siblings(fetches: Fetches, visits: Floats) -> Floats:
    """Return the weight of each fetched page, by place in the order, as a model of waiting pages.

    If no later page is the sibling of a waiting one, all later pages are models.
    """
    n = len(fetches.order)
    places = np.arange(n)
    n_fetched = np.zeros(n)
    for pages, links in fetches.blocks():
        source = fetches.per_link(places, pages)
        n_fetched += np.bincount(source[fetches.is_fetched[links]], minlength=n)
    passed = visits[fetches.order] / np.maximum(fetches.degrees, 1)
    to_each = passed * (fetches.degrees - n_fetched) / np.maximum(n_fetched, 1)
    weights = fetches.passed(to_each)[fetches.order]
    is_later = np.arange(n) >= n // 2
    return (weights if weights[is_later].any() else visits[fetches.order]) * is_later
