"""The Scrapy scheduler that orders a crawl by importance."""

from __future__ import annotations

import gc
import logging
from collections.abc import Callable, Sequence
from pathlib import Path
from time import monotonic
from typing import TYPE_CHECKING

from scrapy import Request
from scrapy.core.scheduler import BaseScheduler
from scrapy.dupefilters import BaseDupeFilter, RFPDupeFilter
from scrapy.utils.misc import build_from_crawler, load_object

from crawlprio.errors import CrawlprioError
from crawlprio.frontier.protocol import Frontier
from crawlprio.live.compiling import compile_crawl, compile_usual
from crawlprio.live.dispatch import Dispatcher
from crawlprio.live.running import RunningCrawl
from crawlprio.orderings.base import Ordering
from crawlprio.settings_table.config import read_setting

if TYPE_CHECKING:
    from scrapy import Spider
    from scrapy.crawler import Crawler


NEW_OBJECTS = 10_000
"""Number of new objects that triggers a garbage collection while a crawl runs."""

_threshold = gc.get_threshold()
_n_crawls = 0


def crawl_begins() -> None:
    """Freeze the objects that exist now, and collect new ones less often.

    A full collection over everything loaded would block the event loop for a tenth of a second,
    every few seconds. Each page also leaves some cycles behind: at Python's default threshold of
    700 objects every other page triggers a collection, which takes 4 % of the time per page.
    """
    global _n_crawls, _threshold
    gc.collect()
    gc.freeze()
    if _n_crawls == 0:
        _threshold = gc.get_threshold()
        if 0 < _threshold[0] < NEW_OBJECTS:
            gc.set_threshold(NEW_OBJECTS, *_threshold[1:])
    _n_crawls += 1


def crawl_ends() -> None:
    """Restore the collector's settings once the last crawl has ended."""
    global _n_crawls
    _n_crawls -= 1
    if _n_crawls == 0:
        gc.set_threshold(*_threshold)
        gc.unfreeze()


logger = logging.getLogger(__name__)


