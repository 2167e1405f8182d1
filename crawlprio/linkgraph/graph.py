"""The link graph of a set of pages, as arrays in compressed sparse rows.

Nothing here knows files, importance or orderings.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np
from numba import njit
from numpy.typing import NDArray

from crawlprio.errors import GraphError
from crawlprio.pages import NO_PAGE, PageIds

MAX_PAGES = 2**31 - 1
"""Page ids are int32."""

Indptr = NDArray[np.int64]


@dataclass(frozen=True, eq=False)
class LinkGraph:
    """Who links to whom: the links of page i are `indices[indptr[i]:indptr[i + 1]]`, in page order.

    Construction checks shapes and ranges in one pass; it trusts rows to be free of self-links and
    duplicates. `LinkGraph.cleaned` takes those out.

    Parameters
    ----------
    indptr
        int64, shape (n_pages + 1,): from 0 up to n_links, never falling.
    indices
        int32, shape (n_links,): target of each link, each 0 <= target < n_pages.
    site
        int32, shape (n_pages,): site of each page, counted from 0; when left out, every page is
        on site 0.
    urls
        URL of each page, where known.
    hosts
        Host name of each site, where known.
    n_dropped
        Self-links and duplicate links that were left out when the graph was read.

    Raises
    ------
    GraphError
        When the arrays do not make a graph.
    """

    indptr: Indptr
    indices: PageIds
    site: NDArray[np.int32] = field(default_factory=lambda: np.empty(0, dtype=np.int32))
    urls: Sequence[str] | None = None
    hosts: Sequence[str] | None = None
    n_dropped: int = 0

    def __post_init__(self) -> None:
        indptr = _integers("indptr", self.indptr, np.int64)
        if len(indptr) == 0:
            raise GraphError("indptr is empty; it must have one element more than there are pages.")
        n_pages = len(indptr) - 1
        indices = _integers("indices", self.indices, np.int32)
        site = _integers("site", self.site, np.int32)
        if len(site) == 0:
            site = np.zeros(n_pages, dtype=np.int32)
        for name, array in (("indptr", indptr), ("indices", indices), ("site", site)):
            object.__setattr__(self, name, array)

        if indptr[0] != 0 or indptr[-1] != len(indices):
            raise GraphError(
                f"indptr runs from {indptr[0]} to {indptr[-1]}; "
                f"it must run from 0 to the number of links, {len(indices)}."
            )
        falls = np.flatnonzero(indptr[1:] < indptr[:-1])
        if len(falls):
            row = int(falls[0])
            raise GraphError(
                f"indptr falls from {indptr[row]} to {indptr[row + 1]} at page {row}; "
                "it must never fall."
            )
        if len(indices) and (indices.min() < 0 or indices.max() >= n_pages):
            k = int(np.flatnonzero((indices < 0) | (indices >= n_pages))[0])
            raise GraphError(
                f"link {k} leads to page {indices[k]}; page ids must be 0 to {n_pages - 1}."
            )
        if len(site) != n_pages:
            raise GraphError(
                f"site has {len(site)} elements; it must have one per page, {n_pages}."
            )
        if n_pages and site.min() < 0:
            page = int(np.argmin(site))
            raise GraphError(f"page {page} is on site {site[page]}; site ids count from 0.")
        if self.urls is not None and len(self.urls) != n_pages:
            raise GraphError(
                f"there are {len(self.urls)} URLs for {n_pages} pages; there must be one per page."
            )
        if self.hosts is not None and n_pages and len(self.hosts) <= site.max():
            raise GraphError(
                f"there are {len(self.hosts)} hosts and a page on site {site.max()}; "
                "there must be one host per site."
            )

    @classmethod
    def cleaned(
        cls,
        indptr: NDArray[Any],
        indices: NDArray[Any],
        *,
        site: NDArray[Any] | None = None,
        urls: Sequence[str] | None = None,
        hosts: Sequence[str] | None = None,
    ) -> LinkGraph:
        """Return the graph without self-links and duplicates; of duplicates the first stays.

        Row order is kept. The number of links left out is `n_dropped`. Cost: O(n_pages + n_links).
        """
        sites = np.empty(0, dtype=np.int32) if site is None else site
        graph = cls(indptr, indices, sites, urls, hosts)
        kept_indptr, kept = _without_repeats(graph.indptr, graph.indices)
        n_dropped = graph.n_links - len(kept)
        if n_dropped == 0:
            return graph
        return cls(kept_indptr, kept, graph.site, urls, hosts, n_dropped)

    @property
    def n_pages(self) -> int:
        return len(self.indptr) - 1

    @property
    def n_links(self) -> int:
        return len(self.indices)

    @cached_property
    def n_sites(self) -> int:
        """Number of sites: that of host names, or else the largest site id and one."""
        if self.hosts is not None:
            return len(self.hosts)
        return int(self.site.max()) + 1 if self.n_pages else 0

    def out_links(self, page: int) -> PageIds:
        """Return the targets of a page, in page order: a view. O(1)."""
        return self.indices[self.indptr[page] : self.indptr[page + 1]]

    def in_links(self, page: int) -> PageIds:
        """Return the pages that link to a page, in ascending order: a view.

        O(1), but for the first call, which transposes the graph in O(n_pages + n_links).
        """
        indptr, sources = self.transposed
        return sources[indptr[page] : indptr[page + 1]]

    @cached_property
    def transposed(self) -> tuple[Indptr, PageIds]:
        """The in-links as (indptr int64, sources int32), sources ascending; built on first use."""
        indptr, sources = _transpose(self.indptr, self.indices)
        return indptr, sources

    def find(self, url: str) -> int:
        """Return the page with exactly this URL, or `NO_PAGE`.

        O(1), but for the first call, which indexes all URLs.
        """
        return self._page_of_url.get(url, NO_PAGE)

    @cached_property
    def _page_of_url(self) -> dict[str, int]:
        """The first page of each URL."""
        pages: dict[str, int] = {}
        for page, url in enumerate(self.urls or ()):
            pages.setdefault(url, page)
        return pages


def _integers(name: str, values: NDArray[Any], dtype: type[np.signedinteger[Any]]) -> NDArray[Any]:
    """Return a contiguous one-dimensional array of this type, or say why it cannot be one."""
    array = np.asarray(values)
    if array.ndim != 1:
        raise GraphError(f"{name} has {array.ndim} dimensions; it must have one.")
    if array.dtype == dtype:
        return np.ascontiguousarray(array)
    if array.dtype.kind not in "iu":
        raise GraphError(f"{name} holds {array.dtype}; it must hold integers.")
    bounds = np.iinfo(dtype)
    if len(array) and (int(array.min()) < bounds.min or int(array.max()) > bounds.max):
        raise GraphError(
            f"{name} holds values from {array.min()} to {array.max()}; "
            f"they must fit {np.dtype(dtype)}."
        )
    return array.astype(dtype)


@njit(cache=True, nogil=True)
def _without_repeats(indptr: Indptr, indices: PageIds) -> tuple[Indptr, PageIds]:
    """Copy the rows without self-links and without targets that the row has already listed."""
    n = len(indptr) - 1
    kept_indptr = np.zeros(n + 1, dtype=np.int64)
    kept = np.empty(len(indices), dtype=np.int32)
    last_row = np.full(n, -1, dtype=np.int32)
    n_kept = 0
    for page in range(n):
        last_row[page] = page
        for k in range(indptr[page], indptr[page + 1]):
            target = indices[k]
            if last_row[target] != page:
                last_row[target] = page
                kept[n_kept] = target
                n_kept += 1
        kept_indptr[page + 1] = n_kept
    return kept_indptr, kept[:n_kept].copy()


@njit(cache=True, nogil=True)
def _transpose(indptr: Indptr, indices: PageIds) -> tuple[Indptr, PageIds]:
    """Turn rows of targets into rows of sources by a counting sort."""
    n = len(indptr) - 1
    starts = np.zeros(n + 2, dtype=np.int64)
    for k in range(len(indices)):
        starts[indices[k] + 2] += 1
    for page in range(n):
        starts[page + 2] += starts[page + 1]
    sources = np.empty(len(indices), dtype=np.int32)
    for page in range(n):
        for k in range(indptr[page], indptr[page + 1]):
            target = indices[k]
            sources[starts[target + 1]] = page
            starts[target + 1] += 1
    return starts[: n + 1].copy(), sources
