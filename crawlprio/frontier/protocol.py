"""The interface between a crawler and its frontier, wherever the waiting pages are kept.

A frontier may be in this process (`crawlprio.live.local_frontier`) or in another. No call blocks:
calls take effect in the order in which they are made, and `next_page` returns what is available
locally. A frontier that has to ask a server returns None, and tells its user once it knows more.
Pages go in by URL and come out by lease; the ids of pages and sites stay behind the interface.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from time import monotonic
from typing import NamedTuple, Protocol

from crawlprio.graph.pages import NO_PAGE
from crawlprio.items import LinkPairs


class QueueEntry(NamedTuple):
    """A page to queue, and how to fetch it if a plain GET of its URL is not enough.

    Entries with the same `identity` are the same page. `site` is the host whose delay applies,
    `depth` the number of links followed from a seed; a larger `priority` is sooner, before anything
    else. `request` is JSON as bytes, which any frontier carries, or an object, which only a
    frontier in this process carries; None: a plain link. If it `repeats`, the page is fetched even
    if it is already waiting or was fetched before; `source` is then the lease of the page whose
    callback or redirect led to it, if known. Seeds do not count towards any budget.
    """

    identity: str
    url: str
    site: str
    depth: int = 0
    priority: int = 0
    request: object | None = None
    repeats: bool = False
    is_seed: bool = False
    source: int | None = None


@dataclass(slots=True)
class LeasedPage:
    """A leased page, with all that is needed to fetch it, as in `QueueEntry`.

    `lease` identifies the lease in later calls. `site` is the one that it holds, while it
    `holds_site`; if empty, that of the request. By `page`, and the `number` of its saved request if
    it has one, a later process finds it again in the store, and it `is_adopted` there. `is_again`:
    an earlier run visited the page, and this one only because `start` runs again. `usage` is what
    the robots.txt of its site says of the use of the page, if its frontier has asked.
    """

    lease: int
    url: str
    depth: int
    request: object | None
    site: str = ""
    page: int = NO_PAGE
    number: int | None = None
    is_again: bool = False
    is_adopted: bool = False
    holds_site: bool = True
    usage: str = ""

    @property
    def mark(self) -> tuple[int, int]:
        """What the requests that its callback yields are marked with in the store."""
        return self.page, self.number or 0


class HttpRecord(NamedTuple):
    """The records of one fetch, for parts of a crawl that keep these, and what an index says of it.

    `response` is a revisit record if `is_revisit`: the body is that of an earlier response.
    `requisites` are the URLs of what a page needs to look like itself, if these are kept too;
    `document` is what a browser made of the page, if one did.
    """

    url: str
    fetched_at: float
    status: int
    mime: str
    digest: bytes
    is_revisit: bool
    response: bytes
    request: bytes
    requisites: Sequence[str] = ()
    document: bytes = b""


class PageVisit(NamedTuple):
    """The outcome of a leased page: its links as one batch, or why there are none.

    The targets of `pairs` are URLs, of which new ones are queued; or identities if
    `links_are_entries`, which were already added one by one (by a spider that yields requests), so
    that unknown ones are not queued. The fetch ended at `fetched_at`, in Unix time, and took
    `elapsed` seconds; `error` says in a word or two why there was no page. `items` are what its
    callback scraped, each as JSON, if items are stored with visits; `exchange` has the records of
    its fetch, if a part keeps these.
    """

    pairs: LinkPairs
    links_are_entries: bool = False
    fetched_at: float = 0.0
    elapsed: float = 0.0
    error: str = ""
    items: Sequence[str] = ()
    exchange: HttpRecord | None = None


class FetchClock(Protocol):
    """Tracks every fetch and says when a site, identified by its host, may be fetched from."""

    def next_start(self, site: str) -> float:
        """Return the monotonic time before which no fetch may start on a site."""

    def has_room(self, site: str) -> bool:
        """Return whether a site has fewer fetches in flight than its limit."""

    def may_start(self, site: str) -> bool:
        """Return whether a fetch may start on a site now."""
        return self.has_room(site) and self.next_start(site) <= monotonic()

    async def turn(self, site: str, until: Callable[[], bool]) -> None:
        """Wait for a condition, checked again as fetches on a site end.

        `crawlprio.live.clock.AwaitedClock` implements it.
        """

    def hold(self, site: str, n_fetches: int = 1) -> None:
        """Count a fetch that the frontier did not hand out against its site; -1 undoes it."""

    def not_fetched(self, site: str) -> None:
        """Note that a page that was handed out will not be fetched."""

    def started(self, site: str, *, was_handed_out: bool) -> float:
        """Note that a fetch starts; return the seconds since the last one ended."""

    def ended(
        self,
        site: str,
        *,
        was_handed_out: bool,
        elapsed: float,
        status: int,
        retry_after: float | None,
        n_bytes: int = 0,
    ) -> None:
        """Note that a fetch ended: `status` 0 if no response came, `n_bytes` the body's size."""

    def set_delay(self, site: str, seconds: float) -> None:
        """Set the delay of one site, in place of its own or that of all sites."""

    def set_limit(self, site: str, n_fetches: int) -> None:
        """Set how many fetches one site may have at once; 0: any number."""

    def obey_crawl_delay(self, site: str, seconds: float) -> float:
        """Obey a Crawl-delay; return the delay that is applied, in seconds."""


