"""The frontier in this process: queue, waiting requests, the clock of hosts, replay on resume."""

from __future__ import annotations

import logging
import math
from collections.abc import Callable, Sequence
from dataclasses import replace
from time import monotonic
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray
from scrapy.utils.asyncio import run_in_thread
from scrapy.utils.defer import deferred_from_coro
from twisted.python.failure import Failure

from crawlprio.errors import CrawlprioError
from crawlprio.frontier import PageQueue, SiteClock
from crawlprio.frontier.politeness import DomainShares
from crawlprio.frontier.protocol import Attached, LeasedPage, PageVisit, QueueEntry
from crawlprio.frontier.replaying import add_waiting, history_of, replay
from crawlprio.frontier.saved_queue import add_done, restore_queue
from crawlprio.frontier.struct_layouts import MAX_LEASES, UNKNOWN, WAITING
from crawlprio.graph.compiled import plain_until
from crawlprio.graph.pages import NO_PAGE, Visit
from crawlprio.live.clock import HostClock
from crawlprio.live.recorder import Recorder
from crawlprio.live.request_json import Unheld, priority_of
from crawlprio.live.requests import WaitingRequests
from crawlprio.live.state_keeper import n_known
from crawlprio.orderings.base import Keys
from crawlprio.settings_table.config import CrawlConfig
from crawlprio.store.outcomes import failure_of, waits_again

logger = logging.getLogger("crawlprio")


class Computations:
    """Recomputes an ordering's keys in a thread, on a snapshot, while the crawl continues.

    At most one computation of an ordering runs at a time (`under_way`). The queue receives the
    keys, then `done` is called, or `failed` with the error of the ordering.
    """

    def __init__(
        self,
        queue: PageQueue,
        done: Callable[[], object],
        failed: Callable[[CrawlprioError], object],
    ) -> None:
        self._queue = queue
        self._done = done
        self._failed = failed
        self._is_closed = False
        self.under_way = False
        queue.recompute = self._start

    def close(self) -> None:
        """Discard the result of the computation under way."""
        self._is_closed = True

    def _start(self, work: Callable[[], Keys]) -> None:
        self.under_way = True
        deferred_from_coro(self._compute(work)).addErrback(self._report)

    async def _compute(self, work: Callable[[], Keys]) -> None:
        result = await run_in_thread(work)
        self.under_way = False
        if not self._is_closed:
            self._queue.accept(result)
            self._done()

    def _report(self, failure: Failure) -> None:
        self.under_way = False
        if isinstance(failure.value, CrawlprioError):
            self._failed(failure.value)
            return
        logger.error("The ordering could not be recomputed: %s", failure.getTraceback())
        self._queue.hold_none_back()
        self._done()


class Rechecks(Protocol):
    """Knows the pages that an update fetches again: what to send, and whether anything is new."""

    def request_for(self, page: int, request: object | None) -> object | None:
        """Return what to send for a page that leaves, whose request waits; None: a plain GET."""

    def is_check(self, page: int, request: object | None, visit: Visit) -> bool:
        """Note the outcome of a fetch; return whether it found the page as it was: no visit.

        `request` is what waited. Of the `extras` of the visit, its own are taken out.
        """


