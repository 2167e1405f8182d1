"""A worker that gets its pages through Redis, and starts the coordinator if there is none."""

from __future__ import annotations

import logging
import os
import random
import socket
import subprocess
from contextlib import suppress
from functools import partial
from time import monotonic
from typing import Any
from uuid import uuid4

from redis.exceptions import RedisError
from scrapy import Request, Spider
from scrapy.crawler import Crawler
from scrapy.dupefilters import BaseDupeFilter, RFPDupeFilter
from scrapy.exceptions import IgnoreRequest
from scrapy.http import Response
from scrapy.utils.asyncio import run_in_thread
from scrapy.utils.defer import deferred_from_coro, maybe_deferred_to_future
from twisted.internet.defer import Deferred

from crawlprio.errors import ConfigError, printable
from crawlprio.live.crawl_context import CrawlComponent, CrawlContext
from crawlprio.live.dispatch import site_of
from crawlprio.live.roles import COORDINATOR, WorkersDied
from crawlprio.plugins.shared.channels import ABORT_SHARE, RedisTransport, WorkerChannel
from crawlprio.plugins.shared.coordinator_scheduler import END_SECONDS
from crawlprio.plugins.shared.handshake import (
    COORDINATOR_SECONDS,
    JoinedCrawl,
    joining,
    scope_of,
    values_of,
)
from crawlprio.plugins.shared.messages import Statement
from crawlprio.plugins.shared.socket_transport import boot_time, heartbeat, started_again
from crawlprio.plugins.shared.start_urls import StartUrls
from crawlprio.plugins.shared.worker_scheduler import WorkerScheduler
from crawlprio.settings_table.config import read_setting
from crawlprio.web.addresses import ALLOW_PRIVATE

logger = logging.getLogger("crawlprio")

_MOST_FAILURES = 3
"""Coordinators that may fail, one after the other, before a worker gives up."""

_WARN_SECONDS = 10.0
"""Seconds without a coordinator after which a worker warns."""


