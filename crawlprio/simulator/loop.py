"""The compiled loop of an order-only simulation: fetch, observe, repeat, all on arrays."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from crawlprio.compiled import njit
from crawlprio.compiled.layout import Addresses
from crawlprio.frontier import bulk, heaps, pairing
from crawlprio.frontier.records import DONE, NONE, WAITING, Entries, Queue, Records, wide
from crawlprio.orderings.rules import RuleLoop, VisitRule
from crawlprio.pages import PageIds

Floats = NDArray[np.float64]

PROGRESS = np.dtype(
    [
        ("n_fetched", np.int64),
        ("n_known", np.int64),
        ("n_links", np.int64),
        ("n_ranked", np.int64),
        ("n_ranked_waiting", np.int64),
    ],
    align=True,
)
"""The progress of a simulation. `n_links`: links of the fetched pages. Pages with a local id below
`n_ranked` were known when keys were last recomputed; `n_ranked_waiting` of them are waiting."""


class Web(NamedTuple):
    """A link graph, and which of its pages the crawl knows.

    indptr, indices
        The links.
    page_sites, graph_sites
        int32: the site of each page in the queue, and in the graph.
    local_of, graph_of
        The id maps of `GraphPages`, in which the seeds already have ids and are waiting.
    """

    indptr: NDArray[np.int64]
    indices: PageIds
    page_sites: PageIds
    graph_sites: PageIds
    local_of: PageIds
    graph_of: PageIds


class Evidence(NamedTuple):
    """What a rule reads and writes.

    keys
        By local id, a view of those in the queue.
    scores
        The first key of each page of the graph, NaN where the rule decides; or empty.
    numbers, sites, addresses
        As for a rule; `sites` is empty if it does not read them.
    changed, before
        As in the state of the rule.
    changes_known
        Whether keys of known pages may change.
    targets, old_keys
        Scratch space for the links of any page.
    """

    keys: Floats
    scores: Floats
    numbers: Floats
    sites: PageIds
    addresses: Addresses
    changed: PageIds
    before: Floats
    changes_known: bool
    targets: PageIds
    old_keys: Floats


@njit(inline="always")
def apply_visit(
    rule: VisitRule, web: Web, known: Evidence, graph_page: int, page: int, n_known: int
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
        elif known.changes_known:
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
    pages: Records,
    sites: Records,
    heap: Entries,
    totals: Records,
    first: int,
    last: int,
    page_sites: PageIds,
    graph_of: PageIds,
) -> None:
    """Push the pages first, ..., last - 1 with the keys in their records."""
    for new in range(first, last):
        site = wide(page_sites[graph_of[new]])
        heaps.push(pages, sites, heap, totals, new, site, wide(0), pages[new].key)


@njit(inline="always")
def visit_page(
    rule: VisitRule,
    web: Web,
    known: Evidence,
    queue: Queue,
    graph_page: int,
    page: int,
    n_known: int,
) -> int:
    """Observe the visit of a leased page; return the number of known pages after it.

    Queues the new targets and moves waiting pages whose keys changed.
    """
    first = n_known
    n_known, n_links, n_changed = apply_visit(rule, web, known, graph_page, page, n_known)
    pages, sites, heap, totals = queue
    push_found(pages, sites, heap, totals, first, n_known, web.page_sites, web.graph_of)
    if known.changes_known:
        links = known.targets[:n_links]
        bulk.resettle_changed(pages, sites, heap, totals, first, links, known.old_keys)
        if n_changed > 0:
            others = known.changed[:n_changed]
            bulk.resettle_changed(pages, sites, heap, totals, first, others, known.before)
    return n_known


def _fetch_pages(
    rule: VisitRule,
    web: Web,
    known: Evidence,
    queue: Queue,
    progress: Records,
    order: PageIds,
    until: int,
    while_ranked_wait: bool,
) -> None:
    """Fetch pages until `until` are fetched or none is waiting; call it again to continue.

    All pages wait in the heap of site 0; leases, counts of waiting pages and the site heaps are not
    updated. Takes about 0.25 microseconds for a page of ten links. Each link costs a lookup in
    `local_of` and, if it may change a key, one in the record of its target.

    Parameters
    ----------
    rule
        The visit rule of the ordering.
    progress
        One `PROGRESS` row, updated in place.
    order
        int32: output; pages of the graph in the order fetched.
    until
        Total number of fetches at which to stop.
    while_ranked_wait
        Also stop as soon as no page below `n_ranked` is waiting.
    """
    indptr, graph_of = web.indptr, web.graph_of
    keys, targets, changed = known.keys, known.targets, known.changed
    pages, sites = queue.pages, queue.sites
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
        if known.changes_known:
            for k in range(n_links):
                target = wide(targets[k])
                if target < first and pages[target].state == WAITING:
                    key = keys[target]
                    if key != known.old_keys[k]:
                        rises = key > known.old_keys[k]
                        root = pairing.resettle(pages, root, target, rises)
            for k in range(n_changed):
                page = wide(changed[k])
                if page < first and pages[page].state == WAITING:
                    rises = keys[page] > known.before[k]
                    root = pairing.resettle(pages, root, page, rises)
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
