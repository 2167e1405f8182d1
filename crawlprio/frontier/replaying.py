"""Replaying the recorded visits of a crawl through the queue of another run.

No page leaves before the end, so the heaps, which would take a third of the time, are built then.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Collection, Generator, Iterable, Iterator, Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from crawlprio.frontier import heaps, struct_layouts
from crawlprio.frontier.page_queue import PageQueue
from crawlprio.frontier.priority_classes import FIRST
from crawlprio.frontier.struct_layouts import DONE, UNKNOWN, WAITING, Records
from crawlprio.graph.compiled import Addresses, record
from crawlprio.graph.pages import NO_PAGE, PageIds, Visit
from crawlprio.orderings.base import (
    CompiledOrdering,
    KeyHistory,
    RuleArguments,
    RuleLoop,
    VisitRule,
)
from crawlprio.store.crawl_state import RequestRow
from crawlprio.store.outcomes import waits_again
from crawlprio.store.reader import StoreReader
from crawlprio.store.side_tables import EVIDENCE, SideTable
from crawlprio.store.visit_rows import VisitColumns

_PROGRESS = record("i8 at n_known n_keyed seed followed", "f8 key", "? is_changed")
"""How far a replay is. `at`: the next visit. `n_known`: pages that visits have discovered.
`n_keyed`: pages that the ordering knows. `seed`: the first seed from `n_known` on, or -1.
`followed`: the page whose history is noted, or -1; `key`: its key so far; `is_changed`: whether the
last visit changed it."""

MOST_VISITS, MOST_LINKS, LINK_CHARACTERS = 2_000, 50_000, 8
"""Bounds on the visits, and on the links of all but the last, that are replayed at a time; so many
characters of text count as a link."""


def add_waiting(
    queue: PageQueue, store: StoreReader, priority_of: Callable[[bytes], int]
) -> Generator[RequestRow]:
    """Queue the pages of saved requests, and first those in flight when the crawl was killed.

    Yields the requests, each before its page is queued. A page whose only requests JSON could not
    hold waits no more: it is not to be fetched as a plain link.
    """
    unheld: set[int] = set()
    held: set[int] = set()
    for request in store.requests():
        yield request
        page = request.page
        if request.is_unheld:
            unheld.add(page)
            continue
        held.add(page)
        priority = priority_of(request.request)
        if queue.state(page) != WAITING or priority:
            queue.add(page, priority)
    for page in sorted(unheld - held):
        queue.finish(page, UNKNOWN)
    for page in store.leased():
        if queue.state(page) == WAITING:
            queue.add(page, FIRST)


class Replayed(NamedTuple):
    """Visits that were replayed together, refusals included: a range of the rows of columns.

    `n_before` has, for each row, the number of pages known before it.
    """

    columns: VisitColumns
    n_before: NDArray[np.int64]
    rows: slice

    def evidence(self) -> Iterator[tuple[Visit, int]]:
        """Yield those that are no refusals, each with the number of pages known before it."""
        for at in range(self.rows.start, self.rows.stop):
            if not self.columns.is_refused[at]:
                yield self.columns.visit(at), int(self.n_before[at])


def history_of(
    queue: PageQueue,
    store: StoreReader,
    *,
    texts: bool = False,
    after: int = 0,
    beside: Sequence[SideTable] = EVIDENCE,
) -> Iterator[VisitColumns]:
    """Yield the visits of a store after a number, with what the queue's ordering needs of them.

    `texts`: with their texts even if it needs none. `beside`: with their rows of these tables.
    """
    texts = texts or queue.hot_queue is not None or queue.ordering.needs_texts
    anchors = texts or queue.ordering.needs_anchors
    return columns_of(
        store.visits(texts=texts, anchors=anchors, history=True, after=after, beside=beside)
    )


def columns_of(visits: Iterable[Visit]) -> Iterator[VisitColumns]:
    """Yield visits in turn as columns, as many at a time as are replayed together."""
    group: list[Visit] = []
    n_links = 0
    for visit in visits:
        group.append(visit)
        n_links += len(visit.targets) + len(visit.text) // LINK_CHARACTERS
        if len(group) >= MOST_VISITS or n_links >= MOST_LINKS:
            yield _columns(group)
            group, n_links = [], 0
    if group:
        yield _columns(group)


def _columns(visits: list[Visit]) -> VisitColumns:
    lengths = [len(visit.targets) for visit in visits]
    return VisitColumns(
        np.array([visit.page for visit in visits], dtype=np.int32),
        np.concatenate([[0], np.cumsum(lengths)]).astype(np.int64),
        np.concatenate([visit.targets for visit in visits]),
        [visit.status for visit in visits],
        np.array([visit.fetched_at for visit in visits]),
        np.array([visit.elapsed for visit in visits]),
        [visit.error for visit in visits],
        np.array([waits_again(visit.status, visit.error) for visit in visits]),
        visits,
    )


def replay(
    queue: PageQueue,
    columns: Iterable[VisitColumns],
    seeds: Collection[int],
    n_pages: int,
    history: KeyHistory | None = None,
    n_known: int = 0,
) -> Generator[Replayed]:
    """Replay the visits of a crawl, in compiled code where a rule alone decides; yield them.

    Pages are discovered and observed in their original order, so the queue is as it was, or as
    another ordering would have built it. Pages that wait for the next run do so. No page may leave
    before the end. O(links).

    The queue, over the page table of the crawl, is empty, or restored as it was before the visits,
    when it knew `n_known` pages. The crawl started from `seeds` and knows `n_pages` at the end;
    those that no visit discovered are queued last. `history`, if any, notes
    what visits do to a page. The visits of and to that page are yielded
    alone, before they are observed.
    """
    is_deferred = queue.defer()
    replayed = _Replay(queue, seeds, history, n_known, by_rule=is_deferred and queue.takes_rows)
    try:
        for group in columns:
            yield from replayed.group(group)
        replayed.enter(range(replayed.n_known, n_pages))
    finally:
        if is_deferred:
            queue.build()


class _Replay:
    """A replay of visits: in compiled code if it is `by_rule`, else one by one."""

    def __init__(
        self,
        queue: PageQueue,
        seeds: Collection[int],
        history: KeyHistory | None,
        n_known: int,
        *,
        by_rule: bool,
    ) -> None:
        self.queue, self.seeds, self.n_known = queue, seeds, n_known
        self._history, self._by_rule = history, by_rule
        self._sorted_seeds = sorted(seeds)
        self._loop: Callable[..., None] | None = None

    def group(self, columns: VisitColumns) -> Generator[Replayed]:
        """Replay visits; one by one those that compiled code leaves."""
        n_visits = len(columns.pages)
        n_before = np.zeros(n_visits, dtype=np.int64)
        at = 0
        while at < n_visits:
            begin = at
            if self._by_rule:
                at = self._observe_rows(columns, n_before, begin)
                if at > begin:
                    yield Replayed(columns, n_before, slice(begin, at))
            if at < n_visits:
                visit, n_before[at] = columns.visit(at), self.n_known
                self._discover(visit)
                if not columns.is_refused[at]:
                    yield Replayed(columns, n_before, slice(at, at + 1))
                    self._fetch(visit, int(n_before[at]))
                at += 1

    def _observe_rows(self, columns: VisitColumns, n_before: NDArray[np.int64], at: int) -> int:
        """Observe visits from `at` on, in compiled code; return the first that it leaves. O(links).

        Writes the pages known before each into `n_before`.
        """
        ordering, history, pages = self.queue.ordering, self._history, self.queue.pages
        assert isinstance(ordering, CompiledOrdering)
        n_entered = bisect_left(self._sorted_seeds, self.n_known)
        is_last = n_entered == len(self._sorted_seeds)
        seed = NO_PAGE if is_last else self._sorted_seeds[n_entered]
        visited, begins, links = columns.pages, columns.begins, columns.targets
        # Room for the whole crawl at once: arrays that double are copied seven times a million.
        known = ordering.rule_arguments(len(pages), len(links))
        n_then = 1 + max(int(ids.max(initial=NO_PAGE)) for ids in (visited, links))
        priority_classes = np.zeros(max(n_then - ordering.n_pages, 0), dtype=np.int32)
        followed, key = (NO_PAGE, 0.0) if history is None else (history.page, history.key)
        start = (at, self.n_known, ordering.n_pages, seed, followed, key, False)
        progress = np.array([start], dtype=_PROGRESS)
        while True:
            rows = visited, begins, links, columns.is_refused, n_before
            arguments = (
                *(self.queue.addresses, *rows),
                *(pages.sites, priority_classes, known, progress),
            )
            if self._loop is None:
                self._loop = _loops.of(type(ordering).rule, *arguments)
            self._loop(*arguments)
            ordering.n_pages = int(progress["n_keyed"][0])
            if history is None or not progress["is_changed"][0]:
                self.n_known = int(progress["n_known"][0])
                return int(progress["at"][0])
            history.after()
            progress["key"] = history.key

    def _discover(self, visit: Visit) -> None:
        """Count the pages that a visit discovers; queue those that were known before it."""
        n_before = self.n_known
        n_then = max(n_before, visit.page + 1, int(visit.targets.max(initial=NO_PAGE)) + 1)
        if visit.page == NO_PAGE:  # it stands for the start, in stores of crawls in Redis
            self.enter(range(n_before, n_then))
        elif n_then > n_before:
            # A seed that the visit links to was known before it: ids are in order of discovery.
            shown, n_entered = {*visit.targets.tolist()}.difference(self.seeds), n_before
            while n_entered < n_then and n_entered not in shown:
                n_entered += 1
            self.enter(range(n_before, n_entered))
        self.n_known = n_then

    def _fetch(self, visit: Visit, n_before: int) -> None:
        """Observe a visit of a page that is done from then on."""
        if visit.page == NO_PAGE:
            return
        queue = self.queue
        if queue.state(visit.page) == DONE:
            queue.count_turn(visit.page)
        queue.finish(visit.page)
        self._observe(visit, self.n_known)
        if visit.page >= n_before:
            queue.finish(visit.page)

    def enter(self, pages: range) -> None:
        """Queue pages that no visit discovered: seeds, and pages of other requests."""
        if pages:
            entered = np.array([page for page in pages if page in self.seeds], dtype=np.int32)
            self._observe(Visit(NO_PAGE, entered), pages.stop)

    def _observe(self, visit: Visit, n_pages: int) -> None:
        if self._history is not None:
            self._history.before(visit, n_pages, again=self.queue.has_observed(visit.page))
        self.queue.observe(visit, n_pages)
        if self._history is not None:
            self._history.after()


def _observe_visits(
    rule: VisitRule,
    queue: Addresses,
    visited: PageIds,
    begins: NDArray[np.int64],
    links: PageIds,
    is_refused: NDArray[np.bool_],
    n_before: NDArray[np.int64],
    page_sites: PageIds,
    priority_classes: PageIds,
    known: RuleArguments,
    progress: Records,
) -> None:
    """Observe visits in turn; stop before one that must be replayed alone.

    Alone are visits before which a page was known that none discovered, those of a page that is
    done if sites take turns, and those of, to, or that discover the page followed. Stop also after
    a visit that changed the key of that page. `n_before` is written: the pages known before each
    visit. `priority_classes` are zeros.
    """
    pages, _, _, totals = struct_layouts.QUEUE(queue)
    at, n_known, n_keyed = progress[0].at, progress[0].n_known, progress[0].n_keyed
    followed = progress[0].followed
    is_changed = False
    while at < len(visited) and not is_changed:
        page = struct_layouts.wide(visited[at])
        targets = links[begins[at] : begins[at + 1]]
        n_then = max(n_known, page + 1)
        is_alone, shows_next = page < 0 or page == followed, False
        for target in targets:
            n_then = max(n_then, struct_layouts.wide(target) + 1)
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
                queue, n_keyed, page_sites[:n_then], priority_classes,
                targets[: 0 if again else len(targets)], keys, page,
            )  # fmt: skip
            for k in range(0 if again else n_changed):
                changed = struct_layouts.wide(known.changed[k])
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
