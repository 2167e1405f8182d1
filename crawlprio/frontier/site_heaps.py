"""Compiled heaps of the ready sites and of the delayed sites, in one array.

A site is in at most one of the heaps, so one row per site is enough for both: the ready heap grows
from the first row upward, the delayed heap from the last row downward. Position p of a heap is row
p in the ready heap and row ~p, that is -1 - p, in the delayed heap; both are `p ^ side`, where side
is `READY` or `DELAYED`. A site's `position` field is its row, with this sign.

The heaps are 4-ary: the children of a node are adjacent, and entries hold their whole sort key. A
sift therefore reads 160 bytes per factor of four in the number of sites, and no page or site
record. Entries are rows of plain numbers, because record arrays make calls from Python slower.

Source: LaMarca & Ladner, The influence of caches on the performance of heaps, ACM Journal of
Experimental Algorithmics 1, 1996. Departure: groups of children are not aligned with cache lines,
which brought no measurable gain.
"""

from __future__ import annotations

import numpy as np

from crawlprio.compiled import njit
from crawlprio.frontier.records import (
    DELAYED,
    KEY,
    NOWHERE,
    READY,
    ROUND,
    SITE_ID,
    TIE,
    TIER,
    Entries,
    Records,
    wide,
)

Entry = tuple[float, float, float, float, float]


def no_entries(n_sites: int) -> Entries:
    """Return an empty array with room for `n_sites` sites."""
    return np.zeros((n_sites, 5))


def grown(heap: Entries, n_sites: int, n_delayed: int) -> Entries:
    """Return a copy of the two heaps with room for `n_sites` sites, at least as many as before."""
    room = no_entries(n_sites)
    n_upward = len(heap) - n_delayed
    room[:n_upward] = heap[:n_upward]
    room[n_sites - n_delayed :] = heap[n_upward:]
    return room


@njit(cache=True)
def _comes_before(heap: Entries, row: int, entry: Entry) -> bool:
    """Whether the entry in a row comes before the given one."""
    if heap[row, TIER] != entry[TIER]:
        return bool(heap[row, TIER] > entry[TIER])
    if heap[row, ROUND] != entry[ROUND]:
        return bool(heap[row, ROUND] < entry[ROUND])
    if heap[row, KEY] != entry[KEY]:
        return bool(heap[row, KEY] > entry[KEY])
    return bool(heap[row, TIE] < entry[TIE])


@njit(cache=True)
def _read(heap: Entries, row: int) -> Entry:
    return heap[row, TIER], heap[row, ROUND], heap[row, KEY], heap[row, TIE], heap[row, SITE_ID]


@njit(cache=True)
def _write(sites: Records, heap: Entries, row: int, entry: Entry) -> None:
    heap[row, TIER] = entry[TIER]
    heap[row, ROUND] = entry[ROUND]
    heap[row, KEY] = entry[KEY]
    heap[row, TIE] = entry[TIE]
    heap[row, SITE_ID] = entry[SITE_ID]
    sites[int(entry[SITE_ID])].position = row


@njit(cache=True)
def _sift_up(sites: Records, heap: Entries, side: int, at: int, entry: Entry) -> int:
    """Write an entry at the hole `at` or above it; return its position."""
    while at > 0:
        parent = (at - 1) >> 2
        if _comes_before(heap, parent ^ side, entry):
            break
        _write(sites, heap, at ^ side, _read(heap, parent ^ side))
        at = parent
    _write(sites, heap, at ^ side, entry)
    return at


@njit(cache=True)
def _sift_down(sites: Records, heap: Entries, side: int, n: int, at: int, entry: Entry) -> None:
    """Write an entry at the hole `at` of a heap of n entries, or below it."""
    while True:
        child = 4 * at + 1
        if child >= n:
            break
        first = _read(heap, child ^ side)
        for other in range(child + 1, min(child + 4, n)):
            if _comes_before(heap, other ^ side, first):
                child = other
                first = _read(heap, child ^ side)
        if not _comes_before(heap, child ^ side, entry):
            break
        _write(sites, heap, at ^ side, first)
        at = child
    _write(sites, heap, at ^ side, entry)


@njit(cache=True)
def leave(sites: Records, heap: Entries, totals: Records, site: int) -> None:
    """Remove a site from the heap it is in, if any. O(log sites)."""
    row = wide(sites[site].position)
    if row == NOWHERE:
        return
    if row >= 0:
        side = wide(READY)
        totals[0].n_ready -= 1
        n = totals[0].n_ready
    else:
        side = wide(DELAYED)
        totals[0].n_delayed -= 1
        n = totals[0].n_delayed
    sites[site].position = NOWHERE
    at = row ^ side
    if at < n:
        last = _read(heap, n ^ side)
        if _sift_up(sites, heap, side, at, last) == at:
            _sift_down(sites, heap, side, n, at, last)


@njit(cache=True)
def enter(
    sites: Records,
    heap: Entries,
    totals: Records,
    site: int,
    side: int,
    tier: float,
    at_round: float,
    key: float,
    tie: float,
) -> None:
    """Put a site into the heap of a side, moving it there if it was elsewhere. O(log sites)."""
    entry = (tier, at_round, key, tie, float(site))
    row = wide(sites[site].position)
    if row != NOWHERE and (row < 0) != (side < 0):
        leave(sites, heap, totals, site)
        row = NOWHERE
    if row == NOWHERE:
        if side == READY:
            at = totals[0].n_ready
            totals[0].n_ready += 1
        else:
            at = totals[0].n_delayed
            totals[0].n_delayed += 1
        _sift_up(sites, heap, side, at, entry)
    elif (
        heap[row, TIER] != tier
        or heap[row, ROUND] != at_round
        or heap[row, KEY] != key
        or heap[row, TIE] != tie
    ):
        at = row ^ side
        n = totals[0].n_ready if side == READY else totals[0].n_delayed
        if _sift_up(sites, heap, side, at, entry) == at:
            _sift_down(sites, heap, side, n, at, entry)


@njit(cache=True)
def soonest(heap: Entries) -> float:
    """Return the time at which the first delayed site becomes ready; there must be one."""
    return float(-heap[-1, KEY])
