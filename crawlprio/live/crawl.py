"""The life cycle of a crawl: creating its parts, handing them out and closing them."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Sequence
from functools import cached_property, partial
from pathlib import Path
from typing import TYPE_CHECKING, Any
from weakref import WeakKeyDictionary

from scrapy import Request, signals
from scrapy.utils.asyncio import call_later

from crawlprio.compiled import plain_until
from crawlprio.compiled.notices import say
from crawlprio.config import CrawlConfig, read_setting
from crawlprio.errors import CrawlprioError, StoreError
from crawlprio.frontier import PageQueue, SiteClock
from crawlprio.frontier.protocol import FetchClock, Frontier
from crawlprio.live import engine
from crawlprio.live.components import lacking_component
from crawlprio.live.dispatch import Dispatcher
from crawlprio.live.downloader import FetchObserver
from crawlprio.live.host_clock import HostClock
from crawlprio.live.identity import Identities
from crawlprio.live.item_keeper import ItemKeeper
from crawlprio.live.local_frontier import LocalFrontier
from crawlprio.live.receipts import CoverageSoFar, keep_settings, likely_share, made_receipt
from crawlprio.live.recorder import Recorder
from crawlprio.live.request_json import from_json
from crawlprio.live.seed_hosts import SeedHosts, Share, record_in
from crawlprio.live.valuing import Valuer, made_valuer
from crawlprio.orderings.base import Ordering
from crawlprio.orderings.guard import OrderingError
from crawlprio.pages import Visit
from crawlprio.receipt.files import NAME, write_receipt
from crawlprio.web.addresses import PrivateAddresses

if TYPE_CHECKING:
    from scrapy.crawler import Crawler

    from crawlprio.live.virtual import VirtualWeb

logger = logging.getLogger("crawlprio")

_KEY = "_crawlprio_crawl"


class Crawl:
    """The crawl of one `Crawler`; all components get the same object from `Crawl.of(crawler)`.

    The first component that asks for it creates it. It opens nothing before the crawl starts, and
    closes everything it opened when the spider closes or the engine stops: under any scheduler,
    and also after a refusal or a failure.

    Attributes
    ----------
    web
        the web served on loopback for this crawl; None if it crawls the real web.
    failure
        why the crawl cannot start or continue; None if it can.
    frontier, dispatcher
        the waiting pages, and what hands them out; None under a scheduler other than crawlprio's.
    share_seeds
        the record of the seeds' addresses that all workers share; None: it is in the store.
    awaits_seeds
        whether pages must wait because the addresses of the seeds are not known yet.
    receipt
        what the crawl got, once it has ended; None without a store.
    on_visit
        called with each visit that is recorded, if set before the frontier opens.
    """

    def __init__(self, crawler: Crawler) -> None:
        self._crawler = crawler
        self.yielded: WeakKeyDictionary[Request, list[Request]] = WeakKeyDictionary()
        """By request, the requests that its callback yielded, before any middleware drops some."""
        self.usages: WeakKeyDictionary[Request, str] = WeakKeyDictionary()
        """By request, the preferences of robots.txt on the use of its page."""
        self._ordering: str | None = None
        self._recorder: Recorder | None = None
        self._before_close: list[Callable[[str], object]] = []
        self._needs_links = False
        self._is_recorded_elsewhere = False
        self._is_failure_logged = False
        self._is_closed = False
        self._is_covered = False
        self.web: VirtualWeb | None = None
        self.failure: CrawlprioError | None = None
        self.frontier: Frontier | None = None
        self.dispatcher: Dispatcher | None = None
        self.share_seeds: Share | None = None
        self.awaits_seeds = False
        self.receipt: dict[str, Any] | None = None
        self.on_visit: Callable[[Visit], object] | None = None
        self._seed_hosts: SeedHosts | None = None
        self._items: ItemKeeper | None = None
        self._archiver: FetchObserver | None = None
        connect = crawler.signals.connect
        connect(self._spider_opened, signal=signals.spider_opened)
        connect(self._spider_closed, signal=signals.spider_closed)
        connect(self._engine_stopped, signal=signals.engine_stopped)

    @classmethod
    def of(cls, crawler: Crawler) -> Crawl:
        """Return the crawl of a crawler, creating it on the first call."""
        found = vars(crawler).get(_KEY)
        if not isinstance(found, Crawl):
            found = vars(crawler)[_KEY] = cls(crawler)
        return found

    # Parts

    @cached_property
    def config(self) -> CrawlConfig:
        """The validated settings; raises ConfigError for the first invalid one."""
        return CrawlConfig.from_settings(
            self._crawler.settings, self._ordering, records=not engine.is_inspection()
        )

    @cached_property
    def addresses(self) -> PrivateAddresses:
        """Which private addresses may be fetched from; raises ConfigError for an invalid setting.

        All are allowed in a virtual crawl, which connects to loopback only, and where a person
        requests each page (`scrapy shell`, `fetch` and the like).
        """
        is_free = self.web is not None or engine.is_inspection()
        # Not from `config`: a spider asks before all settings are final.
        settings = self._crawler.settings
        mode = read_setting(settings, "CRAWLPRIO_PRIVATE_ADDRESSES")
        granted = read_setting(settings, "CRAWLPRIO_PRIVATE_NETWORKS")
        return PrivateAddresses("allow" if is_free else mode, granted or ())

    @cached_property
    def identities(self) -> Identities:
        """Decides when two requests are for the same page."""
        return Identities(self._crawler)

    @property
    def recorder(self) -> Recorder:
        """The recorder of the crawl; available once the crawl has started."""
        assert self._recorder is not None, "the crawl has not started"
        return self._recorder

    @cached_property
    def clock(self) -> FetchClock:
        """Knows when each site may be fetched from."""
        if self.frontier is not None:
            return self.frontier.clock
        pages, politeness = self.recorder.pages, self.config.politeness
        idle = PageQueue(
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

    @cached_property
    def coverage_so_far(self) -> CoverageSoFar | None:
        """Estimates the coverage while the crawl runs; None without a store."""
        store, share = self.recorder.store, likely_share(self.config.stop_at_coverage)
        return None if store is None else CoverageSoFar(store.path, share, self._stop_covered)

    @property
    def is_running(self) -> bool:
        """Whether the parts are open and nothing has failed."""
        return self._recorder is not None and self.failure is None and not self._is_closed

    @property
    def wants_text(self) -> bool:
        """Whether pages are read with their texts."""
        return self.config.wants_text

    @cached_property
    def valuer(self) -> Valuer | None:
        """Scores pages; None if the crawl has no value model."""
        return made_valuer(self.config.value_model, self.fail, self.on_close)

    @property
    def wants_anchors(self) -> bool:
        """Whether visits need anchor texts."""
        return (
            self.recorder.store is not None
            or (self._is_recorded_elsewhere and self.config.store_path is not None)
            or self.config.wants_text
            or self.config.ordering.needs_anchors
        )

    # Life cycle

    def record_elsewhere(self) -> None:
        """Create no store here: the frontier records the crawl. Call it before `open_frontier`."""
        self._is_recorded_elsewhere = True

    def serve(self, recording: Path | None) -> VirtualWeb:
        """Serve a recording, or the demo web, and send all requests of the crawl there.

        Call it while the crawler's settings can still be changed.
        """
        from crawlprio.live.virtual import VirtualWeb

        self.web = VirtualWeb.start(self._crawler, recording)
        return self.web

    def on_close(self, callback: Callable[[str], object]) -> None:
        """Call `callback` with Scrapy's reason when the crawl ends, before its parts close."""
        self._before_close.append(callback)

    def refuse(self, error: CrawlprioError) -> None:
        """Refuse to start; the first error given is the one that is reported."""
        self.failure = self.failure or error

    def fail(self, error: CrawlprioError) -> None:
        """End the crawl: log why, close the spider, and make the command exit with an error."""
        self.refuse(error)
        if self._log_failure():
            engine.close_spider(self._crawler)

    def refusal(self) -> Exception:
        """Log why the crawl is refused; return what to raise when the spider is opened."""
        self._log_failure()
        return engine.refusal()

    def open_frontier(
        self,
        ordering: str | None = None,
        *,
        needs_links: bool = True,
        make: Callable[[Crawl], Frontier] | None = None,
    ) -> None:
        """Open the store, the frontier and the dispatcher; called by the scheduler.

        An error is kept as `failure` and ends the crawl only once the spider is open, because
        Scrapy fails to close a spider before that.

        Parameters
        ----------
        ordering
            overrides ORDERING.
        needs_links
            refuse to start without `LinksMiddleware`.
        make
            creates the frontier; None for the one in this process.
        """
        self._ordering = ordering
        self._needs_links = needs_links
        try:
            recorder = self._make_recorder()
            self.frontier = self._local_frontier() if make is None else make(self)
            recorder.open()
            self._open_seed_hosts()
            self.dispatcher = Dispatcher(
                self._crawler, self.frontier, self.identities, self.config, self.fail
            )
            self._open_archive()
        except CrawlprioError as error:
            self.refuse(error)
            return
        if self.config.keeps_items:
            self._items = ItemKeeper(self._crawler, self.dispatcher, recorder, self.fail)
        self._report_store(recorder)

    def _open_archive(self) -> None:
        """Archive all fetches from now on, if CRAWLPRIO_WARC says so."""
        if self.config.warc_folder is None:
            self.recorder.check_no_archive()
            return
        from crawlprio.live.archiver import archive_crawl

        self._archiver = archive_crawl(
            self._crawler, self.config, self.recorder, self.dispatcher, self.fail
        )

    def _report_store(self, recorder: Recorder) -> None:
        """Report in one line that a job is resumed, or that a file was renamed or left alone."""
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
        """Queue URLs as seeds in one batch, in this order; duplicates count once."""
        if self.frontier is not None:
            try:
                self.frontier.add_seeds(urls)
            except CrawlprioError as error:
                self.fail(error)

    def _open_seed_hosts(self) -> None:
        if self.recorder.store is not None:
            keep_settings(self.recorder.store, self._crawler.settings)
        share = self.share_seeds or record_in(self.recorder.store)
        self._seed_hosts = SeedHosts(self._crawler.settings, self.addresses, share)

    async def admit_seeds(self, hosts: Iterable[str]) -> None:
        """Open the private addresses of seeds."""
        if self.is_running and self._seed_hosts is not None:
            try:
                await self._seed_hosts.add(hosts)
            except CrawlprioError as error:
                self.fail(error)

    def _make_recorder(self) -> Recorder:
        if self.failure is not None:
            raise self.failure
        self._recorder = Recorder(
            self.config,
            self.identities,
            is_elsewhere=self._is_recorded_elsewhere,
            # A web that is known completely has no traps, and is evaluated as a whole.
            bounds_patterns=self.web is None,
            refused=lambda rule, url: self.refuse_links(rule, 1, (url,)),
            covered=self._stop_covered,
            on_visit=self._visited if likely_share(self.config.stop_at_coverage) else self.on_visit,
        )
        return self._recorder

    def _visited(self, visit: Visit) -> None:
        """Pass a visit on, and estimate the coverage if it is time."""
        if self.on_visit is not None:
            self.on_visit(visit)
        if self.is_running and (so_far := self.coverage_so_far) is not None:
            so_far.interval(self.recorder.figures.n_fetched)

    def refuse_links(self, rule: str, n_links: int, urls: Iterable[str]) -> None:
        """Count links that a rule refused, in the stats and in the store, with a few of them."""
        stats = self._crawler.stats
        assert stats is not None
        stats.inc_value(f"crawlprio/refused/{rule}", n_links)
        if self._recorder is not None and self._recorder.store is not None:
            self._recorder.store.refuse(rule, n_links, urls)

    def _stop_covered(self) -> None:
        """End the crawl because enough of the total importance has been fetched."""
        if not self._is_covered and self.is_running:
            self._is_covered = True
            engine.close_spider(self._crawler, "coverage_reached")

    def _spider_opened(self) -> None:
        if self.failure is None and self._recorder is None:
            try:
                self._make_recorder().open()
                self._open_seed_hosts()
                self._open_archive()
            except CrawlprioError as error:
                self.refuse(error)
        if self.failure is None:
            self.failure = lacking_component(
                needs_links=self._needs_links and not self.reads_visits,
                guards=not (self.addresses.is_open or self.reads_visits),
                keeps_items=self.config.keeps_items and self.dispatcher is None,
            )
        if self.failure is not None:
            raise self.refusal()
        if self.recorder.is_covered:
            self._stop_covered()

    @property
    def reads_visits(self) -> bool:
        """Whether `LinksMiddleware`, which records what callbacks yield, is in use."""
        return engine.uses_spider_middleware(self._crawler, "crawlprio.middlewares.LinksMiddleware")

    @property
    def is_misconfigured(self) -> bool:
        """Whether the crawl was refused for its settings, and not for the state of its store."""
        return self.failure is not None and not isinstance(self.failure, StoreError | OrderingError)

    def interrupt(self) -> None:
        """Report what was fetched and close all parts, after the event loop was stopped."""
        self._close("interrupted")

    def _make_receipt(self, reason: str) -> None:
        self.receipt = made_receipt(self.recorder, self._crawler.settings, reason)

    def _write_receipt(self) -> None:
        if self.receipt is not None and self.recorder.store is not None:
            write_receipt(self.receipt, self.recorder.store.path.with_name(NAME))

    def _log_failure(self) -> bool:
        """Log why the crawl failed, once; return whether this was the first call."""
        is_first = not self._is_failure_logged
        if is_first:
            self._is_failure_logged = True
            logger.error("%s", self.failure)
            engine.exit_with_error(self._crawler)
        return is_first

    def _spider_closed(self, reason: str) -> None:
        self._close(reason)

    def _engine_stopped(self) -> None:
        self._close("stopped")

    def _close(self, reason: str) -> None:
        """Close all parts, even if closing one of them fails."""
        if self._is_closed:
            return
        steps: list[Callable[[], object]] = []
        if self._recorder is not None:
            steps.append(partial(self._make_receipt, reason))
            steps += [partial(callback, reason) for callback in self._before_close]
        if self.frontier is not None:
            steps.append(self.frontier.close)
        if self._recorder is not None:
            steps.append(self._recorder.close)
            steps.append(self._write_receipt)
        if self.web is not None:
            steps.append(self.web.stop)
        for step in steps:
            try:
                step()
            except CrawlprioError as error:
                # What a full disk fails later, such as the receipt, is no news.
                if str(error) != str(self.failure) and not (
                    isinstance(error, StoreError) and isinstance(self.failure, StoreError)
                ):
                    logger.error("%s", error)
            except Exception:
                logger.exception("A part of the crawl could not be closed.")
        self._is_closed = True
