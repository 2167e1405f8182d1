"""The records of the frontier's queue, the states of a page, and the pages that leave next."""

from __future__ import annotations

from collections.abc import Sequence
from heapq import heappop, heappush
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from crawlprio.graph.compiled import Layout, njit, record

UNKNOWN, WAITING, LEASED, DONE = 0, 1, 2, 3
READY, DELAYED = 0, -1
NOWHERE = 2**31 - 1
ON_VISIT = 2**32
BY_BEST_PAGE, BY_WAITING_PAGES, BY_CALL = 0, 1, 2
NONE = -1
MAX_LEASES = 255

PAGE = record("f8 key", "i4 child next prev priority_class site", "u1 state observed rank n_leases")
"""One page, 32 bytes. In the pairing heap, `prev` is the left sibling, or the parent of a first
child; `rank` counts the children of equal rank that were melded into the page while it was a child
of the root. A waiting page may also be leased, up to `MAX_LEASES` times, if it is to be fetched
more than once."""

SITE = record(
    "f8 key ready_at delay",
    "i8 turn",
    "i4 head priority_class n_waiting n_leased limit position n_visited",
)
"""One site, 64 bytes. `delay`: w, in seconds. `turn`: turns it has taken, or missed while no page
of it was waiting. `limit`: leases it may have at once. `n_visited`: pages fetched in the current
visit. `position`: row of its heap entry, or `NOWHERE`; `priority_class` and `key` are valid while
it has one.
"""


class HeapEntry(NamedTuple):
    """What a site ranks by in its heap: the smallest entry comes first.

    That of a ready site begins with minus its priority class, to which `ON_VISIT` is added during a
    visit; then its round, minus its key, and its first page. A delayed site has zeros, the time at
    which it becomes ready, and its id.
    """

    minus_class: float
    round: float
    key: float
    tie: float
    site: float


ENTRY = np.dtype([(name, np.float64) for name in HeapEntry._fields])
"""An entry of the heaps, 40 bytes; one for each site."""

TOTALS = record(
    "i8 n_ready n_delayed n_waiting n_leased site_rule pages_per_visit site_share turn",
    "f8 now held_below",
    "i8 is_deferred",
)
"""Totals over the queue. `site_share`: pages of a site per round, or 0 if sites take no turns.
`turn`: the latest turn of any site. `held_below`: pages with a smaller key are held back.
`is_deferred`: no page leaves before the heaps are built again, so they are left as they are."""

Records = NDArray[Any]


class Queue(NamedTuple):
    """The arrays of a queue.

    Compiled code takes their `addresses` as one argument, and reads the arrays from them by
    `QUEUE(addresses)`: a call from Python takes 0.35 microseconds, with four arrays 1.0. Whoever
    calls keeps the arrays alive.
    """

    pages: Records
    sites: Records
    heap: Records
    totals: Records


QUEUE = Layout(Queue, PAGE, SITE, ENTRY, TOTALS)


def column(records: Records, name: str) -> Any:
    """Return a column of records for single numbers: a memoryview takes a third of the time."""
    values: Any = records[name]
    return memoryview(values)


def new_sites(n: int, limit: int, delay: float) -> Records:
    """Return records of sites without pages, with a limit of leases and a delay in seconds."""
    sites = np.zeros(n, dtype=SITE)
    sites["head"] = NONE
    sites["position"] = NOWHERE
    sites["limit"] = limit
    sites["delay"] = delay
    sites["ready_at"] = -np.inf
    return sites


@njit(cache=True, inline="always")
def wide(number: int) -> int:
    """Return a record field or constant as int64, the one integer type that kernels pass around.

    Without it, numba would compile a kernel again for each combination of integer types.
    """
    return np.int64(number)  # type: ignore[return-value]


def all_are_held(pages: Records, sites: Records, totals: Records) -> bool:
    """Return whether pages wait and all of them are held back. O(sites)."""
    held_below = totals["held_below"][0]
    if held_below == -np.inf:
        return False
    heads = pages[sites["head"][sites["head"] >= 0]]
    return bool(len(heads) and ((heads["key"] < held_below) & (heads["priority_class"] <= 0)).all())


def upcoming(pages: Records, sites: Records, totals: Records, most: int) -> list[int]:
    """Return the pages that leave next, at most `most`, as if no site had to wait. O(pages).

    Only the sites that come first now can have a page among them: none comes sooner because its
    first page has left. Sites that an ordering ranks by `site_key` keep the key that they have now.
    """
    waiting = np.flatnonzero((sites["n_waiting"] > 0) & (sites["head"] != NONE))
    heads = sites["head"][waiting]
    first = waiting[best_rows(_site_ranks(pages, sites, totals, waiting, heads, 0), most)]
    queued = np.flatnonzero(pages["state"] == WAITING)
    queued = queued[np.isin(pages["site"][queued], first)]
    left: dict[int, list[int]] = {}
    for site in first.tolist():
        own = queued[pages["site"][queued] == site]
        ranks = (-pages["priority_class"][own].astype(np.int64), -pages["key"][own], own)
        left[site] = own[best_rows(ranks, most)].tolist()
    heap: list[tuple[tuple[float, ...], int, int]] = []

    def enter(site: int, n_taken: int) -> None:
        if n_taken < len(left[site]):
            page = np.array(left[site][n_taken : n_taken + 1])
            at = np.array([site])
            ranks = _site_ranks(pages, sites, totals, at, page, n_taken)
            heappush(heap, (tuple(float(rank[0]) for rank in ranks), site, n_taken))

    for site in left:
        enter(site, 0)
    found: list[int] = []
    while heap and len(found) < most:
        _, site, n_taken = heappop(heap)
        found.append(left[site][n_taken])
        enter(site, n_taken + 1)
    return found


def _site_ranks(
    pages: Records,
    sites: Records,
    totals: Records,
    at: NDArray[np.int64],
    heads: NDArray[np.int64],
    n_taken: int,
) -> tuple[NDArray[np.generic], ...]:
    """Return what sites rank by, most important first and smaller is sooner.

    `heads` are their first pages once `n_taken` of each have left.
    """
    keys, priority_classes = pages["key"][heads], pages["priority_class"][heads].astype(np.int64)
    is_held = (keys < totals["held_below"][0]) & (priority_classes <= 0)
    share, rule = int(totals["site_share"][0]), totals["site_rule"][0]
    rounds = (sites["turn"][at] + n_taken) // share if share else np.zeros(len(at))
    if rule == BY_WAITING_PAGES:
        keys = sites["n_waiting"][at] - n_taken
    elif rule == BY_CALL:
        keys = sites["key"][at]
    return is_held, -priority_classes, rounds, -keys, heads


def best_rows(ranks: Sequence[NDArray[np.generic]], most: int) -> NDArray[np.int64]:
    """Return the positions of the `most` rows that rank first, in order. O(n)."""
    left = np.arange(len(ranks[0]))
    best = left[:0]
    for rank in ranks:
        n_more = most - len(best)
        if len(left) <= n_more:
            break
        bound = np.partition(rank[left], n_more - 1)[n_more - 1]
        best = np.concatenate([best, left[rank[left] < bound]])
        left = left[rank[left] == bound]
    best = np.concatenate([best, left[: most - len(best)]])
    return best[np.lexsort([rank[best] for rank in reversed(ranks)])]
