"""The link graph of a set of pages, as arrays in compressed sparse row form, and from names."""

from __future__ import annotations

import re
from array import array
from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any
from urllib.parse import urlsplit

import numpy as np
from numpy.typing import ArrayLike, NDArray

from crawlprio.errors import GraphError
from crawlprio.graph.arrays import flat, integers
from crawlprio.graph.pages import NO_PAGE, PageIds
from crawlprio.graph.rows import (
    Indptr,
    copy_unrepeated,
    rows_among,
    rows_between_sites,
    transposed_rows,
)
from crawlprio.graph.url_table import Urls

MAX_PAGES = 2**31 - 1
"""Page ids are int32."""


@dataclass(frozen=True, eq=False)
class LinkGraph:
    """A directed graph of pages: page i links to `indices[indptr[i]:indptr[i + 1]]`, in page order.

    Links can be looked up by page or URL, forward and backward, all or between sites only, at 4
    bytes per link and 8 per page in each direction (like the Connectivity Server: Bharat et al.,
    WWW 1998; Najork & Wiener, WWW 2001, section 2).

    The constructor checks shapes and ranges in one pass, and trusts rows to have no self-links or
    duplicates; `LinkGraph.cleaned` removes those.

    Parameters
    ----------
    indptr
        int64, shape (n_pages + 1,): from 0 to n_links, non-decreasing.
    indices
        int32, shape (n_links,): target of each link, 0 <= target < n_pages.
    site
        int32, shape (n_pages,): site of each page, counted from 0; if omitted, all pages are on
        site 0.
    urls
        URL of each page, if known.
    hosts
        Host name of each site, if known.
    n_dropped
        Number of self-links and duplicates that were removed when the graph was read.

    Raises
    ------
    GraphError
        If the arrays do not form a graph.
    """

    indptr: Indptr
    indices: PageIds
    site: NDArray[np.int32] = field(default_factory=lambda: np.empty(0, dtype=np.int32))
    urls: Sequence[str] | None = None
    hosts: Sequence[str] | None = None
    n_dropped: int = 0

    def __repr__(self) -> str:
        return (
            f"LinkGraph({self.n_pages:,} pages, {self.n_links:,} links, {self.n_sites:,} sites"
            f"{', with URLs' if self.urls is not None else ''})"
        )

    def __post_init__(self) -> None:
        indptr = integers("indptr", self.indptr, np.int64)
        if len(indptr) == 0:
            raise GraphError("indptr is empty; it must have one more element than there are pages.")
        n_pages = len(indptr) - 1
        indices = integers("indices", self.indices, np.int32)
        site = integers("site", self.site, np.int32)
        if len(site) == 0:
            site = np.zeros(n_pages, dtype=np.int32)
        for name, held in (("indptr", indptr), ("indices", indices), ("site", site)):
            object.__setattr__(self, name, held)

        if indptr[0] != 0 or indptr[-1] != len(indices):
            raise GraphError(
                f"indptr runs from {indptr[0]} to {indptr[-1]}; "
                f"it must run from 0 to the number of links, {len(indices)}."
            )
        falls = np.flatnonzero(indptr[1:] < indptr[:-1])
        if len(falls):
            page = falls[0]
            raise GraphError(
                f"indptr falls from {indptr[page]} to {indptr[page + 1]} at page {page}; "
                "it must not decrease."
            )
        if len(indices) and not 0 <= indices.min() <= indices.max() < n_pages:
            link = np.flatnonzero((indices < 0) | (indices >= n_pages))[0]
            raise GraphError(
                f"link {link} leads to page {indices[link]}; page ids must be 0 to {n_pages - 1}."
            )
        if len(site) != n_pages:
            raise GraphError(
                f"site has {len(site)} elements; it must have one per page, {n_pages}."
            )
        if site.min(initial=0) < 0:
            page = np.argmax(site < 0)
            raise GraphError(f"page {page} is on site {site[page]}; site ids must be 0 or more.")
        if self.urls is not None and len(self.urls) != n_pages:
            raise GraphError(
                f"there are {len(self.urls)} URLs for {n_pages} pages; there must be one per page."
            )
        if self.hosts is not None and len(self.hosts) <= site.max(initial=-1):
            raise GraphError(
                f"there are {len(self.hosts)} hosts but a page is on site {site.max()}; "
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
        in_place: bool = False,
    ) -> LinkGraph:
        """Return the graph without self-links and duplicates, keeping the first of duplicates.

        Row order is kept. `n_dropped` is the number of links removed. With `in_place` the given
        arrays may be overwritten, so that no links are copied. Cost: O(n_pages + n_links) time, 4
        bytes per page in addition to the graph, and those of the copy while it is made.
        """
        sites = np.empty(0, dtype=np.int32) if site is None else site
        graph = cls(indptr, indices, sites, urls, hosts)
        kept_indptr, kept = graph.indptr, graph.indices
        if not in_place or not (kept.flags.writeable and kept_indptr.flags.writeable):
            kept_indptr, kept = np.empty_like(kept_indptr), np.empty_like(kept)
        n_kept = copy_unrepeated(graph.indptr, graph.indices, kept_indptr, kept)
        if n_kept == graph.n_links:
            return graph
        n_dropped = len(indices) - n_kept
        return cls(kept_indptr, kept[:n_kept], graph.site, urls, hosts, n_dropped)

    @property
    def n_pages(self) -> int:
        return len(self.indptr) - 1

    @property
    def n_links(self) -> int:
        return len(self.indices)

    @cached_property
    def n_sites(self) -> int:
        """Number of sites: the number of host names, or else the largest site id plus one."""
        if self.hosts is not None:
            return len(self.hosts)
        return int(self.site.max()) + 1 if self.n_pages else 0

    def out_links(self, page: int, *, between_sites: bool = False) -> PageIds:
        """Return the targets of a page in page order, or only those on other sites.

        A view, O(1); with `between_sites` a copy, O(links of the page). Raises `GraphError` if the
        graph has no such page.
        """
        self._check_page(page)
        row = self.indices[self.indptr[page] : self.indptr[page + 1]]
        return row[self.site[row] != self.site[page]] if between_sites else row

    def in_links(self, page: int, *, between_sites: bool = False) -> PageIds:
        """Return the pages that link to a page, ascending, or only those on other sites.

        A view, O(1); with `between_sites` a copy, O(links to the page). The first call transposes
        the graph in O(n_pages + n_links). Raises `GraphError` if the graph has no such page.
        """
        self._check_page(page)
        indptr, sources = self.transposed
        row = sources[indptr[page] : indptr[page + 1]]
        return row[self.site[row] != self.site[page]] if between_sites else row

    def _check_page(self, page: int) -> None:
        if not 0 <= page < self.n_pages:
            raise GraphError(f"there is no page {page}; page ids are 0 to {self.n_pages - 1}.")

    @cached_property
    def transposed(self) -> tuple[Indptr, PageIds]:
        """In-links as (indptr int64, sources int32), with ascending sources; built on first use."""
        indptr, sources = transposed_rows(self.indptr, self.indices)
        return indptr, sources

    def between_sites(self) -> LinkGraph:
        """Return the graph of the same pages with only the links between sites."""
        indptr, indices = rows_between_sites(self.indptr, self.indices, self.site)
        return LinkGraph(indptr, indices, self.site, self.urls, self.hosts)

    def subgraph(self, pages: ArrayLike) -> LinkGraph:
        """Return the graph of these pages and the links among them; its page i is `pages[i]`.

        Site ids are kept; repeated pages count once. O(n_pages + links of the pages).

        Raises `GraphError` if a page is not in the graph.
        """
        chosen = self._distinct(pages)
        place = np.full(self.n_pages, NO_PAGE, dtype=np.int32)
        place[chosen] = np.arange(len(chosen), dtype=np.int32)
        indptr, indices = rows_among(self.indptr, self.indices, chosen, place)
        urls = None if self.urls is None else Urls(self.urls[page] for page in chosen.tolist())
        return LinkGraph(indptr, indices, self.site[chosen], urls, self.hosts)

    def find(self, url: str) -> int:
        """Return the first page with exactly this URL, or `NO_PAGE`.

        O(1), except for the first call, which indexes all URLs at 8 bytes each.
        """
        return self._urls.find(url)

    @cached_property
    def _urls(self) -> Urls:
        """The URLs in searchable form."""
        return self.urls if isinstance(self.urls, Urls) else Urls(self.urls or ())

    def _distinct(self, pages: ArrayLike) -> PageIds:
        """Return the distinct pages as int32, in the order given; raise GraphError if invalid."""
        flat("pages", pages)
        ids = integers("pages", np.atleast_1d(np.asarray(pages)))
        outside = np.flatnonzero((ids < 0) | (ids >= self.n_pages))
        if len(outside):
            self._check_page(int(ids[outside[0]]))
        _, first = np.unique(ids, return_index=True)
        return ids[np.sort(first)].astype(np.int32)


