"""What may become of a request that is handed out: one table of states and events.

====================  ================================  ========================================
state                 event                             what happens
====================  ================================  ========================================
`HANDED_OUT`          its fetch starts                  `FETCHING`
`FETCHING`            its fetch ends                    `HANDED_OUT`; others may still replace it
`HANDED_OUT`          an answer or failure is for the   `ANSWERED`; the site waits for the
                      spider                            callback, but not longer than `PATIENCE`
any before            the site was busy after all       given back: its page waits where it was
any before            a middleware returns a request    retry: its page waits again, with the new
                      for the same page, to be fetched  request, with the key it had; no visit
                      again
any before            a middleware returns any other    redirect: the new request waits on its
                      request                           own; a visit with its page as the one link
`ANSWERED`            the callback takes too long       its site may continue; the lease stays
`ANSWERED`            the callback says all it has to   the visit is observed, and not again
any                   Scrapy is done with the request   the visit is observed, the lease ends
====================  ================================  ========================================

Whatever else a request does (a callback that yields it again, a second request for its page) is a
request of its own, which waits beside it. So each lease ends exactly once, and what waits for a
page never depends on what becomes of its leases.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from enum import Enum, auto

from scrapy import Request

from crawlprio.frontier.protocol import Handout
from crawlprio.items import LinkPairs


class State(Enum):
    """How far a request that is handed out has come."""

    HANDED_OUT = auto()
    FETCHING = auto()
    ANSWERED = auto()


@dataclass(slots=True, eq=False)
class Lease:
    """A request that is handed out.

    Parameters
    ----------
    request, handout
        the request, and what the frontier handed out.
    identity
        the text by which its page is known.
    dont_filter
        what the request said when it was handed out.
    state
        how far it has come.
    started_at, ended_at
        monotonic times of its fetch; None until then.
    fetched_at
        Unix time at which its fetch ended.
    status
        HTTP status of the answer; 0 until there is one.
    is_given_back
        whether it comes back because its site was busy after all.
    holds_site
        whether its site still waits for it.
    answered_at, progressed_at
        ticks of the event loop at which it was answered, and at which its callback last yielded.
    pairs
        makes what its page says, for its visit; None until its callback has begun.
    is_observed
        whether its visit was observed before its callback ended.
    error
        why there is no page, in a word or two.
    items
        what its callback scraped so far, each as JSON, where items are kept.
    brings_links
        whether its links come with the visit, and not as requests before it.
    """

    request: Request
    handout: Handout
    identity: str
    dont_filter: bool
    state: State = State.HANDED_OUT
    started_at: float | None = None
    ended_at: float | None = None
    fetched_at: float = 0.0
    status: int = 0
    is_given_back: bool = False
    holds_site: bool = True
    answered_at: int = 0
    progressed_at: int = 0
    pairs: Callable[[], LinkPairs] | None = None
    is_observed: bool = False
    error: str = ""
    items: list[str] = field(default_factory=list)
    brings_links: bool = False

    @property
    def elapsed(self) -> float:
        """Seconds that its fetch took; 0 if there was none."""
        if self.started_at is None or self.ended_at is None:
            return 0.0
        return self.ended_at - self.started_at


class Leases:
    """The leases of a crawl by request: as many as fetches in flight and busy callbacks."""

    def __init__(self) -> None:
        self._leases: dict[Request, Lease] = {}
        self._replacements: dict[Request, Lease] = {}

    def __len__(self) -> int:
        return len(self._leases)

    def __iter__(self) -> Iterator[Lease]:
        return iter(list(self._leases.values()))

    def __contains__(self, request: Request) -> bool:
        return request in self._leases

    def of(self, request: Request) -> Lease | None:
        """Return the lease of a request that is handed out."""
        return self._leases.get(request)

    def begin(self, lease: Lease) -> None:
        self._leases[lease.request] = lease

    def end(self, request: Request) -> Lease | None:
        """Forget the lease of a request and return it; None if it has ended."""
        return self._leases.pop(request, None)

    def replace(self, lease: Lease, by: Request) -> None:
        """Note that a middleware returned another request, which is about to be scheduled."""
        self._replacements[by] = lease

    def replaced_by(self, request: Request) -> Lease | None:
        """Return the lease of the request that this one replaces, the first time it is asked."""
        return self._replacements.pop(request, None) if self._replacements else None
