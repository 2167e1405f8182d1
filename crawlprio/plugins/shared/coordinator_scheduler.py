"""The scheduler of a coordinator, and its workers: those in processes that it starts itself."""

from __future__ import annotations

import logging
from collections.abc import Callable, Coroutine
from functools import cached_property
from time import monotonic
from typing import Any

from scrapy import Request, Spider, signals
from scrapy.crawler import Crawler
from scrapy.exceptions import IgnoreRequest
from scrapy.http import Response
from scrapy.utils.defer import deferred_from_coro
from twisted.python.failure import Failure

from crawlprio.errors import ConfigError, CrawlprioError
from crawlprio.frontier.protocol import LeasedPage, PageVisit
from crawlprio.items import LinkPairs
from crawlprio.live import engine
from crawlprio.live.crawl_context import CrawlContext, CrawlPart
from crawlprio.live.crawl_counters import cause_of
from crawlprio.live.dispatch import ConcurrencyLimit, RequestSerializer, site_of
from crawlprio.live.engine import sleep
from crawlprio.live.local_frontier import LocalFrontier
from crawlprio.live.request_json import is_request
from crawlprio.live.requests import USAGES
from crawlprio.live.roles import WorkersDied
from crawlprio.middlewares.permission import RobotsMiddleware
from crawlprio.plugins.shared.coordinator import Coordinator, Worker
from crawlprio.plugins.shared.messages import Statement, from_worker
from crawlprio.plugins.shared.socket_transport import LocalWorker, heartbeat
from crawlprio.schedulers import Scheduler
from crawlprio.settings_table.config import CrawlConfig, read_setting, writes_feeds
from crawlprio.spiders.site import SiteSpider

logger = logging.getLogger("crawlprio")

LOOK_SECONDS = 0.05
"""Seconds between two checks of whether a site may be fetched from."""

MOST_FUTILE = 8
"""Workers that may die, one after the other, without having finished a page."""

END_SECONDS = 10.0
"""Seconds that workers get to end, and Redis to take the last messages."""


def check_limits(config: CrawlConfig, because: str) -> None:
    """Refuse what several workers cannot do, `because` there are several."""
    model = config.value_model
    if model is not None and model.learns:
        raise ConfigError(
            f"{because}, and the value model {model.name} learns from each page, which several "
            "workers cannot; leave out one of them."
        )


