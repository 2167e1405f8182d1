"""An estimate, with an interval, of the share of all importance that a crawl has fetched.

Importance is the PageRank of `coverage`: its surfer starts at the seeds. `coverage` says what is
certain; this module also estimates what flows through pages that are not fetched.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from crawlprio.ranking.calibration import CLASSES, CONFIDENCE, LEAST, Classes, errors_at

Floats = NDArray[np.float64]
Ints = NDArray[np.int32]
Longs = NDArray[np.int64]
Flags = NDArray[np.bool_]

DAMPING = 0.85

LEAST_CHANGE = 1e-7
"""Mass that still moves, as a share of all, at which the computation of mass ends."""

MOST_STEPS = 120
"""Steps after which it ends in any case; less than `DAMPING ** MOST_STEPS` is then left."""


@dataclass(frozen=True, eq=False)
class Fetches:
    """What a crawl has fetched: rows of links, in the order of the fetches.

    Parameters
    ----------
    n_pages
        Number of known pages.
    seeds
        Distinct pages that the crawl started from.
    order
        int32, shape (n_fetched,): the fetched pages, each once; failed pages have no links.
    ends
        int64, shape (n_fetched + 1,): the links of `order[i]` are `links[ends[i]:ends[i + 1]]`.
    links
        int32: distinct targets of each page, without the page itself.
    """

    n_pages: int
    seeds: Ints
    order: Ints
    ends: Longs
    links: Ints

    @cached_property
    def degrees(self) -> Longs:
        """Number of links of each fetched page."""
        return np.diff(self.ends)

    @cached_property
    def source(self) -> Longs:
        """For each link, the place in the order of the page that it is on."""
        return np.repeat(np.arange(len(self.order)), self.degrees)

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

    def visits_from(self, start: Floats) -> Floats:
        """Return how often the surfer visits each page before a restart, if paths end at waiting
        pages.

        Parameters
        ----------
        start
            float64, shape (n_pages,), sum 1: where the surfer starts.

        Returns
        -------
        float64, shape (n_pages,): expected visits; a little too low, never too high. O(links *
        steps).
        """
        from scipy.sparse import csr_matrix

        shares = np.repeat(DAMPING / np.maximum(self.degrees, 1), self.degrees)
        shape = (len(self.order), self.n_pages)
        flow = csr_matrix((shares, self.links, self.ends), shape=shape).T
        visits = moving = start
        for _ in range(MOST_STEPS):
            moving = np.asarray(flow @ moving[self.order], dtype=np.float64)
            visits = visits + moving
            if moving.sum() <= LEAST_CHANGE:
                break
        return visits


class Likely(NamedTuple):
    """The share of all importance that is fetched, and what is likely to come.

    Parameters
    ----------
    at_least
        The share that is certain.
    likely
        The estimate.
    low, high
        An interval that holds the true share in `confidence` of crawls of webs like those it was
        calibrated on (`calibration`).
    confidence
        0.9.
    shares
        float64, shape (n_pages,): the estimated share of each page; of a waiting page, only what
        reaches it through fetched pages.
    """

    at_least: float
    likely: float
    low: float
    high: float
    confidence: float
    shares: Floats

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
    because what a waiting page leads to is not fetched yet either. Waiting seeds are exempt:
    nothing is known of their sites, so that all of what starts there counts as missing.

    The interval adds to the estimate what it erred by on other webs.

    Returns
    -------
    Likely
        From 0 to 1 if no fetched page is a seed, or can be reached from one.

    Notes
    -----
    O(links * steps) time, two rounds of at most `MOST_STEPS`; some 40 bytes per link.
    """
    n_pages = fetches.n_pages
    start = np.zeros(n_pages)
    start[fetches.seeds] = 1.0 / max(len(fetches.seeds), 1)
    visits = fetches.visits_from(start)
    fetched = fetches.is_fetched
    n_fetched_visits = float(visits[fetched].sum())
    n_waiting_visits = float(visits[~fetched].sum())
    if n_fetched_visits == 0.0:
        return Likely(0.0, 0.0, 0.0, 1.0, CONFIDENCE, np.zeros(n_pages))
    dead_ends = float(visits[fetches.order[fetches.degrees == 0]].sum())
    if n_waiting_visits == 0.0:
        return Likely(1.0, 1.0, 1.0, 1.0, CONFIDENCE, visits / visits.sum())
    bound = (1.0 - DAMPING) * n_fetched_visits / (1.0 - DAMPING * dead_ends)
    seeds_waiting = float(start[~fetched].sum())
    n_back, n_on, follow = _rest_of_the_web(fetches, visits)
    through = n_waiting_visits - seeds_waiting
    in_fetched = n_fetched_visits + through * follow * n_back
    elsewhere = through * follow + seeds_waiting / (1.0 - DAMPING)
    all_visits = in_fetched + elsewhere
    estimate = in_fetched / all_visits
    low, likely, high = interval(bound, estimate)
    shares = visits * np.where(fetched, in_fetched / n_fetched_visits, 1.0 + n_on * follow)
    return Likely(bound, likely, low, high, CONFIDENCE, shares / all_visits)


