"""A worker that fetches what a brain leases to it through Redis, and that elects the brain."""

from __future__ import annotations

import logging
import os
import random
import socket
import subprocess
from collections.abc import Sequence
from contextlib import suppress
from functools import partial
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

from crawlprio.errors import ConfigError
from crawlprio.live.dispatch import site_of
from crawlprio.live.running import Callbacks, RunningCrawl
from crawlprio.live.workers import WorkersDied
from crawlprio.plugins.shared.brain_scheduler import END_SECONDS
from crawlprio.plugins.shared.hand_scheduler import HandScheduler
from crawlprio.plugins.shared.joining import (
    BRAIN_SECONDS,
    JoinedCrawl,
    joining,
    scope_of,
    values_of,
)
from crawlprio.plugins.shared.messages import Statement
from crawlprio.plugins.shared.post import ABORT_SHARE, HandPost
from crawlprio.plugins.shared.start_urls import StartUrls
from crawlprio.plugins.shared.wires import beat, boot_time
from crawlprio.settings_table.config import read_setting
from crawlprio.web.addresses import ALLOW_PRIVATE
from crawlprio.web.urls import host_of

if TYPE_CHECKING:
    from scrapy import Spider
    from scrapy.crawler import Crawler
    from scrapy.http import Response

logger = logging.getLogger("crawlprio")

_MOST_FAILURES = 3
"""Brains that may end, one after the other, before any of them has answered."""

_SAID_AFTER = 10.0
"""Seconds without a brain after which a worker says so."""


class RedisHandScheduler(HandScheduler):
    """The scheduler of a worker whose crawl is shared through Redis.

    `CRAWLPRIO_FRONTIER = "redis"` with CRAWLPRIO_BRAIN selects it under the add-on. REDIS_URL,
    REDIS_PARAMS, SCHEDULER_PERSIST and SCHEDULER_FLUSH_ON_START have the meaning that scrapy-redis
    gives them. A worker ends once nothing is waiting and no worker has a page.
    """

    loses_leases = True
    _is_late = _is_confirming = False

    def open(self, spider: Spider) -> None:
        crawl = self._crawl
        if crawl.failure is None:
            with joining(crawl):  # before anything else can fail
                self._joined = JoinedCrawl(crawl, spider, deletes=True)
                self._term, self.shards = self._joined.term, self._joined.shards
        super().open(spider)
        if crawl.failure is None and self.dispatcher is not None:
            self.dispatcher.takes_seeds = True
            self._crawler.signals.connect(self._spider_opened, signal=signals.spider_opened)

    def _spider_opened(self) -> None:
        joined, asked_for = self._joined, self._crawl.asked_for
        if self._crawl.failure is not None:
            return
        self._frontier.share(self._n_wanted())
        name = f"{socket.gethostname()}:{os.getpid()}:{uuid4().hex[:12]}"
        carriers = joined.carriers(name, self._crawl.fail)
        self._carriers = dict.fromkeys(carriers)
        posts = [
            HandPost(
                carrier,
                shard,
                self._term,
                has=partial(self._has, shard),
                heard=partial(self._heard, shard),
            )
            for shard, carrier in enumerate(carriers)
        ]
        for carrier in self._carriers:
            carrier.begin()
        for post in posts:
            post.say([["hello", values_of(asked_for), scope_of(self._spider)]])
        archives = read_setting(asked_for, "CRAWLPRIO_WARC") is not None
        self._connect(posts, self._term, archives=archives)
        self._election = Election(self._crawler, joined, posts)
        self._watch = beat(self._look, joined.seconds)
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
        self._crawl.parts.add(Callbacks(closed=lambda reason: urls.close()))

    @property
    def _permission(self) -> BrainPermission:
        found = self._crawler.get_downloader_middleware(BrainPermission)
        assert isinstance(found, BrainPermission)
        return found

    def _has(self, shard: int) -> tuple[int, list[Any], list[Any]]:
        """Return what this hand wants, has and asks for, of a shard."""
        frontier = self._frontier
        return frontier.shares[shard], frontier.listed(shard), self._permission.asks(shard)

    def _look(self) -> None:
        """See whether there is a brain, and whether one may count this worker as dead soon."""
        if self._crawl.failure is not None:
            self._permission.give_up()
        self._election.look()
        for shard, post in enumerate(self._lines):
            if boot_time() > post.reached_at + ABORT_SHARE * self._term:
                for lease in self._frontier.leases_of(shard):  # may be others' soon
                    self._frontier.on_lost(lease)

    def has_pending_requests(self) -> bool:
        if self._has_ended or not self._lines:
            return self.dispatcher is not None and len(self.dispatcher.leases) > 0
        is_pending = super().has_pending_requests() or self._frontier.n_out > 0
        if not (is_pending or self._is_confirming):
            self._is_confirming = is_pending = True
            for post in self._lines:  # all brains must answer: one may have been killed idle
                post.say([["stats", {}]])
        return is_pending

    def _heard(self, shard: int, statements: list[Statement]) -> None:
        super()._heard(shard, statements)
        if len(self.shards) > 1:
            self._send_soon()

    def _hear(self, shard: int, statement: Statement) -> None:
        kind, *said = statement
        if kind == "may":
            self._permission.answered(*said)
        elif kind == "refuse":
            self._crawl.fail(ConfigError(said[0]))
        else:
            self._is_confirming = self._is_confirming and kind != "lease"
            if kind == "end":
                self._frontier.put_all_back()
                if said[0] == "finished":
                    self._note_late()
            super()._hear(shard, statement)

    def _note_late(self) -> None:
        if not self._is_late:
            self._is_late = True
            logger.warning(
                "The crawl %r has finished without this worker, which ends; start it again to "
                "begin a new crawl.",
                self._joined.name,
            )

    def close(self, reason: str) -> None:
        posts = self._lines
        if not posts:
            super().close(reason)
            return
        frontier = self._frontier
        is_all_done = reason == "finished" and not self._has_ended
        self._has_ended = True
        self._beat.stop()
        self._watch.stop()
        frontier.put_all_back()
        for lease in [*frontier.held]:
            frontier.put_back(lease)
        self._sign_of_life()
        for shard in range(len(posts)):
            self.say_to(shard, ["bye", "finished" if is_all_done else ""])
        self._send()
        super().close(reason)
        until = monotonic() + END_SECONDS
        is_sent = [each.close(max(until - monotonic(), 0.1)) for each in self._carriers]
        if not all(is_sent):
            logger.warning(
                "Redis did not take what this worker had to say; its last pages are fetched again."
            )
        elif self._is_late:
            with suppress(RedisError):
                for mailbox in self._joined.mailboxes:
                    mailbox.forget_late(posts[0].carrier.name)

    def _warn_not_resumed(self) -> None:
        """Warn about nothing: the brain has the crawl, whatever JOBDIR holds."""

    def dupefilter_class(self) -> type[BaseDupeFilter]:
        """Ignore scrapy-redis's dupefilter, since the frontier deduplicates."""
        found = super().dupefilter_class()
        return RFPDupeFilter if found.__module__.startswith("scrapy_redis.") else found


