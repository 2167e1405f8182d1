"""Measures of crawls that only the papers' experiments need: by day, and speed-ups."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from crawlprio.errors import ConfigError
from crawlprio.graph.arrays import Floats
from crawlprio.measure.crawl_order import checked_times
from crawlprio.show.figures import Points, Series

Longs = NDArray[np.int64]

DAY = 86_400.0
"""Seconds per day."""


def slices_by_time(
    ended: Floats | Sequence[float], seconds: float = DAY, start: float | None = None
) -> Longs:
    """Return the day, or other time slice, in which each fetch ended, counted from 1.

    Parameters
    ----------
    ended
        Seconds, shape (n_fetched,), in any order, from any origin.
    seconds
        Length of a slice, > 0; a day by default.
    start
        Start of the first slice; by default the earliest of `ended`.

    Returns
    -------
    int64, shape (n_fetched,).
    """
    times = checked_times("ended", ended)
    if not seconds > 0.0:
        raise ConfigError(f"seconds is {seconds:g}; it must be above 0.")
    if len(times) == 0:
        return np.empty(0, dtype=np.int64)
    begin = float(times.min()) if start is None else start
    if times.min() < begin:
        raise ConfigError(f"a fetch ended at {times.min():g}, before the start at {begin:g}.")
    return np.floor((times - begin) / seconds).astype(np.int64) + 1


@dataclass(frozen=True, slots=True)
class SpeedUps:
    """Rates of crawls by bandwidth and number of robots.

    `bandwidths` and `robots`: float64 and int64, ascending and distinct: the rows, in bytes/s, and
    the columns. `pages_per_second` and `speed_up`: float64, shape (n_bandwidths, n_robots); NaN if
    there was no such crawl.
    """

    bandwidths: Floats
    robots: Longs
    pages_per_second: Floats
    speed_up: Floats


def speed_ups(
    crawls: Iterable[tuple[float, int, int, float]], *, base: tuple[float, int] | None = None
) -> SpeedUps:
    """Return the speed-up of each crawl over the one with the fewest robots and the same bandwidth.

    Castillo et al. (2004), table I. A speed-up is a ratio of pages per second.

    Parameters
    ----------
    crawls
        `(bandwidth in bytes/s, robots, pages fetched, seconds)`, one per bandwidth and number of
        robots; the bandwidth may be infinite.
    base
        The `(bandwidth, robots)` to compare all crawls with; None: the fewest robots in each row.

    Raises
    ------
    ConfigError
        If a crawl took no time or occurs twice, or the base is missing.
    """
    rates: dict[tuple[float, int], float] = {}
    for bandwidth, robots, pages, seconds in crawls:
        if not seconds > 0.0:
            raise ConfigError(f"a crawl of {pages} pages took {seconds:g} s; it must be above 0.")
        if (bandwidth, robots) in rates:
            raise ConfigError(f"two crawls have bandwidth {bandwidth:g} and {robots} robots.")
        rates[bandwidth, robots] = pages / seconds
    if base is not None and base not in rates:
        raise ConfigError(f"no crawl has bandwidth {base[0]:g} and {base[1]} robots, the base.")
    rows, columns = sorted({b for b, _ in rates}), sorted({r for _, r in rates})
    table = np.array([[rates.get((b, r), np.nan) for r in columns] for b in rows], dtype=np.float64)
    table = table.reshape(len(rows), len(columns))
    if base is not None:
        bases = np.full(len(rows), rates[base])
    else:
        bases = np.array([row[~np.isnan(row)][0] for row in table], dtype=np.float64)
    return SpeedUps(
        np.array(rows, dtype=np.float64),
        np.array(columns, dtype=np.int64),
        table,
        table / bases[:, None] if len(rows) else table,
    )


def mean_and_spread(
    runs: Sequence[Points], points: int = 201, spread: Literal["deviation", "range"] = "deviation"
) -> Series:
    """Return the mean of several lines and a band around it, at evenly spaced x.

    Lines are interpolated linearly; the mean covers the range of x that they have in common.

    `runs`: Lines of `(x, y)` with ascending x, such as crawls from different seeds; at least one.
    `points`: Number of points of the mean, >= 2. `spread`: Band of one sample standard deviation on
    either side, or from minimum to maximum.
    """
    lines = [np.asarray(run, dtype=np.float64).reshape(-1, 2) for run in runs]
    if not lines or any(len(line) == 0 for line in lines):
        raise ConfigError("a mean needs at least one line, and none may be empty.")
    first = max(float(line[0, 0]) for line in lines)
    last = min(float(line[-1, 0]) for line in lines)
    if last < first:
        raise ConfigError(
            f"the lines have no common range of x: one begins at {first:g}, after one ends at "
            f"{last:g}."
        )
    x = np.linspace(first, last, max(points, 2))
    heights = np.array([np.interp(x, line[:, 0], line[:, 1]) for line in lines])
    mean = heights.mean(axis=0)
    if spread == "range":
        low, high = heights.min(axis=0), heights.max(axis=0)
    else:
        deviation = heights.std(axis=0, ddof=1) if len(lines) > 1 else np.zeros(len(x))
        low, high = mean - deviation, mean + deviation
    return Series(np.column_stack((x, mean)), low, high)
