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


def transposed_rows(indptr: Indptr, indices: PageIds) -> tuple[Indptr, PageIds]:
    """Transpose rows of targets into rows of ascending sources; 4 bytes per link while it does."""
    n_pages = len(indptr) - 1
    sources = np.repeat(np.arange(n_pages, dtype=np.int32), np.diff(indptr))
    return gathered_rows(indices, sources, n_pages)


def links_of(indptr: Indptr, pages: NDArray[np.integer]) -> NDArray[np.int64]:
    """Return the places of the links of some pages, in the order of the pages."""
    lengths = np.diff(indptr)[pages]
    ends = np.cumsum(lengths)
    n_links = int(ends[-1]) if len(ends) else 0
    begins = np.repeat(indptr[pages] - (ends - lengths), lengths)
    return np.asarray(np.arange(n_links) + begins, dtype=np.int64)


def rows_between_sites(indptr: Indptr, indices: PageIds, site: Sites) -> tuple[Indptr, PageIds]:
    """Copy the rows with only the links to pages of other sites."""
    return _rows_where(indptr, indices, np.repeat(site, np.diff(indptr)) != site[indices])


def rows_among(
    indptr: Indptr, indices: PageIds, pages: PageIds, place: PageIds
) -> tuple[Indptr, PageIds]:
    """Copy the rows of `pages`, with targets renumbered by `place` and dropped where it is -1."""
    chosen = np.concatenate(([0], np.cumsum(np.diff(indptr)[pages])))
    targets = place[indices[links_of(indptr, pages)]]
    return _rows_where(chosen, targets, targets >= 0)


def _rows_where(
    indptr: Indptr, indices: PageIds, is_kept: NDArray[np.bool_]
) -> tuple[Indptr, PageIds]:
    """Copy the rows with only some links."""
    n_before = np.concatenate(([0], np.cumsum(is_kept)))
    return n_before[indptr], indices[is_kept]
