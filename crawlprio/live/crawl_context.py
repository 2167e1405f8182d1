"""A running crawl: its parts are created, handed out and closed here."""

from __future__ import annotations

import json
import logging
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import replace
from functools import cached_property, partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Self

from scrapy import Request, signals
from scrapy.crawler import Crawler
from scrapy.exceptions import CloseSpider
from scrapy.http import Response
from scrapy.settings import BaseSettings
from scrapy.utils.asyncio import call_later
from scrapy.utils.misc import load_object

from crawlprio.errors import ConfigError, CrawlprioError, StoreError, printable
from crawlprio.frontier import PageQueue
from crawlprio.frontier.protocol import FetchClock, Frontier, HttpRecord
from crawlprio.graph.compiled import notice, plain_until
from crawlprio.graph.pages import Visit
from crawlprio.items import LinkPairs
from crawlprio.live import engine
from crawlprio.live.clock import HostClock
from crawlprio.live.crawl_counters import CoverageSoFar
from crawlprio.live.dispatch import Dispatcher
from crawlprio.live.downloader import FETCH_HOOKS, FetchObserver, observe_fetches
from crawlprio.live.leases import Lease
from crawlprio.live.local_frontier import LocalFrontier
from crawlprio.live.private_networks import SeedHosts, Share, record_in
from crawlprio.live.recorder import Recorder
from crawlprio.live.request_json import from_json, priority_of
from crawlprio.live.requests import Identities
from crawlprio.live.roles import WorkerPool
from crawlprio.measure.explanations import Policy
from crawlprio.measure.stored_crawl import COVERED, ENDED_KEY, SCRAPYS_ORDER, SETTINGS_KEY
from crawlprio.orderings import NAMED, make_ordering
from crawlprio.orderings.base import Ordering
from crawlprio.plugins import ADDED, load
from crawlprio.settings_table.config import (
    CrawlConfig,
    limits_of,
    names_component,
    queue_ordering,
    read_setting,
    scheduler_of,
)
from crawlprio.settings_table.setting_types import Bool, Folder
from crawlprio.settings_table.table import SETTINGS
from crawlprio.store.side_tables import BODIES, TABLES, SideTable
from crawlprio.web.addresses import PrivateAddresses
from crawlprio.web.anchors import ParsedPage

if TYPE_CHECKING:
    from crawlprio.live.replay_server import ReplayServer


def policy_of(
    settings: BaseSettings, config: CrawlConfig, refuses: Callable[[str, int], str] | None
) -> Policy:
    """Return the rules of a crawl with these settings; `refuses` is its scope's, if known."""
    latest = read_setting(settings, "ORDERING")

    def ordering(name: str) -> Ordering:
        if name in NAMED and name != latest:
            made = make_ordering(name)
        else:
            made = make_ordering(latest, read_setting(settings, "ORDERING_OPTIONS"))
        if made.needs_values and config.value_model is not None:
            made.judge = config.value_model.judge
        return made

    return Policy(
        ordering,
        config.hot_queue,
        config.new_demotion,
        config.max_waiting,
        priority_of,
        refuses,
        bool(read_setting(settings, "ROBOTSTXT_OBEY")),
    )


logger = logging.getLogger("crawlprio")