class BrainPermission:
    """A downloader middleware of hands: what bypasses the scheduler, as media do, asks the brain.

    The brain keeps robots.txt and delays for all hands, and knows which pages they fetch. It is
    told of a request in each message, from when it is asked for until the request has ended.
    """

    def __init__(self, crawler: Crawler) -> None:
        self._crawler = crawler
        self._n_asked = 0
        self._asks: dict[int, tuple[int, list[Any], Deferred[str]]] = {}
        self._numbers: dict[Request, int] = {}

    @classmethod
    def from_crawler(cls, crawler: Crawler) -> BrainPermission:
        return cls(crawler)

    @property
    def _scheduler(self) -> Any:
        return self._crawler.engine.scheduler

    async def process_request(self, request: Request) -> None:
        """Wait for permission; raise `IgnoreRequest` if there is none."""
        dispatcher = RunningCrawl.of(self._crawler).dispatcher
        if dispatcher is not None and dispatcher.leases.of(request):
            return
        self._n_asked += 1
        number, answer = self._n_asked, Deferred[str]()
        agent = (request.headers.get("User-Agent") or b"").decode("latin-1")
        may = request.meta.get(ALLOW_PRIVATE, True)
        shard = self._scheduler.shards.of(host_of(request.url))
        ask = [number, request.url, agent, may, ""]
        self._asks[number] = shard, ask, answer
        self._numbers[request] = number
        self._scheduler.say_to(shard)
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
        number = self._numbers.pop(request, None)
        if number is not None:
            self._scheduler.say_to(self._asks.pop(number)[0])

    def asks(self, shard: int) -> list[list[Any]]:
        """Return what to ask the brain of a shard, as `messages.py` says."""
        return [ask for of, ask, _ in self._asks.values() if of == shard]

    def answered(self, number: int, cause: str) -> None:
        """Take note of an answer: why a request must not be sent, or nothing."""
        if number in self._asks and not self._asks[number][2].called:
            self._asks[number][2].callback(cause)

    def give_up(self) -> None:
        """Fetch nothing that was asked for: nobody answers any more."""
        for number in [*self._asks]:
            self.answered(number, "the crawl has failed")