class EarlierRuns:
    """What earlier runs of a crawl have left: it resumes from that, and knows what they did."""

    def __init__(
        self, queue: PageQueue, recorder: Recorder, requests: WaitingRequests, clock: HostClock
    ) -> None:
        self._queue, self._recorder = queue, recorder
        self._requests, self._clock = requests, clock
        self._outcomes = bytearray()

    def resume(self, model: Any | None) -> None:
        """Resume, step by step; a `model` that learns from each page does so again."""
        self._restore_queue()
        self._replay_visits(model)
        for page in self._recorder.restore_items():
            self.note(page, has_items=True)
        self._restore_requests()
        self._clock.restore()

    def _restore_queue(self) -> None:
        """Restore the queue as it was when the state was saved, if it was. O(pages)."""
        recorder = self._recorder
        if recorder.state is not None:
            restore_queue(self._queue, recorder.state.take)
            self._outcomes = bytearray(len(recorder.pages))
            np.frombuffer(self._outcomes, np.uint8)[recorder.figures.visited] = 1

    def _replay_visits(self, model: Any | None) -> None:
        """Replay the visits since then, or all. O(their links)."""
        recorder, queue = self._recorder, self._queue
        assert recorder.store is not None
        n_seen = 0 if recorder.state is None else n_known(recorder.state)[0]
        texts, beside = model is not None, recorder.read_back
        columns = history_of(queue, recorder.store, texts=texts, after=n_seen, beside=beside)
        n_pages, n_keyed = len(recorder.pages), queue.ordering.n_pages
        for some in replay(queue, columns, recorder.seeds, n_pages, n_known=n_keyed):
            for visit, n_before in some.evidence():
                recorder.replay(visit, n_before)
                if model is not None and visit.value is not None and (visit.title or visit.text):
                    model.score_again(recorder.pages.url(visit.page), visit.title, visit.text)
                if visit.page != NO_PAGE:
                    self.note(visit.page)

    def _restore_requests(self) -> None:
        """Queue the pages of requests that were not finished; the budgets count all pages."""
        store = self._recorder.store
        assert store is not None
        waiting = add_waiting(self._queue, store, self._requests.priority_of)
        self._recorder.end_replay(self._requests.restore(waiting))

    def note(self, page: int, *, has_items: bool = False) -> None:
        """Note a visit of a page, or of a request that an earlier run left waiting."""
        if page >= len(self._outcomes):
            self._outcomes.extend(bytes(page + 1024 - len(self._outcomes)))
        self._outcomes[page] = max(self._outcomes[page], 2 if has_items else 1)

    def visited(self, page: int) -> bool:
        """Return whether an earlier run visited a page."""
        return page < len(self._outcomes) and self._outcomes[page] > 0

    def scraped(self, page: int) -> bool:
        """Return whether items of a page are stored."""
        return page < len(self._outcomes) and self._outcomes[page] == 2

    def forget(self) -> None:
        """Have every page done as if for the first time."""
        self._outcomes.clear()


