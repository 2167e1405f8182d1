"""The compiled two-level queue: heaps of ready and delayed sites over a heap of pages per site.

A site is in at most one of the heaps, so one row per site is enough for both: the ready heap grows
from the first row upward, the delayed heap from the last row downward. Position p of a heap is row
p in the ready heap and row ~p, that is -1 - p, in the delayed heap; both are `p ^ side`, where side
is `READY` or `DELAYED`. A site's `position` field is its row, with this sign.

The heaps are 4-ary: the children of a node are adjacent, and entries hold their whole sort key. A
sift therefore reads 160 bytes per factor of four in the number of sites, and no page or site
record. Records are rows of plain numbers, because record arrays make calls from Python slower.

Source: LaMarca & Ladner, The influence of caches on the performance of heaps, ACM Journal of
Experimental Algorithmics 1, 1996. Departure: groups of children are not aligned with cache lines,
which brought no measurable gain.

Pages and sites are rows of two record arrays, so that an operation touches one record per page and
site involved. `queue` are the addresses of a `Queue`.

Invariants (checked by the tests after every action):

* a page is in the heap of its site if and only if it is `WAITING`; the root is the page that comes
  first: larger priority class, then larger key, then smaller id (ids follow the order of
  discovery);
* a page is held back if its key is below `held_below`, unless it is hot or has a request priority;
* a site is ready if it has a first page that is not held back, and a free lease, and its delay is
  over; it is delayed if only its delay is not over; otherwise it is in neither heap;
* ready sites are ordered by (visit in progress, priority class, round, site key, first page),
  delayed sites
  by (time, site), and the entries agree with the records.
"""

from __future__ import annotations

from functools import partial
from types import SimpleNamespace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from crawlprio.frontier import pairing
from crawlprio.frontier.pairing import add, isolate, join_children
from crawlprio.frontier.struct_layouts import (
    BY_BEST_PAGE,
    BY_WAITING_PAGES,
    DELAYED,
    DONE,
    ENTRY,
    LEASED,
    NONE,
    NOWHERE,
    ON_VISIT,
    QUEUE,
    READY,
    UNKNOWN,
    WAITING,
    HeapEntry,
    Queue,
    Records,
    wide,
)
from crawlprio.graph import compiled
from crawlprio.graph.compiled import Addresses, njit


def no_entries(n_sites: int) -> Records:
    """Return an empty array with room for `n_sites` sites."""
    return np.zeros(n_sites, dtype=ENTRY)


def grown(heap: Records, n_sites: int, n_delayed: int) -> Records:
    """Return a copy of the two heaps with room for `n_sites` sites, at least as many as before."""
    room = no_entries(n_sites)
    n_upward = len(heap) - n_delayed
    room[:n_upward] = heap[:n_upward]
    room[n_sites - n_delayed :] = heap[n_upward:]
    return room


@njit(cache=True, keeps_arrays=False)
def _read(heap: Records, row: int) -> HeapEntry:
    one = heap[row]
    return HeapEntry(one.minus_class, one.round, one.key, one.tie, one.site)


@njit(cache=True, keeps_arrays=False)
def _write(sites: Records, heap: Records, row: int, entry: HeapEntry) -> None:
    heap[row].minus_class = entry.minus_class
    heap[row].round = entry.round
    heap[row].key = entry.key
    heap[row].tie = entry.tie
    heap[row].site = entry.site
    sites[int(entry.site)].position = row


@njit(cache=True, keeps_arrays=False)
def _sift_up(sites: Records, heap: Records, side: int, at: int, entry: HeapEntry) -> int:
    """Write an entry at the hole `at` or above it; return its position."""
    while at > 0:
        parent = (at - 1) >> 2
        above = _read(heap, parent ^ side)
        if above < entry:
            break
        _write(sites, heap, at ^ side, above)
        at = parent
    _write(sites, heap, at ^ side, entry)
    return at


@njit(cache=True, keeps_arrays=False)
def _sift_down(sites: Records, heap: Records, side: int, n: int, at: int, entry: HeapEntry) -> None:
    """Write an entry at the hole `at` of a heap of n entries, or below it."""
    while True:
        child = 4 * at + 1
        if child >= n:
            break
        first = _read(heap, child ^ side)
        for other in range(child + 1, min(child + 4, n)):
            below = _read(heap, other ^ side)
            if below < first:
                child, first = other, below
        if entry < first:
            break
        _write(sites, heap, at ^ side, first)
        at = child
    _write(sites, heap, at ^ side, entry)


