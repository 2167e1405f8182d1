"""Order-only simulation of a crawl of a link graph: one page at a time, with no delay."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

import numpy as np
from numpy.typing import NDArray

from crawlprio.arrays import integers, numbers
from crawlprio.errors import ConfigError, GraphError
from crawlprio.frontier import bulk, records, site_heaps
from crawlprio.importance import pagerank, round_significant
from crawlprio.linkgraph import LinkGraph
from crawlprio.orderings import CompiledOrdering, Ordering
from crawlprio.pages import NO_PAGE, NO_PAGES, PageIds, Visit
from crawlprio.simulator.loop import (
    PROGRESS,
    Evidence,
    Web,
    fetch_pages,
    rows_of_fetched,
)
from crawlprio.simulator.pages import GraphPages
from crawlprio.topic import HotQueue

Floats = NDArray[np.float64]
OnProgress = Callable[[int], object]

STRIDE = 20_000
"""Fetches between two progress reports, and between two chances for an interrupt."""


def runs_compiled(ordering: Ordering, hot_queue: HotQueue | None) -> bool:
    """Return whether a crawl can run in the compiled loop: a rule alone, with links alone."""
    return hot_queue is None and isinstance(ordering, CompiledOrdering) and ordering.runs_compiled


def checked_seeds(graph: LinkGraph, seeds: Sequence[int]) -> PageIds:
    """Return the distinct seeds in order; raise GraphError if one is not a page of the graph."""
    distinct = list(dict.fromkeys(integers("seeds", seeds).tolist()))
    if not distinct:
        raise GraphError("there are no seeds; give at least one page.")
    for seed in distinct:
        if not 0 <= seed < graph.n_pages:
            bound = f"page ids are 0 to {graph.n_pages - 1}" if graph.n_pages else "it has no pages"
            raise GraphError(f"seed {seed} is not a page of the graph; {bound}.")
    return np.array(distinct, dtype=np.int32)


def checked_until(graph: LinkGraph, budget: int | None) -> int:
    """Return the maximum number of fetches of a crawl; raise ConfigError if it is invalid."""
    if budget is not None and budget < 0:
        raise ConfigError(f"budget is {budget}; give 0 or more fetches, or None for no limit.")
    return graph.n_pages if budget is None else min(budget, graph.n_pages)


def truth_for(graph: LinkGraph, ordering: Ordering, truth: Floats | None) -> Floats | None:
    """Return the PageRank of the whole graph, rounded for orderings, if it is given or needed."""
    if truth is None and ordering.needs_truth:
        truth = pagerank(graph.indptr, graph.indices)
    if truth is None:
        return None
    return round_significant(numbers("truth", truth, length=graph.n_pages))


def truth_of(pages: GraphPages, truth: Floats | None) -> Callable[[int], float] | None:
    """Return a function from a page's local id to its PageRank."""
    if truth is None:
        return None
    graph_of = pages.graph_of
    return lambda page: float(truth[graph_of[page]])


def depends_on_sites(ordering: Ordering) -> bool:
    """Return whether the order depends on how the queue ranks sites even if time does not count."""
    by_waiting = isinstance(ordering, CompiledOrdering) and ordering.by_waiting_pages
    return by_waiting or ordering.site_share > 0