NUMBERED = re.compile("n?[0-9]+")
"""Node names without meaning: numbers, and numbers after an n."""

Sites = NDArray[np.int32]


def first_seen() -> defaultdict[Any, int]:
    """Return a dictionary that maps each new key to the next number, from 0."""
    numbers: defaultdict[Any, int] = defaultdict()
    numbers.default_factory = numbers.__len__
    return numbers


def sites_of(urls: Iterable[str]) -> tuple[Sites | None, list[str] | None]:
    """Return the site of each page and the host of each site, or (None, None) without any host.

    Sites are numbered in the order of their first page; URLs without a host share a site.
    """
    origins: dict[str, int] = {}
    hosts = first_seen()
    site = array("i")
    for url in urls:
        origin = "/".join(url.split("/", 3)[:3])
        known = origins.get(origin)
        if known is None:
            known = origins[origin] = hosts[_host(origin)]
        site.append(known)
    if not any(hosts):
        return None, None
    return np.array(site, dtype=np.int32), list(hosts)


def _host(origin: str) -> str:
    """Return the host name of an origin (scheme and authority), or an empty string."""
    try:
        return urlsplit(origin).hostname or ""
    except ValueError:
        return ""


def named_graph(
    subject: str,
    indptr: NDArray[np.int64],
    indices: PageIds,
    names: Sequence[Any],
    urls: Sequence[Any],
    sites: Sequence[Any],
) -> LinkGraph:
    """Return the graph of nodes that have attributes; raise GraphError for one of the wrong type.

    `names` are used as URLs if nodes have none, unless all names are numbers. `urls` and `sites`
    hold a value of each node, or None; either all nodes have one or none. Sites are site ids, or
    strings, which are host names; without sites, the hosts of the URLs are used.
    """
    given = _all_or_none(subject, "url", names, urls)
    if given is None and any(not _is_number(name) for name in names):
        given = [str(name) for name in names]
    for page, url in enumerate(given or ()):
        if not isinstance(url, str):
            raise GraphError(
                f"{subject}: node {names[page]!r} has the url {url!r}; it must be a string."
            )
    site: NDArray[Any] | None = None
    hosts: list[str] | None = None
    given_sites = _all_or_none(subject, "site", names, sites)
    if given_sites is None:
        site, hosts = sites_of(given or ())
    elif all(isinstance(value, str) for value in given_sites):
        number = first_seen()
        site = np.array([number[value] for value in given_sites], dtype=np.int32)
        hosts = list(number)
    else:
        site = _site_ids(subject, names, given_sites)
    try:
        return LinkGraph.cleaned(
            indptr,
            indices,
            site=site,
            urls=None if given is None else Urls(given),
            hosts=hosts,
            in_place=True,
        )
    except GraphError as error:
        raise GraphError(f"{subject}: {error}") from None


