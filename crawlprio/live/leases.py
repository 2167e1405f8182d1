"""Requests that are handed out, each under a lease until its callback is done.

Nothing here decides an order, reads a clock or knows the frontier.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, KeysView
from dataclasses import dataclass, field

from scrapy import Request

from crawlprio.pages import Visit


@dataclass(slots=True, eq=False)
class Lease:
    """A request that was handed out.

    Parameters
    ----------
    request, page
        the request, and the page that it fetches.
    dont_filter
        what the request said when it was handed out.
    is_link
        whether the page waited as a plain link, so that no request of it is saved.
    started_at, ended_at
        when its fetch started and ended, monotonic seconds; None until then.
    fetched_at
        Unix time at which its fetch ended.
    status
        HTTP status of the answer; 0 until there is one.
    in_callback
        whether an answer has reached the spider.
    given_back
        whether it comes back because its site was busy otherwise.
    holds_site
        whether its site still counts it as a lease.
    observed
        whether a visit was made of it.
    unscheduled
        requests that its callback yielded and that have not come to the scheduler yet.
    conclusion
        makes the visit of it; None until its callback is done.
    """

    request: Request
    page: int
    dont_filter: bool
    is_link: bool = False
    started_at: float | None = None
    ended_at: float | None = None
    fetched_at: float = 0.0
    status: int = 0
    in_callback: bool = False
    given_back: bool = False
    holds_site: bool = True
    observed: bool = False
    unscheduled: set[Request] = field(default_factory=set)
    conclusion: Callable[[], Visit] | None = None

    @property
    def elapsed(self) -> float:
        """Seconds that its fetch took; 0 if there was none."""
        if self.started_at is None or self.ended_at is None:
            return 0.0
        return self.ended_at - self.started_at


class Leases:
    """The leases of a crawl, by request: as many as fetches in flight and busy callbacks."""

    def __init__(self) -> None:
        self._leases: dict[Request, Lease] = {}
        self._sources: dict[Request, Lease] = {}

    def __len__(self) -> int:
        return len(self._leases)

    def __iter__(self) -> Iterator[Lease]:
        return iter(list(self._leases.values()))

    @property
    def requests(self) -> KeysView[Request]:
        return self._leases.keys()

    def of(self, request: Request) -> Lease | None:
        """Return the lease of a request that is handed out."""
        return self._leases.get(request)

    def begin(self, lease: Lease) -> None:
        self._leases[lease.request] = lease

    def end(self, lease: Lease) -> bool:
        """Forget a lease; return whether it was one still."""
        for request in lease.unscheduled:
            del self._sources[request]
        lease.unscheduled.clear()
        return self._leases.pop(lease.request, None) is not None

    def expect(self, lease: Lease, request: Request) -> None:
        """Note that the callback of a lease has yielded a request, which will be scheduled."""
        if request not in self._sources:
            lease.unscheduled.add(request)
            self._sources[request] = lease

    def scheduled(self, request: Request) -> Lease | None:
        """Note that a request has come; return the lease whose callback yielded it, if one did."""
        lease = self._sources.pop(request, None)
        if lease is not None:
            lease.unscheduled.discard(request)
        return lease

    def retried_by(self, request: Request, page: int) -> Lease | None:
        """Return the lease whose fetch failed and which a request means to fetch once more."""
        times = request.meta.get("retry_times", 0)
        for lease in self._leases.values():
            if lease.page == page and not lease.in_callback and not lease.observed:
                return lease if times > lease.request.meta.get("retry_times", 0) else None
        return None

    def redirected_to(self, request: Request) -> Lease | None:
        """Return the lease that was answered by a redirect to a request."""
        urls = request.meta.get("redirect_urls")
        if not urls:
            return None
        for lease in self._leases.values():
            if lease.request.url == urls[-1] and not lease.in_callback and not lease.observed:
                return lease
        return None
