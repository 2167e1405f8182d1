"""Requests in, requests out: what stands between Scrapy's requests and the frontier's pages.

It keeps the requests that are more than a link, in the job directory if there is one, and a lease
for each request that is handed out until its callback is done. It decides no order: that is the
frontier's.
"""

from __future__ import annotations

import logging
import math
import pickle
from collections import deque
from collections.abc import Callable
from time import monotonic, time
from typing import TYPE_CHECKING

import numpy as np
from scrapy import Request
from scrapy.http import Response
from scrapy.utils.asyncio import call_later
from scrapy.utils.defer import maybe_deferred_to_future
from scrapy.utils.request import request_from_dict
from twisted.internet.defer import Deferred

from crawlprio.errors import CrawlprioError, StoreError
from crawlprio.frontier.records import LEASED, UNKNOWN, WAITING
from crawlprio.live import engine
from crawlprio.live.computations import Computations
from crawlprio.live.downloader import FetchObserver, observe_fetches
from crawlprio.live.identity import forget_inherited_slot
from crawlprio.live.job import Job
from crawlprio.live.leases import Lease, Leases
from crawlprio.live.requests import WaitingRequests
from crawlprio.pages import NO_PAGE, NO_PAGES, Visit

if TYPE_CHECKING:
    from scrapy.crawler import Crawler
    from scrapy.utils.asyncio import CallLaterResult

logger = logging.getLogger(__name__)

PATIENCE = 0.1
"""Seconds that a page stays leased after its fetch, with several in flight, for its callback."""

MAX_WAITING_STARTS = 10_000
"""Start requests that wait at once; a longer `start()` goes on as they are handed out."""


_FIRST = 2**29
"""The priority of pages that were being fetched when the crawl was killed."""


