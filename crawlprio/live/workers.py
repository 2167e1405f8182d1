"""What the processes of a crawl know of each other where several fetch for one.

The one that has frontier and store knows them as its `Workers`. Each of them has `Crawl.tell_brain`
instead, which takes statements of `crawlprio.plugins.shared.messages`.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from typing import NamedTuple, Protocol

from crawlprio.errors import CrawlprioError, StoreError
from crawlprio.orderings.guard import OrderingError


class WorkersDied(CrawlprioError):
    """The processes that fetch cannot work."""


OF_THE_RUN = StoreError, OrderingError, WorkersDied
"""Errors of what happens in a crawl, and not of how it was asked for."""


class Shard(NamedTuple):
    """The part of a crawl that this process has, where several share it: some of the sites.

    `of` returns the number of the shard of a host; that of this process is `number`.
    """

    of: Callable[[str], int]
    number: int

    def is_foreign(self, host: str) -> bool:
        """Return whether a host is another shard's."""
        return self.of(host) != self.number


class LinksOut(NamedTuple):
    """The links of a page that one shard has fetched to pages of another.

    `url` and `depth` are those of the page, whose site had had so many visits (`site_visits`). It
    passes on `mass` (`Ordering.mass`) by its links: `targets` are URLs, each with its anchor text
    if there are `anchors`; `are_entries`: as in `PageVisit.links_are_entries`.
    """

    url: str
    depth: int
    mass: float
    site_visits: int
    targets: list[str]
    anchors: list[str]
    are_entries: bool


class Worker(Protocol):
    """A process that fetches: its name, its pages by lease, and its fetches by site."""

    @property
    def name(self) -> str: ...

    @property
    def leases(self) -> Mapping[int, object]: ...

    @property
    def fetching(self) -> Counter[str]: ...


class Workers(Protocol):
    """The processes that fetch for a crawl: `hands` are those that live.

    `on_fetch` is called with site, seconds and status of each fetch that has ended; status 0: no
    response.
    """

    on_fetch: Callable[[str, float, int], object]

    @property
    def hands(self) -> Iterable[Worker]: ...

    def flight(self) -> Iterable[tuple[str, float, str]]:
        """Yield the URL of each page that a worker has, for how many seconds, and its name."""
