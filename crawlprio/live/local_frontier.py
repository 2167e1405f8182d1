"""The frontier in this process: queue, waiting requests, the clock of hosts, replay on resume."""

from __future__ import annotations

import logging
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from time import monotonic, time
from typing import Any

import numpy as np
from scrapy.utils.asyncio import run_in_thread
from scrapy.utils.defer import deferred_from_coro
from twisted.python.failure import Failure

from crawlprio.errors import CrawlprioError
from crawlprio.frontier import PageQueue, SiteClock
from crawlprio.frontier.politeness import DomainShares, Learned
from crawlprio.frontier.protocol import Entry, Handout, PageVisit
from crawlprio.frontier.records import MAX_LEASES, UNKNOWN, WAITING
from crawlprio.frontier.replaying import FIRST, columns_of, replay
from crawlprio.graph.compiled import plain_until
from crawlprio.graph.pages import NO_PAGE, Visit
from crawlprio.items import LinkPairs
from crawlprio.live.recorder import Recorder
from crawlprio.live.request_json import priority_of
from crawlprio.live.requests import WaitingRequests
from crawlprio.live.state_keeper import n_known
from crawlprio.live.workers import LinksOut, Shard
from crawlprio.orderings.base import Keys
from crawlprio.settings_table.config import CrawlConfig
from crawlprio.store.crawl_state import RequestRow, Source
from crawlprio.store.outcomes import FOREIGN, is_refusal
from crawlprio.web.urls import host_of


class HostClock:
    """A `crawlprio.frontier.protocol.FetchClock` over a `SiteClock` in this process.

    The recorder assigns site ids and stores the state of sites; an error of the store goes to
    `failed`.
    """

    def __init__(
        self, sites: SiteClock, recorder: Recorder, failed: Callable[[CrawlprioError], object]
    ) -> None:
        self.sites = sites
        self._recorder = recorder
        self._failed = failed
        self._site = recorder.pages.site

    def next_start(self, site: str) -> float:
        return self.sites.next_start(self._site(site))

    def has_room(self, site: str) -> bool:
        return self.sites.has_room(self._site(site))

    def may_send(self, site: str) -> bool:
        return True

    def hold(self, site: str, n_fetches: int = 1) -> None:
        self.sites.hold(self._site(site), n_fetches)

    def not_fetched(self, site: str) -> None:
        self.sites.not_fetched(self._site(site), monotonic())

    def started(self, site: str, *, was_handed_out: bool) -> float:
        return self.sites.started(self._site(site), monotonic(), was_handed_out=was_handed_out)

    def ended(self, site: str, **fetch: Any) -> None:
        known = self._site(site)
        if self.sites.ended(known, monotonic(), **fetch):
            self._save(known)

    def rest(self, site: str) -> None:
        """Start no fetch on a site for one delay from now."""
        known = self._site(site)
        self.sites.rest(known, monotonic() + self.sites.delay(known))

    def set_delay(self, site: str, seconds: float) -> None:
        self.sites.set_site(self._site(site), delay=seconds)

    def obey_crawl_delay(self, site: str, seconds: float) -> float:
        known = self._site(site)
        before = self.sites.crawl_delay(known)
        obeyed = self.sites.obey_crawl_delay(known, seconds, monotonic())
        if obeyed != before:
            self._save(known)
        return obeyed

    def restore(self) -> None:
        """Restore the delays and pauses of the resumed crawl. O(sites)."""
        recorder, sites = self._recorder, self.sites
        assert recorder.store is not None
        now, since = monotonic(), time()
        politeness = sites.politeness
        pauses: dict[int, float] = {}
        for state in recorder.store.site_states():
            site = self._site(state.host)
            sites.restore(site, Learned(state.crawl_delay, state.refusals, state.pause))
            rest = politeness.rest_of_pause(state.pause, state.paused_until, since)
            pauses[site] = max(rest, pauses.get(site, 0.0))
        if politeness.follows_fetches:
            for site, fetched_at, elapsed, n_bytes in recorder.store.last_fetches():
                pause = politeness.pause_for_fetch(elapsed, n_bytes)
                rest = politeness.rest_of_pause(pause, fetched_at + pause, since)
                pauses[site] = max(rest, pauses.get(site, 0.0))
        end = recorder.previous_end
        since_end = None if end is None else since - end
        for site in range(recorder.pages.n_sites):
            rest = max(
                politeness.rest_of_delay(sites.delay(site), since_end), pauses.get(site, 0.0)
            )
            if rest > 0:
                sites.rest(site, now + rest)

    def _save(self, site: int) -> None:
        try:
            self._recorder.save_site(site, self.sites.learned(site))
        except CrawlprioError as error:
            self._failed(error)


