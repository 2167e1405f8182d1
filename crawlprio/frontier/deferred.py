"""The queue without its heaps, for a replay in which no page leaves: only records are kept.

A replay spends a third of its time on heaps that nobody reads before its end.
"""

from __future__ import annotations

from types import SimpleNamespace

import numpy as np
from numpy.typing import NDArray

from crawlprio.compiled import direct, njit
from crawlprio.frontier import compiled_queue
from crawlprio.frontier.heaps import count_in, count_out
from crawlprio.frontier.records import UNKNOWN, WAITING, Entries, Records, wide


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
    for page in range(first, len(page_sites)):
        tier = wide(tiers[page - first])
        if pages[page].state == UNKNOWN:
            count_in(pages, sites, totals, page, wide(page_sites[page]), tier, keys[page])
            continue
        pages[page].tier += tier
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
    count_out(pages, sites, totals, page, state)


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
