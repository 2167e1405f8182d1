"""The dispatcher maps Scrapy's requests to the frontier's pages and back, within its limits."""

from __future__ import annotations

import logging
import math
from collections.abc import Callable, Collection
from time import monotonic
from weakref import WeakKeyDictionary

from scrapy import Request
from scrapy.crawler import Crawler
from scrapy.http import Response
from scrapy.utils.asyncio import CallLaterResult, call_later
from scrapy.utils.defer import maybe_deferred_to_future
from scrapy.utils.httpobj import urlparse_cached
from twisted.internet.defer import Deferred
from twisted.python.failure import Failure

from crawlprio.errors import CrawlprioError
from crawlprio.frontier.protocol import Frontier, LeasedPage, PageVisit, QueueEntry
from crawlprio.items import LinkPairs
from crawlprio.live import engine
from crawlprio.live.downloader import observe_fetches, own_downloader
from crawlprio.live.leases import Lease, Leases, LeaseState
from crawlprio.live.request_json import RequestNotStorable, Unheld, from_json, to_json
from crawlprio.live.requests import USAGES, Identities, forget_inherited
from crawlprio.settings_table.config import CrawlConfig
from crawlprio.store.outcomes import TO_ITSELF
from crawlprio.web.addresses import ALLOW_PRIVATE
from crawlprio.web.scope import registered_domain
from crawlprio.web.urls import without_credentials


class ConcurrencyLimit:
    """The number of fetches that may be in flight: more as a crawl reaches more of the web.

    It begins with CONCURRENT_REQUESTS (0: no limit) and grows to CRAWLPRIO_MAX_CONCURRENT_REQUESTS
    (None: it does not grow): one for each registered domain fetched from. So a crawl of one site or
    owner stays small, and one of many sites is limited by their delays and the machine instead of
    by a number. With 1,000 sites, a delay of a second and answers after .3 s, 16 in flight fetch 53
    pages/s and 100 in flight 330, where the delays allow 770. Cost: 2.5 µs per page until it grows
    no more.
    """

    def __init__(self, least: int, most: int | None) -> None:
        self.now: float = least or math.inf
        self._most = most or 0
        self._domains: set[str] = set()

    @property
    def most(self) -> int:
        """The most fetches that may ever be in flight; 0: no limit."""
        return 0 if self.now == math.inf else max(int(self.now), self._most)

    def fetch_from(self, host: str) -> None:
        """Count the registered domain of a page that leaves."""
        if self.now < self._most:
            self._domains.add(registered_domain(host))
            self.now = max(self.now, len(self._domains))


TICK = 0.01
"""Seconds between two checks of the callbacks that sites wait for."""

PATIENCE = 10
"""Ticks that a site waits for a callback that yields nothing more. Ticks pass only while the event
loop is free, so a callback that computes for a second is waited for, one that awaits is not."""

MAX_PATIENCE = 10 * PATIENCE
"""Ticks that a site waits for a callback that keeps yielding."""


class CallbackWait:
    """Lets sites wait for callbacks, so that the next choice knows the links of the last page.

    A callback that awaits something is waited for until it has yielded nothing for `PATIENCE`, and
    for `MAX_PATIENCE` at most; none is waited for at all while callbacks are slower than that.
    `release` frees the site of a lease, if it still waits; `on_freed` is called after sites were
    freed because callbacks took too long.
    """

    def __init__(self, release: Callable[[Lease], object], on_freed: Callable[[], object]) -> None:
        self._release = release
        self._on_freed = on_freed
        self._running: dict[Lease, None] = {}
        self._is_patient = True
        self._ticks = 0
        self._ticker: CallLaterResult | None = None

    def begin(self, lease: Lease) -> None:
        """Wait for the callback of a lease, which begins now, unless callbacks are slow."""
        lease.answered_at = lease.progressed_at = self._ticks
        self._running[lease] = None
        if self._ticker is None:
            self._ticker = call_later(TICK, self._tick)
        if not self._is_patient:
            self._release(lease)

    def prolong(self, lease: Lease) -> None:
        """Wait `PATIENCE` from now: the callback has yielded, or its output was consumed."""
        lease.progressed_at = self._ticks

    def end(self, lease: Lease) -> None:
        """Stop waiting for a callback that has ended, and judge the next ones by it."""
        if lease in self._running:
            del self._running[lease]
            if lease.is_read:
                self._is_patient = not self._is_slow(lease)

    def close(self) -> None:
        if self._ticker is not None:
            self._ticker.cancel()

    def _tick(self) -> None:
        """Free all sites that wait once one of the callbacks takes too long."""
        self._ticker = call_later(TICK, self._tick) if self._running else None
        self._ticks += 1
        waited_for = [lease for lease in self._running if lease.holds_site]
        if any(map(self._is_slow, waited_for)):
            self._is_patient = False
            for lease in waited_for:
                self._release(lease)
            self._on_freed()

    def _is_slow(self, lease: Lease) -> bool:
        return (
            self._ticks - lease.progressed_at >= PATIENCE
            or self._ticks - lease.answered_at >= MAX_PATIENCE
        )


