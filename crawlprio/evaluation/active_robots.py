"""The number of active robots over a crawl."""

from __future__ import annotations

from collections.abc import Sequence

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