@njit(cache=True, keeps_arrays=False)
def leave(queue: Addresses, site: int) -> None:
    """Remove a site from the heap it is in, if any. O(log sites)."""
    _, sites, heap, totals = QUEUE(queue)
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


@njit(cache=True, keeps_arrays=False)
def enter(queue: Addresses, side: int, entry: HeapEntry) -> None:
    """Put a site into the heap of a side, moving it there if it was elsewhere. O(log sites)."""
    _, sites, heap, totals = QUEUE(queue)
    site = int(entry.site)
    row = wide(sites[site].position)
    if row != NOWHERE and (row < 0) != (side < 0):
        leave(queue, site)
        row = NOWHERE
    if row == NOWHERE:
        if side == READY:
            at = totals[0].n_ready
            totals[0].n_ready += 1
        else:
            at = totals[0].n_delayed
            totals[0].n_delayed += 1
        _sift_up(sites, heap, side, at, entry)
    elif _read(heap, row) != entry:
        at = row ^ side
        n = totals[0].n_ready if side == READY else totals[0].n_delayed
        if _sift_up(sites, heap, side, at, entry) == at:
            _sift_down(sites, heap, side, n, at, entry)


@njit(cache=True, keeps_arrays=False)
def soonest(queue: Addresses) -> float:
    """Return the time at which the first delayed site becomes ready; there must be one."""
    heap = QUEUE(queue).heap
    return float(heap[-1].key)


@njit(cache=True, keeps_arrays=False)
def is_idle(queue: Addresses, head: int) -> bool:
    """Return whether a site has no page that may leave; `head` is its first, or `NONE`."""
    pages, _, _, totals = QUEUE(queue)
    return head == NONE or (
        pages[head].key < totals[0].held_below and pages[head].priority_class <= 0
    )


@njit(cache=True, keeps_arrays=False)
def place_site(queue: Addresses, site: int) -> None:
    """Move a site to the right place in the heaps after a change of its pages, leases or time."""
    pages, sites, _, totals = QUEUE(queue)
    if totals[0].is_deferred:
        return
    head = wide(sites[site].head)
    if is_idle(queue, head) or sites[site].n_leased >= sites[site].limit:
        leave(queue, site)
        return
    sites[site].priority_class = pages[head].priority_class
    if totals[0].site_rule == BY_BEST_PAGE:
        sites[site].key = pages[head].key
    elif totals[0].site_rule == BY_WAITING_PAGES:
        sites[site].key = sites[site].n_waiting
    _place_by_time(queue, site)


