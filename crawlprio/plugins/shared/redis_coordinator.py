"""The coordinator of a crawl whose workers are anywhere: messages go through Redis."""

from __future__ import annotations

import json
import logging
import math
from collections.abc import AsyncIterator, Iterable
from time import monotonic
from typing import Any

from scrapy import Request, Spider
from scrapy.utils.asyncio import call_later
from scrapy.utils.defer import deferred_from_coro

from crawlprio.errors import CrawlprioError
from crawlprio.frontier.protocol import QueueEntry
from crawlprio.live import engine
from crawlprio.live.crawl_context import CrawlContext
from crawlprio.live.dispatch import site_of
from crawlprio.live.local_frontier import LocalFrontier
from crawlprio.plugins.shared.channels import CoordinatorChannel
from crawlprio.plugins.shared.coordinator import RemoteWorker, Worker
from crawlprio.plugins.shared.coordinator_scheduler import (
    END_SECONDS,
    LOOK_SECONDS,
    CoordinatorScheduler,
    Workers,
)
from crawlprio.plugins.shared.crawl_administration import status_report
from crawlprio.plugins.shared.handshake import (
    Election,
    JoinedCrawl,
    Recovery,
    difference,
    joining,
    values_of,
)
from crawlprio.plugins.shared.messages import (
    LINGER,
    WorkerMessage,
    coordinator_of,
    from_worker,
    skip,
)
from crawlprio.plugins.shared.redis_streams import Envelope, Fenced
from crawlprio.store import Store
from crawlprio.web.addresses import ALLOW_PRIVATE
from crawlprio.web.urls import host_if_any

logger = logging.getLogger("crawlprio")

_REPORT_SECONDS = 2.0
"""Seconds between two reports for `crawlprio frontier show`."""

_ALONE_SECONDS = 5.0
"""Seconds without any worker after which a coordinator that a worker started ends."""

PAUSED, DRAINING = "paused", "draining"

_OTHER_VERSION = (
    "The coordinator of the crawl cannot read a message of this worker; start all workers with the "
    "same version of crawlprio."
)


