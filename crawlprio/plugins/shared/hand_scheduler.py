"""The scheduler of a hand, and what a hand does besides fetching what the brain leases."""

from __future__ import annotations

import ctypes
import math
import os
import signal
import socket
import sys
from collections.abc import Sequence
from time import monotonic
from typing import TYPE_CHECKING, Any

from scrapy import Request, signals

from crawlprio.frontier.protocol import Frontier
from crawlprio.live import engine
from crawlprio.live.compiling import compile_reading
from crawlprio.live.leases import LeaseState
from crawlprio.live.page_reading import USAGES
from crawlprio.live.running import RunningCrawl
from crawlprio.live.workers import hand_facts
from crawlprio.orderings.base import Ordering
from crawlprio.plugins import load
from crawlprio.plugins.shared.hand_frontier import HandFrontier, Line
from crawlprio.plugins.shared.messages import ENDED, FETCHING, LINGER, Statement
from crawlprio.plugins.shared.shards import Shards
from crawlprio.plugins.shared.wires import adopted, beat
from crawlprio.schedulers import Scheduler
from crawlprio.settings_table.config import read_setting

if TYPE_CHECKING:
    from scrapy import Spider
    from scrapy.crawler import Crawler

_MERGED = ("crawlprio/cut/", "crawlprio/refused/", "downloader/", "retry/", "httpcompression/")
"""Counts of a hand's Scrapy that are added to the brain's, by how their names begin."""

_AHEAD = 4
"""Pages that a hand may have beyond those that it fetches, if it fetches as many at once."""

_SET_DEATH_SIGNAL = 1
"""PR_SET_PDEATHSIG: prctl(2)."""


