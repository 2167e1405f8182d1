"""The queue of waiting pages: combines an ordering's keys with the sites and their delays."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from crawlprio.frontier import compiled_queue, records, site_heaps
from crawlprio.frontier.buffer import LimitedBuffer
from crawlprio.frontier.figures import QueueFigures
from crawlprio.frontier.plain import PlainQueue
from crawlprio.frontier.putting_off import PUT_OFF, PutsOff
from crawlprio.frontier.records import DONE, UNKNOWN, WAITING
from crawlprio.frontier.rows import ReplaysRows
from crawlprio.novelty import Novelty
from crawlprio.orderings import guard
from crawlprio.orderings.base import (
    ALL_PAGES,
    Changed,
    CompiledOrdering,
    Keys,
    Ordering,
    Pages,
)
from crawlprio.pages import NO_PAGES, Visit
from crawlprio.topic import HotQueue

_LOWEST, _HIGHEST = -(2**30) + 1, 2**30 - 1


class PageQueue(PutsOff, ReplaysRows, QueueFigures):
    """All waiting pages, handed out one at a time: most important first, no site too soon.

    Pages leave by larger request priority, then hot before not hot, then the earlier round of their
    site (`Ordering.site_share`), then larger key, then order of discovery. A page that `novelty`
    puts off waits as if the priority of its request were 1 smaller. A site at its limit of
    leases, or inside its delay, hands out no page. Pages that the ordering holds back
    (`Ordering.held_below`) leave before their keys are next computed only if no other page can
    leave and none is leased; then all may, because the ordering would wait for ever.

    Memory: 32 bytes per known page and 104 per site in the heaps, plus 8 per page for the keys of
    the ordering, all in arrays that double when they are full.

    Parameters
    ----------
    ordering
        Provides the keys; the frontier opens it.
    pages
        The page table that the ids in visits refer to; the caller adds pages to it.
    limit
        Pages of a site that may be leased at once; default 1, as in the papers.
    delay
        Seconds from start to start on a site that may have several leases; with one lease, the
        caller of `end_fetch` says when the site is ready again.
    pages_per_visit
        Pages fetched from a site before its delay applies (k); default 1.
    hot_queue
        Moves pages on a topic to the front; default none.
    novelty
        Puts off pages that are likely to repeat others; default none.
    truth
        Returns the PageRank of a page in the whole graph, for orderings that need it.
    max_waiting
        Bound on the number of waiting pages, applied by `LimitedBuffer`; default None, no bound.
    plain_until
        Number of known pages up to which the queue runs in plain Python, so that numba need not be
        loaded; above it, the queue is compiled. Default 0: compiled from the start. The order is
        the same.

    Attributes
    ----------
    n_taken_out
        Times that a waiting page was dropped for lack of room.
    """

    def __init__(
        self,
        ordering: Ordering,
        pages: Pages,
        *,
        limit: int = 1,
        delay: float = 0.0,
        pages_per_visit: int = 1,
        hot_queue: HotQueue | None = None,
        novelty: Novelty | None = None,
        truth: Callable[[int], float] | None = None,
        max_waiting: int | None = None,
        plain_until: int = 0,
    ) -> None:
        self.ordering = ordering
        self.pages = pages
        self.hot_queue = hot_queue
        self.novelty = novelty
        self.recompute: Callable[[Callable[[], Keys]], None] = self._recompute_now
        self._limit = limit
        self._delay = delay
        self._by_call = type(ordering).site_key is not Ordering.site_key
        self._totals = np.zeros(1, dtype=records.TOTALS)
        self._totals["pages_per_visit"] = pages_per_visit
        self._totals["now"] = -math.inf
        self._totals["site_share"] = ordering.site_share
        self._totals["held_below"] = ordering.held_below
        self._is_computing = False
        if isinstance(ordering, CompiledOrdering) and ordering.by_waiting_pages:
            self._totals["site_rule"] = records.BY_WAITING_PAGES
            self._by_call = False
        elif self._by_call:
            self._totals["site_rule"] = records.BY_CALL
        self._pages = np.zeros(1024, dtype=records.PAGE)
        self._observed = self._pages["observed"]
        self._set_site_records(records.new_sites(64, limit, delay))
        self._heap = site_heaps.no_entries(64)
        self._n_pages = 0
        self._n_sites = 0
        self._buffer = None if max_waiting is None else LimitedBuffer(max_waiting)
        self.n_taken_out = 0
        self._arrays = (self._pages, self._sites, self._heap, self._totals)
        self._plain_until = plain_until
        self._queue: Any = PlainQueue() if plain_until else compiled_queue.load()
        if self._buffer is not None:
            self._queue.take_out(*self._arrays, NO_PAGES)  # compile it before the crawl starts
        guard.open_ordering(ordering, pages, truth)

    def observe(self, visit: Visit, n_pages: int | None = None) -> None:
        """Learn from a visit: queue its new targets and update the keys that changed.

        Leases and the state of the visited page do not change; `release` ends a lease. The links of
        a page that is fetched again are not counted as evidence twice, but new ones are queued.
        O(links log n) unless the ordering changes all keys.

        Parameters
        ----------
        n_pages
            Pages of the page table known at this visit, when earlier visits are replayed; by
            default all.
        """
        if n_pages is None:
            n_pages = len(self.pages)
        first = self.ordering.n_pages
        if n_pages > self._n_pages or self.pages.n_sites > self._n_sites:
            self._grow()
        again = visit.page >= 0 and bool(self._observed[visit.page])
        changed = guard.learn(self.ordering, visit, n_pages, again=again)
        if self.hot_queue:
            tiers = self.hot_queue.sort_in(visit, first, n_pages, self.pages)
        else:
            tiers = np.zeros(n_pages - first, dtype=np.int32) if n_pages > first else NO_PAGES
        sites, keys = self.pages.sites[:n_pages], self.ordering.keys
        is_all = changed is ALL_PAGES
        changed_ids = NO_PAGES if is_all else np.asarray(changed, dtype=np.int32)
        self._queue.update(*self._arrays, first, sites, tiers, changed_ids, keys, visit.page)
        if is_all:
            self._apply_keys(changed)
        elif self._by_call:
            new = np.arange(first, n_pages, dtype=np.int32)
            own = [visit.page] if visit.page >= 0 else []
            self._update_site_keys(
                np.concatenate([visit.targets, changed_ids, new, own]).astype(np.int64)
            )
        if self._buffer is not None:
            self._apply_buffer(self._buffer, visit, first, n_pages)
        if self.novelty is not None:
            self._let_back(self.novelty.observe(visit, self.pages))
        self._recompute_if_due()

    def add(self, page: int, priority: int = 0) -> None:
        """Queue a page at a request priority, again if it is done.

        A new page gets its first key from the next visit that is observed; until then it has the
        ordering's initial key. A page that is already waiting keeps the higher of its priorities.
        O(log n).
        """
        self._grow()
        tier = 2 * min(max(priority, _LOWEST), _HIGHEST)
        before = int(self._pages["tier"][page])
        hot = before % 2
        if self.is_put_off(page):
            tier -= PUT_OFF
        if self._buffer is not None:
            self._buffer.make_room(page + 1)
            self._buffer.keep(page)
        if self.state(page) == WAITING:
            self._set_tier(page, max(tier, before - hot) + hot)
        else:
            self._push(page, tier + hot)

    def put_back(self, page: int, *, is_released: bool = False) -> None:
        """Return a leased page to the queue; the lease does not count as a turn. O(log n).

        The page keeps its priority and takes its current key. It is not queued if it was dropped
        for lack of room in the meantime.

        Parameters
        ----------
        is_released
            Whether `release` has already ended the lease.
        """
        site = int(self.pages.sites[page])
        turn = int(self._sites["turn"][site])
        if not is_released:
            self.release(page)
        self._requeue(page)
        if self.ordering.site_share:
            self._sites["turn"][site] = turn - 1
            self._queue.place_site(*self._arrays, site)

    def count_turn(self, page: int) -> None:
        """Count a turn for the site of a page that an earlier run refetched. O(log n)."""
        share = self.ordering.site_share
        if share:
            site, latest = int(self.pages.sites[page]), int(self._totals["turn"][0])
            turn = int(self._sites["turn"][site])
            if not self._sites["n_waiting"][site]:
                turn = max(turn, latest // share * share)
            self._totals["turn"] = max(latest, turn)
            self._sites["turn"][site] = turn + 1
            self._queue.place_site(*self._arrays, site)

    def _requeue(self, page: int) -> None:
        """Queue a page that was leased, unless it is waiting or was dropped."""
        if self._buffer is not None and self._buffer.is_dropped(page):
            if self.state(page) == DONE:
                self._pages["state"][page] = UNKNOWN
        elif self.state(page) != WAITING:
            self._push(page, int(self._pages["tier"][page]))

    def _set_tier(self, page: int, tier: int) -> None:
        """Set the tier of a page, and its place if it is waiting. O(log n)."""
        if self.state(page) != WAITING:
            self._pages["tier"][page] = tier
            return
        self._queue.rekey(*self._arrays, page, tier, float(self._pages["key"][page]))
        if self._by_call:
            self._update_site_keys(np.array([page], dtype=np.int32))

    def finish(self, page: int) -> None:
        """Mark a page that an earlier run of the crawl fetched as done. O(log n)."""
        if self.state(page) == WAITING:
            self._queue.remove(*self._arrays, page, DONE)
            if self._by_call:
                self._update_site_keys(np.array([page], dtype=np.int32))

    def _push(self, page: int, tier: int) -> None:
        """Queue a page with its current key."""
        known = page < self.ordering.n_pages
        key = float(self.ordering.keys[page]) if known else self.ordering.initial_key
        self._queue.push(*self._arrays, page, int(self.pages.sites[page]), tier, key)
        if self._by_call:
            self._update_site_keys(np.array([page], dtype=np.int32))

    def _apply_buffer(self, buffer: LimitedBuffer, visit: Visit, first: int, n_pages: int) -> None:
        """Requeue dropped pages that a visit links to, then drop the surplus."""
        buffer.make_room(n_pages)
        page, keys = visit.page, self.ordering.keys
        if page < 0:
            buffer.keep_all(first, n_pages)
        else:
            if buffer.is_dropped(page) and self.state(page) == UNKNOWN:
                self._pages["state"][page] = DONE
            buffer.count_visit(page)
        tiers = self._pages["tier"]
        for target in buffer.returning(visit.targets, n_pages, tiers, keys):
            if self.state(target) == UNKNOWN:
                self._push(target, int(tiers[target]))
        dropped = buffer.surplus(n_pages, tiers, keys)
        if dropped is not None:
            self.n_taken_out += int(self._queue.take_out(*self._arrays, dropped))
            if self._by_call:
                self._update_site_keys(dropped)

    def next_page(self, now: float) -> int:
        """Lease the next page to fetch, or return `NO_PAGE` if no site is ready. O(log n).

        Parameters
        ----------
        now
            Seconds on the clock that all calls share; monotonic.
        """
        page = self._next_page(now)
        while page >= 0 and self._puts_off(page):
            self.take_back(page, now)
            page = self._next_page(now)
        return page

    def _next_page(self, now: float) -> int:
        page = self._queue.pop(*self._arrays, now)
        is_stuck = page < 0 and not self._is_computing and not self._totals["n_leased"][0]
        if is_stuck and records.all_are_held(self._pages, self._sites, self._totals):
            self.hold_none_back()
            page = self._queue.pop(*self._arrays, now)
        if self._by_call and page >= 0:
            self._update_site_keys(np.array([page], dtype=np.int32))
        return int(page)

    def hold_none_back(self) -> None:
        """Hold no page back until the keys are next computed. O(pages)."""
        self._totals["held_below"] = -math.inf
        no_keys = np.empty(0)
        self._queue.rekey_all(*self._arrays, len(self._pages), self._n_sites, no_keys)

    def release(self, page: int) -> None:
        """End a lease: the page is done, and its site may lease another once its delay is over."""
        self._queue.release(*self._arrays, page)

    def end_fetch(self, site: int, ready_at: float, *, ends_visit: bool = False) -> None:
        """Note that a fetch on a site ended; the next may start no sooner than `ready_at`.

        Within a visit of several pages (k > 1) the next may start at once; `ends_visit` ends the
        visit early.
        """
        self._grow_for(site)
        self._queue.end_fetch(*self._arrays, site, ready_at, ends_visit)

    def hold(self, site: int, n_fetches: int = 1) -> None:
        """Count fetches that the frontier did not hand out (robots.txt, media) as leases of a site.

        A negative number ends them.
        """
        self._grow_for(site)
        self._sites["n_leased"][site] += n_fetches
        self._queue.place_site(*self._arrays, site)

    def site_limit(self, site: int) -> int:
        """Return how many leases a site may have at once."""
        self._grow_for(site)
        return int(self._limits[site])

    def site_ready_at(self, site: int) -> float:
        """Return the time before which no fetch may start on a site; -inf if none was set."""
        self._grow_for(site)
        return float(self._ready_times[site])

    def set_ready_at(self, site: int, ready_at: float) -> None:
        """Set the time before which no fetch may start on a site."""
        self._grow_for(site)
        self._ready_times[site] = ready_at
        self._queue.place_site(*self._arrays, site)

    def set_site(self, site: int, *, limit: int | None = None, delay: float | None = None) -> None:
        """Set the limit of leases, or the delay from start to start, of one site."""
        self._grow_for(site)
        if limit is not None:
            self._sites["limit"][site] = limit
        if delay is not None:
            self._sites["delay"][site] = delay
        self._queue.place_site(*self._arrays, site)

    def accept(self, result: Keys) -> None:
        """Adopt the result of a recomputation that ran elsewhere."""
        self._is_computing = False
        self._totals["held_below"] = self.ordering.held_below
        self._apply_keys(guard.accept(self.ordering, result))
        self._recompute_if_due()

    def _recompute_if_due(self) -> None:
        work = guard.recomputation(self.ordering)
        if work is not None:
            self._is_computing = True
            self.recompute(work)

    def _recompute_now(self, work: Callable[[], Keys]) -> None:
        self.accept(work())

    def _apply_keys(self, changed: Changed) -> None:
        """Update the keys of waiting pages from those of the ordering."""
        if changed is ALL_PAGES:
            keys = self.ordering.keys[: self.ordering.n_pages]
            self._queue.rekey_all(*self._arrays, len(self._pages), self._n_sites, keys)
            if self._by_call:
                self._update_site_keys(np.flatnonzero(self._pages["state"] == WAITING))
        elif len(changed):
            self._queue.rekey_pages(*self._arrays, changed, self.ordering.keys)

    def _update_site_keys(self, changed: NDArray[np.integer]) -> None:
        """Ask the ordering for the keys of the sites of these pages."""
        for site in np.unique(self.pages.sites[changed]).tolist():
            head = int(self._sites["head"][site])
            if head >= 0:
                self._sites["key"][site] = guard.site_key(
                    self.ordering,
                    site,
                    float(self._pages["key"][head]),
                    int(self._sites["n_waiting"][site]),
                )
                self._queue.place_site(*self._arrays, site)

    def _set_site_records(self, sites: records.Records) -> None:
        """Keep the sites in these records."""
        self._sites = sites
        self._limits, self._ready_times = sites["limit"], sites["ready_at"]

    def _grow_for(self, site: int) -> None:
        """Make room for a site of the page table."""
        if site >= self._n_sites:
            self._grow()

    def _grow(self) -> None:
        """Make room for the pages and sites added to the page table since the last call."""
        n_pages, n_sites = len(self.pages), self.pages.n_sites
        if n_pages == self._n_pages and n_sites == self._n_sites:
            return
        if n_pages > len(self._pages):
            room = np.zeros(max(n_pages, 2 * len(self._pages)), dtype=records.PAGE)
            room[: len(self._pages)] = self._pages
            self._pages = room
            self._observed = room["observed"]
        if n_sites > len(self._sites):
            n_room = max(n_sites, 2 * len(self._sites))
            sites = records.new_sites(n_room, self._limit, self._delay)
            sites[: len(self._sites)] = self._sites
            self._set_site_records(sites)
            n_delayed = int(self._totals["n_delayed"][0])
            self._heap = site_heaps.grown(self._heap, len(sites), n_delayed)
        self._n_pages = n_pages
        self._n_sites = n_sites
        self._arrays = (self._pages, self._sites, self._heap, self._totals)
        if self.is_plain and n_pages > self._plain_until:
            self._compile()

    def _compile(self) -> None:
        """Switch from the plain queue to compiled heaps."""
        self.ordering.compile()
        self.build()