class CompiledCrawl:
    """The state of a crawl in a compiled loop: the queue, the rule, and the progress so far.

    Parameters
    ----------
    pages
        The page table, empty.
    seeds
        Distinct pages of the graph; they are queued here.
    ordering
        An ordering whose rule is its whole behaviour; it is opened here.
    truth
        PageRank of the whole graph, for orderings that need it.
    by_site
        Whether to keep one queue per site; otherwise one for all sites, which is faster.
    pages_per_visit
        Pages fetched from a site before its delay applies.
    """

    def __init__(
        self,
        pages: GraphPages,
        seeds: PageIds,
        ordering: CompiledOrdering,
        truth: Floats | None,
        *,
        by_site: bool,
        pages_per_visit: int = 1,
    ) -> None:
        graph = pages.graph
        self._graph, self._ordering = graph, ordering
        by_waiting = ordering.by_waiting_pages
        self._sites_of = graph.site if by_site else np.zeros(graph.n_pages, dtype=np.int32)
        n_sites = graph.n_sites if by_site else 1
        site_rows = np.zeros(n_sites, dtype=records.SITE)
        site_rows["head"] = records.NONE
        site_rows["position"] = records.NOWHERE
        site_rows["limit"] = 1
        site_rows["ready_at"] = -math.inf
        totals = np.zeros(1, dtype=records.TOTALS)
        totals["pages_per_visit"] = pages_per_visit
        totals["site_share"] = ordering.site_share
        totals["held_below"] = ordering.held_below
        totals["site_rule"] = records.BY_WAITING_PAGES if by_waiting else records.BY_BEST_PAGE
        page_rows = np.zeros(graph.n_pages, dtype=records.PAGE)
        heap = site_heaps.no_entries(n_sites)
        self._queue = records.Queue(page_rows, site_rows, heap, totals)
        self._pages = pages

        ordering.open(pages, truth_of(pages, truth))
        scores = ordering.first_scores(graph.n_pages, graph.urls, truth)
        found = pages.discover(seeds)
        ordering.learn(Visit(NO_PAGE, found), len(pages))
        bulk.push_new(
            *self._queue,
            0,
            self._sites_of[seeds],
            np.zeros(len(seeds), dtype=np.int32),
            ordering.keys,
        )
        most_links = int(np.diff(graph.indptr).max(initial=0))
        addresses = ordering.reserve(graph.n_pages, graph.n_sites, graph.n_links, most_links)
        self._web = Web(
            graph.indptr,
            graph.indices,
            self._sites_of,
            graph.site,
            pages.local_of,
            pages.graph_of,
        )
        self._known = Evidence(
            page_rows["key"],
            np.empty(0) if scores is None else scores,
            ordering.numbers,
            pages.all_sites if ordering.reads_sites else NO_PAGES,
            addresses,
            ordering.state.changed,
            ordering.state.before,
            ordering.changes_known,
            targets=np.empty(most_links, dtype=np.int32),
            old_keys=np.empty(most_links),
        )
        self._progress = np.zeros(1, dtype=PROGRESS)
        self._progress["n_known"] = len(pages)
        self._progress["n_ranked"] = ordering.n_ranked
        self._progress["n_ranked_waiting"] = ordering.n_ranked

    def _is_due(self, n_fetched: int) -> bool:
        """Whether the ordering is due to recompute all keys after `n_fetched` visits."""
        if n_fetched >= self._ordering.due_at(int(self._progress["n_links"][0])):
            return True
        none_waits = self._progress["n_ranked_waiting"][0] == 0
        return self._ordering.due_when_ranked_are_fetched and bool(none_waits)

    def _compute_keys(self, order: PageIds, n_fetched: int) -> Floats:
        """Recompute the keys of all waiting pages from the links seen so far."""
        progress, n_known = self._progress, len(self._pages)
        rows = rows_of_fetched(
            self._graph.indptr,
            self._graph.indices,
            self._pages.local_of,
            order,
            n_fetched,
            n_known,
            int(progress["n_links"][0]),
        )
        keys = self._ordering.compute_keys(rows, n_fetched)
        bulk.rekey_all(*self._queue, n_known, len(self._queue[1]), keys)
        progress["n_ranked"] = n_known
        progress["n_ranked_waiting"] = n_known - n_fetched
        return keys


class OrderLoop(CompiledCrawl):
    """One order-only crawl in the compiled loop, of an ordering to which sites do not matter."""

    def __init__(
        self,
        pages: GraphPages,
        seeds: PageIds,
        ordering: CompiledOrdering,
        truth: Floats | None,
    ) -> None:
        # With no delay, the best page of the best site is the best page: one site is enough.
        super().__init__(pages, seeds, ordering, truth, by_site=False)
        self._loop: Callable[..., None] | None = None

    def order(self, until: int, report: OnProgress) -> PageIds:
        """Crawl until `until` pages are fetched or none is waiting."""
        ordering, progress = self._ordering, self._progress
        order = np.empty(until, dtype=np.int32)
        n_fetched = 0
        while n_fetched < until:
            due = ordering.due_at(int(progress["n_links"][0]))
            self._fetch(order, min(until, due, n_fetched + STRIDE))
            fetched_before, n_fetched = n_fetched, int(progress["n_fetched"][0])
            if n_fetched == fetched_before:
                break
            report(n_fetched)
            if n_fetched < until and self._is_due(n_fetched):
                self._compute_keys(order, n_fetched)
        return order[:n_fetched].copy()

    def _fetch(self, order: PageIds, until: int) -> None:
        """Run the loop until `until` pages are fetched, none is waiting, or keys are due."""
        arguments = (
            self._web,
            self._known,
            self._queue,
            self._progress,
            order,
            until,
            self._ordering.due_when_ranked_are_fetched,
        )
        if self._loop is None:
            fetch = fetch_pages
            self._loop = fetch.of(type(self._ordering).rule, *arguments)
        self._loop(*arguments)
        self._pages.n_known = int(self._progress["n_known"][0])
