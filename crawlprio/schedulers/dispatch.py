"""Requests in, requests out: what stands between Scrapy's requests and the frontier's pages.

It keeps the requests that are more than a link, and a lease for each request that is handed out until
its callback is done. It decides no order: that is the frontier's.
"""

from __future__ import annotations

import logging
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from time import monotonic, time
from typing import TYPE_CHECKING

import numpy as np
from scrapy import Request, signals
from scrapy.http import Response
from scrapy.utils.asyncio import run_in_thread
from scrapy.utils.defer import deferred_from_coro
from twisted.python.failure import Failure

from crawlprio import engine
from crawlprio.frontier.heaps import LEASED, WAITING
from crawlprio.job import Job
from crawlprio.orderings.base import Keys
from crawlprio.pages import NO_PAGE, NO_PAGES, Visit

if TYPE_CHECKING:
    from scrapy.crawler import Crawler

logger = logging.getLogger(__name__)

PATIENCE = 0.1
"""Seconds that a page stays leased after its fetch for its callback to end, with several in flight."""


@dataclass(slots=True, eq=False)
class Lease:
    """A request that was handed out.

    Parameters
    ----------
    page
        the page that it fetches.
    own_slot
        whether it named its download slot itself.
    started_at, ended_at
        when its fetch started and ended, monotonic seconds; None until then.
    status
        HTTP status of the answer; 0 until there is one.
    in_callback
        whether an answer has reached the spider.
    observed
        whether a visit was made of it.
    holds_site
        whether its site still counts it as a lease.
    """

    page: int
    own_slot: bool
    retry_times: int
    started_at: float | None = None
    ended_at: float | None = None
    fetched_at: float = 0.0
    status: int = 0
    in_callback: bool = False
    observed: bool = False
    holds_site: bool = True


