"""One crawl: what its scheduler, middlewares and pipeline share; made once, from the settings.

It holds the page table, the frontier and the crawl store, and turns URLs into page ids for them.
"""

from __future__ import annotations

import logging
from array import array
from collections.abc import Iterable, Iterator, Sequence
from time import time
from typing import TYPE_CHECKING
from weakref import WeakKeyDictionary

import numpy as np
from scrapy.utils.httpobj import urlparse_cached
from scrapy.utils.misc import load_object

from crawlprio.config import CrawlConfig
from crawlprio.errors import CrawlprioError, StoreError
from crawlprio.frontier import Frontier
from crawlprio.items import LinkPairs
from crawlprio.live.identity import Identities
from crawlprio.live.virtual import VirtualWeb
from crawlprio.pages import NO_PAGE, PageTable, Visit
from crawlprio.store import (
    SiteState,
    Store,
    StoredPages,
    StoreInUse,
    discard_unfinished,
    keep_existing,
)
from crawlprio.store.hashtable import HashTable
from crawlprio.store.stored_pages import UrlRow
from crawlprio.web.budgets import Budgets
from crawlprio.web.scope import registered_domain
from crawlprio.web.urls import host_of, without_credentials

if TYPE_CHECKING:
    from scrapy import Request
    from scrapy.crawler import Crawler

logger = logging.getLogger("crawlprio")

_jobs: WeakKeyDictionary[Crawler, Job | CrawlprioError] = WeakKeyDictionary()


