"""A worker that fetches what a brain leases to it through Redis, and that elects the brain."""

from __future__ import annotations

import json
import logging
import os
import random
import socket
import subprocess
import sys
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from time import monotonic
from typing import TYPE_CHECKING, Any
from uuid import uuid4

from redis.exceptions import RedisError
from scrapy import Request, signals
from scrapy.dupefilters import BaseDupeFilter, RFPDupeFilter
from scrapy.exceptions import IgnoreRequest
from scrapy.utils.asyncio import run_in_thread
from scrapy.utils.defer import deferred_from_coro, maybe_deferred_to_future
from twisted.internet.defer import Deferred

from crawlprio.errors import ConfigError, CrawlprioError
from crawlprio.frontier.protocol import Frontier, Handout, PageVisit
from crawlprio.live import engine
from crawlprio.live.dispatch import site_of
from crawlprio.live.hand_settings import BRAIN_VARIABLE, brain_folder
from crawlprio.live.leases import LeaseState
from crawlprio.live.running import Callbacks, RunningCrawl
from crawlprio.live.workers import WorkersDied
from crawlprio.plugins import load
from crawlprio.plugins.shared.brain_scheduler import check_limits
from crawlprio.plugins.shared.connection import share_seeds
from crawlprio.plugins.shared.hand_frontier import HandFrontier
from crawlprio.plugins.shared.hand_scheduler import HandScheduler
from crawlprio.plugins.shared.mailbox import Mailbox
from crawlprio.plugins.shared.messages import ENDED, FETCHING, Statement, request_text, visit_row
from crawlprio.plugins.shared.post import ABORT_SHARE, HandPost
from crawlprio.plugins.shared.redis_brain import brain_seconds, checked_mailbox, open_mailbox
from crawlprio.plugins.shared.same_crawl import scope_of, values_of
from crawlprio.plugins.shared.start_urls import StartUrls
from crawlprio.plugins.shared.wires import beat, boot_time
from crawlprio.schedulers import Scheduler
from crawlprio.settings_table.config import read_setting
from crawlprio.web.addresses import ALLOW_PRIVATE

if TYPE_CHECKING:
    from scrapy import Spider
    from scrapy.crawler import Crawler
    from scrapy.http import Response

logger = logging.getLogger("crawlprio")

_AHEAD = 4
"""Pages that a hand may have beyond those that it fetches, if it fetches as many at once."""

_MOST_FAILURES = 3
"""Brains that may end, one after the other, before any of them has answered."""

_CLOSE_SECONDS = 10.0
"""Seconds for which a worker that ends waits for Redis."""

_SAID_AFTER = 10.0
"""Seconds without a brain after which a worker says so."""


class FarFrontier(HandFrontier):
    """A hand's frontier whose leases may be lost: to time, or to another hand.

    Attributes
    ----------
    held
        the keys of the pages that this hand has, by lease.
    """

    loses_leases = True

    def __init__(self, crawl: RunningCrawl) -> None:
        assert crawl.tell_brain is not None
        super().__init__(crawl.tell_brain)
        self._crawl = crawl
        self.post: HandPost | None = None
        self.held: dict[int, Any] = {}

    @property
    def is_busy(self) -> bool:  # type: ignore[override]
        return self.post is None or not self.post.is_heard

    def __len__(self) -> int:
        return super().__len__() + self.n_out

    def received(self, statement: Statement) -> None:
        super().received(statement)
        kind, *said = statement
        if kind == "lease":
            handout, _, key = said
            self.held[handout[0]] = key
        elif kind == "lost":
            self._lose(list(self.held) if said[0] is None else said[0])
        self.on_ready()

    def _lose(self, leases: Sequence[int]) -> None:
        lost = set(leases)
        for lease in lost:
            self.held.pop(lease, None)
            self.usages.pop(lease, None)
        self._leased = type(self._leased)(each for each in self._leased if each.lease not in lost)
        for lease in lost:
            self.on_lost(lease)

    def has(self) -> list[Any]:
        """Return what the statement `holds` says of the pages that this hand has."""
        dispatcher = self._crawl.dispatcher
        progress = {
            lease.handout.lease: FETCHING if lease.state is LeaseState.FETCHING else ENDED
            for lease in (() if dispatcher is None else dispatcher.leases)
            if lease.started_at is not None
        }
        return [[lease, key, progress.get(lease, "")] for lease, key in self.held.items()]

    def next_page(self, now: float) -> Handout | None:
        return super().next_page(now) if self.post is not None and self.post.is_alive else None

    def ready_at(self) -> float:
        is_alive = self.post is not None and self.post.is_alive
        return super().ready_at() if is_alive else self._ready_at

    def holds(self, lease: int) -> bool:
        return lease in self.held and self.post is not None and self.post.is_alive

    def release_site(self, lease: int) -> None:
        if lease in self.held:
            self._say(["release_site", lease, self.held[lease]])

    def observe(self, lease: int, visit: PageVisit) -> None:
        if lease in self.held:
            self._say(["observe", lease, visit_row(visit), self.held.pop(lease)])

    def put_back(
        self, lease: int, request: object | None = None, priority: int | None = None
    ) -> None:
        if lease in self.held:
            said = request_text(request), priority, self.held.pop(lease)
            self._say(["put_back", lease, *said])

    def put_all_back(self) -> None:
        """Put back the pages that are not being fetched."""
        while self._leased:
            lease = self._leased.popleft().lease
            if lease in self.held:
                self.clock.not_fetched(self.held[lease][2])
            self.put_back(lease)

    def abort_all(self) -> None:
        """Abort all fetches: their pages may be others' soon."""
        for lease in [*self.held]:
            self.on_lost(lease)


