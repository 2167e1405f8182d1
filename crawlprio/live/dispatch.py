"""Requests in, requests out: what stands between Scrapy's requests and the frontier's pages."""

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
"""Seconds between two looks at callbacks that are waited for."""

PATIENCE = 10
"""Ticks for which a site waits for a callback that yields nothing more. A tick passes only when the
event loop is free, so that a callback that computes for a second is waited for, one that awaits
something is not."""

MAX_PATIENCE = 10 * PATIENCE
"""Ticks for which a site waits for a callback that goes on yielding."""

MAX_WAITING_STARTS = 10_000
"""Start requests that wait at once; a longer `start()` goes on as they are handed out."""


class Dispatcher(FetchObserver):
    """Hands out the requests of waiting pages by importance, and notes what becomes of them.

    `crawlprio.live.leases` has the table of what that may be. A page stays leased until Scrapy is
    done with it: its callback has ended, its requests are scheduled and its items processed. No
    more is handed out meanwhile than may be in flight (CONCURRENT_REQUESTS), so that one at a time
    the next choice knows the links of the last page; but no callback that awaits something is
    waited for longer than `PATIENCE`, and none at all while callbacks are slower than that.

    Parameters
    ----------
    crawler
        whose requests these are.
    frontier
        where pages wait.
    identities
        when two requests are the same page.
    concurrency
        fetches in flight; 0: no limit.
    failed
        is called with the sentence when the frontier fails.
    keeps_items
        whether a visit is recorded with the items of its callback.
    kept_headers
        names of the headers with which a request is stored; None: all.

    Attributes
    ----------
    takes_seeds
        whether a request that no page has led to is a seed, as those of the spider's `start` are.
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
        """Requests that wait or are leased."""
        return len(self._frontier) + len(self._leases) + self._frontier.is_busy

    @property
    def n_waiting(self) -> int:
        """Requests that wait."""
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
            fetch its page even if it waits already or was fetched.
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
        """Note that a request was dropped as a duplicate before it came here."""
        lease = self._leases.replaced_by(request)
        if lease is not None and lease.request in self._leases:
            self._end(lease)
            self._observe(lease, self._redirect(lease, request), True)

    def _redirect(self, lease: Lease, request: Request) -> LinkPairs:
        """What a page says that redirects to a request: its one link."""
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
        """A request in the form that the frontier keeps."""
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
                    "kept in memory, and lost if the crawl ends before it"
                    if self._frontier.keeps_objects
                    else "dropped, as other workers could not fetch it",
                )
            return request

    async def room_for_start(self, request: Request) -> None:
        """Wait until one more request of the spider's `start` may wait.

        Once the spider is closing it waits until Scrapy cancels it: from an endless `start` the
        engine would else go on pulling requests without a pause.
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
        self._start_is_out(identity)
        return request

    def _start_is_out(self, identity: str) -> None:
        """Resume `start` once one of its requests is handed out."""
        self._waiting_starts.discard(identity)
        if self._room_for_starts is not None and len(self._waiting_starts) < MAX_WAITING_STARTS:
            room, self._room_for_starts = self._room_for_starts, None
            room.callback(None)

    def _fills_downloader(self) -> bool:
        """Whether as much waits for its site's time as Scrapy's downloader would hold.

        A `start` that yields as the downloader has room (`engine.needs_backout`) is as lazy so as
        it is without crawlprio.
        """
        n_open = len(self._frontier) + len(self._leases)
        if n_open < self._concurrency or self._frontier.is_busy:
            return False
        ready_at = self._frontier.ready_at()
        if ready_at <= monotonic():
            return False
        self._alarm.set(ready_at)
        return True

    # What becomes of a request

    def lease_of(self, request: Request) -> Lease | None:
        return self._leases.of(request)

    def fetch_may_start(self, lease: Lease) -> None:
        """Note that the fetch of a leased page starts."""
        lease.started_at = monotonic()
        lease.state = State.FETCHING

    def give_back(self, lease: Lease) -> Request:
        """Return the request of a lease for the engine to schedule once more: its site is busy."""
        lease.is_given_back = True
        self._crawler.stats.inc_value("crawlprio/given_back")
        # Scrapy's own scheduler, under which a priority queue works, would drop a duplicate.
        lease.request.dont_filter = True
        return lease.request

    def progressed(self, lease: Lease) -> None:
        """Note that the callback of a lease has yielded, or what it yielded was taken."""
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
        """Note what the downloader and its middlewares made of a request."""
        lease = self._leases.of(request)
        if lease is None:
            return
        if isinstance(outcome, Request):
            self._leases.replace(lease, outcome)
            return
        if isinstance(outcome, Failure):
            lease.error = cause_of(outcome.value) if outcome.value else "failed"
        elif isinstance(outcome, Response):  # what else there may be, the engine refuses
            lease.status = outcome.status  # of a cache, where nothing was fetched
        lease.state = State.ANSWERED
        lease.answered_at = lease.progressed_at = self._ticks
        self._n_answered += 1
        if self._ticker is None:
            self._ticker = call_later(TICK, self._tick)
        if self._is_patient:
            self._in_callback.append(lease)
        else:
            self._let_go(lease)

    def _tick(self) -> None:
        """Free the sites whose callbacks take too long to be waited for."""
        self._ticker = call_later(TICK, self._tick) if self._n_answered else None
        self._ticks += 1
        self._in_callback = [lease for lease in self._in_callback if lease.holds_site]
        if any(map(self._is_slow, self._in_callback)):
            self._is_patient = False
            for lease in self._in_callback:
                self._let_go(lease)
            self._wake()

    def _is_slow(self, lease: Lease) -> bool:
        """Whether a callback takes too long to be waited for."""
        return (
            self._ticks - lease.progressed_at >= PATIENCE
            or self._ticks - lease.answered_at >= MAX_PATIENCE
        )

    def _let_go(self, lease: Lease) -> None:
        if lease.holds_site:
            lease.holds_site = False
            self._n_holding -= 1
            if not lease.is_observed:
                self._frontier.let_go(lease.handout.lease)

    def observe(self, lease: Lease, pairs: LinkPairs) -> None:
        """Learn what a leased page says before its callback has ended, in place of the end.

        Where items are kept with visits it is learned at the end, with all items.
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
        """Forget a lease, whose end the frontier is told of by the caller."""
        self._leases.end(lease.request)
        self._n_answered -= lease.state is State.ANSWERED
        self._n_holding -= lease.holds_site
        lease.holds_site = False
        if lease.started_at is None:
            self._frontier.clock.not_fetched(site_of(lease.request))

    def _observe(self, lease: Lease, pairs: LinkPairs, links_are_entries: bool) -> None:
        """Tell the frontier what became of a leased page."""
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
    """Whether a request was given to the engine by neither a callback nor a redirect."""
    return "depth" not in request.meta and "redirect_urls" not in request.meta


def site_of(request: Request) -> str:
    """Return the host whose delays a request keeps: that of its download slot, or its own."""
    return str(request.meta.get("download_slot") or urlparse_cached(request).hostname or "")