class Scheduler(BaseScheduler):
    """Hands out the most important waiting page of the sites that are ready.

    Set it as `SCHEDULER`; the add-on does. Requests are ordered by `request.priority`, then hot
    before not hot, then by the key that ORDERING computes, then by discovery. Duplicates, as the
    project's request fingerprinter identifies them, are dropped unless `dont_filter` is set. A
    project's own `DUPEFILTER_CLASS` is asked too.

    Notes
    -----
    Every call costs O(log n) in pages and sites. `next_request` returns None while no site is
    ready, and wakes the engine as soon as one is.
    """

    def __init__(self, crawler: Crawler) -> None:
        self._crawler = crawler
        self._crawl = RunningCrawl.of(crawler)
        self._spider: Spider | None = None
        self._n_links_counted = 0
        # The disk queue, which Scrapy's telnet console asks for; there is none.
        self.dqs: None = None
        self._own_dupefilter: BaseDupeFilter | None = None
        self._duplicates: BaseDupeFilter | None = None
        self._tunes_gc = False

    @classmethod
    def from_crawler(cls, crawler: Crawler) -> Scheduler:
        return cls(crawler)

    @property
    def dispatcher(self) -> Dispatcher | None:
        """The dispatcher of the crawl; None before the crawl has started."""
        return self._crawl.dispatcher

    @property
    def mqs(self) -> Scheduler:
        """The memory queue, which Scrapy's telnet console asks for."""
        return self

    def open(self, spider: Spider) -> None:
        """Open the frontier. An invalid setting is reported once the spider is opened."""
        crawl = self._crawl
        self._spider = spider
        try:
            ordering = crawl.config.ordering
        except CrawlprioError as error:
            crawl.refuse(error)
        if crawl.failure is not None:
            return
        self._compile(ordering)
        if read_setting(self._crawler.settings, "CRAWLPRIO_TUNE_GC"):
            crawl_begins()
            self._tunes_gc = True
        crawl.open_frontier(make=self.make_frontier)
        if crawl.failure is not None:
            return
        self._warn_not_resumed()
        self._open_dupefilter()

    def _compile(self, ordering: Ordering) -> None:
        """Compile what the first pages would otherwise wait for."""
        compiles = read_setting(self._crawler.settings, "CRAWLPRIO_COMPILE")
        if ordering.needs_compiled or compiles:
            compile_crawl(ordering)
        if compiles:
            compile_usual()

    make_frontier: Callable[[RunningCrawl], Frontier] | None = None
    """Creates the frontier of a crawl; a subclass that keeps it elsewhere defines a method."""

    def close(self, reason: str) -> None:
        if self._tunes_gc:
            crawl_ends()
            self._tunes_gc = False
        if self.dispatcher is not None:
            self.dispatcher.close()
        if self._duplicates is not None:
            self._duplicates.close(reason)

    def __len__(self) -> int:
        """The number of waiting requests, without those handed out, as in Scrapy's scheduler."""
        return 0 if self.dispatcher is None else self.dispatcher.n_waiting

    def has_pending_requests(self) -> bool:
        """Return whether any request is waiting or leased; if not, the spider is idle."""
        return self.dispatcher is not None and len(self.dispatcher) > 0

    def enqueue_request(self, request: Request) -> bool:
        """Queue a request; return False if it is a duplicate, which is dropped."""
        dispatcher, repeats = self._crawl.dispatcher, request.dont_filter
        if dispatcher is None:
            return False
        if self._own_dupefilter is not None and not repeats:
            if self._own_dupefilter.request_seen(request):
                dispatcher.drop(request)
                return self._is_duplicate(request)
            repeats = True
        if not dispatcher.enqueue(request, repeats=repeats):
            return self._is_duplicate(request)
        self._count_enqueued(1)
        return True

    def add_seeds(self, urls: Sequence[str]) -> None:
        """Queue URLs as seeds in one batch, in this order; duplicates count once."""
        self._crawl.add_seeds(urls)
        self._count_enqueued(0)

    def next_request(self) -> Request | None:
        """Return the request to fetch next, or None; the engine is woken when one is ready."""
        if self.dispatcher is None or self._crawl.awaits_seeds:
            return None
        request = self.dispatcher.next_request()
        self._count_enqueued(0)
        if request is not None:
            self._crawler.stats.inc_value("scheduler/dequeued/memory")
            self._crawler.stats.inc_value("scheduler/dequeued")
        return request

    def get_next_request_delay(self) -> float:
        """Return the seconds until a page can be handed out; inf if a site must be freed first.

        Scrapy's engine is to ask this instead of waking every five seconds (pull request 6931).
        """
        if self._crawl.frontier is None:
            return float("inf")
        return max(self._crawl.frontier.ready_at() - monotonic(), 0.0)

    def _open_dupefilter(self) -> None:
        """Open the project's dupefilter; Scrapy's own is used only to log duplicates."""
        settings = self._crawler.settings
        dupefilter = self.dupefilter_class()
        if dupefilter is RFPDupeFilter:
            self._duplicates = RFPDupeFilter(
                None,
                read_setting(settings, "DUPEFILTER_DEBUG"),
                fingerprinter=self._crawler.request_fingerprinter,
            )
        else:
            self._duplicates = build_from_crawler(dupefilter, self._crawler)
            self._own_dupefilter = self._duplicates
        self._duplicates.open()

    def dupefilter_class(self) -> type[BaseDupeFilter]:
        """Return the class of the dupefilter to ask; Scrapy's own stands for none."""
        cls = load_object(read_setting(self._crawler.settings, "DUPEFILTER_CLASS"))
        assert isinstance(cls, type)
        return cls

    def _is_duplicate(self, request: Request) -> bool:
        """Log and count a duplicate, as Scrapy does; always False."""
        if self._duplicates is not None and self._spider is not None:
            self._duplicates.log(request, self._spider)
        return False

    def _warn_not_resumed(self) -> None:
        """Warn about a job directory that holds, or will hold, nothing to resume from."""
        folder = read_setting(self._crawler.settings, "JOBDIR")
        if folder is None:
            return
        recorder = self._crawl.recorder
        if recorder.store is None:
            logger.warning(
                "JOBDIR is %s, but CRAWLPRIO_STORE is None: nothing is recorded, and this crawl "
                "cannot be resumed; leave CRAWLPRIO_STORE unset.",
                folder,
            )
        elif not recorder.resumes and Path(folder, "requests.queue").exists():
            logger.warning(
                "JOBDIR %s holds the requests of a crawl with Scrapy's own scheduler, which "
                "crawlprio cannot read; they are left untouched, and this crawl starts from its "
                "seeds.",
                folder,
            )

    def _count_enqueued(self, n_requests: int) -> None:
        """Update the stats of Scrapy's scheduler with requests, and with links added in bulk."""
        n_links = 0 if self._crawl.frontier is None else self._crawl.frontier.n_links
        n_new = n_requests + n_links - self._n_links_counted
        self._n_links_counted = n_links
        if n_new > 0:
            self._crawler.stats.inc_value("scheduler/enqueued/memory", n_new)
            self._crawler.stats.inc_value("scheduler/enqueued", n_new)
