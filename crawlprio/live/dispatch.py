"""The dispatcher, which maps Scrapy's requests to the frontier's pages and back."""

from __future__ import annotations

import logging
import math
from collections.abc import Callable, Collection
from time import monotonic, time

from scrapy import Request
from scrapy.crawler import Crawler
from scrapy.http import Response
from scrapy.utils.asyncio import CallLaterResult, call_later
from scrapy.utils.defer import maybe_deferred_to_future
from scrapy.utils.httpobj import urlparse_cached
from twisted.internet.defer import Deferred
from twisted.python.failure import Failure

from crawlprio.errors import CrawlprioError
from crawlprio.frontier.protocol import Entry, Frontier, PageVisit
from crawlprio.items import LinkPairs
from crawlprio.live import engine
from crawlprio.live.causes import cause_of
from crawlprio.live.downloader import FetchObserver, fill_downloader, observe_fetches
from crawlprio.live.identity import Identities, forget_inherited_slot
from crawlprio.live.leases import Lease, Leases, State
from crawlprio.live.request_json import RequestNotStorable, from_json, to_json
from crawlprio.web.urls import without_credentials

logger = logging.getLogger("crawlprio")

TICK = 0.01
"""Seconds between two checks of the callbacks that sites wait for."""

PATIENCE = 10
"""Ticks that a site waits for a callback that yields nothing more. Ticks pass only while the event
loop is free, so a callback that computes for a second is waited for, one that awaits is not."""

MAX_PATIENCE = 10 * PATIENCE
"""Ticks that a site waits for a callback that keeps yielding."""

MAX_WAITING_STARTS = 10_000
"""Start requests that may wait at once; a longer `start()` continues as they are handed out."""


