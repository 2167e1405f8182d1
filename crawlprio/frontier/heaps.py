"""Compiled two-level queue: a heap of sites over a pairing heap of waiting pages for each site.

Pages and sites are rows of two record arrays, so that an operation touches one record per page and
site involved, and a call from Python passes few arguments.

Invariants (checked by the tests after every action):

* a page is in the heap of its site if and only if it is `WAITING`; the root is the page that comes
  first: larger tier, then larger key, then smaller id (ids follow the order of discovery);
* a page is held back if its key is below `held_below`, unless it is hot or has a request priority;
* a site is ready if it has a first page that is not held back, and a free lease, and its delay is
  over; it is delayed if only its delay is not over; otherwise it is in neither heap;
* ready sites are ordered by (visit in progress, tier, round, site key, first page), delayed sites
  by (time, site), and the entries agree with the records.
"""

from __future__ import annotations

from crawlprio.compiled import njit
from crawlprio.frontier.pairing import add, cut, isolate, join_children, take_out
from crawlprio.frontier.records import (
    BY_BEST_PAGE,
    BY_WAITING_PAGES,
    DELAYED,
    DONE,
    LEASED,
    NONE,
    ON_VISIT,
    READY,
    SITE_ID,
    TIE,
    WAITING,
    Entries,
    Records,
    wide,
)
from crawlprio.frontier.site_heaps import enter, leave, soonest


@njit(cache=True)
def is_idle(pages: Records, totals: Records, head: int) -> bool:
    """Return whether a site with this first page, or `NONE`, has none that may leave."""
    return head == NONE or (pages[head].key < totals[0].held_below and pages[head].tier <= 0)


@njit(cache=True)
def place_site(pages: Records, sites: Records, heap: Entries, totals: Records, site: int) -> None:
    """Move a site to the right place in the heaps after a change of its pages, leases or time."""
    head = wide(sites[site].head)
    if is_idle(pages, totals, head) or sites[site].n_leased >= sites[site].limit:
        leave(sites, heap, totals, site)
        return
    sites[site].tier = pages[head].tier
    if totals[0].site_rule == BY_BEST_PAGE:
        sites[site].key = pages[head].key
    elif totals[0].site_rule == BY_WAITING_PAGES:
        sites[site].key = sites[site].n_waiting
    _place_by_time(sites, heap, totals, site)


