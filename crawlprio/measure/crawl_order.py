"""Measures of a crawl order against the importance of its pages, known once the crawl is over.

Importance is usually PageRank, but can be any non-negative number per page. Later measures follow a
crawl over time: by slice of the crawl, and for top pages.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from crawlprio.errors import ConfigError, GraphError
from crawlprio.graph.arrays import Flags, Floats, Longs, integers, mask, numbers, takes
from crawlprio.graph.compiled import njit
from crawlprio.graph.linkgraph import LinkGraph
from crawlprio.graph.pages import PageIds

Order = Sequence[int] | NDArray[Any]


def reachable(graph: LinkGraph, seeds: Order) -> Flags:
    """Return a mask of the pages that a crawl can reach; arguments as for `depth_from_seeds`."""
    return depth_from_seeds(graph, seeds) >= 0


def depth_from_seeds(graph: LinkGraph, seeds: Order) -> NDArray[np.int32]:
    """Return the distance in links of each page from the nearest seed, -1 if unreachable.

    GraphError if there is no seed, or one is not a page of the graph. O(reached pages and links)
    time and O(n_pages) memory.
    """
    starts = integers("seeds", seeds, below=graph.n_pages)
    if len(starts) == 0:
        raise GraphError("there are no seeds; give at least one page.")
    return np.asarray(_depths(graph.indptr, graph.indices, starts), dtype=np.int32)


@njit(cache=True, nogil=True)
def _depths(
    indptr: NDArray[np.int64], indices: PageIds, starts: NDArray[np.int64]
) -> NDArray[np.int32]:
    """Compute the depths by breadth-first search."""
    depth = np.full(len(indptr) - 1, -1, dtype=np.int32)
    queue = np.empty(len(depth), dtype=np.int32)
    n_queued = 0
    for start in starts:
        if depth[start] < 0:
            depth[start] = 0
            queue[n_queued] = start
            n_queued += 1
    k = 0
    while k < n_queued:
        page = queue[k]
        k += 1
        for link in range(indptr[page], indptr[page + 1]):
            target = indices[link]
            if depth[target] < 0:
                depth[target] = depth[page] + 1
                queue[n_queued] = target
                n_queued += 1
    return depth


@takes(order=integers, ranks=numbers, reachable=mask)
def cumulative_pagerank(order: Order, ranks: Floats, reachable: Flags | None = None) -> Floats:
    """Return the share of the reachable importance gathered after each fetch, from first to last.

    `order`: distinct page ids in the order fetched. `ranks`: importance of each page, 0 or more.
    `reachable`: the pages whose importance sums to 1; all by default. The shares never decrease,
    and end at 1 if every reachable page is fetched; over such a crawl, their mean is near 1 if the
    order is good, and 1/2 if it is random. GraphError if the order has a page twice or one that is
    not reachable, or nothing reachable has any importance.
    """
    pages = checked_order(order, ranks, reachable)
    whole = float(ranks.sum() if reachable is None else ranks[reachable].sum())
    if not whole > 0.0:
        raise GraphError(f"the importance of all reachable pages is {whole:g}; it must be above 0.")
    return np.minimum(np.cumsum(ranks[pages]) / whole, 1.0)


@takes(ranks=numbers, reachable=mask)
def best_order(ranks: Floats, reachable: Flags | None = None) -> PageIds:
    """Return the pages by descending importance, ties by page id: no order gathers more.

    A crawl can rarely attain it, because it fetches pages before it could have found them.
    """
    order = np.argsort(-ranks, kind="stable").astype(np.int32)
    return order if reachable is None else order[reachable[order]]


@takes(order=integers, ranks=numbers, reachable=mask)
def kendall_tau(
    order: Order, ranks: Floats, sample: int = 5000, seed: int = 0, reachable: Flags | None = None
) -> float:
    """Return the rank correlation of the order with importance: +1 if important pages come first.

    Kendall's tau-b (Kendall, The treatment of ties in ranking problems, Biometrika 1945) between
    the reversed position in the order and importance, on a sample of the reachable pages, drawn
    with a seed so that orders of one graph are compared on the same pages. Pages not fetched are
    tied in last place; pages of equal importance are tied. NaN if all pages tie or there are fewer
    than two. The standard error is below `1.5 / sqrt(sample)`, about 0.02 by default.
    """
    from scipy.stats import kendalltau

    pages = checked_order(order, ranks, reachable)
    candidates = np.arange(len(ranks)) if reachable is None else np.flatnonzero(reachable)
    if len(candidates) > sample:
        rng = np.random.default_rng(seed)
        candidates = np.sort(rng.choice(candidates, sample, replace=False))
    if len(candidates) < 2:
        return float("nan")
    earliness = np.zeros(len(ranks), dtype=np.int64)
    earliness[pages] = np.arange(len(pages), 0, -1)
    return float(kendalltau(earliness[candidates], ranks[candidates], variant="b").statistic)


@takes(values=numbers)
def curve(values: Floats, points: int = 101, n_pages: int | None = None) -> list[list[float]]:
    """Return `[fraction of pages fetched, share]` at evenly spaced fetches, from `[0, 0]` on.

    `values` are shares after each fetch, and `n_pages` the pages that correspond to fraction 1, by
    default all those fetched. There are at most `points` points.
    """
    whole = max(len(values) if n_pages is None else n_pages, 1)
    fetches = np.unique(np.linspace(0, len(values), max(points, 2)).round().astype(np.int64))
    shares = np.concatenate(([0.0], values))
    return [[float(k / whole), float(shares[k])] for k in fetches]


def checked_order(order: Order, ranks: Floats, reachable: Flags | None) -> NDArray[np.int64]:
    """Return the order as an array; raise GraphError unless pages are distinct and reachable."""
    pages = integers("order", order, below=len(ranks))
    if reachable is not None and not reachable[pages].all():
        page = pages[~reachable[pages]][0]
        raise GraphError(f"the order has page {page}, which is not reachable from the seeds.")
    counts = np.bincount(pages, minlength=len(ranks))
    if len(pages) and counts.max() > 1:
        raise GraphError(
            f"the order has page {int(np.argmax(counts > 1))} more than once; "
            "each page must occur once."
        )
    return pages


def checked_times(name: str, times: Floats | Sequence[float]) -> Floats:
    """Return the times as float64; raise GraphError unless all are finite."""
    checked = numbers(name, times)
    if not np.isfinite(checked).all():
        k = int(np.argmin(np.isfinite(checked)))
        raise GraphError(f"{name}[{k}] is {checked[k]:g}; times must be finite.")
    return checked


def active_robots(
    started: Floats | Sequence[float], ended: Floats | Sequence[float], points: int | None = None
) -> tuple[Floats, Floats]:
    """Return the number of fetches in flight over time, which starts at the first fetch.

    Castillo et al. (2004), figures 8 and 9. Without `points`, `active[i]` is the number from
    `seconds[i]` to `seconds[i + 1]`, and the last is 0. With `points`, time is divided into as many
    equal intervals, and each has its midpoint and its mean.
    """
    begins, ends = checked_times("started", started), checked_times("ended", ended)
    if len(begins) != len(ends):
        raise GraphError(
            f"{len(begins)} fetches started but {len(ends)} ended; give one end per start."
        )
    if len(begins) == 0:
        return np.empty(0, dtype=np.float64), np.empty(0, dtype=np.float64)
    if (ends < begins).any():
        k = int(np.argmax(ends < begins))
        raise GraphError(f"fetch {k} ended at {ends[k]:g}, before it started at {begins[k]:g}.")
    times = np.concatenate((begins, ends)) - begins.min()
    steps = np.concatenate((np.ones(len(begins)), -np.ones(len(ends))))
    at, place = np.unique(times, return_inverse=True)
    active = np.cumsum(np.bincount(place, weights=steps, minlength=len(at)))
    if points is None:
        return at, active.astype(np.float64)
    if points < 1:
        raise ConfigError(f"points is {points}; it must be at least 1.")
    robot_seconds = np.concatenate(([0.0], np.cumsum(active[:-1] * np.diff(at))))
    edges = np.linspace(0.0, at[-1], points + 1)
    means = np.diff(np.interp(edges, at, robot_seconds)) / np.maximum(np.diff(edges), 1e-300)
    return (edges[:-1] + edges[1:]) / 2, means


@dataclass(frozen=True, slots=True)
class Means:
    """The means of a sequence of groups of pages.

    `x`: the groups, ascending: slices counted from 1, sizes N of a top N, or depths. `mean` is NaN
    for an empty group, and `n` the pages in it.
    """

    x: Longs
    mean: Floats
    n: Longs

    def points(self) -> list[tuple[float, float]]:
        """Return `(x, mean)` of the non-empty groups, for a plot."""
        return [
            (float(x), float(m)) for x, m, n in zip(self.x, self.mean, self.n, strict=True) if n
        ]


def slices_by_fetch(n_fetched: int, n_slices: int) -> Longs:
    """Return the slice of each fetch, from 1; the lengths of slices differ by at most one."""
    if n_slices < 1:
        raise ConfigError(f"n_slices is {n_slices}; it must be at least 1.")
    return np.arange(n_fetched, dtype=np.int64) * n_slices // max(n_fetched, 1) + 1


@takes(importance=numbers, reachable=mask)
def scaled_to_mean_one(importance: Floats, reachable: Flags | None = None) -> Floats:
    """Return the importance scaled to mean 1 over the pages, as in Najork & Wiener.

    The means of slices then do not depend on the number of pages. Pages that are NaN or not
    reachable do not count.
    """
    counted = importance if reachable is None else importance[reachable]
    counted = counted[~np.isnan(counted)]
    mean = float(counted.mean()) if len(counted) else 0.0
    if not mean > 0.0:
        raise GraphError(f"the mean importance is {mean:g}; it must be above 0.")
    return np.asarray(importance / mean, dtype=np.float64)


@takes(order=integers, importance=numbers, slices=integers)
def mean_importance_by_slice(order: Order, importance: Floats, slices: Longs) -> Means:
    """Return the mean importance of the pages fetched in each slice of the crawl, empty ones too.

    Najork & Wiener, Breadth-first search crawling yields high-quality pages, WWW10 2001, figure 1,
    where slices are days and importance is `scaled_to_mean_one`; Castillo et al., Scheduling
    algorithms for Web crawling, LA-WEB 2004, figure 11. `slices`: the slice of each fetch, from 1.
    """
    pages = checked_order(order, importance, None)
    return _mean_by(_checked_slices(slices, len(pages)), importance[pages], 1)


@takes(order=integers, importance=numbers, slices=integers, tops=integers)
def mean_slice_of_top(
    order: Order, importance: Floats, slices: Longs, tops: Sequence[int] | Longs | None = None
) -> Means:
    """Return the mean slice, such as the day, in which the N most important pages were fetched.

    Najork & Wiener (2001), figure 2. The top N are chosen among the fetched pages. If pages tie at
    rank N, the result is the mean over all choices among them. `tops`: sizes N, those above the
    number of fetches dropped; by default 1, 10, 100, ... and that number.
    """
    pages = checked_order(order, importance, None)
    days = _checked_slices(slices, len(pages)).astype(np.float64)
    sizes = _checked_tops(tops, len(pages))
    values = importance[pages]
    ranking = np.argsort(-values, kind="stable")
    falling = -values[ranking]
    sums = np.concatenate(([0.0], np.cumsum(days[ranking])))
    above = np.searchsorted(falling, falling[sizes - 1], side="left")
    up_to = np.searchsorted(falling, falling[sizes - 1], side="right")
    tied_mean = (sums[up_to] - sums[above]) / (up_to - above)
    return Means(sizes, (sums[above] + (sizes - above) * tied_mean) / sizes, sizes)


@takes(order=integers, importance=numbers, reachable=mask)
def cumulative_by_time(
    order: Order,
    ended: Floats | Sequence[float],
    importance: Floats,
    reachable: Flags | None = None,
) -> tuple[Floats, Floats, Floats]:
    """Return seconds, share of importance and share of pages gathered, ascending, by end of fetch.

    Castillo et al. (2004), figure 10; Baeza-Yates et al., Crawling a country, WWW 2005, figure 6.
    `ended`: seconds at which each fetch of the order ended.
    """
    pages = checked_order(order, importance, reachable)
    times = checked_times("ended", ended)
    if len(times) != len(pages):
        raise GraphError(
            f"ended has {len(times)} times for {len(pages)} fetches; give one per fetch."
        )
    by_time = np.argsort(times, kind="stable")
    n_counted = len(importance) if reachable is None else int(reachable.sum())
    return (
        times[by_time],
        cumulative_pagerank(pages[by_time], importance, reachable),
        np.arange(1, len(pages) + 1) / n_counted,
    )


def mean_importance_by_depth(
    depth: NDArray[np.integer], importance: Floats, pages: Flags | None = None
) -> Means:
    """Return the mean importance of the pages at each depth; seeds are at depth 0.

    Castillo et al. (2004), figure 12. Pages with a negative depth are unknown and left out.
    """
    depths = np.asarray(depth, dtype=np.int64)
    counted = depths >= 0 if pages is None else (depths >= 0) & pages
    return _mean_by(depths[counted], importance[counted], 0)


def overlap_of_top(
    partial: Floats, whole: Floats, tops: Sequence[int] | Longs | None = None
) -> Means:
    """Return the share of the top N by one importance that are in the top N by another.

    Najork & Wiener (2001), figure 3: PageRank of the graph after some of the days against that of
    the whole graph. If pages tie at rank N, the result is the expectation over independent choices
    for each ranking; breaking ties by page id would make uninformative rankings agree. Pages not in
    a graph are NaN; both are best computed with `pagerank_seen`, which knows only the pages seen
    and makes equal ranks tie. `tops` as for `mean_slice_of_top`. O(n log n), plus O(n) per N.
    """
    if len(partial) != len(whole):
        raise GraphError(
            f"partial has {len(partial)} elements and whole has {len(whole)}; "
            "both must have one per page."
        )
    first, second = -np.asarray(partial, np.float64), -np.asarray(whole, np.float64)
    n_known = min(int((~np.isnan(x)).sum()) for x in (first, second))
    sizes = _checked_tops(tops, n_known)
    rankings = np.sort(first), np.sort(second)
    shares = [
        float(
            (_chance_of_top(first, rankings[0], n) * _chance_of_top(second, rankings[1], n)).sum()
            / n
        )
        for n in sizes.tolist()
    ]
    return Means(sizes, np.array(shares, dtype=np.float64), sizes)


def _chance_of_top(values: Floats, ranking: Floats, n: int) -> Floats:
    """Return each page's probability of being among the n smallest values, ties at random."""
    bound = ranking[n - 1]
    above = int(np.searchsorted(ranking, bound, side="left"))
    up_to = int(np.searchsorted(ranking, bound, side="right"))
    return np.where(
        values < bound, 1.0, np.where(values == bound, (n - above) / (up_to - above), 0)
    )


