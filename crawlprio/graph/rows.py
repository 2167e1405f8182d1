"""Compiled passes over links in compressed sparse row form, each in O(pages + links)."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from crawlprio.graph.compiled import njit
from crawlprio.graph.pages import PageIds

Indptr = NDArray[np.int64]
Sites = NDArray[np.int32]

SOUND, FALLING_ROW, BAD_TARGET, BAD_SITE = range(4)
"""Results of `first_fault`."""


@njit(cache=True, nogil=True)
def first_fault(indptr: Indptr, indices: PageIds, site: Sites) -> tuple[int, int, int]:
    """Return (`SOUND`, 0, largest site), or (first fault, its position, 0). Allocates nothing."""
    n = len(indptr) - 1
    for page in range(n):
        if indptr[page + 1] < indptr[page]:
            return FALLING_ROW, page, 0
    for k in range(len(indices)):
        if indices[k] < 0 or indices[k] >= n:
            return BAD_TARGET, k, 0
    most = -1
    for page in range(len(site)):
        if site[page] < 0:
            return BAD_SITE, page, 0
        most = max(most, site[page])
    return SOUND, 0, most


@njit(cache=True, nogil=True)
def count_unrepeated(indptr: Indptr, indices: PageIds) -> int:
    """Count the links that are neither self-links nor repeats of an earlier link of their row."""
    n = len(indptr) - 1
    last_row = np.full(n, -1, dtype=np.int32)
    count = 0
    for page in range(n):
        last_row[page] = page
        for k in range(indptr[page], indptr[page + 1]):
            if last_row[indices[k]] != page:
                last_row[indices[k]] = page
                count += 1
    return count


@njit(cache=True, nogil=True)
def copy_unrepeated(indptr: Indptr, indices: PageIds, kept_indptr: Indptr, kept: PageIds) -> None:
    """Copy the rows without self-links and repeats; source and destination may be identical."""
    n = len(indptr) - 1
    last_row = np.full(n, -1, dtype=np.int32)
    n_kept = 0
    first = indptr[0]
    for page in range(n):
        last_row[page] = page
        end = indptr[page + 1]
        for k in range(first, end):
            target = indices[k]
            if last_row[target] != page:
                last_row[target] = page
                kept[n_kept] = target
                n_kept += 1
        first = end
        kept_indptr[page + 1] = n_kept
    kept_indptr[0] = 0


@njit(cache=True, nogil=True)
def transposed_rows(indptr: Indptr, indices: PageIds) -> tuple[Indptr, PageIds]:
    """Transpose rows of targets into rows of ascending sources, by a counting sort.

    Only the result is allocated: the row starts advance as rows fill, until each has reached the
    start of the next row.
    """
    n = len(indptr) - 1
    starts = np.zeros(n + 2, dtype=np.int64)
    for k in range(len(indices)):
        starts[indices[k] + 2] += 1
    for page in range(n):
        starts[page + 2] += starts[page + 1]
    sources = np.empty(len(indices), dtype=np.int32)
    for page in range(n):
        for k in range(indptr[page], indptr[page + 1]):
            row = indices[k] + 1
            sources[starts[row]] = page
            starts[row] += 1
    return starts[: n + 1], sources


@njit(cache=True, nogil=True)
def gathered_rows(sources: PageIds, targets: PageIds, n_pages: int) -> tuple[Indptr, PageIds]:
    """Gather the targets of each source, in the order given, by a counting sort."""
    starts = np.zeros(n_pages + 2, dtype=np.int64)
    for k in range(len(sources)):
        starts[sources[k] + 2] += 1
    for page in range(n_pages):
        starts[page + 2] += starts[page + 1]
    indices = np.empty(len(sources), dtype=np.int32)
    for k in range(len(sources)):
        row = sources[k] + 1
        indices[starts[row]] = targets[k]
        starts[row] += 1
    return starts[: n_pages + 1], indices


@njit(cache=True, nogil=True)
def rows_between_sites(indptr: Indptr, indices: PageIds, site: Sites) -> tuple[Indptr, PageIds]:
    """Copy the rows with only the links to pages of other sites."""
    n = len(indptr) - 1
    kept_indptr = np.zeros(n + 1, dtype=np.int64)
    n_kept = 0
    for page in range(n):
        for k in range(indptr[page], indptr[page + 1]):
            n_kept += site[indices[k]] != site[page]
        kept_indptr[page + 1] = n_kept
    kept = np.empty(n_kept, dtype=np.int32)
    n_kept = 0
    for page in range(n):
        for k in range(indptr[page], indptr[page + 1]):
            if site[indices[k]] != site[page]:
                kept[n_kept] = indices[k]
                n_kept += 1
    return kept_indptr, kept


@njit(cache=True, nogil=True)
def rows_among(
    indptr: Indptr, indices: PageIds, pages: PageIds, place: PageIds
) -> tuple[Indptr, PageIds]:
    """Copy the rows of `pages`, with targets renumbered by `place` and dropped where it is -1."""
    kept_indptr = np.zeros(len(pages) + 1, dtype=np.int64)
    n_kept = 0
    for row in range(len(pages)):
        for k in range(indptr[pages[row]], indptr[pages[row] + 1]):
            n_kept += place[indices[k]] >= 0
        kept_indptr[row + 1] = n_kept
    kept = np.empty(n_kept, dtype=np.int32)
    n_kept = 0
    for row in range(len(pages)):
        for k in range(indptr[pages[row]], indptr[pages[row] + 1]):
            if place[indices[k]] >= 0:
                kept[n_kept] = place[indices[k]]
                n_kept += 1
    return kept_indptr, kept


@njit(cache=True, nogil=True)
def spread(
    indptr: Indptr,
    indices: PageIds,
    n_steps: int,
    reached: NDArray[np.bool_],
    queue: PageIds,
    n_queued: int,
) -> int:
    """Append to `queue` the pages reached from its pages in `n_steps` links; return its length."""
    first = 0
    for _ in range(n_steps):
        end: Any = n_queued
        for place in range(first, end):
            page = queue[place]
            for k in range(indptr[page], indptr[page + 1]):
                target = indices[k]
                if not reached[target]:
                    reached[target] = True
                    queue[n_queued] = target
                    n_queued += 1
        first = end
        if first == n_queued:
            break
    return n_queued
