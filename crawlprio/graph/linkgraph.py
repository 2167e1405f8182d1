"""The link graph of a set of pages, as arrays in compressed sparse row form, and their URLs."""

from __future__ import annotations

import re
from array import array
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, overload
from urllib.parse import urlsplit

import numpy as np
from numpy.typing import NDArray

from crawlprio.errors import GraphError
from crawlprio.graph.arrays import Flags, integers
from crawlprio.graph.compiled import njit
from crawlprio.graph.pages import NO_PAGE, PageIds

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
def transposed_rows(indptr: Indptr, indices: PageIds, position: PageIds) -> tuple[Indptr, PageIds]:
    """Transpose rows of targets into rows of ascending sources, by a counting sort.

    Each page is renumbered to its position. Besides the result only the inverse of `position` is
    allocated: the row starts advance as rows fill, until each has reached the start of the next.
    """
    n = len(indptr) - 1
    starts = np.zeros(n + 2, dtype=np.int64)
    for k in range(len(indices)):
        starts[position[indices[k]] + 2] += 1
    page_at = np.empty(n, dtype=np.int32)
    for page in range(n):
        starts[page + 2] += starts[page + 1]
        page_at[position[page]] = page
    sources = np.empty(len(indices), dtype=np.int32)
    for at in range(n):
        page = page_at[at]
        for k in range(indptr[page], indptr[page + 1]):
            row = position[indices[k]] + 1
            sources[starts[row]] = at
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


def kept_rows(indptr: Indptr, indices: PageIds, is_kept: Flags) -> tuple[Indptr, PageIds]:
    """Copy the rows with only those links of which `is_kept`, shape (n_links,), is True."""
    return np.concatenate(([0], np.cumsum(is_kept)))[indptr], indices[is_kept]


def links_of(indptr: Indptr, pages: NDArray[np.integer]) -> NDArray[np.int64]:
    """Return the places of the links of some pages, in the order of the pages."""
    lengths = np.diff(indptr)[pages]
    ends = np.cumsum(lengths)
    n_links = int(ends[-1]) if len(ends) else 0
    begins = np.repeat(indptr[pages] - (ends - lengths), lengths)
    return np.asarray(np.arange(n_links) + begins, dtype=np.int64)


NEWLINE = 10
_DECODED_AT_ONCE = 10_000


class Urls(Sequence[str]):
    """An immutable sequence of URLs that takes 9 bytes each besides their UTF-8.

    The first search adds an index of 8 bytes per URL. Equal to any sequence of the same strings,
    which may be any: they are not parsed, and lone surrogates are preserved.
    """

    __slots__ = ("_index", "_offsets", "_text")

    def __init__(self, urls: Iterable[str]) -> None:
        self._text = bytearray()
        ends = array("q", [0])
        for url in urls:
            self._text += url.encode("utf-8", "surrogatepass")
            self._text.append(NEWLINE)
            ends.append(len(self._text))
        self._offsets: NDArray[np.int64] = np.frombuffer(ends, dtype=np.int64)
        self._index: tuple[PageIds, PageIds] | None = None

    @classmethod
    def from_lines(cls, text: bytearray) -> Urls:
        """Return the lines of a UTF-8 text, which is not copied and must not be changed later.

        Lines end in a line feed, which is optional on the last line. O(length of the text).
        """
        if text and text[-1] != NEWLINE:
            text.append(NEWLINE)
        urls = cls(())
        urls._text = text
        ends = np.flatnonzero(np.frombuffer(text, dtype=np.uint8) == NEWLINE)
        urls._offsets = np.concatenate(([0], ends + 1))
        return urls

    def lines(self) -> memoryview:
        """Return a view of the UTF-8 of all URLs, each followed by a line feed."""
        return memoryview(self._text)

    @property
    def n_lines(self) -> int:
        """Number of line feeds in `lines()`: more than the number of URLs if a URL has one."""
        return self._text.count(NEWLINE)

    def find(self, url: str) -> int:
        """Return the first index of exactly this URL, or `NO_PAGE`.

        O(log n), except for the first call, which hashes all URLs.
        """
        if self._index is None:
            hashes = np.fromiter(map(_short_hash, self), dtype=np.int32, count=len(self))
            order = np.argsort(hashes, kind="stable").astype(np.int32)
            self._index = hashes[order], order
        hashes, order = self._index
        wanted = np.int32(_short_hash(url))
        at = int(hashes.searchsorted(wanted))
        while at < len(hashes) and hashes[at] == wanted:
            page = int(order[at])
            if self[page] == url:
                return page
            at += 1
        return NO_PAGE

    def __len__(self) -> int:
        return len(self._offsets) - 1

    @overload
    def __getitem__(self, index: int) -> str: ...

    @overload
    def __getitem__(self, index: slice) -> list[str]: ...

    def __getitem__(self, index: int | slice) -> str | list[str]:
        if isinstance(index, slice):
            return [self[page] for page in range(*index.indices(len(self)))]
        page = int(index)
        if page < 0:
            page += len(self)
        if not 0 <= page < len(self):
            raise IndexError(f"there are {len(self)} URLs, and none at index {index}")
        start, end = self._offsets[page], self._offsets[page + 1] - 1
        return self._text[start:end].decode("utf-8", "surrogatepass")

    def __iter__(self) -> Iterator[str]:
        for first in range(0, len(self), _DECODED_AT_ONCE):
            ends = self._offsets[first : first + _DECODED_AT_ONCE + 1].tolist()
            text = self._text[ends[0] : ends[-1]]
            start = 0
            for end in ends[1:]:
                end -= ends[0]
                yield text[start : end - 1].decode("utf-8", "surrogatepass")
                start = end

    def __contains__(self, url: object) -> bool:
        return isinstance(url, str) and self.find(url) != NO_PAGE

    def __eq__(self, other: object) -> bool:
        if isinstance(other, str) or not isinstance(other, Sequence):
            return NotImplemented
        return len(self) == len(other) and all(
            one == another for one, another in zip(self, other, strict=True)
        )

    __hash__ = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        return f"<Urls: {len(self)}>"


