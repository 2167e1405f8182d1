"""Passes over links in compressed sparse row form, each in O(pages + links)."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from crawlprio.graph.compiled import njit
from crawlprio.graph.pages import PageIds

Indptr = NDArray[np.int64]
Sites = NDArray[np.int32]


@njit(cache=True, nogil=True)
def copy_unrepeated(indptr: Indptr, indices: PageIds, kept_indptr: Indptr, kept: PageIds) -> int:
    """Copy the rows without self-links and repeats, onto themselves if wanted; count the links."""
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
    return n_kept


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


def links_of(indptr: Indptr, pages: NDArray[np.integer]) -> NDArray[np.int64]:
    """Return the places of the links of some pages, in the order of the pages."""
    lengths = np.diff(indptr)[pages]
    ends = np.cumsum(lengths)
    n_links = int(ends[-1]) if len(ends) else 0
    begins = np.repeat(indptr[pages] - (ends - lengths), lengths)
    return np.asarray(np.arange(n_links) + begins, dtype=np.int64)


def rows_among(
    indptr: Indptr, indices: PageIds, pages: PageIds, place: PageIds
) -> tuple[Indptr, PageIds]:
    """Copy the rows of `pages`, with targets renumbered by `place` and dropped where it is -1."""
    chosen = np.concatenate(([0], np.cumsum(np.diff(indptr)[pages])))
    targets = place[indices[links_of(indptr, pages)]]
    is_kept = targets >= 0
    n_before = np.concatenate(([0], np.cumsum(is_kept)))
    return n_before[chosen], targets[is_kept]