class PageLeases:
    """The leased pages of a frontier, by lease: while one holds its site, no other page leaves it.

    `shares` limits the fetches of a registered domain; None: nothing does. If it `marks` pages in
    the store, a later run begins with those that were leased when this one was killed.
    """

    def __init__(
        self,
        queue: PageQueue,
        recorder: Recorder,
        requests: WaitingRequests,
        clock: SiteClock,
        shares: DomainShares | None,
        *,
        marks: bool,
    ) -> None:
        self._queue, self._recorder, self._pages = queue, recorder, recorder.pages
        self._requests, self._clock, self._shares = requests, clock, shares
        self._marks = marks
        self._leases: dict[int, LeasedPage] = {}
        self._latest = 0

    def __len__(self) -> int:
        return len(self._leases)

    def __getitem__(self, lease: int) -> LeasedPage:
        return self._leases[lease]

    def of(self, lease: int | None) -> LeasedPage | None:
        """Return the leased page; None if the lease has ended, or there is none."""
        return None if lease is None else self._leases.get(lease)

    def next_page(self, now: float) -> LeasedPage | None:
        """Lease the next page of the queue; None if no site is ready."""
        page = (self._shares or self._queue).next_page(now)
        if page == NO_PAGE:
            return None
        request, number = self._requests.pop(page)
        self._wait_for_rest(page)
        self._latest += 1
        leased_page = self._begin(self._latest, page, request, number)
        # Of the requests in a job, those that each run makes again are not saved.
        is_bytes = self._recorder.saves_requests and isinstance(request, bytes)
        leased_page.is_again = is_bytes and number is None
        return leased_page

    def adopt(self, lease: int, page: int, number: int | None) -> LeasedPage | None:
        """Take note of a lease that an earlier process gave; return None if its page is gone.

        Its page was visited since, say. Until the lease ends, its site counts as being fetched.
        """
        queue = self._queue
        request = None
        if not 0 <= page < len(self._pages) or queue.state(page) != WAITING:
            return None
        if number is not None:
            request = self._requests.take(page, number)
            if request is None:
                return None
        if not self._requests.has(page):
            queue.finish(page)
        site = int(self._pages.sites[page])
        queue.hold(site)
        if self._shares is not None:
            self._shares.began(site)
        adopted = self._begin(lease, page, request, number)
        adopted.is_adopted = True
        return adopted

    def _begin(
        self, lease: int, page: int, request: object | None, number: int | None
    ) -> LeasedPage:
        pages, store = self._pages, self._recorder.store
        host, depth = pages.host(int(pages.sites[page])), int(pages.depths[page])
        self._clock.handed_out(host)
        if self._marks and store is not None:
            store.pending.leased.set(page)
        url = pages.url(page)
        self._leases[lease] = LeasedPage(lease, url, depth, request, host, page, number)
        return self._leases[lease]

    def pop(self, lease: int) -> LeasedPage:
        """End a lease; its site is still held."""
        return self._leases.pop(lease)

    def release(self, leased_page: LeasedPage) -> None:
        """Release the site of a leased page, if it holds one."""
        if leased_page.holds_site:
            leased_page.holds_site = False
            site = int(self._pages.sites[leased_page.page])
            if leased_page.is_adopted:
                self._queue.hold(site, -1)
            else:
                self._queue.release(leased_page.page)
            if self._shares is not None:
                self._shares.ended(site)
            self._wait_for_rest(leased_page.page)

    def put_back(self, leased_page: LeasedPage) -> bool:
        """Queue a leased page again; return False if it was dropped as the frontier is full."""
        page, holds_site = leased_page.page, leased_page.holds_site
        site = int(self._pages.sites[page])
        if leased_page.is_adopted and holds_site:
            self._queue.hold(site, -1)
        self._queue.put_back(page, is_released=leased_page.is_adopted or not holds_site)
        if self._shares is not None and holds_site:
            self._shares.ended(site)
        return self._queue.state(page) == WAITING

    def wait_for_request(self, page: int, priority: int) -> None:
        """Queue a page for one more request, unless it has the maximum number of leases."""
        if self._queue.n_leases(page) < MAX_LEASES:
            self._queue.add(page, priority)

    def _wait_for_rest(self, page: int) -> None:
        """Queue a page again if more requests wait for it."""
        priority = self._requests.next_priority(page)
        if priority is not None and self._queue.state(page) != WAITING:
            self.wait_for_request(page, priority)

    def number_from(self, first: int) -> None:
        """Give the next lease this number, so that it differs from those of earlier processes."""
        self._latest = first - 1

    def share_between(self, n_fetches: int) -> None:
        """Limit a registered domain to half of so many fetches at once."""
        if self._shares is not None:
            self._shares.limit(max(n_fetches // 2, 1))


class LocalFrontier(Attached):
    """A `crawlprio.frontier.protocol.Frontier` in this process, recorded in the crawl store.

    A visit, the pages it discovers and the requests its callback yielded are in one transaction.
    The visits of one turn of the event loop are committed together, before the next page is handed
    out.

    The visits of a resumed crawl are replayed from the recorder. O(visits). `truth` returns the
    true PageRank of a page by its URL, if the whole web is known. `failed` is called with the error
    when the ordering or the store fails outside a call to the frontier. `priority_of` returns the
    priority of a saved request; it raises `StoreError`, which prevents the resume, for one that
    cannot be rebuilt. `call_soon` calls a function at the end of this turn of the event loop; None
    commits each visit separately.
    """

    keeps_objects = True
    loses_leases = is_busy = False
    rechecks: Rechecks | None = None
    """What an update knows of pages that it fetches again."""
    counts_failures = False
    """Whether a page that could not be fetched counts for CRAWLPRIO_MAX_PAGES, as in an update."""

    def __init__(
        self,
        config: CrawlConfig,
        recorder: Recorder,
        *,
        truth: Callable[[str], float] | None = None,
        failed: Callable[[CrawlprioError], object] = lambda error: None,
        priority_of: Callable[[bytes], int] = priority_of,
        call_soon: Callable[[Callable[[], object]], object] | None = None,
    ) -> None:
        self.carries_json_only = recorder.saves_requests
        self.n_links = 0
        self._recorder = recorder
        self._failed = failed
        self._is_exact = config.concurrency == 1
        self._limits_waiting = config.max_waiting is not None
        self._pages = pages = recorder.pages
        self._discovery = recorder.discovery
        self.queue = PageQueue(
            config.ordering,
            pages,
            limit=config.limit,
            delay=config.politeness.delay,
            pages_per_visit=config.pages_per_visit,
            hot_queue=config.hot_queue(),
            demotion=config.new_demotion(),
            truth=None if truth is None else lambda page: truth(pages.url(page)),
            max_waiting=config.max_waiting,
            # A state is saved of compiled code alone, which is still in the user's cache.
            plain_until=plain_until() if recorder.state is None else 0,
        )
        self.clock = HostClock(config, self.queue, recorder, failed)
        self._requests = WaitingRequests(
            lambda: recorder.store, priority_of, saves=recorder.saves_requests
        )
        self._earlier = EarlierRuns(self.queue, recorder, self._requests, self.clock)
        self._refused: dict[int, str] = {}
        shares = None
        if config.concurrency > 1:  # else, or without a limit, no domain can hold all of them
            shares = DomainShares(self.queue, config.concurrency // 2, recorder.budgets.domain)
        # With one fetch at a time, the leased page would be handed out first again anyway.
        marks = recorder.saves_requests and not self._is_exact
        self.leases = PageLeases(
            self.queue, recorder, self._requests, self.clock, shares, marks=marks
        )
        self._call_soon = call_soon
        self._commits_soon = False
        if recorder.resumes:
            model = config.value_model
            self._earlier.resume(model if model is not None and model.learns else None)
        self._computations = Computations(self.queue, self._page_ready, failed)

    def _page_ready(self) -> None:
        if self.user is not None:
            self.user.page_ready()

    def __len__(self) -> int:
        return len(self.queue) + self._requests.n_more

    def close(self) -> None:
        self._computations.close()
        if len(self.queue):
            self._recorder.save_state(self.queue, self._refused, is_last=True)

    def is_duplicate(self, identity: str) -> bool:
        page = self._pages.find(identity)
        if page == NO_PAGE or self._requests.is_unfiltered(page):
            return False
        state = self.queue.state(page)
        return state != UNKNOWN and (state != WAITING or self._requests.has(page))

    def add(self, entry: QueueEntry) -> bool:
        queue, pages, requests = self.queue, self._pages, self._requests
        if isinstance(entry.request, Unheld) and not self.keeps_objects:
            return False
        page = pages.find(entry.identity)
        repeats = entry.repeats
        # Whose callback or redirect led to it, unless it has ended.
        source = self.leases.of(entry.source)
        if page == NO_PAGE:
            site = pages.site(entry.site)
            if not entry.is_seed and not self._discovery.has_room(site, entry.url):
                return False
            page = self._discovery.add_page(entry.identity, entry.url, site, entry.depth)
            requests.keep(page, entry, source, is_alone=True, is_again=False)
            if repeats:
                requests.set_unfiltered(page, True)
            if entry.is_seed:
                self._observe_seeds([page])
            if queue.state(page) != WAITING or entry.priority:
                queue.add(page, entry.priority)
            return True
        if not repeats and requests.is_unfiltered(page):
            requests.set_unfiltered(page, False)
            repeats = True
        state = queue.state(page)
        # The page waits as a plain link, which this request supersedes.
        is_link = state == WAITING and entry.request is not None and not requests.has(page)
        if not (repeats or is_link or state == UNKNOWN):
            return False
        is_again = entry.repeats and (entry.is_seed or (source is not None and source.is_again))
        if (source is not None and requests.was_yielded(source.mark, entry.request)) or (
            is_again and requests.left_waiting(page, entry.request)
        ):
            return True
        is_alone = (is_link or state == UNKNOWN) and not requests.has(page)
        is_again = is_again and self._earlier.visited(page)
        requests.keep(page, entry, source, is_alone=is_alone, is_again=is_again)
        self.leases.wait_for_request(page, entry.priority)
        return True

    def raise_priority(self, identity: str, priority: int) -> int:
        """Raise a waiting page to this priority; return its state."""
        page = self._pages.find(identity)
        state = UNKNOWN if page == NO_PAGE else self.queue.state(page)
        if state == WAITING:
            self.queue.add(page, priority)
        return state

    def add_seeds(self, urls: Sequence[str]) -> None:
        found = self._discovery.find_or_add(urls, 0)
        n_waiting = len(self.queue)
        self._observe_seeds([page for page in found if page != NO_PAGE])
        self.n_links += len(self.queue) - n_waiting

    def _observe_seeds(self, pages: Sequence[int]) -> None:
        new = self._recorder.add_seeds(pages)
        self._commit_soon()
        self.queue.observe(Visit(NO_PAGE, np.array(new, dtype=np.int32)))

    def next_page(self, now: float) -> LeasedPage | None:
        self._recorder.commit()
        self._recorder.save_state(self.queue, self._refused)
        if self._is_full or (self._is_exact and self._computations.under_way):
            return None
        leased = self.leases.next_page(now)
        if leased is not None and self.rechecks is not None:
            return replace(leased, request=self.rechecks.request_for(leased.page, leased.request))
        return leased

    def start_enters_at(self, site: str, priority: int, n_free: float, *, can_lease: bool) -> float:
        now = monotonic()
        if self.ready_at() <= now:
            return -math.inf if self.queue.precedes(priority, now) else math.inf
        if not can_lease:
            return math.inf
        if len(self) < n_free:
            return -math.inf
        return self.clock.next_start(site) if self.clock.has_room(site) else math.inf

    def holds(self, lease: int) -> bool:
        return True

    def fetch_again(self, pages: NDArray[np.int64], keys: Keys) -> None:
        """Queue pages that are done once more. `keys`: one for each page that is known.

        Each visit of them is recorded with its items, as if it were the first. O(pages).
        """
        add_done(self.queue, pages)
        self.queue.accept(keys)
        self._earlier.forget()

    def release_site(self, lease: int) -> None:
        self.leases.release(self.leases[lease])

    def observe(self, lease: int, visit: PageVisit) -> None:
        ended = self.leases.pop(lease)
        n_pages = len(self._pages)
        if self._requests.unheld:
            self._requests.forget_unheld(ended.page)
            if not visit.links_are_entries:
                self._queue_linked(visit.pairs.targets)
        evidence = self._discovery.visit_of(ended.page, visit)
        self.n_links += len(self._pages) - n_pages
        # Such a page and its request are kept for the next run, which may get it.
        number = ended.number
        if self._recorder.store is not None:
            self._recorder.store.pending.yielded.end(ended.mark)
        if self.rechecks is not None:
            if self.rechecks.is_check(ended.page, ended.request, evidence):
                self._recorder.record_check(ended.page, number, visit.exchange)
                self._commit_soon()
                self.leases.release(ended)
                return
            if self.counts_failures and failure_of(evidence):
                self._recorder.goal.count_check()
        if waits_again(evidence.status, evidence.error):
            number = None
            self._refused[ended.page] = evidence.error
        elif self._refused:
            self._refused.pop(ended.page, None)
        was_scraped = ended.is_again and self._earlier.scraped(ended.page)
        items = () if was_scraped else visit.items
        self._recorder.record(evidence, number, items=items, exchange=visit.exchange)
        if number is not None and self._requests.is_of_earlier_run(number):
            self._earlier.note(ended.page, has_items=bool(visit.items))
        self._commit_soon()
        self.queue.observe(evidence)
        self.leases.release(ended)

    def _queue_linked(self, urls: Sequence[str]) -> None:
        """Queue those of these links of which JSON could not hold the requests."""
        for page in self._pages.find_all(map(self._discovery.identity_of, urls)):
            if page in self._requests.unheld and self.queue.state(page) == UNKNOWN:
                self._requests.forget_unheld(page)
                self.queue.add(page)

    def _commit_soon(self) -> None:
        if self._call_soon is None:
            self._recorder.commit()
        elif not self._commits_soon:
            self._commits_soon = True
            self._call_soon(self._commit)

    def put_back(
        self, lease: int, request: object | None = None, priority: int | None = None
    ) -> None:
        ended = self.leases.pop(lease)
        page = ended.page
        if not self.leases.put_back(ended):
            return
        number, waits_with = ended.number, priority
        if isinstance(request, Unheld):
            request = request.request  # its row, if any, is still that of what it replaces
        if request is None:
            request = ended.request
            if waits_with is None and isinstance(request, bytes):
                waits_with = self._requests.priority_of(request)
            elif waits_with is None:
                waits_with = int(getattr(request, "priority", 0))
        elif isinstance(request, bytes) and self._recorder.saves_requests and not ended.is_again:
            number = self._requests.save(page, request, number)
        if request is not None:
            is_saved = isinstance(request, bytes) and number is not None
            self._requests.add(page, waits_with or 0, None if is_saved else request, number)
        if priority is not None:
            self.queue.add(page, priority)

    def ready_at(self) -> float:
        return math.inf if self._is_full else self.queue.ready_at()

    @property
    def _is_full(self) -> bool:
        """Whether as many pages are leased as this run may still get."""
        return len(self.leases) >= self._recorder.goal.n_left

    @property
    def has_enough(self) -> bool:
        """Whether this run may get no more pages."""
        return self._recorder.goal.n_left <= 0

    def figures(self) -> dict[str, int | str]:
        queue = self.queue
        figures: dict[str, int | str] = {}
        if self._limits_waiting:
            figures |= {"pages waiting": len(queue), "pages dropped": queue.n_dropped}
        if queue.hot_queue is not None:
            figures["pages on the topic"] = queue.hot_queue.n_hot
        if queue.demotion is not None:
            figures |= queue.demotion.figures()
        return figures

    def _commit(self) -> None:
        """Commit what was recorded in this turn of the event loop, all at once."""
        self._commits_soon = False
        try:
            self._recorder.commit()
        except CrawlprioError as error:
            self._failed(error)