def _short_hash(url: str) -> int:
    """Return 31 bits of Python's own hash, which nobody can aim at from outside."""
    return hash(url) & 0x7FFF_FFFF


MAX_PAGES = 2**31 - 1
"""Page ids are int32."""


@dataclass(frozen=True, eq=False)
class LinkGraph:
    """A directed graph of pages: page i links to `indices[indptr[i]:indptr[i + 1]]`, in page order.

    Links can be looked up by page or URL, forward and backward, all or between sites only, at 4
    bytes per link and 8 per page in each direction (like the Connectivity Server: Bharat et al.,
    WWW 1998; Najork & Wiener, WWW 2001, section 3).

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
        indices = integers("indices", self.indices, np.int32, below=n_pages)
        site = integers("site", self.site, np.int32, below=MAX_PAGES)
        site = site if len(site) else np.zeros(n_pages, dtype=np.int32)
        site = integers("site", site, np.int32, length=n_pages)
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
        arrays may be overwritten, so that no links are copied. O(n_pages + n_links) time, 4 bytes
        per page in addition to the graph, and those of the copy while it is made.
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

        A view, O(1); with `between_sites` a copy, O(links of the page).
        """
        return self._row(self.indptr, self.indices, page, between_sites)

    def in_links(self, page: int, *, between_sites: bool = False) -> PageIds:
        """Return the pages that link to a page, ascending, or only those on other sites.

        As `out_links`; the first call transposes the graph in O(n_pages + n_links).
        """
        return self._row(*self.transposed, page, between_sites)

    def _row(self, indptr: Indptr, pages: PageIds, page: int, between_sites: bool) -> PageIds:
        if not 0 <= page < self.n_pages:
            raise GraphError(f"there is no page {page}; page ids are 0 to {self.n_pages - 1}.")
        row = pages[indptr[page] : indptr[page + 1]]
        return row[self.site[row] != self.site[page]] if between_sites else row

    @cached_property
    def transposed(self) -> tuple[Indptr, PageIds]:
        """In-links as (indptr int64, sources int32), with ascending sources; built on first use."""
        return transposed_rows(self.indptr, self.indices, np.arange(self.n_pages, dtype=np.int32))

    def between_sites(self) -> LinkGraph:
        """Return the graph of the same pages with only the links between sites."""
        of_source = np.repeat(self.site, np.diff(self.indptr))
        rows = kept_rows(self.indptr, self.indices, of_source != self.site[self.indices])
        return LinkGraph(*rows, self.site, self.urls, self.hosts)

    def find(self, url: str) -> int:
        """Return the first page with exactly this URL, or `NO_PAGE`.

        O(1), except for the first call, which indexes all URLs at 8 bytes each.
        """
        return self._urls.find(url)

    @cached_property
    def _urls(self) -> Urls:
        """The URLs in searchable form."""
        return self.urls if isinstance(self.urls, Urls) else Urls(self.urls or ())


NUMBERED = re.compile("n?[0-9]+")
"""Node names without meaning: numbers, and numbers after an n."""


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
    for name, value in zip(names, sites, strict=True):
        is_number = isinstance(value, int | float | np.integer | np.floating)
        if not is_number or not 0 <= value < MAX_PAGES or int(value) != value:
            raise GraphError(
                f"{subject}: node {name!r} has the site {value!r}; sites must be host "
                f"names, or whole numbers from 0 to {MAX_PAGES - 1}."
            )
    return np.array(sites, dtype=np.int64)