class CrawlPart(FetchObserver):
    """What a crawl does beyond fetching pages in order, such as keeping items; does nothing itself.

    `PARTS` names each part by the setting that turns it on, or by each of several. One that defines
    a hook of `FetchObserver` receives every fetch from the opening of the spider on. A part that
    writes to the crawl store attaches a `crawlprio.store.TransactionParticipant` to it.

    Parameters
    ----------
    crawl
        The crawl, which has settings and nothing else yet.

    Raises
    ------
    ConfigError
        What the part needs is missing: the crawl is refused before anything is created.
    """

    tables: ClassVar[Sequence[SideTable]] = ()
    """The side tables of visits whose rows it puts into the `extras` of a page."""

    keeps = False
    """Whether the part only stores what was crawled, and is not needed by `scrapy shell`."""
    is_in_workers = False
    """Whether each of several workers has it too, or only the process that has the store."""
    is_in_dry_runs = False
    """Whether a dry run, which follows no link, has it too."""
    reads_text = False
    """Whether it needs the texts of pages."""
    stores_text = False
    """Whether visits have these texts too, which are then without navigation."""
    renders = False
    """Whether it renders pages that a script makes."""

    def __init__(self, crawl: CrawlContext) -> None:
        self.crawl = crawl

    def defines(self, *hooks: str) -> bool:
        """Return whether it defines any of these methods itself."""
        return any(getattr(type(self), name) is not getattr(CrawlPart, name) for name in hooks)

    def opened(self) -> None:
        """Begin, now that store, frontier and spider are open; an error refuses the crawl."""

    def read(self, pairs: LinkPairs, response: Response, page: ParsedPage) -> None:
        """Add to what was read of a page, which has its text if the crawl wants texts.

        `page` is what its HTML says, as far as crawlprio has parsed it.
        """

    async def judge(self, pairs: LinkPairs) -> None:
        """Judge a page; its visit waits until this returns."""

    def visited(self, visit: Visit) -> None:
        """Take note of a visit, just recorded or of an earlier run, in their order."""

    def keep_record(self, record: HttpRecord, visit: int | None) -> None:
        """Write the record of a fetch with the next transaction of the store.

        `visit` is the number that its visit gets; None if it is no visit, or there is no store.
        """

    def figures(self) -> Mapping[str, str | float]:
        """Return rows for the table at the end of the crawl."""
        return {}

    def closed(self, reason: str) -> None:
        """End, for Scrapy's reason, while store and frontier are still open."""

    def flushed(self, has_failed: bool) -> None:
        """End, once all is on disk or a write has failed, while the store is still open."""

    def ended(self) -> None:
        """Write what can be written only after the store was closed."""


class Parts:
    """All parts of a crawl, in order."""

    def __init__(self) -> None:
        self._all: list[CrawlPart] = []
        self._methods: dict[str, list[Callable[..., Any]]] = {}
        self._any: dict[str, bool] = {}

    def add(self, *parts: CrawlPart, first: bool = False) -> None:
        """Add parts behind the others, which they follow in everything, or before them."""
        self._all = [*parts, *self._all] if first else [*self._all, *parts]
        self._methods.clear()
        self._any.clear()

    def __iter__(self) -> Iterator[CrawlPart]:
        return iter(self._all)

    def any(self, attribute: str) -> bool:
        """Return whether any part sets an attribute of its class."""
        if attribute not in self._any:
            self._any[attribute] = any(getattr(part, attribute) for part in self._all)
        return self._any[attribute]

    def defining(self, name: str) -> list[Callable[..., Any]]:
        """Return this method of each part that defines it: few, and called often."""
        if name not in self._methods:
            self._methods[name] = [getattr(part, name) for part in self._all if part.defines(name)]
        return self._methods[name]


PARTS = {
    "CRAWLPRIO_RECEIPT": "crawlprio.live.parts.Receipt",
    "CRAWLPRIO_STOP_AT_COVERAGE": "crawlprio.live.parts.StopAtCoverage",
    "CRAWLPRIO_ITEMS": "crawlprio.live.parts.ItemKeeper",
    "CRAWLPRIO_SITEMAPS": "crawlprio.live.sitemap_files.Sitemaps",
    "CRAWLPRIO_COMPILE": "crawlprio.live.compiling.BackgroundCompilation",
}
"""The parts of a crawl besides those of plugins, each by the setting that turns it on, in the order
in which they close: import paths."""

MIDDLEWARES = {
    "SPIDER_MIDDLEWARES": {
        "crawlprio.middlewares.LinksMiddleware": 10,
        "crawlprio.middlewares.YieldedLinksMiddleware": 100_000,
    },
    "DOWNLOADER_MIDDLEWARES": {
        "crawlprio.middlewares.RefusalMiddleware": 985,
        "crawlprio.middlewares.PolitenessMiddleware": 990,
    },
}
"""What the scheduler needs, by setting, with its orders. The add-on lists them; otherwise those
that a project does not list itself are added as the frontier opens."""

_KEY = "_crawlprio_crawl"


def without_parts(*but: str) -> dict[str, Any]:
    """Return the settings that turn off all parts of a crawl but those of these settings."""
    names = (name for name in (*PARTS, *ADDED["parts"]) if name not in but)
    return {name: False if isinstance(SETTINGS[name].kind, Bool) else None for name in names}


