"""Compiled two-level queue: a heap of sites over a pairing heap of waiting pages for each site.

Pages and sites are rows of two record arrays, so that an operation touches one cache line per page
and a call from Python passes few arguments. Nothing here knows URLs, orderings or Python objects;
time is an argument.

Invariants (checked by the tests after every action):

* a page is in the heap of its site exactly while it is `WAITING`; the root is the page that comes
  first: larger tier, then larger key, then smaller id (ids count in order of discovery);
* a site stands in `ready` exactly if it has waiting pages, a free lease and its time has come; in
  `delayed` if only its time has not come; else in neither;
* `ready` is a binary max-heap by (visit under way, tier, site key, first page), `delayed` a binary
  min-heap by (time, site).
"""

from __future__ import annotations

import numpy as np
from numba import njit
from numpy.typing import NDArray

from crawlprio.frontier.pairing import cut, join_children, meld, stand_alone, take_out
from crawlprio.frontier.records import (
    BY_BEST_PAGE,
    BY_WAITING_PAGES,
    DONE,
    IN_DELAYED,
    IN_READY,
    LEASED,
    NONE,
    NOWHERE,
    UNKNOWN,
    WAITING,
    Records,
)


@njit(cache=True, inline="always")
def _site_before(sites: Records, a: int, b: int) -> bool:
    """Whether ready site a is served before b."""
    visiting_a = sites[a].n_visited > 0
    visiting_b = sites[b].n_visited > 0
    if visiting_a != visiting_b:
        return bool(visiting_a)
    if sites[a].tier != sites[b].tier:
        return bool(sites[a].tier > sites[b].tier)
    if sites[a].key != sites[b].key:
        return bool(sites[a].key > sites[b].key)
    return bool(sites[a].head < sites[b].head)


@njit(cache=True, inline="always")
def _sooner(sites: Records, a: int, b: int) -> bool:
    """Whether delayed site a is ready before b."""
    if sites[a].ready_at != sites[b].ready_at:
        return bool(sites[a].ready_at < sites[b].ready_at)
    return a < b


@njit(cache=True)
def _sift_up(sites: Records, heap: NDArray[np.int32], place: int, at: int) -> int:
    site = heap[at]
    while at > 0:
        parent = (at - 1) >> 1
        above = heap[parent]
        first = (
            _site_before(sites, site, above) if place == IN_READY else _sooner(sites, site, above)
        )
        if not first:
            break
        heap[at] = above
        sites[above].position = at
        at = parent
    heap[at] = site
    sites[site].position = at
    return at


@njit(cache=True)
def _sift_down(sites: Records, heap: NDArray[np.int32], n: int, place: int, at: int) -> None:
    site = heap[at]
    while True:
        child = 2 * at + 1
        if child >= n:
            break
        if child + 1 < n:
            a, b = heap[child + 1], heap[child]
            right = _site_before(sites, a, b) if place == IN_READY else _sooner(sites, a, b)
            if right:
                child += 1
        below = heap[child]
        lower = (
            _site_before(sites, below, site) if place == IN_READY else _sooner(sites, below, site)
        )
        if not lower:
            break
        heap[at] = below
        sites[below].position = at
        at = child
    heap[at] = site
    sites[site].position = at


@njit(cache=True)
def _leave_place(
    sites: Records,
    ready: NDArray[np.int32],
    delayed: NDArray[np.int32],
    totals: Records,
    site: int,
) -> None:
    """Take a site out of the heap that it stands in."""
    place = sites[site].place
    if place == NOWHERE:
        return
    if place == IN_READY:
        heap = ready
        totals[0].n_ready -= 1
        n = totals[0].n_ready
    else:
        heap = delayed
        totals[0].n_delayed -= 1
        n = totals[0].n_delayed
    at = sites[site].position
    sites[site].place = NOWHERE
    if at < n:
        heap[at] = heap[n]
        sites[heap[at]].position = at
        if _sift_up(sites, heap, place, at) == at:
            _sift_down(sites, heap, n, place, at)