class Workers(CrawlPart):
    """The workers of a crawl behind one transport; it carries out their messages.

    Pages are leased to workers that are `live`, and to none once it `is_ending`. If it
    `outlasts_pages`, the crawl goes on although no page waits.
    """

    join: Callable[[Spider], None]
    """Refuses a crawl that cannot have these workers, before its frontier is opened."""
    begin: Callable[[], None]
    """Starts or awaits workers, now that the spider is open."""
    has_room: Callable[[], bool]
    """Returns whether some worker could take another page."""
    choose: Callable[[], Worker | None]
    """Returns the worker that gets the next page; None if none can take it."""
    look_after: Callable[[], None]
    """Gives up workers that are silent for too long; called at each heartbeat."""
    drain: Callable[[str], Coroutine[Any, Any, None]]
    """Waits until workers have finished their pages, and have ended."""
    close: Callable[[str], None]

    coordinator: Coordinator
    frontier: LocalFrontier
    outlasts_pages = False

    def __init__(self, crawl: CrawlContext) -> None:
        super().__init__(crawl)
        self.crawler = crawl.crawler
        self.live: dict[Any, None] = {}
        self.is_ending = False
        self._looked_at = monotonic()
        self._redirected_seeds: list[str] = []

    def open(self, frontier: LocalFrontier) -> None:
        """Become the workers of a frontier."""
        crawl, store = self.crawl, self.crawl.recorder.store
        self.frontier = frontier
        self.coordinator = crawl.worker_pool = Coordinator(frontier)
        self.coordinator.workers = self.live
        frontier.clock.is_held = self.coordinator.holds
        self.handlers: dict[str, Callable[..., object]] = {
            **self.coordinator.handlers,
            "refused": lambda worker, *refused: crawl.refuse_links(*refused),
            "archive": lambda worker, record: crawl.recorder.keep_record(record),
            "stats": self._add_stats,
            "scope": self._widen_scope,
        }
        self.at_once = ConcurrencyLimit(
            crawl.config.concurrency, crawl.config.max_concurrent_requests
        )
        self.lease_timeout = float(self._read("CRAWLPRIO_LEASE_SECONDS"))
        if store is not None and crawl.recorder.resumes:
            self._redirected_seeds += store.redirected_seeds()

    def progressed(self) -> None:
        """Wake the engine, which asks for more or finds that nothing is left."""
        engine.wake(self.crawler)

    def _read(self, name: str) -> Any:
        return read_setting(self.crawler.settings, name)

    def _is_request(self, data: bytes) -> bool:
        assert self.crawler.spider is not None
        return is_request(data, self.crawler.spider)

    @cached_property
    def robots(self) -> Any:
        """The middleware that keeps robots.txt; None if the project does not use it."""
        return self.crawler.get_downloader_middleware(RobotsMiddleware)

    def permits(self, leased_page: LeasedPage, request: Request | None) -> bool:
        """Return whether a page is known to be permitted, without waiting for its robots.txt."""
        robots = self.robots
        if robots is None:
            return True
        is_usual = leased_page.request is None and type(robots) is RobotsMiddleware
        return is_usual and robots.permits(request)

    async def cause_against(self, request: Request) -> str:
        """Return why a request must not be sent (robots.txt, say); empty if it may."""
        try:
            if self.robots is not None:
                await self.robots.process_request(request)
        except IgnoreRequest as error:
            return cause_of(error, request)
        return ""

    def failed(self, failure: Failure) -> None:
        error = failure.value
        if not isinstance(error, CrawlprioError):
            logger.error("A page could not be leased: %s", failure.getTraceback())
            error = WorkersDied(f"A page could not be leased: {error}.")
        self.crawl.fail(error)

    def _receive(self, worker: Worker, statement: Statement) -> None:
        kind, *values = statement
        self.handlers[kind](worker, *values)
        if kind == "observe":
            self._count_response(values[1].pairs)

    @cached_property
    def _is_only_counted(self) -> bool:
        return engine.is_only_counted(self.crawler, signals.response_received)

    def _count_response(self, pairs: LinkPairs) -> None:
        """Report the responses of workers to Scrapy's extensions that count them."""
        source, status = pairs.source, pairs.status
        if status and self._is_only_counted:  # with no response to make, in a fifth of the time
            self.crawler.stats.inc_value("response_received_count")
        elif status:
            self.crawler.signals.send_catch_log(
                signals.response_received,
                response=Response(source, status=status),
                request=Request(source),
                spider=self.crawler.spider,
            )

    def _expired(self, *, was_down: bool = False) -> list[Any]:
        """Return the workers whose leases have expired.

        After a pause of this process or its transport, all get a new lease, as their messages have
        yet to be read.
        """
        now = monotonic()
        was_deaf = was_down or now - self._looked_at > self.lease_timeout / 2
        self._looked_at = now
        for worker in self.live if was_deaf else ():
            worker.received_at = max(now, worker.received_at)
        return [worker for worker in self.live if now - worker.received_at > self.lease_timeout]

    def _add_stats(self, worker: Worker, counts: dict[str, int]) -> None:
        for name, count in counts.items():
            self.crawler.stats.inc_value(name, count)

    def _widen_scope(self, worker: Worker, url: str) -> None:
        self._redirected_seeds.append(url)
        scope = getattr(self.crawler.spider, "scope", None)
        if scope is not None:
            scope.add_seed(url)
        for each in self.live:
            each.send([["scope", url]])


