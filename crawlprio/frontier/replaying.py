"""Replaying the recorded visits of a crawl through the queue of another run.

No page leaves before the end, so the heaps, which would take a third of the time, are built then.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Collection, Generator, Iterable, Iterator
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from crawlprio.frontier.page_queue import PageQueue
from crawlprio.frontier.records import DONE
from crawlprio.graph.pages import NO_PAGE, Visit
from crawlprio.orderings.base import KeyHistory
from crawlprio.store.outcomes import is_refusal
from crawlprio.store.visit_rows import VisitColumns

FIRST = 2**29
"""The priority of pages that were being fetched when the crawl was killed."""

MOST_VISITS, MOST_LINKS, LINK_CHARACTERS = 2_000, 50_000, 8
"""Bounds on the visits, and on the links of all but the last, that are replayed at a time; so many
characters of text count as a link."""


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
        np.array([is_refusal(visit.status, visit.error) for visit in visits]),
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
    another ordering would have built it. Pages that were refused wait again. No page may leave
    before the end. O(links).

    The queue, over the page table of the crawl, is empty, or restored as it was before the visits,
    when it knew `n_known` pages. The crawl started from `seeds` and knows `n_pages` at the end;
    those that no visit discovered are queued last. `history`, if any, notes
    what visits do to a page. The visits of and to that page, and those of foreign sites, are
    yielded alone, before they are observed.
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

    def group(self, columns: VisitColumns) -> Generator[Replayed]:
        """Replay visits; one by one those that compiled code leaves."""
        n_visits = len(columns.pages)
        n_before = np.zeros(n_visits, dtype=np.int64)
        at = 0
        while at < n_visits:
            begin = at
            if self._by_rule:
                n_entered = bisect_left(self._sorted_seeds, self.n_known)
                is_last = n_entered == len(self._sorted_seeds)
                seed = NO_PAGE if is_last else self._sorted_seeds[n_entered]
                at, self.n_known = self.queue.observe_rows(
                    columns, n_before, begin, self.n_known, seed, self._history
                )
                if at > begin:
                    yield Replayed(columns, n_before, slice(begin, at))
            if at < n_visits:
                visit, n_before[at] = columns.visit(at), self.n_known
                self._discover(visit)
                if not columns.is_refused[at]:
                    yield Replayed(columns, n_before, slice(at, at + 1))
                    self._fetch(visit, int(n_before[at]))
                at += 1

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
