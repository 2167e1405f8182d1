"""What stands between a crawler and the pages that wait, wherever they are kept.

A frontier may be in this process (`crawlprio.live.local_frontier`) or in another. Nothing here
waits for an answer: what is told takes effect in the order told, and `next_page` answers with what
is at hand. A frontier that has to ask elsewhere answers None and calls `on_ready` once it knows
more. Pages are named by their URL going in and by their lease coming out; ids of pages and sites
stay behind the interface.
"""

from __future__ import annotations

import math
from collections.abc import Awaitable, Callable, Sequence
from typing import NamedTuple, Protocol

from crawlprio.items import LinkPairs


class Entry(NamedTuple):
    """A page that is to wait, and what its fetch takes beyond a plain GET of its URL.

    Parameters
    ----------
    identity
        The text by which the page is known; entries with one identity are one page.
    url, site, depth
        Its URL, the host whose delays it keeps, and the links followed from a seed.
    priority
        Larger is sooner, before all else.
    request
        How to fetch it: JSON as bytes, which any frontier carries, or an object, which only one in
        this process does. None: a plain link.
    repeats
        Fetch the page even if it waits already or was fetched.
    is_seed
        Whether the crawl starts from it; such a page counts in no budget.
    """

    identity: str
    url: str
    site: str
    depth: int = 0
    priority: int = 0
    request: object | None = None
    repeats: bool = False
    is_seed: bool = False


class Handout(NamedTuple):
    """A page that is leased, with what it takes to fetch it.

    Parameters
    ----------
    lease
        Names the lease in later calls.
    url, depth
        As in `Entry`.
    request
        As in `Entry`; None: a plain GET of the URL.
    until
        Monotonic time at which the frontier takes the page back unless the lease has ended; inf
        where the frontier lives and dies with the process.
    """

    lease: int
    url: str
    depth: int
    request: object | None
    until: float = math.inf


class PageVisit(NamedTuple):
    """What became of a leased page: its links as one batch, or why there are none.

    Parameters
    ----------
    pairs
        What the page says. `targets` are URLs, or identities where `links_are_entries`.
    links_are_entries
        Whether the targets were added one by one before (a spider that yields requests), so that
        unknown ones do not wait; else new targets wait from now on.
    fetched_at, elapsed
        Unix time at which the fetch ended, and its seconds.
    error
        Why there was no page, in a word or two; empty on success.
    items
        What its callback scraped, each as JSON, where items are kept with visits.
    """

    pairs: LinkPairs
    links_are_entries: bool = False
    fetched_at: float = 0.0
    elapsed: float = 0.0
    error: str = ""
    items: Sequence[str] = ()


class FetchClock(Protocol):
    """When a site, named by its host, may be fetched from; it is told of every fetch."""

    def next_start(self, site: str) -> float:
        """Return the monotonic time before which no fetch may start on a site."""

    def has_room(self, site: str) -> bool:
        """Return whether a site has fewer fetches under way than it may have."""

    def hold(self, site: str, n_fetches: int = 1) -> None:
        """Count a fetch that was not handed out among those of its site; -1 takes it back."""

    def not_fetched(self, site: str) -> None:
        """Note that a page that was handed out is not fetched."""

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
        """Note that a fetch ended; `status` is 0 without an answer, `n_bytes` is of its body."""

    def obey_crawl_delay(self, site: str, seconds: float) -> float:
        """Obey a Crawl-delay; return the seconds that are obeyed."""


class Frontier(Protocol):
    """All pages that wait, handed out under leases: most important first, no site too soon.

    Each lease ends once, by `observe` or `put_back`. `benchmarks/frontier.py` says what the calls
    cost for the frontier in this process.

    Attributes
    ----------
    clock
        when sites may be fetched from.
    carries_json_only
        whether requests must be given as JSON, as they are kept elsewhere or on disk.
    keeps_objects
        whether a request that JSON cannot hold is kept all the same, in memory; else it is dropped.
    on_ready
        is called when a page may have become ready that was not; set it before the first call.
    n_links
        pages that came to wait as plain links, as far as is known.
    """

    carries_json_only: bool
    keeps_objects: bool
    on_ready: Callable[[], object]
    n_links: int

    @property
    def clock(self) -> FetchClock: ...

    def is_duplicate(self, identity: str) -> bool:
        """Return whether `add` would drop a request for a page; False where it is not known."""

    def add(self, entry: Entry) -> bool | None:
        """Queue a page; return False for a duplicate, None where that is not known yet."""

    def add_seeds(self, urls: Sequence[str]) -> None:
        """Queue plain pages as seeds, all at once and in this order; duplicates count once."""

    def next_page(self, now: float) -> Handout | None:
        """Lease the page to fetch next; None if no site is ready, or the answer is on its way."""

    def let_go(self, lease: int) -> None:
        """Free the site of a lease for its next page before this one is observed."""

    def observe(self, lease: int, visit: PageVisit) -> None:
        """Learn from a visit and end its lease; new links wait from now on."""

    def put_back(
        self, lease: int, request: object | None = None, priority: int | None = None
    ) -> None:
        """End a lease whose page waits again, with its request or the one that is given."""

    def ready_at(self) -> float:
        """Return the monotonic time at which a page can leave; inf if that takes an event."""

    def __len__(self) -> int:
        """Return how many requests wait."""

    @property
    def is_busy(self) -> bool:
        """Whether something was asked or told whose outcome is not known yet."""

    def close(self) -> Awaitable[None] | None:
        """Flush what was told; nothing is told afterwards."""
