"""The two-level queue in plain Python: what `heaps` does, without compiled code.

It works on the same records as the compiled queue and hands out the same pages in the same order,
so a frontier can start with it and switch to compiled heaps once it has grown (`heaps.rekey_all`
builds them from the records). A crawl of up to `PLAIN_UNTIL` pages then never loads Numba, which
would take half a second of the processor and 130 MB.

Deletion is lazy: a change leaves the old entry in its heap, to be skipped when it reaches the top.
A heap in which more than half the entries are stale is rebuilt.
"""

from __future__ import annotations

from heapq import heapify, heappop, heappush

import numpy as np
from numpy.typing import NDArray

from crawlprio.frontier.struct_layouts import (
    BY_BEST_PAGE,
    BY_WAITING_PAGES,
    DONE,
    LEASED,
    NONE,
    ON_VISIT,
    UNKNOWN,
    WAITING,
    Queue,
    column,
)

_SLACK = 32

_PageEntry = tuple[int, float, int]
_SiteEntry = tuple[float, ...]


class PlainQueue:
    """Waiting pages by site, then by page; methods as in `heaps.bind`, and its records.

    Page entries are (-priority class, -key, page). Site entries are (-priority class, round, -key,
    first page, site) for a ready site and (time, site) for a delayed one.
    """

    def __init__(self) -> None:
        self._heaps: list[list[_PageEntry]] = []
        self._ready: list[_SiteEntry] = []
        self._delayed: list[_SiteEntry] = []
        self._entries: list[_SiteEntry | None] = []

    def bind(self, arrays: Queue) -> None:
        """Work on these records, which continue those before, if any."""
        pages, sites, _, totals = arrays
        self._pages = pages
        (
            self._key,
            self._priority_class,
            self._state,
            self._site_of,
            self._n_leases,
            self._observed,
        ) = (
            column(pages, name)
            for name in ("key", "priority_class", "state", "site", "n_leases", "observed")
        )
        self._site_key, self._site_priority_class, self._head, self._ready_at, self._n_waiting = (
            column(sites, name)
            for name in ("key", "priority_class", "head", "ready_at", "n_waiting")
        )
        self._n_leased, self._limit, self._delay, self._n_visited, self._turn = (
            column(sites, name) for name in ("n_leased", "limit", "delay", "n_visited", "turn")
        )
        self._all_ready, self._all_delayed, self._all_waiting, self._all_leased = (
            column(totals, name) for name in ("n_ready", "n_delayed", "n_waiting", "n_leased")
        )
        self._now = column(totals, "now")
        self._all_turn = column(totals, "turn")
        self._held_below = column(totals, "held_below")
        self._site_share = int(totals[0]["site_share"])
        self._site_rule = int(totals[0]["site_rule"])
        self._pages_per_visit = int(totals[0]["pages_per_visit"])
        n_more = len(sites) - len(self._heaps)
        self._heaps += [[] for _ in range(n_more)]
        self._entries += [None] * n_more

    def push(self, page: int, site: int, priority_class: int, key: float) -> None:
        self._key[page] = key
        self._priority_class[page] = priority_class
        self._site_of[page] = site
        self._state[page] = WAITING
        share = self._site_share
        if share and self._n_waiting[site] == 0:
            self._turn[site] = max(self._turn[site], self._all_turn[0] // share * share)
        self._n_waiting[site] += 1
        self._all_waiting[0] += 1
        self._enter(page, site, priority_class, key)

    def _enter(
        self, page: int, site: int, priority_class: int, key: float, was_head: bool = False
    ) -> None:
        """Add an entry for a page; place its site if the site's first page may have changed."""
        entry = (-priority_class, -key, page)
        heap = self._heaps[site]
        if len(heap) > 2 * self._n_waiting[site] + _SLACK:
            self._heaps[site] = heap = list(filter(self._is_current, set(heap)))
            heapify(heap)
        heappush(heap, entry)
        if was_head or heap[0] is entry or self._site_rule == BY_WAITING_PAGES:
            self.place_site(site)

    def _is_current(self, entry: _PageEntry) -> bool:
        """Whether an entry agrees with the records of its page."""
        priority_class, key, page = entry
        is_waiting = self._state[page] == WAITING
        return bool(
            is_waiting and self._key[page] == -key and self._priority_class[page] == -priority_class
        )

    def place_site(self, site: int) -> None:
        heap = self._heaps[site]
        while heap and not self._is_current(heap[0]):
            heappop(heap)
        if not heap:
            self._head[site] = NONE
            self._set_entry(site, None)
            return
        priority_class, key, head = heap[0]
        self._head[site] = head
        if self._is_idle(site) or self._n_leased[site] >= self._limit[site]:
            self._set_entry(site, None)
            return
        self._site_priority_class[site] = -priority_class
        rule = self._site_rule
        if rule == BY_BEST_PAGE:
            self._site_key[site] = -key
        elif rule == BY_WAITING_PAGES:
            self._site_key[site] = self._n_waiting[site]
        self._place_by_time(site)

    def _place_by_time(self, site: int) -> None:
        ready_at = self._ready_at[site]
        if ready_at > self._now[0]:
            self._set_entry(site, (ready_at, site))
            return
        priority_class = self._site_priority_class[site] + (
            ON_VISIT if self._n_visited[site] > 0 else 0
        )
        at_round = self._turn[site] // self._site_share if self._site_share else 0
        self._set_entry(
            site, (-priority_class, at_round, -self._site_key[site], self._head[site], site)
        )

    def _is_idle(self, site: int) -> bool:
        """Whether a site has no page that may leave."""
        head = self._head[site]
        is_held = self._key[head] < self._held_below[0] and self._priority_class[head] <= 0
        return bool(head == NONE or is_held)

    def _end_turn(self, site: int) -> None:
        if self._site_share:
            self._all_turn[0] = max(self._all_turn[0], self._turn[site])
            self._turn[site] += 1

    def _set_entry(self, site: int, entry: _SiteEntry | None) -> None:
        """Replace the entry of a site, or remove it."""
        before = self._entries[site]
        if entry == before:
            return
        self._entries[site] = entry
        if before is not None:
            count = self._all_delayed if len(before) == 2 else self._all_ready
            count[0] -= 1
        if entry is not None:
            is_delayed = len(entry) == 2
            count = self._all_delayed if is_delayed else self._all_ready
            heap = self._delayed if is_delayed else self._ready
            count[0] += 1
            if len(heap) > 2 * count[0] + _SLACK:
                heap[:] = [old for old in heap if self._entries[int(old[-1])] is old]
                heapify(heap)
            heappush(heap, entry)

    def _first(self, heap: list[_SiteEntry]) -> _SiteEntry:
        """The first current entry of a heap of sites, which must have one."""
        while self._entries[int(heap[0][-1])] is not heap[0]:
            heappop(heap)
        return heap[0]

    def soonest(self) -> float:
        return float(self._first(self._delayed)[0])

    def rekey(self, page: int, priority_class: int, key: float) -> None:
        if self._key[page] == key and self._priority_class[page] == priority_class:
            return
        self._key[page] = key
        self._priority_class[page] = priority_class
        site = self._site_of[page]
        was_head = self._head[site] == page
        self._enter(page, site, priority_class, key, was_head)

    def remove(self, page: int, state: int) -> None:
        site = self._site_of[page]
        self._n_waiting[site] -= 1
        self._all_waiting[0] -= 1
        self._state[page] = state
        if state == DONE:
            self._end_turn(site)
        self.place_site(site)

    def first(self, now: float) -> int:
        if now > self._now[0]:
            self._now[0] = now
        while self._all_delayed[0] > 0 and self._first(self._delayed)[0] <= self._now[0]:
            self._place_by_time(int(self._delayed[0][1]))
        return int(self._first(self._ready)[-2]) if self._all_ready[0] else NONE

    def pop(self, now: float) -> int:
        page = self.first(now)
        if page == NONE:
            return NONE
        site = self._site_of[page]
        self._n_waiting[site] -= 1
        self._n_leased[site] += 1
        self._state[page] = LEASED
        self._n_leases[page] += 1
        self._all_waiting[0] -= 1
        self._all_leased[0] += 1
        self._end_turn(site)
        if self._limit[site] > 1:
            self._ready_at[site] = max(self._ready_at[site], self._now[0] + self._delay[site])
        self.place_site(site)
        return page

    def release(self, page: int) -> None:
        if self._n_leases[page] == 0:
            return
        site = self._site_of[page]
        self._n_leases[page] -= 1
        if self._state[page] == LEASED and self._n_leases[page] == 0:
            self._state[page] = DONE
        self._n_leased[site] -= 1
        self._all_leased[0] -= 1
        self.place_site(site)

    def end_fetch(self, site: int, ready_at: float, ends_visit: bool) -> None:
        self._n_visited[site] += 1
        is_last = self._n_visited[site] >= self._pages_per_visit
        if ends_visit or is_last or self._is_idle(site):
            self._n_visited[site] = 0
            self._ready_at[site] = max(self._ready_at[site], ready_at)
        self.place_site(site)

    def update(
        self,
        first: int,
        page_sites: NDArray[np.int32],
        priority_classes: NDArray[np.int32],
        changed: NDArray[np.int32],
        keys: NDArray[np.float64],
        visited: int,
    ) -> None:
        if visited >= 0:
            self._observed[visited] = 1
        n_pages = len(page_sites)
        new = zip(
            range(first, n_pages),
            page_sites[first:].tolist(),
            priority_classes.tolist(),
            keys[first:n_pages].tolist(),
            strict=True,
        )
        for page, site, priority_class, key in new:
            state = self._state[page]
            if state == UNKNOWN:
                self.push(page, site, priority_class, key)
            elif state == WAITING:
                self.rekey(page, self._priority_class[page] + priority_class, key)
            else:
                self._priority_class[page] += priority_class
        self.rekey_pages(changed, keys)

    def rekey_pages(self, changed: NDArray[np.int32], keys: NDArray[np.float64]) -> None:
        for page, key in zip(changed.tolist(), keys[changed].tolist(), strict=True):
            if self._state[page] == WAITING:
                self.rekey(page, self._priority_class[page], key)

    def rekey_all(self, n_pages: int, n_sites: int, keys: NDArray[np.float64]) -> None:
        pages = self._pages
        waiting = np.flatnonzero(pages["state"][:n_pages] == WAITING)
        keyed = waiting[waiting < len(keys)]
        pages["key"][keyed] = keys[keyed]
        for site in range(n_sites):
            self._heaps[site] = []
        columns = (pages[name][waiting].tolist() for name in ("site", "priority_class", "key"))
        for page, site, priority_class, key in zip(waiting.tolist(), *columns, strict=True):
            self._heaps[site].append((-priority_class, -key, page))
        for site in range(n_sites):
            heapify(self._heaps[site])
            self.place_site(site)

    def take_out(self, dropped: NDArray[np.int32]) -> int:
        waiting = [page for page in dropped.tolist() if self._state[page] == WAITING]
        for page in waiting:
            self.remove(page, UNKNOWN)
        return len(waiting)