def _mean_by(group: Longs, values: Floats, first: int) -> Means:
    """Return the mean of the values of each group, from `first` to the last group."""
    groups = np.arange(first, int(group.max(initial=first - 1)) + 1, dtype=np.int64)
    n = np.bincount(group - first, minlength=len(groups)).astype(np.int64)
    sums = np.bincount(group - first, weights=values, minlength=len(groups))
    return Means(groups, np.where(n > 0, sums / np.maximum(n, 1), np.nan), n)


def _checked_slices(slices: Longs, n_fetched: int) -> Longs:
    """Return the slices; raise GraphError unless each fetch has one, counted from 1."""
    if len(slices) != n_fetched:
        raise GraphError(
            f"slices has {len(slices)} elements for {n_fetched} fetches; give one per fetch."
        )
    if len(slices) and slices.min() < 1:
        raise GraphError(f"a fetch is in slice {slices.min()}; slices are counted from 1.")
    return slices


def _checked_tops(tops: Sequence[int] | Longs | None, most: int) -> Longs:
    """Return the ascending sizes of tops that are at most `most`."""
    if tops is None:
        powers = [10**k for k in range(19) if 10**k < most]
        return np.array([*powers, most] if most else [], dtype=np.int64)
    sizes = np.unique(np.asarray(tops, dtype=np.int64))
    if len(sizes) and sizes[0] < 1:
        raise ConfigError(f"tops has {sizes[0]}; sizes must be at least 1.")
    return sizes[sizes <= most]
