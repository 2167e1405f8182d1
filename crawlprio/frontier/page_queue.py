"""The queue of waiting pages: combines an ordering's keys with the sites and their delays."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any, Protocol

import numpy as np
from numpy.typing import DTypeLike, NDArray

from crawlprio.frontier import heaps, records
from crawlprio.frontier.buffer import LimitedBuffer
from crawlprio.frontier.plain import PlainQueue
from crawlprio.frontier.records import DONE, UNKNOWN, WAITING, Records, upcoming
from crawlprio.graph.arrays import integers
from crawlprio.graph.compiled import Addresses, record
from crawlprio.graph.pages import NO_PAGE, NO_PAGES, PageIds, Visit
from crawlprio.graph.topic import HotQueue
from crawlprio.orderings import guard
from crawlprio.orderings.base import (
    ALL_PAGES,
    Changed,
    CompiledOrdering,
    KeyHistory,
    Keys,
    Ordering,
    Pages,
    RuleArguments,
    RuleLoop,
    VisitRule,
)
from crawlprio.store.visit_rows import VisitColumns

PUT_OFF = 2
"""How much smaller the tier of a page that is put off is: one step of its request's priority."""

_PROGRESS = record("i8 at n_known n_keyed seed followed", "f8 key", "? is_changed")
"""How far a replay is. `at`: the next visit. `n_known`: pages that visits have discovered.
`n_keyed`: pages that the ordering knows. `seed`: the first seed from `n_known` on, or -1.
`followed`: the page whose history is noted, or -1; `key`: its key so far; `is_changed`: whether the
last visit changed it."""

_LOWEST, _HIGHEST = -(2**30) + 1, 2**30 - 1
_INTEGERS = (int, np.integer)


class JudgesRepeats(Protocol):
    """Puts off waiting pages that are likely to repeat others, by what visits taught it."""

    def is_put_off(self, page: int) -> bool:
        """Return whether a page is put off now."""

    def puts_off(self, page: int, pages: Pages) -> bool:
        """Judge a page that is about to leave; return whether it is put off from now on."""

    def observe(self, visit: Visit, pages: Pages) -> list[int]:
        """Learn from a visit; return the pages that are no longer put off."""

    def figures(self) -> dict[str, int | str]:
        """Return rows for the report on the crawl, by what they say."""