class Election:
    """Starts a brain, a process with the command line of this one, whenever a shard has none.

    Of the workers that do so at once, one is elected by the server; the others' end at once. A
    brain outlives the worker that started it. A crawl that a brain was heard of, and that Redis
    does not know any more, gets none: it would be another one.
    """

    def __init__(self, crawler: Crawler, joined: JoinedCrawl, posts: Sequence[HandPost]) -> None:
        self._crawl = RunningCrawl.of(crawler)
        self._joined, self._name = joined, joined.name
        self._posts, self._mailboxes = posts, joined.mailboxes
        self._stands = read_setting(crawler.settings, "CRAWLPRIO_BRAIN") == "auto"
        self._processes: dict[int, subprocess.Popen[bytes]] = {}
        self._is_looking = False
        self._n_failures = 0
        self._missing_since: dict[int, float] = {}
        self._said: set[int] = set()
        self._next_at = 0.0
        self._has_said_where = False
        self.look()

    def look(self) -> None:
        """See whether all shards have brains."""
        if not self._is_looking:
            self._is_looking = True
            deferred_from_coro(self._look()).addErrback(
                lambda failure: logger.error("The election failed: %s", failure.getTraceback())
            )

    async def _look(self) -> None:
        try:
            missing = await run_in_thread(self._missing)
        except (RedisError, OSError):
            return
        finally:
            self._is_looking = False
        now = monotonic()
        for shard, process in [*self._processes.items()]:
            status = process.poll()
            if status is not None:
                del self._processes[shard]
                self._ended(status)
        self._missing_since = {shard: self._missing_since.get(shard, now) for shard in missing}
        self._said &= missing.keys()
        for shard in random.sample([*missing], len(missing)):  # other workers begin with others
            if now - self._missing_since[shard] > _SAID_AFTER and shard not in self._said:
                self._said.add(shard)
                of = f"Shard {shard} of the" if len(self._mailboxes) > 1 else "The"
                logger.warning("%s crawl %r has no brain; waiting for one.", of, self._name)
            agreed = "shards" if len(self._posts) > 1 and shard == 0 else ""  # before any brain
            needed = "id" if self._posts[shard].had_brain else agreed
            if needed and not missing[shard].get(needed):
                if now - self._missing_since[shard] > BRAIN_SECONDS:
                    self._crawl.fail(self._gone())
                continue
            n_starting = len(self._processes.keys() & missing.keys())
            if self._stands and now >= self._next_at and n_starting < (os.cpu_count() or 1):
                self._start_here(shard, missing[shard])

    def _gone(self) -> WorkersDied:
        return WorkersDied(
            f"The crawl {self._name!r} is not in Redis any more, and no process is its brain: it "
            "was deleted, or has finished, or the server has lost it. Start this worker again to "
            "begin a new crawl, or with JOBDIR set to the folder of this one to go on."
        )

    def _missing(self) -> dict[int, dict[str, str]]:
        """Return the facts of each shard without a brain."""
        brains = self._mailboxes[0].brains(len(self._mailboxes))
        return {at: self._mailboxes[at].facts() for at, brain in enumerate(brains) if not brain}

    def _start_here(self, shard: int, facts: dict[str, str]) -> None:
        """Start a brain if this machine has the store of the shard, or none is there yet."""
        if facts.get("id") and not self._joined.store(shard).exists():
            if not self._has_said_where:
                self._has_said_where = True
                logger.warning(
                    "The crawl %r has its pages in %s on %s, which is not here: this worker "
                    "fetches, but can be no brain.",
                    self._name,
                    facts.get("folder"),
                    facts.get("host"),
                )
        elif shard not in self._processes:
            self._processes[shard] = subprocess.Popen(
                **self._joined.as_brain(shard, name=uuid4().hex, worker=os.getpid()),
                start_new_session=True,
                stdin=subprocess.DEVNULL,
            )

    def _ended(self, status: int) -> None:
        self._next_at = monotonic() + random.uniform(0.1, 1.0)
        self._n_failures = self._n_failures + 1 if status > 0 else 0
        if self._n_failures >= _MOST_FAILURES:
            self._crawl.fail(
                WorkersDied(
                    f"The brain of this crawl failed {_MOST_FAILURES} times; what it said is above."
                )
            )
