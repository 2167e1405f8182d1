"""One crawl: what its scheduler, middlewares and pipeline share; made once, from the settings.

It holds the page table, the frontier and the crawl store, and turns URLs into page ids for them.
"""

from __future__ import annotations

import dataclasses
import logging
from array import array
from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING
from weakref import WeakKeyDictionary

import numpy as np
from scrapy.utils.httpobj import urlparse_cached

from crawlprio.config import CrawlConfig
from crawlprio.errors import CrawlprioError, StoreError
from crawlprio.extraction import host_of
from crawlprio.frontier import Frontier
from crawlprio.identity import Identities
from crawlprio.items import LinkPairs
from crawlprio.pages import NO_PAGE, PageTable, Visit
from crawlprio.store import Store, StoreInUse, keep_existing
from crawlprio.virtual import VirtualWeb

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
    """

    def __init__(self, crawler: Crawler, ordering: str | None = None) -> None:
        self.config = CrawlConfig.from_settings(crawler.settings, ordering)
        self.identities = Identities(crawler)
        self.store = self._existing_store()
        self.resumed = self.store is not None and self.store.n_pages > 0
        self.pages = self.store.load_pages() if self.store is not None else PageTable()
        self.orders = False
        self.seeds: dict[int, None] = {}
        self.n_visits_before = 0
        self.n_failed = 0
        self.n_unique = 0
        self.n_links = 0
        self._visited = array("i")
        self._sites_visited: set[int] = set()
        self._hashes: set[int] = set()
        self._site_pages: dict[int, int] = {}
        virtual = VirtualWeb.of(crawler)
        self.frontier = Frontier(
            self.config.ordering,
            self.pages,
            limit=self.config.limit,
            delay=self.config.politeness.delay,
            pages_per_visit=self.config.pages_per_visit,
            hot_queue=self.config.hot_queue(),
            truth=None if virtual is None else lambda page: virtual.rank(self.pages.url(page)),
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
        return len(self._sites_visited)

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
            is_behind = self._unsaved or len(self.pages) > self.store.n_pages
            if is_behind and not self._store_failed:
                self.store.record_pages(self.pages, requests=self._take_unsaved())
        except StoreError as error:
            logger.error("%s", error)
        self.store.close()

    def start_ordering(self) -> None:
        """Let visits be evidence from now on, those of the crawl that is gone on with included.

        Its pages are discovered and observed in the order in which they were, so that the frontier
        is as it was, or as another ordering would have it now. O(visits).
        """
        self.orders = True
        if not self.resumed or self.store is None:
            return
        self.seeds = dict.fromkeys(self.store.seeds())
        for site, n_pages in enumerate(np.bincount(self.pages.sites).tolist()):
            self._site_pages[site] = n_pages
        n_known = 0
        for visit in self.store.visits():
            targets = set(visit.targets.tolist())
            n_before = n_known
            n_pages = max(n_known, visit.page + 1, *(target + 1 for target in targets))
            while n_known < n_pages and n_known not in targets:
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

    def save_request(self, page: int, request: bytes) -> None:
        """Let a request be recorded with the next visit, the one whose callback yields it."""
        if self.store is not None and self.config.resumes:
            self._unsaved.append((page, request))

    def _take_unsaved(self) -> list[tuple[int, bytes]]:
        unsaved, self._unsaved = self._unsaved, []
        return unsaved

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
        return self._add(
            self.identities.of_request(request),
            request.url,
            self.site_of(request),
            depth if isinstance(depth, int) else 0,
        )

    def is_full(self, request: Request) -> bool:
        """Whether the site of a request has all the pages that it may have."""
        budget = self.config.max_pages_per_site
        return budget is not None and self.site_pages(self.site_of(request)) >= budget

    def find_or_add(self, urls: Iterable[str], depth: int) -> list[int]:
        """Return the pages that plain links mean, new ones with the next ids.

        A link to a site that has had all the pages it may have is `NO_PAGE`.
        """
        find, identity = self.pages.find, self.identities.of_url
        budget = self.config.max_pages_per_site
        found = []
        for url in urls:
            page = find(url)
            if page == NO_PAGE:
                known_as = identity(url)
                page = find(known_as)
                if page == NO_PAGE:
                    site = self._site(host_of(url))
                    if budget is None or self._site_pages.get(site, 0) < budget:
                        page = self._add(known_as, url, site, depth)
            found.append(page)
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

    def observe(self, visit: Visit) -> None:
        """Record a visit in the store, then let the ordering learn from it."""
        self._count(visit)
        if self.store is not None:
            try:
                self.store.record(visit, self.pages, self._take_unsaved())
            except StoreError:
                self._store_failed = True
                raise
        if self.orders:
            self.frontier.observe(visit)

    def _count(self, visit: Visit) -> None:
        """Note a visit for the figures of the crawl."""
        self._visited.append(visit.page)
        self._sites_visited.add(int(self.pages.sites[visit.page]))
        self.n_links += len(visit.targets)
        if visit.status == 0 or visit.status >= 400:
            self.n_failed += 1
        elif visit.status < 300 and (
            not visit.content_hash or visit.content_hash not in self._hashes
        ):
            self._hashes.add(visit.content_hash)
            self.n_unique += 1

    def fetched_urls(self) -> list[str]:
        """Return the URLs of all pages fetched, in order."""
        return self.pages.urls(self._visited)

    @property
    def seed_urls(self) -> list[str]:
        return self.pages.urls(self.seeds)

    def timed(self, visit: Visit, fetched_at: float, elapsed: float) -> Visit:
        """Return the visit with the time of its fetch."""
        return dataclasses.replace(visit, fetched_at=fetched_at, elapsed=elapsed)

    def site_pages(self, site: int) -> int:
        """Return how many pages of a site are known."""
        return self._site_pages.get(site, 0)

    def _add(self, identity: str, url: str, site: int, depth: int) -> int:
        self._site_pages[site] = self._site_pages.get(site, 0) + 1
        return self.pages.add(identity, url, site, depth)

    def _site(self, host: str) -> int:
        return self.pages.site(host)

    def _existing_store(self) -> Store | None:
        """The store of the crawl to go on with, if there is one in the job directory."""
        path = self.config.store_path
        return Store.open(path) if path and self.config.resumes and path.exists() else None

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
