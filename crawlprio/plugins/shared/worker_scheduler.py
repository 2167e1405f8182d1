"""The scheduler of a worker, and its messages to the coordinator."""

from __future__ import annotations

import ctypes
import math
import os
import signal
import socket
import sys
from collections.abc import Callable, Sequence
from functools import partial
from time import monotonic
from typing import Any

from scrapy import Spider, signals
from scrapy.crawler import Crawler

from crawlprio.frontier.protocol import Frontier
from crawlprio.live import engine
from crawlprio.live.downloader import observe_fetches
from crawlprio.live.leases import LeaseState
from crawlprio.live.request_json import is_request
from crawlprio.live.roles import WORKER, facts_of
from crawlprio.plugins import ADDED, load
from crawlprio.plugins.shared.messages import (
    ENDED,
    FETCHING,
    LINGER,
    MERGED,
    Schema,
    Statement,
    from_coordinator,
)
from crawlprio.plugins.shared.socket_transport import adopted, heartbeat
from crawlprio.plugins.shared.worker_frontier import WorkerFrontier
from crawlprio.schedulers import Scheduler
from crawlprio.settings_table.config import read_setting

_AHEAD = 4
"""Pages that a worker may have beyond those that it fetches, if it fetches as many at once."""

_SET_DEATH_SIGNAL = 1
"""PR_SET_PDEATHSIG: prctl(2)."""


class WorkerScheduler(Scheduler):
    """The scheduler of a worker, which fetches what the coordinator leases until it ends it."""

    loses_leases = False
    _spider_opened: Callable[[], None]
    """Connects to the coordinator."""

    def __init__(self, crawler: Crawler) -> None:
        super().__init__(crawler)
        self._has_ended = False
        self._counts: dict[str, int] = {}
        self._line: Any = None
        self._unsent: list[Statement] | None = None
        self._n_asked_for = 0
        self._begun: frozenset[int] = frozenset()
        self._sending = engine.Alarm(self._send)
        self._crawl.is_recorded_elsewhere = True
        self._crawl.tell_coordinator = self.say

    def open(self, spider: Spider) -> None:
        super().open(spider)
        if self._crawl.failure is None:
            self._crawler.signals.connect(self._spider_opened, signal=signals.spider_opened)

    def make_frontier(self) -> Frontier:
        self._frontier = WorkerFrontier(self.say, self._crawl.tables)
        self._frontier.loses_leases = self.loses_leases
        return self._frontier

    @property
    def _schema(self) -> Schema:
        assert self._spider is not None
        return from_coordinator(partial(is_request, spider=self._spider))

    def _connect(self, line: Any) -> None:
        """Start the exchange of messages with the coordinator."""
        read = partial(read_setting, self._crawl.asked_for)
        for name in ADDED["parts of workers"]:
            if read(name) is not None:
                observe_fetches(self._crawler, load("parts of workers", name)(self._crawl))
        self._frontier.line = self._line = line
        self._beat = heartbeat(self._heartbeat, read("CRAWLPRIO_LEASE_SECONDS"))

    def say(self, *statements: Statement) -> None:
        """Send statements to the coordinator; without any, only what this worker has by now."""
        if self._unsent is None:
            self._unsent = []
        self._unsent += statements
        # The start of a fetch is sent at once: the coordinator must know if this worker dies of it.
        can_wait = bool(statements) and statements[0][0] in ("ended", "not_fetched")
        # Others go together with later ones if there are pages here to fetch.
        waits = (can_wait or self._frontier.leased) and self._n_wanted() > 1
        self._sending.set(monotonic() + LINGER if waits else -math.inf)

    def _send(self) -> None:
        """Send all statements, and how many pages are wanted."""
        self._sending.cancel()
        progress = self._progress()
        begun = [["begun", lease] for lease in progress.keys() - self._begun]
        self._begun = frozenset(progress)
        unsent, self._unsent = self._unsent, None
        n_told, self._n_asked_for = self._n_asked_for, self._n_wanted()
        if self._line is not None and (unsent is not None or begun or n_told != self._n_asked_for):
            self._line.say([*(unsent or ()), *begun])
        self._frontier.list_again(progress)

    def _progress(self) -> dict[int, int]:
        """Return how far each leased page is whose fetch has begun."""
        return {
            lease.leased_page.lease: FETCHING if lease.state is LeaseState.FETCHING else ENDED
            for lease in (() if self.dispatcher is None else self.dispatcher.leases)
            if lease.started_at is not None
        }

    def _n_wanted(self) -> int:
        """Return how many pages this worker wants in all: some ahead, if it fetches several."""
        at_once = 0.0 if self.dispatcher is None else self.dispatcher.at_once.now
        if self._has_ended or engine.is_closing(self._crawler) or at_once == 0:
            return 0
        at_once = min(at_once, 1000)
        return int(at_once + min(at_once // 4, _AHEAD))

    def _heartbeat(self) -> None:
        """Send a heartbeat if it is due, and what Scrapy's stats have grown by since the last."""
        grown = {}
        for name, count in self._crawler.stats.get_stats().items():
            if name.startswith(MERGED) and isinstance(count, int):
                more = count - self._counts.get(name, 0)
                self._counts[name] = count
                if more:
                    grown[name] = more
        if grown:
            self.say(["stats", grown])
        self._send()
        if self._line is not None and self._line.is_due:
            self._line.say([])

    def _arrived(self, statements: list[Statement]) -> None:
        for statement in statements:
            self._receive(statement)

    def _receive(self, statement: Statement) -> None:
        if statement[0] == "end":
            self._has_ended = True
            engine.close_spider(self._crawler, statement[1])
        elif statement[0] == "scope":
            self._widen_scope(statement[1])
        else:
            self._frontier.received(statement)

    def _widen_scope(self, url: str) -> None:
        """Follow links to a site that a seed redirects to."""
        scope = getattr(self._spider, "scope", None)
        if scope is not None:
            scope.add_seed(url)


class LocalWorkerScheduler(WorkerScheduler):
    """The scheduler of a worker that the coordinator has started, on the same machine."""

    def open(self, spider: Spider) -> None:
        facts = facts_of(WORKER)
        assert facts is not None
        _die_with(facts["coordinator"])
        self._facts = facts
        super().open(spider)

    def _spider_opened(self) -> None:
        for url in self._facts["seeds"]:
            self._widen_scope(url)
        with socket.socket(fileno=self._facts["socket"]) as end:
            self._connect(adopted(end, self._schema, self._arrived, self._lost))

    def close(self, reason: str) -> None:
        if self._line is not None:
            self._beat.stop()
            self._heartbeat()
        super().close(reason)

    def add_seeds(self, urls: Sequence[str]) -> None:
        """Do nothing: the coordinator has the seeds."""

    def has_pending_requests(self) -> bool:
        return not self._has_ended or super().has_pending_requests()

    def _lost(self) -> None:
        """End at once if the coordinator is gone: nobody is left to report to."""
        if not self._has_ended:
            os._exit(1)


def _die_with(coordinator: int) -> None:
    """Be killed when the coordinator dies, even while stopped: a later run may fetch its pages.

    Other systems than Linux cannot; there a worker ends when its socket is closed.
    """
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(_SET_DEATH_SIGNAL, signal.SIGKILL)
    if os.getppid() != coordinator:
        os._exit(1)
