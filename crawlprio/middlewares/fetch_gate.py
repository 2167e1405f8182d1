"""Downloader middleware that enforces delays and leases on whatever fetches."""

from __future__ import annotations

import email.utils
import logging
import math
from collections.abc import Callable
from contextvars import ContextVar
from dataclasses import dataclass
from functools import partial
from time import monotonic, time
from typing import TYPE_CHECKING, Any

from scrapy import Request, signals
from scrapy.exceptions import IgnoreRequest
from scrapy.http import Response
from scrapy.utils.asyncio import call_later
from scrapy.utils.defer import maybe_deferred_to_future
from scrapy.utils.python import to_unicode
from twisted.internet.defer import CancelledError, Deferred
from twisted.internet.tcp import Connection
from twisted.protocols.policies import ProtocolWrapper

from crawlprio.live import engine
from crawlprio.live.dispatch import site_of
from crawlprio.live.downloader import (
    SIDE_FETCH,
    FetchAborted,
    FetchGate,
    observe_fetches,
    own_downloader,
)
from crawlprio.live.engine import sleep
from crawlprio.live.leases import Lease
from crawlprio.live.requests import forget_inherited
from crawlprio.live.running import RunningCrawl
from crawlprio.settings_table.config import read_setting

if TYPE_CHECKING:
    from scrapy.crawler import Crawler


@dataclass(slots=True, eq=False)
class Sending:
    """The permission of one fetch to send, asked before each write to its socket.

    A fetch that may send no longer was `was_refused`, and its connection closed.
    """

    is_allowed: Callable[[], bool]
    was_refused: bool = False


sending: ContextVar[Sending | None] = ContextVar("sending", default=None)
"""The fetch in whose context a download handler asks for a connection."""


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


logger = logging.getLogger(__name__)


_ROOM_SECONDS = 0.5
"""Seconds between two looks of a fetch that bypasses the scheduler at a site that is busy, as a
worker of the crawl may be what keeps it busy."""

_PAUSE_SECONDS = 0.1
"""Seconds between two looks of a fetch that bypasses the scheduler at whether a pause is over."""


@dataclass(slots=True)
class _Fetch:
    """A fetch in flight."""

    site: str
    started_at: float
    was_handed_out: bool
    status: int = 0
    n_bytes: int = 0
    retry_after: float | None = None