@njit(cache=True)
def place_site(
    pages: Records,
    sites: Records,
    ready: NDArray[np.int32],
    delayed: NDArray[np.int32],
    totals: Records,
    site: int,
) -> None:
    """Put a site where its pages, leases and time say; call it after any of them changed."""
    head = sites[site].head
    if head == NONE or sites[site].n_leased >= sites[site].limit:
        place = NOWHERE
    elif sites[site].ready_at > totals[0].now:
        place = IN_DELAYED
    else:
        place = IN_READY
    if head != NONE:
        sites[site].tier = pages[head].tier
        if totals[0].site_rule == BY_BEST_PAGE:
            sites[site].key = pages[head].key
        elif totals[0].site_rule == BY_WAITING_PAGES:
            sites[site].key = sites[site].n_waiting
    if place != sites[site].place:
        _leave_place(sites, ready, delayed, totals, site)
        if place == IN_READY:
            at = totals[0].n_ready
            ready[at] = site
            totals[0].n_ready += 1
        elif place == IN_DELAYED:
            at = totals[0].n_delayed
            delayed[at] = site
            totals[0].n_delayed += 1
        else:
            return
        sites[site].place = place
        sites[site].position = at
    if place == IN_READY:
        if _sift_up(sites, ready, IN_READY, sites[site].position) == sites[site].position:
            _sift_down(sites, ready, totals[0].n_ready, IN_READY, sites[site].position)
    elif place == IN_DELAYED and (
        _sift_up(sites, delayed, IN_DELAYED, sites[site].position) == sites[site].position
    ):
        _sift_down(sites, delayed, totals[0].n_delayed, IN_DELAYED, sites[site].position)


@njit(cache=True)
def push(
    pages: Records,
    sites: Records,
    ready: NDArray[np.int32],
    delayed: NDArray[np.int32],
    totals: Records,
    page: int,
    site: int,
    tier: int,
    key: float,
) -> None:
    """Let a page wait. It must not be waiting already. Amortised O(log sites)."""
    pages[page].key = key
    pages[page].tier = tier
    pages[page].site = site
    stand_alone(pages, page)
    if pages[page].state == LEASED:
        sites[site].n_leased -= 1
        totals[0].n_leased -= 1
    pages[page].state = WAITING
    sites[site].head = meld(pages, sites[site].head, page)
    sites[site].n_waiting += 1
    totals[0].n_waiting += 1
    place_site(pages, sites, ready, delayed, totals, site)


@njit(cache=True)
def rekey(
    pages: Records,
    sites: Records,
    ready: NDArray[np.int32],
    delayed: NDArray[np.int32],
    totals: Records,
    page: int,
    tier: int,
    key: float,
) -> None:
    """Give a waiting page another tier or key; nothing if both are as before. O(log n)."""
    if pages[page].key == key and pages[page].tier == tier:
        return
    site = pages[page].site
    root = sites[site].head
    rises = tier > pages[page].tier or (tier == pages[page].tier and key > pages[page].key)
    if rises:
        pages[page].key = key
        pages[page].tier = tier
        if page != root:
            cut(pages, page)
            sites[site].head = meld(pages, root, page)
    else:
        rest = take_out(pages, root, page)
        pages[page].key = key
        pages[page].tier = tier
        stand_alone(pages, page)
        sites[site].head = meld(pages, rest, page)
    if sites[site].head == page or root == page:
        place_site(pages, sites, ready, delayed, totals, site)


@njit(cache=True)
def remove(
    pages: Records,
    sites: Records,
    ready: NDArray[np.int32],
    delayed: NDArray[np.int32],
    totals: Records,
    page: int,
    state: int,
) -> None:
    """Take a waiting page out, leaving it in `state`. Amortised O(log n)."""
    site = pages[page].site
    sites[site].head = take_out(pages, sites[site].head, page)
    sites[site].n_waiting -= 1
    totals[0].n_waiting -= 1
    pages[page].state = state
    place_site(pages, sites, ready, delayed, totals, site)


@njit(cache=True)
def pop(
    pages: Records,
    sites: Records,
    ready: NDArray[np.int32],
    delayed: NDArray[np.int32],
    totals: Records,
    now: float,
) -> int:
    """Lease the first page of the first ready site, or return -1. Amortised O(log n).

    Where a site may have several leases its delay runs from this start to the next.
    """
    if now > totals[0].now:
        totals[0].now = now
    while totals[0].n_delayed > 0 and sites[delayed[0]].ready_at <= totals[0].now:
        place_site(pages, sites, ready, delayed, totals, delayed[0])
    if totals[0].n_ready == 0:
        return NONE
    site = ready[0]
    page = sites[site].head
    sites[site].head = join_children(pages, page)
    sites[site].n_waiting -= 1
    sites[site].n_leased += 1
    pages[page].state = LEASED
    totals[0].n_waiting -= 1
    totals[0].n_leased += 1
    if sites[site].limit > 1:
        sites[site].ready_at = max(sites[site].ready_at, totals[0].now + sites[site].delay)
    place_site(pages, sites, ready, delayed, totals, site)
    return int(page)


