"""Compiled heaps of the sites that are ready and of those in their delay, in one array.

Since a site stands in one heap at most, as many rows as there are sites will do for both: that of
ready sites grows from the first row upward, that of delayed sites from the last row downward. Place
p of a heap is row p of the one and row ~p, that is -1 - p, of the other; both are `p ^ side`, the
side being `READY` or `DELAYED`. A site's `position` is its row, signed like this.

A place has four children, which lie together, and entries hold all that they are sorted by. So a
sift reads 160 bytes for each two doublings of the number of sites, and no record of a page or of a
site. Entries are rows of numbers, since arrays of records make calls from Python dearer.

Source: LaMarca & Ladner, The influence of caches on the performance of heaps, ACM Journal of
Experimental Algorithmics 1, 1996. Departure: sets of children are not aligned with cache lines,
which gained nothing measurable.
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
    """Return room for so many sites."""
    return np.zeros((n_sites, 5))


def grown(heap: Entries, n_sites: int, n_delayed: int) -> Entries:
    """Return the two heaps with room for so many sites, no fewer than before."""
    room = no_entries(n_sites)
    n_upward = len(heap) - n_delayed
    room[:n_upward] = heap[:n_upward]
    room[n_sites - n_delayed :] = heap[n_upward:]
    return room


@njit(cache=True)
def _comes_before(heap: Entries, row: int, entry: Entry) -> bool:
    """Whether the entry in a row is served before this one."""
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
    """Write an entry at a free place or above it; return where."""
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
    """Write an entry at a free place of a heap of n or below it."""
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
def stand(
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
    """Enter a site on a side, wherever it was before. O(log sites)."""
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
    """Return when the first delayed site is ready; there must be one."""
    return float(-heap[-1, KEY])
