"""The Scrapy scheduler that orders a crawl by importance.

All it knows itself is Scrapy's interface.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence
from pathlib import Path
from time import monotonic
from typing import TYPE_CHECKING

from scrapy import Request, signals
from scrapy.core.scheduler import BaseScheduler
from scrapy.utils.misc import build_from_crawler, load_object

from crawlprio.config import read_setting
from crawlprio.errors import ConfigError, CrawlprioError
from crawlprio.live import engine, garbage
from crawlprio.live.compiling import compile_frontier, saying_that_it_compiles
from crawlprio.live.dispatch import Dispatcher
from crawlprio.live.job import Job, failure_of, reads_visits
from crawlprio.orderings.combined import Combined
from crawlprio.orderings.pagerank import PartialPageRank
from crawlprio.pages import NO_PAGE

if TYPE_CHECKING:
    from scrapy import Spider
    from scrapy.crawler import Crawler
    from scrapy.dupefilters import BaseDupeFilter

logger = logging.getLogger(__name__)

_STOCK_DUPEFILTER = "scrapy.dupefilters.RFPDupeFilter"


class Scheduler(BaseScheduler):
    """Hands out the most important waiting page of the sites whose time has come.

    Set it as `SCHEDULER`; the add-on does. Requests leave by `request.priority`, then hot before
    not hot, then the key that ORDERING gives, then order of discovery. Duplicates are dropped
    unless `dont_filter` is set, by the project's request fingerprinter; a `DUPEFILTER_CLASS` of
    one's own is asked too.

    Notes
    -----
    Every call costs O(log n) in pages and sites. `next_request` returns None while no site is ready
    and wakes the engine itself at the moment that one is.
    """

    def __init__(self, crawler: Crawler) -> None:
        self._crawler = crawler
        self._n_links_counted = 0
        crawler.signals.connect(self._spider_opened, signal=signals.spider_opened)
        self._dispatcher: Dispatcher | None = None
        self._failure: CrawlprioError | None = None
        self._dupefilter: BaseDupeFilter | None = None
        self._tunes_gc = False

    @classmethod
    def from_crawler(cls, crawler: Crawler) -> Scheduler:
        return cls(crawler)

    @property
    def dispatcher(self) -> Dispatcher | None:
        """What keeps requests and leases; None before the crawl has started."""
        return self._dispatcher

    @property
    def mqs(self) -> Scheduler:
        """What waits in memory, as Scrapy's telnet console asks for it."""
        return self

    @property
    def dqs(self) -> None:
        """What waits on disk: nothing."""
        return None

    def open(self, spider: Spider) -> None:
        """Make the frontier ready. A bad setting is reported once the spider is opened."""
        if failure_of(self._crawler) is not None:
            return
        ordering = Job.of(self._crawler).config.ordering
        with saying_that_it_compiles():
            compile_frontier(with_ranks=isinstance(ordering, (PartialPageRank, Combined)))
        if read_setting(self._crawler.settings, "CRAWLPRIO_TUNE_GC"):
            garbage.crawl_begins()
            self._tunes_gc = True
        try:
            self._dispatcher = Dispatcher(self._crawler, Job.of(self._crawler))
        except CrawlprioError as error:
            # Raised when the spider is opened: Scrapy fails to close what it has not opened.
            self._failure = error
            return
        self._warn_of_what_is_not_gone_on_with()
        dupefilter = load_object(read_setting(self._crawler.settings, "DUPEFILTER_CLASS"))
        if dupefilter is not load_object(_STOCK_DUPEFILTER):
            self._dupefilter = build_from_crawler(dupefilter, self._crawler)
            self._dupefilter.open()

    def close(self, reason: str) -> None:
        if self._tunes_gc:
            garbage.crawl_ends()
            self._tunes_gc = False
        if self._dispatcher is not None:
            self._dispatcher.close()
        if self._dupefilter is not None:
            self._dupefilter.close(reason)

    def __len__(self) -> int:
        """Requests that wait; as for Scrapy's scheduler, those handed out do not count."""
        return 0 if self._dispatcher is None else self._dispatcher.n_waiting

    def has_pending_requests(self) -> bool:
        """Whether anything waits, is held back or is not done yet; the spider is idle if not."""
        return self._dispatcher is not None and len(self._dispatcher) > 0

    def enqueue_request(self, request: Request) -> bool:
        """Let the page of a request wait; return False if it is a duplicate, which is dropped."""
        if self._dispatcher is None:
            return False
        again = request.dont_filter
        is_seen = False
        if self._dupefilter is not None and not again:
            is_seen = self._dupefilter.request_seen(request)
            again = not is_seen
        if is_seen:
            self._dispatcher.note_scheduled(request)
        n_waiting = self._dispatcher.n_waiting
        kept = not is_seen and self._dispatcher.enqueue(request, again=again)
        if not kept:
            self._crawler.stats.inc_value("dupefilter/filtered")
        self._count_enqueued(self._dispatcher.n_waiting - n_waiting)
        return kept

    def add_seeds(self, urls: Sequence[str]) -> None:
        """Let plain pages wait as seeds, all at once and in this order; duplicates count once."""
        if self._dispatcher is None:
            return
        n_waiting = len(self)
        job = Job.of(self._crawler)
        try:
            pages = [page for page in job.find_or_add(urls, 0) if page != NO_PAGE]
            job.seed(list(dict.fromkeys(pages)))
        except CrawlprioError as error:
            engine.stop_crawl(self._crawler, error)
        self._count_enqueued(len(self) - n_waiting)

    def redirected_seeds(self) -> list[str]:
        """Return where seeds of the crawl that is gone on with redirected to."""
        job = Job.of(self._crawler)
        return job.store.redirected_seeds() if job.resumed and job.store is not None else []

    def next_request(self) -> Request | None:
        """Return the request to fetch next, or None; the engine is woken when one is ready."""
        if self._dispatcher is None:
            return None
        request = self._dispatcher.next_request()
        self._count_enqueued(0)
        if request is not None:
            self._crawler.stats.inc_value("scheduler/dequeued/memory")
            self._crawler.stats.inc_value("scheduler/dequeued")
        return request

    def _warn_of_what_is_not_gone_on_with(self) -> None:
        """Say what a job directory holds, or lacks, so that the crawl starts anew."""
        folder = read_setting(self._crawler.settings, "JOBDIR")
        if folder is None:
            return
        job = Job.of(self._crawler)
        if job.store is None:
            logger.warning(
                "JOBDIR is %s, but CRAWLPRIO_STORE is None: nothing is recorded, and this crawl "
                "cannot be gone on with; leave CRAWLPRIO_STORE as it is.",
                folder,
            )
        elif not job.resumed and Path(folder, "requests.queue").exists():
            logger.warning(
                "JOBDIR %s holds the requests of a crawl with Scrapy's own scheduler, which are "
                "not read; they are left as they are, and this crawl starts anew.",
                folder,
            )

    def _count_enqueued(self, n_requests: int) -> None:
        """Keep the stats of Scrapy's scheduler: requests, and links that have come in bulk."""
        assert self._dispatcher is not None
        n_links = self._dispatcher.n_links_enqueued
        n_new = n_requests + n_links - self._n_links_counted
        self._n_links_counted = n_links
        if n_new > 0:
            self._crawler.stats.inc_value("scheduler/enqueued/memory", n_new)
            self._crawler.stats.inc_value("scheduler/enqueued", n_new)

    def _spider_opened(self) -> None:
        failure = failure_of(self._crawler) or self._failure
        if failure is None and not reads_visits(self._crawler):
            failure = ConfigError(
                "SCHEDULER is crawlprio's, which learns of links from its LinksMiddleware; set "
                "ADDONS = {'crawlprio.Addon': 500}, or list it in SPIDER_MIDDLEWARES."
            )
        if failure is not None:
            raise engine.refuse_to_start(self._crawler, failure)

    def get_next_request_delay(self) -> float:
        """Return the seconds until a page can be handed out; inf if that takes a release."""
        if self._dispatcher is None:
            return float("inf")
        return max(Job.of(self._crawler).frontier.ready_at() - monotonic(), 0.0)
