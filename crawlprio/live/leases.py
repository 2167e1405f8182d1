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
from dataclasses import dataclass, field
from enum import Enum, auto

from scrapy import Request

from crawlprio.frontier.protocol import Exchange, Handout, PageVisit


class LeaseState(Enum):
    """How far a leased request has got."""

    HANDED_OUT = auto()
    FETCHING = auto()
    ANSWERED = auto()


@dataclass(slots=True, eq=False)
class Lease:
    """A request that is handed out.

    `identity` identifies its page, and `dont_filter` is the value that it had when it was handed
    out. `started_at` and `ended_at` are the monotonic times of its fetch, None before; `fetched_at`
    is Unix time; `status` is 0 until there is a response. `is_given_back`: it is rescheduled
    because its site turned out to be busy. `holds_site`: its site still waits for it. `answered_at`
    and `progressed_at` are ticks of its `Patience` at which it was answered and at which its
    callback last yielded.

    `make_visit` makes the visit from what its callback yields, None until that has started; `error`
    says why there is none. `is_observed`: its visit was observed before its callback ended. `items`
    were scraped so far, each as JSON, where items are kept; `exchange` has the records of its fetch
    for the archive.
    """

    request: Request
    handout: Handout
    identity: str
    dont_filter: bool
    state: LeaseState = LeaseState.HANDED_OUT
    started_at: float | None = None
    ended_at: float | None = None
    fetched_at: float = 0.0
    status: int = 0
    is_given_back: bool = False
    holds_site: bool = True
    answered_at: int = 0
    progressed_at: int = 0
    make_visit: Callable[[], PageVisit] | None = None
    is_observed: bool = False
    error: str = ""
    items: list[str] = field(default_factory=list)
    exchange: Exchange | None = None

    @property
    def elapsed(self) -> float:
        """Duration of its fetch in seconds; 0 if there was none."""
        if self.started_at is None or self.ended_at is None:
            return 0.0
        return self.ended_at - self.started_at


class Leases:
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
            if lease.handout.lease == number and lease.state is LeaseState.FETCHING:
                return request
        return None

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

    def replaced_by(self, request: Request) -> Lease | None:
        """Return the lease that this request replaces, if it lasts, on the first call only."""
        lease = self._replacements.pop(request, None) if self._replacements else None
        return None if lease is None or lease.request not in self._leases else lease