class RedisWorkerScheduler(WorkerScheduler):
    """The scheduler of a worker whose crawl is shared through Redis.

    `CRAWLPRIO_FRONTIER = "redis"` with CRAWLPRIO_COORDINATOR selects it under the add-on.
    REDIS_URL, REDIS_PARAMS, SCHEDULER_PERSIST and SCHEDULER_FLUSH_ON_START have the meaning that
    scrapy-redis gives them. A worker ends once nothing is waiting and no worker has a page.
    """

    loses_leases = True
    middlewares = (("DOWNLOADER_MIDDLEWARES", f"{__name__}.CoordinatorPermission", 100),)
    _is_late = _is_confirming = False

    def open(self, spider: Spider) -> None:
        crawl = self._crawl
        if crawl.failure is None:
            with joining(crawl):  # before anything else can fail
                self._joined = JoinedCrawl(crawl, spider, deletes=True)
                self._lease_timeout = self._joined.lease_timeout
        super().open(spider)
        if self.dispatcher is not None:
            self.dispatcher.takes_seeds = True

    def _spider_opened(self) -> None:
        joined = self._joined
        if self._crawl.failure is not None:
            return
        self._n_asked_for = self._n_wanted()
        name = f"{socket.gethostname()}:{os.getpid()}:{uuid4().hex[:12]}"
        transport = RedisTransport(joined.open, name, self._crawl.fail)
        channel = WorkerChannel(
            transport, self._lease_timeout, self._schema, has=self._has, arrived=self._arrived
        )
        transport.begin()
        channel.say([["hello", values_of(self._crawl.asked_for), scope_of(self._spider)]])
        self._connect(channel)
        self._starter = CoordinatorStarter(self._crawler, joined, channel)
        self._watch = heartbeat(self._look, joined.seconds)
        self._read_start_urls()

    def _read_start_urls(self) -> None:
        """Read start URLs that others push to Redis; spiders of scrapy-redis read their own."""
        read = partial(read_setting, self._crawler.settings)
        key, spider = read("REDIS_START_URLS_KEY"), self._spider
        assert spider is not None
        if key is None or hasattr(spider, "redis_key"):
            return
        urls = StartUrls(
            self._crawler,
            self._joined.open().client,
            key % {"name": spider.name},
            batch_size=read("REDIS_START_URLS_BATCH_SIZE") or self._crawl.config.concurrency or 16,
            max_idle=read("MAX_IDLE_TIME_BEFORE_CLOSE"),
        )
        urls.begin()

    @property
    def _permission(self) -> CoordinatorPermission:
        found = self._crawler.get_downloader_middleware(CoordinatorPermission)
        assert isinstance(found, CoordinatorPermission)
        return found

    def _has(self) -> tuple[int, list[Any], list[Any]]:
        """Return WANTS, LEASES and ASKS of a message."""
        return self._n_asked_for, self._frontier.listed(), self._permission.asks()

    def _look(self) -> None:
        """Check that there is a coordinator, and that no lease is about to expire."""
        if self._crawl.failure is not None:
            self._permission.answered(None, "the crawl has failed")
        self._starter.look()
        if boot_time() > self._line.reached_at + ABORT_SHARE * self._lease_timeout:
            self._frontier.abort([*self._frontier.held])  # may be others' soon

    def has_pending_requests(self) -> bool:
        if self._has_ended or self._line is None:
            return self.dispatcher is not None and len(self.dispatcher.leases) > 0
        is_pending = super().has_pending_requests() or self._frontier.n_out > 0
        if not (is_pending or self._is_confirming):
            self._is_confirming = is_pending = True
            self._line.say([["stats", {}]])  # to be answered: the coordinator may have been killed
        return is_pending

    def _receive(self, statement: Statement) -> None:
        kind, *values = statement
        if kind == "may":
            self._permission.answered(*values)
        elif kind == "refuse":
            self._crawl.fail(ConfigError(values[0]))
        else:
            self._is_confirming = self._is_confirming and kind != "lease"
            if kind == "end":
                self._frontier.put_all_back()
                if values[0] == "finished" and not self._is_late:
                    self._is_late = True
                    logger.warning(
                        "The crawl %r has finished without this worker, which ends; start it again "
                        "to begin a new crawl.",
                        self._joined.name,
                    )
            super()._receive(statement)

    def close(self, reason: str) -> None:
        channel = self._line
        if channel is None:
            super().close(reason)
            return
        frontier = self._frontier
        self._has_ended = True
        self._beat.stop()
        self._watch.stop()
        frontier.put_all_back()
        for lease in [*frontier.held]:
            frontier.put_back(lease)
        self._heartbeat()
        self.say(["bye"])
        self._send()
        super().close(reason)
        if not channel.transport.close(END_SECONDS):
            logger.warning(
                "Redis did not take the last messages of this worker; its last pages are fetched "
                "again."
            )
        elif self._is_late:
            with suppress(RedisError):
                self._joined.streams.forget_late(channel.transport.name)

    def _warn_not_resumed(self) -> None:
        """Do nothing: the coordinator has the crawl, whatever JOBDIR holds."""

    def dupefilter_class(self) -> type[BaseDupeFilter]:
        """Ignore scrapy-redis's dupefilter, since the frontier deduplicates."""
        found = super().dupefilter_class()
        return RFPDupeFilter if found.__module__.startswith("scrapy_redis.") else found


class CoordinatorPermission(CrawlComponent):
    """A downloader middleware of workers: asks for requests without a lease, such as media.

    The coordinator obeys robots.txt and delays for all workers. Each message lists a request from
    when it is asked for until it has ended.
    """

    def __init__(self, crawler: Crawler) -> None:
        super().__init__(crawler)
        self._n_asked = 0
        self._asks: dict[Request, tuple[list[Any], Deferred[str]]] = {}

    @property
    def _scheduler(self) -> Any:
        return self._crawler.engine.scheduler

    async def process_request(self, request: Request) -> None:
        """Wait for permission; raise `IgnoreRequest` if there is none."""
        if self._crawl.lease_of(request):
            return
        self._n_asked += 1
        agent = (request.headers.get("User-Agent") or b"").decode("latin-1")
        may = request.meta.get(ALLOW_PRIVATE, True)
        ask, answer = [self._n_asked, request.url, agent, may, ""], Deferred[str]()
        self._asks[request] = ask, answer
        self._scheduler.say()
        cause = await maybe_deferred_to_future(answer)
        if cause:
            self._done(request)
            raise IgnoreRequest(cause)
        ask[-1] = site_of(request)

    def process_response(self, request: Request, response: Response) -> Response:
        self._done(request)
        return response

    def process_exception(self, request: Request, exception: Exception) -> None:
        self._done(request)

    def _done(self, request: Request) -> None:
        if self._asks.pop(request, None) is not None:
            self._scheduler.say()

    def asks(self) -> list[list[Any]]:
        """Return ASKS of a message."""
        return [ask for ask, _ in self._asks.values()]

    def answered(self, number: int | None, cause: str) -> None:
        """Send a request, or all if no number is given, unless there is a cause against it."""
        for ask, answer in [*self._asks.values()]:
            if number in (None, ask[0]) and not answer.called:
                answer.callback(cause)


