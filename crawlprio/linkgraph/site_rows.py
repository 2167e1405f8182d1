"""The compiled generator of a synthetic web's links, written site by site into one array."""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from crawlprio.compiled import njit
from crawlprio.linkgraph.sites import GrowthParameters, SiteLinks, Sites

Ints = NDArray[np.int32]
Longs = NDArray[np.int64]
Floats = NDArray[np.float64]
State = NDArray[np.uint64]


class Scratch(NamedTuple):
    """Scratch arrays on the pages of the current site, indexed by position within the site.

    `linking` is the last page up to each position that has links. `marks` holds, for each page of
    the web, the last page that was found to link to it; `state` is that of the random generator.
    """

    model: Ints
    parent: Ints
    linking: Ints
    linked: NDArray[np.bool_]
    length: Floats
    child_start: Ints
    children: Ints
    row_start: Longs
    n_written: Ints
    marks: Ints
    state: State


@njit(cache=True, inline="always")
def _uniform(state: State) -> float:
    """Return the next number of SplitMix64 (Steele, Lea & Flood 2014), 0 <= number < 1."""
    state[0] += np.uint64(0x9E3779B97F4A7C15)
    z = state[0]
    z = (z ^ (z >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    z = (z ^ (z >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    z = z ^ (z >> np.uint64(31))
    return float(np.float64(z >> np.uint64(11)) * 2.0**-53)


@njit(cache=True, inline="always")
def _log_uniform(state: State, n: int) -> int:
    """Draw a log-uniform whole number from 1 to n: each doubling is equally likely."""
    return min(int(math.exp(_uniform(state) * math.log(n + 1.0))), n)


@njit(cache=True)
def _drawn_length(state: State, growth: GrowthParameters) -> float:
    """Draw a length of 1 or more from the power law."""
    drawn = (1.0 - _uniform(state)) ** (-1.0 / (growth.tail - 1.0))
    return float(min(drawn, growth.longest))


@njit(cache=True, nogil=True)
def plan_site(
    site: int, sites: Sites, growth: GrowthParameters, seed: int, scratch: Scratch
) -> int:
    """Choose model, parent and length of each page; return an upper bound on the links."""
    state = scratch.state
    state[0] = np.uint64(seed) * np.uint64(0xD1B54A32D192ED03) + np.uint64(site)
    state[0] *= np.uint64(0x9E3779B97F4A7C15)
    n = sites.starts[site + 1] - sites.starts[site]
    dangling, orphans = sites.dangling[site], sites.orphans[site]
    model, parent, linking, linked, length = scratch[:5]
    model[0] = 0
    parent[0] = 0
    linking[0] = 0
    linked[0] = False
    length[0] = _drawn_length(state, growth)
    total = length[0]
    n_linked = 0
    for p in range(1, n):
        recent = _uniform(state) < growth.recent
        earlier = p - _log_uniform(state, p) if recent else int(_uniform(state) * p)
        q = linking[earlier]
        model[p] = q
        parent[p] = parent[q] if _uniform(state) < growth.sibling else q
        linked[p] = _uniform(state) >= orphans
        n_linked += linked[p]
        length[p] = length[q]
        if _uniform(state) < growth.new_length:
            length[p] = _drawn_length(state, growth)
        linking[p] = p
        if _uniform(state) < dangling:
            linking[p] = linking[p - 1]
        else:
            total += length[p]
    scale = sites.n_wanted[site] / total
    n_most = n_linked
    for p in range(n):
        length[p] *= scale
        if linking[p] == p:
            n_most += int(length[p]) + 1
    return n_most


@njit(cache=True)
def _hang_children(n: int, scratch: Scratch) -> None:
    """List the linked children of each page, in page order, by a counting sort."""
    parent, linked = scratch.parent, scratch.linked
    child_start, children = scratch.child_start, scratch.children
    child_start[: n + 2] = 0
    for p in range(1, n):
        if linked[p]:
            child_start[parent[p] + 2] += 1
    for p in range(n):
        child_start[p + 2] += child_start[p + 1]
    for p in range(1, n):
        if linked[p]:
            children[child_start[parent[p] + 1]] = p
            child_start[parent[p] + 1] += 1


@njit(cache=True)
def _page_elsewhere(
    row: int, starts: Longs, links: SiteLinks, growth: GrowthParameters, state: State
) -> tuple[int, int]:
    """Draw a site from a row of site links, and a page of it."""
    low, high = links.indptr[row], links.indptr[row + 1] - 1
    wanted = _uniform(state) * links.sums[high]
    while low < high:
        middle = (low + high) >> 1
        if links.sums[middle] > wanted:
            high = middle
        else:
            low = middle + 1
    site = links.targets[low]
    target = starts[site]
    if _uniform(state) >= growth.to_home:
        target += _log_uniform(state, starts[site + 1] - target) - 1
    return site, target


@njit(cache=True, nogil=True)
def write_site(
    site: int,
    sites: Sites,
    links: SiteLinks,
    growth: GrowthParameters,
    scratch: Scratch,
    indices: Ints,
    at: int,
) -> int:
    """Write the rows of a planned site from `indices[at]` on; return their end."""
    first = sites.starts[site]
    n = sites.starts[site + 1] - first
    row = links.row_of[site]
    between = sites.between[site]
    if row < 0:
        between = 0.0
    elif n == 1:
        between = 1.0
    _hang_children(n, scratch)
    model, _, linking, _, length, child_start, children, row_start, n_written = scratch[:9]
    marks, state = scratch.marks, scratch.state
    for p in range(n):
        row_start[p] = at
        n_written[p] = 0
        if linking[p] != p:
            continue
        page = first + p
        marks[page] = page
        copies = row_start[model[p]]
        n_copies = n_written[model[p]]
        for k in range(int(length[p] + _uniform(state))):
            if k < n_copies and _uniform(state) < growth.copied:
                target = indices[copies + k]
            elif _uniform(state) < between:
                other, target = _page_elsewhere(row, sites.starts, links, growth, state)
                if other == site:
                    continue
            elif p > 0 and _uniform(state) < growth.near:
                target = page - _log_uniform(state, p)
            else:
                target = first + _log_uniform(state, n) - 1
            if marks[target] != page:
                marks[target] = page
                indices[at] = target
                at += 1
        n_written[p] = at - row_start[p]
        for k in range(child_start[p], child_start[p + 1]):
            target = first + children[k]
            if marks[target] != page:
                marks[target] = page
                indices[at] = target
                at += 1
    return at


@njit(cache=True)
def _scratch(starts: Longs) -> Scratch:
    """Return scratch arrays with room for the largest site."""
    n = (starts[1:] - starts[:-1]).max()
    return Scratch(
        np.empty(n, np.int32),
        np.empty(n, np.int32),
        np.empty(n, np.int32),
        np.empty(n, np.bool_),
        np.empty(n, np.float64),
        np.empty(n + 2, np.int32),
        np.empty(n, np.int32),
        np.empty(n, np.int64),
        np.empty(n, np.int32),
        np.full(starts[-1], -1, np.int32),
        np.empty(1, np.uint64),
    )


@njit(cache=True, nogil=True)
def count_links(
    chosen: Longs, sites: Sites, links: SiteLinks, growth: GrowthParameters, seed: int
) -> tuple[Longs, Longs]:
    """Return how many links, and links to other sites, `write_web` writes for each chosen site.

    Costs as much as writing them.
    """
    scratch = _scratch(sites.starts)
    n_links = np.zeros(len(chosen), dtype=np.int64)
    n_between = np.zeros(len(chosen), dtype=np.int64)
    for i, site in enumerate(chosen):
        first, end = sites.starts[site], sites.starts[site + 1]
        row = np.empty(plan_site(site, sites, growth, seed, scratch), dtype=np.int32)
        n_links[i] = write_site(site, sites, links, growth, scratch, row, 0)
        for k in range(n_links[i]):
            n_between[i] += row[k] < first or row[k] >= end
    return n_links, n_between


@njit(cache=True, nogil=True)
def most_links(sites: Sites, growth: GrowthParameters, seed: int) -> int:
    """Return an upper bound on the links that `write_web` writes, from the plans alone."""
    scratch = _scratch(sites.starts)
    n_most = 0
    for site in range(len(sites.dangling)):
        n_most += plan_site(site, sites, growth, seed, scratch)
    return n_most


@njit(cache=True, nogil=True)
def write_web(
    sites: Sites,
    links: SiteLinks,
    growth: GrowthParameters,
    seed: int,
    indptr: Longs,
    indices: Ints,
) -> int:
    """Fill `indptr` and `indices` with distinct links, no self-links; return their number."""
    scratch = _scratch(sites.starts)
    at = 0
    for site in range(len(sites.dangling)):
        plan_site(site, sites, growth, seed, scratch)
        at = write_site(site, sites, links, growth, scratch, indices, at)
        first = sites.starts[site]
        for p in range(sites.starts[site + 1] - first):
            indptr[first + p] = scratch.row_start[p]
    indptr[-1] = at
    return at
