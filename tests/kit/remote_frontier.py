"""A frontier in another process that answers late, like a frontier in Redis.

The other process has its own frontier and executes what it is sent, in order. A thread here talks
to it, so nobody waits for an answer.
"""

from __future__ import annotations

import math
import multiprocessing
import queue
import threading
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from multiprocessing.connection import Connection
from time import monotonic, sleep
from typing import Any

from scrapy.utils.test import get_crawler

from crawlprio.frontier.protocol import Entry, Handout, PageVisit
from crawlprio.live.local_frontier import LocalFrontier
from crawlprio.live.recorder import Recorder
from crawlprio.live.requests import Identities
from crawlprio.live.running import RunningCrawl
from crawlprio.schedulers import Scheduler
from crawlprio.settings_table.config import CrawlConfig

LATE = 0.005
"""Seconds until an answer arrives."""


def local_frontier(
    settings: Mapping[str, Any],
    truth: Callable[[str], float] | None = None,
    refused: Callable[[str], object] = lambda reason: None,
) -> LocalFrontier:
    """Return a frontier in this process that records nothing, and computes keys at once."""
    crawler = get_crawler(settings_dict={**settings, "CRAWLPRIO_STORE": None})
    config = CrawlConfig.from_settings(crawler.settings)
    recorder = Recorder(config, Identities(crawler), refused=lambda rule, _: refused(rule))
    frontier = LocalFrontier(config, recorder, truth=truth)
    frontier.queue.recompute = lambda work: frontier.queue.accept(work())
    return frontier


def serve(connection: Connection, settings: Mapping[str, Any]) -> None:
    """Execute what is sent to a frontier, until None is sent."""
    frontier = local_frontier(settings)
    while (call := connection.recv()) is not None:
        sleep(LATE)
        name, arguments, keywords = call
        if name == "next_page":  # by the clock on this side, which has moved on by now
            arguments = (max(*arguments, monotonic()),)
        target: Any = frontier
        for part in name.split("."):
            target = getattr(target, part)
        result = target(*arguments, **keywords)
        connection.send((result, len(frontier), frontier.ready_at(), frontier.n_links))


class RemoteClock:
    """Reports what becomes of fetches; the times are kept on the other side."""

    def __init__(self, tell: Callable[..., None]) -> None:
        self._tell = tell

    def next_start(self, site: str) -> float:
        return -math.inf

    def has_room(self, site: str) -> bool:
        return True

    def may_send(self, site: str) -> bool:
        return True

    def hold(self, site: str, n_fetches: int = 1) -> None:
        self._tell("clock.hold", site, n_fetches)

    def not_fetched(self, site: str) -> None:
        self._tell("clock.not_fetched", site)

    def started(self, site: str, *, was_handed_out: bool) -> float:
        self._tell("clock.started", site, was_handed_out=was_handed_out)
        return math.inf

    def ended(self, site: str, **said: Any) -> None:
        self._tell("clock.ended", site, **said)

    def obey_crawl_delay(self, site: str, seconds: float) -> float:
        self._tell("clock.obey_crawl_delay", site, seconds)
        return seconds


