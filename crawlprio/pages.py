"""Pages, sites and visits as the core sees them: integer ids, with URLs and hosts at the edges.

Nothing here knows Scrapy, queues or clocks.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

NO_PAGE = -1
"""The source of the visit that discovers the seeds; also the answer where no page is meant."""

PageIds = NDArray[np.int32]

NO_PAGES: PageIds = np.empty(0, dtype=np.int32)


@dataclass(frozen=True, slots=True)
class Visit:
    """What one fetched page says: all the evidence that an ordering ever gets.

    Parameters
    ----------
    page
        Id of the page fetched; `NO_PAGE` for the visit whose targets are the seeds.
    targets
        int32, shape (n_links,): ids of the pages it links to, distinct, without `page`, in page
        order. A redirect is a visit with one target; a failed fetch has none.
    anchors
        Anchor text of each target; empty where nobody asked for it.
    status
        HTTP status; 0 when no answer came.
    title, text
        Title and visible text; `text` is empty unless a topic asks for it.
    outside
        `(url, anchor text)` of links that the crawl does not follow; recorded, not ordered.
    fetched_at
        Unix time in seconds at which the fetch ended.
    elapsed
        Seconds that the fetch took.
    n_bytes
        Length of the body.
    content_hash
        64-bit signed hash of the body; 0 when not computed.
    error
        Why there was no page, in a word or two; empty on success.
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


class PageTable:
    """URL <-> page id <-> site id; ids count from 0 in order of discovery.

    A page is found again by its *identity*: its canonical URL, or for a request that is more than
    a link (another method, a body) a text that says so. Looking up costs one dictionary access.
    """

    def __init__(self) -> None:
        self._ids: dict[str, int] = {}
        self._urls: list[str] = []
        self._hosts: list[str] = []
        self._site_ids: dict[str, int] = {}
        self._sites = np.empty(1024, dtype=np.int32)
        self._depths = np.empty(1024, dtype=np.int16)

    def __len__(self) -> int:
        return len(self._urls)

    @property
    def n_sites(self) -> int:
        return len(self._hosts)

    @property
    def sites(self) -> NDArray[np.int32]:
        """int32, shape (n_pages,): the site of each page. A view, valid until a page is added."""
        return self._sites[: len(self._urls)]

    @property
    def depths(self) -> NDArray[np.int16]:
        """int16, shape (n_pages,): links followed from a seed when the page was discovered."""
        return self._depths[: len(self._urls)]

    def find(self, identity: str) -> int:
        """Return the page with this identity, or `NO_PAGE`."""
        return self._ids.get(identity, NO_PAGE)

    def add(self, identity: str, url: str, site: int, depth: int = 0) -> int:
        """Give a new page the next id; the identity must not be known yet."""
        page = len(self._urls)
        if page == len(self._sites):
            self._sites = np.resize(self._sites, 2 * page)
            self._depths = np.resize(self._depths, 2 * page)
        self._ids[identity] = page
        self._urls.append(url)
        self._sites[page] = site
        self._depths[page] = min(depth, 32767)
        return page

    def alias(self, identity: str, page: int) -> None:
        """Let a second identity mean `page`."""
        self._ids[identity] = page

    def site(self, host: str) -> int:
        """Return the id of a site, which is new if the host has not been seen."""
        site = self._site_ids.get(host)
        if site is None:
            site = self._site_ids[host] = len(self._hosts)
            self._hosts.append(host)
        return site

    def url(self, page: int) -> str:
        return self._urls[page]

    def urls(self, pages: Iterable[int]) -> list[str]:
        urls = self._urls
        return [urls[page] for page in pages]

    def host(self, site: int) -> str:
        return self._hosts[site]
