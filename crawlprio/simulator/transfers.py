"""The fetches in flight, compiled: which ends next, and how transfers share the bandwidth.

A fetch is in one of three places: in `ends`, a heap of fetches whose end time is known; in
`latent`, a heap of fetches whose transfer has not begun; or in a column of `moving`, the transfers
in progress, which share the bandwidth. `times` holds the heap key of each fetch.

The arithmetic is specified in float64, so that every implementation gets the same bits:

* without a bandwidth limit, or for an empty page, the end is (start + latency) + bytes / speed;
* the share is computed from the site speeds in ascending order. With n speeds left and a bandwidth
  b left for them, a speed of at least b / n gets b / n, and so do all after it; a smaller speed is
  served in full and leaves b - speed. The rate of a transfer is the smaller of its speed and that
  share;
* shares are recomputed after all events of a point in time. A transfer whose rate changes then has
  left - rate * (now - since) bytes left and ends at now + left / new rate; the others keep their
  end.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from crawlprio.frontier.struct_layouts import NONE, Records
from crawlprio.graph.arrays import Floats
from crawlprio.graph.compiled import njit, record

Fetches = NDArray[np.int32]
LEFT, SINCE, RATE, END, SPEED = 0, 1, 2, 3, 4
"""Rows of `moving`: bytes left at time `SINCE`, rate since then, end, and site speed."""

COUNTS = record("f8 bandwidth", "i8 n_ends n_latent n_moving first n_tied n_active changed")
"""The number of fetches in each place. `first`: the column of `moving` that ends first; `n_tied`:
the number that end at that time; `bandwidth`: bytes/s, inf for no limit; `changed`: whether
transfers began or ended since the shares were set."""


class Flight(NamedTuple):
    """The fetches in flight: 48 bytes per robot, and the caller's `times`.

    `counts`: one row of `COUNTS`. `ends`, `latent`: heaps of fetches. `moving`, `moving_fetch`: the
    transfers in progress, a column and the fetch of each. `speeds`: their site speeds, ascending.
    `times`: by fetch, when it ends, or its transfer begins.
    """

    counts: Records
    ends: Fetches
    latent: Fetches
    moving: Floats
    moving_fetch: Fetches
    speeds: Floats
    times: Floats


def empty_flight(robots: int, bandwidth: float | None, times: Floats) -> Flight:
    """Return a flight without fetches, with room for this many robots."""
    counts = np.zeros(1, dtype=COUNTS)
    counts["bandwidth"] = math.inf if bandwidth is None else bandwidth
    counts["first"] = NONE
    fetches = (np.zeros(robots, dtype=np.int32) for _ in range(3))
    ends, latent, moving_fetch = fetches
    moving, speeds = np.zeros((5, robots)), np.zeros(robots)
    return Flight(counts, ends, latent, moving, moving_fetch, speeds, times)


@njit(cache=True, inline="always")
def _sooner(times: Floats, a: int, b: int) -> bool:
    """Whether fetch a comes before b: earlier, or at the same time and started first."""
    if times[a] != times[b]:
        return bool(times[a] < times[b])
    return a < b


@njit(cache=True)
def _push(heap: Fetches, n: int, times: Floats, fetch: int) -> None:
    """Add a fetch to a heap of n entries."""
    at = n
    while at > 0:
        parent = (at - 1) >> 1
        if not _sooner(times, fetch, heap[parent]):
            break
        heap[at] = heap[parent]
        at = parent
    heap[at] = fetch


@njit(cache=True)
def _pop(heap: Fetches, n: int, times: Floats) -> int:
    """Remove the first fetch of a heap of n entries and return it."""
    first = heap[0]
    last = heap[n - 1]
    at = 0
    while True:
        child = 2 * at + 1
        if child >= n - 1:
            break
        if child + 1 < n - 1 and _sooner(times, heap[child + 1], heap[child]):
            child += 1
        if not _sooner(times, heap[child], last):
            break
        heap[at] = heap[child]
        at = child
    heap[at] = last
    return int(first)


@njit(cache=True)
def start(
    flight: Flight, fetch: int, now: float, latency: float, n_bytes: float, speed: float
) -> None:
    """Start a fetch. O(log robots), plus O(robots) memory moves if its transfer begins at once."""
    counts, times = flight.counts, flight.times
    counts[0].n_active += 1
    if n_bytes == 0.0 or counts[0].bandwidth == np.inf:
        times[fetch] = (now + latency) + n_bytes / speed
        _push(flight.ends, counts[0].n_ends, times, fetch)
        counts[0].n_ends += 1
    elif latency > 0.0:
        times[fetch] = now + latency
        _push(flight.latent, counts[0].n_latent, times, fetch)
        counts[0].n_latent += 1
    else:
        begin(flight, fetch, now, n_bytes, speed)


@njit(cache=True)
def begin(flight: Flight, fetch: int, now: float, n_bytes: float, speed: float) -> None:
    """Begin the transfer of a fetch; it has no rate and no end until shares are set."""
    counts, moving, speeds = flight.counts, flight.moving, flight.speeds
    n = counts[0].n_moving
    moving[LEFT, n] = n_bytes
    moving[SINCE, n] = now
    moving[RATE, n] = 0.0
    moving[END, n] = np.inf
    moving[SPEED, n] = speed
    flight.moving_fetch[n] = fetch
    at = n
    while at > 0 and speeds[at - 1] > speed:
        speeds[at] = speeds[at - 1]
        at -= 1
    speeds[at] = speed
    counts[0].n_moving = n + 1
    counts[0].changed = 1


@njit(cache=True)
def latent_due(flight: Flight, now: float) -> int:
    """Pop the next fetch whose latency is over by now, or return -1; call `begin` for it."""
    counts, latent, times = flight.counts, flight.latent, flight.times
    if counts[0].n_latent == 0 or times[latent[0]] > now:
        return NONE
    fetch = _pop(latent, counts[0].n_latent, times)
    counts[0].n_latent -= 1
    return fetch


@njit(cache=True)
def end_due(flight: Flight, now: float) -> int:
    """Pop the fetch that has ended by now and was started first, or return -1.

    O(log robots), or O(robots) for a fetch that shared the bandwidth.
    """
    counts, ends, moving, times = flight.counts, flight.ends, flight.moving, flight.times
    fetch = NONE
    if counts[0].n_ends > 0 and times[ends[0]] <= now:
        fetch = ends[0]
    first = counts[0].first
    if (
        first >= 0
        and moving[END, first] <= now
        and (fetch < 0 or flight.moving_fetch[first] < fetch)
    ):
        fetch = flight.moving_fetch[first]
        _take_out(flight, first)
        times[fetch] = now
    elif fetch >= 0:
        _pop(ends, counts[0].n_ends, times)
        counts[0].n_ends -= 1
    if fetch >= 0:
        counts[0].n_active -= 1
    return int(fetch)


@njit(cache=True)
def _take_out(flight: Flight, column: int) -> None:
    """Remove a transfer from `moving` and find the first of the others to end."""
    counts, moving, speeds = flight.counts, flight.moving, flight.speeds
    n = counts[0].n_moving - 1
    speed = moving[SPEED, column]
    at = n
    held = speeds[n]
    while held != speed:
        at -= 1
        held, speeds[at] = speeds[at], held
    for row in range(5):
        moving[row, column] = moving[row, n]
    flight.moving_fetch[column] = flight.moving_fetch[n]
    counts[0].n_moving = n
    counts[0].changed = 1
    # Shares are set before time advances, so until then only transfers that end now matter.
    counts[0].n_tied -= 1
    counts[0].first = NONE if counts[0].n_tied == 0 else _first(moving, flight.moving_fetch, n)


@njit(cache=True)
def _first(moving: Floats, moving_fetch: Fetches, n: int) -> int:
    """Return the column of the transfer that ends first; ties go to the one started first."""
    end = moving[END]
    first = 0
    for k in range(1, n):
        if end[k] < end[first] or (end[k] == end[first] and moving_fetch[k] < moving_fetch[first]):
            first = k
    return first


@njit(cache=True)
def fair_share(speeds: Floats, n: int, bandwidth: float) -> float:
    """Return the maximum rate of each of n transfers; inf if all run at the speed of their sites.

    `speeds` are in ascending order. Max-min fairness by progressive filling. Source: Bertsekas &
    Gallager, Data Networks, 2nd ed. 1992, section 6.5.2, for a single link. O(transfers slower than
    the share).
    """
    left = bandwidth
    for k in range(n):
        share = left / (n - k)
        if speeds[k] >= share:
            return float(share)
        left -= speeds[k]
    return np.inf


@njit(cache=True)
def share_out(flight: Flight, now: float) -> None:
    """Recompute shares and end times if transfers began or ended. O(robots)."""
    counts, moving = flight.counts, flight.moving
    if not counts[0].changed:
        return
    counts[0].changed = 0
    n = counts[0].n_moving
    if n == 0:
        counts[0].first = NONE
        counts[0].n_tied = 0
        return
    _set_rates(moving, n, fair_share(flight.speeds, n, counts[0].bandwidth), now)
    first = _first(moving, flight.moving_fetch, n)
    n_tied = 0
    for k in range(n):
        n_tied += moving[END, k] == moving[END, first]
    counts[0].first = first
    counts[0].n_tied = n_tied


@njit(cache=True, error_model="numpy")
def _set_rates(moving: Floats, n: int, share: float, now: float) -> None:
    """Update the transfers whose rate changes. The loop is branch-free, for speed."""
    left, since, rates, ends, speeds = moving[0], moving[1], moving[2], moving[3], moving[4]
    for k in range(n):
        rate = speeds[k] if speeds[k] < share else share
        stays = rate == rates[k]
        rest = left[k] - rates[k] * (now - since[k])
        rest = rest if rest > 0.0 else 0.0
        ends[k] = ends[k] if stays else now + rest / rate
        left[k] = left[k] if stays else rest
        since[k] = since[k] if stays else now
        rates[k] = rate


@njit(cache=True)
def next_time(flight: Flight) -> float:
    """Return when the next fetch ends or begins its transfer; inf if none is in flight.

    Call `share_out` first.
    """
    counts, times = flight.counts, flight.times
    soonest = np.inf
    if counts[0].n_ends > 0:
        soonest = times[flight.ends[0]]
    if counts[0].n_latent > 0:
        soonest = min(soonest, times[flight.latent[0]])
    if counts[0].first >= 0:
        soonest = min(soonest, flight.moving[END, counts[0].first])
    return float(soonest)