@njit(cache=True, keeps_arrays=False)
def _place_by_time(queue: Addresses, site: int) -> None:
    """Put a site that has a page and a free lease into the ready or the delayed heap."""
    _, sites, _, totals = QUEUE(queue)
    head = wide(sites[site].head)
    if sites[site].ready_at > totals[0].now:
        ready_at = sites[site].ready_at
        enter(queue, wide(DELAYED), HeapEntry(0.0, 0.0, ready_at, float(site), float(site)))
        return
    priority_class = sites[site].priority_class + (ON_VISIT if sites[site].n_visited > 0 else 0)
    share = totals[0].site_share
    at_round = 0.0 if share == 0 else float(sites[site].turn // share)
    key = -sites[site].key
    entry = HeapEntry(-float(priority_class), at_round, key, float(head), float(site))
    enter(queue, wide(READY), entry)


@njit(cache=True, keeps_arrays=False)
def end_turn(queue: Addresses, site: int) -> None:
    """Count a turn of a site if sites take turns."""
    _, sites, _, totals = QUEUE(queue)
    if totals[0].site_share > 0:
        totals[0].turn = max(totals[0].turn, sites[site].turn)
        sites[site].turn += 1


@njit(cache=True, keeps_arrays=False)
def push(queue: Addresses, page: int, site: int, priority_class: int, key: float) -> None:
    """Queue a page that is not waiting yet; its leases continue. Amortised O(log sites)."""
    pages, sites, _, totals = QUEUE(queue)
    pages[page].key = key
    pages[page].priority_class = priority_class
    pages[page].site = site
    pages[page].state = WAITING
    share = totals[0].site_share
    if share > 0 and sites[site].n_waiting == 0:
        sites[site].turn = max(sites[site].turn, totals[0].turn // share * share)
    sites[site].n_waiting += 1
    totals[0].n_waiting += 1
    if totals[0].is_deferred:
        return
    isolate(pages, page)
    sites[site].head = add(pages, wide(sites[site].head), page)
    place_site(queue, site)


@njit(cache=True, keeps_arrays=False)
def restore_heap(queue: Addresses, page: int, rises: bool) -> None:
    """Restore the heaps after the key of a waiting page was overwritten: `pairing.restore_heap`."""
    pages, sites, _, _ = QUEUE(queue)
    site = wide(pages[page].site)
    before = wide(sites[site].head)
    head = pairing.restore_heap(pages, before, page, rises)
    sites[site].head = head
    if head != before or head == page:
        place_site(queue, site)


@njit(cache=True, keeps_arrays=False)
def rekey(queue: Addresses, page: int, priority_class: int, key: float) -> None:
    """Change the priority class or key of a waiting page; do nothing if both are unchanged. O(log
    n).
    """
    pages, _, _, totals = QUEUE(queue)
    if pages[page].key == key and pages[page].priority_class == priority_class:
        return
    rises = priority_class > pages[page].priority_class or (
        priority_class == pages[page].priority_class and key > pages[page].key
    )
    pages[page].key = key
    pages[page].priority_class = priority_class
    if not totals[0].is_deferred:
        restore_heap(queue, page, rises)


@njit(cache=True, keeps_arrays=False)
def remove(queue: Addresses, page: int, state: int) -> None:
    """Remove a waiting page from the queue, leaving it in `state`. Amortised O(log n)."""
    pages, sites, _, totals = QUEUE(queue)
    site = wide(pages[page].site)
    if not totals[0].is_deferred:
        sites[site].head = pairing.take_out(pages, wide(sites[site].head), page)
    sites[site].n_waiting -= 1
    totals[0].n_waiting -= 1
    pages[page].state = state
    if state == DONE:
        end_turn(queue, site)
    place_site(queue, site)


@njit(cache=True, keeps_arrays=False)
def first(queue: Addresses, now: float) -> int:
    """Return the first page of the first ready site, or -1. Amortised O(log n)."""
    _, _, heap, totals = QUEUE(queue)
    if now > totals[0].now:
        totals[0].now = now
    while totals[0].n_delayed > 0 and soonest(queue) <= totals[0].now:
        _place_by_time(queue, int(heap[DELAYED].site))
    return int(heap[READY].tie) if totals[0].n_ready else NONE


@njit(cache=True, keeps_arrays=False)
def pop(queue: Addresses, now: float) -> int:
    """Lease the first page of the first ready site, or return -1. Amortised O(log n).

    If a site may have several leases, its delay runs from this start to the next.
    """
    page = first(queue, now)
    if page == NONE:
        return NONE
    pages, sites, heap, totals = QUEUE(queue)
    site = int(heap[READY].site)
    sites[site].head = join_children(pages, page)
    sites[site].n_waiting -= 1
    sites[site].n_leased += 1
    pages[page].state = LEASED
    pages[page].n_leases += 1
    totals[0].n_waiting -= 1
    totals[0].n_leased += 1
    end_turn(queue, site)
    if sites[site].limit > 1:
        sites[site].ready_at = max(sites[site].ready_at, totals[0].now + sites[site].delay)
    place_site(queue, site)
    return int(page)


@njit(cache=True, keeps_arrays=False)
def release(queue: Addresses, page: int) -> None:
    """End one lease of a page, which is then done unless it waits again; no-op if it has no lease.

    The ready time of its site does not change.
    """
    pages, sites, _, totals = QUEUE(queue)
    if pages[page].n_leases == 0:
        return
    site = wide(pages[page].site)
    pages[page].n_leases -= 1
    if pages[page].state == LEASED and pages[page].n_leases == 0:
        pages[page].state = DONE
    sites[site].n_leased -= 1
    totals[0].n_leased -= 1
    place_site(queue, site)


@njit(cache=True, keeps_arrays=False)
def end_fetch(queue: Addresses, site: int, ready_at: float, ends_visit: bool) -> None:
    """Note that a fetch on a site ended: the next may start at `ready_at`, or at once in a visit.

    A visit ends after `pages_per_visit` pages, when no page of the site may leave, or if
    `ends_visit` is set.
    """
    _, sites, _, totals = QUEUE(queue)
    sites[site].n_visited += 1
    is_last = sites[site].n_visited >= totals[0].pages_per_visit
    if ends_visit or is_last or is_idle(queue, wide(sites[site].head)):
        sites[site].n_visited = 0
        sites[site].ready_at = max(sites[site].ready_at, ready_at)
    place_site(queue, site)


@njit(cache=True, keeps_arrays=False)
def push_new(
    queue: Addresses,
    first: int,
    page_sites: NDArray[np.int32],
    priority_classes: NDArray[np.int32],
    keys: NDArray[np.float64],
) -> None:
    """Push the pages first, first + 1, ...; sites and keys by page id, priority classes from
    `first` on.

    Pages that were already added one by one before this visit get their new priority class and key.
    """
    pages = QUEUE(queue).pages
    for page in range(first, len(page_sites)):
        if pages[page].state == UNKNOWN:
            push(
                queue,
                page,
                wide(page_sites[page]),
                wide(priority_classes[page - first]),
                keys[page],
            )
        elif pages[page].state == WAITING:
            priority_class = wide(pages[page].priority_class + priority_classes[page - first])
            rekey(queue, page, priority_class, keys[page])
        else:
            pages[page].priority_class += priority_classes[page - first]


@njit(cache=True, keeps_arrays=False)
def restore_heap_changed(
    queue: Addresses, first: int, changed: NDArray[np.int32], old_keys: NDArray[np.float64]
) -> None:
    """Resettle the waiting pages below `first` whose keys differ from `old_keys`."""
    pages = QUEUE(queue).pages
    for k in range(len(changed)):
        page = wide(changed[k])
        if page < first and pages[page].state == WAITING and pages[page].key != old_keys[k]:
            restore_heap(queue, page, pages[page].key > old_keys[k])


@njit(cache=True, keeps_arrays=False)
def rekey_pages(queue: Addresses, changed: NDArray[np.int32], keys: NDArray[np.float64]) -> None:
    """Update the keys of the waiting pages among `changed`; keys by page id."""
    pages = QUEUE(queue).pages
    for at in range(len(changed)):
        page = wide(changed[at])
        if pages[page].state == WAITING:
            rekey(queue, page, wide(pages[page].priority_class), keys[page])


@njit(cache=True, keeps_arrays=False)
def update(
    queue: Addresses,
    first: int,
    page_sites: NDArray[np.int32],
    priority_classes: NDArray[np.int32],
    changed: NDArray[np.int32],
    keys: NDArray[np.float64],
    visited: int,
) -> None:
    """Mark the visited page, if any; push new pages and rekey changed ones."""
    pages = QUEUE(queue).pages
    if visited >= 0:
        pages[visited].observed = 1
    push_new(queue, first, page_sites, priority_classes, keys)
    rekey_pages(queue, changed, keys)


@njit(cache=True, keeps_arrays=False)
def rekey_all(queue: Addresses, n_pages: int, n_sites: int, keys: NDArray[np.float64]) -> None:
    """Rebuild every heap with the given keys, indexed by page id. O(pages + sites log sites).

    Waiting pages below `n_pages` that were added later, and so have no key there, keep theirs.
    """
    pages, sites, _, totals = QUEUE(queue)
    for site in range(n_sites):
        sites[site].head = NONE
    for page in range(n_pages):
        if pages[page].state == WAITING:
            if page < len(keys):
                pages[page].key = keys[page]
            if totals[0].is_deferred:
                continue
            isolate(pages, page)
            site = pages[page].site
            sites[site].head = add(pages, wide(sites[site].head), page)
    for site in range(n_sites):
        place_site(queue, site)


@njit(cache=True, keeps_arrays=False)
def take_out(queue: Addresses, dropped: NDArray[np.int32]) -> int:
    """Remove dropped pages from the queue and mark them unknown; return how many were waiting."""
    pages = QUEUE(queue).pages
    n_waiting = 0
    for at in range(len(dropped)):
        page = wide(dropped[at])
        if pages[page].state == WAITING:
            remove(queue, page, wide(UNKNOWN))
            n_waiting += 1
    return n_waiting


FUNCTIONS: tuple[Any, ...] = (
    *(end_fetch, first, place_site, pop, push, rekey, release),
    *(remove, rekey_all, rekey_pages, update, take_out),
    soonest,
)


def bind(arrays: Queue) -> SimpleNamespace:
    """Return the functions by name, bound to these arrays, which the result keeps; loads numba."""
    compiled.load()
    addresses = QUEUE.addresses(arrays)
    bound = {one.__name__: partial(compiled.dispatcher_of(one), addresses) for one in FUNCTIONS}
    return SimpleNamespace(arrays=arrays, addresses=addresses, **bound)
