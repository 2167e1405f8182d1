"""The pages that leave a queue next, found in its records without taking them out."""

from __future__ import annotations

from collections.abc import Sequence
from heapq import heappop, heappush

import numpy as np
from numpy.typing import NDArray

from crawlprio.frontier.records import BY_CALL, BY_WAITING_PAGES, NONE, WAITING, Records


def upcoming(pages: Records, sites: Records, totals: Records, most: int) -> list[int]:
    """Return the pages that leave next, at most `most`, as if no site had to wait. O(pages).

    Only the sites that come first now can have a page among them: none comes sooner because its
    first page has left. Sites that an ordering ranks by `site_key` keep the key that they have now.

    Parameters
    ----------
    pages, sites, totals
        The records of a queue.
    """
    waiting = np.flatnonzero((sites["n_waiting"] > 0) & (sites["head"] != NONE))
    heads = sites["head"][waiting]
    first = waiting[_best(_site_ranks(pages, sites, totals, waiting, heads, 0), most)]
    queued = np.flatnonzero(pages["state"] == WAITING)
    queued = queued[np.isin(pages["site"][queued], first)]
    left: dict[int, list[int]] = {}
    for site in first.tolist():
        own = queued[pages["site"][queued] == site]
        ranks = (-pages["tier"][own].astype(np.int64), -pages["key"][own], own)
        left[site] = own[_best(ranks, most)].tolist()
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
    keys, tiers = pages["key"][heads], pages["tier"][heads].astype(np.int64)
    is_held = (keys < totals["held_below"][0]) & (tiers <= 0)
    share, rule = int(totals["site_share"][0]), totals["site_rule"][0]
    rounds = (sites["turn"][at] + n_taken) // share if share else np.zeros(len(at))
    if rule == BY_WAITING_PAGES:
        keys = sites["n_waiting"][at] - n_taken
    elif rule == BY_CALL:
        keys = sites["key"][at]
    return is_held, -tiers, rounds, -keys, heads


def _best(ranks: Sequence[NDArray[np.generic]], most: int) -> NDArray[np.int64]:
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
