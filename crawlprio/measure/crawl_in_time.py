"""Measures of a crawl over time: by slice of the crawl, and for top pages."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from crawlprio.errors import ConfigError, GraphError
from crawlprio.graph.arrays import integers, mask, numbers, takes
from crawlprio.measure.crawl_order import Floats, Order, PageMask, checked_order, checked_times

Longs = NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class Means:
    """The means of a sequence of groups of pages.

    `x`: the groups, ascending: slices counted from 1, sizes N of a top N, or depths. `mean`:
    float64, shape of x; NaN for an empty group. `n`: int64, shape of x: pages in the group.
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
    """Return the slice of each fetch, counted from 1, for `n_slices` slices of equal length.

    Lengths differ by at most one. int64, shape (n_fetched,).
    """
    if n_slices < 1:
        raise ConfigError(f"n_slices is {n_slices}; it must be at least 1.")
    return np.arange(n_fetched, dtype=np.int64) * n_slices // max(n_fetched, 1) + 1


@takes(importance=numbers, reachable=mask)
def scaled_to_mean_one(importance: Floats, reachable: PageMask | None = None) -> Floats:
    """Return the importance scaled to mean 1 over the pages, as in Najork & Wiener.

    The means of slices then do not depend on the number of pages. Pages that are NaN or not
    reachable do not count.
    """
    counted = importance if reachable is None else importance[reachable]
    mean = float(np.nanmean(counted)) if len(counted) else 0.0
    if not mean > 0.0:
        raise GraphError(f"the mean importance is {mean:g}; it must be above 0.")
    return np.asarray(importance / mean, dtype=np.float64)


@takes(order=integers, importance=numbers, slices=integers)
def mean_importance_by_slice(order: Order, importance: Floats, slices: Longs) -> Means:
    """Return the mean importance of the pages fetched in each slice of the crawl.

    Najork & Wiener, Breadth-first search crawling yields high-quality pages, WWW10 2001, figure 1,
    where slices are days and importance is `scaled_to_mean_one`; Castillo et al., Scheduling
    algorithms for Web crawling, LA-WEB 2004, figure 11.

    `order` has distinct page ids in the order fetched. `slices`: int64, shape (n_fetched,): slice
    of each fetch, counted from 1. Returns one element per slice up to the last, including empty
    ones.
    """
    pages = checked_order(order, importance, None)
    return mean_by(_checked_slices(slices, len(pages)), importance[pages], 1)


@takes(order=integers, importance=numbers, slices=integers, tops=integers)
def mean_slice_of_top(
    order: Order, importance: Floats, slices: Longs, tops: Sequence[int] | Longs | None = None
) -> Means:
    """Return the mean slice, such as the day, in which the N most important pages were fetched.

    Najork & Wiener (2001), figure 2. The top N are chosen among the fetched pages. If pages tie at
    rank N, the result is the mean over all choices among them.

    `order`, `importance`, `slices`: as for `mean_importance_by_slice`. `tops`: sizes N, >= 1; those
    above n_fetched are dropped. By default 1, 10, 100, ... and n_fetched. Returns one element per
    N; `n` is N.
    """
    pages = checked_order(order, importance, None)
    days = _checked_slices(slices, len(pages)).astype(np.float64)
    sizes = checked_tops(tops, len(pages))
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
    reachable: PageMask | None = None,
    start: float | None = None,
) -> tuple[Floats, Floats, Floats]:
    """Return the shares of the importance and of the pages gathered over time.

    Castillo et al. (2004), figure 10; Baeza-Yates et al., Crawling a country, WWW 2005, figure 6.

    `order`: distinct page ids, in any order. `ended`: seconds, shape (n_fetched,): end of each
    fetch. `importance`: float64, shape (n_pages,), >= 0. `reachable`: bool, shape (n_pages,): the
    pages that count as the whole; all by default. `start`: time zero; by default the earliest of
    `ended`. Returns seconds, share of importance and share of pages: float64, shape (n_fetched,)
    each, ascending.
    """
    pages = checked_order(order, importance, reachable)
    times = checked_times("ended", ended)
    if len(times) != len(pages):
        raise GraphError(
            f"ended has {len(times)} times for {len(pages)} fetches; give one per fetch."
        )
    counted = importance if reachable is None else importance[reachable]
    total = float(counted.sum())
    if not total > 0.0:
        raise GraphError(f"the importance of all reachable pages is {total:g}; it must be above 0.")
    by_time = np.argsort(times, kind="stable")
    begin = (float(times.min()) if len(times) else 0.0) if start is None else start
    return (
        times[by_time] - begin,
        np.minimum(np.cumsum(importance[pages[by_time]]) / total, 1.0),
        np.arange(1, len(pages) + 1) / len(counted),
    )


def mean_by(group: Longs, values: Floats, first: int) -> Means:
    """Return the mean of the values of each group, from `first` to the last group."""
    groups = np.arange(first, int(group.max(initial=first - 1)) + 1, dtype=np.int64)
    n = np.bincount(group - first, minlength=len(groups)).astype(np.int64)
    sums = np.bincount(group - first, weights=values, minlength=len(groups))
    return Means(groups, np.where(n > 0, sums / np.maximum(n, 1), np.nan), n)


def _checked_slices(slices: Longs, n_fetched: int) -> Longs:
    """Return the slices; raise GraphError unless each fetch has one, counted from 1."""
    checked = slices
    if len(checked) != n_fetched:
        raise GraphError(
            f"slices has {len(checked)} elements for {n_fetched} fetches; give one per fetch."
        )
    if len(checked) and checked.min() < 1:
        raise GraphError(f"a fetch is in slice {checked.min()}; slices are counted from 1.")
    return checked


def checked_tops(tops: Sequence[int] | Longs | None, most: int) -> Longs:
    """Return the ascending sizes of tops that are at most `most`."""
    if tops is None:
        powers = [10**k for k in range(19) if 10**k < most]
        return np.array([*powers, most] if most else [], dtype=np.int64)
    sizes = np.unique(np.asarray(tops, dtype=np.int64))
    if len(sizes) and sizes[0] < 1:
        raise ConfigError(f"tops has {sizes[0]}; sizes must be at least 1.")
    return sizes[sizes <= most]
