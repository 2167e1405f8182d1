"""The downloader middleware that keeps the delay of each site; the rules are the frontier's."""

from __future__ import annotations

import email.utils
import logging
import math
from dataclasses import dataclass
from time import monotonic, time
from typing import TYPE_CHECKING, Any

from scrapy import Request, signals
from scrapy.http import Response
from scrapy.utils.asyncio import call_later
from scrapy.utils.defer import maybe_deferred_to_future
from twisted.internet.defer import Deferred

from crawlprio.config import read_setting
from crawlprio.errors import StoreError
from crawlprio.frontier import Frontier
from crawlprio.frontier.politeness import BACK_OFF_STATUSES
from crawlprio.live import engine
from crawlprio.live.downloader import FetchGate, observe_fetches
from crawlprio.live.identity import forget_inherited_slot
from crawlprio.live.job import Job, failure_of
from crawlprio.middlewares.links import dispatcher_of

if TYPE_CHECKING:
    from scrapy.crawler import Crawler

logger = logging.getLogger(__name__)


@dataclass(slots=True)
class _Fetch:
    """A fetch in flight; `leased` says that the frontier handed its page out."""

    site: int
    started_at: float
    leased: bool
    status: int = 0
    retry_after: float | None = None


class PolitenessMiddleware(FetchGate):
    """Lets no fetch start on a site sooner than promised, whoever asks for it.

    Pages come from the scheduler when their site is ready; should it be busy after all (its
    robots.txt was fetched in between) they go back to wait. What bypasses the scheduler
    (robots.txt, media, `engine.download_async`) waits here. Every fetch counts, and the delays of
    the stock downloader are switched off so that none is waited for twice.

    It must be the innermost downloader middleware, so that nothing comes between it and the fetch.
    """

    def __init__(self, crawler: Crawler) -> None:
        self._crawler = crawler
        self._job: Job | None = None
        self._fetching: dict[int, int] = {}
        self._started_at: dict[int, float] = {}
        self._ended_at: dict[int, float] = {}
        self._paused_until: dict[int, float] = {}
        self._fetches: dict[Request, _Fetch] = {}
        self._smallest_gap = float("inf")
        self._waiters: dict[int, list[Deferred[None]]] = {}
        connect = crawler.signals.connect
        connect(self._spider_opened, signal=signals.spider_opened)
        connect(self._robots_parsed, signal=signals.robots_parsed)

    @classmethod
    def from_crawler(cls, crawler: Crawler) -> PolitenessMiddleware:
        return cls(crawler)

    async def process_request(self, request: Request) -> Request | None:
        """Let a fetch start, make it wait, or give its page back to the frontier."""
        job = self._job
        if job is None:
            return None
        forget_inherited_slot(request)
        site = job.site_of(request)
        dispatcher = dispatcher_of(self._crawler)
        lease = None if dispatcher is None else dispatcher.lease_of(request)
        if dispatcher is not None and lease is not None:
            if not self._may_start(site):
                return dispatcher.give_back(lease)
            lease.started_at = monotonic()
        else:
            self._frontier.hold(site)
            try:
                while not self._may_start(site):
                    await self._wait(site)
            except BaseException:
                self._frontier.hold(site, -1)
                raise
        self._start(request, site, leased=lease is not None)
        return None

    def _may_start(self, site: int) -> bool:
        """Whether a fetch may start on a site now."""
        is_busy = self._fetching.get(site, 0) >= self._frontier.site_limit(site)
        return not is_busy and self._next_start(site) <= monotonic()

    def _next_start(self, site: int) -> float:
        """Return the time before which no fetch may start on a site.

        Where a site may have several leases the frontier has moved its time on when it let a page
        out, so that the last start counts here.
        """
        if self._frontier.site_limit(site) == 1:
            return self._frontier.site_ready_at(site)
        by_delay = self._started_at.get(site, -math.inf) + self._delay(site)
        return max(by_delay, self._paused_until.get(site, -math.inf))

    def _start(self, request: Request, site: int, *, leased: bool) -> None:
        now = monotonic()
        self._fetching[site] = self._fetching.get(site, 0) + 1
        self._fetches[request] = _Fetch(site, now, leased)
        self._started_at[site] = now
        if self._frontier.site_limit(site) > 1:
            self._frontier.delay_site(site, self._next_start(site))
        elif now - self._ended_at.get(site, -math.inf) < self._smallest_gap:
            self._smallest_gap = now - self._ended_at[site]
            self._crawler.stats.set_value("crawlprio/smallest_gap_seconds", self._smallest_gap)

    async def _wait(self, site: int) -> None:
        """Wait until the site's time has come, or a fetch on it has ended."""
        waiter: Deferred[None] = Deferred()
        self._waiters.setdefault(site, []).append(waiter)
        timer = None
        if self._fetching.get(site, 0) < self._frontier.site_limit(site):
            seconds = max(self._next_start(site) - monotonic(), 0.0)
            timer = call_later(seconds, self._let_waiter_go, site, waiter)
        try:
            await maybe_deferred_to_future(waiter)
        finally:
            if timer is not None:
                timer.cancel()

    def _let_waiter_go(self, site: int, waiter: Deferred[None]) -> None:
        waiters = self._waiters.get(site, [])
        if waiter in waiters:
            waiters.remove(waiter)
            waiter.callback(None)

    def fetch_answered(self, request: Request, response: Response) -> None:
        fetch = self._fetches.get(request)
        if fetch is not None:
            fetch.status = response.status
            fetch.retry_after = _retry_after(response)
            engine.silence_slot_delay(self._crawler, request)

    def fetch_ended(self, request: Request) -> None:
        """Note the end of a fetch; from here the delay runs."""
        fetch = self._fetches.pop(request, None)
        if fetch is None or self._job is None:
            return
        site, frontier = fetch.site, self._frontier
        now = monotonic()
        politeness = self._job.config.politeness
        n_refusals = politeness.refusals(site)
        pause = politeness.pause(
            site,
            elapsed=now - fetch.started_at,
            status=fetch.status,
            retry_after=fetch.retry_after,
            n_pages=self._job.site_pages(site),
        )
        if politeness.refusals(site) != n_refusals:
            self._keep(site, pause if fetch.status in BACK_OFF_STATUSES else 0.0)
        self._ended_at[site] = now
        self._fetching[site] -= 1
        if frontier.site_limit(site) == 1:
            ends_visit = not fetch.leased or fetch.status in BACK_OFF_STATUSES
            frontier.end_fetch(site, now + pause, ends_visit=ends_visit)
        elif pause > self._delay(site):
            self._paused_until[site] = max(self._paused_until.get(site, -math.inf), now + pause)
            frontier.delay_site(site, self._paused_until[site])
        if not fetch.leased:
            frontier.hold(site, -1)
        for waiter in self._waiters.pop(site, []):
            waiter.callback(None)

    @property
    def _frontier(self) -> Frontier:
        assert self._job is not None
        return self._job.frontier

    def _delay(self, site: int) -> float:
        assert self._job is not None
        return self._job.config.politeness.site_delay(site, self._job.site_pages(site))

    def _robots_parsed(self, robotparser: Any, request: Request) -> None:
        """Obey the Crawl-delay of a site."""
        job = self._job
        if job is None or not job.config.politeness.max_crawl_delay:
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
        site = job.site_of(request)
        before = job.config.politeness.crawl_delay(site)
        obeyed = job.config.politeness.set_crawl_delay(site, seconds)
        if obeyed != before:
            self._keep(site)
        if obeyed < seconds:
            logger.warning(
                "%s asks for a crawl delay of %g s; %g s is the most that is obeyed "
                "(CRAWLPRIO_MAX_CRAWL_DELAY).",
                job.pages.host(site),
                seconds,
                obeyed,
            )
        job.frontier.set_site(site, delay=self._delay(site))
        job.frontier.delay_site(site, self._ended_at.get(site, monotonic()) + self._delay(site))

    def _spider_opened(self) -> None:
        if failure_of(self._crawler) is not None:
            return
        self._job = Job.of(self._crawler)
        observe_fetches(self._crawler, self)
        settings = self._crawler.settings
        engine.silence_downloader_delays(self._crawler)
        self._go_on(self._job)
        if read_setting(settings, "AUTOTHROTTLE_ENABLED"):
            logger.warning(
                "AUTOTHROTTLE_ENABLED has no effect: crawlprio keeps the delays; use "
                "CRAWLPRIO_ADAPTIVE_DELAY for one that follows the site's response time."
            )
        if read_setting(settings, "CONCURRENT_REQUESTS_PER_IP"):
            logger.warning(
                "CONCURRENT_REQUESTS_PER_IP has no effect: crawlprio counts by host; use "
                "CONCURRENT_REQUESTS_PER_DOMAIN."
            )

    def _keep(self, site: int, pause: float = 0.0) -> None:
        """Let what is known of a site last over a restart; the pause begins now."""
        assert self._job is not None
        try:
            self._job.keep_site_state(site, pause, time() + pause)
        except StoreError as error:
            engine.stop_crawl(self._crawler, error)

    def _go_on(self, job: Job) -> None:
        """Keep the delays and pauses of the crawl that is gone on with. O(sites)."""
        if not job.resumed:
            return
        now, since = monotonic(), time()
        politeness, frontier = job.config.politeness, job.frontier
        pauses: dict[int, float] = {}
        for site, pause in job.restore_site_states():
            rest = politeness.rest_of_pause(*pause, since)
            pauses[site] = max(rest, pauses.get(site, 0.0))
            frontier.set_site(site, delay=self._delay(site))
        since_end = None if job.ended_at is None else since - job.ended_at
        for site in range(job.pages.n_sites):
            rest = politeness.rest_of_delay(site, job.site_pages(site), since_end)
            rest = max(rest, pauses.get(site, 0.0))
            if rest > 0:
                self._paused_until[site] = now + rest
                frontier.delay_site(site, now + rest)


def _crawl_delay(robotparser: Any, agent: str | bytes | None) -> float | None:
    """The Crawl-delay of a robots.txt, NaN if it is no number; None without one."""
    try:
        # A parser of the project's own need not know of it.
        seconds = getattr(robotparser, "crawl_delay", lambda _: None)(agent)
        return None if seconds is None else float(seconds)
    except (ValueError, TypeError, OverflowError):
        return math.nan


def _retry_after(response: Response) -> float | None:
    """The seconds that an answer asks to wait, from Retry-After as seconds or as a date."""
    value = (response.headers.get("Retry-After") or b"").decode("latin-1").strip()
    if not value:
        return None
    try:
        return max(float(value), 0.0) if value.isdigit() else _seconds_until(value)
    except (ValueError, TypeError, OverflowError):
        return None


def _seconds_until(date: str) -> float:
    return max(email.utils.parsedate_to_datetime(date).timestamp() - time(), 0.0)
