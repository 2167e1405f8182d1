"""Downloader middleware that enforces delays and leases on whatever fetches."""

from __future__ import annotations

import email.utils
import logging
import math
from dataclasses import dataclass
from functools import partial
from time import monotonic, time
from typing import Any

from scrapy import Request, signals
from scrapy.crawler import Crawler
from scrapy.exceptions import IgnoreRequest
from scrapy.http import Response
from scrapy.utils.python import to_unicode
from twisted.internet.defer import CancelledError
from twisted.internet.tcp import Connection
from twisted.protocols.policies import ProtocolWrapper

from crawlprio.frontier.protocol import FetchClock
from crawlprio.live import engine
from crawlprio.live.crawl_context import CrawlComponent
from crawlprio.live.dispatch import site_of
from crawlprio.live.downloader import (
    SIDE_FETCH,
    FetchAborted,
    FetchGate,
    observe_fetches,
    own_downloader,
)
from crawlprio.live.leases import Lease, Sending, sending
from crawlprio.live.requests import forget_inherited
from crawlprio.settings_table.config import read_setting


def check_sends(crawler: Crawler) -> None:
    """Check each write of Scrapy's HTTP/1.1 download handlers by the fetch that it is for.

    A process can be stopped between the check that starts a fetch and the turn of the event loop
    that sends it.
    """
    for connections in engine.connection_pools(crawler):
        _check_pool(connections)


def _check_pool(connections: Any) -> None:
    """Check the writes of all connections that a pool hands out from now on."""
    get_connection = connections.getConnection

    def get_checked(key: Any, endpoint: Any) -> Any:
        found, fetch = get_connection(key, endpoint), sending.get()
        return found if fetch is None else found.addCallback(_checked, fetch)

    connections.getConnection = get_checked


def _checked(connection: Any, fetch: Sending) -> Any:
    """Check the writes of a connection, and of the one that replaces it if it is stale."""
    transport = engine.transport_of(connection, lambda again: _checked(again, fetch))
    while isinstance(transport, ProtocolWrapper):  # TLS
        transport = transport.transport
    if isinstance(transport, Connection):
        send = type(transport).writeSomeData

        def send_if_allowed(data: bytes) -> int | Exception:
            # Twisted closes a connection, perhaps long after its fetch, by sending nothing.
            if not data or fetch.is_allowed():
                return send(transport, data)
            fetch.was_refused = True
            return CancelledError()  # after any other error Twisted would try again

        transport.writeSomeData = send_if_allowed  # type: ignore[assignment, method-assign]
    return connection


logger = logging.getLogger("crawlprio")


@dataclass(slots=True)
class _Fetch:
    """A fetch in flight."""

    site: str
    clock: FetchClock
    started_at: float
    was_handed_out: bool
    status: int = 0
    n_bytes: int = 0
    retry_after: float | None = None


