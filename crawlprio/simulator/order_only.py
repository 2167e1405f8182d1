"""Order-only simulation of a crawl of a link graph: one page at a time, with no delay."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from crawlprio.errors import ConfigError, GraphError
from crawlprio.frontier import heaps, pairing, struct_layouts
from crawlprio.frontier.struct_layouts import DONE, LEASED, NONE, QUEUE, WAITING, Records, wide
from crawlprio.graph.arrays import Floats, integers, numbers
from crawlprio.graph.compiled import Addresses, njit, record
from crawlprio.graph.linkgraph import LinkGraph
from crawlprio.graph.pages import NO_PAGE, NO_PAGES, PageIds, Visit
from crawlprio.graph.topic import HotQueue
from crawlprio.orderings import CompiledOrdering, Ordering
from crawlprio.orderings.base import RuleLoop, VisitRule
from crawlprio.ranking.pagerank import pagerank, round_significant
from crawlprio.simulator.graph_pages import GraphPages

PROGRESS = record("i8 n_fetched n_known n_links n_ranked n_ranked_waiting")
"""The progress of a simulation. `n_links`: links of the fetched pages. Pages with a local id below
`n_ranked` were known when keys were last recomputed; `n_ranked_waiting` of them are waiting."""


class WebArrays(NamedTuple):
    """A link graph, and which of its pages the crawl knows.

    `page_sites` and `graph_sites` have the site of each page in the queue, and in the graph;
    `local_of` and `graph_of` are the id maps of `GraphPages`, in which the seeds already have ids
    and wait.
    """

    indptr: NDArray[np.int64]
    indices: PageIds
    page_sites: PageIds
    graph_sites: PageIds
    local_of: PageIds
    graph_of: PageIds


class Evidence(NamedTuple):
    """What a rule reads and writes.

    `keys`: by local id, a view of those in the queue. `scores`: the first key of each page of the
    graph, NaN where the rule decides; or empty. `numbers`, `sites`, `addresses`: as for a rule;
    `sites` is empty if it does not read them. `changed`, `before`: as in the state of the rule.
    `changes_targets`: whether keys of known targets may change that `changed` does not list.
    `targets`, `old_keys`: scratch space for the links of any page.
    """

    keys: Floats
    scores: Floats
    numbers: Floats
    sites: PageIds
    addresses: Addresses
    changed: PageIds
    before: Floats
    changes_targets: bool
    targets: PageIds
    old_keys: Floats


@njit(inline="always")
def apply_visit(
    rule: VisitRule, web: WebArrays, known: Evidence, graph_page: int, page: int, n_known: int
) -> tuple[int, int, int]:
    """Apply a rule to the visit of a page, writing its links as local ids into `targets`.

    Returns the number of known pages after the visit, the number of links, and the number of pages
    that the rule wrote into `changed`. The caller updates the queue.
    """
    keys, targets = known.keys, known.targets
    numbers, sites, addresses = known.numbers, known.sites, known.addresses
    first = n_known
    begin = web.indptr[graph_page]
    n_links = web.indptr[graph_page + 1] - begin
    for k in range(n_links):
        graph_target = web.indices[begin + k]
        target = web.local_of[graph_target]
        if target < 0:
            target = n_known
            n_known += 1
            web.local_of[graph_target] = target
            web.graph_of[target] = graph_target
            if len(sites) > 0:
                sites[target] = web.graph_sites[graph_target]
        elif known.changes_targets:
            known.old_keys[k] = keys[target]
        targets[k] = target
    links = targets[:n_links]
    if len(known.scores) == 0:
        n_changed = rule(keys, page, links, first, n_known, False, numbers, sites, addresses)
    else:
        rule(keys, page, links, first, n_known, True, numbers, sites, addresses)
        for new in range(first, n_known):
            score = known.scores[web.graph_of[new]]
            if not np.isnan(score):
                keys[new] = score
        n_changed = rule(keys, page, links, n_known, n_known, False, numbers, sites, addresses)
    return n_known, n_links, n_changed


@njit(cache=True)
def push_found(
    queue: Addresses, first: int, last: int, page_sites: PageIds, graph_of: PageIds
) -> None:
    """Push the pages first, ..., last - 1 with the keys in their records."""
    pages = QUEUE(queue).pages
    for new in range(first, last):
        site = wide(page_sites[graph_of[new]])
        heaps.push(queue, new, site, wide(0), pages[new].key)


@njit(inline="always")
def visit_page(
    rule: VisitRule,
    web: WebArrays,
    known: Evidence,
    queue: Addresses,
    graph_page: int,
    page: int,
    n_known: int,
) -> int:
    """Observe the visit of a leased page; return the number of known pages after it.

    Queues the new targets and moves waiting pages whose keys changed.
    """
    first = n_known
    n_known, n_links, n_changed = apply_visit(rule, web, known, graph_page, page, n_known)
    push_found(queue, first, n_known, web.page_sites, web.graph_of)
    if known.changes_targets:
        links = known.targets[:n_links]
        heaps.restore_heap_changed(queue, first, links, known.old_keys)
    if n_changed > 0:
        listed = known.changed[:n_changed]
        heaps.restore_heap_changed(queue, first, listed, known.before)
    return n_known


def _fetch_pages(
    rule: VisitRule,
    web: WebArrays,
    known: Evidence,
    queue: Addresses,
    progress: Records,
    order: PageIds,
    until: int,
    while_ranked_wait: bool,
) -> None:
    """Fetch pages until `until` are fetched or none is waiting; call it again to continue.

    All pages wait in the heap of site 0; leases, counts of waiting pages and the site heaps are not
    updated. Takes about 0.25 microseconds for a page of ten links. Each link costs a lookup in
    `local_of` and, if it may change a key, one in the record of its target.

    `order` gets the pages of the graph as they are fetched. `while_ranked_wait`: also stop as soon
    as no page below `n_ranked` is waiting.
    """
    indptr, graph_of = web.indptr, web.graph_of
    keys, targets, changed = known.keys, known.targets, known.changed
    pages, sites, _, _ = QUEUE(queue)
    root = wide(sites[0].head)
    n_ranked = progress[0].n_ranked
    n_ranked_waiting = progress[0].n_ranked_waiting
    n_fetched = progress[0].n_fetched
    n_known = progress[0].n_known
    n_links_seen = progress[0].n_links
    while n_fetched < until and root != NONE and not (while_ranked_wait and n_ranked_waiting == 0):
        page = root
        root = pairing.join_children(pages, page)
        pages[page].state = DONE
        graph_page = graph_of[page]
        order[n_fetched] = graph_page
        n_fetched += 1
        if page < n_ranked:
            n_ranked_waiting -= 1
        n_links_seen += indptr[graph_page + 1] - indptr[graph_page]
        first = n_known
        n_known, n_links, n_changed = apply_visit(rule, web, known, graph_page, page, n_known)
        for new in range(first, n_known):
            pages[new].state = WAITING
            pairing.isolate(pages, new)
            root = pairing.add(pages, root, new)
        if known.changes_targets:
            for k in range(n_links):
                target = wide(targets[k])
                if target < first and pages[target].state == WAITING:
                    key = keys[target]
                    if key != known.old_keys[k]:
                        rises = key > known.old_keys[k]
                        root = pairing.restore_heap(pages, root, target, rises)
        for k in range(n_changed):
            page = wide(changed[k])
            if page < first and pages[page].state == WAITING:
                rises = keys[page] > known.before[k]
                root = pairing.restore_heap(pages, root, page, rises)
    sites[0].head = root
    progress[0].n_fetched = n_fetched
    progress[0].n_known = n_known
    progress[0].n_links = n_links_seen
    progress[0].n_ranked_waiting = n_ranked_waiting


fetch_pages = RuleLoop(_fetch_pages)


@njit(cache=True)
def rows_of_fetched(
    indptr: NDArray[np.int64],
    indices: PageIds,
    local_of: PageIds,
    order: PageIds,
    n_fetched: int,
    n_known: int,
    n_links: int,
) -> tuple[NDArray[np.int64], PageIds, PageIds]:
    """Return the links of all fetched pages as (row_start, row_length, targets), in local ids.

    Rows are in the order fetched; those of pages not fetched start at -1. O(known pages + links), 4
    bytes per link and 12 per page.
    """
    row_start = np.full(n_known, -1, dtype=np.int64)
    row_length = np.zeros(n_known, dtype=np.int32)
    targets = np.empty(n_links, dtype=np.int32)
    at = 0
    for k in range(n_fetched):
        page = local_of[order[k]]
        row_start[page] = at
        for link in range(indptr[order[k]], indptr[order[k] + 1]):
            targets[at] = local_of[indices[link]]
            at += 1
        row_length[page] = at - row_start[page]
    return row_start, row_length, targets


OnProgress = Callable[[int], object]

STRIDE = 20_000
"""Fetches between two progress reports, and between two chances for an interrupt."""


def runs_compiled(ordering: Ordering, hot_queue: HotQueue | None) -> bool:
    """Return whether a crawl can run in the compiled loop: a rule alone, with links alone."""
    return hot_queue is None and isinstance(ordering, CompiledOrdering) and ordering.runs_compiled


def checked_seeds(graph: LinkGraph, seeds: Sequence[int]) -> PageIds:
    """Return the distinct seeds in order; raise GraphError if one is not a page of the graph."""
    distinct = list(dict.fromkeys(integers("seeds", seeds, below=graph.n_pages).tolist()))
    if not distinct:
        raise GraphError("there are no seeds; give at least one page.")
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

    The seeds are queued and the ordering is opened here. `by_site`: whether to keep one queue per
    site; otherwise one for all sites, which is faster, and the same without delays: the best page
    of the best site is the best page.
    """

    def __init__(
        self,
        pages: GraphPages,
        seeds: PageIds,
        ordering: CompiledOrdering,
        truth: Floats | None,
        *,
        by_site: bool = False,
        pages_per_visit: int = 1,
    ) -> None:
        graph = pages.graph
        self._graph, self._ordering = graph, ordering
        by_waiting = ordering.by_waiting_pages
        self._sites_of = graph.site if by_site else np.zeros(graph.n_pages, dtype=np.int32)
        n_sites = graph.n_sites if by_site else 1
        site_rows = struct_layouts.new_sites(n_sites, 1, 0.0)
        totals = np.zeros(1, dtype=struct_layouts.TOTALS)
        totals["pages_per_visit"] = pages_per_visit
        totals["site_share"] = ordering.site_share
        totals["held_below"] = ordering.held_below
        totals["site_rule"] = (
            struct_layouts.BY_WAITING_PAGES if by_waiting else struct_layouts.BY_BEST_PAGE
        )
        page_rows = np.zeros(graph.n_pages, dtype=struct_layouts.PAGE)
        heap = heaps.no_entries(n_sites)
        self._arrays = struct_layouts.Queue(page_rows, site_rows, heap, totals)
        self._queue = QUEUE.addresses(self._arrays)
        self._pages = pages

        ordering.open(pages, truth_of(pages, truth))
        scores = ordering.first_scores(graph.n_pages, graph.urls, truth)
        found = pages.discover(seeds)
        ordering.learn(Visit(NO_PAGE, found), len(pages))
        heaps.push_new(
            self._queue,
            0,
            self._sites_of[seeds],
            np.zeros(len(seeds), dtype=np.int32),
            ordering.keys,
        )
        most_links = int(np.diff(graph.indptr).max(initial=0))
        addresses = ordering.reserve(graph.n_pages, graph.n_sites, graph.n_links, most_links)
        self._web = WebArrays(
            graph.indptr, graph.indices, self._sites_of, graph.site, pages.local_of, pages.graph_of
        )
        self._known = Evidence(
            page_rows["key"],
            np.empty(0) if scores is None else scores,
            ordering.numbers,
            pages.all_sites if ordering.reads_sites else NO_PAGES,
            addresses,
            ordering.state.changed,
            ordering.state.before,
            ordering.changes_known and not ordering.lists_changed,
            targets=np.empty(most_links, dtype=np.int32),
            old_keys=np.empty(most_links),
        )
        self._progress = np.zeros(1, dtype=PROGRESS)
        self._progress["n_known"] = len(pages)
        self._progress["n_ranked"] = ordering.n_ranked
        self._progress["n_ranked_waiting"] = ordering.n_ranked

    def _run(
        self, until: int, report: OnProgress, visits: PageIds, step: Callable[[int], bool]
    ) -> None:
        """Crawl step by step until a step says that the crawl is over; keys are computed between.

        `visits`: pages of the graph in the order observed, which steps write. `step` takes the
        number of visits at which to return.
        """
        progress, pages = self._progress, self._pages
        n_visits, is_over = 0, False
        while not is_over:
            due = self._ordering.due_at(int(progress["n_links"][0]))
            is_over = step(min(due, n_visits + STRIDE))
            pages.n_known = int(progress["n_known"][0])
            n_before, n_visits = n_visits, int(progress["n_fetched"][0])
            if n_visits > n_before:
                report(n_visits)
            if not is_over and n_visits < until and self._is_due(n_visits):
                self._compute_keys(visits, n_visits)

    def _is_due(self, n_visits: int) -> bool:
        """Whether the ordering is due to recompute all keys after so many visits."""
        if n_visits >= self._ordering.due_at(int(self._progress["n_links"][0])):
            return True
        none_waits = self._progress["n_ranked_waiting"][0] == 0
        return self._ordering.due_when_ranked_are_fetched and bool(none_waits)

    def _compute_keys(self, visits: PageIds, n_visits: int) -> None:
        """Recompute the keys of all waiting pages from the links seen so far.

        Pages in flight get their new keys too, because their visits pass the keys on.
        """
        progress, n_known = self._progress, len(self._pages)
        rows = rows_of_fetched(
            self._graph.indptr,
            self._graph.indices,
            self._pages.local_of,
            visits,
            n_visits,
            n_known,
            int(progress["n_links"][0]),
        )
        keys = self._ordering.compute_keys(rows, n_visits)
        pages = self._arrays.pages[:n_known]
        heaps.rekey_all(self._queue, n_known, len(self._arrays.sites), keys)
        in_flight = np.flatnonzero(pages["state"] == LEASED)
        pages["key"][in_flight] = keys[in_flight]
        progress["n_ranked"] = n_known
        progress["n_ranked_waiting"] = n_known - n_visits


class OrderLoop(CompiledCrawl):
    """One order-only crawl in the compiled loop, of an ordering to which sites do not matter."""

    def order(self, until: int, report: OnProgress) -> PageIds:
        """Crawl until `until` pages are fetched or none is waiting."""
        progress, order = self._progress, np.empty(until, dtype=np.int32)
        loop: Callable[..., None] | None = None

        def fetch(pause_at: int) -> bool:
            nonlocal loop
            n_before = int(progress["n_fetched"][0])
            by_rank = self._ordering.due_when_ranked_are_fetched
            least = min(until, pause_at)
            arguments = self._web, self._known, self._queue, progress, order, least, by_rank
            loop = loop or fetch_pages.of(type(self._ordering).rule, *arguments)
            loop(*arguments)
            n_fetched = int(progress["n_fetched"][0])
            return n_fetched == n_before or n_fetched >= until

        self._run(until, report, order, fetch)
        return order[: int(progress["n_fetched"][0])].copy()
