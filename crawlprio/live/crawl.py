"""One crawl and its life: who makes its parts, hands them out, and closes them."""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import cached_property, partial
from pathlib import Path
from typing import TYPE_CHECKING
from weakref import WeakKeyDictionary

from scrapy import Request, signals
from scrapy.utils.asyncio import call_later

from crawlprio.compiled import plain_until
from crawlprio.compiled.notices import say
from crawlprio.config import CrawlConfig, read_setting
from crawlprio.errors import ConfigError, CrawlprioError
from crawlprio.frontier import CompiledFrontier, SiteClock
from crawlprio.frontier.protocol import FetchClock, Frontier
from crawlprio.live import engine
from crawlprio.live.dispatch import Dispatcher
from crawlprio.live.host_clock import HostClock
from crawlprio.live.identity import Identities
from crawlprio.live.items import ItemKeeper
from crawlprio.live.local_frontier import LocalFrontier
from crawlprio.live.recorder import Recorder
from crawlprio.live.request_json import from_json
from crawlprio.orderings.base import Ordering
from crawlprio.web.addresses import PrivateAddresses

if TYPE_CHECKING:
    from scrapy.crawler import Crawler

    from crawlprio.live.virtual import VirtualWeb

logger = logging.getLogger("crawlprio")

_KEY = "_crawlprio_crawl"

OWN_REQUEST = "crawlprio_own"
"""The key in `meta` of a request to a private address that no page led to."""