class CoordinatorStarter:
    """Starts a coordinator, a process with the command line of this one, whenever there is none.

    If several workers do so at once, the server elects one, and the others' exit. A coordinator
    outlives the worker that started it. A crawl that had a coordinator, and is no longer in Redis,
    gets none: it would be a new crawl.
    """

    def __init__(self, crawler: Crawler, joined: JoinedCrawl, channel: WorkerChannel) -> None:
        self._crawl = CrawlContext.of(crawler)
        self._joined, self._name = joined, joined.name
        self._channel = channel
        self._stands = read_setting(crawler.settings, "CRAWLPRIO_COORDINATOR") == "auto"
        self._process: subprocess.Popen[bytes] | None = None
        self._is_looking = False
        self._n_failures = 0
        self._missing_since: float | None = None
        self._has_warned = self._has_warned_where = False
        self._next_at = 0.0
        self.look()

    def look(self) -> None:
        """Check whether there is a coordinator."""
        if not self._is_looking:
            self._is_looking = True
            deferred_from_coro(self._look()).addErrback(
                lambda failure: logger.error("The election failed: %s", failure.getTraceback())
            )

    async def _look(self) -> None:
        try:
            facts = await run_in_thread(self._facts_without_coordinator)
        except (RedisError, OSError):
            return
        finally:
            self._is_looking = False
        now = monotonic()
        if self._process is not None:
            status = self._process.poll()
            if status is not None:
                self._process = None
                self._ended(status)
        if facts is None:
            self._missing_since, self._has_warned = None, False
            return
        self._missing_since = now if self._missing_since is None else self._missing_since
        if now - self._missing_since > _WARN_SECONDS and not self._has_warned:
            self._has_warned = True
            logger.warning("The crawl %r has no coordinator; waiting for one.", self._name)
        if self._channel.n_received and not facts.get("id"):
            if now - self._missing_since > COORDINATOR_SECONDS:
                self._crawl.fail(
                    WorkersDied(
                        f"The crawl {self._name!r} is not in Redis any more, and no process is its "
                        "coordinator: it was deleted, or has finished, or the server has lost it. "
                        "Start this worker again to begin a new crawl, or with the JOBDIR of this "
                        "one to resume it."
                    )
                )
        elif self._stands and now >= self._next_at and self._process is None:
            self._start_here(facts)

    def _facts_without_coordinator(self) -> dict[str, str] | None:
        """Return the facts of the crawl in Redis if it has no coordinator."""
        streams = self._joined.streams
        return None if streams.coordinator() else streams.facts()

    def _start_here(self, facts: dict[str, str]) -> None:
        """Start a coordinator if this machine has the store of the crawl, or none is there yet."""
        if facts.get("id") and not self._joined.store.exists():
            if not self._has_warned_where:
                self._has_warned_where = True
                logger.warning(
                    "The crawl %r has its pages in %s on %s, which is not here: this worker "
                    "fetches, but cannot start a coordinator.",
                    *(self._name, *(printable(facts.get(key)) for key in ("folder", "host"))),
                )
        else:
            role = {"crawl": self._name, "name": uuid4().hex, "worker": os.getpid()}
            self._process = started_again(COORDINATOR, role)

    def _ended(self, status: int) -> None:
        self._next_at = monotonic() + random.uniform(0.1, 1.0)
        self._n_failures = self._n_failures + 1 if status > 0 else 0
        if self._n_failures >= _MOST_FAILURES:
            self._crawl.fail(
                WorkersDied(
                    f"The coordinator of this crawl failed {_MOST_FAILURES} times; see above."
                )
            )
