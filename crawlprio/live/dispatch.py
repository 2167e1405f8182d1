"""The dispatcher, which maps Scrapy's requests to the frontier's pages and back."""

from __future__ import annotations

from collections.abc import Callable
from time import monotonic, time
from typing import TYPE_CHECKING

from scrapy import Request
from scrapy.crawler import Crawler
from scrapy.http import Response
from scrapy.utils.httpobj import urlparse_cached
from twisted.python.failure import Failure

from crawlprio.errors import CrawlprioError
from crawlprio.frontier.protocol import Entry, Frontier, PageVisit
from crawlprio.items import LinkPairs
from crawlprio.live import engine
from crawlprio.live.at_once import AtOnce
from crawlprio.live.causes import cause_of
from crawlprio.live.downloader import (
    FetchObserver,
    abort_fetch,
    fill_downloader,
    observe_fetches,
)
from crawlprio.live.identity import Identities, forget_inherited_slot
from crawlprio.live.leases import Lease, Leases, State
from crawlprio.live.packing import Packing
from crawlprio.live.patience import Patience
from crawlprio.live.start_gate import StartGate
from crawlprio.web.urls import without_credentials

if TYPE_CHECKING:
    from crawlprio.archive import Exchange
    from crawlprio.config import CrawlConfig


class Dispatcher(FetchObserver):
    """Hands out the requests of waiting pages by importance, and tracks their outcome.

    `crawlprio.live.leases` has the table of outcomes. A page stays leased until Scrapy is done
    with it: its callback has ended, its requests are scheduled and its items processed. Until then
    it counts as in flight, as far as `Patience` goes.

    Parameters
    ----------
    crawler
        the crawler whose requests are dispatched.
    frontier
        holds the waiting pages.
    identities
        decides when two requests are for the same page.
    config
        how many fetches may be in flight, whether a visit is recorded with the items of its
        callback, and which headers are stored with a request.
    failed
        called with the error when the frontier fails.

    Attributes
    ----------
    starts
        the gate for the requests of `start`.
    takes_seeds
        whether any request that did not come from a page is a seed, like those of `start`.
    leases
        the requests that are handed out.
    retried
        by identity, the URLs of pages that wait again after a failed fetch.
    keep_exchange
        archives the fetch of a visit that the frontier records elsewhere; None if it does not.
    """

    takes_seeds = False
    keep_exchange: Callable[[Exchange], object] | None = None

    def __init__(
        self,
        crawler: Crawler,
        frontier: Frontier,
        identities: Identities,
        config: CrawlConfig,
        failed: Callable[[CrawlprioError], object],
    ) -> None:
        self._crawler = crawler
        self._frontier = frontier
        self._identities = identities
        self._at_once = AtOnce(config.concurrency, config.max_concurrent_requests)
        self._failed = failed
        self._keeps_items = config.keeps_items
        self._packing = Packing(crawler, frontier, config.kept_headers)
        self.leases = Leases()
        self.retried: dict[str, str] = {}
        self._patience = Patience(self._release_site, self._wake)
        self.starts = StartGate()
        self._is_closed = False
        self._alarm = engine.EngineAlarm(crawler)
        frontier.on_ready = self._wake
        frontier.on_lost = self._abort
        observe_fetches(crawler, self)
        fill_downloader(crawler, self._fills_downloader, self._at_once.most)
        engine.watch_requests(crawler, outcome=self._outcome, done=self._done)

    def __len__(self) -> int:
        """The number of requests that wait or are leased."""
        return len(self._frontier) + len(self.leases) + self._frontier.is_busy

    @property
    def n_waiting(self) -> int:
        """The number of requests that wait."""
        return len(self._frontier)

    def close(self) -> None:
        self._is_closed = True
        self._alarm.cancel()
        self._patience.close()
        self.starts.close()

    # In

    def enqueue(self, request: Request, *, repeats: bool) -> bool:
        """Queue a request; return False for a duplicate, which is dropped.

        Parameters
        ----------
        repeats
            fetch its page even if it is already waiting or was fetched before.
        """
        try:
            return self._enqueue(request, repeats)
        except CrawlprioError as error:
            self._failed(error)
            return True

    def _enqueue(self, request: Request, repeats: bool) -> bool:
        lease = self.leases.replaced_by(request)
        if lease is None:
            return self._add(request, repeats)
        if lease.is_given_back:
            request.dont_filter = lease.dont_filter
            self._end(lease)
            self._frontier.put_back(lease.handout.lease)
            return True
        identity = self._identities.of_request(request)
        if identity == lease.identity and repeats:
            self._end(lease)
            packed = self._packing.pack(request)
            self.retried[identity] = request.url
            self._frontier.put_back(lease.handout.lease, packed, request.priority)
            return True
        is_kept = self._add(request, repeats)
        self._end(lease)
        self._report(lease, self._redirect(lease, request), links_are_entries=True)
        return is_kept

    def drop(self, request: Request) -> None:
        """End the lease that a request replaces, which was dropped as a duplicate."""
        lease = self.leases.replaced_by(request)
        if lease is not None:
            self._end(lease)
            self._report(lease, self._redirect(lease, request), links_are_entries=True)

    def _redirect(self, lease: Lease, request: Request) -> LinkPairs:
        """Return the link pairs of a redirect, whose target is its only link."""
        identity = self._identities.of_request(request)
        return LinkPairs(lease.request.url, [identity] if identity != lease.identity else [])

    def _add(self, request: Request, repeats: bool) -> bool:
        is_start = request in self.starts
        identity = self._identities.of_request(request)
        if not (repeats or is_start) and self._frontier.is_duplicate(identity):
            return False
        forget_inherited_slot(request)
        depth = request.meta.get("depth", 0)
        is_kept = self._frontier.add(
            Entry(
                identity=identity,
                url=without_credentials(request.url).partition("#")[0],
                site=site_of(request),
                depth=depth if isinstance(depth, int) else 0,
                priority=request.priority,
                request=self._packing.pack(request),
                repeats=repeats,
                is_seed=is_start or (self.takes_seeds and _is_from_outside(request)),
            )
        )
        if is_start:
            self.starts.queue(request, identity, is_kept=is_kept is not False)
        return is_kept is not False

    # Out

    def next_request(self) -> Request | None:
        """Return the request to fetch next, or None; the engine is woken when one is ready."""
        try:
            return self._next_request()
        except CrawlprioError as error:
            self._failed(error)
            return None

    def _next_request(self) -> Request | None:
        if self.leases.n_holding >= self._at_once.now:
            return None
        handout = self._frontier.next_page(monotonic())
        if handout is None:
            self._alarm.set(self._frontier.ready_at())
            return None
        request = self._packing.unpack(handout)
        if request in self.leases:
            request = request.copy()  # one object that a spider yielded twice
        identities = self._identities
        is_link = handout.request is None
        identity = identities.of_url(handout.url) if is_link else identities.of_request(request)
        self.leases.begin(Lease(request, handout, identity, request.dont_filter))
        self.starts.hand_out(identity)
        self._at_once.fetch_from(site_of(request))
        self.retried.pop(identity, None)
        return request

    def _fills_downloader(self) -> bool:
        """Return whether as many requests wait for their sites as Scrapy's downloader would hold.

        This keeps a `start` that yields while the downloader has room (`engine.needs_backout`) as
        lazy as it is without crawlprio.
        """
        n_open = len(self._frontier) + len(self.leases)
        if n_open < self._at_once.now or self._frontier.is_busy:
            return False
        ready_at = self._frontier.ready_at()
        if ready_at <= monotonic():
            return False
        self._alarm.set(ready_at)
        return True

    # Outcomes

    def lease_of(self, request: Request) -> Lease | None:
        return self.leases.of(request)

    def fetch_may_start(self, lease: Lease) -> bool:
        """Mark the fetch of a leased page as started; return False if its lease has expired."""
        if not self.may_send(lease):
            return False
        lease.started_at = monotonic()
        lease.state = State.FETCHING
        return True

    def may_send(self, lease: Lease) -> bool:
        """Return whether a leased page may still be fetched."""
        return self._frontier.holds(lease.handout.lease)

    def _abort(self, lease: int) -> None:
        """Abort the fetch under an expired lease: others may fetch its page by now."""
        request = self.leases.fetching(lease)
        if request is not None:
            self._crawler.stats.inc_value("crawlprio/aborted")
            abort_fetch(self._crawler, request)

    def give_back(self, lease: Lease) -> Request:
        """Return the request of a lease for the engine to reschedule, as its site is busy."""
        lease.is_given_back = True
        self._crawler.stats.inc_value("crawlprio/given_back")
        # Scrapy's own scheduler, with one of the priority queues, would drop it as a duplicate.
        lease.request.dont_filter = True
        return lease.request

    def progressed(self, lease: Lease) -> None:
        """Called when the callback of a lease has yielded, and when its output was consumed."""
        self._patience.prolong(lease)

    def fetch_answered(self, request: Request, response: Response) -> None:
        lease = self.leases.of(request)
        if lease is not None:
            lease.status = response.status

    def fetch_ended(self, request: Request) -> None:
        lease = self.leases.of(request)
        if lease is not None:
            lease.ended_at = monotonic()
            lease.fetched_at = time()
            lease.state = State.HANDED_OUT

    def _outcome(self, request: Request, outcome: Response | Request | Failure) -> None:
        """Record what the downloader and its middlewares returned for a request."""
        lease = self.leases.of(request)
        if lease is None:
            return
        if isinstance(outcome, Request):
            self.leases.replace(lease, outcome)
            return
        if isinstance(outcome, Failure):
            lease.error = cause_of(outcome.value) if outcome.value else "failed"
        elif isinstance(outcome, Response):  # the engine rejects anything else
            lease.status = outcome.status  # for a cached response, which was not fetched
        lease.state = State.ANSWERED
        self._patience.begin(lease)

    def _release_site(self, lease: Lease) -> None:
        if self.leases.release_site(lease) and not lease.is_observed:
            self._frontier.release_site(lease.handout.lease)

    def observe(self, lease: Lease, pairs: LinkPairs) -> None:
        """Record the links of a leased page before its callback has ended, instead of at its end.

        Where items are kept with visits, the links are recorded at the end, with all items.
        """
        if self._keeps_items:
            lease.brings_links = True
            lease.pairs = lambda: pairs
        elif not lease.is_observed:
            self._report(lease, pairs, links_are_entries=False)

    def _done(self, request: Request) -> None:
        """End the lease of a request that Scrapy is done with, callback and items included."""
        lease = self.leases.of(request)
        if lease is None:
            return
        self._end(lease)
        if not lease.is_observed:
            pairs = LinkPairs(request.url, []) if lease.pairs is None else lease.pairs()
            self._report(lease, pairs, links_are_entries=not lease.brings_links)

    def _end(self, lease: Lease) -> None:
        """Remove a lease; the caller tells the frontier that it has ended."""
        self._patience.end(lease)
        self.leases.end(lease)
        if lease.started_at is None:
            self._frontier.clock.not_fetched(site_of(lease.request))

    def _report(self, lease: Lease, pairs: LinkPairs, *, links_are_entries: bool) -> None:
        """Report the outcome of a leased page to the frontier."""
        lease.is_observed = True
        if lease.pairs is None:
            pairs.status = lease.status
        if lease.exchange is not None and self.keep_exchange is not None:
            self.keep_exchange(lease.exchange)
        try:
            self._frontier.observe(
                lease.handout.lease,
                PageVisit(
                    pairs,
                    links_are_entries,
                    lease.fetched_at,
                    lease.elapsed,
                    lease.error,
                    lease.items,
                    lease.exchange,
                    lease.body,
                ),
            )
        except CrawlprioError as error:
            self._failed(error)

    def _wake(self) -> None:
        if not self._is_closed:
            engine.wake(self._crawler)


def _is_from_outside(request: Request) -> bool:
    """Return whether a request came from neither a callback nor a redirect."""
    return "depth" not in request.meta and "redirect_urls" not in request.meta


def site_of(request: Request) -> str:
    """Return the host whose delays apply to a request: its download slot, or its own host."""
    return str(request.meta.get("download_slot") or urlparse_cached(request).hostname or "")
