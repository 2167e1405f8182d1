"""Compiled bulk updates of the queue, after a visit or a recomputation."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from crawlprio.compiled import njit
from crawlprio.frontier import pairing
from crawlprio.frontier.heaps import place_site, push, rekey
from crawlprio.frontier.pairing import add, stand_alone
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

    Those that were added one by one before their visit are brought up to date.
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
    """Move a waiting page to where its key, written in place, puts it: `pairing.resettle`."""
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
    """Resettle the pages below `first` that wait and whose keys are not as they were."""
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
    """Bring those of `changed` that wait up to date; keys by page id."""
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
    """Note the visit of a page, if any; push new pages and rekey changed ones."""
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
    """Rebuild every heap with the keys given, keys by page id. O(pages + sites log sites).

    Waiting pages below `n_pages` that have no key there, being added since, keep theirs.
    """
    for site in range(n_sites):
        sites[site].head = NONE
    for page in range(n_pages):
        if pages[page].state == WAITING:
            if page < len(keys):
                pages[page].key = keys[page]
            stand_alone(pages, page)
            site = pages[page].site
            sites[site].head = add(pages, wide(sites[site].head), page)
    for site in range(n_sites):
        place_site(pages, sites, heap, totals, site)