def without_parts_elsewhere(settings: BaseSettings, here: str) -> dict[str, Any]:
    """Return the settings that turn off the parts whose class does not set the attribute `here`."""
    own = []
    for name in (*PARTS, *ADDED["parts"]):
        if isinstance(SETTINGS[name].kind, Folder):  # which reading it would create
            continue
        with suppress(ConfigError):  # refused where the crawl has them all
            if _is_on(read_setting(settings, name)) and getattr(_part(name), here):
                own.append(name)
    return without_parts(*own)


def _part(name: str) -> type[CrawlPart]:
    """Return the part of a crawl that a setting turns on."""
    part: type[CrawlPart] = load_object(PARTS[name]) if name in PARTS else load("parts", name)
    return part


class ConfiguredCrawl:
    """The configuration of a crawl, and why it is refused or fails.

    `web` is served on loopback for this crawl; None if it crawls the real web. `failure` is why the
    crawl cannot start or continue.
    """

    def __init__(self, crawler: Crawler) -> None:
        self.crawler = crawler
        self.web: ReplayServer | None = None
        self.failure: CrawlprioError | None = None
        self._is_failure_logged = False

    @cached_property
    def config(self) -> CrawlConfig:
        """The validated settings; raises ConfigError for the first invalid one."""
        return CrawlConfig.from_settings(
            self.crawler.settings,
            queue_ordering(self.crawler.settings),
            records=not engine.is_inspection(),
        )

    @cached_property
    def addresses(self) -> PrivateAddresses:
        """Which private addresses may be fetched from; raises ConfigError for an invalid setting.

        All are allowed in a virtual crawl, which connects to loopback only, and where a person
        requests each page (`scrapy shell`, `fetch` and the like).
        """
        is_free = self.web is not None or engine.is_inspection()
        # Not from `config`: a spider asks before all settings are final.
        settings = self.crawler.settings
        mode = read_setting(settings, "CRAWLPRIO_PRIVATE_ADDRESSES")
        granted = read_setting(settings, "CRAWLPRIO_PRIVATE_NETWORKS")
        return PrivateAddresses("allow" if is_free else mode, granted or ())

    @cached_property
    def identities(self) -> Identities:
        """Decides when two requests are for the same page."""
        return Identities(self.crawler)

    @property
    def likely_share(self) -> float | None:
        """The likely share at which the crawl stops; None if it does not stop at one."""
        stop_at = self.config.stop_at_coverage
        return None if stop_at is None or stop_at.is_certain else stop_at.share

    def serve(self, recording: Path | None) -> ReplayServer:
        """Serve a recording, or the demo web, and send all requests of the crawl there.

        Call it while the crawler's settings can still be changed.
        """
        from crawlprio.live.replay_server import ReplayServer

        self.web = ReplayServer.start(self.crawler, recording)
        return self.web

    def refuse(self, error: CrawlprioError) -> None:
        """Refuse to start; the first error given is the one that is reported."""
        self.failure = self.failure or error

    def fail(self, error: CrawlprioError) -> None:
        """End the crawl: log why, close the spider, and make the command exit with an error."""
        self.refuse(error)
        if self._log_failure():
            engine.close_spider(self.crawler)

    @contextmanager
    def failing(self) -> Iterator[None]:
        """End the crawl by an error of ours in this block."""
        try:
            yield
        except CrawlprioError as error:
            self.fail(error)

    def refusal(self) -> CloseSpider:
        """Log why the crawl is refused; return what to raise when the spider is opened."""
        self._log_failure()
        return CloseSpider("crawlprio_refused")  # which closes the spider cleanly

    def say_error(self, sentence: str) -> None:
        """Print an error, or log it where the crawl prints nothing."""
        if read_setting(self.crawler.settings, "CRAWLPRIO_PRINT"):
            notice(printable(sentence), is_error=True)
        else:
            logger.error("%s", sentence)

    def _log_failure(self) -> bool:
        """Log why the crawl failed, once; return whether this was the first call."""
        is_first = not self._is_failure_logged
        if is_first:
            self._is_failure_logged = True
            self.say_error(str(self.failure))
            engine.exit_with_error(self.crawler)
        return is_first