logger = logging.getLogger(__name__)


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


_VISITED, _SCRAPED = 1, 2
"""What an earlier run did with a page: visit it, and store its items."""


@dataclass(slots=True)
class _Lease:
    """A leased page; `number` identifies its saved request, if it has one.

    `is_again`: an earlier run visited the page, and this one only because `start` runs again.
    `is_adopted`: an earlier process handed it out.
    """

    page: int
    site: int
    request: object | None
    number: int | None
    is_again: bool
    holds_site: bool = True
    is_adopted: bool = False

    @property
    def source(self) -> Source:
        """What its callback's requests are marked with in the store."""
        return self.page, self.number or 0


class LocalFrontier:
    """A `crawlprio.frontier.protocol.Frontier` in this process, recorded in the crawl store.

    A visit, the pages it discovers and the requests its callback yielded are in one transaction.
    The visits of one turn of the event loop are committed together, before the next page is handed
    out.

    The visits of a resumed crawl are replayed from the recorder. O(visits). `truth` returns the
    true PageRank of a page by its URL, if the whole web is known. `failed` is called with the error
    when the ordering or the store fails outside a call to the frontier. `priority_of` returns the
    priority of a saved request; it raises `StoreError`, which prevents the resume, for one that
    cannot be rebuilt. `call_soon` calls a function at the end of this turn of the event loop; None
    commits each visit separately. Links to other shards, each with its number, are added to
    `links_out`, in order, until somebody takes them.
    """

    keeps_objects = True
    loses_leases = False

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
        self.on_ready: Callable[[], object] = lambda: None
        self.on_lost: Callable[[int], object] = lambda lease: None
        self.links_out: list[tuple[int, LinksOut]] = []
        self.carries_json_only = recorder.saves_requests
        self.n_links = 0
        self._recorder = recorder
        self._failed = failed
        self._is_exact = config.concurrency == 1
        self._limits_waiting = config.max_waiting is not None
        # With one fetch at a time, the leased page would be handed out first again anyway.
        self._marks_leases = recorder.saves_requests and not self._is_exact
        pages = recorder.pages
        self.queue = PageQueue(
            config.ordering,
            pages,
            limit=config.limit,
            delay=config.politeness.delay,
            pages_per_visit=config.pages_per_visit,
            hot_queue=config.hot_queue(),
            novelty=config.new_novelty(),
            truth=None if truth is None else lambda page: truth(pages.url(page)),
            max_waiting=config.max_waiting,
            plain_until=plain_until(),
            is_foreign=self._is_foreign if recorder.shard is not None else None,
        )
        self.clock = HostClock(
            SiteClock(config.politeness, self.queue, pages.site_size), recorder, failed
        )
        # With one fetch at a time, or no limit, no domain can hold all of them.
        self._shares = (
            DomainShares(self.queue, config.concurrency // 2, recorder.discovery.domain_of)
            if config.concurrency > 1
            else None
        )
        for host, (delay, limit) in config.slots.items():
            self.clock.sites.set_site(pages.site(host), delay=delay, limit=limit)
        self._priority_of = priority_of
        model = config.value_model
        self._learning_model = model if model is not None and model.learns else None
        self._requests = WaitingRequests(recorder.requests, priority_of)
        # As in Scrapy, a request with dont_filter does not make later ones without it duplicates.
        self._unfiltered: set[int] = set()
        self._earlier = bytearray()
        self._refused: dict[int, str] = {}
        self._leases: dict[int, _Lease] = {}
        self._n_leases = 0
        self._call_soon = call_soon
        self._commits_soon = False
        if recorder.resumes:
            self._resume()
        self._computations = Computations(self.queue, lambda: self.on_ready(), failed)

    def __len__(self) -> int:
        return len(self.queue) + self._requests.n_more

    @property
    def is_busy(self) -> bool:
        return False

    def close(self) -> None:
        self._computations.close()
        if self._recorder.states is not None and len(self.queue):
            self._recorder.states.wait()
            self._recorder.save_state(self.queue, self._refused)
            self._recorder.states.wait()

    # Adding pages

    def is_duplicate(self, identity: str) -> bool:
        page = self._recorder.pages.find(identity)
        if page == NO_PAGE or page in self._unfiltered:
            return False
        state = self.queue.state(page)
        return state != UNKNOWN and (state != WAITING or self._requests.has(page))

    def add(self, entry: Entry) -> bool:
        recorder, queue = self._recorder, self.queue
        pages = recorder.pages
        page = pages.find(entry.identity)
        repeats = entry.repeats
        if page == NO_PAGE:
            site = pages.site(entry.site)
            if not entry.is_seed and not recorder.discovery.has_room(site, entry.url):
                return False
            page = recorder.discovery.add_page(entry.identity, entry.url, site, entry.depth)
            self._keep(page, entry, is_alone=True)
            if repeats:
                self._set_unfiltered(page, True)
            if entry.is_seed:
                self._observe_seeds([page])
            if queue.state(page) != WAITING or entry.priority:
                queue.add(page, entry.priority)
            return True
        if page in self._unfiltered and not repeats:
            self._set_unfiltered(page, False)
            repeats = True
        state = queue.state(page)
        # The page waits as a plain link, which this request supersedes.
        is_link = state == WAITING and entry.request is not None and not self._requests.has(page)
        if not (repeats or is_link or state == UNKNOWN):
            return False
        source = self._source_of(entry)
        is_again = entry.repeats and (entry.is_seed or (source is not None and source.is_again))
        saved = recorder.requests
        if (source is not None and saved.was_yielded(source.source, entry.request)) or (
            is_again and saved.left_waiting(page, entry.request)
        ):
            return True
        is_alone = (is_link or state == UNKNOWN) and not self._requests.has(page)
        is_again = is_again and page < len(self._earlier) and self._earlier[page] > 0
        self._keep(page, entry, is_alone=is_alone, is_again=is_again)
        self._wait_for_request(page, entry.priority)
        return True

    def hurry(self, identity: str, priority: int) -> int:
        """Raise a waiting page to this priority; return its state."""
        page = self._recorder.pages.find(identity)
        state = UNKNOWN if page == NO_PAGE else self.queue.state(page)
        if state == WAITING:
            self.queue.add(page, priority)
        return state

    def add_seeds(self, urls: Sequence[str]) -> None:
        found = self._recorder.discovery.find_or_add(urls, 0)
        n_waiting = len(self.queue)
        self._observe_seeds([page for page in found if page != NO_PAGE])
        self.n_links += len(self.queue) - n_waiting

    def _observe_seeds(self, pages: Sequence[int]) -> None:
        new = self._recorder.add_seeds(pages)
        self._commit_soon()
        self.queue.observe(Visit(NO_PAGE, np.array(new, dtype=np.int32)))

    def _source_of(self, entry: Entry) -> _Lease | None:
        """Return the lease whose callback or redirect led to a request, if it has not ended."""
        return None if entry.source is None else self._leases.get(entry.source)

    def _keep(self, page: int, entry: Entry, *, is_alone: bool, is_again: bool = False) -> None:
        """Keep the request of an entry until its page is handed out.

        One that each run makes again is not saved.
        """
        request = entry.request
        if isinstance(request, bytes) and self._recorder.saves_requests and not is_again:
            source = self._source_of(entry)
            number = self._recorder.requests.save(
                page, request, source=None if source is None else source.source
            )
            if is_alone:
                self._requests.add_saved(page)
            else:
                self._requests.add(page, entry.priority, None, number)
        elif request is not None or not is_alone:
            self._requests.add(page, entry.priority, request, None)

    def _wait_for_request(self, page: int, priority: int) -> None:
        """Queue a page for one more request, unless it has the maximum number of leases."""
        if self.queue.n_leases(page) < MAX_LEASES:
            self.queue.add(page, priority)

    def _wait_for_rest(self, page: int) -> None:
        """Queue a page again if more requests wait for it."""
        priority = self._requests.next_priority(page)
        if priority is not None and self.queue.state(page) != WAITING:
            self._wait_for_request(page, priority)

    def _set_unfiltered(self, page: int, unfiltered: bool) -> None:
        """Record whether a known page is still new to requests without dont_filter."""
        if unfiltered:
            self._unfiltered.add(page)
        else:
            self._unfiltered.discard(page)
        if self._recorder.saves_requests and self._recorder.store is not None:
            self._recorder.store.mark_unfiltered(page, unfiltered=unfiltered)

    # Leases

    def next_page(self, now: float) -> Handout | None:
        self._recorder.commit()
        self._save_state_if_due()
        if self._is_full or (self._is_exact and self._computations.under_way):
            return None
        page = (self._shares or self.queue).next_page(now)
        if page == NO_PAGE:
            return None
        request, number = self._requests.pop(page)
        if number is not None and self._recorder.requests.is_unsaved(number):
            # Otherwise the visit, which ends the request, would be recorded before the request.
            self._recorder.flush()
        self._wait_for_rest(page)
        pages = self._recorder.pages
        site = int(pages.sites[page])
        self.clock.sites.handed_out(site, now)
        if self._marks_leases and self._recorder.store is not None:
            self._recorder.store.mark_leased(page)
        self._n_leases += 1
        is_again = self.carries_json_only and isinstance(request, bytes) and number is None
        self._leases[self._n_leases] = _Lease(page, site, request, number, is_again)
        return Handout(self._n_leases, pages.url(page), int(pages.depths[page]), request)

    def holds(self, lease: int) -> bool:
        return True

    # Leases that outlive a process

    def number_leases_from(self, first: int) -> None:
        """Give the next lease this number, so that it differs from those of earlier processes."""
        self._n_leases = first - 1

    def share_between(self, n_fetches: int) -> None:
        """Limit a registered domain to half of so many fetches at once."""
        if self._shares is not None:
            self._shares.limit(max(n_fetches // 2, 1))

    def key_of(self, lease: int) -> tuple[int, int | None]:
        """Return the page of a lease, and the number of its request, by which it is adopted."""
        return self._leases[lease].page, self._leases[lease].number

    def site_of(self, lease: int) -> str:
        """Return the host whose delay applies to a leased page."""
        return self._recorder.pages.host(self._leases[lease].site)

    def adopt(self, lease: int, page: int, number: int | None) -> Handout | None:
        """Take note of a lease that an earlier process gave; return None if its page is gone.

        Its page was visited since, say. Until the lease ends, its site counts as being fetched.
        """
        queue = self.queue
        request = None
        pages = self._recorder.pages
        if not 0 <= page < len(pages) or queue.state(page) != WAITING:
            return None
        if number is not None:
            request = self._requests.take(page, number)
            if request is None:
                return None
        if not self._requests.has(page):
            queue.finish(page)
        site = int(pages.sites[page])
        queue.hold(site)
        self.clock.sites.handed_out(site, monotonic())
        if self._shares is not None:
            self._shares.began(site)
        if self._marks_leases and self._recorder.store is not None:
            self._recorder.store.mark_leased(page)
        self._leases[lease] = _Lease(page, site, request, number, is_again=False, is_adopted=True)
        return Handout(lease, pages.url(page), int(pages.depths[page]), request)

    def release_site(self, lease: int) -> None:
        self._release(self._leases[lease])

    def _release(self, lease: _Lease) -> None:
        if lease.holds_site:
            lease.holds_site = False
            if lease.is_adopted:
                self.queue.hold(lease.site, -1)
            else:
                self.queue.release(lease.page)
            if self._shares is not None:
                self._shares.ended(lease.site)
            self._wait_for_rest(lease.page)

    def observe(self, lease: int, visit: PageVisit) -> None:
        ended = self._leases.pop(lease)
        n_pages = len(self._recorder.pages)
        evidence = self._recorder.discovery.visit_of(ended.page, visit)
        self.n_links += len(self._recorder.pages) - n_pages
        # A refused page and its request are kept for the next run, which may not refuse it.
        number = ended.number
        if is_refusal(evidence.status, evidence.error):
            number = None
            self._refused[ended.page] = evidence.error
        elif self._refused:
            self._refused.pop(ended.page, None)
        was_scraped = ended.is_again and self._earlier[ended.page] == _SCRAPED
        self._recorder.record(
            evidence,
            number,
            items=() if was_scraped else visit.items,
            exchange=visit.exchange,
            commits=False,
        )
        self._recorder.requests.end_source(ended.source)
        if number is not None and self._recorder.requests.is_of_earlier_run(number):
            self._note_earlier(ended.page, _SCRAPED if visit.items else _VISITED)
        self._commit_soon()
        if self._recorder.shard is not None and len(evidence.targets):
            self._note_links_out(
                self._recorder.shard, evidence, are_entries=visit.links_are_entries
            )
        self.queue.observe(evidence)
        self._release(ended)

    def _commit_soon(self) -> None:
        if self._call_soon is None:
            self._recorder.commit()
        elif not self._commits_soon:
            self._commits_soon = True
            self._call_soon(self._commit)

    def put_back(
        self, lease: int, request: object | None = None, priority: int | None = None
    ) -> None:
        ended = self._leases.pop(lease)
        page = ended.page
        if ended.is_adopted and ended.holds_site:
            self.queue.hold(ended.site, -1)
        self.queue.put_back(page, is_released=ended.is_adopted or not ended.holds_site)
        if self._shares is not None and ended.holds_site:
            self._shares.ended(ended.site)
        if self.queue.state(page) != WAITING:
            return  # dropped because the frontier is full
        number, waits_with = ended.number, priority
        if request is None:
            request = ended.request
            if waits_with is None and request is not None:
                waits_with = self._priority(request)
        elif isinstance(request, bytes) and self._recorder.saves_requests and not ended.is_again:
            number = self._recorder.requests.save(page, request, number)
        if request is not None:
            is_saved = isinstance(request, bytes) and number is not None
            self._requests.add(page, waits_with or 0, None if is_saved else request, number)
        if priority is not None:
            self.queue.add(page, priority)

    def _priority(self, request: object) -> int:
        """Return the priority of a request that was handed out."""
        if isinstance(request, bytes):
            return self._priority_of(request)
        return int(getattr(request, "priority", 0))

    def ready_at(self) -> float:
        return math.inf if self._is_full else self.queue.ready_at()

    @property
    def _is_full(self) -> bool:
        """Whether as many pages are leased as this run may still get."""
        return len(self._leases) >= self._recorder.n_left

    @property
    def has_enough(self) -> bool:
        """Whether this run may get no more pages."""
        return self._recorder.n_left <= 0

    def figures(self) -> dict[str, int | str]:
        queue = self.queue
        figures: dict[str, int | str] = {}
        if self._limits_waiting:
            figures |= {"pages waiting": len(queue), "pages dropped": queue.n_dropped}
        if queue.hot_queue is not None:
            figures["pages on the topic"] = queue.hot_queue.n_hot
        if queue.novelty is not None:
            figures |= queue.novelty.figures()
        return figures

    # Other shards

    def _is_foreign(self, site: int) -> bool:
        shard = self._recorder.shard
        return shard is not None and shard.is_foreign(self._recorder.pages.host(site))

    def _note_links_out(self, shard: Shard, visit: Visit, *, are_entries: bool) -> None:
        """Note the links of a visit to other shards, before it is observed."""
        pages = self._recorder.pages
        places: dict[int, list[int]] = {}
        for at, site in enumerate(pages.sites[visit.targets].tolist()):
            number = shard.of(pages.host(site))
            if number != shard.number:
                places.setdefault(number, []).append(at)
        again, ordering = self.queue.has_observed(visit.page), self.queue.ordering
        for number, chosen in places.items():
            share = 0.0 if again else len(chosen) / len(visit.targets)
            links = LinksOut(
                pages.url(visit.page),
                int(pages.depths[visit.page]),
                ordering.mass(visit.page, share) if share else 0.0,
                ordering.site_visits(int(pages.sites[visit.page])),
                pages.urls(visit.targets[chosen].tolist()),
                [visit.anchors[at] for at in chosen] if any(visit.anchors) else [],
                are_entries,
            )
            self.links_out.append((number, links))

    def take_links(self, links: LinksOut) -> None:
        """Learn from the links of a page that another shard has fetched, and queue new ones."""
        recorder, queue, url = self._recorder, self.queue, links.url
        n_pages = len(recorder.pages)
        page = recorder.discovery.page_of(
            recorder.discovery.identity_of(url), url, host_of(url), links.depth
        )
        pairs = LinkPairs(url, links.targets, anchors=links.anchors, status=0)
        reported = PageVisit(pairs, links.are_entries, error=FOREIGN)
        visit = recorder.discovery.visit_of(page, reported)
        visit = visit._replace(mass=links.mass, site_visits=links.site_visits)
        self.n_links += len(recorder.pages) - n_pages
        recorder.record(visit, commits=False)
        self._commit_soon()
        if not queue.has_observed(page):
            queue.credit(visit, int(recorder.pages.depths[page]))
        queue.observe(visit)

    # Commit and resume

    def _save_state_if_due(self) -> None:
        states, store = self._recorder.states, self._recorder.store
        if states is not None and store is not None and states.is_due(store):
            self._recorder.save_state(self.queue, self._refused)

    def _commit(self) -> None:
        """Commit what was recorded in this turn of the event loop, all at once."""
        self._commits_soon = False
        try:
            self._recorder.commit()
        except CrawlprioError as error:
            self._failed(error)

    def _resume(self) -> None:
        """Replay the visits of earlier runs, and queue what was waiting when they ended.

        O(visits), or those since the state was saved.
        """
        recorder, queue = self._recorder, self.queue
        assert recorder.store is not None
        recorder.restore_seeds()
        self._earlier = bytearray(len(recorder.pages))
        model = self._learning_model
        has_topic = queue.hot_queue is not None
        texts = has_topic or model is not None or queue.ordering.needs_texts
        n_seen = 0
        if recorder.state is not None:
            n_seen, *_ = n_known(recorder.state)
            queue.restore(recorder.state.take)
            for page in recorder.figures.visited:
                self._note_earlier(page, _VISITED)
        anchors = texts or queue.ordering.needs_anchors
        columns = columns_of(recorder.store.visits(texts=texts, anchors=anchors, after=n_seen))
        n_pages, n_keyed = len(recorder.pages), queue.ordering.n_pages
        for some in replay(queue, columns, recorder.seeds, n_pages, n_known=n_keyed):
            for visit, n_before in some.evidence():
                if visit.error == FOREIGN and not queue.has_observed(visit.page):
                    queue.credit(visit, int(recorder.pages.depths[visit.page]))
                recorder.replay(visit, n_before)
                if model is not None and visit.value is not None and (visit.title or visit.text):
                    model.score_again(recorder.pages.url(visit.page), visit.title, visit.text)
                if visit.page != NO_PAGE:
                    self._note_earlier(visit.page, _VISITED)
        for page in recorder.restore_items():
            self._note_earlier(page, _SCRAPED)
        recorder.figures.n_before = recorder.figures.n_fetched
        asked_for = []
        for saved in recorder.store.requests():
            self._restore_request(saved)
            asked_for.append(saved.page)
        recorder.restore_counts(asked_for)
        self._unfiltered.update(recorder.store.unfiltered())
        for page in recorder.store.leased():
            if queue.state(page) == WAITING:
                queue.add(page, FIRST)
        self.clock.restore()

    def _note_earlier(self, page: int, outcome: int) -> None:
        """Note what became of a page in an earlier run, or of a request that it left waiting."""
        self._earlier[page] = max(self._earlier[page], outcome)

    def _restore_request(self, saved: RequestRow) -> None:
        """Queue a request that an earlier run saved and did not finish."""
        priority = self._priority_of(saved.request)
        page, queue = saved.page, self.queue
        if self._requests.has(page):
            self._requests.add(page, priority, None, saved.number)
        else:
            self._requests.add_saved(page)
        if queue.state(page) != WAITING or priority:
            queue.add(page, priority)
