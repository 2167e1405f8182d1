"""Estimates I'(P) of importance that a crawl has while it goes on, from the pages seen so far."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from crawlprio.compiled import njit
from crawlprio.errors import ConfigError, GraphError
from crawlprio.importance import partial_pagerank, round_significant
from crawlprio.linkgraph import LinkGraph
from crawlprio.pages import PageIds

Floats = NDArray[np.float64]
Longs = NDArray[np.int64]
PageMask = NDArray[np.bool_]

RENEWALS = 35
"""Times that PageRank is computed during a crawl unless said otherwise: Baeza-Yates et al. (2005)
recompute it every 100,000 pages, 30 to 40 times a crawl."""

FIXED, COUNT, SPREAD = 0, 1, 2
"""What a fetch does to estimates until they are renewed: nothing; adds 1 to each target; adds a
share of its own to the targets not known when they were last renewed."""


@dataclass(frozen=True, slots=True)
class BacklinksSeen:
    """IB'(P): links to the page from pages fetched so far, brought up to date with every fetch."""

    graph: LinkGraph


@dataclass(frozen=True, slots=True)
class PageRankSeen:
    """IR'(P): PageRank of the pages seen so far, computed again every so many fetches.

    A page discovered since the last time is estimated by one step of the equation of Cho et al.,
    `(1 - d) + d * sum(IR'(parent) / out-degree(parent))`, over the parents fetched since.

    Parameters
    ----------
    graph
        The link graph; of pages not fetched yet the crawl knows no links.
    every
        Fetches from one computation to the next, >= 1; by default a 35th of the crawl.
    damping
        Probability of following a link, 0 <= damping < 1. Cho et al. have 0.9.
    """

    graph: LinkGraph
    every: int | None = None
    damping: float = 0.85


@dataclass(frozen=True, slots=True)
class RenewedEstimate:
    """I'(P) as a function says, asked again every so many fetches.

    Parameters
    ----------
    renew
        Given int64, shape (n_fetched,), the pages fetched so far in order, none before the buffer
        can be full, returns float64, shape (n_pages,): larger is more important, for every page,
        and never NaN.
    every
        Fetches from one question to the next, >= 1.
    """

    renew: Callable[[Longs], Floats]
    every: int


Estimate = Floats | BacklinksSeen | PageRankSeen | RenewedEstimate
"""How a crawl estimates importance; an array is an estimate that never changes."""


def pagerank_seen(graph: LinkGraph, fetched: Longs | PageIds, *, damping: float = 0.85) -> Floats:
    """Return the PageRank that a crawl computes from the pages fetched, NaN for pages never seen.

    Seen are the pages fetched and those they link to; the latter count as dangling until they are
    fetched. It is scaled as by Cho et al., so that a page without backlinks has `1 - damping` and
    dangling mass is left out, for it goes to all pages alike.

    Parameters
    ----------
    graph
        The link graph.
    fetched
        Page ids, shape (n_fetched,), in any order.
    damping
        Probability of following a link, 0 <= damping < 1.

    Returns
    -------
    float64, shape (n_pages,), rounded to 8 significant digits, so that equal ranks tie.
    """
    pages = np.asarray(fetched, dtype=np.int64)
    strangers = pages[(pages < 0) | (pages >= graph.n_pages)]
    if len(strangers):
        raise GraphError(
            f"fetched names page {strangers[0]}; page ids must be 0 to {graph.n_pages - 1}."
        )
    ranks, seen = _rank_and_seen(graph, pages, damping)
    return np.where(seen, ranks, np.nan)


def _rank_and_seen(graph: LinkGraph, fetched: Longs, damping: float) -> tuple[Floats, PageMask]:
    """Return the scaled PageRank of all pages, and which of them were seen."""
    n_pages = graph.n_pages
    degree = np.diff(graph.indptr)
    # The last row is of a page that nobody knows: its rank is what every page has to begin with.
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
    """Mark all pages that these pages link to."""
    for page in pages:
        for link in range(indptr[page], indptr[page + 1]):
            marks[indices[link]] = True


@dataclass(frozen=True, slots=True)
class EstimatePlan:
    """How a compiled crawl keeps an estimate up to date.

    Parameters
    ----------
    mode
        `FIXED`, `COUNT` or `SPREAD`.
    every
        Fetches from one renewal to the next.
    renew
        Given the pages fetched so far, returns the estimate of every page, and which are known.
    indptr, indices
        The links that fetches tell of.
    damping
        Of `SPREAD`.
    """

    mode: int
    every: int
    renew: Callable[[Longs], tuple[Floats, PageMask]]
    indptr: Longs
    indices: PageIds
    damping: float = 0.0


def plan_estimate(estimate: Estimate, n_pages: int, n_fetched: int) -> EstimatePlan:
    """Return how to keep this estimate during a crawl of so many of so many pages."""
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
    """Return the fetches from renewal to renewal, if there is at least one."""
    if every < 1:
        raise ConfigError(f"every is {every}; estimates are renewed after at least 1 fetch.")
    return every


def _check_size(found: int, n_pages: int) -> None:
    """Refuse estimates of another graph than the one whose importance is given."""
    if found != n_pages:
        raise GraphError(f"the estimates are of {found} pages, the importance of {n_pages}.")


def _checked_estimate(values: Floats, n_pages: int) -> Floats:
    """Return the estimates as float64, if there is a number for every page."""
    checked = np.asarray(values, dtype=np.float64)
    _check_size(len(checked), n_pages)
    if np.isnan(checked).any():
        page = int(np.argmax(np.isnan(checked)))
        raise GraphError(f"the estimate of page {page} is no number; every page needs one.")
    return checked