@njit(cache=True)
def _place_by_time(sites: Records, heap: Entries, totals: Records, site: int) -> None:
    """Put a site that has a page and a free lease into the ready or the delayed heap."""
    head = wide(sites[site].head)
    if sites[site].ready_at > totals[0].now:
        enter(
            sites, heap, totals, site, wide(DELAYED), 0.0, 0.0, -sites[site].ready_at, float(site)
        )
        return
    tier = sites[site].tier + (ON_VISIT if sites[site].n_visited > 0 else 0)
    share = totals[0].site_share
    at_round = 0.0 if share == 0 else float(sites[site].turn // share)
    key = sites[site].key
    enter(sites, heap, totals, site, wide(READY), float(tier), at_round, key, float(head))


@njit(cache=True)
def end_turn(sites: Records, totals: Records, site: int) -> None:
    """Count a turn of a site if sites take turns."""
    if totals[0].site_share > 0:
        totals[0].turn = max(totals[0].turn, sites[site].turn)
        sites[site].turn += 1


@njit(cache=True)
def count_in(
    pages: Records, sites: Records, totals: Records, page: int, site: int, tier: int, key: float
) -> None:
    """Record that a page waits: the half of `push` that a replay without heaps needs."""
    pages[page].key = key
    pages[page].tier = tier
    pages[page].site = site
    pages[page].state = WAITING
    share = totals[0].site_share
    if share > 0 and sites[site].n_waiting == 0:
        sites[site].turn = max(sites[site].turn, totals[0].turn // share * share)
    sites[site].n_waiting += 1
    totals[0].n_waiting += 1


@njit(cache=True)
def push(
    pages: Records,
    sites: Records,
    heap: Entries,
    totals: Records,
    page: int,
    site: int,
    tier: int,
    key: float,
) -> None:
    """Queue a page that is not waiting yet; its leases continue. Amortised O(log sites)."""
    count_in(pages, sites, totals, page, site, tier, key)
    isolate(pages, page)
    sites[site].head = add(pages, wide(sites[site].head), page)
    place_site(pages, sites, heap, totals, site)


@njit(cache=True)
def rekey(
    pages: Records,
    sites: Records,
    heap: Entries,
    totals: Records,
    page: int,
    tier: int,
    key: float,
) -> None:
    """Change the tier or key of a waiting page; do nothing if both are unchanged. O(log n)."""
    if pages[page].key == key and pages[page].tier == tier:
        return
    site = wide(pages[page].site)
    root = wide(sites[site].head)
    rises = tier > pages[page].tier or (tier == pages[page].tier and key > pages[page].key)
    if rises:
        pages[page].key = key
        pages[page].tier = tier
        if page != root:
            cut(pages, page)
            sites[site].head = add(pages, root, page)
    else:
        rest = take_out(pages, root, page)
        pages[page].key = key
        pages[page].tier = tier
        isolate(pages, page)
        sites[site].head = add(pages, rest, page)
    if sites[site].head == page or root == page:
        place_site(pages, sites, heap, totals, site)


@njit(cache=True)
def count_out(pages: Records, sites: Records, totals: Records, page: int, state: int) -> None:
    """Record that a page waits no more: the half of `remove` that a replay without heaps needs."""
    site = wide(pages[page].site)
    sites[site].n_waiting -= 1
    totals[0].n_waiting -= 1
    pages[page].state = state
    if state == DONE:
        end_turn(sites, totals, site)


@njit(cache=True)
def remove(
    pages: Records,
    sites: Records,
    heap: Entries,
    totals: Records,
    page: int,
    state: int,
) -> None:
    """Remove a waiting page from the queue, leaving it in `state`. Amortised O(log n)."""
    site = wide(pages[page].site)
    sites[site].head = take_out(pages, wide(sites[site].head), page)
    count_out(pages, sites, totals, page, state)
    place_site(pages, sites, heap, totals, site)


@njit(cache=True)
def pop(
    pages: Records,
    sites: Records,
    heap: Entries,
    totals: Records,
    now: float,
) -> int:
    """Lease the first page of the first ready site, or return -1. Amortised O(log n).

    If a site may have several leases, its delay runs from this start to the next.
    """
    if now > totals[0].now:
        totals[0].now = now
    while totals[0].n_delayed > 0 and soonest(heap) <= totals[0].now:
        _place_by_time(sites, heap, totals, int(heap[DELAYED, SITE_ID]))
    if totals[0].n_ready == 0:
        return NONE
    site = int(heap[READY, SITE_ID])
    page = int(heap[READY, TIE])
    sites[site].head = join_children(pages, page)
    sites[site].n_waiting -= 1
    sites[site].n_leased += 1
    pages[page].state = LEASED
    pages[page].n_leases += 1
    totals[0].n_waiting -= 1
    totals[0].n_leased += 1
    end_turn(sites, totals, site)
    if sites[site].limit > 1:
        sites[site].ready_at = max(sites[site].ready_at, totals[0].now + sites[site].delay)
    place_site(pages, sites, heap, totals, site)
    return int(page)


@njit(cache=True)
def release(
    pages: Records,
    sites: Records,
    heap: Entries,
    totals: Records,
    page: int,
) -> None:
    """End one lease of a page, which is then done unless it waits again; no-op if it has no lease.

    The ready time of its site does not change.
    """
    if pages[page].n_leases == 0:
        return
    site = wide(pages[page].site)
    pages[page].n_leases -= 1
    if pages[page].state == LEASED and pages[page].n_leases == 0:
        pages[page].state = DONE
    sites[site].n_leased -= 1
    totals[0].n_leased -= 1
    place_site(pages, sites, heap, totals, site)


@njit(cache=True)
def end_fetch(
    pages: Records,
    sites: Records,
    heap: Entries,
    totals: Records,
    site: int,
    ready_at: float,
    ends_visit: bool,
) -> None:
    """Note that a fetch on a site ended: the next may start at `ready_at`, or at once in a visit.

    A visit ends after `pages_per_visit` pages, when no page of the site may leave, or if
    `ends_visit` is set.
    """
    sites[site].n_visited += 1
    is_last = sites[site].n_visited >= totals[0].pages_per_visit
    if ends_visit or is_last or is_idle(pages, totals, wide(sites[site].head)):
        sites[site].n_visited = 0
        sites[site].ready_at = max(sites[site].ready_at, ready_at)
    place_site(pages, sites, heap, totals, site)