class Dispatcher(FetchObserver):
    """Hands out the requests of waiting pages by importance, and tracks their outcome.

    `crawlprio.live.leases` has the table of outcomes. A page stays leased until Scrapy is done
    with it: its callback has ended, its requests are scheduled and its items processed. Until then
    it counts towards CONCURRENT_REQUESTS, so that with one request at a time the next choice knows
    the links of the last page. But no callback that awaits something is waited for longer than
    `PATIENCE`, and none is waited for at all while callbacks are slower than that.

    Parameters
    ----------
    crawler
        the crawler whose requests are dispatched.
    frontier
        holds the waiting pages.
    identities
        decides when two requests are for the same page.
    concurrency
        maximum number of fetches in flight; 0: no limit.
    failed
        called with the error when the frontier fails.
    keeps_items
        whether a visit is recorded with the items of its callback.
    kept_headers
        names of the headers to store with a request; None: all.

    Attributes
    ----------
    takes_seeds
        whether any request that did not come from a page is a seed, like those of `start`.
    """

    takes_seeds = False

    def __init__(
        self,
        crawler: Crawler,
        frontier: Frontier,
        identities: Identities,
        *,
        concurrency: int,
        failed: Callable[[CrawlprioError], object],
        keeps_items: bool = False,
        kept_headers: Collection[bytes] | None = None,
    ) -> None:
        assert crawler.spider is not None
        self._spider = crawler.spider
        self._crawler = crawler
        self._frontier = frontier
        self._identities = identities
        self._concurrency = concurrency or math.inf
        self._failed = failed
        self._keeps_items = keeps_items
        self._kept_headers = kept_headers
        self._leases = Leases()
        self._n_holding = 0
        self._in_callback: list[Lease] = []
        self._n_answered = 0
        self._is_patient = True
        self._ticks = 0
        self._ticker: CallLaterResult | None = None
        self._yielded_starts: set[Request] = set()
        self._waiting_starts: set[str] = set()
        self._room_for_starts: Deferred[None] | None = None
        self._has_unstorable = False
        self._is_closed = False
        self._alarm = engine.EngineAlarm(crawler)
        frontier.on_ready = self._wake
        observe_fetches(crawler, self)
        fill_downloader(crawler, self._fills_downloader)
        engine.watch_requests(crawler, outcome=self._outcome, done=self._done)

    def __len__(self) -> int:
        """The number of requests that wait or are leased."""
        return len(self._frontier) + len(self._leases) + self._frontier.is_busy

    @property
    def n_waiting(self) -> int:
        """The number of requests that wait."""
        return len(self._frontier)

    def close(self) -> None:
        self._is_closed = True
        self._alarm.cancel()
        if self._ticker is not None:
            self._ticker.cancel()

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
        lease = self._leases.replaced_by(request)
        if lease is None or lease.request not in self._leases:
            return self._add(request, repeats)
        if lease.is_given_back:
            request.dont_filter = lease.dont_filter
            self._end(lease)
            self._frontier.put_back(lease.handout.lease)
            return True
        identity = self._identities.of_request(request)
        if identity == lease.identity and repeats:
            self._end(lease)
            self._frontier.put_back(lease.handout.lease, self._carried(request), request.priority)
            return True
        is_kept = self._add(request, repeats)
        self._end(lease)
        self._observe(lease, self._redirect(lease, request), True)
        return is_kept

    def drop(self, request: Request) -> None:
        """Note that a request was dropped as a duplicate before it reached the dispatcher."""
        lease = self._leases.replaced_by(request)
        if lease is not None and lease.request in self._leases:
            self._end(lease)
            self._observe(lease, self._redirect(lease, request), True)

    def _redirect(self, lease: Lease, request: Request) -> LinkPairs:
        """Return the link pairs of a redirect, whose target is its only link."""
        identity = self._identities.of_request(request)
        return LinkPairs(lease.request.url, [identity] if identity != lease.identity else [])

    def _add(self, request: Request, repeats: bool) -> bool:
        is_start = request in self._yielded_starts
        identity = self._identities.of_request(request)
        if not (repeats or is_start) and self._frontier.is_duplicate(identity):
            return False
        forget_inherited_slot(request)
        depth = request.meta.get("depth", 0)
        is_kept = self._frontier.add(
            Entry(
                identity=identity,
                url=without_credentials(request.url),
                site=site_of(request),
                depth=depth if isinstance(depth, int) else 0,
                priority=request.priority,
                request=self._carried(request),
                repeats=repeats,
                is_seed=is_start or (self.takes_seeds and _is_from_outside(request)),
            )
        )
        if is_start:
            self._yielded_starts.discard(request)
            if is_kept is not False:
                self._waiting_starts.add(identity)
        return is_kept is not False

    def _carried(self, request: Request) -> object:
        """Return a request in the form that the frontier keeps."""
        if not self._frontier.carries_json_only:
            return request
        try:
            return to_json(request, self._spider, kept_headers=self._kept_headers)
        except RequestNotStorable as error:
            self._crawler.stats.inc_value("scheduler/unserializable")
            if not self._has_unstorable:
                self._has_unstorable = True
                logger.warning(
                    "Unable to serialize request: %s - reason: %s It is %s; others like it are "
                    "counted in the stats.",
                    request,
                    error,
                    "kept in memory, and lost if the crawl ends before it is fetched"
                    if self._frontier.keeps_objects
                    else "dropped because other workers could not fetch it",
                )
            return request

    async def room_for_start(self, request: Request) -> None:
        """Wait until there is room for one more request of the spider's `start`.

        Once the spider is closing, this waits until Scrapy cancels it: otherwise the engine would
        pull requests from an endless `start` without a pause.
        """
        while self._is_closed or len(self._waiting_starts) >= MAX_WAITING_STARTS:
            self._room_for_starts = Deferred()
            await maybe_deferred_to_future(self._room_for_starts)
        self._yielded_starts.add(request)

    # Out

    def next_request(self) -> Request | None:
        """Return the request to fetch next, or None; the engine is woken when one is ready."""
        try:
            return self._next_request()
        except CrawlprioError as error:
            self._failed(error)
            return None

    def _next_request(self) -> Request | None:
        if self._n_holding >= self._concurrency:
            return None
        handout = self._frontier.next_page(monotonic())
        if handout is None:
            self._alarm.set(self._frontier.ready_at())
            return None
        request = handout.request
        identity = None
        if request is None:
            request = Request(handout.url, meta={"depth": handout.depth})
            identity = self._identities.of_url(handout.url)
        elif isinstance(request, bytes):
            request = from_json(request, self._spider)
        assert isinstance(request, Request)
        if request in self._leases:
            request = request.copy()  # one object that a spider yielded twice
        identity = identity or self._identities.of_request(request)
        self._leases.begin(Lease(request, handout, identity, request.dont_filter))
        self._n_holding += 1
        self._free_start_room(identity)
        return request

    def _free_start_room(self, identity: str) -> None:
        """Resume `start` if the request handed out makes room for another of its requests."""
        self._waiting_starts.discard(identity)
        if self._room_for_starts is not None and len(self._waiting_starts) < MAX_WAITING_STARTS:
            room, self._room_for_starts = self._room_for_starts, None
            room.callback(None)

    def _fills_downloader(self) -> bool:
        """Return whether as many requests wait for their sites as Scrapy's downloader would hold.

        This keeps a `start` that yields while the downloader has room (`engine.needs_backout`) as
        lazy as it is without crawlprio.
        """
        n_open = len(self._frontier) + len(self._leases)
        if n_open < self._concurrency or self._frontier.is_busy:
            return False
        ready_at = self._frontier.ready_at()
        if ready_at <= monotonic():
            return False
        self._alarm.set(ready_at)
        return True

    # Outcomes

    def lease_of(self, request: Request) -> Lease | None:
        return self._leases.of(request)

    def fetch_may_start(self, lease: Lease) -> None:
        """Mark the fetch of a leased page as started."""
        lease.started_at = monotonic()
        lease.state = State.FETCHING

    def give_back(self, lease: Lease) -> Request:
        """Return the request of a lease for the engine to reschedule, as its site is busy."""
        lease.is_given_back = True
        self._crawler.stats.inc_value("crawlprio/given_back")
        # Scrapy's own scheduler, with one of the priority queues, would drop it as a duplicate.
        lease.request.dont_filter = True
        return lease.request

    def progressed(self, lease: Lease) -> None:
        """Note that the callback of a lease has yielded, or that its output was consumed."""
        lease.progressed_at = self._ticks

    def fetch_answered(self, request: Request, response: Response) -> None:
        lease = self._leases.of(request)
        if lease is not None:
            lease.status = response.status

    def fetch_ended(self, request: Request) -> None:
        lease = self._leases.of(request)
        if lease is not None:
            lease.ended_at = monotonic()
            lease.fetched_at = time()
            lease.state = State.HANDED_OUT

    def _outcome(self, request: Request, outcome: Response | Request | Failure) -> None:
        """Record what the downloader and its middlewares returned for a request."""
        lease = self._leases.of(request)
        if lease is None:
            return
        if isinstance(outcome, Request):
            self._leases.replace(lease, outcome)
            return
        if isinstance(outcome, Failure):
            lease.error = cause_of(outcome.value) if outcome.value else "failed"
        elif isinstance(outcome, Response):  # the engine rejects anything else
            lease.status = outcome.status  # for a cached response, which was not fetched
        lease.state = State.ANSWERED
        lease.answered_at = lease.progressed_at = self._ticks
        self._n_answered += 1
        if self._ticker is None:
            self._ticker = call_later(TICK, self._tick)
        if self._is_patient:
            self._in_callback.append(lease)
        else:
            self._release_site(lease)

    def _tick(self) -> None:
        """Free the sites that wait for callbacks once one of these takes too long."""
        self._ticker = call_later(TICK, self._tick) if self._n_answered else None
        self._ticks += 1
        self._in_callback = [lease for lease in self._in_callback if lease.holds_site]
        if any(map(self._is_slow, self._in_callback)):
            self._is_patient = False
            for lease in self._in_callback:
                self._release_site(lease)
            self._wake()

    def _is_slow(self, lease: Lease) -> bool:
        """Return whether a callback takes too long to wait for."""
        return (
            self._ticks - lease.progressed_at >= PATIENCE
            or self._ticks - lease.answered_at >= MAX_PATIENCE
        )

    def _release_site(self, lease: Lease) -> None:
        if lease.holds_site:
            lease.holds_site = False
            self._n_holding -= 1
            if not lease.is_observed:
                self._frontier.release_site(lease.handout.lease)

    def observe(self, lease: Lease, pairs: LinkPairs) -> None:
        """Record the links of a leased page before its callback has ended, instead of at its end.

        Where items are kept with visits, the links are recorded at the end, with all items.
        """
        if self._keeps_items:
            lease.brings_links = True
            lease.pairs = lambda: pairs
        elif not lease.is_observed:
            self._observe(lease, pairs, False)

    def _done(self, request: Request) -> None:
        """End the lease of a request that Scrapy is done with, callback and items included."""
        lease = self._leases.of(request)
        if lease is None:
            return
        if lease.state is State.ANSWERED and lease.pairs is not None:
            self._is_patient = not self._is_slow(lease)
        self._end(lease)
        if not lease.is_observed:
            pairs = LinkPairs(request.url, []) if lease.pairs is None else lease.pairs()
            self._observe(lease, pairs, not lease.brings_links)

    def _end(self, lease: Lease) -> None:
        """Remove a lease; the caller tells the frontier that it has ended."""
        self._leases.end(lease.request)
        self._n_answered -= lease.state is State.ANSWERED
        self._n_holding -= lease.holds_site
        lease.holds_site = False
        if lease.started_at is None:
            self._frontier.clock.not_fetched(site_of(lease.request))

    def _observe(self, lease: Lease, pairs: LinkPairs, links_are_entries: bool) -> None:
        """Report the outcome of a leased page to the frontier."""
        lease.is_observed = True
        if lease.pairs is None:
            pairs.status = lease.status
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