class RemoteWorkers(Workers):
    """Workers whose messages go through Redis.

    The crawl is in an ordinary job directory. The effects of messages are committed there together
    with the place in the streams up to which they were read, so each counts exactly once, whoever
    is killed.

    A coordinator that takes over leases nothing until each of the workers that are `silent` has
    listed its leases, or its lease timeout is over.
    """

    live: dict[RemoteWorker, None]
    outlasts_pages = True  # or the engine, which looks now and then, takes the crawl for finished
    recovery: Recovery
    _channel: CoordinatorChannel
    _store: Store

    def __init__(self, crawl: CrawlContext) -> None:
        super().__init__(crawl)
        self.silent: set[str] = set()
        self.is_closed = self._had_workers = self._is_fenced = self._has_joined = False
        self._state = ""
        self._reported_at = self._alone_since = monotonic()
        self._n_admitting = 0
        self._was_busy = True
        self._due: set[RemoteWorker] = set()
        self._answering = engine.Alarm(self._answer)

    def join(self, spider: Spider) -> None:
        with joining(self.crawl):
            joined = JoinedCrawl(self.crawl, spider)
            self._name = joined.name
            self._election = election = Election(self.crawl, joined)
            self._channel = CoordinatorChannel(
                *(joined.open, election.name, joined.seconds),
                arrived=self._arrived,
                state_changed=self._state_changed,
                failed=self._channel_failed,
            )
            self._has_joined = True
            self.crawl.parts.add(self)
            self._channel.begin()
            election.find_store()

    def open(self, frontier: LocalFrontier) -> None:
        super().open(frontier)
        store = self.crawl.recorder.store
        assert store is not None
        self._store = store
        self.permissions = Permissions(self)
        self.handlers |= {
            "add": self._add,
            "add_seeds": self._add_seeds,
            "hello": self._greet,
            "bye": self._forget,
        }
        self._schema = from_worker(self._is_request, self.crawl.tables)
        self._values = values_of(self.crawler.settings)
        with joining(self.crawl):
            self.recovery = self._election.recovery(store, self.coordinator)
            self._channel.crawl_id = self.recovery.crawl_id
            self.crawl.awaits_seeds = False

    def begin(self) -> None:
        workers = [*self.recovery.known.values()]
        self.silent = {worker.name for worker in workers}
        self._had_workers = bool(workers)
        self._alone_since = monotonic()
        for worker in workers:
            worker.received_at = monotonic()
            self.live[worker] = None
        if workers:
            logger.info("%s: asking %d workers for their leases.", self._name, len(workers))
        self._channel.listen(self._store.path, self.recovery.position)
        self._flush(workers)

    def has_room(self) -> bool:
        if self.silent or self._state or self._n_admitting:
            return False
        return sum(max(worker.room, 0) for worker in self.live) > self.coordinator.n_preparing

    def choose(self) -> Worker | None:
        if self.silent or self._n_admitting:
            return None
        worker = max(self.live, key=lambda each: each.room, default=None)
        return None if worker is None or worker.room <= 0 else worker

    def progressed(self) -> None:
        super().progressed()
        self._flush()

    def _arrived(self, envelopes: list[Envelope]) -> bool:
        """Carry out messages, and commit their effects with the place of the last one.

        Return False if this process receives nothing more.
        """
        received: dict[RemoteWorker, None] = {}
        if self.is_closed or self.crawl.failure is not None:
            return False
        try:
            with self._store.together(self.recovery.facts):
                for each in envelopes:
                    worker = self._receive_message(each)
                    if worker is not None:
                        received[worker] = None
                    self.recovery.position = each.place
                self.crawl.recorder.flush()
        except CrawlprioError as error:
            self.crawl.fail(error)
            return False
        self._channel.position = self.recovery.position
        n_wanted = sum(worker.wants for worker in self.recovery.known.values())
        self.frontier.leases.share_between(n_wanted)
        super().progressed()
        self._flush(received, monotonic() + LINGER if n_wanted > 1 else -math.inf)
        return True

    def _receive_message(self, envelope: Envelope) -> RemoteWorker | None:
        """Carry out one message; return its worker if an answer may be news to it."""
        if not (envelope.worker or envelope.body):
            return None
        try:
            worker, number, message = self.recovery.read(envelope, self._schema)
        except ValueError as error:
            skip(error)
            return None
        self.recovery.known[worker.name] = worker
        if worker.is_greeted:
            self.live[worker] = None
        worker.received_at = monotonic()
        is_next = number == worker.n_read + 1
        if number > worker.n_read or (not message.statements and message.clock > worker.echo):
            worker.wants, worker.echo = message.wants, max(worker.echo, message.clock)
            if worker.is_greeted and (is_next or number == worker.n_read):
                self._reconcile_leases(worker, message)
        if is_next:
            worker.n_read = number
            for statement in message.statements:
                if worker.is_greeted or statement[0] in ("hello", "bye"):
                    self._receive(worker, statement)
        elif worker.n_skipped == worker.n_read + 1 < number:  # it was the worker's own message
            worker.send([["refuse", _OTHER_VERSION]])
        is_news = number != worker.n_read or message.statements or message.leases or message.asks
        return worker if is_news or message.n_received != worker.n_sent else None

    def _reconcile_leases(self, worker: RemoteWorker, message: WorkerMessage) -> None:
        """Correct a worker's leases and permissions by the list in its message."""
        self.coordinator.reconcile_leases(worker, message.n_received, message.leases)
        self.permissions.reconcile(worker, message.asks)
        if coordinator_of(message.n_received) == self.recovery.epoch:
            self.silent.discard(worker.name)

    def _add(self, worker: Worker, entry: QueueEntry) -> None:
        if entry.is_seed:
            self._admit([host_if_any(entry.url)])
        self.frontier.add(entry)

    def _add_seeds(self, worker: Worker, urls: list[str]) -> None:
        self._admit(map(host_if_any, urls))
        self.frontier.add_seeds(urls)

    def _admit(self, hosts: Iterable[str | None]) -> None:
        """Open the private addresses of seeds before anything is fetched from them."""
        if not self.crawl.addresses.opens_seeds:
            return

        async def admit() -> None:
            self._n_admitting += 1
            try:
                await self.crawl.admit_seeds(list(filter(None, hosts)))
            finally:
                self._n_admitting -= 1
                self.progressed()

        deferred_from_coro(admit()).addErrback(self.failed)

    def _greet(self, worker: RemoteWorker, values: dict[str, str], scope: dict[str, Any]) -> None:
        """Greet a worker, or refuse it if it was started for another crawl."""
        self._had_workers = True
        if scope:
            self.recovery.scope = self.recovery.scope or scope
        sentence = difference(self._name, self._values, values, self.recovery.scope or {}, scope)
        if sentence:
            worker.send([["refuse", sentence]])
            return
        worker.is_greeted = True
        self.live[worker] = None
        worker.send([["scope", url] for url in self._redirected_seeds])

    def _forget(self, worker: RemoteWorker) -> None:
        self.permissions.reconcile(worker, [])
        for lease in [*worker.leases]:
            self.coordinator.put_back(worker, lease)
        self.live.pop(worker, None)
        self.recovery.known.pop(worker.name, None)
        self.silent.discard(worker.name)
        self._alone_since = monotonic()
        call_later(0, self.look_after)

    def _flush(self, workers: Iterable[RemoteWorker] = (), at: float = -math.inf) -> None:
        """Answer these workers, and all others for which there is something, at some time."""
        self._due.update(workers)
        self._answering.set(at)

    def _answer(self) -> None:
        self._answering.cancel()
        channel = self._channel
        if channel.is_closed or not channel.crawl_id:
            return
        status = self.coordinator.status()
        is_busy = bool(status[1] or status[2])
        is_news, self._was_busy = self._was_busy and not is_busy, is_busy
        due, self._due = self._due, set()
        answers = [
            (worker.name, worker.message(status))
            for worker in self.recovery.known.values()
            if worker.unsent or worker in due or is_news
        ]
        report = ""
        if monotonic() - self._reported_at >= _REPORT_SECONDS:
            self._reported_at = monotonic()
            report = json.dumps(status_report(self.crawl, self.coordinator, self.lease_timeout))
        if answers or report:
            channel.answer(answers, report)

    def _state_changed(self, state: str) -> None:
        if state not in ("", PAUSED, DRAINING):
            logger.error("%s has an unknown state in Redis: %.100r; ignored.", self._name, state)
            return
        self._state = state
        logger.info("%s is %s.", self._name, state or "resumed")
        if state == DRAINING:
            engine.close_spider(self.crawler, "drained")
        self.progressed()

    def _channel_failed(self, error: CrawlprioError) -> None:
        if isinstance(error, Fenced):
            self._is_fenced = True
            logger.warning(
                "%s: another process is its coordinator by now; this one ends.", self._name
            )
            engine.close_spider(self.crawler, "fenced")
        else:
            self.crawl.fail(error)

    def look_after(self) -> None:
        for worker in self._expired(was_down=self._channel.was_down()):
            self._give_up(worker)
        self._flush()
        if not (self.live or self.is_ending):
            self._end_alone()

    def _give_up(self, worker: RemoteWorker) -> None:
        """Queue the pages of a worker again; if it comes back, it learns which leases it lost."""
        del self.live[worker]
        self.silent.discard(worker.name)
        self.permissions.reconcile(worker, [])
        n_lost = len(worker.leases)
        try:
            with self._store.together(self.recovery.facts):
                self.coordinator.died(worker)
                self.crawl.recorder.flush()
        except CrawlprioError as error:
            self.crawl.fail(error)
        logger.warning("A worker (%s) is silent; its %d pages wait again.", worker.name, n_lost)
        self.crawler.stats.inc_value("crawlprio/workers_died")
        self._alone_since = monotonic()
        self.progressed()

    def _end_alone(self) -> None:
        """End once no worker is left: all was fetched, or nobody fetches."""
        status = self.coordinator.status()
        is_done = not (status[1] or status[2] or self._n_admitting)
        if self._had_workers and is_done:
            engine.close_spider(self.crawler, self.crawl.recorder.goal.enough or "finished")
        elif self._election.is_of_worker and monotonic() - self._alone_since > _ALONE_SECONDS:
            logger.info("%s: no worker is left; the crawl goes on once one is started.", self._name)
            engine.close_spider(self.crawler, "shutdown")

    async def drain(self, reason: str) -> None:
        if self._is_fenced or self.crawl.failure is not None:
            return
        # On "shutdown", a worker that is absent goes on with the next coordinator.
        for worker in [*(self.live if reason == "shutdown" else self.recovery.known.values())]:
            worker.send([["end", reason]])
        self._answer()
        until = monotonic() + max(END_SECONDS, self.lease_timeout)
        while self.live and monotonic() < until and not self._is_fenced:
            await engine.sleep(LOOK_SECONDS)

    def close(self, reason: str) -> None:
        self.is_closed = True
        self.live.clear()
        if self._has_joined and reason == "finished" and not self._read("SCHEDULER_PERSIST"):
            self._channel.absent = [*self.recovery.known]

    def ended(self) -> None:
        """Close the channel: once the store is closed, another process may be the coordinator."""
        self._channel.close(END_SECONDS)


