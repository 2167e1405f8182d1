"""Distributions of pages over sites and of links over pages, and power laws fitted to them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from crawlprio.errors import ConfigError, GraphError
from crawlprio.graph.arrays import Floats, Longs, integers

Counts = NDArray[Any]

MIN_TAIL = 50
"""Minimum number of counts in a tail to which a power law is fitted."""

MAX_MINIMA = 100
"""Maximum number of candidates tried for the start of a tail."""

MAX_EXPONENT = 20.0
"""Upper bound of the search for an exponent."""


@dataclass(frozen=True, slots=True)
class LogHistogram:
    """A histogram of counts of 1 or more in bins that grow with the counts, without empty ones.

    `first`, `last`, `centre`: smallest and largest count of each bin, and their geometric mean.
    `n`: elements in the bin. `per_count`: `n` divided by the number of counts that the bin spans.
    Zeros do not fit on a logarithmic axis, and are left out.
    """

    first: Longs
    last: Longs
    centre: Floats
    n: Longs
    per_count: Floats


def log_histogram(counts: Counts) -> LogHistogram:
    """Return a histogram of counts in ten bins per factor of ten, whose edges are whole numbers.

    `counts`: integers >= 0, such as backlinks of pages or pages of sites. Each small count has its
    own bin, because no bin is narrower than 1. Cho et al., Efficient crawling through URL ordering,
    extended version, figure 9, shows one for backlinks.
    """
    positive = _checked_counts(counts)
    positive = positive[positive > 0]
    largest = int(positive.max(initial=1))
    n_edges = int(np.ceil(10 * np.log10(largest + 1))) + 1
    edges = np.unique(np.rint(10.0 ** (np.arange(n_edges + 1) / 10)).astype(np.int64))
    n = np.histogram(positive, bins=edges)[0].astype(np.int64)
    used = n > 0
    first, last = edges[:-1][used], edges[1:][used] - 1
    centre = np.sqrt(first * last.astype(np.float64))
    return LogHistogram(first, last, centre, n[used], n[used] / (last - first + 1))


@dataclass(frozen=True, slots=True)
class PowerLaw:
    """P(count = x) proportional to `x ** -exponent` for x >= minimum.

    `exponent`: usually reported as about 2.1 for in-degrees on the Web. `n_tail`, `n`: number of
    counts in the tail, and in total. `standard_error`: that of the exponent. `distance`:
    Kolmogorov-Smirnov distance between the tail and the law.
    """

    exponent: float
    minimum: int
    n_tail: int
    n: int
    standard_error: float
    distance: float


def fit_power_law(counts: Counts, *, minimum: int | None = None) -> PowerLaw:
    """Fit a power law to the counts from some minimum on, by maximum likelihood.

    The discrete estimate of Clauset, Shalizi & Newman, Power-law distributions in empirical data,
    SIAM Review 2009: the likelihood with the Hurwitz zeta function, and the minimum whose tail is
    closest to its fitted law. Departures: at most 100 minima are tried, evenly spaced among the
    distinct counts, and none whose tail has fewer than 50 counts.

    Parameters
    ----------
    counts
        Integers >= 0; zeros are never in the tail.
    minimum
        Start of the tail, >= 1; by default the one with the smallest distance.

    Raises
    ------
    ConfigError
        If the minimum is invalid.
    GraphError
        If the tail has fewer than 50 counts, or only one distinct value.

    Notes
    -----
    O(n log n), plus O(distinct counts) for each minimum tried.
    """
    values = _checked_counts(counts)
    if minimum is not None and minimum < 1:
        raise ConfigError(f"minimum is {minimum}; it must be at least 1.")
    distinct, n_each = np.unique(values[values > 0], return_counts=True)
    n_from = np.cumsum(n_each[::-1])[::-1]
    fits = (n_from >= MIN_TAIL) & (distinct < distinct.max(initial=0))
    if minimum is not None:
        minima = [minimum]
    else:
        candidates = distinct[fits]
        places = np.linspace(0, max(len(candidates) - 1, 0), MAX_MINIMA).round().astype(np.int64)
        minima = candidates[np.unique(places)].tolist() if len(candidates) else [1]
    laws = []
    for least in minima:
        tail = distinct >= least
        if int(n_each[tail].sum()) < MIN_TAIL or int(tail.sum()) < 2:
            raise GraphError(
                f"{int(n_each[tail].sum())} counts of {int(tail.sum())} distinct values are "
                f"{least} or more; a power law needs {MIN_TAIL} counts of 2 distinct values."
            )
        x, n = distinct[tail].astype(np.float64), n_each[tail].astype(np.float64)
        exponent, error = _most_likely(x, n, least)
        distance = _distance(x, n, exponent, least)
        laws.append(PowerLaw(exponent, int(least), int(n.sum()), len(values), error, distance))
    return min(laws, key=lambda law: law.distance)


def _most_likely(x: Floats, n: Floats, minimum: int) -> tuple[float, float]:
    """Return the exponent of maximum likelihood, and its standard error."""
    from scipy.optimize import minimize_scalar
    from scipy.special import zeta

    mean_log = float((n * np.log(x)).sum() / n.sum())

    def loss(exponent: float) -> float:
        return float(np.log(zeta(exponent, minimum)) + exponent * mean_log)

    found = minimize_scalar(
        loss, bounds=(1.0 + 1e-6, MAX_EXPONENT), method="bounded", options={"xatol": 1e-9}
    )
    exponent = float(found.x)
    step = 1e-4 * (exponent - 1.0)
    curvature = (loss(exponent + step) - 2 * loss(exponent) + loss(exponent - step)) / step**2
    return exponent, float(1.0 / np.sqrt(max(curvature, 1e-300) * n.sum()))


def _distance(x: Floats, n: Floats, exponent: float, minimum: int) -> float:
    """Return the Kolmogorov-Smirnov distance between tail and law.

    Both are step functions with steps at whole numbers, so it is attained at a count or just before
    one.
    """
    from scipy.special import zeta

    total = float(zeta(exponent, minimum))
    found = np.cumsum(n) / n.sum()
    before = np.concatenate(([0.0], found[:-1]))
    up_to = 1.0 - zeta(exponent, x + 1) / total
    below = 1.0 - zeta(exponent, x) / total
    return float(max(np.abs(found - up_to).max(), np.abs(before - below).max()))


def _checked_counts(counts: Counts) -> Longs:
    """Return the counts as int64; raise GraphError unless they are integers and not negative."""
    checked = integers("counts", counts)
    if checked.min(initial=0) < 0:
        raise GraphError(f"a count is {checked.min()}; counts must be 0 or more.")
    return checked