class PolitenessMiddleware(CrawlComponent, FetchGate):
    """Starts no fetch on a site before its delay has passed, wherever the request comes from.

    The scheduler hands out pages when their site is ready. If the site has become busy since (its
    robots.txt was fetched, say), they are given back to wait. Requests that bypass the scheduler
    (robots.txt, media, `engine.download_async`) wait here. Every fetch counts, and the delays of
    Scrapy's own downloader are disabled so that no request waits twice. The delay and concurrency
    that anything (AutoThrottle, say) sets on the downloader slot of a site are that site's. A page
    whose download slot another middleware has set (to that of a proxy, say) waits here for the
    slot, and its site does not.

    Wherever the settings list it, it is asked last, so that nothing comes between it and the fetch.
    """

    def __init__(self, crawler: Crawler) -> None:
        super().__init__(crawler)
        self._fetches: dict[Request, _Fetch] = {}
        self._is_shared = False
        self._smallest_gap = math.inf
        connect = crawler.signals.connect
        connect(self._spider_opened, signal=signals.spider_opened)
        connect(self._robots_parsed, signal=signals.robots_parsed)

    async def process_request(self, request: Request) -> Request | None:
        """Start a fetch, delay it, or return its page to the frontier."""
        crawl = self._crawl
        if not crawl.is_running:
            return None
        forget_inherited(request)
        site, dispatcher, lease = site_of(request), crawl.dispatcher, crawl.lease_of(request)
        clock, keeps_site = crawl.clock, lease is not None and lease.site == site
        if dispatcher is not None and lease is not None and not keeps_site:
            dispatcher.leave_site(lease)
            clock = crawl.slot_clock
        if SIDE_FETCH in request.meta and not self._may_start(site, clock):
            return request
        if not keeps_site:
            await self._wait_outside(site, clock, lease)
        if dispatcher is not None and lease is not None:
            may_start = self._may_start(site, clock) and dispatcher.fetch_may_start(lease)
            if not may_start:
                if not keeps_site:
                    clock.hold(site, -1)
                return dispatcher.give_back(lease)
        self._start(request, site, clock, was_handed_out=keeps_site)
        if self._is_shared:
            sending.set(Sending(partial(self._may_send, lease)))
        return None

    async def _wait_outside(self, site: str, clock: FetchClock, lease: Lease | None) -> None:
        """Wait until a fetch may start on a site whose pages it is none of, and hold the site.

        The fetch of a leased page does not outlast the closing of the spider.
        """

        def is_over() -> bool:
            if self._may_start(site, clock):
                return True
            if lease is not None and engine.is_closing(self._crawler):
                return True
            if self._crawl.failure is not None:
                raise IgnoreRequest(f"the crawl failed: {self._crawl.failure}")
            return False

        clock.hold(site)
        try:
            await clock.turn(site, is_over)
        except BaseException:
            clock.hold(site, -1)
            raise

    def process_exception(self, request: Request, exception: Exception) -> Request | None:
        """Start a fetch again, or return its page, whose lease lapsed before its response came."""
        fetch = sending.get()
        if fetch is None or not (fetch.was_refused or isinstance(exception, FetchAborted)):
            return None
        sending.set(None)
        dispatcher, lease = self._crawl.dispatcher, self._crawl.lease_of(request)
        return request if dispatcher is None or lease is None else dispatcher.give_back(lease)

    def _may_send(self, lease: Lease | None) -> bool:
        """Return whether a fetch that has started may still send its request."""
        dispatcher = self._crawl.dispatcher
        return dispatcher is None or lease is None or dispatcher.may_send(lease)

    def _may_start(self, site: str, clock: FetchClock) -> bool:
        """Return whether a fetch may start on a site now: none while the engine is paused."""
        is_paused = self._crawler.engine.paused and not engine.is_closing(self._crawler)
        return clock.may_start(site) and not is_paused

    def _start(
        self, request: Request, site: str, clock: FetchClock, *, was_handed_out: bool
    ) -> None:
        self._fetches[request] = _Fetch(site, clock, monotonic(), was_handed_out)
        gap = clock.started(site, was_handed_out=was_handed_out)
        if gap < self._smallest_gap:
            self._smallest_gap = gap
            self._crawler.stats.set_value("crawlprio/smallest_gap_seconds", gap)

    def fetch_answered(self, request: Request, response: Response) -> None:
        fetch = self._fetches.get(request)
        if fetch is not None:
            fetch.status = response.status
            fetch.n_bytes = len(response.body)
            fetch.retry_after = _retry_after(response)

    def fetch_ended(self, request: Request) -> None:
        """Record the end of a fetch, from which the delay of the site runs."""
        fetch = self._fetches.pop(request, None)
        if fetch is None:
            return
        site, clock = fetch.site, fetch.clock
        clock.ended(
            site,
            was_handed_out=fetch.was_handed_out,
            elapsed=monotonic() - fetch.started_at,
            status=fetch.status,
            retry_after=fetch.retry_after,
            n_bytes=fetch.n_bytes,
        )
        if not fetch.was_handed_out:
            clock.hold(site, -1)

    def _slot_changed(self, site: str, delay: float | None, concurrency: int | None) -> None:
        """Apply what was set on a downloader slot to its site."""
        for clock in {self._crawl.clock, self._crawl.slot_clock}:
            if delay is not None:
                clock.set_delay(site, max(float(delay), 0.0))
            if concurrency is not None:
                clock.set_limit(site, max(int(concurrency), 0))

    def _robots_parsed(self, robotparser: Any, request: Request) -> None:
        """Obey the Crawl-delay and Request-rate of a site."""
        crawl = self._crawl
        if not (crawl.is_running and crawl.config.politeness.max_crawl_delay):
            return
        settings = self._crawler.settings
        agent = read_setting(settings, "ROBOTSTXT_USER_AGENT") or request.headers.get(
            "User-Agent", read_setting(settings, "USER_AGENT")
        )
        seconds = _crawl_delay(robotparser, agent)
        if seconds is None:
            return
        if not seconds >= 0:
            self._crawler.stats.inc_value("crawlprio/refused/crawl-delay")
            return
        site = site_of(request)
        obeyed = crawl.clock.obey_crawl_delay(site, seconds)
        if obeyed < seconds:
            logger.warning(
                "%s asks for a crawl delay of %g s; it is obeyed up to %g s "
                "(CRAWLPRIO_MAX_CRAWL_DELAY).",
                site,
                seconds,
                obeyed,
            )

    def _spider_opened(self) -> None:
        if self._crawl.failure is not None:
            return
        observe_fetches(self._crawler, self)
        engine.ask_last(self._crawler, self.process_request)
        frontier = self._crawl.frontier
        self._is_shared = frontier is not None and frontier.loses_leases
        own = own_downloader(self._crawler)
        if self._is_shared:
            check_sends(self._crawler)
        settings = self._crawler.settings
        if own is not None and own.at_once:
            engine.set_slot_rules(self._crawler, self._crawl.asked_for)
        elif not read_setting(settings, "AUTOTHROTTLE_ENABLED"):
            engine.disable_downloader_delays(self._crawler)
        engine.watch_slots(self._crawler, self._slot_changed)
        if read_setting(settings, "CONCURRENT_REQUESTS_PER_IP"):
            logger.warning(
                "CONCURRENT_REQUESTS_PER_IP has no effect: crawlprio counts fetches by host; use "
                "CONCURRENT_REQUESTS_PER_DOMAIN."
            )


def _crawl_delay(robotparser: Any, agent: str | bytes | None) -> float | None:
    """Return the seconds between fetches that a robots.txt asks for: NaN if invalid, or None.

    This is the longer of its Crawl-delay and the interval of its Request-rate, at any time of day.
    """
    try:
        # A project's own parser may support neither.
        seconds = getattr(robotparser, "crawl_delay", lambda _: None)(agent)
        parsed = getattr(robotparser, "rp", None)
        rate = getattr(parsed, "request_rate", lambda _: None)(to_unicode(agent or ""))
        asked = [] if seconds is None else [float(seconds)]
        if rate is not None and rate.requests > 0:
            asked.append(rate.seconds / rate.requests)
        return max(asked, default=None)
    except (ValueError, TypeError, OverflowError):
        return math.nan


def _retry_after(response: Response) -> float | None:
    """Return the seconds that a response asks to wait: Retry-After, as seconds or as a date."""
    value = (response.headers.get("Retry-After") or b"").decode("latin-1").strip()
    if not value:
        return None
    try:
        if value.isdigit():
            return float(value)
        return max(email.utils.parsedate_to_datetime(value).timestamp() - time(), 0.0)
    except (ValueError, TypeError, OverflowError):
        return None