def _is_number(name: object) -> bool:
    """Whether the name of a node is just a number."""
    if isinstance(name, str):
        return NUMBERED.fullmatch(name) is not None
    return isinstance(name, int | np.integer)


def _all_or_none(
    subject: str, attribute: str, names: Sequence[Any], values: Sequence[Any]
) -> Sequence[Any] | None:
    """Return the values, or None if no node has one."""
    lacking = [page for page, value in enumerate(values) if value is None]
    if len(lacking) == len(values):
        return None
    if lacking:
        raise GraphError(
            f"{subject}: node {names[lacking[0]]!r} has no {attribute} but others have one; "
            "set it on all nodes or on none."
        )
    return values


def _site_ids(subject: str, names: Sequence[Any], sites: Sequence[Any]) -> NDArray[np.int64]:
    """Return site ids as an array; floats with whole values are accepted."""
    ids = np.zeros(len(sites), dtype=np.int64)
    for page, value in enumerate(sites):
        is_number = isinstance(value, int | float | np.integer | np.floating)
        if not is_number or not 0 <= value < MAX_PAGES or int(value) != value:
            raise GraphError(
                f"{subject}: node {names[page]!r} has the site {value!r}; sites must be host "
                f"names, or whole numbers from 0 to {MAX_PAGES - 1}."
            )
        ids[page] = int(value)
    return ids