class PolitenessMiddleware(FetchGate):
    """Starts no fetch on a site before its delay has passed, wherever the request comes from.

    The scheduler hands out pages when their site is ready. If the site has become busy since (its
    robots.txt was fetched, say), they are given back to wait. Requests that bypass the scheduler
    (robots.txt, media, `engine.download_async`) wait here. Every fetch counts, and the delays of
    Scrapy's own downloader are disabled so that no request waits twice. The delay that AutoThrottle
    sets on the downloader slot of a site is that site's delay.

    It must be the innermost downloader middleware, so that nothing comes between it and the fetch.
    """

    def __init__(self, crawler: Crawler) -> None:
        self._crawler = crawler
        self._crawl = RunningCrawl.of(crawler)
        self._fetches: dict[Request, _Fetch] = {}
        self._throttles = read_setting(crawler.settings, "AUTOTHROTTLE_ENABLED")
        self._is_shared = False
        self._smallest_gap = math.inf
        self._waiters: dict[str, list[Deferred[None]]] = {}
        connect = crawler.signals.connect
        connect(self._spider_opened, signal=signals.spider_opened)
        connect(self._robots_parsed, signal=signals.robots_parsed)

    @classmethod
    def from_crawler(cls, crawler: Crawler) -> PolitenessMiddleware:
        return cls(crawler)

    async def process_request(self, request: Request) -> Request | None:
        """Start a fetch, delay it, or return its page to the frontier."""
        crawl = self._crawl
        if not crawl.is_running:
            return None
        forget_inherited(request)
        site, dispatcher, lease = site_of(request), crawl.dispatcher, crawl.lease_of(request)
        if dispatcher is not None and lease is not None:
            if not self._may_start(site) or not dispatcher.fetch_may_start(lease):
                return dispatcher.give_back(lease)
        elif SIDE_FETCH in request.meta and not self._may_start(site):
            return request
        else:
            crawl.clock.hold(site)
            try:
                while not self._may_start(site):
                    await (sleep(_PAUSE_SECONDS) if self._is_paused else self._wait(site))
                    if crawl.failure is not None:
                        raise IgnoreRequest(f"the crawl failed: {crawl.failure}")
            except BaseException:
                crawl.clock.hold(site, -1)
                raise
        self._start(request, site, was_handed_out=lease is not None)
        if self._is_shared:
            sending.set(Sending(partial(self._may_send, site, lease)))
        return None

    def process_exception(self, request: Request, exception: Exception) -> Request | None:
        """Start a fetch again, or return its page, whose lease lapsed before its response came."""
        fetch = sending.get()
        if fetch is None or not (fetch.was_refused or isinstance(exception, FetchAborted)):
            return None
        sending.set(None)
        dispatcher, lease = self._crawl.dispatcher, self._crawl.lease_of(request)
        return request if dispatcher is None or lease is None else dispatcher.give_back(lease)

    def _may_send(self, site: str, lease: Lease | None) -> bool:
        """Return whether a fetch that has started may still send its request."""
        dispatcher = self._crawl.dispatcher
        holds = dispatcher is None or lease is None or dispatcher.may_send(lease)
        return holds and self._crawl.clock.may_send(site)

    @property
    def _is_paused(self) -> bool:
        """Whether no fetch may start because the engine is paused, and not closing."""
        return self._crawler.engine.paused and not engine.is_closing(self._crawler)

    def _may_start(self, site: str) -> bool:
        """Return whether a fetch may start on a site now."""
        clock = self._crawl.clock
        is_ready = clock.has_room(site) and clock.next_start(site) <= monotonic()
        return is_ready and not self._is_paused

    def _start(self, request: Request, site: str, *, was_handed_out: bool) -> None:
        self._fetches[request] = _Fetch(site, monotonic(), was_handed_out)
        gap = self._crawl.clock.started(site, was_handed_out=was_handed_out)
        if gap < self._smallest_gap:
            self._smallest_gap = gap
            self._crawler.stats.set_value("crawlprio/smallest_gap_seconds", gap)

    async def _wait(self, site: str) -> None:
        """Wait until the site may be fetched from, or a fetch on it has ended."""
        waiter: Deferred[None] = Deferred()
        self._waiters.setdefault(site, []).append(waiter)
        seconds = _ROOM_SECONDS
        if self._crawl.clock.has_room(site):
            seconds = max(self._crawl.clock.next_start(site) - monotonic(), 0.0)
        timer = call_later(seconds, self._wake_waiter, site, waiter)
        try:
            await maybe_deferred_to_future(waiter)
        finally:
            timer.cancel()

    def _wake_waiter(self, site: str, waiter: Deferred[None]) -> None:
        waiters = self._waiters.get(site, [])
        if waiter in waiters:
            waiters.remove(waiter)
            waiter.callback(None)

    def fetch_answered(self, request: Request, response: Response) -> None:
        fetch = self._fetches.get(request)
        if fetch is not None:
            fetch.status = response.status
            fetch.n_bytes = len(response.body)
            fetch.retry_after = _retry_after(response)
            slot = (
                self._crawler.engine.downloader.slots.get(fetch.site) if self._throttles else None
            )
            if slot is not None:
                self._crawl.clock.set_delay(fetch.site, slot.delay)

    def fetch_ended(self, request: Request) -> None:
        """Record the end of a fetch, from which the delay of the site runs."""
        fetch = self._fetches.pop(request, None)
        if fetch is None:
            return
        site, clock = fetch.site, self._crawl.clock
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
        for waiter in self._waiters.pop(site, []):
            waiter.callback(None)

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
        frontier = self._crawl.frontier
        self._is_shared = frontier is not None and frontier.loses_leases
        if self._is_shared:
            check_sends(self._crawler)
            own = own_downloader(self._crawler)
            if own is not None:
                own.can_abort = True
        settings = self._crawler.settings
        if not self._throttles:
            engine.disable_downloader_delays(self._crawler)
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
        return max(float(value), 0.0) if value.isdigit() else _seconds_until(value)
    except (ValueError, TypeError, OverflowError):
        return None


def _seconds_until(date: str) -> float:
    return max(email.utils.parsedate_to_datetime(date).timestamp() - time(), 0.0)