MAX_WAITING = 10_000
"""Start requests that may wait at once; a longer `start()` continues as they are handed out."""


class StartThrottle:
    """Lets the next request of `start` through once it may enter, unless `MAX_WAITING` wait.

    It enters the order as if Scrapy pulled it: when fewer than `at_once` pages are leased, and the
    frontier has none to be fetched before it. `alarm` makes the engine ask for a page, which looks
    at the request that waits here.
    """

    def __init__(
        self, frontier: Frontier, leases: Leases, at_once: ConcurrencyLimit, alarm: engine.Alarm
    ) -> None:
        self._frontier, self._leases = frontier, leases
        self._at_once, self._alarm = at_once, alarm
        self._next: Request | None = None
        self._let_through: set[Request] = set()
        self._waiting: set[str] = set()
        self._room: Deferred[None] | None = None
        self._is_closed = False

    async def wait(self, request: Request) -> None:
        """Return once a request may pass.

        Once the gate is closed, this waits until Scrapy cancels it: otherwise the engine would pull
        requests from an endless `start` without a pause.
        """
        if not self._is_open_to(request):
            self._next, self._room = request, Deferred()
            self._alarm.ring()
            await maybe_deferred_to_future(self._room)
        self._let_through.add(request)

    def _is_open_to(self, request: Request) -> bool:
        if self._is_closed or len(self._waiting) >= MAX_WAITING:
            return False
        if request.priority > 0:
            return True
        at_once, leases = self._at_once.now, self._leases
        enters_at = self._frontier.start_enters_at(
            site_of(request),
            request.priority,
            at_once - len(leases),
            can_lease=leases.n_holding < at_once,
        )
        is_now = enters_at <= monotonic()
        if not is_now:
            self._alarm.set(enters_at)
        return is_now

    def __contains__(self, request: Request) -> bool:
        """Return whether a request has passed and is not queued yet."""
        return request in self._let_through

    def queue(self, request: Request, identity: str, *, is_kept: bool) -> None:
        """Count a request that has passed and now waits for its page, or was dropped."""
        self._let_through.discard(request)
        if is_kept:
            self._waiting.add(identity)

    def hand_out(self, identity: str) -> None:
        """Note that the request for a page has left, if one was waiting."""
        self._waiting.discard(identity)

    def look(self) -> bool:
        """Let the request that waits pass soon, if it may now; return whether it does."""
        request, room = self._next, self._room
        if request is None or room is None or not self._is_open_to(request):
            return False
        self._next = self._room = None
        call_later(0, room.callback, None)
        return True

    def close(self) -> None:
        self._is_closed = True


logger = logging.getLogger("crawlprio")