class CrawlContext(ConfiguredCrawl):
    """The crawl of one `Crawler`; `CrawlContext.of(crawler)` gives all components the same.

    The first component that asks for it creates it. It opens nothing before the crawl starts, and
    closes everything it opened when the spider closes or the engine stops: under any scheduler, and
    also after a refusal or a failure. What else takes part in the crawl is in `parts`; add to them
    before the frontier opens.

    `frontier` holds the waiting pages and `dispatcher` leases them; both are None under another
    scheduler. `local_frontier` is the same frontier if it is in this process. Workers share the
    seeds' addresses by `share_seeds`; None: the store has them. Pages must wait while it
    `awaits_seeds`, whose addresses are not known yet. It creates no store if it
    `is_recorded_elsewhere`, by a frontier in another process. `receipt` is the receipt of the crawl
    once it has ended; None without a store. `tell_coordinator` and `worker_pool` are of a crawl in
    several processes (`crawlprio.live.roles`), as is `asked_for`: the settings before those of a
    worker or coordinator took their place.
    """

    def __init__(self, crawler: Crawler) -> None:
        super().__init__(crawler)
        self.parts = Parts()
        self._recorder: Recorder | None = None
        self.is_recorded_elsewhere = False
        self._is_closed = False
        self._has_enough = False
        self.frontier: Frontier | None = None
        self.local_frontier: LocalFrontier | None = None
        self.dispatcher: Dispatcher | None = None
        self.share_seeds: Share | None = None
        self.awaits_seeds = False
        self.receipt: dict[str, Any] | None = None
        self.tell_coordinator: Callable[[list[Any]], object] | None = None
        self.worker_pool: WorkerPool | None = None
        self.asked_for: BaseSettings = crawler.settings
        self._seed_hosts: SeedHosts | None = None
        connect = crawler.signals.connect
        connect(self._spider_opened, signal=signals.spider_opened)
        connect(self.close, signal=signals.spider_closed)
        connect(self.close, signal=signals.engine_stopped)

    @classmethod
    def of(cls, crawler: Crawler) -> CrawlContext:
        """Return the crawl of a crawler, creating it on the first call."""
        found = vars(crawler).get(_KEY)
        if not isinstance(found, CrawlContext):
            found = vars(crawler)[_KEY] = cls(crawler)
        return found

    @property
    def tables(self) -> dict[str, SideTable]:
        """The side tables of visits in which this crawl has rows, by name."""
        tables = TABLES | {table.name: table for part in self.parts for table in part.tables}
        if not self.config.keeps_bodies:
            del tables[BODIES.name]
        return tables

    def lease_of(self, request: Request | None) -> Lease | None:
        """Return the lease of a request; None if it has none, or crawlprio does not schedule."""
        if request is None or self.dispatcher is None:
            return None
        return self.dispatcher.leases.of(request)

    @property
    def recorder(self) -> Recorder:
        """The recorder of the crawl; available once the crawl has started."""
        assert self._recorder is not None, "the crawl has not started"
        return self._recorder

    @cached_property
    def clock(self) -> FetchClock:
        """Knows when each site may be fetched from."""
        return self._own_clock if self.frontier is None else self.frontier.clock

    @property
    def slot_clock(self) -> FetchClock:
        """Knows when a download slot may be used that a downloader middleware sets.

        A worker keeps its own time: only it knows of such slots.
        """
        return self._own_clock if self.is_recorded_elsewhere else self.clock

    @cached_property
    def _own_clock(self) -> FetchClock:
        """The clock of a process without a frontier, or of what its frontier does not know."""
        config = self.config.with_site_rules_of(self.asked_for)
        idle = PageQueue(
            Ordering(),
            self.recorder.pages,
            limit=config.limit,
            delay=config.politeness.delay,
            plain_until=plain_until(),
        )
        clock = HostClock(config, idle, self.recorder, self.fail)
        if self.recorder.resumes:
            clock.restore()
        return clock

    @cached_property
    def coverage_so_far(self) -> CoverageSoFar | None:
        """Estimates the coverage while the crawl runs; None without a store."""
        store = self.recorder.store
        stop = partial(self._stop, COVERED)
        return None if store is None else CoverageSoFar(store.path, self.likely_share, stop)

    @property
    def has_begun(self) -> bool:
        """Whether it may have written anything, or has something to say of why it did not."""
        return self._recorder is not None or self.failure is not None

    @property
    def is_running(self) -> bool:
        """Whether the parts are open and nothing has failed."""
        return self._recorder is not None and self.failure is None and not self._is_closed

    def open_frontier(self, make: Callable[[], Frontier]) -> None:
        """Open the store, the frontier and the dispatcher; called by the scheduler.

        An error is kept as `failure` and ends the crawl only once the spider is open, because
        Scrapy fails to close a spider before that. `make` creates the frontier.
        """
        try:
            recorder = self._make_recorder()
            self.frontier = make()
            recorder.open()
            self._open_seed_hosts()
            self.dispatcher = Dispatcher(
                self.crawler, self.frontier, self.identities, self.config, self.fail
            )
        except CrawlprioError as error:
            self.refuse(error)
            return
        _report_store(self, recorder)

    def _add_middlewares(self) -> None:
        """Add the middlewares that the settings do not list, not even to disable them."""
        for setting, orders in MIDDLEWARES.items():
            for path, order in orders.items():
                added = load_object(path)
                if not names_component(self.crawler.settings, setting, added):
                    engine.add_middleware(self.crawler, setting, added, is_outermost=order < 100)
        if self.failure is not None:
            raise self.failure

    def make_local_frontier(self) -> LocalFrontier:
        """Return the frontier in this process, which also gets what it needs (`MIDDLEWARES`)."""

        def priority_of(saved: bytes) -> int:
            assert self.crawler.spider is not None
            return from_json(saved, self.crawler.spider).priority

        self._add_middlewares()
        self.local_frontier = LocalFrontier(
            self.config,
            self.recorder,
            truth=None if self.web is None else self.web.rank,
            failed=self.fail,
            priority_of=priority_of,
            call_soon=partial(call_later, 0),
        )
        return self.local_frontier

    def add_seeds(self, urls: Sequence[str]) -> None:
        """Queue URLs as seeds in one batch, in this order; duplicates count once."""
        if self.frontier is not None:
            with self.failing():
                self.frontier.add_seeds(urls)

    def _open_seed_hosts(self) -> None:
        store = self.recorder.store
        if store is not None:
            limits = limits_of(self.crawler.settings)
            plain = str | int | float | bool | None
            kept = {name: limit for name, limit in limits.items() if isinstance(limit, plain)}
            store.set_meta(SETTINGS_KEY, json.dumps(kept))
            store.set_meta(ENDED_KEY, "")
        share = self.share_seeds or record_in(store)
        self._seed_hosts = SeedHosts(self.crawler.settings, self.addresses, share)

    async def admit_seeds(self, hosts: Iterable[str]) -> None:
        """Open the private addresses of seeds."""
        if self.is_running and self._seed_hosts is not None:
            with self.failing():
                await self._seed_hosts.add(hosts)

    def _make_recorder(self) -> Recorder:
        if self.failure is not None:
            raise self.failure
        is_inspection = engine.is_inspection()
        names = (*PARTS, *ADDED["parts"])
        on = [name for name in names if _is_on(read_setting(self.crawler.settings, name))]
        classes = dict.fromkeys(map(_part, on))
        used = [part(self) for part in classes if not (part.keeps and is_inspection)]
        self.parts.add(*used, first=True)
        config = self.config
        if self.is_recorded_elsewhere:
            config = replace(config, store_path=None, max_pages=None)
        if self.web is not None:  # known completely: it has no traps, and is evaluated as a whole
            config = replace(config, max_pages_per_pattern=None)
        self._recorder = Recorder(
            config,
            self.identities,
            refused=lambda rule, url: self.refuse_links(rule, 1, (url,)),
            enough=self._stop,
            on_visit=self.parts.defining("visited"),
            on_record=self.parts.defining("keep_record"),
            on_flush=self.parts.defining("flushed"),
            tables=self.tables,
        )
        return self._recorder

    def refuse_links(self, rule: str, n_links: int, urls: Iterable[str]) -> None:
        """Count links that a rule refused, in the stats and in the store, with a few of them."""
        stats = self.crawler.stats
        assert stats is not None
        stats.inc_value(f"crawlprio/refused/{rule}", n_links)
        if self.tell_coordinator is not None:
            self.tell_coordinator(["refused", rule, n_links, list(urls)])
        elif self._recorder is not None and self._recorder.store is not None:
            self._recorder.store.pending.refusals.add(rule, n_links, urls)

    def _stop(self, reason: str) -> None:
        """End the crawl because it has enough."""
        if not self._has_enough and self.is_running:
            self._has_enough = True
            engine.close_spider(self.crawler, reason)

    def _spider_opened(self) -> None:
        if self.failure is None and self._recorder is None:
            try:
                path = scheduler_of(self.crawler.settings)
                stock = SCRAPYS_ORDER if path.startswith("scrapy.") else f"the order of {path}"
                self._make_recorder().open(stock)
                self._open_seed_hosts()
            except CrawlprioError as error:
                self.refuse(error)
        if self.failure is None:
            self.failure = _lacking_component(self)
        if self.failure is None:
            try:
                for part in self.parts:
                    part.opened()
                    if part.defines(*FETCH_HOOKS):
                        observe_fetches(self.crawler, part)
            except CrawlprioError as error:
                self.refuse(error)
            except Exception as error:
                logger.exception("A part of the crawl failed:")
                self.refuse(ConfigError(f"{type(part).__name__} could not begin ({error!r})."))
        if self.failure is not None:
            raise self.refusal()
        self.recorder.goal.check()

    @property
    def reads_visits(self) -> bool:
        """Whether `LinksMiddleware`, which records what callbacks yield, is in use."""
        return engine.uses_spider_middleware(self.crawler, "crawlprio.middlewares.LinksMiddleware")

    def close(self, reason: str = "stopped") -> None:
        """Report what was fetched and close all parts, even if closing one of them fails."""
        if self._is_closed:
            return
        steps: list[Callable[[], object]] = []
        if self._recorder is not None:
            steps += [partial(part.closed, reason) for part in self.parts]
        if self.frontier is not None:
            steps.append(self.frontier.close)
        if self._recorder is not None:
            steps.append(self._recorder.close)
            steps += [part.ended for part in self.parts]
        if self.web is not None:
            steps.append(self.web.stop)
        for step in steps:
            try:
                step()
                continue
            except CrawlprioError as error:
                # What a full disk fails later, such as the receipt, is no news.
                if str(error) != str(self.failure) and not (
                    isinstance(error, StoreError) and isinstance(self.failure, StoreError)
                ):
                    self.say_error(str(error))
            except Exception:
                logger.exception("A part of the crawl could not be closed.")
            engine.exit_with_error(self.crawler)
        self._is_closed = True