def interval(
    bound: float, estimate: float, classes: Classes = CLASSES
) -> tuple[float, float, float]:
    """Return (low, likely, high) for an estimate; the bound is the least it can be."""
    rest = 1.0 - bound
    if rest <= 0.0:
        return 1.0, 1.0, 1.0
    part = min(max((estimate - bound) / rest, LEAST), 1.0 - LEAST)
    logit = math.log(part / (1.0 - part))
    edges = [bound + rest / (1.0 + math.exp(-logit - shift)) for shift in errors_at(bound, classes)]
    likely = max(bound, estimate)
    return min(edges[0], likely), likely, max(edges[1], likely)


def _rest_of_the_web(fetches: Fetches, visits: Floats) -> tuple[float, float, float]:
    """Return what happens to a surfer at a page that is not fetched.

    Returns
    -------
    (visits of fetched pages, visits of waiting pages, visits in all), each until the restart: the
    first two per visit of a page not fetched, the last per arrival at one.
    """
    degrees, links, source = fetches.degrees, fetches.links, fetches.source
    weights = _siblings(fetches, visits)
    per_link = np.repeat(weights / np.maximum(degrees, 1), degrees)
    is_back = fetches.at[links] < source
    total = float(per_link.sum())
    back = float(per_link[is_back].sum())
    all_weights = float(weights.sum())
    follows = DAMPING * float(weights[degrees > 0].sum()) / all_weights if all_weights else 0.0
    n_fetched_after = n_waiting_after = 0.0
    if back > 0.0:
        start = np.bincount(links[is_back], per_link[is_back], fetches.n_pages) / back
        after = fetches.visits_from(start)
        n_fetched_after = float(after[fetches.is_fetched].sum())
        n_waiting_after = float(after[~fetches.is_fetched].sum())
    share_back = back / total if total else 0.0
    n_back, n_on = (follows * share_back * n for n in (n_fetched_after, n_waiting_after))
    stays = follows * (1.0 - share_back)
    return n_back, n_on, 1.0 / (1.0 - n_on - stays)


def _siblings(fetches: Fetches, visits: Floats) -> Floats:
    """Return the weight of each fetched page, by place in the order, as a model of waiting pages.

    If no later page is the sibling of a waiting one, all later pages are models.
    """
    n = len(fetches.order)
    links, source = fetches.links, fetches.source
    is_fetched = fetches.is_fetched[links]
    n_fetched = np.bincount(source[is_fetched], minlength=n)
    passed = visits[fetches.order] / np.maximum(fetches.degrees, 1)
    to_each = passed * (fetches.degrees - n_fetched) / np.maximum(n_fetched, 1)
    at = fetches.at[links[is_fetched]]
    weights = np.bincount(at, to_each[source[is_fetched]], n).astype(np.float64)
    is_later = np.arange(n) >= n // 2
    return (weights if weights[is_later].any() else visits[fetches.order]) * is_later