class Job:
    """What the parts of one crawl share; `Job.of(crawler)` gives every part the same one.

    Attributes
    ----------
    config
        the checked settings.
    pages, frontier, identities
        the page table, the frontier over it, and how requests are found in it.
    store
        the crawl store; None if nothing is recorded.
    orders
        whether crawlprio's scheduler (or one of its priority queues) runs this crawl, so that
        visits are evidence; else they are only recorded.
    seeds
        the pages that the crawl started from, in order.
    resumed
        whether it goes on with a crawl that was in the store.
    n_visits, n_failed, n_unique, n_links
        pages fetched; those of them without an answer or with an error status; pages with a body
        that no page before had; links recorded. In all runs of a crawl that is gone on with.
    n_visits_before
        pages fetched in earlier runs.
    ended_at
        Unix time at which the last run ended in good order; None if there was none, or it was
        killed.
    """

    def __init__(self, crawler: Crawler, ordering: str | None = None) -> None:
        self.config = CrawlConfig.from_settings(crawler.settings, ordering)
        self.identities = Identities(crawler)
        self.store = self._existing_store()
        self.resumed = self.store is not None and self.store.n_pages > 0
        self.pages = self._page_table()
        self.ended_at = None if self.store is None else self.store.ended_at
        self.orders = False
        self.seeds: dict[int, None] = {}
        self.n_visits_before = 0
        self.n_failed = 0
        self.n_unique = 0
        self.n_links = 0
        self._visited = array("i")
        self._sites_visited = bytearray()
        self._n_sites_visited = 0
        self._hashes = HashTable()
        virtual = VirtualWeb.of(crawler)
        self._stats = crawler.stats
        self._budgets = Budgets(
            registered_domain,
            self.pages.site_size,
            per_site=self.config.max_pages_per_site,
            per_domain=self.config.max_pages_per_domain,
            # A web that is wholly known has no traps, and is judged as a whole.
            per_pattern=self.config.max_pages_per_pattern if virtual is None else None,
        )
        self.frontier = Frontier(
            self.config.ordering,
            self.pages,
            limit=self.config.limit,
            delay=self.config.politeness.delay,
            pages_per_visit=self.config.pages_per_visit,
            hot_queue=self.config.hot_queue(),
            truth=None if virtual is None else lambda page: virtual.rank(self.pages.url(page)),
            max_waiting=self.config.max_waiting,
        )
        for host, (delay, limit) in self.config.slots.items():
            site = self._site(host)
            if delay is not None:
                self.config.politeness.set_delay(site, delay)
            self.frontier.set_site(site, delay=delay, limit=limit)
        self._unsaved: list[tuple[int, bytes]] = []
        self._store_failed = False
        if self.store is None:
            self.store = self._new_store()
        if self.store is not None:
            topic = self.config.topic
            self.store.set_meta("ordering", self.config.ordering_name)
            self.store.set_meta("topic", "" if topic is None else ",".join(topic.terms))

    @classmethod
    def of(cls, crawler: Crawler, ordering: str | None = None) -> Job:
        """Return the job of a crawler, which is made at the first call, from its settings.

        At that call `ordering` stands in for ORDERING where it is given.

        Raises
        ------
        CrawlprioError
            if a setting is bad or the store cannot be opened.
        """
        job = _jobs.get(crawler)
        if job is None:
            try:
                refusal = getattr(crawler.spider, "refusal", None)
                if isinstance(refusal, CrawlprioError):
                    raise refusal
                job = cls(crawler, ordering)
            except CrawlprioError as error:
                job = error
            _jobs[crawler] = job
        if isinstance(job, CrawlprioError):
            raise job
        return job

    @property
    def n_visits(self) -> int:
        return len(self._visited)

    @property
    def n_sites_visited(self) -> int:
        """Sites from which something was fetched."""
        return self._n_sites_visited

    @property
    def wants_text(self) -> bool:
        """Whether visits need the text of pages."""
        return self.config.topic is not None

    @property
    def wants_anchors(self) -> bool:
        """Whether visits need anchor texts."""
        return (
            self.store is not None
            or self.config.topic is not None
            or self.config.ordering.needs_anchors
        )

    def close(self) -> None:
        """Record what waits beyond the last visit, and close the store."""
        if self.store is None:
            return
        try:
            with self.store:
                if self._store_failed:
                    return
                if self._unsaved or len(self.pages) > self.store.n_pages:
                    self.store.record_pages(self.pages, requests=self._take_unsaved())
                self.store.note_end(time())
        except StoreError as error:
            logger.error("%s", error)

    def start_ordering(self) -> None:
        """Let visits be evidence from now on, those of the crawl that is gone on with included.

        Its pages are discovered and observed in the order in which they were, so that the frontier
        is as it was, or as another ordering would have it now. O(visits).
        """
        self.orders = True
        if not self.resumed or self.store is None:
            return
        self.seeds = dict.fromkeys(self.store.seeds())
        sites, host = self.pages.sites.tolist(), self.pages.host
        self._budgets.add_all(
            (site, host(site), url) for site, url in zip(sites, self.store.page_urls(), strict=True)
        )
        n_known = 0
        texts = self.config.topic is not None
        anchors = texts or self.config.ordering.needs_anchors
        for visit in self.store.visits(texts=texts, anchors=anchors):
            targets = visit.targets.tolist()
            n_pages = max(n_known, visit.page + 1, max(targets, default=NO_PAGE) + 1)
            n_before = n_known
            if n_pages > n_known and n_known not in targets:
                shown = set(targets)
                while n_known < n_pages and n_known not in shown:
                    n_known += 1
                self._start_again(range(n_before, n_known))
            n_known = n_pages
            if visit.page != NO_PAGE:
                self._count(visit)
                self.frontier.observe(visit, n_pages)
        self._start_again(range(n_known, len(self.pages)))
        self.n_visits_before = self.n_visits

    def _start_again(self, pages: range) -> None:
        """Let pages wait, in resuming, that no visit showed: seeds, and those of other requests."""
        if pages:
            started = np.array([page for page in pages if page in self.seeds], dtype=np.int32)
            self.frontier.observe(Visit(NO_PAGE, started), pages.stop)

    def saved_requests(self) -> Iterator[tuple[int, bytes]]:
        """Return the requests that waited when the crawl that is gone on with ended, by page."""
        return iter(()) if self.store is None else self.store.requests()

    def saved_request(self, page: int) -> bytes | None:
        """Return the first request that was saved for a page and is not done; None without one."""
        request = None if self.store is None else self.store.request(page)
        if request is None:
            return next((saved for of_page, saved in self._unsaved if of_page == page), None)
        return request

    def save_request(self, page: int, request: bytes) -> None:
        """Let a request be recorded with the next visit, the one whose callback yields it."""
        if self.store is not None and self.config.resumes:
            self._unsaved.append((page, request))

    def note_hand_out(self, page: int) -> None:
        """Record a request that is still to be recorded before its page is fetched.

        The visit of the page, which ends it, would else be recorded first.
        """
        if self.store is not None and any(of_page == page for of_page, _ in self._unsaved):
            self.store.record_pages(self.pages, requests=self._take_unsaved())

    def _take_unsaved(self) -> list[tuple[int, bytes]]:
        unsaved, self._unsaved = self._unsaved, []
        return unsaved

    def keep_site_state(self, site: int, pause: float, paused_until: float) -> None:
        """Let what the delay rules have learnt of a site last over a restart.

        Parameters
        ----------
        pause, paused_until
            seconds for which no fetch may start, and the Unix time at which they are over.
        """
        if self.store is not None and self.config.resumes:
            known = self.config.politeness
            self.store.keep_site_state(
                SiteState(
                    self.pages.host(site),
                    known.crawl_delay(site),
                    known.refusals(site),
                    pause,
                    paused_until,
                )
            )

    def restore_site_states(self) -> Iterator[tuple[int, tuple[float, float]]]:
        """Let the delay rules know what earlier runs have learnt; return the pauses, by site.

        A pause is its seconds and the Unix time of its end.
        """
        if self.store is None:
            return
        politeness = self.config.politeness
        for state in self.store.site_states():
            site = self._site(state.host)
            politeness.go_on(site, state.crawl_delay, state.refusals)
            yield site, (state.pause, state.paused_until)
        if politeness.adaptive:
            for site, fetched_at, elapsed in self.store.last_fetches():
                pause = min(politeness.adaptive * elapsed, politeness.max_adaptive)
                yield site, (pause, fetched_at + pause)

    def site_of(self, request: Request) -> int:
        """Return the site of a request: that of its download slot if it has one, or its host."""
        host = request.meta.get("download_slot") or urlparse_cached(request).hostname or ""
        return self._site(str(host))

    def page_of(self, request: Request) -> int:
        """Return the page that a request fetches, or `NO_PAGE` if it is not known."""
        return self.pages.find(self.identities.of_request(request))

    def add_page(self, request: Request) -> int:
        """Give the page of a request, which is not known yet, the next id."""
        depth = request.meta.get("depth", 0)
        url, site = without_credentials(request.url), self.site_of(request)
        self._budgets.add(site, self.pages.host(site), url)
        return self.pages.add(
            self.identities.of_request(request), url, site, depth if isinstance(depth, int) else 0
        )

    def is_full(self, request: Request) -> bool:
        """Whether the site of a request, its domain or its pattern, has all that it may have."""
        site = self.site_of(request)
        refusal = self._budgets.refuses(site, self.pages.host(site), request.url)
        if refusal:
            self._note_refusal(refusal)
        return bool(refusal)

    def find_or_add(self, urls: Iterable[str], depth: int) -> list[int]:
        """Return the pages that plain links mean, new ones with the next ids.

        A link to a site that has had all the pages it may have is `NO_PAGE`.
        """
        urls = list(urls)
        pages = self.pages
        found = pages.find_all(urls)
        if NO_PAGE not in found:
            return found
        identity, site_of, take, add = (
            self.identities.of_url,
            pages.site,
            self._budgets.take,
            pages.add,
        )
        added: dict[str, int] = {}
        for at, url in enumerate(urls):
            if found[at] != NO_PAGE:
                continue
            known_as = identity(url)
            page = added.get(known_as, NO_PAGE)
            if page == NO_PAGE and known_as != url:
                page = pages.find(known_as)
            if page == NO_PAGE:
                host = host_of(url)
                site = site_of(host)
                refusal = take(site, host, url)
                if refusal:
                    self._note_refusal(refusal)
                else:
                    page = added[known_as] = add(known_as, url, site, depth)
            found[at] = page
        return found

    def visit_of(self, page: int, pairs: LinkPairs) -> Visit:
        """Turn the links of a page into a visit: distinct pages in page order, not itself."""
        depth = 0 if page == NO_PAGE else int(self.pages.depths[page]) + 1
        found = self.find_or_add(pairs.targets, depth)
        if len(set(found)) == len(found) and page not in found and NO_PAGE not in found:
            targets, anchors, outside = found, pairs.anchors, pairs.outside
        else:
            first_seen: dict[int, int] = {}
            for at, target in enumerate(found):
                first_seen.setdefault(target, at)
            first_seen.pop(page, None)
            refused = first_seen.pop(NO_PAGE, None) is not None
            targets = list(first_seen)
            anchors = [pairs.anchors[at] for at in first_seen.values()] if pairs.anchors else []
            outside = list(pairs.outside)
            if refused:
                outside += [
                    (url, pairs.anchors[at] if pairs.anchors else "")
                    for at, url in enumerate(pairs.targets)
                    if found[at] == NO_PAGE
                ]
        return Visit(
            page=page,
            targets=np.array(targets, dtype=np.int32),
            anchors=anchors,
            outside=outside,
            status=pairs.status,
            title=pairs.title,
            text=pairs.text,
            content_hash=pairs.content_hash,
            n_bytes=pairs.n_bytes,
        )

    def seed(self, pages: Sequence[int]) -> None:
        """Let pages wait as seeds, in this order; those of a crawl gone on with wait already."""
        pages = [page for page in pages if page not in self.seeds]
        self.seeds |= dict.fromkeys(pages)
        if self.store is not None:
            self.store.record_pages(self.pages, pages, self._take_unsaved())
        if self.orders:
            self.frontier.observe(Visit(NO_PAGE, np.array(pages, dtype=np.int32)))

    def observe(self, visit: Visit, *, ends_request: bool = True, commits: bool = True) -> None:
        """Record a visit in the store, and let the ordering learn from it.

        Parameters
        ----------
        ends_request
            whether a request that was saved for its page is done with it.
        commits
            False leaves it in memory until `commit`.
        """
        if self.store is not None:
            self.store.record(
                visit, self.pages, self._take_unsaved(), ends_request=ends_request, commits=False
            )
            if commits:
                self.commit()
        self._count(visit)
        if self.orders:
            self.frontier.observe(visit)

    def commit(self) -> None:
        """Let all visits that were observed be on disk; StoreError if they cannot be."""
        if self.store is None:
            return
        try:
            self.store.commit()
        except StoreError:
            self._store_failed = True
            raise

    def _count(self, visit: Visit) -> None:
        """Note a visit for the figures of the crawl."""
        self._visited.append(visit.page)
        site = int(self.pages.sites[visit.page])
        if site >= len(self._sites_visited):
            self._sites_visited.extend(bytes(self.pages.n_sites - len(self._sites_visited)))
        self._n_sites_visited += not self._sites_visited[site]
        self._sites_visited[site] = 1
        self.n_links += len(visit.targets)
        if visit.status == 0 or visit.status >= 400:
            self.n_failed += 1
        elif visit.status < 300 and (
            not visit.content_hash or self._hashes.add(visit.content_hash, 0)
        ):
            self.n_unique += 1

    def fetched_urls(self) -> list[str]:
        """Return the URLs of all pages fetched, in order."""
        return self.pages.urls(self._visited)

    @property
    def seed_urls(self) -> list[str]:
        return self.pages.urls(self.seeds)

    def timed(self, visit: Visit, fetched_at: float, elapsed: float) -> Visit:
        """Return the visit with the time of its fetch."""
        return visit._replace(fetched_at=fetched_at, elapsed=elapsed)

    def site_pages(self, site: int) -> int:
        """Return how many pages of a site are known."""
        return self.pages.site_size(site)

    def _note_refusal(self, refusal: str) -> None:
        """Count that a budget had no room for a page."""
        self._stats.inc_value(f"crawlprio/refused/{refusal}")

    def _site(self, host: str) -> int:
        return self.pages.site(host)

    def _page_table(self) -> PageTable:
        """The pages known so far, their URLs in memory only where no store will have them."""
        if self.config.store_path is None:
            return PageTable()
        return StoredPages(self._stored_urls) if self.store is None else self.store.stored_pages()

    def _stored_urls(self, pages: Iterable[int]) -> list[UrlRow]:
        """URLs and identities of pages of a crawl that began with an empty store."""
        assert self.store is not None
        return self.store.read_urls(pages)

    def _existing_store(self) -> Store | None:
        """The store of the crawl to go on with, if there is one in the job directory."""
        path = self.config.store_path
        if path is None or not self.config.resumes or not path.exists():
            return None
        return None if discard_unfinished(path) else Store.open(path)

    def _new_store(self) -> Store | None:
        """A new store, beside one of its name that is kept."""
        path = self.config.store_path
        if path is None:
            return None
        if self.config.resumes:
            path.parent.mkdir(parents=True, exist_ok=True)
            return Store.create(path)
        try:
            keep_existing(path)
        except StoreInUse:
            return Store.create_numbered(path)
        return Store.create(path)


def refuse(crawler: Crawler, error: CrawlprioError) -> None:
    """Let a crawler have no job, for this reason, unless it has one."""
    _jobs.setdefault(crawler, error)


def failure_of(crawler: Crawler) -> CrawlprioError | None:
    """Return why the job of a crawler cannot be made, or None if it is there."""
    try:
        Job.of(crawler)
    except CrawlprioError as error:
        return error
    return None


def reads_visits(crawler: Crawler) -> bool:
    """Return whether `LinksMiddleware` is in use, which records what callbacks yield."""
    middleware = load_object("crawlprio.middlewares.LinksMiddleware")
    return crawler.get_spider_middleware(middleware) is not None
