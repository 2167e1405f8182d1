"""The queue without its heaps, for a replay in which no page leaves: only records are kept.

A replay spends a third of its time on heaps that nobody reads before its end.
"""

from __future__ import annotations

from types import SimpleNamespace

import numpy as np
from numpy.typing import NDArray

from crawlprio.compiled import direct, njit
from crawlprio.frontier import compiled_queue
from crawlprio.frontier.heaps import end_turn
from crawlprio.frontier.records import DONE, UNKNOWN, WAITING, Entries, Records, wide


@njit(cache=True)
def update(
    pages: Records,
    sites: Records,
    heap: Entries,
    totals: Records,
    first: int,
    page_sites: NDArray[np.int32],
    tiers: NDArray[np.int32],
    changed: NDArray[np.int32],
    keys: NDArray[np.float64],
    visited: int,
) -> None:
    """Do to the records what `bulk.update` does."""
    if visited >= 0:
        pages[visited].observed = 1
    share = totals[0].site_share
    for page in range(first, len(page_sites)):
        pages[page].tier += tiers[page - first]
        if pages[page].state == UNKNOWN:
            site = wide(page_sites[page])
            pages[page].tier = tiers[page - first]
            pages[page].site = site
            pages[page].state = WAITING
            if share > 0 and sites[site].n_waiting == 0:
                sites[site].turn = max(sites[site].turn, totals[0].turn // share * share)
            sites[site].n_waiting += 1
            totals[0].n_waiting += 1
        if pages[page].state == WAITING:
            pages[page].key = keys[page]
    for at in range(len(changed)):
        page = wide(changed[at])
        if pages[page].state == WAITING:
            pages[page].key = keys[page]


@njit(cache=True)
def remove(
    pages: Records, sites: Records, heap: Entries, totals: Records, page: int, state: int
) -> None:
    """Do to the records what `heaps.remove` does."""
    site = wide(pages[page].site)
    sites[site].n_waiting -= 1
    totals[0].n_waiting -= 1
    pages[page].state = state
    if state == DONE:
        end_turn(sites, totals, site)


def _rekey_all(
    pages: Records,
    sites: Records,
    heap: Entries,
    totals: Records,
    n_pages: int,
    n_sites: int,
    keys: NDArray[np.float64],
) -> None:
    """Do to the records what `bulk.rekey_all` does."""
    known = min(n_pages, len(keys))
    is_waiting = pages["state"][:known] == WAITING
    pages["key"][:known][is_waiting] = keys[:known][is_waiting]


def _place_site(pages: Records, sites: Records, heap: Entries, totals: Records, site: int) -> None:
    """Do nothing: sites are placed when the heaps are built."""


def load() -> SimpleNamespace:
    """Return the functions by name, as `compiled_queue.load` does."""
    compiled_queue.load()
    return SimpleNamespace(
        update=direct(update), remove=direct(remove), rekey_all=_rekey_all, place_site=_place_site
    )