@njit(cache=True)
def release(
    pages: Records,
    sites: Records,
    ready: NDArray[np.int32],
    delayed: NDArray[np.int32],
    totals: Records,
    page: int,
) -> None:
    """End the lease of a page, which is done; nothing if it is not leased.

    When its site is ready again is not decided here.
    """
    if pages[page].state != LEASED:
        return
    site = pages[page].site
    pages[page].state = DONE
    sites[site].n_leased -= 1
    totals[0].n_leased -= 1
    place_site(pages, sites, ready, delayed, totals, site)


@njit(cache=True)
def end_fetch(
    pages: Records,
    sites: Records,
    ready: NDArray[np.int32],
    delayed: NDArray[np.int32],
    totals: Records,
    site: int,
    ready_at: float,
    ends_visit: bool,
) -> None:
    """Note that a fetch on a site ended: the next may start at `ready_at`, inside a visit at once.

    A visit is over after `pages_per_visit` pages, when no page of the site waits, or if
    `ends_visit`.
    """
    sites[site].n_visited += 1
    over = (
        ends_visit or sites[site].n_visited >= totals[0].pages_per_visit or sites[site].head == NONE
    )
    if over:
        sites[site].n_visited = 0
        sites[site].ready_at = max(sites[site].ready_at, ready_at)
    place_site(pages, sites, ready, delayed, totals, site)


@njit(cache=True)
def push_new(
    pages: Records,
    sites: Records,
    ready: NDArray[np.int32],
    delayed: NDArray[np.int32],
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
                ready,
                delayed,
                totals,
                page,
                page_sites[page],
                tiers[page - first],
                keys[page],
            )
        elif pages[page].state == WAITING:
            tier = pages[page].tier + tiers[page - first]
            rekey(pages, sites, ready, delayed, totals, page, tier, keys[page])
        else:
            pages[page].tier += tiers[page - first]


@njit(cache=True)
def rekey_pages(
    pages: Records,
    sites: Records,
    ready: NDArray[np.int32],
    delayed: NDArray[np.int32],
    totals: Records,
    changed: NDArray[np.int32],
    keys: NDArray[np.float64],
) -> None:
    """Bring those of `changed` that wait up to date; keys by page id."""
    for page in changed:
        if pages[page].state == WAITING:
            rekey(pages, sites, ready, delayed, totals, page, pages[page].tier, keys[page])


@njit(cache=True)
def update(
    pages: Records,
    sites: Records,
    ready: NDArray[np.int32],
    delayed: NDArray[np.int32],
    totals: Records,
    first: int,
    page_sites: NDArray[np.int32],
    tiers: NDArray[np.int32],
    changed: NDArray[np.int32],
    keys: NDArray[np.float64],
) -> None:
    """Push the new pages of a visit and bring the changed ones up to date."""
    push_new(pages, sites, ready, delayed, totals, first, page_sites, tiers, keys)
    rekey_pages(pages, sites, ready, delayed, totals, changed, keys)


@njit(cache=True)
def note_visit(
    pages: Records,
    sites: Records,
    ready: NDArray[np.int32],
    delayed: NDArray[np.int32],
    totals: Records,
    page: int,
) -> bool:
    """Note that a page was visited, which then waits no more; return whether it was before."""
    if pages[page].state == WAITING:
        remove(pages, sites, ready, delayed, totals, page, DONE)
    before = pages[page].observed
    pages[page].observed = 1
    return bool(before)


@njit(cache=True)
def rekey_all(
    pages: Records,
    sites: Records,
    ready: NDArray[np.int32],
    delayed: NDArray[np.int32],
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
            sites[site].head = meld(pages, sites[site].head, page)
    for site in range(n_sites):
        place_site(pages, sites, ready, delayed, totals, site)
