"""Estimates I'(P) of importance during a crawl, from the pages seen so far."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from crawlprio.errors import ConfigError, GraphError
from crawlprio.graph.arrays import integers, takes
from crawlprio.graph.compiled import njit
from crawlprio.graph.linkgraph import LinkGraph
from crawlprio.graph.pages import PageIds
from crawlprio.ranking.pagerank import partial_pagerank, round_significant

Floats = NDArray[np.float64]
Longs = NDArray[np.int64]
PageMask = NDArray[np.bool_]

RENEWALS = 35
"""Default number of PageRank computations during a crawl: Baeza-Yates et al. (2005) recompute it
every 100,000 pages, 30 to 40 times per crawl."""

FIXED, COUNT, SPREAD = 0, 1, 2
"""The effect of a fetch on the estimates until the next renewal: none; add 1 to each target; add a
share of the page's estimate to each target that was unknown at the last renewal."""


@dataclass(frozen=True, slots=True)
class BacklinksSeen:
    """IB'(P): links to the page from the pages fetched so far, updated on every fetch."""

    graph: LinkGraph


@dataclass(frozen=True, slots=True)
class PageRankSeen:
    """IR'(P): PageRank of the pages seen so far, recomputed every `every` fetches.

    A page discovered since the last computation is estimated by one step of the equation of Cho et
    al., `(1 - d) + d * sum(IR'(parent) / out-degree(parent))`, over the parents fetched since then.

    `graph`: the link graph; the crawl does not know the links of pages not fetched yet. `every`:
    fetches from one computation to the next, >= 1; by default a 35th of the crawl. `damping`:
    probability of following a link, 0 <= damping < 1; 0.9 in Cho et al.
    """

    graph: LinkGraph
    every: int | None = None
    damping: float = 0.85


@dataclass(frozen=True, slots=True)
class RenewedEstimate:
    """I'(P) from a user function, called again every `every` fetches.

    `renew`: takes the pages fetched so far in order, int64, shape (n_fetched,), empty until a
    buffer can be full. Returns the estimate of every page, float64, shape (n_pages,), larger is
    more important, never NaN. `every`: fetches from one call to the next, >= 1.
    """

    renew: Callable[[Longs], Floats]
    every: int


Estimate = Floats | BacklinksSeen | PageRankSeen | RenewedEstimate
"""An estimate of importance during a crawl; an array is a constant estimate."""


@takes(fetched=integers)
def pagerank_seen(graph: LinkGraph, fetched: Longs | PageIds, *, damping: float = 0.85) -> Floats:
    """Return the PageRank that a crawl computes from the fetched pages; NaN for pages not seen.

    The pages seen are the fetched pages and those they link to, which count as dangling until they
    are fetched. Ranks are scaled as in Cho et al.: a page without backlinks has `1 - damping`, and
    dangling mass is left out because it goes to all pages equally.

    `fetched`: page ids, shape (n_fetched,), in any order. `damping`: probability of following a
    link, 0 <= damping < 1. Returns float64, shape (n_pages,), rounded to 8 significant digits, so
    that equal ranks tie.
    """
    pages = np.asarray(fetched, dtype=np.int64)
    strangers = pages[(pages < 0) | (pages >= graph.n_pages)]
    if len(strangers):
        raise GraphError(
            f"fetched has page {strangers[0]}; page ids must be 0 to {graph.n_pages - 1}."
        )
    ranks, seen = _rank_and_seen(graph, pages, damping)
    return np.where(seen, ranks, np.nan)


def _rank_and_seen(graph: LinkGraph, fetched: Longs, damping: float) -> tuple[Floats, PageMask]:
    """Return the scaled PageRank of all pages, and a mask of those seen."""
    n_pages = graph.n_pages
    degree = np.diff(graph.indptr)
    # The extra last row is a page without any links: its rank is the base share of every page.
    row_start = np.append(graph.indptr[:-1], 0)
    row_length = np.zeros(n_pages + 1, dtype=np.int32)
    row_length[fetched] = degree[fetched]
    ranks = partial_pagerank(row_start, row_length, graph.indices, damping=damping)
    seen = np.zeros(n_pages, dtype=np.bool_)
    seen[fetched] = True
    _mark_targets(graph.indptr, graph.indices, fetched, seen)
    return round_significant(ranks[:n_pages] * ((1.0 - damping) / ranks[n_pages])), seen


