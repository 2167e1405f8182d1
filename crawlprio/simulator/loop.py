"""The compiled loop of an order-only simulation: fetch, observe, repeat, all on arrays."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from crawlprio.compiled import njit
from crawlprio.frontier import bulk, heaps, pairing
from crawlprio.frontier.records import DONE, NONE, WAITING, Entries, Records
from crawlprio.orderings.rules import RuleLoop, State, VisitRule
from crawlprio.pages import PageIds

Arrays = tuple[Any, ...]

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


@njit(inline="always")
def apply_visit(
    rule: VisitRule,
    state: State,
    graph: Arrays,
    ordering: Arrays,
    graph_page: int,
    page: int,
    n_known: int,
) -> tuple[int, int, int]:
    """Apply a rule to the visit of a page, writing its links as local ids into `targets`.

    Parameters as for `fetch_pages`. Returns the number of known pages after the visit, the number
    of links, and the number of pages that the rule wrote into `changed`. The caller updates the
    queue.
    """
    indptr, indices, _, graph_sites, local_of, graph_of = graph
    keys, scores, numbers, targets, old_keys, changes_known, known_sites, _, _ = ordering
    first = n_known
    begin = indptr[graph_page]
    n_links = indptr[graph_page + 1] - begin
    for k in range(n_links):
        graph_target = indices[begin + k]
        target = local_of[graph_target]
        if target < 0:
            target = n_known
            n_known += 1
            local_of[graph_target] = target
            graph_of[target] = graph_target
            if len(known_sites) > 0:
                known_sites[target] = graph_sites[graph_target]
        elif changes_known:
            old_keys[k] = keys[target]
        targets[k] = target
    links = targets[:n_links]
    if len(scores) == 0:
        n_changed = rule(keys, page, links, first, n_known, False, numbers, *state)
    else:
        rule(keys, page, links, first, n_known, True, numbers, *state)
        for new in range(first, n_known):
            score = scores[graph_of[new]]
            if not np.isnan(score):
                keys[new] = score
        n_changed = rule(keys, page, links, n_known, n_known, False, numbers, *state)
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
        site = page_sites[graph_of[new]]
        heaps.push(pages, sites, heap, totals, new, site, 0, pages[new].key)


@njit(inline="always")
def visit_page(
    rule: VisitRule,
    state: State,
    graph: Arrays,
    ordering: Arrays,
    queue: Arrays,
    graph_page: int,
    page: int,
    n_known: int,
) -> int:
    """Observe the visit of a leased page; return the number of known pages after it.

    Queues the new targets and moves waiting pages whose keys changed. Parameters as for
    `fetch_pages`.
    """
    first = n_known
    n_known, n_links, n_changed = apply_visit(
        rule, state, graph, ordering, graph_page, page, n_known
    )
    page_sites, graph_of = graph[2], graph[5]
    _, _, _, targets, old_keys, changes_known, _, changed, before = ordering
    pages, sites, heap, totals = queue
    push_found(pages, sites, heap, totals, first, n_known, page_sites, graph_of)
    if changes_known:
        bulk.resettle_changed(pages, sites, heap, totals, first, targets[:n_links], old_keys)
        if n_changed > 0:
            bulk.resettle_changed(pages, sites, heap, totals, first, changed[:n_changed], before)
    return n_known


def _fetch_pages(
    rule: VisitRule,
    state: State,
    graph: Arrays,
    ordering: Arrays,
    queue: Arrays,
    progress: Records,
    order: PageIds,
    until: int,
    while_ranked_wait: bool,
) -> None:
    """Fetch pages until `until` are fetched or none is waiting; call it again to continue.

    Takes about 0.25 microseconds for a page of ten links. Each link costs a lookup in `local_of`
    and, if it may change a key, one in the record of its target.

    Parameters
    ----------
    rule, state
        The visit rule of the ordering, and its state.
    graph
        (indptr, indices, page_sites, graph_sites, local_of, graph_of): the link graph; the site of
        each page in the queue and in the graph, int32, shape (n_pages,); the id maps of
        `GraphPages`, in which the seeds already have ids and are waiting.
    ordering
        (keys, scores, numbers, targets, old_keys, changes_known, known_sites, changed, before): the
        keys by local id, a view of those in the queue; the first key of each page of the graph,
        float64, shape (n_pages,), NaN where the rule decides, or empty; `numbers` of the rule;
        int32 and float64 scratch space for the links of any page; whether keys of known pages may
        change; the last three arrays of the state, or empty.
    queue
        (pages, sites, heap, totals) of `heaps`, pages by local id.
    progress
        One `PROGRESS` row, updated in place.
    order
        int32: output; pages of the graph in the order fetched.
    until
        Total number of fetches at which to stop.
    while_ranked_wait
        Also stop as soon as no page below `n_ranked` is waiting.
    """
    indptr, graph_of = graph[0], graph[5]
    pages, sites, heap, totals = queue
    n_ranked = progress[0].n_ranked
    n_ranked_waiting = progress[0].n_ranked_waiting
    n_fetched = progress[0].n_fetched
    n_known = progress[0].n_known
    n_links_seen = progress[0].n_links
    while n_fetched < until and not (while_ranked_wait and n_ranked_waiting == 0):
        page = heaps.pop(pages, sites, heap, totals, 0.0)
        if page < 0:
            break
        graph_page = graph_of[page]
        order[n_fetched] = graph_page
        n_fetched += 1
        if page < n_ranked:
            n_ranked_waiting -= 1
        n_links_seen += indptr[graph_page + 1] - indptr[graph_page]
        n_known = visit_page(rule, state, graph, ordering, queue, graph_page, page, n_known)
        heaps.release(pages, sites, heap, totals, page)
    progress[0].n_fetched = n_fetched
    progress[0].n_known = n_known
    progress[0].n_links = n_links_seen
    progress[0].n_ranked_waiting = n_ranked_waiting


def _fetch_best_pages(
    rule: VisitRule,
    state: State,
    graph: Arrays,
    ordering: Arrays,
    queue: Arrays,
    progress: Records,
    order: PageIds,
    until: int,
    while_ranked_wait: bool,
) -> None:
    """Do the same as `fetch_pages` if sites do not matter: all pages wait in the heap of site 0.

    Leases, counts of waiting pages and the site heaps are not updated.
    """
    indptr, graph_of = graph[0], graph[5]
    keys, _, _, targets, old_keys, changes_known, _, changed, before = ordering
    pages, sites, _, _ = queue
    root = sites[0].head
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
        n_known, n_links, n_changed = apply_visit(
            rule, state, graph, ordering, graph_page, page, n_known
        )
        for new in range(first, n_known):
            pages[new].state = WAITING
            pairing.isolate(pages, new)
            root = pairing.add(pages, root, new)
        if changes_known:
            for k in range(n_links):
                target = targets[k]
                if target < first and pages[target].state == WAITING:
                    key = keys[target]
                    if key != old_keys[k]:
                        root = pairing.resettle(pages, root, target, key > old_keys[k])
            for k in range(n_changed):
                page = changed[k]
                if page < first and pages[page].state == WAITING:
                    root = pairing.resettle(pages, root, page, keys[page] > before[k])
    sites[0].head = root
    progress[0].n_fetched = n_fetched
    progress[0].n_known = n_known
    progress[0].n_links = n_links_seen
    progress[0].n_ranked_waiting = n_ranked_waiting


fetch_pages = RuleLoop(_fetch_pages)
fetch_best_pages = RuleLoop(_fetch_best_pages)


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

    Rows are in the order fetched; pages not fetched have none. O(known pages + links), 4 bytes per
    link and 12 per page.
    """
    row_start = np.zeros(n_known, dtype=np.int64)
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