class Dispatcher:
    """Hands out the requests of waiting pages, most important first, and notes what becomes of them.

    With one fetch in flight (CONCURRENT_REQUESTS=1) a page stays leased until its callback is done, so
    that the next choice knows its links. With more, a site waits at most `PATIENCE` seconds for a
    callback after the fetch, and not at all while callbacks are slower than that.

    Parameters
    ----------
    crawler
        whose job this works on.
    """

    def __init__(self, crawler: Crawler, job: Job) -> None:
        self._crawler = crawler
        self._job = job
        self._frontier = job.frontier
        self._one_at_a_time = job.config.concurrency == 1
        self._requests: dict[int, Request] = {}
        self._again: dict[int, deque[Request]] = {}
        # As in Scrapy, a request with dont_filter leaves its page new to those without.
        self._unfiltered: set[int] = set()
        self._leases: dict[Request, Lease] = {}
        self._in_callback: deque[Lease] = deque()
        self._patient = True
        self._alarm = engine.EngineAlarm(crawler)
        self._computing = False
        self._closed = False
        job.orders = True
        self._frontier.recompute = self._compute_in_thread
        crawler.signals.connect(self._fetch_ended, signal=signals.request_left_downloader)
        crawler.signals.connect(self._response_downloaded, signal=signals.response_downloaded)

    def __len__(self) -> int:
        """Requests that wait or are leased."""
        return len(self._frontier) + len(self._leases)

    @property
    def n_waiting(self) -> int:
        return len(self._frontier)

    def close(self) -> None:
        self._closed = True
        self._alarm.cancel()

    def lease_of(self, request: Request) -> Lease | None:
        return self._leases.get(request)

    def enqueue(self, request: Request, *, again: bool) -> bool:
        """Let the page of a request wait; return whether the request was kept.

        Parameters
        ----------
        again
            fetch the page even if it was fetched or waits already.
        """
        lease = self._leases.get(request)
        if lease is not None:
            return self._take_back(request, lease)
        page = self._job.page_of(request)
        if page in self._unfiltered and not again:
            self._unfiltered.discard(page)
            again = True
        source = self._redirecting(request)
        if source is not None:
            page = self._note_redirect(source, page, request)
        elif page != NO_PAGE and again:
            retried = self._lease_of_page(page)
            if retried is not None and self._is_retry(request, retried[1]):
                del self._leases[retried[0]]
                self._requests[page] = request
                if retried[1].holds_site:
                    self._frontier.put_back(page)
                else:
                    self._frontier.add(page, request.priority)
                return True
        if page == NO_PAGE:
            page = self._job.add_page(request)
            if again:
                self._unfiltered.add(page)
        elif self._frontier.state(page) in (WAITING, LEASED):
            is_new = source is not None and page not in self._requests and not again
            if is_new and self._frontier.state(page) == WAITING:
                self._requests[page] = request
                return True
            if again:
                self._again.setdefault(page, deque()).append(request)
            return again
        elif self._frontier.state(page) and not again:
            return False
        self._requests[page] = request
        if request.meta.get("is_start_request") and source is None:
            self._job.seed([page])
            if request.priority == 0 and self._frontier.state(page) == WAITING:
                return True
        self._frontier.add(page, request.priority)
        return True

    def next_request(self) -> Request | None:
        """Return the request of the page to fetch next, or None; the engine is woken when one is ready."""
        self._settle()
        if self._one_at_a_time and (self._leases or self._computing):
            return None
        now = monotonic()
        self._let_go(now)
        page = self._frontier.next_page(now)
        if page == NO_PAGE:
            wake_at = self._frontier.ready_at()
            if self._in_callback and self._patient:
                wake_at = min(wake_at, (self._in_callback[0].ended_at or now) + PATIENCE)
            self._alarm.set(wake_at)
            return None
        request = self._requests.pop(page, None)
        if request is None:
            request = Request(
                self._job.pages.url(page), meta={"depth": int(self._job.pages.depths[page])}
            )
        self._leases[request] = Lease(
            page, "download_slot" in request.meta, request.meta.get("retry_times", 0)
        )
        return request

    def answered(self, request: Request) -> Lease | None:
        """Note that the answer to a request has reached the spider; return its lease if it has one."""
        lease = self._leases.get(request)
        if lease is not None:
            lease.in_callback = True
        return lease

    def observe(self, lease: Lease, visit: Visit) -> None:
        """Learn from the visit of a leased page."""
        if lease.observed:
            return
        lease.observed = True
        elapsed = (lease.ended_at or 0.0) - (lease.started_at or lease.ended_at or 0.0)
        self._job.observe(self._job.timed(visit, lease.fetched_at or time(), elapsed))

    def finish(self, request: Request, lease: Lease) -> None:
        """End a lease: the callback is done and the visit observed."""
        if self._leases.pop(request, None) is None:
            return
        if lease.ended_at is not None and lease.in_callback:
            self._patient = monotonic() - lease.ended_at <= PATIENCE
        self._release(lease)
        again = self._again.get(lease.page)
        if again:
            self._requests[lease.page] = again.popleft()
            self._frontier.add(lease.page, self._requests[lease.page].priority)
            if not again:
                del self._again[lease.page]
        engine.wake(self._crawler)

    def _compute_in_thread(self, work: Callable[[], Keys]) -> None:
        """Do a recomputation off the event loop, and bring the keys up to date after it."""
        self._computing = True
        deferred_from_coro(self._compute(work)).addErrback(self._computation_failed)

    async def _compute(self, work: Callable[[], Keys]) -> None:
        result = await run_in_thread(work)
        self._computing = False
        if not self._closed:
            self._frontier.accept(result)
            engine.wake(self._crawler)

    def _computation_failed(self, failure: Failure) -> None:
        self._computing = False
        logger.error("The ordering could not be recomputed: %s", failure.getTraceback())
        engine.wake(self._crawler)

    def _release(self, lease: Lease) -> None:
        if lease.holds_site:
            lease.holds_site = False
            self._frontier.release(lease.page)

    def _take_back(self, request: Request, lease: Lease) -> bool:
        """Let a page wait that was handed out too soon, as its site was busy otherwise."""
        del self._leases[request]
        self._requests[lease.page] = request
        if not lease.own_slot:
            request.meta.pop("download_slot", None)
        self._frontier.put_back(lease.page)
        return True

    def _is_retry(self, request: Request, lease: Lease) -> bool:
        """Whether a request means to fetch a leased page once more because its fetch failed."""
        return not lease.in_callback and request.meta.get("retry_times", 0) > lease.retry_times

    def _lease_of_page(self, page: int) -> tuple[Request, Lease] | None:
        for request, lease in self._leases.items():
            if lease.page == page and not lease.observed:
                return request, lease
        return None

    def _redirecting(self, request: Request) -> tuple[Request, Lease] | None:
        """The leased request that a request is the redirect of, if it is one."""
        redirect_urls = request.meta.get("redirect_urls")
        if not redirect_urls:
            return None
        for source, lease in self._leases.items():
            if source.url == redirect_urls[-1] and not lease.in_callback and not lease.observed:
                return source, lease
        return None

    def _note_redirect(self, source: tuple[Request, Lease], page: int, request: Request) -> int:
        """Observe the visit of a page that redirects, with its target; return the target's page."""
        source_request, lease = source
        if not lease.own_slot:
            request.meta.pop("download_slot", None)
        if page == NO_PAGE:
            page = self._job.add_page(request)
        targets = NO_PAGES if page == lease.page else np.array([page], dtype=np.int32)
        self.observe(lease, Visit(lease.page, targets, status=lease.status))
        self.finish(source_request, lease)
        return page

    def _settle(self) -> None:
        """End the leases of requests that Scrapy is done with though no answer reached the spider."""
        if not self._leases:
            return
        in_progress = engine.requests_in_progress(self._crawler)
        for request in [request for request in self._leases if request not in in_progress]:
            lease = self._leases[request]
            error = "failed" if lease.started_at is not None else "not fetched"
            self.observe(lease, Visit(lease.page, NO_PAGES, status=lease.status, error=error))
            self.finish(request, lease)

    def _let_go(self, now: float) -> None:
        """Let sites go on whose callbacks take too long to be waited for."""
        waiting = self._in_callback
        while waiting:
            lease = waiting[0]
            if lease.holds_site:
                if self._one_at_a_time:
                    return
                if self._patient and now < (lease.ended_at or now) + PATIENCE:
                    return
                self._patient = False
                self._release(lease)
            waiting.popleft()

    def _response_downloaded(self, response: Response, request: Request) -> None:
        lease = self._leases.get(request)
        if lease is not None:
            lease.status = response.status

    def _fetch_ended(self, request: Request) -> None:
        lease = self._leases.get(request)
        if lease is not None:
            lease.ended_at = monotonic()
            lease.fetched_at = time()
            if not self._one_at_a_time:
                self._in_callback.append(lease)