@njit(cache=True, nogil=True)
def _mark_targets(indptr: Longs, indices: PageIds, pages: Longs, marks: PageMask) -> None:
    """Mark all pages that the given pages link to."""
    for page in pages:
        for link in range(indptr[page], indptr[page + 1]):
            marks[indices[link]] = True


@dataclass(frozen=True, slots=True)
class EstimatePlan:
    """How a compiled crawl updates an estimate.

    `mode`: `FIXED`, `COUNT` or `SPREAD`. `every`: fetches from one renewal to the next. `renew`:
    takes the pages fetched so far; returns the estimate of every page, and a mask of the known
    pages. `indptr` and `indices`: the links that fetches reveal. `damping`: damping of `SPREAD`.
    """

    mode: int
    every: int
    renew: Callable[[Longs], tuple[Floats, PageMask]]
    indptr: Longs
    indices: PageIds
    damping: float = 0.0


def plan_estimate(estimate: Estimate, n_pages: int, n_fetched: int) -> EstimatePlan:
    """Return the plan of an estimate for a crawl of `n_fetched` of `n_pages` pages."""
    nothing_known = np.zeros(n_pages, dtype=np.bool_)
    no_links = np.zeros(n_pages + 1, dtype=np.int64), np.empty(0, dtype=np.int32)
    whole = max(n_fetched, 1)
    if isinstance(estimate, BacklinksSeen):
        graph = estimate.graph
        _check_size(graph.n_pages, n_pages)
        zeros = np.zeros(n_pages, dtype=np.float64)
        return EstimatePlan(
            COUNT, whole, lambda _: (zeros, nothing_known), graph.indptr, graph.indices
        )
    if isinstance(estimate, PageRankSeen):
        graph, damping = estimate.graph, estimate.damping
        _check_size(graph.n_pages, n_pages)
        every = -(-whole // RENEWALS) if estimate.every is None else _checked_every(estimate.every)
        base = np.full(n_pages, 1.0 - damping, dtype=np.float64)

        def rank(fetched: Longs) -> tuple[Floats, PageMask]:
            return (
                _rank_and_seen(graph, fetched, damping) if len(fetched) else (base, nothing_known)
            )

        return EstimatePlan(SPREAD, every, rank, graph.indptr, graph.indices, damping)
    if isinstance(estimate, RenewedEstimate):
        ask = estimate.renew
        return EstimatePlan(
            FIXED,
            _checked_every(estimate.every),
            lambda fetched: (_checked_estimate(ask(fetched), n_pages), nothing_known),
            *no_links,
        )
    values = _checked_estimate(estimate, n_pages)
    return EstimatePlan(FIXED, whole, lambda _: (values, nothing_known), *no_links)


def _checked_every(every: int) -> int:
    """Return the fetches between renewals; raise ConfigError if there is not at least one."""
    if every < 1:
        raise ConfigError(f"every is {every}; it must be at least 1 fetch.")
    return every


def _check_size(found: int, n_pages: int) -> None:
    """Raise GraphError if estimates and importance differ in their number of pages."""
    if found != n_pages:
        raise GraphError(
            f"the estimates are for {found} pages, the importance for {n_pages}; "
            "both must be for the same pages."
        )


def _checked_estimate(values: Floats, n_pages: int) -> Floats:
    """Return the estimates as float64; raise GraphError unless every page has a number."""
    checked = np.asarray(values, dtype=np.float64)
    _check_size(len(checked), n_pages)
    if np.isnan(checked).any():
        page = int(np.argmax(np.isnan(checked)))
        raise GraphError(f"the estimate of page {page} is NaN; every page needs a number.")
    return checked
