"""The scheduler of a hand, and what a hand does besides fetching what the brain leases."""

from __future__ import annotations

import ctypes
import os
import signal
import socket
import sys
from collections.abc import Sequence

from scrapy import Request, Spider, signals
from scrapy.utils.asyncio import call_later

from crawlprio.frontier.protocol import Frontier
from crawlprio.live import engine
from crawlprio.live.hand_settings import hand_facts
from crawlprio.live.page_reading import USAGES
from crawlprio.live.running import RunningCrawl
from crawlprio.plugins import load
from crawlprio.plugins.shared.hand_frontier import HandFrontier
from crawlprio.plugins.shared.messages import Statement
from crawlprio.plugins.shared.wires import adopted, beat
from crawlprio.schedulers import Scheduler

_MERGED = ("crawlprio/cut/", "crawlprio/refused/", "downloader/", "retry/", "httpcompression/")
"""Counts of a hand's Scrapy that are added to the brain's, by how their names begin."""


_SET_DEATH_SIGNAL = 1
"""PR_SET_PDEATHSIG: prctl(2)."""


class HandScheduler(Scheduler):
    """The scheduler of a hand, which fetches what the brain leases until the brain ends it."""

    def open(self, spider: Spider) -> None:
        facts = hand_facts()
        assert facts is not None
        _die_with(facts["brain"])
        self._facts = facts
        self._spider = spider
        self._has_ended = False
        self._said: list[Statement] = []
        self._counts: dict[str, int] = {}
        self._crawl.record_elsewhere()
        self._crawl.tell_brain = self._say
        self._crawl.open_frontier(make=self._make_frontier)
        if self._crawl.failure is None:
            self._crawler.signals.connect(self._spider_opened, signal=signals.spider_opened)

    def _make_frontier(self, crawl: RunningCrawl) -> Frontier:
        self._frontier = HandFrontier(self._say)
        return self._frontier

    def _spider_opened(self) -> None:
        for url in self._facts["seeds"]:
            self._widen_scope(url)
        if self._facts["archives"]:
            self._archiver = load("archivers of hands", "CRAWLPRIO_WARC")(self._crawl)
        with socket.socket(fileno=self._facts["socket"]) as end:
            self._wire = adopted(end, self._heard, self._lost)
        self._beat = beat(self._sign_of_life, self._facts["term"])

    def close(self, reason: str) -> None:
        if hasattr(self, "_beat"):
            self._beat.stop()
            self._sign_of_life()
        super().close(reason)

    def add_seeds(self, urls: Sequence[str]) -> None:
        """Do nothing: the brain has the seeds."""

    def has_pending_requests(self) -> bool:
        return not self._has_ended or super().has_pending_requests()

    def next_request(self) -> Request | None:
        request = super().next_request()
        lease = None
        if request is not None and self._frontier.usages and self.dispatcher is not None:
            lease = self.dispatcher.lease_of(request)
        if request is not None and lease is not None:
            usage = self._frontier.usages.pop(lease.handout.lease, "")
            if usage:
                USAGES[request] = usage
        return request

    def _say(self, statement: Statement) -> None:
        """Send a statement, with all others of this turn of the event loop."""
        if not self._said:
            call_later(0, self._send)
        self._said.append(statement)

    def _send(self) -> None:
        said, self._said = self._said, []
        self._wire.say(said)

    def _sign_of_life(self) -> None:
        """Say that this hand lives, and what its Scrapy has counted since."""
        grown = self._newly_counted()
        self._wire.say([["stats", grown]] if grown else [])

    def _newly_counted(self) -> dict[str, int]:
        """Return what Scrapy has counted since the last call."""
        grown = {}
        for name, count in self._crawler.stats.get_stats().items():
            if name.startswith(_MERGED) and isinstance(count, int):
                more = count - self._counts.get(name, 0)
                self._counts[name] = count
                if more:
                    grown[name] = more
        return grown

    def _heard(self, statements: list[Statement]) -> None:
        for statement in statements:
            if statement[0] == "end":
                self._has_ended = True
                engine.close_spider(self._crawler, "finished")
            elif statement[0] == "scope":
                self._widen_scope(statement[1])
            else:
                self._frontier.received(statement)

    def _widen_scope(self, url: str) -> None:
        """Follow links to a site that a seed redirects to."""
        scope = getattr(self._spider, "scope", None)
        if scope is not None:
            scope.add_seed(url)

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