class HandScheduler(Scheduler):
    """The scheduler of a hand, which fetches what brains lease until they end it."""

    loses_leases = False

    def __init__(self, crawler: Crawler) -> None:
        super().__init__(crawler)
        self._has_ended = False
        self._counts: dict[str, int] = {}
        self.shards = Shards()
        self._lines: list[Any] = []
        self._said: dict[int, list[Statement]] = {}
        self._sending = engine.Alarm(self._send)
        self._crawl.record_elsewhere()
        self._crawl.tell_brain = self._say
        self.make_frontier = self._make_frontier

    def _compile(self, ordering: Ordering) -> None:
        """Compile what reads pages; the brain has the frontier and the ordering."""
        if read_setting(self._crawler.settings, "CRAWLPRIO_COMPILE"):
            compile_reading()

    def _make_frontier(self, crawl: RunningCrawl) -> Frontier:
        loses = self.loses_leases
        self._frontier = HandFrontier(self.say_to, self.shards, loses_leases=loses)
        return self._frontier

    def _connect(self, lines: Sequence[Line], term: float, *, archives: bool) -> None:
        """Begin to speak with brains, of which each hears something ten times in a term."""
        if archives:
            self._archiver = load("archivers of hands", "CRAWLPRIO_WARC")(self._crawl)
        self._frontier.lines = self._lines = list(lines)
        self._beat = beat(self._sign_of_life, term)

    def next_request(self) -> Request | None:
        request = super().next_request()
        lease = None
        if request is not None and self._frontier.usages and self.dispatcher is not None:
            lease = self.dispatcher.leases.of(request)
        if request is not None and lease is not None:
            usage = self._frontier.usages.pop(lease.handout.lease, "")
            if usage:
                USAGES[request] = usage
        return request

    # What is said

    def _say(self, statement: Statement) -> None:
        """Say what concerns no site: to one brain, or to all if it is on the scope."""
        for shard in range(len(self.shards) if statement[0] == "scope" else 1):
            self.say_to(shard, statement)

    def say_to(self, shard: int, *statements: Statement) -> None:
        """Say something, or only what this hand has by now, to a brain."""
        self._said.setdefault(shard, []).extend(statements)
        self._send_soon(can_wait=bool(statements) and statements[0][0] == "clock")

    def _send_soon(self, *, can_wait: bool = False) -> None:
        """Send what was said, with what follows if that can wait or pages are here to fetch."""
        waits = (can_wait or self._frontier.leased) and self._n_wanted() > 1
        self._sending.set(monotonic() + LINGER if waits else -math.inf)

    def _send(self) -> None:
        """Send all that was said, and to all shards how many pages are wanted."""
        self._sending.cancel()
        before, said = self._frontier.shares, self._said
        self._said = {}
        is_new = self._frontier.share(self._n_wanted())
        for shard, line in enumerate(self._lines):
            if shard in said or (is_new and before[shard] != self._frontier.shares[shard]):
                line.say(said.get(shard, []))
        self._frontier.list_again(self._progress())

    def _progress(self) -> dict[int, int]:
        """Return how far each leased page is whose fetch has begun."""
        return {
            lease.handout.lease: FETCHING if lease.state is LeaseState.FETCHING else ENDED
            for lease in (() if self.dispatcher is None else self.dispatcher.leases)
            if lease.started_at is not None
        }

    def _n_wanted(self) -> int:
        """Return how many pages this worker wants in all: some ahead, if it fetches several."""
        at_once = 0.0 if self.dispatcher is None else self.dispatcher.at_once
        if self._has_ended or engine.is_closing(self._crawler) or at_once == 0:
            return 0
        at_once = min(at_once, 1000)
        return int(at_once + min(at_once // 4, _AHEAD))

    def _sign_of_life(self) -> None:
        """Say that this hand lives, and what its Scrapy has counted since."""
        grown = {}
        for name, count in self._crawler.stats.get_stats().items():
            if name.startswith(_MERGED) and isinstance(count, int):
                more = count - self._counts.get(name, 0)
                self._counts[name] = count
                if more:
                    grown[name] = more
        if grown:
            self._say(["stats", grown])
        self._send()
        for line in self._lines:
            if line.is_due:
                line.say([])

    # What is heard

    def _heard(self, shard: int, statements: list[Statement]) -> None:
        for statement in statements:
            self._hear(shard, statement)

    def _hear(self, shard: int, statement: Statement) -> None:
        if statement[0] == "end":
            self._has_ended = True
            engine.close_spider(self._crawler, statement[1])
        elif statement[0] == "scope":
            self._widen_scope(statement[1])
        else:
            self._frontier.received(shard, statement)

    def _widen_scope(self, url: str) -> None:
        """Follow links to a site that a seed redirects to."""
        scope = getattr(self._spider, "scope", None)
        if scope is not None:
            scope.add_seed(url)


class NearHandScheduler(HandScheduler):
    """The scheduler of a hand that the brain has started, on the same machine."""

    def open(self, spider: Spider) -> None:
        facts = hand_facts()
        assert facts is not None
        _die_with(facts["brain"])
        self._facts = facts
        super().open(spider)
        if self._crawl.failure is None:
            self._crawler.signals.connect(self._spider_opened, signal=signals.spider_opened)

    def _spider_opened(self) -> None:
        for url in self._facts["seeds"]:
            self._widen_scope(url)
        with socket.socket(fileno=self._facts["socket"]) as end:
            wire = adopted(end, lambda statements: self._heard(0, statements), self._lost)
        self._connect([wire], self._facts["term"], archives=self._facts["archives"])

    def close(self, reason: str) -> None:
        if self._lines:
            self._beat.stop()
            self._sign_of_life()
        super().close(reason)

    def add_seeds(self, urls: Sequence[str]) -> None:
        """Do nothing: the brain has the seeds."""

    def has_pending_requests(self) -> bool:
        return not self._has_ended or super().has_pending_requests()

    def _lost(self) -> None:
        """End at once if the brain is gone: nobody is left to report to."""
        if not self._has_ended:
            os._exit(1)


def _die_with(brain: int) -> None:
    """Be killed when the brain dies, even while stopped: a later run may fetch from its sites.

    Without Linux, a hand ends when it notices that its socket is closed.
    """
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(_SET_DEATH_SIGNAL, signal.SIGKILL)
    if os.getppid() != brain:
        os._exit(1)