class PageQueue:
    """All waiting pages, handed out one at a time: most important first, no site too soon.

    Pages leave by larger request priority, then hot before not hot, then the earlier round of their
    site (`Ordering.site_share`), then larger key, then order of discovery. A page that `novelty`
    puts off waits as if the priority of its request were 1 smaller. A site at its limit of
    leases, or inside its delay, hands out no page. Pages that the ordering holds back
    (`Ordering.held_below`) leave before their keys are next computed only if no other page can
    leave and none is leased; then all may, because the ordering would wait for ever.

    Memory: 32 bytes per known page and 104 per site in the heaps, plus 8 per page for the keys of
    the ordering, all in arrays that double when they are full.

    The queue opens the ordering; the caller adds pages to the page table. `limit` pages of a site
    may be leased at once, by default 1, as in the papers. With several, `delay` are the seconds
    from start to start on a site; with one, the caller of `end_fetch` says when the site is ready
    again. `pages_per_visit` (k) are fetched from a site before its delay applies. `truth` returns
    the PageRank of a page in the whole graph, for orderings that need it. `max_waiting` bounds the
    waiting pages, by a `LimitedBuffer`, and `n_taken_out` counts those dropped. Up to `plain_until`
    known pages the queue runs in plain Python, so that numba need not be loaded; the order is the
    same. `is_foreign` tells sites whose pages are known as targets and sources of links only, and
    never wait here.
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
        novelty: JudgesRepeats | None = None,
        truth: Callable[[int], float] | None = None,
        max_waiting: int | None = None,
        plain_until: int = 0,
        is_foreign: Callable[[int], bool] | None = None,
    ) -> None:
        self.ordering = ordering
        self._is_foreign = is_foreign
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
        self._loop: Callable[..., None] | None = None
        if isinstance(ordering, CompiledOrdering) and ordering.by_waiting_pages:
            self._totals["site_rule"] = records.BY_WAITING_PAGES
            self._by_call = False
        elif self._by_call:
            self._totals["site_rule"] = records.BY_CALL
        self._pages = np.zeros(1024, dtype=records.PAGE)
        self._sites = records.new_sites(64, limit, delay)
        self._heap = heaps.no_entries(64)
        self._n_pages = 0
        self._n_sites = 0
        self._buffer = None if max_waiting is None else LimitedBuffer(max_waiting)
        self.n_taken_out = 0
        self._plain_until = plain_until
        self._queue: Any
        self._queue = PlainQueue() if plain_until else None
        self._bind()
        if self._buffer is not None:
            self._queue.take_out(NO_PAGES)  # compile it before the crawl starts
        guard.open_ordering(ordering, pages, truth)

    def __len__(self) -> int:
        """Return the number of waiting pages."""
        return int(self._n_waiting[0])

    @property
    def n_leased(self) -> int:
        return int(self._n_leased[0])

    @property
    def n_dropped(self) -> int:
        """Pages that were dropped for lack of room and have not come back."""
        return 0 if self._buffer is None else self._buffer.n_dropped

    @property
    def page_records(self) -> Records:
        """One record for each page of the table, to read only."""
        return self._pages[: self._n_pages]

    @property
    def site_records(self) -> Records:
        """One record for each site of the table, to read only."""
        return self._sites[: self._n_sites]

    @property
    def n_ready(self) -> int:
        """Sites of which a page can leave now."""
        return int(self._all_ready[0])

    @property
    def n_delayed(self) -> int:
        """Sites with waiting pages that are inside their delay."""
        return int(self._all_delayed[0])

    def upcoming(self, most: int) -> list[int]:
        """Return the pages that leave next, at most `most`, as if no site had to wait. O(pages)."""
        return upcoming(self.page_records, self.site_records, self._totals, most)

    def state(self, page: int) -> int:
        """Return `UNKNOWN`, `WAITING`, `LEASED` or `DONE`."""
        return int(self._states[page]) if page < len(self._pages) else UNKNOWN

    def has_observed(self, page: int) -> bool:
        """Return whether a visit of a page was observed."""
        return 0 <= page < self._n_pages and bool(self._observed[page])

    def n_leases(self, page: int) -> int:
        """Return the number of active leases of a page."""
        return int(self._lease_counts[page])

    def is_on_visit(self, site: int) -> bool:
        """Return whether a fetch started now on a site continues a visit of several pages."""
        return bool(self._sites["n_visited"][site] > 0)

    def ready_at(self) -> float:
        """Return when a page can leave: 0 if now, inf if none waits or all need a lease to end."""
        if self._all_ready[0]:
            return 0.0
        if self._all_delayed[0]:
            return float(self._queue.soonest())
        return math.inf

    def observe(self, visit: Visit, n_pages: int | None = None) -> None:
        """Learn from a visit: queue its new targets and update the keys that changed.

        Leases and the state of the visited page do not change; `release` ends a lease. The links of
        a page that is fetched again are not counted as evidence twice, but new ones are queued.
        O(links log n) unless the ordering changes all keys. `n_pages` of the page table are known
        at this visit, by default all; fewer when earlier visits are replayed.
        """
        if n_pages is None:
            n_pages = len(self.pages)
        first = self.ordering.n_pages
        if n_pages > self._n_pages or self.pages.n_sites > self._n_sites:
            self._grow()
        if visit.page >= 0:
            self._check(visit.page)
        targets = visit.targets.tolist()  # Python compares a few numbers sooner than numpy
        if targets and (min(targets) < 0 or max(targets) >= self._n_pages):
            integers("targets", visit.targets, below=self._n_pages)
        again = visit.page >= 0 and bool(self._observed[visit.page])
        changed = guard.learn(self.ordering, visit, n_pages, again=again)
        if self.hot_queue:
            tiers = self.hot_queue.sort_in(visit, first, n_pages, self.pages)
        else:
            tiers = np.zeros(n_pages - first, dtype=np.int32) if n_pages > first else NO_PAGES
        sites, keys = self.pages.sites[:n_pages], self.ordering.keys
        is_all = changed is ALL_PAGES
        changed_ids = NO_PAGES if is_all else np.asarray(changed, dtype=np.int32)
        self._queue.update(first, sites, tiers, changed_ids, keys, visit.page)
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
            for page in self.novelty.observe(visit, self.pages):
                self._change_tier(page, PUT_OFF)
        self._recompute_if_due()

    def credit(self, visit: Visit, depth: int) -> None:
        """Give a page of a foreign site what counts with its visit, which is observed next."""
        page = visit.page
        nothing = Visit(NO_PAGE, NO_PAGES)
        if page > self.ordering.n_pages:
            self.observe(nothing, page + 1)
        elif page == self.ordering.n_pages:  # it never waits, so that only the ordering has to know
            guard.learn(self.ordering, nothing, page + 1, again=False)
        self.ordering.credit(page, visit.mass, depth, visit.site_visits)

    def head(self, now: float) -> list[float] | None:
        """Return what the page that leaves next ranks by, larger is sooner; None without one."""
        page = int(self._queue.first(now))
        if page < 0:
            return None
        site, share = self._sites[int(self.pages.sites[page])], self.ordering.site_share
        turn = -(int(site["turn"]) // share) if share else 0
        return [int(self._pages["tier"][page]), turn, float(site["key"])]

    def add(self, page: int, priority: int = 0) -> None:
        """Queue a page at a request priority, again if it is done.

        A new page gets its first key from the next visit that is observed; until then it has the
        ordering's initial key. A page that is already waiting keeps the higher of its priorities.
        O(log n). Raises GraphError, as every method that takes a page or a site, if it is not in
        the page table.
        """
        self._check(page)
        tier = 2 * min(max(priority, _LOWEST), _HIGHEST) if priority else 0
        before = int(self._tiers[page])
        hot = before % 2
        if self.novelty is not None and self.is_put_off(page):
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
        for lack of room in the meantime. `is_released`: `release` has already ended the lease.
        """
        self._check(page)
        site = int(self.pages.sites[page])
        turn = int(self._sites["turn"][site])
        if not is_released:
            self.release(page)
        self._requeue(page)
        if self.ordering.site_share:
            self._sites["turn"][site] = turn - 1
            self._queue.place_site(site)

    def count_turn(self, page: int) -> None:
        """Count a turn for the site of a page that an earlier run refetched. O(log n)."""
        self._check(page)
        share = self.ordering.site_share
        if share:
            site, latest = int(self.pages.sites[page]), int(self._totals["turn"][0])
            turn = int(self._sites["turn"][site])
            if not self._sites["n_waiting"][site]:
                turn = max(turn, latest // share * share)
            self._totals["turn"] = max(latest, turn)
            self._sites["turn"][site] = turn + 1
            self._queue.place_site(site)

    def _requeue(self, page: int) -> None:
        """Queue a page that was leased, unless it is waiting or was dropped."""
        if self._buffer is not None and self._buffer.is_dropped(page):
            if self.state(page) == DONE:
                self._pages["state"][page] = UNKNOWN
        elif self.state(page) != WAITING:
            self._push(page, int(self._tiers[page]))

    def _set_tier(self, page: int, tier: int) -> None:
        """Set the tier of a page, and its place if it is waiting. O(log n)."""
        if self.state(page) != WAITING:
            self._pages["tier"][page] = tier
            return
        self._queue.rekey(page, tier, float(self._pages["key"][page]))
        if self._by_call:
            self._update_site_keys(np.array([page], dtype=np.int32))

    def finish(self, page: int) -> None:
        """Mark a page that an earlier run of the crawl fetched as done. O(log n)."""
        self._check(page)
        if self.state(page) == WAITING:
            self._queue.remove(page, DONE)
            if self._by_call:
                self._update_site_keys(np.array([page], dtype=np.int32))

    def _push(self, page: int, tier: int) -> None:
        """Queue a page with its current key."""
        known = page < self.ordering.n_pages
        key = float(self.ordering.keys[page]) if known else self.ordering.initial_key
        self._queue.push(page, int(self.pages.sites[page]), tier, key)
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
            self.n_taken_out += int(self._queue.take_out(dropped))
            if self._by_call:
                self._update_site_keys(dropped)

    def next_page(self, now: float) -> int:
        """Lease the next page to fetch, or return `NO_PAGE` if no site is ready. O(log n).

        `now` are seconds on the monotonic clock that all calls share.
        """
        page = self._next_page(now)
        while page >= 0 and self._puts_off(page):
            self.take_back(page, now)
            page = self._next_page(now)
        return page

    def _next_page(self, now: float) -> int:
        page = self._queue.pop(now)
        is_stuck = page < 0 and not self._is_computing and not self._n_leased[0]
        if is_stuck and records.all_are_held(self._pages, self._sites, self._totals):
            self.hold_none_back()
            page = self._queue.pop(now)
        if self._by_call and page >= 0:
            self._update_site_keys(np.array([page], dtype=np.int32))
        return int(page)

    def take_back(self, page: int, now: float) -> None:
        """Put back a page that `next_page` has just returned, as if it had not."""
        self.put_back(page)
        site = int(self.pages.sites[page])
        if self.site_limit(site) > 1:
            self.set_ready_at(site, now)  # handing out the page moved it

    def is_put_off(self, page: int) -> bool:
        """Return whether a page is put off now."""
        return self.novelty is not None and self.novelty.is_put_off(page)

    def usual_tier(self, page: int) -> int:
        """Return the tier that a page has while it is not put off."""
        return int(self._pages["tier"][page]) + (PUT_OFF if self.is_put_off(page) else 0)

    def judge_all(self) -> None:
        """Put off all waiting pages that would be put off when they came first. O(pages)."""
        if self.novelty is not None:
            for page in np.flatnonzero(self._pages["state"] == WAITING).tolist():
                self._puts_off(page)

    def _puts_off(self, page: int) -> bool:
        """Judge a page; return whether it is put off from now on."""
        if self.novelty is None or not self.novelty.puts_off(page, self.pages):
            return False
        self._change_tier(page, -PUT_OFF)
        return True

    def _change_tier(self, page: int, change: int) -> None:
        self._set_tier(page, int(self._pages["tier"][page]) + change)

    def hold_none_back(self) -> None:
        """Hold no page back until the keys are next computed. O(pages)."""
        self._totals["held_below"] = -math.inf
        no_keys = np.empty(0)
        self._queue.rekey_all(len(self._pages), self._n_sites, no_keys)

    def release(self, page: int) -> None:
        """End a lease: the page is done, and its site may lease another once its delay is over."""
        self._check(page)
        self._queue.release(page)

    def end_fetch(self, site: int, ready_at: float, *, ends_visit: bool = False) -> None:
        """Note that a fetch on a site ended; the next may start no sooner than `ready_at`.

        Within a visit of several pages (k > 1) the next may start at once; `ends_visit` ends the
        visit early.
        """
        self._grow_for(site)
        self._queue.end_fetch(site, ready_at, ends_visit)

    def hold(self, site: int, n_fetches: int = 1) -> None:
        """Count fetches that the frontier did not hand out (robots.txt, media) as leases of a site.

        A negative number ends them.
        """
        self._grow_for(site)
        self._sites["n_leased"][site] += n_fetches
        self._queue.place_site(site)

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
        self._queue.place_site(site)

    def set_site(self, site: int, *, limit: int | None = None, delay: float | None = None) -> None:
        """Set the limit of leases, or the delay from start to start, of one site."""
        self._grow_for(site)
        if limit is not None:
            self._sites["limit"][site] = limit
        if delay is not None:
            self._sites["delay"][site] = delay
        self._queue.place_site(site)

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
            self._queue.rekey_all(len(self._pages), self._n_sites, keys)
            if self._by_call:
                self._update_site_keys(np.flatnonzero(self._pages["state"] == WAITING))
        elif len(changed):
            self._queue.rekey_pages(changed, self.ordering.keys)

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
                self._queue.place_site(site)

    @property
    def is_plain(self) -> bool:
        """Whether the queue still runs in plain Python."""
        return isinstance(self._queue, PlainQueue)

    def defer(self) -> bool:
        """Leave the heaps out until `build`, so that no page may leave; return False if it cannot.

        A bound on the waiting pages and orderings that rank sites need the heaps.
        """
        self._grow()
        if self.is_plain or self._by_call or self._buffer is not None:
            return False
        self._totals["is_deferred"] = 1
        return True

    def build(self) -> None:
        """Build compiled heaps from the records. O(n)."""
        self._queue = None
        self._bind()
        self._totals["n_ready"] = self._totals["n_delayed"] = self._totals["is_deferred"] = 0
        keys = self._pages["key"].copy()
        self._queue.rekey_all(len(self._pages), self._n_sites, keys)

    @property
    def can_be_saved(self) -> bool:
        """Whether `arrays` hold all that the queue and its ordering know."""
        return self.takes_rows and not self.is_plain and self._buffer is None

    def arrays(self, refused: Sequence[int]) -> dict[str, NDArray[Any]]:
        """Return what a queue that `can_be_saved` needs to go on as if its visits were replayed.

        Pages that are leased or were `refused` wait again; no request has a priority.
        """
        assert isinstance(self.ordering, CompiledOrdering)
        n_pages = len(self.pages)
        self._grow()
        records = self._pages[:n_pages]
        is_done = records["observed"] > 0
        is_done[np.array(refused, dtype=np.int64)] = False
        states = np.where(records["state"] == UNKNOWN, UNKNOWN, np.where(is_done, DONE, WAITING))
        learned = {
            f"ordering.{name}": each for name, each in self.ordering.learned_arrays().items()
        }
        return learned | {
            "queue.states": states.astype(np.uint8),
            "queue.observed": records["observed"],
            "queue.turns": self._sites["turn"][: self._n_sites],
            "queue.turn": self._totals["turn"],
        }

    def restore(self, take: Callable[[str, DTypeLike], NDArray[Any]]) -> None:
        """Load what `arrays` returned, given by name, into an empty queue over these pages.

        `build` must follow before a page may leave.
        """
        ordering = self.ordering
        assert isinstance(ordering, CompiledOrdering)
        self._grow()
        ordering.restore_learned(lambda name, dtype: take(f"ordering.{name}", dtype))
        states, observed = take("queue.states", np.uint8), take("queue.observed", np.uint8)
        turns, self._totals["turn"] = take("queue.turns", np.int64), take("queue.turn", np.int64)
        self._sites["turn"][: len(turns)] = turns
        n_pages, n_known = len(states), min(ordering.n_pages, len(states))
        records, sites = self._pages[:n_pages], self.pages.sites[:n_pages]
        records["state"], records["observed"], records["site"] = states, observed, sites
        records["key"] = ordering.initial_key
        records["key"][:n_known] = ordering.keys[:n_known]
        waiting = np.bincount(sites[states == WAITING], minlength=self._n_sites)
        self._sites["n_waiting"][: self._n_sites] = waiting
        self._totals["n_waiting"] = waiting.sum()

    @property
    def takes_rows(self) -> bool:
        """Whether a rule alone decides, so that a deferred queue takes visits as rows."""
        is_by_rule = guard.is_by_rule_alone(self.ordering)
        return is_by_rule and self.hot_queue is None and self.novelty is None

    def observe_rows(
        self,
        columns: VisitColumns,
        n_before: NDArray[np.int64],
        at: int,
        n_known: int,
        seed: int,
        history: KeyHistory | None = None,
    ) -> tuple[int, int]:
        """Observe visits from `at` on, of which `n_known` pages were discovered, in compiled code.

        `seed` is the first seed from page `n_known` on, or `NO_PAGE`.

        Returns the first visit that is left for `observe`, or their number, and the pages
        discovered by then. Writes the pages known before each into `n_before`. Only a deferred
        queue that `takes_rows` may be asked. O(links).
        """
        ordering = self.ordering
        assert isinstance(ordering, CompiledOrdering)
        visited, begins, links = columns.pages, columns.begins, columns.targets
        # Room for the whole crawl at once: arrays that double are copied seven times a million.
        known = ordering.rule_arguments(len(self.pages), len(links))
        n_then = 1 + max(int(ids.max(initial=NO_PAGE)) for ids in (visited, links))
        tiers = np.zeros(max(n_then - ordering.n_pages, 0), dtype=np.int32)
        followed, key = (NO_PAGE, 0.0) if history is None else (history.page, history.key)
        start = (at, n_known, ordering.n_pages, seed, followed, key, False)
        progress = np.array([start], dtype=_PROGRESS)
        while True:
            rows = visited, begins, links, columns.is_refused, n_before
            arguments = (self._queue.addresses, *rows, self.pages.sites, tiers, known, progress)
            if self._loop is None:
                self._loop = _loops.of(type(ordering).rule, *arguments)
            self._loop(*arguments)
            ordering.n_pages = int(progress["n_keyed"][0])
            if history is None or not progress["is_changed"][0]:
                return int(progress["at"][0]), int(progress["n_known"][0])
            history.after()
            progress["key"] = history.key

    def _grow_for(self, site: int) -> None:
        """Make room for a site of the page table; raise GraphError if it is not in it."""
        if not (isinstance(site, _INTEGERS) and 0 <= site < self._n_sites):
            self._grow()
            integers("site", [site], below=self._n_sites)

    def _check(self, page: int) -> None:
        """Make room for a page of the page table; raise GraphError if it is not in it."""
        if not self._has(page):
            self._grow()
            if not self._has(page):  # the error is worth a hundred times what a good id costs
                integers("page", [page], below=self._n_pages)

    def _has(self, page: int) -> bool:
        return isinstance(page, _INTEGERS) and 0 <= page < self._n_pages

    def _grow(self) -> None:
        """Make room for the pages and sites added to the page table since the last call."""
        n_pages, n_sites = len(self.pages), self.pages.n_sites
        if n_sites == self._n_sites and n_pages <= self._n_room:
            self._n_pages = n_pages
            return
        has_room = n_pages <= len(self._pages) and n_sites <= len(self._sites)
        if n_pages > len(self._pages):
            room = np.zeros(max(n_pages, 2 * len(self._pages)), dtype=records.PAGE)
            room[: len(self._pages)] = self._pages
            self._pages = room
        if n_sites > len(self._sites):
            n_room = max(n_sites, 2 * len(self._sites))
            sites = records.new_sites(n_room, self._limit, self._delay)
            sites[: len(self._sites)] = self._sites
            self._sites = sites
            n_delayed = int(self._totals["n_delayed"][0])
            self._heap = heaps.grown(self._heap, len(sites), n_delayed)
        if self._is_foreign is not None:
            for site in range(self._n_sites, n_sites):
                self._sites["is_foreign"][site] = self._is_foreign(site)
        self._n_pages = n_pages
        self._n_sites = n_sites
        if not has_room:
            self._bind()
        if self.is_plain and n_pages > self._plain_until:
            self.ordering.compile()
            self.build()

    def _bind(self) -> None:
        """Have the queue work on the arrays: the plain one, or else compiled functions."""
        pages, sites, totals = self._pages, self._sites, self._totals
        # Pages that the arrays have room for, while the queue stays plain.
        self._n_room = min(len(pages), self._plain_until) if self.is_plain else len(pages)
        self._states, self._tiers, self._lease_counts, self._observed = (
            records.column(pages, name) for name in ("state", "tier", "n_leases", "observed")
        )
        self._limits, self._ready_times = (
            records.column(sites, name) for name in ("limit", "ready_at")
        )
        self._n_waiting, self._n_leased, self._all_ready, self._all_delayed = (
            records.column(totals, name)
            for name in ("n_waiting", "n_leased", "n_ready", "n_delayed")
        )
        arrays = records.Queue(self._pages, self._sites, self._heap, self._totals)
        if self.is_plain:
            self._queue.bind(arrays)
        else:
            self._queue = heaps.on(arrays)


def _observe_visits(
    rule: VisitRule,
    queue: Addresses,
    visited: PageIds,
    begins: NDArray[np.int64],
    links: PageIds,
    is_refused: NDArray[np.bool_],
    n_before: NDArray[np.int64],
    page_sites: PageIds,
    tiers: PageIds,
    known: RuleArguments,
    progress: Records,
) -> None:
    """Observe visits in turn; stop before one that must be replayed alone.

    Alone are visits before which a page was known that none discovered, those of a page that is
    done if sites take turns, those of foreign sites, and those of, to, or that discover the page
    followed. Stop also after a visit that changed the key of that page. `n_before` is written: the
    pages known before each visit. `tiers` are zeros.
    """
    pages, sites, _, totals = records.QUEUE(queue)
    at, n_known, n_keyed = progress[0].at, progress[0].n_known, progress[0].n_keyed
    followed = progress[0].followed
    is_changed = False
    while at < len(visited) and not is_changed:
        page = records.wide(visited[at])
        targets = links[begins[at] : begins[at + 1]]
        n_then = max(n_known, page + 1)
        is_alone, shows_next = page < 0 or page == followed, False
        is_alone = is_alone or sites[page_sites[page]].is_foreign > 0
        for target in targets:
            n_then = max(n_then, records.wide(target) + 1)
            shows_next = shows_next or target == n_known
            is_alone = is_alone or target == followed
        is_alone = is_alone or (
            n_then > n_known and (not shows_next or n_known == progress[0].seed)
        )
        is_alone = is_alone or n_keyed <= followed < n_then
        if is_alone or (totals[0].site_share > 0 and pages[page].state == DONE):
            break
        n_before[at] = n_known
        if not is_refused[at]:
            if pages[page].state == WAITING:
                heaps.remove(queue, page, DONE)
            keys, again = known.keys, pages[page].observed > 0
            n_changed = rule(
                keys, page, targets, n_keyed, n_then, again, known.numbers, known.sites,
                known.addresses,
            )  # fmt: skip
            heaps.update(
                queue, n_keyed, page_sites[:n_then], tiers,
                targets[: 0 if again else len(targets)], keys, page,
            )  # fmt: skip
            for k in range(0 if again else n_changed):
                changed = records.wide(known.changed[k])
                if pages[changed].state == WAITING:
                    pages[changed].key = keys[changed]
            if page >= n_known and pages[page].state == WAITING:
                heaps.remove(queue, page, DONE)
            n_keyed = n_then
            is_changed = 0 <= followed < n_keyed and keys[followed] != progress[0].key
        n_known = n_then
        at += 1
    progress[0].at, progress[0].n_known, progress[0].n_keyed = at, n_known, n_keyed
    progress[0].is_changed = is_changed


_loops = RuleLoop(_observe_visits)
