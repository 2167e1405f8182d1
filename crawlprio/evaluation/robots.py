"""How busy a crawl's robots were, and how much faster more of them are."""

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
    """Return how many fetches were in flight at which time, counted from the first start.

    Castillo et al. (2004), figures 8 and 9.

    Parameters
    ----------
    started, ended
        Seconds, shape (n_fetched,): of each fetch, in any order; none ends before it starts.
    points
        Equal stretches of time to average over; None: every change.

    Returns
    -------
    seconds, active
        float64. With None, `active[i]` is the number from `seconds[i]` on, up to the next, and the
        last is 0; else the mean over the stretch whose middle is `seconds[i]`.
    """
    begins, ends = checked_times("started", started), checked_times("ended", ended)
    if len(begins) != len(ends):
        raise GraphError(f"{len(begins)} fetches started and {len(ends)} ended.")
    if len(begins) == 0:
        return np.empty(0, dtype=np.float64), np.empty(0, dtype=np.float64)
    if (ends < begins).any():
        k = int(np.argmax(ends < begins))
        raise GraphError(f"fetch {k} ended at {ends[k]:g}, before it started, {begins[k]:g}.")
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
    """Rates of crawls by bandwidth and robots.

    Parameters
    ----------
    bandwidths, robots
        float64 and int64, rising, distinct: the rows, in bytes/s, and the columns.
    pages_per_second, speed_up
        float64, shape (n_bandwidths, n_robots); NaN where there was no such crawl.
    """

    bandwidths: Floats
    robots: Longs
    pages_per_second: Floats
    speed_up: Floats


def speed_ups(
    crawls: Iterable[tuple[float, int, int, float]], *, base: tuple[float, int] | None = None
) -> SpeedUps:
    """Return how much faster each crawl was than the one with fewest robots and the same bandwidth.

    Castillo et al. (2004), table I. A speed-up is a ratio of pages per second.

    Parameters
    ----------
    crawls
        `(bandwidth in bytes/s, robots, pages fetched, seconds)`, one of each bandwidth and robots;
        an infinite bandwidth is allowed.
    base
        The one `(bandwidth, robots)` that all are compared with; None: that of fewest robots in
        each row.

    Raises
    ------
    ConfigError
        When a crawl lasted no time, is there twice, or the base is not there.
    """
    rates: dict[tuple[float, int], float] = {}
    for bandwidth, robots, pages, seconds in crawls:
        if not seconds > 0.0:
            raise ConfigError(f"a crawl of {pages} pages lasted {seconds:g} s; it must be above 0.")
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