class Permissions:
    """Permits workers' requests other than pages, such as media: each once its site is ready."""

    def __init__(self, workers: RemoteWorkers) -> None:
        self._workers, self._clock = workers, workers.frontier.clock
        self._outside = workers.coordinator.outside

    def reconcile(self, worker: RemoteWorker, asks: list[list[Any]]) -> None:
        """Start, repeat and end permissions, given all requests that a worker asks for."""
        for number, url, agent, may, site in asks:
            known = worker.outside.get(number)
            if site and not known:  # by an earlier coordinator
                self._permit(worker, number, site)
            elif known and not site:  # it may have missed the answer
                worker.send([["may", number, ""]])
            elif known is None:
                worker.outside[number] = ""
                answer = self._answer(worker, number, url, agent, may)
                deferred_from_coro(answer).addErrback(self._workers.failed)
        for number in worker.outside.keys() - {row[0] for row in asks}:
            site = worker.outside.pop(number)
            if site:
                self._outside[site] -= 1
                self._clock.hold(site, -1)
                self._clock.wake(site)

    async def _answer(
        self, worker: RemoteWorker, number: int, url: str, agent: str, may: bool
    ) -> None:
        request = Request(url, headers={"User-Agent": agent} if agent else {})
        if not may:
            request.meta[ALLOW_PRIVATE] = False
        workers, clock, site = self._workers, self._clock, site_of(request)
        may_fetch = workers.coordinator.may_fetch_outside

        def is_over() -> bool:
            return workers.is_closed or worker.outside.get(number) != ""

        cause = await workers.cause_against(request)
        if not cause:
            clock.hold(site)
            await clock.turn(site, lambda: is_over() or (not workers.silent and may_fetch(site)))
            clock.hold(site, -1)
        if is_over():
            return
        if cause:
            del worker.outside[number]
        else:
            self._permit(worker, number, site)
        worker.send([["may", number, cause]])
        workers.progressed()

    def _permit(self, worker: RemoteWorker, number: int, site: str) -> None:
        worker.outside[number] = site
        self._outside[site] += 1
        self._clock.hold(site)


class RedisCoordinatorScheduler(CoordinatorScheduler):
    """The scheduler of a coordinator that workers have elected, or that was started by itself."""

    workers_class = RemoteWorkers
    middlewares = (("SPIDER_MIDDLEWARES", f"{__name__}.NoStart", 0),)


class NoStart:
    """A spider middleware of coordinators, which leave start requests to workers."""

    async def process_start(self, start: AsyncIterator[Any]) -> AsyncIterator[Any]:
        """Yield nothing."""
        return
        yield
