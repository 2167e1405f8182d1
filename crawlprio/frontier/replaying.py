"""Replaying the recorded visits of a crawl through the queue of another run."""

from __future__ import annotations

from collections.abc import Callable, Container, Generator, Iterable, Sequence

import numpy as np

from crawlprio.frontier.page_queue import PageQueue
from crawlprio.frontier.records import DONE
from crawlprio.frontier.rows import Rows, in_groups
from crawlprio.pages import NO_PAGE, Visit
from crawlprio.store.outcomes import is_refusal
from crawlprio.store.visit_columns import VisitColumns

FIRST = 2**29
"""The priority of pages that were being fetched when the crawl was killed."""


def replay(
    queue: PageQueue, visits: Iterable[Visit], seeds: Container[int], n_pages: int
) -> Generator[tuple[Visit, int]]:
    """Replay visits; yield each, with the number of pages known before it.

    The visits of the page that the ordering watches are yielded before they are observed. Pages are
    discovered and observed in their original order, so the queue is as it was, or as another
    ordering would have built it. Pages that were refused wait again. No page may leave before the
    end. O(links).

    Parameters
    ----------
    queue
        An empty queue over the page table of the crawl.
    seeds
        The pages that the crawl started from.
    n_pages
        The number of known pages at the end; those that no visit discovered are queued last.
    """
    is_deferred = queue.defer()
    replayed = _Replay(queue, seeds)
    try:
        if is_deferred and queue.takes_rows:
            for group in in_groups(visits):
                yield from replayed.group(group)
        else:
            for visit in visits:
                yield from replayed.visit(visit)
        replayed.enter(range(replayed.n_known, n_pages))
    finally:
        if is_deferred:
            queue.build()


def replay_columns(
    queue: PageQueue, columns: Iterable[VisitColumns], seeds: Container[int], n_pages: int
) -> Generator[tuple[VisitColumns, Rows, slice]]:
    """Replay visits that were read as columns, into a queue that `takes_rows`, as `replay` does.

    Yields the columns, the same as rows, and which of them were replayed, refusals among them. The
    visits of and to the page that the ordering watches are yielded alone, before they are observed.
    """
    is_deferred = queue.defer()
    assert is_deferred
    assert queue.takes_rows
    replayed = _Replay(queue, seeds)
    try:
        for group in columns:
            rows = Rows.of(group)
            for done in replayed.rows(rows, group.visit):
                yield group, rows, done
        replayed.enter(range(replayed.n_known, n_pages))
    finally:
        queue.build()


class _Replay:
    """A replay of visits, one by one or in groups."""

    def __init__(self, queue: PageQueue, seeds: Container[int]) -> None:
        self.queue, self.seeds, self.n_known = queue, seeds, 0

    def group(self, visits: Sequence[Visit]) -> Generator[tuple[Visit, int]]:
        """Replay visits in compiled code, but one by one those that it leaves."""
        rows = Rows.of_visits(visits)
        for done in self.rows(rows, visits.__getitem__):
            n_before, is_refused = rows.n_before[done].tolist(), rows.is_refused[done].tolist()
            for visit, n_known, is_no_evidence in zip(
                visits[done], n_before, is_refused, strict=True
            ):
                if not is_no_evidence:
                    yield visit, n_known

    def rows(self, rows: Rows, visit_of: Callable[[int], Visit]) -> Generator[slice]:
        """Replay rows in compiled code, but one by one those that it leaves; yield which."""
        at, n_visits = 0, len(rows.pages)
        while at < n_visits:
            begin = at
            at, self.n_known = self.queue.observe_rows(rows, begin, self.n_known)
            if at > begin:
                yield slice(begin, at)
            if at < n_visits:
                rows.n_before[at] = self.n_known
                for _ in self.visit(visit_of(at)):
                    yield slice(at, at + 1)
                at += 1

    def visit(self, visit: Visit) -> Generator[tuple[Visit, int]]:
        """Replay a visit; yield it before it is observed, unless it is a refusal."""
        queue, n_before = self.queue, self.n_known
        n_then = max(n_before, visit.page + 1, int(visit.targets.max(initial=NO_PAGE)) + 1)
        if visit.page == NO_PAGE:  # a crawl in Redis records the discovery of seeds as visits
            self.enter(range(n_before, n_then))
        elif n_then > n_before and n_before not in (targets := visit.targets.tolist()):
            shown, n_entered = set(targets), n_before
            while n_entered < n_then and n_entered not in shown:
                n_entered += 1
            self.enter(range(n_before, n_entered))
        self.n_known = n_then
        if is_refusal(visit.status, visit.error):
            return
        yield visit, n_before
        if visit.page != NO_PAGE:
            if queue.state(visit.page) == DONE:
                queue.count_turn(visit.page)
            queue.finish(visit.page)
            queue.observe(visit, n_then)
            if visit.page >= n_before:
                queue.finish(visit.page)

    def enter(self, pages: range) -> None:
        """Queue pages that no visit discovered: seeds, and pages of other requests."""
        if pages:
            entered = np.array([page for page in pages if page in self.seeds], dtype=np.int32)
            self.queue.observe(Visit(NO_PAGE, entered), pages.stop)