class RedisHandScheduler(HandScheduler):
    """The scheduler of a worker whose crawl is shared through Redis.

    `CRAWLPRIO_FRONTIER = "redis"` with CRAWLPRIO_BRAIN selects it under the add-on. REDIS_URL,
    REDIS_PARAMS, SCHEDULER_PERSIST and SCHEDULER_FLUSH_ON_START have the meaning that scrapy-redis
    gives them. A worker ends once nothing is waiting and no worker has a page.
    """

    def open(self, spider: Spider) -> None:
        self._spider = spider
        self._has_ended = False
        self._said: list[Statement] = []
        self._counts: dict[str, int] = {}
        self._post: HandPost | None = None
        self.asking = Asking(self._say)
        crawl = self._crawl
        crawl.record_elsewhere()
        crawl.tell_brain = self._say
        if crawl.failure is None:
            try:
                self._join(spider)
            except CrawlprioError as error:
                crawl.refuse(error)
            except RedisError as error:
                crawl.refuse(ConfigError(f"Redis cannot be used: {str(error).rstrip('.')}."))
        self.make_frontier = self._make_frontier
        Scheduler.open(self, spider)
        if crawl.failure is None and self.dispatcher is not None:
            self.dispatcher.takes_seeds = True
            self._crawler.signals.connect(self._spider_opened, signal=signals.spider_opened)

    def _join(self, spider: Spider) -> None:
        """Connect to the mailbox, before anything else can fail."""
        settings = self._crawler.settings
        check_limits(self._crawl.config, "CRAWLPRIO_FRONTIER is 'redis'")
        self._name = read_setting(settings, "CRAWLPRIO_REDIS_CRAWL") or spider.name
        self._term = float(read_setting(settings, "CRAWLPRIO_LEASE_SECONDS"))
        self._mailbox = checked_mailbox(settings, self._name)
        if read_setting(settings, "SCHEDULER_FLUSH_ON_START"):
            self._mailbox.delete(brain_seconds(settings))
        self._crawl.share_seeds = partial(share_seeds, self._mailbox.client, self._mailbox.prefix)

    def _make_frontier(self, crawl: RunningCrawl) -> Frontier:
        self._frontier = self._far = FarFrontier(crawl)
        return self._far

    def _spider_opened(self) -> None:
        from twisted.internet import reactor

        settings = self._crawler.settings
        if self._crawl.failure is not None:
            return
        if read_setting(self._crawl.asked_for, "CRAWLPRIO_WARC"):
            self._archiver = load("archivers of hands", "CRAWLPRIO_WARC")(self._crawl)
        self._post = self._far.post = HandPost(
            lambda: open_mailbox(settings, self._name),
            f"{socket.gethostname()}:{os.getpid()}:{uuid4().hex[:12]}",
            self._term,
            wants=self._wants,
            heard=self._heard,
            has=self._far.has,
            call_from_thread=reactor.callFromThread,
            failed=self._crawl.fail,
        )
        self._wire = self._post  # type: ignore[assignment]
        self._post.say([["hello", values_of(self._crawl.asked_for), scope_of(self._spider)]])
        self._election = Election(self._crawler, self._mailbox, self._name, self._post)
        self._beat = beat(self._sign_of_life, self._term)
        self._watch = beat(self._look, min(self._term, 10.0))
        self._read_start_urls()

    def _read_start_urls(self) -> None:
        """Read start URLs that others push to Redis; spiders of scrapy-redis read their own."""
        read = partial(read_setting, self._crawler.settings)
        key, spider = read("REDIS_START_URLS_KEY"), self._spider
        assert spider is not None
        if key is None or hasattr(spider, "redis_key"):
            return
        kind = "list"
        if read("REDIS_START_URLS_AS_SET"):
            kind = "set"
        elif read("REDIS_START_URLS_AS_ZSET"):
            kind = "zset"
        urls = StartUrls(
            self._crawler,
            open_mailbox(self._crawler.settings, self._name).client,
            key % {"name": spider.name},
            kind=kind,
            batch_size=read("REDIS_START_URLS_BATCH_SIZE") or self._crawl.config.concurrency or 16,
            max_idle=read("MAX_IDLE_TIME_BEFORE_CLOSE"),
        )
        urls.begin()
        self._crawl.parts.add(Callbacks(closed=lambda reason: urls.close()))

    def _wants(self) -> int:
        """Return how many pages this worker wants in all: some ahead, if it fetches several."""
        at_once = 0.0 if self.dispatcher is None else self.dispatcher.at_once
        if self._has_ended or engine.is_closing(self._crawler) or at_once == 0:
            return 0
        at_once = min(at_once, 1000)
        return int(at_once + min(at_once // 4, _AHEAD))

    def _look(self) -> None:
        """See whether there is a brain, and whether one may count this worker as dead soon."""
        assert self._post is not None
        if self._crawl.failure is not None:
            self.asking.give_up()
        self._election.look()
        if boot_time() > self._post.reached_at + ABORT_SHARE * self._term:
            self._far.abort_all()

    def add_seeds(self, urls: Sequence[str]) -> None:
        Scheduler.add_seeds(self, urls)

    def has_pending_requests(self) -> bool:
        if self._has_ended or self._post is None:
            return self.dispatcher is not None and len(self.dispatcher.leases) > 0
        return Scheduler.has_pending_requests(self)

    def _heard(self, statements: list[Statement]) -> None:
        for statement in statements:
            kind = statement[0]
            if kind == "hold":
                self.asking.again()
            elif kind == "held":
                self._frontier.on_ready()
            elif kind == "may":
                self.asking.answered(*statement[1:])
            elif kind == "refuse":
                self._crawl.fail(ConfigError(statement[1]))
            elif kind == "end":
                self._has_ended = True
                self._far.put_all_back()
                engine.close_spider(self._crawler, statement[1])
            elif kind == "scope":
                self._widen_scope(statement[1])
            else:
                self._frontier.received(statement)

    def close(self, reason: str) -> None:
        if self._post is None:
            Scheduler.close(self, reason)
            return
        self._has_ended = True
        self._beat.stop()
        self._watch.stop()
        self._far.put_all_back()
        for lease in [*self._far.held]:
            self._far.put_back(lease)
        self._sign_of_life()
        self._say(["bye"])
        self._send()
        Scheduler.close(self, reason)
        if not self._post.close(_CLOSE_SECONDS):
            logger.warning(
                "Redis did not take what this worker had to say; its last pages are fetched again."
            )

    def _warn_not_resumed(self) -> None:
        """Warn about nothing: the brain has the crawl, whatever JOBDIR holds."""

    def dupefilter_class(self) -> type[BaseDupeFilter]:
        """Ignore scrapy-redis's dupefilter, since the frontier deduplicates."""
        found = super().dupefilter_class()
        return RFPDupeFilter if found.__module__.startswith("scrapy_redis.") else found


class Asking:
    """What this hand fetches that is no page: media and the like, each when the brain permits it.

    A brain that takes over is asked again.
    """

    def __init__(self, say: Callable[[Statement], object]) -> None:
        self._say = say
        self._n_asked = 0
        self._asked: dict[int, tuple[Statement, Deferred[str]]] = {}
        self._granted: dict[Request, int] = {}

    async def ask(self, request: Request) -> str:
        """Return, once it may be fetched, nothing; or why it must not be."""
        self._n_asked += 1
        number, answer = self._n_asked, Deferred[str]()
        agent = (request.headers.get("User-Agent") or b"").decode("latin-1")
        may = request.meta.get(ALLOW_PRIVATE, True)
        statement = ["ask", number, request.url, agent, may]
        self._asked[number] = statement, answer
        self._say(statement)
        cause = await maybe_deferred_to_future(answer)
        if not cause:
            self._granted[request] = number
        return cause

    def again(self) -> None:
        """Ask another brain, and tell it what was permitted."""
        for statement, _ in self._asked.values():
            self._say(statement)
        for request, number in self._granted.items():
            self._say(["fetches", number, site_of(request)])

    def give_up(self) -> None:
        """Fetch nothing that was asked for: nobody answers any more."""
        asked, self._asked = self._asked, {}
        for *_, answer in asked.values():
            answer.callback("the crawl has failed")

    def answered(self, number: int, cause: str) -> None:
        asked = self._asked.pop(number, None)
        if asked is None:
            self._say(["done", number])  # both brains have answered
        else:
            asked[1].callback(cause)

    def done(self, request: Request) -> None:
        """Note that a request is no longer in the downloader."""
        number = self._granted.pop(request, None)
        if number is not None:
            self._say(["done", number])


class BrainPermission:
    """A downloader middleware of hands: what bypasses the scheduler asks the brain.

    The brain keeps robots.txt and delays for all hands, and knows which pages they fetch.
    """

    def __init__(self, crawler: Crawler) -> None:
        self._crawler = crawler

    @classmethod
    def from_crawler(cls, crawler: Crawler) -> BrainPermission:
        return cls(crawler)

    @property
    def _asking(self) -> Asking | None:
        return getattr(self._crawler.engine.scheduler, "asking", None)

    async def process_request(self, request: Request) -> None:
        """Wait for permission; raise `IgnoreRequest` if there is none."""
        dispatcher, asking = RunningCrawl.of(self._crawler).dispatcher, self._asking
        if asking is None or (dispatcher is not None and dispatcher.lease_of(request)):
            return
        cause = await asking.ask(request)
        if cause:
            raise IgnoreRequest(cause)

    def process_response(self, request: Request, response: Response) -> Response:
        self._done(request)
        return response

    def process_exception(self, request: Request, exception: Exception) -> None:
        self._done(request)

    def _done(self, request: Request) -> None:
        if self._asking is not None:
            self._asking.done(request)


class Election:
    """Starts a brain, a process with the command line of this one, whenever a crawl has none.

    Of the workers that do so at once, one is elected by the server; the others' end at once. A
    brain outlives the worker that started it.
    """

    def __init__(self, crawler: Crawler, mailbox: Mailbox, name: str, post: HandPost) -> None:
        self._crawler = crawler
        self._crawl = RunningCrawl.of(crawler)
        self._mailbox = mailbox
        self._name = name
        self._post = post
        self._stands = read_setting(crawler.settings, "CRAWLPRIO_BRAIN") == "auto"
        self._process: subprocess.Popen[bytes] | None = None
        self._is_looking = False
        self._n_failures = 0
        self._missing_since: float | None = None
        self._next_at = 0.0
        self._has_said = self._has_said_where = False
        self.look()

    def look(self) -> None:
        """See whether the crawl has a brain."""
        if not self._is_looking:
            self._is_looking = True
            deferred_from_coro(self._look()).addErrback(
                lambda failure: logger.error("The election failed: %s", failure.getTraceback())
            )

    async def _look(self) -> None:
        try:
            brain = await run_in_thread(self._mailbox.brain)
            facts = {} if brain else await run_in_thread(self._mailbox.facts)
        except (RedisError, OSError):
            return
        finally:
            self._is_looking = False
        now = monotonic()
        status = None if self._process is None else self._process.poll()
        if status is not None:
            self._ended(status)
        if brain:
            self._missing_since, self._has_said = None, False
            return
        self._missing_since = self._missing_since or now
        if now - self._missing_since > _SAID_AFTER and not self._has_said:
            self._has_said = True
            logger.warning("The crawl %r has no brain; waiting for one.", self._name)
        if self._stands and self._process is None and now >= self._next_at and self._is_here(facts):
            self._start()

    def _is_here(self, facts: dict[str, str]) -> bool:
        """Return whether this machine has the store of the crawl, or none is there yet."""
        settings = self._crawl.asked_for
        folder = read_setting(settings, "JOBDIR") or brain_folder(self._name)
        store = Path(folder) / (read_setting(settings, "CRAWLPRIO_STORE") or "crawl.sqlite")
        is_here = not facts.get("id") or store.exists()
        if not is_here and not self._has_said_where:
            self._has_said_where = True
            logger.warning(
                "The crawl %r has its pages in %s on %s, which is not here: this worker fetches, "
                "but can be no brain.",
                self._name,
                facts.get("folder"),
                facts.get("host"),
            )
        return is_here

    def _start(self) -> None:
        told = {"crawl": self._name, "name": uuid4().hex}
        self._process = subprocess.Popen(
            [sys.executable, *sys.orig_argv[1:]],
            env={**os.environ, BRAIN_VARIABLE: json.dumps(told)},
            start_new_session=True,
            stdin=subprocess.DEVNULL,
        )

    def _ended(self, status: int) -> None:
        self._process = None
        self._next_at = monotonic() + random.uniform(0.1, 1.0)
        self._n_failures = self._n_failures + 1 if status > 0 else 0
        if self._n_failures >= _MOST_FAILURES:
            self._crawl.fail(
                WorkersDied(
                    f"The brain of this crawl failed {_MOST_FAILURES} times; what it said is above."
                )
            )