class LocalWorkers(Workers):
    """Workers in processes that this one starts, and replaces if they die."""

    def join(self, spider: Spider) -> None:
        if not isinstance(spider, SiteSpider):
            raise ConfigError(
                f"CRAWLPRIO_WORKERS is set, but the spider is {spider.name!r}; only the spider "
                "'site' can have workers: leave it out, or set CRAWLPRIO_FRONTIER = 'redis'."
            )
        if self._read("CRAWLPRIO_FRONTIER") == "redis":
            raise ConfigError(
                "CRAWLPRIO_WORKERS is about processes of one machine, but CRAWLPRIO_FRONTIER is "
                "'redis', where each worker is started by itself; leave out one of them."
            )
        if writes_feeds(self.crawler.settings):
            raise ConfigError(
                "CRAWLPRIO_WORKERS is set, and items go to a file (FEEDS, -o), which each worker "
                "would write; leave out one of them: the store has all pages and links."
            )
        check_limits(self.crawl.config, "CRAWLPRIO_WORKERS is set")

    def begin(self) -> None:
        self._n_futile = 0
        for _ in range(self._read("CRAWLPRIO_WORKERS")):
            self._start()

    def _start(self) -> None:
        facts = {"at_once": self.at_once.most, "seeds": self._redirected_seeds}
        schema = from_worker(self._is_request, self.crawl.tables)
        self.live[LocalWorker(facts, schema, self._arrived, self._lost)] = None

    def has_room(self) -> bool:
        return bool(self.live) and self.coordinator.n_out < self.at_once.now

    def choose(self) -> Worker | None:
        return min(self.live, key=lambda each: len(each.leases), default=None)

    def _arrived(self, worker: Worker, statements: list[Statement]) -> None:
        if worker not in self.live:
            return
        worker.received_at = monotonic()
        n_leased = self.coordinator.n_leased
        try:
            for statement in statements:
                self._receive(worker, statement)
        except CrawlprioError as error:
            self.crawl.fail(error)
        if self.coordinator.n_leased < n_leased:
            self._n_futile = 0
        self.progressed()

    def _lost(self, worker: LocalWorker) -> None:
        """Queue the pages of a worker that has ended again, and start another in its place."""
        if worker not in self.live:
            return
        del self.live[worker]
        worker.kill()
        if self.is_ending and self.crawl.failure is not None:
            return
        try:
            self.coordinator.died(worker)
        except CrawlprioError as error:
            self.crawl.fail(error)
            return
        self._n_futile += 1
        if self._n_futile > MOST_FUTILE:
            self.crawl.fail(
                WorkersDied(
                    f"{MOST_FUTILE} workers in a row died before they had fetched a page; their "
                    "errors are logged above. Crawl without --workers to see more."
                )
            )
        elif not self.is_ending:
            logger.warning("A worker (%s) died; another takes its place.", worker.name)
            self.crawler.stats.inc_value("crawlprio/workers_died")
            self._start()
        self.progressed()

    def look_after(self) -> None:
        for worker in self._expired():
            worker.kill()  # its end is then noticed like any other

    async def drain(self, reason: str) -> None:
        while self.coordinator.n_out and self.live and self.crawl.failure is None:
            await sleep(LOOK_SECONDS)
        for worker in self.live:
            worker.send([["end", "finished"]])
        until = monotonic() + END_SECONDS
        while self.live and monotonic() < until:
            await sleep(LOOK_SECONDS)

    def close(self, reason: str) -> None:
        workers, self.live = self.live, {}
        for worker in workers:
            worker.kill()