class RemoteFrontier:
    """`crawlprio.frontier.protocol.Frontier` whose pages are in another process.

    Parameters
    ----------
    settings
        of the crawl.
    deliver
        calls a function in the thread of the crawl.
    """

    carries_json_only = True
    keeps_objects = False
    loses_leases = False

    def __init__(
        self, settings: Mapping[str, Any], deliver: Callable[[Callable[[], None]], object]
    ) -> None:
        self.on_ready: Callable[[], object] = lambda: None
        self.on_lost: Callable[[int], object] = lambda lease: None
        self.n_links = 0
        self.clock = RemoteClock(self._tell)
        self._deliver = deliver
        self._n_waiting = 0
        self._ready_at = math.inf
        self._handouts: deque[Handout] = deque()
        self._n_unanswered = 0
        self._is_asking = False
        self._has_news = True
        context = multiprocessing.get_context("spawn")
        self._connection, other = context.Pipe()
        self._process = context.Process(target=serve, args=(other, dict(settings)), daemon=True)
        self._process.start()
        self._calls: queue.Queue[Any] = queue.Queue()
        self._thread = threading.Thread(target=self._talk, daemon=True)
        self._thread.start()

    def __len__(self) -> int:
        return self._n_waiting

    @property
    def is_busy(self) -> bool:
        return self._n_unanswered > 0 or bool(self._handouts)

    def figures(self) -> dict[str, int]:
        return {}

    def is_duplicate(self, identity: str) -> bool:
        return False

    def add(self, entry: Entry) -> None:
        assert entry.request is None or isinstance(entry.request, bytes)
        self._tell("add", entry)

    def add_seeds(self, urls: Sequence[str]) -> None:
        self._tell("add_seeds", list(urls))

    def next_page(self, now: float) -> Handout | None:
        if self._handouts:
            return self._handouts.popleft()
        if not self._is_asking and (self._has_news or now >= self._ready_at):
            self._is_asking = True
            self._tell("next_page", now)
            self._has_news = False
        return None

    def holds(self, lease: int) -> bool:
        return True

    def release_site(self, lease: int) -> None:
        self._tell("release_site", lease)

    def observe(self, lease: int, visit: PageVisit) -> None:
        self._tell("observe", lease, visit)

    def put_back(
        self, lease: int, request: object | None = None, priority: int | None = None
    ) -> None:
        self._tell("put_back", lease, request, priority)

    def ready_at(self) -> float:
        return math.inf if self._n_unanswered else self._ready_at

    def close(self) -> None:
        self._calls.put(None)
        self._thread.join(10.0)
        self._process.join(10.0)

    def _tell(self, name: str, *arguments: Any, **keywords: Any) -> None:
        self._has_news = True
        self._n_unanswered += 1
        self._calls.put((name, arguments, keywords))

    def _talk(self) -> None:
        """Send one call after another, and deliver the answers."""
        while True:
            call = self._calls.get()
            self._connection.send(call)
            if call is None:
                return
            answer = self._connection.recv()
            self._deliver(lambda call=call, answer=answer: self._answered(call[0], *answer))

    def _answered(
        self, name: str, result: Any, n_waiting: int, ready_at: float, n_links: int
    ) -> None:
        self._n_unanswered -= 1
        self._n_waiting, self._ready_at, self.n_links = n_waiting, ready_at, n_links
        if name == "next_page":
            self._is_asking = False
            if result is not None:
                self._handouts.append(result)
        self.on_ready()


class RemoteScheduler(Scheduler):
    """crawlprio's scheduler over a frontier in another process."""

    def make_frontier(self, crawl: RunningCrawl) -> RemoteFrontier:  # type: ignore[override]
        from twisted.internet import reactor

        running: Any = reactor
        names = ("ORDERING", "CONCURRENT_REQUESTS", "DOWNLOAD_DELAY")
        settings = {name: self._crawler.settings[name] for name in names}
        return RemoteFrontier(settings, running.callFromThread)


class SettledRemote(RemoteFrontier):
    """A remote frontier whose caller waits for each answer, for tests of the answers."""

    def __init__(self, settings: Mapping[str, Any]) -> None:
        self._answers: queue.Queue[Callable[[], None]] = queue.Queue()
        super().__init__(settings, self._answers.put)

    def settle(self) -> None:
        """Wait until everything sent so far is done."""
        until = monotonic() + 30.0
        while self._n_unanswered:
            self._answers.get(timeout=max(until - monotonic(), 0.0))()

    def _tell(self, name: str, *arguments: Any, **keywords: Any) -> None:
        super()._tell(name, *arguments, **keywords)
        self.settle()

    def next_page(self, now: float) -> Handout | None:
        found = super().next_page(now)
        return super().next_page(now) if found is None else found
