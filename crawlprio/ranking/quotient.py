"""Reduction of a link graph for PageRank: lump equal rows, order by component.

Rows are given by start and length, targets by page id.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from crawlprio.graph.arrays import Ints, Longs
from crawlprio.graph.compiled import njit

NO_GROUP = -1
"""The group of a page without out-links."""


@njit(cache=True, nogil=True)
def lump_equal_rows(
    row_start: Longs, row_length: Ints, indices: Ints
) -> tuple[Ints, Ints, NDArray[np.float64]]:
    """Return (group of each page, one page of each group, number of pages in each group).

    Pages whose rows list the same targets in the same order share a group. Groups are numbered in
    order of their first page; a page without out-links has `NO_GROUP`. One pass, with a hash table.
    """
    n_pages = len(row_start)
    bits = 4
    while (1 << bits) < 2 * n_pages:
        bits += 1
    mask = (1 << bits) - 1
    table = np.full(1 << bits, NO_GROUP, dtype=np.int32)
    hashes = np.empty(n_pages, dtype=np.uint64)
    group = np.empty(n_pages, dtype=np.int32)
    chosen = np.empty(n_pages, dtype=np.int32)
    weight = np.zeros(n_pages, dtype=np.float64)
    n_groups = 0
    odd = np.uint64(0x9E3779B97F4A7C15)
    for i in range(n_pages):
        length = row_length[i]
        if length == 0:
            group[i] = NO_GROUP
            continue
        start = row_start[i]
        code = np.uint64(length)
        for k in range(start, start + length):
            code = (code ^ np.uint64(indices[k])) * odd
            code ^= code >> np.uint64(29)
        slot = np.int64(code >> np.uint64(64 - bits))
        while True:
            g = table[slot]
            if g == NO_GROUP:
                g = n_groups
                table[slot] = g
                chosen[g] = i
                hashes[g] = code
                n_groups += 1
                break
            if hashes[g] == code and row_length[chosen[g]] == length:
                other = row_start[chosen[g]]
                k = 0
                while k < length and indices[other + k] == indices[start + k]:
                    k += 1
                if k == length:
                    break
            slot = (slot + 1) & mask
        group[i] = g
        weight[g] += 1.0
    return group, chosen[:n_groups].copy(), weight[:n_groups].copy()


@njit(cache=True, nogil=True)
def quotient(
    row_start: Longs, row_length: Ints, indices: Ints, group: Ints, chosen: Ints
) -> tuple[Longs, Ints]:
    """Return the links between groups as (indptr, targets); links to `NO_GROUP` are left out.

    A group that one row links to several times is listed as many times.
    """
    n_groups = len(chosen)
    indptr = np.zeros(n_groups + 1, dtype=np.int64)
    n_links = 0
    for g in range(n_groups):
        n_links += row_length[chosen[g]]
    targets = np.empty(n_links + 1, dtype=np.int32)
    n_links = 0
    for g in range(n_groups):
        start = row_start[chosen[g]]
        for k in range(start, start + row_length[chosen[g]]):
            target = group[indices[k]]
            targets[n_links] = target
            n_links += target != NO_GROUP
        indptr[g + 1] = n_links
    return indptr, targets[:n_links].copy()


@njit(cache=True, nogil=True)
def order_by_component(indptr: Longs, targets: Ints) -> tuple[Ints, Longs]:
    """Return (position of each node, bounds), with components in topological order.

    Component c has the positions bounds[c]..bounds[c + 1] - 1; links between components lead to
    later ones. Within a component, nodes are in reverse postorder of the depth-first search, so
    that only links to an ancestor in the search lead backward.

    Source: Tarjan, Depth-first search and linear graph algorithms, SIAM J. Comput. 1972, with an
    explicit stack.
    """
    n = len(indptr) - 1
    index = np.zeros(n, dtype=np.int32)
    low = np.zeros(n, dtype=np.int32)
    following = np.empty(n, dtype=np.int64)
    stack = np.empty(n, dtype=np.int32)
    path = np.empty(n, dtype=np.int32)
    stacked = np.zeros(n, dtype=np.bool_)
    finished = np.empty(n, dtype=np.int32)
    component = np.empty(n, dtype=np.int32)
    n_indexed = 0
    n_stacked = 0
    n_finished = 0
    n_components = 0
    for root in range(n):
        if index[root] != 0:
            continue
        depth = 0
        entering = root
        while True:
            if entering >= 0:
                n_indexed += 1
                index[entering] = n_indexed
                low[entering] = n_indexed
                following[entering] = indptr[entering]
                stack[n_stacked] = entering
                n_stacked += 1
                stacked[entering] = True
                path[depth] = entering
                depth += 1
                entering = -1
            v = path[depth - 1]
            k = following[v]
            lowest = low[v]
            while k < indptr[v + 1]:
                w = targets[k]
                k += 1
                if index[w] == 0:
                    entering = w
                    break
                if stacked[w] and index[w] < lowest:
                    lowest = index[w]
            following[v] = k
            low[v] = lowest
            if entering >= 0:
                continue
            finished[n_finished] = v
            n_finished += 1
            if lowest == index[v]:
                w = -1
                while w != v:
                    n_stacked -= 1
                    w = stack[n_stacked]
                    stacked[w] = False
                    component[w] = n_components
                n_components += 1
            depth -= 1
            if depth == 0:
                break
            parent = path[depth - 1]
            low[parent] = min(low[parent], lowest)

    # Components are numbered from the sinks and nodes finish from the leaves: reverse both.
    begin = np.zeros(n_components + 1, dtype=np.int64)
    for v in range(n):
        begin[component[v] + 1] += 1
    for c in range(n_components):
        begin[c + 1] += begin[c]
    bounds = n - begin[::-1]
    position = np.empty(n, dtype=np.int32)
    for k in range(n):
        v = finished[k]
        position[v] = n - 1 - begin[component[v]]
        begin[component[v]] += 1
    return position, bounds


@njit(cache=True, nogil=True)
def transpose(indptr: Longs, targets: Ints, position: Ints) -> tuple[Longs, Ints]:
    """Return the in-links as (indptr, sources), with every node renumbered to its position.

    A counting sort, O(nodes + links); the sources of a node are in ascending order.
    """
    n = len(indptr) - 1
    starts = np.zeros(n + 2, dtype=np.int64)
    for k in range(len(targets)):
        starts[position[targets[k]] + 2] += 1
    for p in range(n):
        starts[p + 2] += starts[p + 1]
    node = np.empty(n, dtype=np.int32)
    for v in range(n):
        node[position[v]] = v
    sources = np.empty(len(targets), dtype=np.int32)
    for p in range(n):
        v = node[p]
        for k in range(indptr[v], indptr[v + 1]):
            target = position[targets[k]]
            sources[starts[target + 1]] = p
            starts[target + 1] += 1
    return starts[: n + 1].copy(), sources
