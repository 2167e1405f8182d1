"""Solver of the PageRank equations on one strongly connected component, given its inflow.

Unknowns are numbered by position in the solving order; `share` is the fraction of an unknown's
total that one of its links carries.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from crawlprio.compiled import njit

Floats = NDArray[np.float64]
Longs = NDArray[np.int64]
Ints = NDArray[np.int32]

OVER_RELAXATION = 1.1
"""Relaxation factor of the sweeps for as long as they contract."""

TRIAL_SWEEPS = 8
"""Number of sweeps in which the change must fall by 10 %, or plain Gauss-Seidel takes over."""

LEAST_TO_EXTRAPOLATE = 64
"""Minimum number of unknowns for which extrapolation between sweeps pays off."""


@njit(cache=True, nogil=True)
def solve_component(
    first: int,
    end: int,
    in_start: Longs,
    sources: Ints,
    base: Floats,
    share: Floats,
    carried: Floats,
    tolerance: float,
    relative_tolerance: float,
    max_sweeps: int,
) -> int:
    """Solve `carried[p] = share[p] * (base[p] + sum(carried[sources of p]))` for first <= p < end.

    Sweeps by successive over-relaxation, and extrapolates from the last three sweeps after each
    (Anderson, Iterative procedures for nonlinear integral equations, J. ACM 1965, depth 2). If that
    does not contract, continues with plain Gauss-Seidel, which always converges because the system
    is an M-matrix.

    Returns the number of sweeps, or `max_sweeps + 1` if the last sweep still changed the totals by
    more than `tolerance * sum(base)`, or one of them by more than `relative_tolerance` of itself.
    """
    size = end - first
    if size == 1:
        _solve_alone(first, in_start, sources, base, share, carried)
        return 1
    bound = 0.0
    for p in range(first, end):
        bound += tolerance * base[p]
    extrapolating = size >= LEAST_TO_EXTRAPOLATE
    room = size if extrapolating else 0
    start = carried[first : first + room].copy()
    steps = np.zeros((3, room), dtype=np.float64)
    ends = np.zeros((3, room), dtype=np.float64)
    relaxation = OVER_RELAXATION
    before = np.inf
    for sweep in range(1, max_sweeps + 1):
        change, steady = _sweep(
            first, end, in_start, sources, base, share, carried, relaxation, relative_tolerance
        )
        if steady and change <= bound:
            return sweep
        if relaxation > 1.0 and sweep % TRIAL_SWEEPS == 0:
            if not change < 0.9 * before:
                relaxation = 1.0
                extrapolating = False
            before = change
        if extrapolating:
            _extrapolate(carried[first:end], start, steps, ends, sweep)
    return max_sweeps + 1


@njit(cache=True, nogil=True)
def _solve_alone(
    p: int, in_start: Longs, sources: Ints, base: Floats, share: Floats, carried: Floats
) -> None:
    """Solve one unknown, which may have links to itself."""
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
    first: int,
    end: int,
    in_start: Longs,
    sources: Ints,
    base: Floats,
    share: Floats,
    carried: Floats,
    relaxation: float,
    relative_tolerance: float,
) -> tuple[float, bool]:
    """Update each unknown in turn; return (sum of changes of totals, whether all were small)."""
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