class RequestSerializer:
    """Packs requests for a frontier: as JSON if it carries nothing else, or else as they are.

    Of headers, only `kept_headers` are packed, or all if it is None.
    """

    def __init__(
        self, crawler: Crawler, frontier: Frontier, kept_headers: Collection[bytes] | None
    ) -> None:
        assert crawler.spider is not None
        self._spider = crawler.spider
        self._crawler = crawler
        self._frontier = frontier
        self._kept_headers = kept_headers
        self._has_warned = False

    def pack(self, request: Request) -> object:
        if not self._frontier.carries_json_only:
            return request
        try:
            return to_json(request, self._spider, kept_headers=self._kept_headers)
        except RequestNotStorable as error:
            self._crawler.stats.inc_value("scheduler/unserializable")
            if not self._has_warned:
                self._has_warned = True
                logger.warning(
                    "Unable to serialize request: %s - reason: %s It is %s; others like it are "
                    "counted in the stats.",
                    request,
                    error,
                    "kept in memory, and not resumed if the crawl ends before it is fetched"
                    if self._frontier.keeps_objects
                    else "dropped because other workers could not fetch it",
                )
            return Unheld.of(request, error)

    def unpack(self, leased_page: LeasedPage) -> Request:
        """Return the request for a page; raises StoreError if its JSON is damaged."""
        request = leased_page.request
        if request is None:
            meta = {"depth": leased_page.depth, ALLOW_PRIVATE: False}
            request = Request(leased_page.url, meta=meta)
        elif isinstance(request, bytes):
            request = from_json(request, self._spider)
        assert isinstance(request, Request)
        if leased_page.usage:
            USAGES[request] = leased_page.usage
        return request