class Crawl:
    """The crawl of one crawler; every component gets the same one from `Crawl.of(crawler)`.

    It exists from the first component on and opens nothing before the crawl starts. What it has
    opened it closes when the spider is closed or the engine stops, under every scheduler, after a
    refusal and after a failure too.

    Attributes
    ----------
    web
        the web that is served on loopback for this crawl; None if it crawls the real one.
    failure
        why the crawl cannot start or go on; None while all is well.
    frontier, dispatcher
        where pages wait, and what hands them out; None under a scheduler that is not crawlprio's.
    """

    def __init__(self, crawler: Crawler) -> None:
        self._crawler = crawler
        self.yielded: WeakKeyDictionary[Request, list[Request]] = WeakKeyDictionary()
        """By request, the requests that its callback yielded before a middleware dropped any."""
        self._ordering: str | None = None
        self._recorder: Recorder | None = None
        self._before_close: list[Callable[[str], object]] = []
        self._needs_links = False
        self._is_recorded_elsewhere = False
        self._is_told = False
        self._is_closed = False
        self._is_covered = False
        self.web: VirtualWeb | None = None
        self.failure: CrawlprioError | None = None
        self.frontier: Frontier | None = None
        self.dispatcher: Dispatcher | None = None
        self._items: ItemKeeper | None = None
        connect = crawler.signals.connect
        connect(self._spider_opened, signal=signals.spider_opened)
        connect(self._spider_closed, signal=signals.spider_closed)
        connect(self._engine_stopped, signal=signals.engine_stopped)

    @classmethod
    def of(cls, crawler: Crawler) -> Crawl:
        """Return the crawl of a crawler, which is made at the first call."""
        found = vars(crawler).get(_KEY)
        if not isinstance(found, Crawl):
            found = vars(crawler)[_KEY] = cls(crawler)
        return found

    # Parts

    @cached_property
    def config(self) -> CrawlConfig:
        """The settings, checked; ConfigError for the first bad one."""
        return CrawlConfig.from_settings(
            self._crawler.settings, self._ordering, records=not engine.is_inspection()
        )

    @cached_property
    def addresses(self) -> PrivateAddresses:
        """Which private addresses may be fetched from; ConfigError for a bad setting.

        All may in a virtual crawl, which opens no connection but to loopback, and where a person
        asks for each page (`scrapy shell`, `fetch` and the like).
        """
        is_free = self.web is not None or engine.is_inspection()
        # Not from `config`: a spider asks before all settings are final.
        settings = self._crawler.settings
        mode = read_setting(settings, "CRAWLPRIO_PRIVATE_ADDRESSES")
        granted = read_setting(settings, "CRAWLPRIO_PRIVATE_NETWORKS")
        return PrivateAddresses("allow" if is_free else mode, granted or ())

    @cached_property
    def identities(self) -> Identities:
        """When two requests are the same page."""
        return Identities(self._crawler)

    @property
    def recorder(self) -> Recorder:
        """The pages of the crawl and its store; available once it has started."""
        assert self._recorder is not None, "the crawl has not started"
        return self._recorder

    @cached_property
    def clock(self) -> FetchClock:
        """When sites may be fetched from."""
        if self.frontier is not None:
            return self.frontier.clock
        pages, politeness = self.recorder.pages, self.config.politeness
        idle = CompiledFrontier(
            Ordering(),
            pages,
            limit=self.config.limit,
            delay=politeness.delay,
            plain_until=plain_until(),
        )
        clock = HostClock(SiteClock(politeness, idle, pages.site_size), self.recorder, self.fail)
        if self.recorder.resumes:
            clock.restore()
        return clock

    @property
    def is_running(self) -> bool:
        """Whether the parts are open and nothing has failed."""
        return self._recorder is not None and self.failure is None and not self._is_closed

    @property
    def wants_text(self) -> bool:
        """Whether visits need the text of pages."""
        return self.config.topic is not None

    @property
    def wants_anchors(self) -> bool:
        """Whether visits need anchor texts."""
        return (
            self.recorder.store is not None
            or self._is_recorded_elsewhere
            or self.config.topic is not None
            or self.config.ordering.needs_anchors
        )

    # Life

    def record_elsewhere(self) -> None:
        """Make no crawl store in this process, as the frontier records; before `open_frontier`."""
        self._is_recorded_elsewhere = self.config.store_path is not None
        self.config = replace(self.config, store_path=None, resumes=False)

    def serve(self, recording: Path | None) -> VirtualWeb:
        """Serve a recording, or the demo web, and send all requests of the crawl there.

        To be called while the crawler's settings can still be changed.
        """
        from crawlprio.live.virtual import VirtualWeb

        self.web = VirtualWeb.start(self._crawler, recording)
        return self.web

    def on_close(self, callback: Callable[[str], object]) -> None:
        """Call back, with Scrapy's reason, when the crawl ends and its parts are still open."""
        self._before_close.append(callback)

    def refuse(self, error: CrawlprioError) -> None:
        """Refuse to start, unless there is a reason not to already."""
        self.failure = self.failure or error

    def fail(self, error: CrawlprioError) -> None:
        """End the crawl: log why, close the spider, and let the command exit with an error."""
        self.refuse(error)
        if self._tell():
            engine.close_spider(self._crawler)

    def open_frontier(
        self,
        ordering: str | None = None,
        *,
        needs_links: bool = True,
        make: Callable[[Crawl], Frontier] | None = None,
    ) -> None:
        """Open the store, the frontier and the dispatcher; called by the scheduler.

        An error is kept as `failure`, which ends the crawl once the spider is opened: Scrapy fails
        to close what it has not opened.

        Parameters
        ----------
        ordering
            stands in for ORDERING.
        needs_links
            refuse to start without `LinksMiddleware`.
        make
            makes the frontier; None for the one in this process.
        """
        self._ordering = ordering
        self._needs_links = needs_links
        try:
            recorder = self._make_recorder()
            self.frontier = self._local_frontier() if make is None else make(self)
            recorder.open()
            self.dispatcher = Dispatcher(
                self._crawler,
                self.frontier,
                self.identities,
                concurrency=self.config.concurrency,
                failed=self.fail,
                keeps_items=self.config.keeps_items,
                kept_headers=self.config.kept_headers,
            )
        except CrawlprioError as error:
            self.refuse(error)
            return
        if self.config.keeps_items:
            self._items = ItemKeeper(self._crawler, self.dispatcher, recorder, self.fail)
        self._tell_of_store(recorder)

    def _tell_of_store(self, recorder: Recorder) -> None:
        """Say in one line that a job is resumed, or that a file was renamed or left alone."""
        remark = recorder.remark
        if recorder.resumes and recorder.store is not None:
            figures, n_waiting = recorder.figures, len(self.frontier or ())
            remark = (
                f"{recorder.store.path.parent}: resumed with {figures.n_fetched:,} pages fetched "
                f"and {n_waiting:,} waiting, under {self.config.ordering_name}."
            )
        if remark and read_setting(self._crawler.settings, "CRAWLPRIO_PRINT"):
            say(remark)
        elif remark:
            logger.info("%s", remark)

    def _local_frontier(self) -> LocalFrontier:
        return LocalFrontier(
            self.config,
            self.recorder,
            truth=None if self.web is None else self.web.rank,
            failed=self.fail,
            priority_of=self._priority_of,
            call_soon=partial(call_later, 0),
        )

    def _priority_of(self, saved: bytes) -> int:
        assert self._crawler.spider is not None
        return from_json(saved, self._crawler.spider).priority

    def add_seeds(self, urls: Sequence[str]) -> None:
        """Queue plain pages as seeds, all at once and in this order; duplicates count once."""
        if self.frontier is not None:
            try:
                self.frontier.add_seeds(urls)
            except CrawlprioError as error:
                self.fail(error)

    def _make_recorder(self) -> Recorder:
        if self.failure is not None:
            raise self.failure
        stats = self._crawler.stats
        assert stats is not None
        self._recorder = Recorder(
            self.config,
            self.identities,
            # A web that is wholly known has no traps, and is judged as a whole.
            bounds_patterns=self.web is None,
            refused=lambda reason: stats.inc_value(f"crawlprio/refused/{reason}"),
            covered=self._stop_covered,
        )
        return self._recorder

    def _stop_covered(self) -> None:
        """End the crawl, as enough of all importance is fetched."""
        if not self._is_covered:
            self._is_covered = True
            engine.close_spider(self._crawler, "coverage_reached")

    def _spider_opened(self) -> None:
        if self.failure is None and self._recorder is None:
            try:
                self._make_recorder().open()
            except CrawlprioError as error:
                self.refuse(error)
        if self.failure is None and self._needs_links and not self.reads_visits:
            self.refuse(
                ConfigError(
                    "SCHEDULER is crawlprio's, which learns of links from its LinksMiddleware; set "
                    "ADDONS = {'crawlprio.Addon': 500}, or list it in SPIDER_MIDDLEWARES."
                )
            )
        if self.failure is None and self.config.keeps_items and self.dispatcher is None:
            self.refuse(
                ConfigError(
                    "CRAWLPRIO_ITEMS is on, and SCHEDULER is not crawlprio's, which alone knows "
                    "when a page is done; set SCHEDULER = 'crawlprio.schedulers.Scheduler'."
                )
            )
        if self.failure is not None:
            self._tell()
            raise engine.refusal()
        if self.recorder.is_covered:
            self._stop_covered()

    @property
    def reads_visits(self) -> bool:
        """Whether `LinksMiddleware` is in use, which records what callbacks yield."""
        return engine.uses_spider_middleware(self._crawler, "crawlprio.middlewares.LinksMiddleware")

    def _tell(self) -> bool:
        """Log why the crawl fails, the first time; return whether it is that."""
        is_first = not self._is_told
        if is_first:
            self._is_told = True
            logger.error("%s", self.failure)
            engine.exit_with_error(self._crawler)
        return is_first

    def _spider_closed(self, reason: str) -> None:
        self._close(reason)

    def _engine_stopped(self) -> None:
        self._close("stopped")

    def _close(self, reason: str) -> None:
        """Close all parts, each whether or not another fails to."""
        if self._is_closed:
            return
        steps: list[Callable[[], object]] = []
        if self._recorder is not None:
            steps += [partial(told, reason) for told in self._before_close]
        if self.frontier is not None:
            steps.append(self.frontier.close)
        if self._recorder is not None:
            steps.append(self._recorder.close)
        if self.web is not None:
            steps.append(self.web.stop)
        for step in steps:
            try:
                step()
            except CrawlprioError as error:
                logger.error("%s", error)
            except Exception:
                logger.exception("A part of the crawl could not be closed.")
        self._is_closed = True
