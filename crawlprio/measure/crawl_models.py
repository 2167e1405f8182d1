"""The three crawl models of Cho, Garcia-Molina & Page: P_CS, P_ST and P_BC of a crawl's order.

The third keeps pages by estimates of their importance, I'(P), made from the pages seen so far.
"""

from __future__ import annotations

import heapq
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from crawlprio.errors import ConfigError, GraphError
from crawlprio.graph.arrays import Flags, Floats, Longs, integers, mask, numbers, takes
from crawlprio.graph.compiled import njit
from crawlprio.graph.linkgraph import LinkGraph, links_of
from crawlprio.graph.pages import PageIds
from crawlprio.measure.crawl_order import Order, checked_order
from crawlprio.ranking.pagerank import partial_pagerank, round_significant

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
    `every`: by default a 35th of the crawl. `damping`: probability of following a link; 0.9 in Cho
    et al.
    """

    graph: LinkGraph
    every: int | None = None
    damping: float = 0.85


@dataclass(frozen=True, slots=True)
class RenewedEstimate:
    """I'(P) from a user function, called again every `every` fetches.

    `renew` takes the pages fetched so far in order, none until a buffer can be full, and returns
    the estimate of every page, larger is more important, never NaN.
    """

    renew: Callable[[Longs], Floats]
    every: int


Estimate = Floats | BacklinksSeen | PageRankSeen | RenewedEstimate
"""An estimate of importance during a crawl; an array is a constant estimate."""


def pagerank_seen(graph: LinkGraph, fetched: Longs | PageIds, *, damping: float = 0.85) -> Floats:
    """Return the PageRank that a crawl computes from the fetched pages; NaN for pages not seen.

    The pages seen are the fetched pages and those they link to, which count as dangling until they
    are fetched. Ranks are scaled as in Cho et al.: a page without backlinks has `1 - damping`, and
    dangling mass is left out because it goes to all pages equally. They are rounded to 8
    significant digits, so that equal ranks tie.
    """
    pages = integers("fetched", fetched, below=graph.n_pages)
    ranks, seen = _rank_and_seen(graph, pages, damping)
    return np.where(seen, ranks, np.nan)


def _rank_and_seen(graph: LinkGraph, fetched: Longs, damping: float) -> tuple[Floats, Flags]:
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
    seen[graph.indices[links_of(graph.indptr, fetched)]] = True
    return round_significant(ranks[:n_pages] * ((1.0 - damping) / ranks[n_pages])), seen


@dataclass(frozen=True, slots=True)
class EstimatePlan:
    """How a compiled crawl updates an estimate, by its mode: `FIXED`, `COUNT` or `SPREAD`.

    `every`: fetches from one renewal to the next. `renew`: takes the pages fetched so far; returns
    the estimate of every page, and a mask of the known pages. `indptr` and `indices`: the links
    that fetches reveal. `damping`: that of `SPREAD`.
    """

    mode: int
    every: int
    renew: Callable[[Longs], tuple[Floats, Flags]]
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

        def rank(fetched: Longs) -> tuple[Floats, Flags]:
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


def crawl_into_buffers(
    pages: Longs, n_pages: int, capacities: Sequence[int], estimate: Estimate
) -> list[Longs]:
    """Return, for each capacity, the pages that a buffer of that size holds after the crawl.

    Each fetched page enters the buffer. If it is full, the page with the lowest estimate is
    evicted, which may be the new one; of equal estimates, the page fetched last is evicted. Evicted
    pages never return, but their links stay known.

    O(log B) per fetch and O(1) per link, except O(log B) for a link that raises the estimate of the
    page next to be evicted. Each renewal costs O(B) plus one computation for all buffers.
    """
    plan = plan_estimate(estimate, n_pages, len(pages))
    buffers = [np.empty((2, size), np.int64) for size in capacities]
    n_held = [0] * len(buffers)
    smallest = min(capacities, default=0)
    for first in range(0, len(pages), plan.every):
        end = min(first + plan.every, len(pages))
        # Until a buffer is full, nothing depends on the estimates.
        values, known = plan.renew(pages[: first if end > smallest else 0])
        for at, (held, when) in enumerate(buffers):
            n_held[at] = _fetch(
                pages, first, end, held, when, n_held[at],
                values.copy(), known, plan.mode, plan.damping, plan.indptr, plan.indices,
            )  # fmt: skip
    return [np.sort(held[:n]) for (held, _), n in zip(buffers, n_held, strict=True)]


@njit(cache=True, nogil=True)
def _fetch(
    pages: Longs,
    first: int,
    end: int,
    held: Longs,
    when: Longs,
    n_held: int,
    estimate: Floats,
    known: NDArray[np.bool_],
    mode: int,
    damping: float,
    indptr: Longs,
    indices: PageIds,
) -> int:
    """Fetch `pages[first:end]` into the buffer; return the number of pages it holds afterwards.

    The heap has `(estimate, -fetch number, page)`, so that its root leaves first. Estimates only
    rise between renewals, so those in the heap are lower bounds: the root is updated until it is
    the minimum.
    """
    heap = [(estimate[held[i]], -when[i], held[i]) for i in range(n_held)]
    heapq.heapify(heap)
    for k in range(first, end):
        page = pages[k]
        start, stop = indptr[page], indptr[page + 1]
        if mode == COUNT:
            for link in range(start, stop):
                estimate[indices[link]] += 1.0
        elif mode == SPREAD and stop > start:
            share = damping * estimate[page] / (stop - start)
            for link in range(start, stop):
                target = indices[link]
                if not known[target]:
                    estimate[target] += share
        if len(heap) < len(held):
            heapq.heappush(heap, (estimate[page], np.int64(-k), page))
            continue
        while heap[0][0] < estimate[heap[0][2]]:
            _, then, kept = heap[0]
            heapq.heapreplace(heap, (estimate[kept], then, kept))
        if estimate[page] > heap[0][0]:
            heapq.heapreplace(heap, (estimate[page], np.int64(-k), page))
    for i in range(len(heap)):
        when[i], held[i] = -heap[i][1], heap[i][2]
    return len(heap)


@dataclass(frozen=True, slots=True)
class ModelCurve:
    """The performance of a crawl under one model, with the best and a random crawl, as shares of 1.

    `x`: ascending: share of all T pages that is fetched, or that the buffer holds. `ideal` is that
    of a crawl in order of importance, `upper-bound` in tables and plots, and `random` the
    expectation for one in random order.
    `n_hot`: number of hot pages at each x.
    """

    x: Floats
    performance: Floats
    ideal: Floats
    random: Floats
    n_hot: Longs

    def points(self, line: str = "performance", n: int = 501) -> list[tuple[float, float]]:
        """Return `(x, y)` of the named line at up to n evenly spaced points, for a plot."""
        y: Floats = getattr(self, line)
        places = np.unique(np.linspace(0, max(len(y) - 1, 0), n).round().astype(np.int64))
        return [(float(self.x[k]), float(y[k])) for k in places] if len(y) else []


@takes(order=integers, importance=numbers, reachable=mask)
def crawl_and_stop(order: Order, importance: Floats, reachable: Flags | None = None) -> ModelCurve:
    """Return P_CS for every K: the share of the first K pages fetched that are hot at that point.

    After K fetches the hot pages are those with I(P) >= I(r_K), where r_K has the Kth highest
    importance. Pages that tie with r_K are hot, so there may be more than K. (Cho, Garcia-Molina &
    Page, Efficient crawling through URL ordering, WWW7 1998, section 3.) A crawl in order of
    importance has 1 throughout, a random crawl H/T with H hot pages: K/T, as in the paper, if no
    page ties with r_K, and more otherwise.

    `order`: distinct pages in the order fetched. `importance`: I(P), without NaN. `reachable`: the
    T pages of this web; all by default. O(n log n).
    """
    pages, falling = _pages_and_ranking(order, importance, reachable)
    n_fetched, whole = len(pages), max(len(falling), 1)
    # A page is hot from the K at which it is the first among its ties: 1 + pages above it.
    n_above = np.searchsorted(-falling, -importance[pages], side="left")
    counts_from = np.maximum(np.arange(n_fetched), n_above)
    n_found = np.cumsum(np.bincount(counts_from[counts_from < n_fetched], minlength=n_fetched))
    n_hot = np.searchsorted(-falling, -falling[:n_fetched], side="right").astype(np.int64)
    fetches = np.arange(1, n_fetched + 1)
    return ModelCurve(
        fetches / whole,
        n_found / fetches,
        np.ones(n_fetched, dtype=np.float64),
        n_hot / whole,
        n_hot,
    )


@takes(order=integers, importance=numbers, reachable=mask)
def crawl_and_stop_with_threshold(
    order: Order, importance: Floats, threshold: float, reachable: Flags | None = None
) -> ModelCurve:
    """Return P_ST for every K: the share of the hot pages, I(P) >= G, among the first K fetched.

    If hotness is binary, such as being on a topic, use importance 1 or 0 and threshold 1;
    `top_threshold` computes G from a share of hot pages. A crawl in order of importance has
    min(1, K/H), a random crawl K/T. GraphError if no page is hot.
    """
    pages, falling = _pages_and_ranking(order, importance, reachable)
    n_hot = int(np.searchsorted(-falling, -threshold, side="right"))
    if n_hot == 0:
        raise GraphError(f"no page has importance {threshold:g} or more; give a lower threshold.")
    fetches = np.arange(1, len(pages) + 1)
    return ModelCurve(
        fetches / len(falling),
        np.cumsum(importance[pages] >= threshold) / n_hot,
        np.minimum(fetches / n_hot, 1.0),
        fetches / len(falling),
        np.full(len(pages), n_hot, dtype=np.int64),
    )


@takes(order=integers, importance=numbers, reachable=mask)
def limited_buffer(
    order: Order,
    importance: Floats,
    buffers: Sequence[float] | Floats,
    estimate: Estimate,
    *,
    threshold: float | None = None,
    reachable: Flags | None = None,
) -> ModelCurve:
    """Return P_BC for each buffer size: the share of its B pages that are hot at the end.

    The crawl fetches pages in its order and can keep only B of them. When a page arrives at a full
    buffer, the page with the lowest *estimated* importance is evicted, which may be the new one.
    The paper does not specify the estimate, the tie-break (here: last fetched, first evicted), or
    whether links of evicted pages are forgotten (here: no).

    `buffers`: sizes B as shares of the T pages, above 0, rounded to at least one page. `threshold`:
    pages with I(P) >= G are hot; by default those with I(P) >= I(r_B), including ties. The best
    crawl has min(1, H/B), a random crawl H/T. O(log B) per fetch and buffer; estimates are
    computed once for all sizes.
    """
    pages, falling = _pages_and_ranking(order, importance, reachable)
    whole = len(falling)
    shares = np.asarray(buffers, dtype=np.float64)
    wrong = shares[~((shares > 0.0) & (shares <= 1.0))]
    if len(wrong):
        raise ConfigError(f"a buffer is {wrong[0]:g} of all pages; give shares above 0, at most 1.")
    sizes = np.clip(np.rint(shares * whole), 1, max(whole, 1)).astype(np.int64)
    kept = crawl_into_buffers(pages, len(importance), sizes.tolist(), estimate)
    bounds = falling[sizes - 1] if threshold is None else np.full(len(sizes), threshold)
    n_hot = np.searchsorted(-falling, -bounds, side="right").astype(np.int64)
    n_hot_kept = [int((importance[held] >= g).sum()) for held, g in zip(kept, bounds, strict=True)]
    return ModelCurve(
        sizes / whole,
        np.array(n_hot_kept, dtype=np.float64) / sizes,
        np.minimum(n_hot / sizes, 1.0),
        n_hot / whole,
        n_hot,
    )


@takes(importance=numbers, reachable=mask)
def top_threshold(importance: Floats, share: float, reachable: Flags | None = None) -> float:
    """Return the threshold G at which this share of the pages, or more with ties, is hot."""
    falling = _ranking(importance, reachable)
    if not 0.0 < share <= 1.0 or len(falling) == 0:
        raise ConfigError(
            f"share is {share:g} of {len(falling)} pages; give a share above 0, at most 1."
        )
    return float(falling[max(round(share * len(falling)), 1) - 1])


def _pages_and_ranking(
    order: Order, importance: Floats, reachable: Flags | None
) -> tuple[Longs, Floats]:
    """Return the validated order, and the importance of all pages of this web, descending."""
    pages = checked_order(order, importance, reachable)
    return pages, _ranking(importance, reachable)


def _ranking(importance: Floats, reachable: Flags | None) -> Floats:
    """Return the importance of all pages of this web, descending."""
    if np.isnan(importance).any():
        page = int(np.argmax(np.isnan(importance)))
        raise GraphError(f"the importance of page {page} is NaN; every page needs a number.")
    values = np.asarray(importance if reachable is None else importance[reachable], np.float64)
    return np.sort(values)[::-1]
