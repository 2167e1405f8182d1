"""Pages, sites and visits as the core sees them: integer ids, with URLs and hosts at the edges."""

from __future__ import annotations

from array import array
from collections.abc import Iterable, Mapping, Sequence
from itertools import islice
from types import MappingProxyType
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

NO_PAGE = -1
"""The page of the visit that discovers the seeds; also returned where there is no page."""

MAX_DEPTH = 32_767
"""The largest depth that is stored; larger ones are stored as this."""

PageIds = NDArray[np.int32]

NO_PAGES: PageIds = np.empty(0, dtype=np.int32)


class NewPages(NamedTuple):
    """What was added to a page table and is not in a store yet.

    `urls`, `sites` and `depths` have those of each page, in order; `keys` the identity of each page
    for which it is not the URL, by position in `urls`; `aliases` `(identity, page)`, in order.
    """

    urls: list[str]
    sites: list[int]
    depths: list[int]
    keys: dict[int, str]
    aliases: list[tuple[str, int]]


NO_EXTRAS: Mapping[str, tuple[Any, ...]] = MappingProxyType({})


class Visit(NamedTuple):
    """The content of one fetched page: all the evidence that an ordering ever gets.

    Parameters
    ----------
    page
        Id of the page fetched; `NO_PAGE` for the visit whose targets are the seeds.
    targets
        int32, shape (n_links,): ids of the pages it links to, distinct, without `page`, in page
        order. A redirect is a visit with one target; a failed fetch has none.
    anchors
        Anchor text of each target; empty if not needed.
    status
        HTTP status; 0 if there was no response.
    title, text
        Title and visible text; `text` is empty unless a topic or a value model needs it, or texts
        are kept.
    outside
        `(url, anchor text)` of links that the crawl does not follow, to pages that were unknown at
        that time; recorded, but not used for ordering.
    fetched_at
        Unix time in seconds at which the fetch ended.
    elapsed
        Seconds that the fetch took.
    n_bytes
        Length of the body.
    content_hash
        64-bit signed hash of the body; 0 when not computed.
    error
        Short cause if there was no page; empty on success.
    extras
        What else parts of the crawl know of the page: rows by side table, stored with the visit.
    """

    page: int
    targets: PageIds
    anchors: Sequence[str] = ()
    status: int = 200
    title: str = ""
    text: str = ""
    outside: Sequence[tuple[str, str]] = ()
    fetched_at: float = 0.0
    elapsed: float = 0.0
    n_bytes: int = 0
    content_hash: int = 0
    error: str = ""
    extras: Mapping[str, tuple[Any, ...]] = NO_EXTRAS

    @property
    def value(self) -> float | None:
        """What the page is worth by the crawl's value model, from 0 to 1; None: not scored."""
        row = self.extras.get("page_values")
        return None if row is None else row[0]


class PageTable:
    """URL <-> page id <-> site id; ids count from 0 in order of discovery.

    A page is found by its *identity*: its canonical URL, or another string for a request that is
    more than a link (another method, a body). This class keeps everything in memory, and a lookup
    costs one dictionary access; a crawl with a store keeps URLs on disk
    (`crawlprio.store.StoredPages`).
    """

    def __init__(self) -> None:
        self._n_pages = 0
        self._ids: dict[str, int] = {}
        self._urls: list[str] = []
        self._hosts: list[str] = []
        self._site_ids: dict[str, int] = {}
        self._site_sizes = array("i")
        self._sites = np.empty(1024, dtype=np.int32)
        self._depths = np.empty(1024, dtype=np.int16)

    def __len__(self) -> int:
        return self._n_pages

    @property
    def n_sites(self) -> int:
        return len(self._hosts)

    @property
    def n_identities(self) -> int:
        """Number of identities: one for each page, and the aliases."""
        return len(self._ids)

    @property
    def sites(self) -> NDArray[np.int32]:
        """int32, shape (n_pages,): the site of each page. A view, valid until a page is added."""
        return self._sites[: self._n_pages]

    @property
    def depths(self) -> NDArray[np.int16]:
        """int16, shape (n_pages,): links followed from a seed when the page was discovered."""
        return self._depths[: self._n_pages]

    def site_size(self, site: int) -> int:
        """Return the number of known pages of a site."""
        return self._site_sizes[site]

    def find(self, identity: str) -> int:
        """Return the page with this identity, or `NO_PAGE`."""
        return self._ids.get(identity, NO_PAGE)

    def find_all(self, identities: Iterable[str]) -> list[int]:
        """Return the page with each identity, or `NO_PAGE`; faster than `find` for each."""
        get = self._ids.get
        return [get(identity, NO_PAGE) for identity in identities]

    def add(self, identity: str, url: str, site: int, depth: int = 0) -> int:
        """Add a page under the next id; the identity must be new."""
        page = self._place(site, depth)
        self._ids[identity] = page
        self._urls.append(url)
        return page

    def alias(self, identity: str, page: int) -> None:
        """Give a page a second identity."""
        self._ids[identity] = page

    def site(self, host: str) -> int:
        """Return the id of a site, adding it if the host is new."""
        site = self._site_ids.get(host)
        if site is None:
            site = self._site_ids[host] = len(self._hosts)
            self._hosts.append(host)
            self._site_sizes.append(0)
        return site

    def knows_host(self, host: str) -> bool:
        return host in self._site_ids

    def url(self, page: int) -> str:
        return self._urls[page]

    def urls(self, pages: Iterable[int]) -> list[str]:
        urls = self._urls
        return [urls[page] for page in pages]

    def host(self, site: int) -> str:
        return self._hosts[site]

    def new_since(self, n_pages: int, n_identities: int) -> NewPages:
        """Return what was added after the first `n_pages` and `n_identities`. O(what is new)."""
        urls = self._urls[n_pages:]
        keys: dict[int, str] = {}
        aliases: list[tuple[str, int]] = []
        found = n_pages
        # A table never drops an identity, so the new ones are the last of its dictionary. The first
        # identity of a page is the one that the page was added under.
        n_new = len(self._ids) - n_identities
        for key, page in reversed(list(islice(reversed(self._ids.items()), n_new))):
            if page == found:
                if key != urls[page - n_pages]:
                    keys[page - n_pages] = key
                found += 1
            else:
                aliases.append((key, page))
        sites, depths = self.sites[n_pages:].tolist(), self.depths[n_pages:].tolist()
        return NewPages(urls, sites, depths, keys, aliases)

    def forget_stored(self) -> None:
        """Called once a store has everything in the table; a table on disk drops it from memory."""

    def _place(self, site: int, depth: int) -> int:
        """Assign the next id to a page of a site, and return it."""
        page = self._n_pages
        if page == len(self._sites):
            self._reserve(2 * page)
        self._sites[page] = site
        self._depths[page] = depth if depth < MAX_DEPTH else MAX_DEPTH
        self._site_sizes[site] += 1
        self._n_pages = page + 1
        return page

    def _reserve(self, n_pages: int) -> None:
        """Make room for `n_pages`, without touching the memory beyond the known pages."""
        sites, depths = np.empty(n_pages, dtype=np.int32), np.empty(n_pages, dtype=np.int16)
        sites[: self._n_pages], depths[: self._n_pages] = self.sites, self.depths
        self._sites, self._depths = sites, depths
