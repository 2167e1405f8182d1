"""The queue of waiting pages: combines an ordering's keys with the sites and their delays."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from crawlprio.frontier import struct_layouts
from crawlprio.frontier.buffer import LimitedBuffer
from crawlprio.frontier.priority_classes import DEMOTED, Demotion, PriorityClasses
from crawlprio.frontier.site_queue import SiteQueue
from crawlprio.frontier.struct_layouts import DONE, UNKNOWN, WAITING
from crawlprio.graph.arrays import integers
from crawlprio.graph.pages import NO_PAGES, Visit
from crawlprio.graph.topic import HotQueue
from crawlprio.orderings import ordering_validation
from crawlprio.orderings.base import (
    ALL_PAGES,
    Changed,
    CompiledOrdering,
    Keys,
    Ordering,
    Pages,
)


class PageQueue(SiteQueue):
    """All waiting pages, handed out one at a time: most important first, no site too soon.

    Pages leave by larger request priority, then hot before not hot, then the earlier round of their
    site (`Ordering.site_share`), then larger key, then order of discovery. A page that `demotion`
    puts off waits as if the priority of its request were 1 smaller. A site at its limit of
    leases, or inside its delay, hands out no page. Pages that the ordering holds back
    (`Ordering.held_below`) leave before their keys are next computed only if no other page can
    leave and none is leased; then all may, because the ordering would wait for ever.

    The queue opens the ordering; the caller adds pages to the page table. `limit` pages of a site
    may be leased at once, by default 1, as in the papers. With several, `delay` are the seconds
    from start to start on a site; with one, the caller of `end_fetch` says when the site is ready
    again. `pages_per_visit` (k) are fetched from a site before its delay applies. `truth` returns
    the PageRank of a page in the whole graph, for orderings that need it. `max_waiting` bounds the
    waiting pages, by a `LimitedBuffer`.
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
        demotion: Demotion | None = None,
        truth: Callable[[int], float] | None = None,
        max_waiting: int | None = None,
        plain_until: int = 0,
    ) -> None:
        self._by_call = type(ordering).site_key is not Ordering.site_key
        rule = struct_layouts.BY_CALL if self._by_call else struct_layouts.BY_BEST_PAGE
        if isinstance(ordering, CompiledOrdering) and ordering.by_waiting_pages:
            rule, self._by_call = struct_layouts.BY_WAITING_PAGES, False
        totals = {
            "pages_per_visit": pages_per_visit,
            "site_share": ordering.site_share,
            "site_rule": rule,
            "held_below": ordering.held_below,
        }
        super().__init__(pages, limit, delay, plain_until, totals)
        self.ordering = ordering
        self.hot_queue = hot_queue
        self.demotion = demotion
        self.recompute: Callable[[Callable[[], Keys]], None] = lambda work: self.accept(work())
        self._classes = PriorityClasses(hot_queue, demotion)
        self._is_computing = False
        self.buffer = None if max_waiting is None else LimitedBuffer(max_waiting)
        if self.buffer is not None:
            self._queue.take_out(NO_PAGES)  # compile it before the crawl starts
        ordering_validation.open_ordering(ordering, pages, truth)
        if not self.is_plain:
            ordering.compile()

    @property
    def n_dropped(self) -> int:
        """Pages that were dropped for lack of room and have not come back."""
        return 0 if self.buffer is None else self.buffer.n_dropped

    def has_observed(self, page: int) -> bool:
        return 0 <= page < self._n_pages and bool(self._observed[page])

    def observe(self, visit: Visit, n_pages: int | None = None) -> None:
        """Learn from a visit: queue its new targets and update the keys that changed.

        Leases and the state of the visited page do not change; `release` ends a lease. The links of
        a page that is fetched again are not counted as evidence twice, but new ones are queued.
        O(links log n) unless the ordering changes all keys. `n_pages` of the page table are known
        at this visit, by default all; fewer when earlier visits are replayed.
        """
        n_pages = len(self.pages) if n_pages is None else n_pages
        first = self.ordering.n_pages
        if n_pages > self._n_pages or self.pages.n_sites > self._n_sites:
            self.grow()
        if visit.page >= 0:
            self._check(visit.page)
        targets = visit.targets.tolist()  # Python compares a few numbers sooner than numpy
        if targets and (min(targets) < 0 or max(targets) >= self._n_pages):
            integers("targets", visit.targets, below=self._n_pages)
        again = self.has_observed(visit.page)
        changed = ordering_validation.learn(self.ordering, visit, n_pages, again=again)
        priority_classes = self._classes.of_new(visit, first, n_pages, self.pages)
        sites, keys = self.pages.sites[:n_pages], self.ordering.keys
        is_all = changed is ALL_PAGES
        changed_ids = NO_PAGES if is_all else np.asarray(changed, dtype=np.int32)
        self._queue.update(first, sites, priority_classes, changed_ids, keys, visit.page)
        if is_all:
            self._apply_keys(changed)
        elif self._by_call:
            own = [visit.page] if visit.page >= 0 else []
            self._update_site_keys([*targets, *changed_ids.tolist(), *range(first, n_pages), *own])
        if self.buffer is not None:
            self._apply_buffer(self.buffer, visit, first, n_pages)
        for page in self.demotion.observe(visit, self.pages) if self.demotion is not None else ():
            self._set_priority_class(page, int(self._priority_classes[page]) + DEMOTED)
        self._recompute_if_due()

    def precedes(self, priority: float, now: float) -> bool:
        """Return whether a request of this priority comes before all pages that can leave now."""
        page = int(self._queue.first(now))
        return page < 0 or priority > self.request_rank(page)[0] - self.is_demoted(page)

    def add(self, page: int, priority: float = 0) -> None:
        """Queue a page at a request priority (any integer, or `FIRST`), again if it is done.

        A new page gets its first key from the next visit that is observed; until then it has the
        ordering's initial key. A page that is already waiting keeps the higher of its priorities.
        O(log n). Raises GraphError, as every method that takes a page or a site, if it is not in
        the page table.
        """
        self._check(page)
        priority_class = self._classes.of(priority)
        if priority_class is None:
            self._classes.spread(priority, self._pages["priority_class"])
            self._rebuild()
            priority_class = self._classes.of(priority) or 0
        before = int(self._priority_classes[page])
        hot = before % 2
        if self.is_demoted(page):
            priority_class -= DEMOTED
        if self.buffer is not None:
            self.buffer.make_room(page + 1)
            self.buffer.keep(page)
        if self.state(page) == WAITING:
            self._set_priority_class(page, max(priority_class, before - hot) + hot)
        else:
            self._push(page, priority_class + hot)

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
        if self.buffer is not None and self.buffer.is_dropped(page):
            if self.state(page) == DONE:
                self._pages["state"][page] = UNKNOWN
        elif self.state(page) != WAITING:
            self._push(page, int(self._priority_classes[page]))
        if self.ordering.site_share:
            self._sites["turn"][site] = turn - 1
            self._queue.place_site(site)

    def _set_priority_class(self, page: int, priority_class: int) -> None:
        """Set the priority class of a page, and its place if it is waiting. O(log n)."""
        if self.state(page) != WAITING:
            self._pages["priority_class"][page] = priority_class
            return
        self._queue.rekey(page, priority_class, float(self._pages["key"][page]))
        self._update_site_keys([page])

    def finish(self, page: int, state: int = DONE) -> None:
        """Mark a page that an earlier run of the crawl fetched as done. O(log n).

        `UNKNOWN` instead has it wait no more until it is added again.
        """
        self._check(page)
        if state == UNKNOWN and self.buffer is not None:
            self.buffer.make_room(page + 1)
            self.buffer.keep(page)  # what it drops comes back with a link
        if self.state(page) == WAITING:
            self._queue.remove(page, state)
            self._update_site_keys([page])

    def _push(self, page: int, priority_class: int) -> None:
        """Queue a page with its current key."""
        known = page < self.ordering.n_pages
        key = float(self.ordering.keys[page]) if known else self.ordering.initial_key
        self._queue.push(page, int(self.pages.sites[page]), priority_class, key)
        self._update_site_keys([page])

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
        priority_classes = self._pages["priority_class"]
        for target in buffer.returning(visit.targets, n_pages, priority_classes, keys):
            if self.state(target) == UNKNOWN:
                self._push(target, int(priority_classes[target]))
        dropped = buffer.surplus(n_pages, priority_classes, keys)
        if dropped is not None:
            self._queue.take_out(dropped)
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
        if is_stuck and struct_layouts.all_are_held(self._pages, self._sites, self._totals):
            self.hold_none_back()
            page = self._queue.pop(now)
        if page >= 0:
            self._update_site_keys([page])
        return int(page)

    def take_back(self, page: int, now: float) -> None:
        """Put back a page that `next_page` has just returned, as if it had not."""
        self.put_back(page)
        site = int(self.pages.sites[page])
        if self.site_limit(site) > 1:
            self.set_ready_at(site, now)  # handing out the page moved it

    def is_demoted(self, page: int) -> bool:
        return self._classes.is_demoted(page)

    def request_rank(self, page: int) -> tuple[float, bool]:
        """Return the request priority of a page, and whether it is hot."""
        return self._classes.rank(page, int(self._priority_classes[page]))

    def judge_all(self) -> None:
        """Demote all waiting pages that would be demoted when they came first. O(pages)."""
        if self.demotion is not None:
            for page in np.flatnonzero(self._pages["state"] == WAITING).tolist():
                self._puts_off(page)

    def _puts_off(self, page: int) -> bool:
        """Judge a page; return whether it is demoted from now on."""
        if self.demotion is None or not self.demotion.puts_off(page, self.pages):
            return False
        self._set_priority_class(page, int(self._priority_classes[page]) - DEMOTED)
        return True

    def accept(self, result: Keys) -> None:
        """Adopt the result of a recomputation that ran elsewhere."""
        self._is_computing = False
        self._totals["held_below"] = self.ordering.held_below
        self._apply_keys(ordering_validation.accept(self.ordering, result))
        self._recompute_if_due()

    def _recompute_if_due(self) -> None:
        work = ordering_validation.recomputation(self.ordering)
        if work is not None:
            self._is_computing = True
            self.recompute(work)

    def _apply_keys(self, changed: Changed) -> None:
        """Update the keys of waiting pages from those of the ordering."""
        if changed is ALL_PAGES:
            keys = self.ordering.keys[: self.ordering.n_pages]
            self._queue.rekey_all(len(self._pages), self._n_sites, keys)
            self._update_site_keys(np.flatnonzero(self._pages["state"] == WAITING))
        elif len(changed):
            self._queue.rekey_pages(changed, self.ordering.keys)

    def _update_site_keys(self, changed: list[int] | NDArray[np.integer]) -> None:
        """Ask an ordering that ranks sites for the keys of the sites of these pages."""
        if not self._by_call:
            return
        for site in np.unique(self.pages.sites[changed]).tolist():
            head = int(self._sites["head"][site])
            if head >= 0:
                self._sites["key"][site] = ordering_validation.site_key(
                    self.ordering,
                    site,
                    float(self._pages["key"][head]),
                    int(self._sites["n_waiting"][site]),
                )
                self._queue.place_site(site)

    def defer(self) -> bool:
        """Leave the heaps out if no page is ever dropped, which needs them."""
        return self.buffer is None and super().defer()

    def compile(self) -> None:
        """Go on in compiled code, in the same order. O(n)."""
        if self.is_plain:
            self.ordering.compile()
        super().compile()

    @property
    def takes_rows(self) -> bool:
        """Whether a rule alone decides, so that a deferred queue takes visits as rows."""
        is_by_rule = ordering_validation.is_by_rule_alone(self.ordering)
        return is_by_rule and self.hot_queue is None and self.demotion is None
