"""The number of active robots over a crawl, and the speed-up from more robots."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from crawlprio.errors import ConfigError, GraphError
from crawlprio.evaluation.crawl_order import Floats, checked_times

Longs = NDArray[np.int64]


def active_robots(
    started: Floats | Sequence[float], ended: Floats | Sequence[float], points: int | None = None
) -> tuple[Floats, Floats]:
    """Return the number of fetches in flight over time, which starts at the first fetch.

    Castillo et al. (2004), figures 8 and 9.

    Parameters
    ----------
    started, ended
        Seconds, shape (n_fetched,): start and end of each fetch, in any order of fetches; none ends
        before it starts.
    points
        Number of equal intervals to average over; None: one point per change.

    Returns
    -------
    seconds, active
        float64. Without `points`, `active[i]` is the number from `seconds[i]` to `seconds[i + 1]`,
        and the last is 0. With `points`, it is the mean over the interval around `seconds[i]`.
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
class SpeedUps:
    """Rates of crawls by bandwidth and number of robots.

    Parameters
    ----------
    bandwidths, robots
        float64 and int64, ascending and distinct: the rows, in bytes/s, and the columns.
    pages_per_second, speed_up
        float64, shape (n_bandwidths, n_robots); NaN if there was no such crawl.
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
