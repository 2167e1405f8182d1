"""PageRank of arrays of links: whole, partial and after changes, component by component.

Unknowns are numbered by position in the solving order; `share` is the fraction of an unknown's
total that one of its links carries.

Before that, pages with equal rows are lumped, and ordered by component. Every kernel releases the
GIL.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from crawlprio.errors import GraphError
from crawlprio.graph.arrays import Floats, Ints, Longs, flat, integers, numbers
from crawlprio.graph.compiled import njit
from crawlprio.graph.linkgraph import LinkGraph, transposed_rows

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


def with_room(array: NDArray[Any], n: int, fill: int = 0) -> NDArray[Any]:
    """Return the array if it has at least n elements, or else a longer copy padded with `fill`.

    A copy is at least twice as long, so that growing by one element is amortised O(1).
    """
    if n <= len(array):
        return array
    # Memory from `zeros` is taken when it is first written to.
    room = np.zeros(max(n, 2 * len(array), 64), dtype=array.dtype)
    room[: len(array)] = array
    if fill:
        room[len(array) :] = fill
    return room


OVER_RELAXATION = 1.1
"""Relaxation factor of the sweeps for as long as they contract."""

TRIAL_SWEEPS = 8
"""Number of sweeps in which the change must fall by 10 %, or plain Gauss-Seidel takes over."""

LEAST_TO_EXTRAPOLATE = 64
"""Minimum number of unknowns for which extrapolation between sweeps pays off."""

MOST_SWEEPS = 10_000
"""Maximum number of sweeps per component."""


class Unknowns(NamedTuple):
    """A system `carried[p] = share[p] * (base[p] + sum(carried[sources of p]))`, and its solution.

    The sources of p are `sources[in_start[p]:in_start[p + 1]]`.
    """

    in_start: Longs
    sources: Ints
    base: Floats
    share: Floats
    carried: Floats


@njit(cache=True, nogil=True)
def solve_component(
    first: int, end: int, of: Unknowns, tolerance: float, relative_tolerance: float, max_sweeps: int
) -> int:
    """Solve for the unknowns first <= p < end.

    Sweeps by successive over-relaxation, and extrapolates from the last three sweeps after each
    (Anderson, Iterative procedures for nonlinear integral equations, J. ACM 1965, depth 2). If that
    does not contract, continues with plain Gauss-Seidel, which always converges because the system
    is an M-matrix.

    Returns the number of sweeps, or `max_sweeps + 1` if the last sweep still changed the totals by
    more than `tolerance * sum(base)`, or one of them by more than `relative_tolerance` of itself.
    """
    size = end - first
    if size == 1:
        _solve_alone(first, of)
        return 1
    bound = 0.0
    for p in range(first, end):
        bound += tolerance * of.base[p]
    extrapolating = size >= LEAST_TO_EXTRAPOLATE
    room = size if extrapolating else 0
    start = of.carried[first : first + room].copy()
    steps = np.zeros((3, room), dtype=np.float64)
    ends = np.zeros((3, room), dtype=np.float64)
    relaxation = OVER_RELAXATION
    before = np.inf
    for sweep in range(1, max_sweeps + 1):
        change, steady = _sweep(first, end, of, relaxation, relative_tolerance)
        if steady and change <= bound:
            return sweep
        if relaxation > 1.0 and sweep % TRIAL_SWEEPS == 0:
            if not change < 0.9 * before:
                relaxation = 1.0
                extrapolating = False
            before = change
        if extrapolating:
            _extrapolate(of.carried[first:end], start, steps, ends, sweep)
    return max_sweeps + 1


@njit(cache=True, nogil=True)
def _solve_alone(p: int, of: Unknowns) -> None:
    """Solve one unknown, which may have links to itself."""
    in_start, sources, base, share, carried = of
    n_own = 0
    total = base[p]
    for k in range(in_start[p], in_start[p + 1]):
        if sources[k] == p:
            n_own += 1
        else:
            total += carried[sources[k]]
    carried[p] = total * share[p] / (1.0 - n_own * share[p])


@njit(cache=True, nogil=True)
def _sweep(
    first: int, end: int, of: Unknowns, relaxation: float, relative_tolerance: float
) -> tuple[float, bool]:
    """Update each unknown in turn; return (sum of changes of totals, whether all were small)."""
    in_start, sources, base, share, carried = of
    change = 0.0
    steady = True
    for p in range(first, end):
        total = base[p]
        for k in range(in_start[p], in_start[p + 1]):
            total += carried[sources[k]]
        step = total * share[p] - carried[p]
        change += abs(step) / share[p]
        if abs(step) > relative_tolerance * carried[p]:
            steady = False
        carried[p] += relaxation * step
    return change, steady


@njit(cache=True, nogil=True)
def _extrapolate(values: Floats, start: Floats, steps: Floats, ends: Floats, sweep: int) -> None:
    """Extrapolate `values`, the end of a sweep from `start`, to minimise the next sweep's step.

    Rows 0 and 1 of `steps` and `ends` hold the last two differences between successive sweeps, row
    2 the values of the last sweep itself. The new values become the next `start`.
    """
    new = sweep & 1
    old = 1 - new
    new_new = 0.0
    new_old = 0.0
    new_step = 0.0
    old_step = 0.0
    old_old = 0.0
    for i in range(len(values)):
        step = values[i] - start[i]
        if sweep > 1:
            difference = step - steps[2, i]
            earlier = steps[old, i]
            steps[new, i] = difference
            ends[new, i] = values[i] - ends[2, i]
            new_new += difference * difference
            new_old += difference * earlier
            old_old += earlier * earlier
            new_step += difference * step
            old_step += earlier * step
        steps[2, i] = step
        ends[2, i] = values[i]
    by_new = 0.0
    by_old = 0.0
    determinant = new_new * old_old - new_old * new_old
    if determinant > 1e-12 * new_new * old_old:
        by_new = (new_step * old_old - old_step * new_old) / determinant
        by_old = (old_step * new_new - new_step * new_old) / determinant
    elif new_new > 0.0:
        by_new = new_step / new_new
    for i in range(len(values)):
        values[i] -= by_new * ends[new, i] + by_old * ends[old, i]
        start[i] = values[i]


def pagerank(
    indptr: NDArray[Any],
    indices: NDArray[Any],
    *,
    damping: float = 0.85,
    tolerance: float = 1e-10,
) -> Floats:
    """Return the PageRank of every page, a vector that sums to 1 and is bitwise reproducible.

    Teleport is uniform and dangling pages spread their mass uniformly, so the vector is the
    solution of `(I - damping P) y = 1`, divided by its sum, where P has no entries for dangling
    pages. The system is reduced without changing its solution and then solved in topological order:

    1. Pages with equal rows become one unknown, because only their sum affects other pages, and
       dangling pages are eliminated. This is exact lumping (Lee, Golub & Zenios, A fast two-stage
       algorithm for computing PageRank, 2003, for the dangling pages; here for every set of equal
       rows).
    2. Strongly connected components are solved one after the other in topological order, as in
       Gleich, Gray, Greif & Lau, An inner-outer iteration for computing PageRank, SIAM J. Sci.
       Comput. 2010, section 5, and the PRPACK library.
    3. A component is swept in reverse postorder by over-relaxation with extrapolation, or, if that
       does not contract, by plain Gauss-Seidel, which always converges (`component`).

    Parameters
    ----------
    indptr
        Integers, shape (n_pages + 1,): the row of page i is `indices[indptr[i]:indptr[i + 1]]`.
    indices
        Integers, shape (n_links,): targets. A target listed twice counts twice; a self-link is a
        link.
    damping
        Probability of following a link, 0 <= damping < 1.
    tolerance
        Upper bound on the L1 change in the last iteration, for a vector that sums to 1; > 0.

    Returns
    -------
    float64, shape (n_pages,).

    Raises
    ------
    GraphError
        If an argument is out of bounds, or a component needs more sweeps than `MOST_SWEEPS`.

    Notes
    -----
    Cost: about 12 bytes of memory per link, and at 1e-10 the time of 15 to 25 passes over the links
    on ordinary webs.
    """
    graph = LinkGraph(indptr, indices)
    return partial_pagerank(
        graph.indptr[:-1],
        np.diff(graph.indptr),
        graph.indices,
        damping=damping,
        tolerance=tolerance,
        relative_tolerance=math.inf,
    )


def partial_pagerank(
    row_start: Longs,
    row_length: Ints,
    indices: NDArray[Any],
    *,
    damping: float = 0.85,
    tolerance: float = 1e-10,
    relative_tolerance: float = 1e-12,
    plain: bool = False,
) -> Floats:
    """Return the PageRank of all pages seen so far, each value to ten significant digits.

    Pages not fetched yet have rows of length 0 and count as dangling. Rows may be anywhere in
    `indices`, in any order and with gaps, so that a crawl can append rows as it goes. After
    `round_significant`, ranks that are equal in theory tie in practice.

    `row_start`: int64, shape (n_pages,): position in `indices` at which the row of each page
    begins. `row_length`: int32, shape (n_pages,): number of targets; 0 for pages not fetched.
    `indices`: integers, reaching at least to the end of the last row: targets; inside rows, 0 <=
    target < n_pages. `damping`, `tolerance`: as for `pagerank`. `relative_tolerance`: upper bound,
    above 0, on the last sweep's change of any page, relative to its value; inf: no bound. `plain`:
    compute it in Python, some fifty times slower, without compiling.

    float64, shape (n_pages,), sum 1.

    Raises `GraphError` as `pagerank` does.

    Method and cost as `pagerank`, plus about 10 passes for the tighter bound.
    """
    if not 0.0 <= damping < 1.0:
        raise GraphError(f"damping is {damping:g}; it must be at least 0 and below 1.")
    if not tolerance > 0.0:
        raise GraphError(f"tolerance is {tolerance:g}; it must be above 0.")
    row_start = integers("row_start", row_start)
    n = len(row_start)
    row_length = integers("row_length", row_length, np.int32, length=n)
    targets = integers("indices", indices, np.int32)
    if n == 0 or damping == 0.0:
        return np.full(n, 1.0 / max(n, 1), dtype=np.float64)
    find = _first_bad_row.plain if plain else _first_bad_row
    solve = np.errstate(over="ignore")(solve_pagerank.plain) if plain else solve_pagerank
    page = int(find(row_start, row_length, targets))
    if page >= 0:
        raise GraphError(
            f"the row of page {page} begins at {row_start[page]} and has {row_length[page]} of "
            f"{len(targets)} links; rows must be inside indices and lead to pages 0 to {n - 1}."
        )
    ranks, sweeps = solve(
        row_start,
        row_length,
        targets,
        float(damping),
        float(tolerance),
        float(relative_tolerance),
        MOST_SWEEPS,
    )
    if sweeps > MOST_SWEEPS:
        raise GraphError(
            f"PageRank did not converge to {tolerance:g} in {MOST_SWEEPS:,} sweeps; loosen the "
            "tolerance."
        )
    return np.asarray(ranks, dtype=np.float64)


@njit(cache=True, nogil=True)
def _first_bad_row(row_start: Longs, row_length: Ints, indices: Ints) -> int:
    """Return the first page whose row or one of whose targets is out of range, or -1."""
    n_pages = len(row_start)
    for page in range(n_pages):
        first, length = row_start[page], row_length[page]
        if length < 0 or (length > 0 and (first < 0 or first > len(indices) - length)):
            return page
        for k in range(first, first + length):
            if indices[k] < 0 or indices[k] >= n_pages:
                return page
    return -1


def round_significant(values: Floats, *, plain: bool = False) -> Floats:
    """Round to 8 significant digits, so that values that differ by rounding errors tie.

    `values`: numbers, any shape; zeros and infinities are kept. `plain`: without compiling.

    float64, the same shape; equal inputs give equal outputs, and order is preserved up to ties.
    """
    rounding = _round_significant.plain if plain else _round_significant
    rounded = rounding(numbers("values", flat("values", values)))
    return np.asarray(rounded, dtype=np.float64).reshape(np.shape(values))


@njit(cache=True, nogil=True)
def _round_significant(values: Floats) -> Floats:
    """Round each value by scaling it to an integer of 8 digits."""
    rounded = np.empty(len(values), dtype=np.float64)
    for i in range(len(values)):
        value = values[i]
        if value == 0.0 or not np.isfinite(value):
            rounded[i] = value
            continue
        places = 7 - math.floor(math.log10(abs(value)))
        if places > 300:
            rounded[i] = value
        elif places >= 0:
            scale = 10.0**places
            rounded[i] = np.rint(value * scale) / scale
        else:
            scale = 10.0**-places
            rounded[i] = np.rint(value / scale) * scale
    return rounded


@njit(cache=True, nogil=True)
def solve_pagerank(
    row_start: Longs,
    row_length: Ints,
    indices: Ints,
    damping: float,
    tolerance: float,
    relative_tolerance: float,
    max_sweeps: int,
) -> tuple[Floats, int]:
    """Return (ranks, maximum sweeps of any component); above `max_sweeps` it did not converge.

    Compiled, so that a thread can run it without the GIL; `partial_pagerank` checks the arguments.
    """
    n_pages = len(row_start)
    group, chosen, weight = lump_equal_rows(row_start, row_length, indices)
    out_start, out = quotient(row_start, row_length, indices, group, chosen)
    position, bounds = order_by_component(out_start, out)
    in_start, sources = transposed_rows(out_start, out, position)

    # The unknown of a group is the flow over one link: damping * (sum of its pages) / out-degree.
    n_groups = len(chosen)
    base = np.empty(n_groups, dtype=np.float64)
    share = np.empty(n_groups, dtype=np.float64)
    carried = np.empty(n_groups, dtype=np.float64)
    for g in range(n_groups):
        p = position[g]
        base[p] = weight[g]
        share[p] = damping / row_length[chosen[g]]
        carried[p] = base[p] * share[p] / (1.0 - damping)
    of = Unknowns(in_start, sources, base, share, carried)

    most = 0
    for c in range(len(bounds) - 1):
        first, end = bounds[c], bounds[c + 1]
        sweeps = solve_component(first, end, of, tolerance, relative_tolerance, max_sweeps)
        most = max(most, sweeps)

    ranks = np.ones(n_pages, dtype=np.float64)
    for g in range(n_groups):
        page = chosen[g]
        flow = carried[position[g]]
        for k in range(row_start[page], row_start[page] + row_length[page]):
            ranks[indices[k]] += flow
    total = 0.0
    for i in range(n_pages):
        total += ranks[i]
    for i in range(n_pages):
        ranks[i] /= total
    return ranks, most


def pagerank_from(
    seeds: Sequence[int], indptr: NDArray[np.int64], indices: NDArray[np.int32]
) -> Floats:
    """Return the PageRank of a surfer who starts at a seed, and again there; sums to 1.

    Where a page has no links, and with probability 0.15 anywhere, the surfer goes to a seed, each
    as likely: the importance that receipts count. L1 change below 1e-10; some 140 passes.
    """
    from scipy.sparse import csr_array

    n_pages, n_links = len(indptr) - 1, np.maximum(np.diff(indptr), 1)
    links = csr_array((np.ones(len(indices)), indices, indptr), shape=(n_pages, n_pages)).T
    start = np.bincount(seeds, minlength=n_pages) / len(seeds)
    ranks, change = start, 1.0
    while change > 1e-10:
        passed = 0.85 * (links @ (ranks / n_links))
        passed += (1.0 - passed.sum()) * start
        ranks, change = passed, float(np.abs(passed - ranks).sum())
    return ranks