class Dispatcher(FetchObserver):
    """Hands out the requests of waiting pages by importance, and notes what becomes of them.

    With one fetch in flight (CONCURRENT_REQUESTS=1) a page stays leased until its callback is done
    and the requests it yielded are scheduled, so that the next choice knows its links. With more, a
    site waits at most `PATIENCE` seconds for a callback after the fetch, and not at all while
    callbacks are slower than that; nor is more handed out meanwhile than may be in flight.

    Parameters
    ----------
    crawler
        whose job this works on.

    Attributes
    ----------
    n_links_enqueued
        pages that came to wait as plain links, without a request.
    """

    def __init__(self, crawler: Crawler, job: Job) -> None:
        self._crawler = crawler
        self._job = job
        self._frontier = job.frontier
        self._concurrency = job.config.concurrency or math.inf
        self._one_at_a_time = self._concurrency == 1
        # One at a time, the page that was handed out is the first to be handed out again.
        self._marks_leases = (
            not self._one_at_a_time and job.config.resumes and job.store is not None
        )
        self._requests = WaitingRequests(self._saved_request)
        self._again: dict[int, deque[Request]] = {}
        self._n_again = 0
        # As in Scrapy, a request with dont_filter leaves its page new to those without.
        self._unfiltered: set[int] = set()
        self._starts: set[int] = set()
        self._room_for_starts: Deferred[None] | None = None
        self._leases = Leases()
        self._in_callback: deque[Lease] = deque()
        self._patient = True
        self._alarm = engine.EngineAlarm(crawler)
        self._commits_soon: CallLaterResult | None = None
        self._closed = False
        self.n_links_enqueued = 0
        job.start_ordering()
        self._computations = Computations(crawler, self._frontier)
        self._take_saved_requests()
        observe_fetches(crawler, self)

    def __len__(self) -> int:
        """Requests that wait or are leased."""
        return len(self._frontier) + len(self._leases)

    @property
    def n_waiting(self) -> int:
        """Requests that wait, those for pages that wait or are leased already included."""
        return len(self._frontier) + self._n_again

    def close(self) -> None:
        self._closed = True
        self._computations.close()
        self._alarm.cancel()

    def lease_of(self, request: Request) -> Lease | None:
        return self._leases.of(request)

    def enqueue(self, request: Request, *, again: bool) -> bool:
        """Let the page of a request wait; return whether the request was kept.

        Parameters
        ----------
        again
            fetch the page even if it was fetched or waits already.
        """
        try:
            kept = self._enqueue(request, again)
        except CrawlprioError as error:
            engine.stop_crawl(self._crawler, error)
            kept = True
        self.note_scheduled(request)
        return kept

    def note_scheduled(self, request: Request) -> None:
        """Note that a request has come to the scheduler, kept or not."""
        lease = self._leases.scheduled(request)
        if lease is not None:
            self._conclude(lease)

    def next_request(self) -> Request | None:
        """Return the request to fetch next, or None; the engine is woken when one is ready."""
        try:
            return self._next_request()
        except CrawlprioError as error:
            engine.stop_crawl(self._crawler, error)
            return None

    def _next_request(self) -> Request | None:
        """As `next_request`, for an ordering and a store that do not fail."""
        self._settle()
        self._job.commit()
        if self._one_at_a_time and (self._leases or self._computations.under_way):
            return None
        now = monotonic()
        self._let_go(now)
        if self._in_callback and len(self._leases) >= self._concurrency:
            self._alarm.set((self._in_callback[0].ended_at or now) + PATIENCE)
            return None
        page = self._frontier.next_page(now)
        if page == NO_PAGE:
            wake_at = self._frontier.ready_at()
            if self._in_callback and self._patient:
                wake_at = min(wake_at, (self._in_callback[0].ended_at or now) + PATIENCE)
            self._alarm.set(wake_at)
            return None
        self._job.note_hand_out(page)
        request = self._requests.pop(page)
        is_link = request is None
        if request is None:
            request = Request(
                self._job.pages.url(page), meta={"depth": int(self._job.pages.depths[page])}
            )
        self._leases.begin(Lease(request, page, request.dont_filter, is_link))
        if self._marks_leases:
            assert self._job.store is not None
            self._job.store.mark_leased(page)
        self._starts.discard(page)
        if self._room_for_starts is not None and len(self._starts) < MAX_WAITING_STARTS:
            room, self._room_for_starts = self._room_for_starts, None
            room.callback(None)
        return request

    async def room_for_start(self) -> None:
        """Wait until one more start request may wait."""
        while len(self._starts) >= MAX_WAITING_STARTS and not self._closed:
            self._room_for_starts = Deferred()
            await maybe_deferred_to_future(self._room_for_starts)

    def fetch_answered(self, request: Request, response: Response) -> None:
        lease = self._leases.of(request)
        if lease is not None:
            lease.status = response.status

    def fetch_ended(self, request: Request) -> None:
        lease = self._leases.of(request)
        if lease is not None:
            lease.ended_at = monotonic()
            lease.fetched_at = time()
            if not self._one_at_a_time:
                self._in_callback.append(lease)

    def give_back(self, lease: Lease) -> Request:
        """Return the request of a lease for the engine to schedule once more: its site is busy."""
        lease.given_back = True
        # Scrapy's own scheduler, under which a priority queue works, would drop a duplicate.
        lease.request.dont_filter = True
        return lease.request

    def answered(self, request: Request) -> Lease | None:
        """Note that the answer to a request has reached the spider; return its lease, if any."""
        lease = self._leases.of(request)
        if lease is not None:
            lease.in_callback = True
        return lease

    def expect(self, lease: Lease, request: Request) -> None:
        """Note that the callback of a lease has yielded a request, which Scrapy will schedule."""
        self._leases.expect(lease, request)

    def observe(self, lease: Lease, visit: Visit) -> None:
        """Learn from the visit of a leased page."""
        if lease.observed:
            return
        lease.observed = True
        n_waiting = len(self._frontier) + self._frontier.n_taken_out
        try:
            timed = self._job.timed(visit, lease.fetched_at or time(), lease.elapsed)
            self._commits_soon = self._commits_soon or call_later(0, self._commit)
            self._job.observe(timed, ends_request=not lease.is_link, commits=False)
        except CrawlprioError as error:
            engine.stop_crawl(self._crawler, error)
        n_waiting = len(self._frontier) + self._frontier.n_taken_out - n_waiting
        self.n_links_enqueued += max(n_waiting, 0)

    def _commit(self) -> None:
        """Let the visits observed in this turn of the event loop be on disk, all at once."""
        self._commits_soon = None
        try:
            self._job.commit()
        except CrawlprioError as error:
            engine.stop_crawl(self._crawler, error)

    def conclude(self, lease: Lease, visit: Callable[[], Visit]) -> None:
        """End a lease whose callback is done, once all requests that it yielded are scheduled.

        Parameters
        ----------
        visit
            makes the visit of the page; called then, unless one was observed before.
        """
        lease.conclusion = visit
        self._conclude(lease)

    def _conclude(self, lease: Lease) -> None:
        if lease.conclusion is None or lease.unscheduled:
            return
        if not lease.observed:
            self.observe(lease, lease.conclusion())
        if lease.ended_at is not None and lease.in_callback:
            self._patient = monotonic() - lease.ended_at <= PATIENCE
        self._finish(lease)

    def _enqueue(self, request: Request, again: bool) -> bool:
        lease = self._leases.of(request)
        if lease is not None:
            return lease.given_back and self._take_back(lease)
        forget_inherited_slot(request)
        page = self._job.page_of(request)
        if self._job.resumed and page != NO_PAGE and _is_start(request):
            return False
        if page in self._unfiltered and not again:
            self._note_unfiltered(page, False)
            again = True
        is_start = _is_start(request)
        is_refused = page == NO_PAGE and not is_start and self._job.is_full(request)
        source = self._leases.redirected_to(request)
        if source is not None:
            is_new = page == NO_PAGE and not is_refused
            if is_new:
                page = self._add_page(request, again, is_start=False)
            self._observe_redirect(source, page)
            if is_new:
                return True
        elif page != NO_PAGE and again:
            retried = self._leases.retried_by(request, page)
            if retried is not None:
                return self._retry(retried, request)
        if is_refused:
            return False
        if page == NO_PAGE:
            self._add_page(request, again, is_start=is_start)
            return True
        state = self._frontier.state(page)
        if state == WAITING and page not in self._requests:
            # It waits as a link only, which this request says more of.
            self._keep(page, request)
            self._frontier.add(page, request.priority)
            return True
        if state in (WAITING, LEASED):
            if again:
                self._keep(page, request)
            return again
        if state != UNKNOWN and not again:
            return False
        self._keep(page, request)
        self._frontier.add(page, request.priority)
        return True

    def _keep(self, page: int, request: Request) -> None:
        """Keep a request until its page is handed out, in the job directory if there is one."""
        is_saved = False
        if self._job.config.resumes and self._job.store is not None:
            try:
                saved = pickle.dumps(request.to_dict(spider=self._crawler.spider))
            except (ValueError, TypeError, AttributeError, pickle.PicklingError) as error:
                logger.warning(
                    "%s cannot be saved, and is lost if the crawl is: %s", request, error
                )
            else:
                self._job.save_request(page, saved)
                is_saved = True
        self._hold(page, request, is_saved)

    def _saved_request(self, page: int) -> Request | None:
        """The request of a page as it was saved."""
        saved = self._job.saved_request(page)
        if saved is None:
            return None
        return self._request_of(page, saved)

    def _request_of(self, page: int, saved: bytes) -> Request:
        """A request from what was saved of it; StoreError if that makes none."""
        try:
            return request_from_dict(pickle.loads(saved), spider=self._crawler.spider)
        except Exception as error:
            assert self._job.store is not None
            raise StoreError(
                f"{self._job.store.path}: the request saved for {self._job.pages.url(page)} cannot "
                f"be made again ({type(error).__name__}: {error}); go on with the spider that "
                "made it, or start anew."
            ) from error

    def _note_unfiltered(self, page: int, unfiltered: bool) -> None:
        """Note whether a page is new to requests without dont_filter though it is known."""
        if unfiltered:
            self._unfiltered.add(page)
        else:
            self._unfiltered.discard(page)
        if self._job.store is not None and self._job.config.resumes:
            self._job.store.mark_unfiltered(page, unfiltered=unfiltered)

    def _hold(self, page: int, request: Request, is_saved: bool) -> None:
        """Keep a request, behind those that wait for its page or are being fetched."""
        if page in self._requests or self._frontier.state(page) == LEASED:
            self._again.setdefault(page, deque()).append(request)
            self._n_again += 1
        else:
            self._requests.hold(page, request, saved=is_saved)

    def _take_saved_requests(self) -> None:
        """Let the requests wait again that waited when the crawl that is gone on with ended."""
        for page, saved in self._job.saved_requests():
            request = self._request_of(page, saved)
            if self._frontier.state(page) != WAITING or request.priority:
                self._frontier.add(page, request.priority)
            self._hold(page, request, True)
        if self._job.resumed and self._job.store is not None:
            self._unfiltered.update(self._job.store.unfiltered())
            for page in self._job.store.leased():
                if self._frontier.state(page) == WAITING:
                    self._frontier.add(page, _FIRST)

    def _add_page(self, request: Request, again: bool, *, is_start: bool) -> int:
        """Let a page wait that has not been known."""
        page = self._job.add_page(request)
        self._keep(page, request)
        if again:
            self._note_unfiltered(page, True)
        if is_start:
            self._starts.add(page)
            self._job.seed([page])
        if self._frontier.state(page) != WAITING or request.priority:
            self._frontier.add(page, request.priority)
        return page

    def _take_back(self, lease: Lease) -> bool:
        """Let a page wait that was handed out too soon, as its site was busy otherwise."""
        lease.request.dont_filter = lease.dont_filter
        self._leases.end(lease)
        self._frontier.put_back(lease.page)
        if self._frontier.state(lease.page) == WAITING:
            self._requests.hold(lease.page, lease.request)
        return True

    def _retry(self, lease: Lease, request: Request) -> bool:
        """Let a page wait whose fetch failed, at its place in the order."""
        self._leases.end(lease)
        self._requests.hold(lease.page, request)
        if lease.holds_site:
            lease.holds_site = False
            self._frontier.put_back(lease.page)
        if self._frontier.state(lease.page) != WAITING or request.priority > lease.request.priority:
            self._frontier.add(lease.page, request.priority)
        return True

    def _observe_redirect(self, lease: Lease, page: int) -> None:
        """Observe the visit of a page that redirects: its one link."""
        is_link = page not in (NO_PAGE, lease.page)
        targets = np.array([page], dtype=np.int32) if is_link else NO_PAGES
        self.observe(lease, Visit(lease.page, targets, status=lease.status))
        self._finish(lease)

    def _finish(self, lease: Lease) -> None:
        """End a lease: the callback is done and the visit observed."""
        if not self._leases.end(lease):
            return
        self._release(lease)
        again = self._again.get(lease.page)
        if again:
            request = again.popleft()
            self._requests.hold(lease.page, request)
            self._n_again -= 1
            self._frontier.add(lease.page, request.priority)
            if not again:
                del self._again[lease.page]
        engine.wake(self._crawler)

    def _release(self, lease: Lease) -> None:
        if lease.holds_site:
            lease.holds_site = False
            self._frontier.release(lease.page)

    def _settle(self) -> None:
        """End the leases of requests that Scrapy is done with though nothing has concluded them."""
        if not self._leases:
            return
        in_progress = engine.requests_in_progress(self._crawler)
        if self._leases.requests <= in_progress:
            return
        for lease in self._leases:
            if lease.request in in_progress:
                continue
            if lease.conclusion is not None and not lease.observed:
                self.observe(lease, lease.conclusion())
            error = "failed" if lease.started_at is not None else "not fetched"
            self.observe(lease, Visit(lease.page, NO_PAGES, status=lease.status, error=error))
            self._finish(lease)

    def _let_go(self, now: float) -> None:
        """Let sites go on whose callbacks take too long to be waited for."""
        waiting = self._in_callback
        while waiting:
            lease = waiting[0]
            if lease.holds_site:
                if self._patient and now < (lease.ended_at or now) + PATIENCE:
                    return
                self._patient = False
                self._release(lease)
            waiting.popleft()


def _is_start(request: Request) -> bool:
    """Whether a request comes from the spider's `start`, and is not one that took over its meta."""
    return bool(request.meta.get("is_start_request")) and not request.meta.get("depth")
