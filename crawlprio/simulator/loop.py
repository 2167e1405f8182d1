"""The compiled loop of an order-only simulation: fetch, learn, next, all in arrays.

It knows the rules of `crawlprio.orderings.kernels` and the queue of `crawlprio.frontier.heaps`, no
Python objects.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from crawlprio.compiled import njit
from crawlprio.frontier import heaps
from crawlprio.frontier.records import LEASED, WAITING, Entries, Records
from crawlprio.orderings import kernels
from crawlprio.pages import PageIds

RULES = np.dtype(
    [
        ("first_key_rule", np.int64),
        ("evidence_rule", np.int64),
        ("new_key", np.float64),
        ("random_seed", np.int64),
    ],
    align=True,
)
"""What a `CompiledOrdering` says of itself."""

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
"""How far a simulation is. `n_links` are those of the pages fetched. Pages with a local id below
`n_ranked` were known when keys were last computed anew; `n_ranked_waiting` of them wait."""


@njit(cache=True)
def take_links(
    indptr: NDArray[np.int64],
    indices: PageIds,
    page_sites: PageIds,
    scores: NDArray[np.float64],
    local_of: PageIds,
    graph_of: PageIds,
    rules: Records,
    table: NDArray[np.float64],
    n_ranked: int,
    pages: Records,
    sites: Records,
    heap: Entries,
    totals: Records,
    graph_page: int,
    page: int,
    n_visits: int,
    n_known: int,
) -> int:
    """Learn from the visit of a leased page, number `n_visits` from 1; return the pages known then.

    New targets wait from now on; keys of targets that wait or are leased change as the rules say.
    Parameters are those of `fetch_pages`.
    """
    first_key_rule = rules[0].first_key_rule
    evidence_rule = rules[0].evidence_rule
    new_key = rules[0].new_key
    random_seed = rules[0].random_seed
    first = indptr[graph_page]
    n_links = indptr[graph_page + 1] - first
    key = pages[page].key
    parent_share = key / n_links if n_links > 0 else 0.0
    share = kernels.share_of_link(evidence_rule, key, n_links)
    for k in range(first, first + n_links):
        graph_target = indices[k]
        target = local_of[graph_target]
        if target >= 0:
            if share != 0.0 and not (evidence_rule == kernels.SHARE_VALUE and target < n_ranked):
                state = pages[target].state
                if state == WAITING:
                    heaps.rekey(
                        pages,
                        sites,
                        heap,
                        totals,
                        target,
                        0,
                        pages[target].key + share,
                    )
                elif state == LEASED:
                    pages[target].key += share
            continue
        target = n_known
        n_known += 1
        local_of[graph_target] = target
        graph_of[target] = graph_target
        first_key = np.nan if len(scores) == 0 else scores[graph_target]
        if np.isnan(first_key):
            first_key = kernels.first_key(
                first_key_rule, new_key, random_seed, table, target, n_visits, key, parent_share
            )
        heaps.push(
            pages,
            sites,
            heap,
            totals,
            target,
            page_sites[graph_target],
            0,
            first_key + share,
        )
    return n_known


@njit(cache=True)
def fetch_pages(
    indptr: NDArray[np.int64],
    indices: PageIds,
    page_sites: PageIds,
    scores: NDArray[np.float64],
    local_of: PageIds,
    graph_of: PageIds,
    order: PageIds,
    rules: Records,
    table: NDArray[np.float64],
    progress: Records,
    pages: Records,
    sites: Records,
    heap: Entries,
    totals: Records,
    until: int,
    while_ranked_wait: bool,
) -> None:
    """Fetch page after page until `until` are fetched or none waits; call it again to go on.

    One pass over the links of a page discovers, keys and queues its new targets and brings the keys
    of waiting ones up to date. Some 0.6 microseconds for a page of ten links; a link costs a look
    into `local_of` and, where it may change a key, into the record of its target.

    Parameters
    ----------
    indptr, indices
        the link graph.
    page_sites
        int32, shape (n_pages,): the site of each page of the graph.
    scores
        float64, shape (n_pages,): first key of each page of the graph, NaN where the rule decides;
        empty: the rule decides everywhere.
    local_of, graph_of
        ids as in `GraphPages`; the seeds have theirs and wait.
    order
        int32: filled with the pages of the graph in the order fetched.
    rules, table
        the ordering: one `RULES` row, and its values for `RANDOM_OF_TABLE`.
    progress
        one `PROGRESS` row, brought up to date.
    pages, sites, heap, totals
        the queue of `heaps`, pages by local id.
    until
        fetches in all after which to stop.
    while_ranked_wait
        stop too as soon as no page below `n_ranked` waits.
    """
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
        n_known = take_links(
            indptr,
            indices,
            page_sites,
            scores,
            local_of,
            graph_of,
            rules,
            table,
            n_ranked,
            pages,
            sites,
            heap,
            totals,
            graph_page,
            page,
            n_fetched,
            n_known,
        )
        heaps.release(pages, sites, heap, totals, page)
    progress[0].n_fetched = n_fetched
    progress[0].n_known = n_known
    progress[0].n_links = n_links_seen
    progress[0].n_ranked_waiting = n_ranked_waiting


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

    Rows lie in the order fetched; pages not fetched have none. O(pages known + links), 4 bytes per
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
