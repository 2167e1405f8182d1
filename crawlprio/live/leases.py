"""The states of a request that is handed out, and the events that change them.

====================  ================================  ========================================
state                 event                             what happens
====================  ================================  ========================================
`HANDED_OUT`          its fetch starts                  `FETCHING`
`FETCHING`            its fetch ends                    `HANDED_OUT`; it may still be replaced
`HANDED_OUT`          a response or failure is passed   `ANSWERED`; the site waits for the
                      to the spider                     callback, but not longer than `PATIENCE`
any earlier           its site turns out to be busy     given back: its page waits where it was
`FETCHING`            the frontier has lost the lease   the fetch is aborted, its page given back
any earlier           a middleware returns a request    retry: its page waits again, with the new
                      to fetch the same page again      request and its previous key; no visit
any earlier           a middleware returns any other    redirect: the new request waits on its
                      request                           own; a visit with its page as only link
`ANSWERED`            the callback takes too long       its site may continue; the lease stays
`ANSWERED`            the callback yields all its       the visit is observed, and not again
                      links in one `LinkPairs`
any                   Scrapy is done with the request   the visit is observed, the lease ends
====================  ================================  ========================================

Anything else (a callback that yields the request again, a second request for its page) is a
separate request that waits on its own. So each lease ends exactly once, and the requests that wait
for a page never depend on the outcome of its leases.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextvars import ContextVar
from dataclasses import dataclass, field
from enum import Enum, auto
from time import monotonic, time

from scrapy import Request
from scrapy.exceptions import DownloadFailedError, IgnoreRequest
from scrapy.http import Response
from twisted.python.failure import Failure

from crawlprio.frontier.protocol import HttpRecord, LeasedPage, PageVisit
from crawlprio.live.crawl_counters import cause_of
from crawlprio.live.downloader import FetchObserver


class LeaseState(Enum):
    """The progress of a leased request."""

    HANDED_OUT = auto()
    FETCHING = auto()
    ANSWERED = auto()


@dataclass(slots=True, eq=False)
class Lease:
    """A request that is handed out.

    `identity` identifies its page, and `dont_filter` is the value that it had when it was handed
    out. `site` is the one that its fetch counts for, empty if that is a download slot which a
    middleware has set. `started_at` and `ended_at` are the monotonic times of its fetch, None
    before; `fetched_at` is Unix time; `status` is 0 until there is a response. `is_given_back`: it
    is rescheduled because its site turned out to be busy. `holds_site`: its site still waits for
    it. `answered_at` and `progressed_at` are ticks of its `CallbackWait` at which it was answered
    and at which its callback last yielded.

    `is_read`: its callback has begun. `visit` is what that made of the response, None before it has
    ended; `error` says why there is none. `is_observed`: its visit was observed, perhaps before its
    callback has ended. `items` were scraped so far, each as JSON, where items are kept; `exchange`
    has the records of its fetch, if a part keeps these.
    """

    request: Request
    leased_page: LeasedPage
    identity: str
    dont_filter: bool
    site: str = ""
    state: LeaseState = LeaseState.HANDED_OUT
    started_at: float | None = None
    ended_at: float | None = None
    fetched_at: float = 0.0
    status: int = 0
    is_given_back: bool = False
    holds_site: bool = True
    answered_at: int = 0
    progressed_at: int = 0
    is_read: bool = False
    visit: PageVisit | None = None
    is_observed: bool = False
    error: str = ""
    items: list[str] = field(default_factory=list)
    exchange: HttpRecord | None = None

    @property
    def elapsed(self) -> float:
        """Duration of its fetch in seconds; 0 if there was none."""
        if self.started_at is None or self.ended_at is None:
            return 0.0
        return self.ended_at - self.started_at


class Leases(FetchObserver):
    """The leases of a crawl by request, one for each fetch in flight or running callback.

    The sites of `n_holding` of them wait for them.
    """

    def __init__(self) -> None:
        self._leases: dict[Request, Lease] = {}
        self._replacements: dict[Request, Lease] = {}
        self.n_holding = 0

    def __len__(self) -> int:
        return len(self._leases)

    def __iter__(self) -> Iterator[Lease]:
        """All leases, oldest first."""
        return iter(self._leases.values())

    def __contains__(self, request: Request) -> bool:
        return request in self._leases

    def of(self, request: Request) -> Lease | None:
        """Return the lease of a request; None if it has none."""
        return self._leases.get(request)

    def fetching(self, number: int) -> Request | None:
        """Return the request in flight under a lease of the frontier; None if there is none."""
        for request, lease in self._leases.items():
            if lease.leased_page.lease == number and lease.state is LeaseState.FETCHING:
                return request
        return None

    def fetch_answered(self, request: Request, response: Response) -> None:
        lease = self._leases.get(request)
        if lease is not None:
            lease.status = response.status

    def fetch_ended(self, request: Request) -> None:
        lease = self._leases.get(request)
        if lease is not None:
            lease.ended_at = monotonic()
            lease.fetched_at = time()
            lease.state = LeaseState.HANDED_OUT

    def answered(self, lease: Lease, outcome: Response | Failure) -> None:
        """Record the response or failure that is passed to the spider."""
        if isinstance(outcome, Failure):
            error = outcome.value
            lease.error = cause_of(error, lease.request) if error else "failed"
            if 200 <= lease.status < 300 and not isinstance(error, IgnoreRequest):
                lease.status = 0  # nobody could read the answer
        elif isinstance(outcome, Response):  # the engine rejects anything else
            lease.status = outcome.status  # for a cached response, which was not fetched
        lease.state = LeaseState.ANSWERED

    def begin(self, lease: Lease) -> None:
        self._leases[lease.request] = lease
        self.n_holding += 1

    def release_site(self, lease: Lease) -> bool:
        """Release the site of a lease; return False if it was released already."""
        was_held, lease.holds_site = lease.holds_site, False
        self.n_holding -= was_held
        return was_held

    def end(self, lease: Lease) -> None:
        del self._leases[lease.request]
        self.release_site(lease)

    def replace(self, lease: Lease, by: Request) -> None:
        """Keep the lease for the request that a middleware returned instead of its own."""
        self._replacements[by] = lease

    def replacement_of(self, lease: Lease) -> Request | None:
        """Return the request that replaces a lease, if the scheduler has not seen it."""
        return next((by for by, each in self._replacements.items() if each is lease), None)

    def replaced_by(self, request: Request) -> Lease | None:
        """Return the lease that this request replaces, if it lasts, on the first call only."""
        lease = self._replacements.pop(request, None) if self._replacements else None
        return None if lease is None or lease.request not in self._leases else lease


@dataclass(slots=True, eq=False)
class Sending:
    """The permission of one fetch to send, asked before each write to its socket.

    A fetch that may send no longer was `was_refused`, and its connection closed.
    """

    is_allowed: Callable[[], bool]
    was_refused: bool = False


sending: ContextVar[Sending | None] = ContextVar("sending", default=None)
"""The fetch in whose context a download handler asks for a connection."""


def check_may_send() -> None:
    """Raise DownloadFailedError if the fetch in whose context this is called may not send."""
    fetch = sending.get()
    if fetch is not None and not fetch.is_allowed():
        fetch.was_refused = True
        raise DownloadFailedError("its lease is lost")
