"""Compiled bulk updates of the queue, after a visit or a recomputation."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from crawlprio.compiled import njit
from crawlprio.frontier import pairing
from crawlprio.frontier.heaps import place_site, push, rekey
from crawlprio.frontier.pairing import add, isolate
from crawlprio.frontier.records import NONE, UNKNOWN, WAITING, Entries, Records, wide


@njit(cache=True)
def push_new(
    pages: Records,
    sites: Records,
    heap: Entries,
    totals: Records,
    first: int,
    page_sites: NDArray[np.int32],
    tiers: NDArray[np.int32],
    keys: NDArray[np.float64],
) -> None:
    """Push the pages first, first + 1, ...; sites and keys by page id, tiers from `first` on.

    Pages that were already added one by one before this visit get their new tier and key.
    """
    for page in range(first, len(page_sites)):
        if pages[page].state == UNKNOWN:
            push(
                pages,
                sites,
                heap,
                totals,
                page,
                wide(page_sites[page]),
                wide(tiers[page - first]),
                keys[page],
            )
        elif pages[page].state == WAITING:
            tier = wide(pages[page].tier + tiers[page - first])
            rekey(pages, sites, heap, totals, page, tier, keys[page])
        else:
            pages[page].tier += tiers[page - first]


@njit(cache=True)
def resettle(
    pages: Records, sites: Records, heap: Entries, totals: Records, page: int, rises: bool
) -> None:
    """Restore the heaps after the key of a waiting page was overwritten: `pairing.resettle`."""
    site = wide(pages[page].site)
    before = wide(sites[site].head)
    head = pairing.resettle(pages, before, page, rises)
    sites[site].head = head
    if head != before or head == page:
        place_site(pages, sites, heap, totals, site)


@njit(cache=True)
def resettle_changed(
    pages: Records,
    sites: Records,
    heap: Entries,
    totals: Records,
    first: int,
    changed: NDArray[np.int32],
    old_keys: NDArray[np.float64],
) -> None:
    """Resettle the waiting pages below `first` whose keys differ from `old_keys`."""
    for k in range(len(changed)):
        page = wide(changed[k])
        if page < first and pages[page].state == WAITING and pages[page].key != old_keys[k]:
            resettle(pages, sites, heap, totals, page, pages[page].key > old_keys[k])


@njit(cache=True)
def rekey_pages(
    pages: Records,
    sites: Records,
    heap: Entries,
    totals: Records,
    changed: NDArray[np.int32],
    keys: NDArray[np.float64],
) -> None:
    """Update the keys of the waiting pages among `changed`; keys by page id."""
    for at in range(len(changed)):
        page = wide(changed[at])
        if pages[page].state == WAITING:
            rekey(pages, sites, heap, totals, page, wide(pages[page].tier), keys[page])


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
    """Mark the visited page, if any; push new pages and rekey changed ones."""
    if visited >= 0:
        pages[visited].observed = 1
    push_new(pages, sites, heap, totals, first, page_sites, tiers, keys)
    rekey_pages(pages, sites, heap, totals, changed, keys)


@njit(cache=True)
def rekey_all(
    pages: Records,
    sites: Records,
    heap: Entries,
    totals: Records,
    n_pages: int,
    n_sites: int,
    keys: NDArray[np.float64],
) -> None:
    """Rebuild every heap with the given keys, indexed by page id. O(pages + sites log sites).

    Waiting pages below `n_pages` that were added later, and so have no key there, keep theirs.
    """
    for site in range(n_sites):
        sites[site].head = NONE
    for page in range(n_pages):
        if pages[page].state == WAITING:
            if page < len(keys):
                pages[page].key = keys[page]
            isolate(pages, page)
            site = pages[page].site
            sites[site].head = add(pages, wide(sites[site].head), page)
    for site in range(n_sites):
        place_site(pages, sites, heap, totals, site)