class CoordinatorScheduler(Scheduler):
    """The scheduler of the process that has the frontier: it leases pages to workers.

    It obeys robots.txt and delays: a page is leased at the moment when it may be fetched. Sitemaps
    and page requisites are fetched here, as in a crawl with one process.
    """

    workers_class: type[Workers] = LocalWorkers

    def __init__(self, crawler: Crawler) -> None:
        super().__init__(crawler)
        self._workers = self.workers_class(self._crawl)
        self._alarm = engine.Alarm(self._workers.progressed)
        self._beat: Any = None

    def open(self, spider: Spider) -> None:
        crawl = self._crawl
        try:
            if crawl.failure is None:
                self._workers.join(spider)
        except CrawlprioError as error:
            crawl.refuse(error)
        super().open(spider)
        if crawl.failure is not None or self.dispatcher is None:
            return
        frontier = crawl.local_frontier
        assert frontier is not None
        self._frontier = frontier
        frontier.keeps_objects = False  # no worker could fetch them
        self._packing = RequestSerializer(self._crawler, frontier, crawl.config.kept_headers)
        self._workers.open(frontier)
        self._crawler.signals.connect(self._spider_opened, signal=signals.spider_opened)

    def _spider_opened(self) -> None:
        if self._crawl.failure is not None:
            return
        self._workers.begin()
        self._beat = heartbeat(self._workers.look_after, self._workers.lease_timeout)
        engine.before_closing(self._crawler, self._drain)

    async def _drain(self, reason: str) -> None:
        self._workers.is_ending = True
        await self._workers.drain(reason)

    def close(self, reason: str) -> None:
        self._workers.is_ending = True
        self._workers.close(reason)
        self._alarm.cancel()
        if self._beat is not None:
            self._beat.stop()
        super().close(reason)

    def has_pending_requests(self) -> bool:
        if self._workers.outlasts_pages or super().has_pending_requests():
            return True
        return self._crawl.worker_pool is not None and self._workers.coordinator.n_out > 0

    def next_request(self) -> Request | None:
        """Lease pages to workers; return None, as nothing is fetched here."""
        crawl, workers = self._crawl, self._workers
        if crawl.awaits_seeds or crawl.failure is not None or workers.is_ending:
            return None
        has_leased = False
        try:
            while workers.has_room():
                leased_page, request = self._frontier.next_page(monotonic()), None
                if leased_page is None:
                    self._alarm.set(self._frontier.ready_at())
                    break
                if leased_page.request is not None or workers.robots is not None:
                    request = self._packing.unpack(leased_page)
                site = site_of(request) if request else leased_page.site
                workers.at_once.fetch_from(site)
                if workers.permits(leased_page, request) and self._lease(
                    leased_page, site, request
                ):
                    has_leased = True
                    continue
                workers.coordinator.n_preparing += 1
                preparing = self._prepare(leased_page, site, request)
                deferred_from_coro(preparing).addErrback(workers.failed)
        except CrawlprioError as error:
            crawl.fail(error)
        if has_leased:
            workers.progressed()
        return None

    def _lease(self, leased_page: LeasedPage, site: str, request: Request | None) -> bool:
        """Lease a permitted page to a worker; return False if none may fetch it now."""
        workers = self._workers
        worker = workers.choose()
        if worker is None or not workers.coordinator.may_lease(site) or self._crawler.engine.paused:
            return False
        leased_page.usage = USAGES.get(request, "") if request else ""
        workers.coordinator.lease(worker, leased_page)
        return True

    async def _prepare(self, leased_page: LeasedPage, site: str, request: Request | None) -> None:
        """Lease a page to a worker once robots.txt and the delay of its site allow it."""
        workers = self._workers
        clock = self._frontier.clock
        try:
            cause = await workers.cause_against(request) if request else ""
            if cause:
                clock.not_fetched(site)
                refused = PageVisit(LinkPairs(leased_page.url, [], status=0), error=cause)
                self._frontier.observe(leased_page.lease, refused)
                return
            await clock.turn(
                site, lambda: workers.is_ending or self._lease(leased_page, site, request)
            )
            if workers.is_ending:
                clock.not_fetched(site)
                self._frontier.put_back(leased_page.lease)
        finally:
            workers.coordinator.n_preparing -= 1
            workers.progressed()