class FrontierUser(Protocol):
    """Who fetches the pages of a frontier."""

    def page_ready(self) -> None:
        """Ask for a page soon: one may have become ready."""

    def lease_lost(self, lease: int) -> None:
        """End the fetch under a lease, which has expired."""


class Attached:
    """What has a user, once it is attached to one."""

    user: FrontierUser | None = None

    def attach(self, user: FrontierUser) -> None:
        self.user = user


class Frontier(Protocol):
    """All waiting pages, handed out under leases: most important first, no site too soon.

    Each lease ends exactly once, by `observe` or `put_back`. `benchmarks/frontier.py` measures the
    cost of each call for the frontier in this process.

    Attributes
    ----------
    clock
        Says when sites may be fetched from.
    carries_json_only
        Whether requests must be given as JSON because they are stored on disk or on a server.
    keeps_objects
        Whether a request that cannot be written as JSON is kept in memory instead of dropped.
    loses_leases
        Whether a lease can expire while a page is fetched under it.
    n_links
        Pages that were queued as plain links, as far as is known.
    """

    carries_json_only: bool
    keeps_objects: bool
    n_links: int
    loses_leases: bool

    @property
    def clock(self) -> FetchClock: ...

    def attach(self, user: FrontierUser) -> None:
        """Tell `user` of ready pages and lost leases from now on; call it before all else."""

    def is_duplicate(self, identity: str) -> bool:
        """Return whether `add` would drop a request for a page; False if that is not known."""

    def add(self, entry: QueueEntry) -> bool | None:
        """Queue a page; return False for a duplicate, None if that is not known yet."""

    def add_seeds(self, urls: Sequence[str]) -> None:
        """Queue plain pages as seeds in one batch, in this order, each URL once."""

    def start_enters_at(self, site: str, priority: int, n_free: float, *, can_lease: bool) -> float:
        """Return the monotonic time at which a request of `start` may be added.

        Scrapy pulls these one by one, behind all other requests of their priority. Here the
        ordering ranks them too, so they enter when nothing else of their priority can be fetched.
        inf: not before something happens.

        `n_free` more pages may be leased; no page at all before a site is released, unless it
        `can_lease`.
        """

    def next_page(self, now: float) -> LeasedPage | None:
        """Lease the next page to fetch; None if no site is ready or the answer is still pending."""

    def holds(self, lease: int) -> bool:
        """Return whether a lease may still be fetched under; False once it has expired."""

    def release_site(self, lease: int) -> None:
        """Release the site of a lease to its next page before this one is observed."""

    def observe(self, lease: int, visit: PageVisit) -> None:
        """Learn from a visit, queue its new links and end its lease."""

    def put_back(
        self, lease: int, request: object | None = None, priority: int | None = None
    ) -> None:
        """End a lease and queue its page again, with its own request or the one given."""

    def ready_at(self) -> float:
        """Return the monotonic time at which a page can leave; inf if that takes an event."""

    def __len__(self) -> int:
        """Return how many requests are waiting."""

    @property
    def is_busy(self) -> bool:
        """Whether the outcome of some call is still pending."""

    def figures(self) -> Mapping[str, int | str]:
        """Return figures for the crawl's report, by what they count."""

    def close(self) -> Awaitable[None] | None:
        """Flush all pending calls; no call may follow."""
