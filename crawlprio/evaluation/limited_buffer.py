"""A limited buffer that keeps the pages of a crawl with the highest estimated importance."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from crawlprio.compiled import njit
from crawlprio.evaluation.estimates import COUNT, SPREAD, Estimate, plan_estimate
from crawlprio.pages import PageIds

Floats = NDArray[np.float64]
Longs = NDArray[np.int64]


def crawl_into_buffers(
    pages: Longs, n_pages: int, capacities: Sequence[int], estimate: Estimate
) -> list[Longs]:
    """Return, for each capacity, the pages that a buffer of that size holds after the crawl.

    Each fetched page enters the buffer. If it is full, the page with the lowest estimate is
    evicted, which may be the new one; of equal estimates, the page fetched last is evicted. Evicted
    pages never return, but their links stay known.

    Parameters
    ----------
    pages
        int64, shape (n_fetched,): page ids in the order fetched, distinct and in range.
    n_pages
        Number of pages in the graph.
    capacities
        Pages that each buffer holds, >= 1.
    estimate
        The estimate of importance during the crawl.

    Returns
    -------
    One array of ascending page ids per capacity.

    Notes
    -----
    O(log B) per fetch and O(1) per link, except O(log B) for a link that raises the estimate of the
    page next to be evicted. Each renewal costs O(B) plus one computation for all buffers.
    """
    plan = plan_estimate(estimate, n_pages, len(pages))
    buffers = [_Buffer(np.empty(size, np.int64), np.empty(size, np.int64)) for size in capacities]
    smallest = min(capacities, default=0)
    for first in range(0, len(pages), plan.every):
        end = min(first + plan.every, len(pages))
        # Until a buffer is full, nothing depends on the estimates.
        values, known = plan.renew(pages[: first if end > smallest else 0])
        for buffer in buffers:
            buffer.n_held = _fetch(
                pages, first, end, buffer.held, buffer.when, buffer.n_held,
                values.copy(), known, plan.mode, plan.damping, plan.indptr, plan.indices,
            )  # fmt: skip
    return [np.sort(buffer.held[: buffer.n_held]) for buffer in buffers]


@dataclass(slots=True)
class _Buffer:
    """The pages held and their fetch numbers; both are heaps during a block of fetches."""

    held: Longs
    when: Longs
    n_held: int = 0


@njit(cache=True, nogil=True)
def _fetch(
    pages: Longs,
    first: int,
    end: int,
    held: Longs,
    when: Longs,
    n_held: int,
    estimate: Floats,
    known: NDArray[np.bool_],
    mode: int,
    damping: float,
    indptr: Longs,
    indices: PageIds,
) -> int:
    """Fetch `pages[first:end]` into the buffer; return the number of pages it holds afterwards.

    Estimates only rise between renewals, so the keys in the heap are lower bounds: the root is
    updated until it is the minimum.
    """
    capacity = len(held)
    key = np.empty(capacity, dtype=np.float64)
    for i in range(n_held):
        key[i] = estimate[held[i]]
    for i in range(n_held // 2 - 1, -1, -1):
        _sift_down(key, when, held, i, n_held)
    for k in range(first, end):
        page = pages[k]
        start, stop = indptr[page], indptr[page + 1]
        if mode == COUNT:
            for link in range(start, stop):
                estimate[indices[link]] += 1.0
        elif mode == SPREAD and stop > start:
            share = damping * estimate[page] / (stop - start)
            for link in range(start, stop):
                target = indices[link]
                if not known[target]:
                    estimate[target] += share
        if n_held < capacity:
            i = n_held
            n_held += 1
            key[i], when[i], held[i] = estimate[page], k, page
            _sift_up(key, when, held, i)
            continue
        while key[0] < estimate[held[0]]:
            key[0] = estimate[held[0]]
            _sift_down(key, when, held, 0, n_held)
        if estimate[page] > key[0]:
            key[0], when[0], held[0] = estimate[page], k, page
            _sift_down(key, when, held, 0, n_held)
    return n_held


@njit(cache=True, nogil=True, inline="always")
def _leaves_first(key: Floats, when: Longs, i: int, j: int) -> bool:
    """Whether entry i is evicted before entry j."""
    return bool(key[i] < key[j] or (key[i] == key[j] and when[i] > when[j]))


@njit(cache=True, nogil=True)
def _swap(key: Floats, when: Longs, held: Longs, i: int, j: int) -> None:
    """Exchange two entries."""
    key[i], key[j] = key[j], key[i]
    when[i], when[j] = when[j], when[i]
    held[i], held[j] = held[j], held[i]


@njit(cache=True, nogil=True)
def _sift_up(key: Floats, when: Longs, held: Longs, i: int) -> None:
    """Move entry i up until its parent is evicted before it."""
    while i > 0:
        parent = (i - 1) // 2
        if not _leaves_first(key, when, i, parent):
            return
        _swap(key, when, held, i, parent)
        i = parent


@njit(cache=True, nogil=True)
def _sift_down(key: Floats, when: Longs, held: Longs, i: int, n: int) -> None:
    """Move entry i down until it is evicted before its children."""
    while True:
        child = 2 * i + 1
        if child >= n:
            return
        if child + 1 < n and _leaves_first(key, when, child + 1, child):
            child += 1
        if not _leaves_first(key, when, child, i):
            return
        _swap(key, when, held, i, child)
        i = child