class CrawlComponent:
    """What Scrapy makes for a crawler, and takes part in its crawl."""

    def __init__(self, crawler: Crawler) -> None:
        self._crawler = crawler
        self._crawl = CrawlContext.of(crawler)

    @classmethod
    def from_crawler(cls, crawler: Crawler) -> Self:
        return cls(crawler)


def _lacking_component(crawl: CrawlContext) -> ConfigError | None:
    """Return the refusal for the first need of the crawl that no component meets."""
    if not crawl.reads_visits and (crawl.frontier is not None or not crawl.addresses.is_open):
        need = "crawlprio orders pages by the links that its LinksMiddleware reads"
        if crawl.frontier is None:
            need = (
                "CRAWLPRIO_PRIVATE_ADDRESSES is on, which needs LinksMiddleware to know what "
                "comes from a page"
            )
        return ConfigError(
            f"{need}; set ADDONS = {{'crawlprio.Addon': 500}}, or add LinksMiddleware to "
            "SPIDER_MIDDLEWARES."
        )
    if crawl.config.keeps_items and crawl.dispatcher is None:
        return ConfigError(
            "CRAWLPRIO_ITEMS is on, but SCHEDULER is not crawlprio's, and no other scheduler "
            "knows when a page is done; set SCHEDULER = 'crawlprio.schedulers.Scheduler'."
        )
    return None


def _report_store(crawl: CrawlContext, recorder: Recorder) -> None:
    """Report in one line that a job is resumed, or that a file was renamed or left alone."""
    remark = recorder.remark
    if recorder.resumes and recorder.store is not None:
        figures, n_waiting = recorder.figures, len(crawl.frontier or ())
        remark = (
            f"{recorder.store.path.parent}: resumed with {figures.n_fetched:,} pages fetched "
            f"and {n_waiting:,} waiting, under {crawl.config.ordering_name}."
        )
    if remark and read_setting(crawl.crawler.settings, "CRAWLPRIO_PRINT"):
        notice(remark)
    elif remark:
        logger.info("%s", remark)


def _is_on(value: object) -> bool:
    """Return whether the value of a setting turns a part on; 0 may be a port."""
    return value is not None and value is not False