class Dispatcher:
    """Hands out the requests of waiting pages by importance, and tracks their outcome.

    `crawlprio.live.leases` has the table of outcomes. A page stays leased until Scrapy is done with
    it: its callback has ended, its requests are scheduled and its items processed. Until then it
    counts as in flight, as far as `CallbackWait` goes. An error of the frontier goes to `failed`.

    `frontier` has the waiting pages. `at_once` limits the fetches in flight, `starts` the requests
    of `start`, `callbacks` how long callbacks are waited for. If `takes_seeds`, any other request
    that did not come from a page is a seed too. `retried` has the URLs of pages that wait again
    after a failed fetch, by identity.
    """

    takes_seeds = False

    def __init__(
        self,
        crawler: Crawler,
        frontier: Frontier,
        identities: Identities,
        config: CrawlConfig,
        failed: Callable[[CrawlprioError], object],
    ) -> None:
        self._crawler = crawler
        self.frontier = frontier
        self._identities = identities
        self.at_once = ConcurrencyLimit(config.concurrency, config.max_concurrent_requests)
        self._failed = failed
        self._packing = RequestSerializer(crawler, frontier, config.kept_headers)
        self.leases = Leases()
        self._sources: WeakKeyDictionary[Request, Lease] = WeakKeyDictionary()
        self.retried: dict[str, str] = {}
        self.callbacks = CallbackWait(self._release_site, self.page_ready)
        self._is_closed = False
        self._alarm = engine.Alarm(self.page_ready)
        self.starts = StartThrottle(frontier, self.leases, self.at_once, self._alarm)
        frontier.attach(self)
        observe_fetches(crawler, self.leases)
        self._downloader = own_downloader(crawler)
        if self._downloader is not None:
            self._downloader.is_filled = self.fills_downloader
            self._downloader.can_abort = frontier.loses_leases
            self._downloader.total_concurrency = self.at_once.most
        engine.watch_requests(crawler, outcome=self._outcome, done=self._done)
        if frontier.carries_json_only:
            engine.watch_errbacks(crawler, self.yielded)

    def __len__(self) -> int:
        """The number of requests that wait or are leased."""
        return len(self.frontier) + len(self.leases) + self.frontier.is_busy

    def close(self) -> None:
        self._is_closed = True
        self._alarm.cancel()
        self.callbacks.close()
        self.starts.close()

    def is_known(self, request: Request) -> bool:
        """Return whether a request would be dropped as a duplicate, as far as is known."""
        return self.frontier.is_duplicate(self._identities.of_request(request))

    def enqueue(self, request: Request, *, repeats: bool) -> bool:
        """Queue a request; return False for a duplicate, which is dropped.

        If it `repeats`, its page is fetched even if it is already waiting or was fetched before.
        """
        try:
            return self._enqueue(request, repeats)
        except CrawlprioError as error:
            self._failed(error)
            return True

    def _enqueue(self, request: Request, repeats: bool) -> bool:
        lease = self.leases.replaced_by(request)
        if lease is None:
            source = self._sources.pop(request, None) if self._sources else None
            return self._add(request, repeats, source)
        if lease.is_given_back:
            request.dont_filter = lease.dont_filter
            self._end(lease)
            self.frontier.put_back(lease.leased_page.lease)
            return True
        identity = self._identities.of_request(request)
        if identity == lease.identity and repeats:
            self._end(lease)
            packed = self._packing.pack(request)
            if isinstance(packed, Unheld) and not self.frontier.keeps_objects:
                # With the request as it was before, the page would be retried for ever.
                self._report(lease, _failed(lease, "cannot be sent to workers"))
                return True
            self.retried[identity] = request.url
            self.frontier.put_back(lease.leased_page.lease, packed, request.priority)
            return True
        is_kept = self._add(request, repeats, lease)
        self._end(lease)
        self._report(lease, _redirect(lease, identity))
        return is_kept

    def drop(self, request: Request) -> None:
        """End the lease that a request replaces, which was dropped as a duplicate."""
        lease = self.leases.replaced_by(request)
        if lease is not None:
            self._end(lease)
            self._report(lease, _redirect(lease, self._identities.of_request(request)))

    def _add(self, request: Request, repeats: bool, source: Lease | None) -> bool:
        is_start = request in self.starts
        identity = self._identities.of_request(request)
        if not (repeats or is_start) and self.frontier.is_duplicate(identity):
            return False
        forget_inherited(request)
        # From neither a callback nor a redirect.
        is_from_outside = "depth" not in request.meta and "redirect_urls" not in request.meta
        is_kept = self.frontier.add(
            QueueEntry(
                identity=identity,
                url=without_credentials(request.url).partition("#")[0],
                site=site_of(request),
                depth=depth_of(request),
                priority=request.priority,
                request=self._packing.pack(request),
                repeats=repeats,
                is_seed=is_start or (self.takes_seeds and is_from_outside),
                source=source.leased_page.lease if source is not None and repeats else None,
            )
        )
        if is_start:
            # Where other workers may fetch it, nobody tells this one that it has left.
            is_here = is_kept is not False and self.frontier.keeps_objects
            self.starts.queue(request, identity, is_kept=is_here)
        return is_kept is not False

    def next_request(self) -> Request | None:
        """Return the request to fetch next, or None; the engine is woken when one is ready."""
        try:
            return self._next_request()
        except CrawlprioError as error:
            self._failed(error)
            return None

    def _next_request(self) -> Request | None:
        if self.leases.n_holding >= self.at_once.now:
            return None
        if self.starts.look():
            return None  # it may come before all others
        leased_page = self.frontier.next_page(monotonic())
        if leased_page is None:
            self.starts.look()
            self._alarm.set(self.frontier.ready_at())
            return None
        request = self._packing.unpack(leased_page)
        if request in self.leases:
            request = request.copy()  # one object that a spider yielded twice
        identities = self._identities
        is_link = leased_page.request is None
        identity = identities.of_url(leased_page.url) if is_link else identities.of_request(request)
        site = leased_page.site or site_of(request)
        self.leases.begin(Lease(request, leased_page, identity, request.dont_filter, site))
        self.starts.hand_out(identity)
        self.at_once.fetch_from(site)
        self.retried.pop(identity, None)
        return request

    def fills_downloader(self) -> bool:
        """Return whether as many requests wait for their sites as Scrapy's downloader would hold.

        This keeps a `start` that yields while the downloader has room (`engine.needs_backout`) as
        lazy as it is without crawlprio.
        """
        n_open = len(self.frontier) + len(self.leases)
        if n_open < self.at_once.now or self.frontier.is_busy:
            return False
        ready_at = self.frontier.ready_at()
        if ready_at <= monotonic():
            return False
        self._alarm.set(ready_at)
        self.starts.look()
        return True

    def leave_site(self, lease: Lease) -> None:
        """Release the site of a leased page, whose download slot a middleware has set."""
        if lease.site:
            self.frontier.release_site(lease.leased_page.lease)
            self._will_not_fetch(lease)

    def fetch_may_start(self, lease: Lease) -> bool:
        """Mark the fetch of a leased page as started; return False if its lease has expired."""
        if not self.may_send(lease):
            return False
        lease.started_at = monotonic()
        lease.state = LeaseState.FETCHING
        return True

    def may_send(self, lease: Lease) -> bool:
        """Return whether a leased page may still be fetched."""
        return self.frontier.holds(lease.leased_page.lease)

    def lease_lost(self, lease: int) -> None:
        """Abort the fetch under an expired lease: others may fetch its page by now."""
        request = self.leases.fetching(lease)
        if request is not None:
            self._crawler.stats.inc_value("crawlprio/aborted")
            if self._downloader is not None:
                self._downloader.abort(request)

    def give_back(self, lease: Lease) -> Request:
        """Return the request of a lease for the engine to reschedule, as its site is busy."""
        lease.is_given_back = True
        self._crawler.stats.inc_value("crawlprio/given_back")
        # Scrapy's own scheduler, with one of the priority queues, would drop it as a duplicate.
        lease.request.dont_filter = True
        return lease.request

    def yielded(self, source: Request, request: Request) -> None:
        """Remember which callback or errback yields a request that is to be fetched in any case."""
        lease = self.leases.of(source) if request.dont_filter else None
        if lease is not None:
            self._sources[request] = lease

    def _outcome(self, request: Request, outcome: Response | Request | Failure) -> None:
        """Record what the downloader and its middlewares returned for a request."""
        lease = self.leases.of(request)
        if lease is None:
            return
        if isinstance(outcome, Request):
            self.leases.replace(lease, outcome)
        else:
            self.leases.answered(lease, outcome)
            self.callbacks.begin(lease)

    def _release_site(self, lease: Lease) -> None:
        if self.leases.release_site(lease) and not lease.is_observed:
            self.frontier.release_site(lease.leased_page.lease)

    def observe(self, lease: Lease, visit: PageVisit) -> None:
        """Report the visit of a leased page, its links included, before its callback has ended."""
        if not lease.is_observed:
            self._report(lease, visit)

    def _done(self, request: Request) -> None:
        """End the lease of a request that Scrapy is done with, callback and items included."""
        lease = self.leases.of(request)
        if lease is None:
            return
        by = self.leases.replacement_of(lease)
        if by is not None and self._identities.of_request(by) != lease.identity:
            self.drop(by)  # as Scrapy's own scheduler has done
            return
        self._end(lease)
        if not lease.is_observed:
            self._report(lease, lease.visit or _failed(lease))

    def _end(self, lease: Lease) -> None:
        """Remove a lease; the caller tells the frontier that it has ended."""
        self.callbacks.end(lease)
        self.leases.end(lease)
        if lease.started_at is None:
            self._will_not_fetch(lease)

    def _will_not_fetch(self, lease: Lease) -> None:
        """Note that no fetch of a lease will start on the site that it holds."""
        if lease.site:
            self.frontier.clock.not_fetched(lease.site)
            lease.site = ""

    def _report(self, lease: Lease, visit: PageVisit) -> None:
        """Report the outcome of a leased page to the frontier."""
        lease.is_observed = True
        try:
            self.frontier.observe(
                lease.leased_page.lease,
                visit._replace(
                    fetched_at=lease.fetched_at,
                    elapsed=lease.elapsed,
                    items=lease.items,
                    exchange=lease.exchange,
                ),
            )
        except CrawlprioError as error:
            self._failed(error)

    def page_ready(self) -> None:
        if not self._is_closed:
            engine.wake(self._crawler)


def _failed(lease: Lease, error: str = "") -> PageVisit:
    """Return the visit of a page of which no callback has made one."""
    error = error or lease.error or ("callback did not end" if lease.is_read else "")
    pairs = LinkPairs(lease.request.url, [], status=lease.status)
    return PageVisit(pairs, links_are_entries=True, error=error)


def _redirect(lease: Lease, target: str) -> PageVisit:
    """Return the visit of a redirect, whose target, by its identity, is its only link."""
    is_to_itself = target == lease.identity
    pairs = LinkPairs(lease.request.url, [] if is_to_itself else [target], status=lease.status)
    return PageVisit(pairs, links_are_entries=True, error=TO_ITSELF if is_to_itself else "")


def depth_of(request: Request) -> int:
    """Return the number of links followed from a seed to a request, as far as it says so."""
    depth = request.meta.get("depth", 0)
    return depth if isinstance(depth, int) else 0


def site_of(request: Request) -> str:
    """Return the host whose delays apply to a request: its download slot, or its own host."""
    return str(request.meta.get("download_slot") or urlparse_cached(request).hostname or "")
