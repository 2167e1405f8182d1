"""Replaying the recorded visits of a crawl through the queue of another run."""

from __future__ import annotations

from collections.abc import Container, Generator, Iterable

import numpy as np

from crawlprio.frontier.page_queue import PageQueue
from crawlprio.frontier.records import DONE
from crawlprio.pages import NO_PAGE, Visit
from crawlprio.store.outcomes import is_refusal


def replay(
    queue: PageQueue, visits: Iterable[Visit], seeds: Container[int], n_pages: int
) -> Generator[tuple[Visit, int]]:
    """Replay visits; yield each, with the number of pages known before it, before it is observed.

    Pages are discovered and observed in their original order, so the queue is as it was, or as
    another ordering would have built it. Pages that were refused wait again. No page may leave
    before the end. O(links).

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
    try:
        yield from _replay(queue, visits, seeds, n_pages)
    finally:
        if is_deferred:
            queue.build()


def _replay(
    queue: PageQueue, visits: Iterable[Visit], seeds: Container[int], n_pages: int
) -> Generator[tuple[Visit, int]]:
    n_known = 0
    for visit in visits:
        targets = visit.targets.tolist()
        n_before, n_then = n_known, max(n_known, visit.page + 1, max(targets, default=-1) + 1)
        if visit.page == NO_PAGE:  # a crawl in Redis records the discovery of seeds as visits
            _enter(queue, range(n_before, n_then), seeds)
        elif n_then > n_known and n_known not in targets:
            shown = set(targets)
            while n_known < n_then and n_known not in shown:
                n_known += 1
            _enter(queue, range(n_before, n_known), seeds)
        n_known = n_then
        if is_refusal(visit.status, visit.error):
            continue
        yield visit, n_before
        if visit.page != NO_PAGE:
            if queue.state(visit.page) == DONE:
                queue.count_turn(visit.page)
            queue.finish(visit.page)
            queue.observe(visit, n_then)
            if visit.page >= n_before:
                queue.finish(visit.page)
    _enter(queue, range(n_known, n_pages), seeds)


def _enter(queue: PageQueue, pages: range, seeds: Container[int]) -> None:
    """Queue pages that no visit discovered: seeds, and pages of other requests."""
    if pages:
        entered = np.array([page for page in pages if page in seeds], dtype=np.int32)
        queue.observe(Visit(NO_PAGE, entered), pages.stop)
