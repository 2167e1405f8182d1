"""The Scrapy scheduler that orders a crawl by importance."""

from __future__ import annotations

import gc
import logging
import os
from collections.abc import Sequence
from pathlib import Path
from time import monotonic

from scrapy import Request, Spider
from scrapy.core.scheduler import BaseScheduler
from scrapy.crawler import Crawler
from scrapy.dupefilters import BaseDupeFilter, RFPDupeFilter
from scrapy.utils.misc import build_from_crawler, load_object

from crawlprio.errors import CrawlprioError
from crawlprio.frontier.protocol import Frontier
from crawlprio.live.crawl_context import CrawlComponent
from crawlprio.live.dispatch import Dispatcher
from crawlprio.settings_table.config import read_setting

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


logger = logging.getLogger("crawlprio")


class SeenRequests(RFPDupeFilter):
    """The dupefilter that extensions find on the scheduler: it has seen what the frontier knows.

    Requests that an extension lets it see are duplicates from then on, as with Scrapy's scheduler.
    """

    def __init__(self, dispatcher: Dispatcher, crawler: Crawler) -> None:
        is_debug = read_setting(crawler.settings, "DUPEFILTER_DEBUG")
        super().__init__(None, is_debug, fingerprinter=crawler.request_fingerprinter)
        self._dispatcher = dispatcher
        self._was_asked = False

    def request_seen(self, request: Request) -> bool:
        self._was_asked = True
        return self._dispatcher.is_known(request) or super().request_seen(request)

    def was_shown(self, request: Request) -> bool:
        """Return whether an extension has let this see a request, which is now queued."""
        return self._was_asked and super().request_seen(request)


class Scheduler(CrawlComponent, BaseScheduler):
    """Hands out the most important waiting page of the sites that are ready.

    Set it as `SCHEDULER`; the add-on does. Without the add-on it brings the middlewares that it
    needs (`crawlprio.live.crawl_context.MIDDLEWARES`). Requests are ordered by `request.priority`,
    then hot before not hot, then by the key that ORDERING computes, then by discovery. Duplicates,
    as the project's request fingerprinter identifies them, are dropped unless `dont_filter` is set.
    A project's own `DUPEFILTER_CLASS` is asked too.

    Notes
    -----
    Every call costs O(log n) in pages and sites. `next_request` returns None while no site is
    ready, and wakes the engine as soon as one is.
    """

    def __init__(self, crawler: Crawler) -> None:
        super().__init__(crawler)
        self._spider: Spider | None = None
        self._n_links_counted = 0
        # The disk queue, which Scrapy's telnet console asks for; there is none.
        self.dqs: None = None
        self._own_dupefilter: BaseDupeFilter | None = None
        self.df: BaseDupeFilter | None = None
        self._tunes_gc = False

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
            crawl.config  # noqa: B018 - read now
        except CrawlprioError as error:
            crawl.refuse(error)
        if crawl.failure is not None:
            return
        if read_setting(self._crawler.settings, "CRAWLPRIO_TUNE_GC"):
            crawl_begins()
            self._tunes_gc = True
        crawl.open_frontier(self.make_frontier)
        if crawl.failure is not None:
            return
        self._warn_not_resumed()
        self._open_dupefilter()

    def make_frontier(self) -> Frontier:
        """Return the frontier of the crawl: one in this process, and what it needs."""
        return self._crawl.make_local_frontier()

    def close(self, reason: str) -> None:
        if self._tunes_gc:
            crawl_ends()
            self._tunes_gc = False
        if self.dispatcher is not None:
            self.dispatcher.close()
        if self.df is not None:
            self.df.close(reason)

    def __len__(self) -> int:
        """The number of waiting requests, without those handed out, as in Scrapy's scheduler."""
        return 0 if self.dispatcher is None else len(self.dispatcher.frontier)

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
        elif not repeats and isinstance(self.df, SeenRequests) and self.df.was_shown(request):
            dispatcher.drop(request)
            return self._is_duplicate(request)
        n_in_memory = self._crawler.stats.get_value("scheduler/unserializable", 0)
        if not dispatcher.enqueue(request, repeats=repeats):
            return self._is_duplicate(request)
        n_now = self._crawler.stats.get_value("scheduler/unserializable", 0)
        self._count_enqueued(1, in_memory=n_now > n_in_memory)
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
            lease = self.dispatcher.leases.of(request)
            in_memory = lease is not None and isinstance(lease.leased_page.request, Request)
            self._count("dequeued", 1, in_memory=in_memory)
        return request

    def get_next_request_delay(self) -> float:
        """Return the seconds until a page can be handed out; inf if a site must be freed first.

        Scrapy's engine is to ask this instead of waking every five seconds (pull request 6931).
        """
        if self._crawl.frontier is None:
            return float("inf")
        return max(self._crawl.frontier.ready_at() - monotonic(), 0.0)

    def _open_dupefilter(self) -> None:
        """Open the project's dupefilter; instead of Scrapy's own, the frontier is asked."""
        dupefilter = self.dupefilter_class()
        if dupefilter is RFPDupeFilter:
            assert self.dispatcher is not None
            self.df = SeenRequests(self.dispatcher, self._crawler)
        else:
            self.df = self._own_dupefilter = build_from_crawler(dupefilter, self._crawler)
        self.df.open()

    def dupefilter_class(self) -> type[BaseDupeFilter]:
        """Return the class of the dupefilter to ask; Scrapy's own stands for none."""
        cls = load_object(read_setting(self._crawler.settings, "DUPEFILTER_CLASS"))
        assert isinstance(cls, type)
        return cls

    def _is_duplicate(self, request: Request) -> bool:
        """Log and count a duplicate, as Scrapy does; always False."""
        if self.df is not None and self._spider is not None:
            self.df.log(request, self._spider)
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
        elif not recorder.resumes and os.path.exists(Path(folder, "requests.queue")):
            logger.warning(
                "JOBDIR %s holds the requests of a crawl with Scrapy's own scheduler, which "
                "crawlprio cannot read; they are left untouched, and this crawl starts from its "
                "seeds.",
                folder,
            )

    def _count_enqueued(self, n_requests: int, *, in_memory: bool = False) -> None:
        """Update the stats of Scrapy's scheduler with requests, and with links added in bulk."""
        n_links = 0 if self._crawl.frontier is None else self._crawl.frontier.n_links
        n_new = n_requests + n_links - self._n_links_counted
        self._n_links_counted = n_links
        if n_new > 0:
            self._count("enqueued", n_new, in_memory=in_memory)

    def _count(self, what: str, n_requests: int, *, in_memory: bool) -> None:
        """Count requests that Scrapy's scheduler would have put on disk, or kept in memory."""
        frontier = self._crawl.frontier
        on_disk = frontier is not None and frontier.carries_json_only and not in_memory
        self._crawler.stats.inc_value(
            f"scheduler/{what}/{'disk' if on_disk else 'memory'}", n_requests
        )
        self._crawler.stats.inc_value(f"scheduler/{what}", n_requests)
