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
from contextlib import suppress
from functools import partial
from time import monotonic
from typing import TYPE_CHECKING, Any, NamedTuple
from uuid import uuid4

from redis.exceptions import RedisError
from scrapy import Request, signals
from scrapy.dupefilters import BaseDupeFilter, RFPDupeFilter
from scrapy.exceptions import IgnoreRequest
from scrapy.utils.asyncio import call_later, run_in_thread
from scrapy.utils.defer import deferred_from_coro, maybe_deferred_to_future
from twisted.internet.defer import Deferred

from crawlprio.errors import ConfigError, CrawlprioError
from crawlprio.frontier.protocol import Entry, Frontier, Handout, PageVisit
from crawlprio.live import engine
from crawlprio.live.dispatch import site_of
from crawlprio.live.hand_settings import BRAIN_VARIABLE
from crawlprio.live.leases import LeaseState
from crawlprio.live.running import Callbacks, RunningCrawl
from crawlprio.live.workers import WorkersDied
from crawlprio.plugins import load
from crawlprio.plugins.shared.brain_scheduler import check_limits
from crawlprio.plugins.shared.connection import Client, share_seeds
from crawlprio.plugins.shared.hand_frontier import HandClock, HandFrontier
from crawlprio.plugins.shared.hand_scheduler import HandScheduler
from crawlprio.plugins.shared.mailbox import Mailbox
from crawlprio.plugins.shared.messages import ENDED, FETCHING, Statement, request_text, visit_row
from crawlprio.plugins.shared.post import ABORT_SHARE, HandPost
from crawlprio.plugins.shared.redis_brain import (
    BRAIN_SECONDS,
    LEASES_OF_ONE,
    brain_seconds,
    checked_mailbox,
    open_mailbox,
)
from crawlprio.plugins.shared.same_crawl import scope_of, values_of
from crawlprio.plugins.shared.shards import Shards, agree_on_shards, shard_store
from crawlprio.plugins.shared.start_urls import StartUrls
from crawlprio.plugins.shared.wires import beat, boot_time
from crawlprio.schedulers import Scheduler
from crawlprio.settings_table.config import read_setting
from crawlprio.web.addresses import ALLOW_PRIVATE
from crawlprio.web.urls import host_of

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

_PATIENCE = 10.0
"""Seconds for which the only fetch of a worker waits until all shards know of the last one."""

_SAID_AFTER = 10.0
"""Seconds without a brain after which a worker says so."""


class FarFrontier(HandFrontier):
    """A hand's frontier whose leases may be lost: to time, or to another hand.

    Attributes
    ----------
    held
        the keys of the pages that this hand has, by lease.
    status
        what the brain said last of its shard, if the crawl has several.
    """

    loses_leases = True

    def __init__(self, crawl: RunningCrawl, say: Callable[[Statement], object]) -> None:
        super().__init__(say)
        self._crawl = crawl
        self.post: HandPost | None = None
        self.held: dict[int, Any] = {}
        self.status: ShardStatus | None = None
        self._released: set[int] = set()

    @property
    def n_active(self) -> int:
        """Pages that this hand has, but for those whose callbacks nobody waits for."""
        return len(self.held) - len(self._released)

    @property
    def n_to_lease(self) -> int:
        """Pages that wait, or are about to be leased, as far as is known."""
        return self._n_waiting + (0 if self.status is None else self.status.n_preparing)

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
        elif kind == "status" and len(said) > 4:
            self.status = ShardStatus(*said[4:])
        self.on_ready()

    def _lose(self, leases: Sequence[int]) -> None:
        lost = set(leases)
        for lease in lost:
            self._end(lease)
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

    def _end(self, lease: int) -> Any:
        """Forget a lease; return its key."""
        self._released.discard(lease)
        return self.held.pop(lease, None)

    def release_site(self, lease: int) -> None:
        if lease in self.held:
            self._released.add(lease)
            self._say(["release_site", lease, self.held[lease]])

    def observe(self, lease: int, visit: PageVisit) -> None:
        if lease in self.held:
            self._say(["observe", lease, visit_row(visit), self._end(lease)])

    def put_back(
        self, lease: int, request: object | None = None, priority: int | None = None
    ) -> None:
        if lease in self.held:
            said = request_text(request), priority, self._end(lease)
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


class ShardStatus(NamedTuple):
    """What a brain says of its shard: what the page that leaves next ranks by, or None; how many
    pages are about to be leased; how many messages it has sent to each shard, and has from each.
    """

    head: list[float] | None
    n_preparing: int
    sent: list[int]
    read: list[int]


class FrontierOfShards:
    """A `crawlprio.frontier.protocol.Frontier` over those of all shards, each of which has sites.

    What concerns a site or a lease goes to its shard. Free fetches go to the shards whose next
    pages rank first. `say` sends a statement to a shard.
    """

    carries_json_only = True
    keeps_objects = False
    loses_leases = True

    def __init__(
        self, crawl: RunningCrawl, shards: Shards, say: Callable[[int, Statement], object]
    ) -> None:
        self.on_ready: Callable[[], object] = lambda: None
        self.on_lost: Callable[[int], object] = lambda lease: None
        self.n_links = 0
        self._shards = shards
        self.each = [FarFrontier(crawl, partial(say, shard)) for shard in range(len(shards))]
        self.usages: dict[int, str] = {}
        for frontier in self.each:
            frontier.usages = self.usages
            frontier.on_ready = lambda: self.on_ready()
            frontier.on_lost = lambda lease: self.on_lost(lease)
        self.clock = HandClock(lambda said: say(shards.of(said[2][0]), said))
        self._unsettled_since: float | None = None
        self.shares = [0] * len(shards)

    def _of(self, lease: int) -> FarFrontier:
        return self.each[lease // LEASES_OF_ONE % len(self.each)]

    @property
    def is_busy(self) -> bool:
        return any(frontier.is_busy for frontier in self.each) or not self.is_settled

    @property
    def is_settled(self) -> bool:
        """Whether all that shards have told each other was read before they said how far they are.

        If all were idle then, all are: only a message could have woken one, and each is counted.
        """
        n = len(self.each)
        if n == 1:
            return True
        known = [frontier.status for frontier in self.each if frontier.status is not None]
        return len(known) == n and all(
            known[one].sent[other] == known[other].read[one]
            for one in range(n)
            for other in range(n)
        )

    def share(self, n_wanted: int) -> bool:
        """Share the pages that this hand wants in all between the shards; True if that is new.

        With one fetch at a time, the choice waits until all shards know of the last one.
        """
        shares = self._shares_of(n_wanted)
        is_new, self.shares = shares != self.shares, shares
        return is_new

    def _shares_of(self, n_wanted: int) -> list[int]:
        if len(self.each) == 1:
            return [n_wanted]
        shares = [frontier.n_active for frontier in self.each]
        n_free = n_wanted - sum(shares)
        if n_wanted == 1 and n_free > 0 and not self._may_choose():
            return shares
        asked = [at for at, n in enumerate(self.shares) if n > shares[at]]
        if n_wanted == 1 and n_free > 0 and any(self._is_preparing(at) for at in asked):
            return self.shares
        ranked = sorted(
            (at for at, frontier in enumerate(self.each) if frontier.n_to_lease),
            key=self._rank,
            reverse=True,
        )
        room = [self.each[at].n_to_lease for at in ranked]
        while n_free > 0 and any(room):
            for nth, at in enumerate(ranked):
                if n_free > 0 and room[nth]:
                    shares[at] += 1
                    room[nth] -= 1
                    n_free -= 1
        return shares

    def _may_choose(self) -> bool:
        """Return whether the heads of all shards are known, or were not for too long."""
        if not self.is_busy:
            self._unsettled_since = None
            return True
        self._unsettled_since = self._unsettled_since or monotonic()
        return monotonic() - self._unsettled_since > _PATIENCE

    def _is_preparing(self, shard: int) -> bool:
        status = self.each[shard].status
        return status is not None and status.n_preparing > 0

    def _rank(self, shard: int) -> tuple[bool, list[float], float]:
        frontier = self.each[shard]
        head = None if frontier.status is None else frontier.status.head
        return (True, head, 0.0) if head is not None else (False, [], -frontier.ready_at())

    def received(self, shard: int, statement: Statement) -> None:
        self.each[shard].received(statement)
        self.n_links = sum(frontier.n_links for frontier in self.each)

    def __len__(self) -> int:
        return sum(map(len, self.each))

    def is_duplicate(self, identity: str) -> bool:
        return False

    def add(self, entry: Entry) -> None:
        self.each[self._shards.of(entry.site)].add(entry)

    def add_seeds(self, urls: Sequence[str]) -> None:
        for shard, frontier in enumerate(self.each):
            own = [url for url in urls if self._shards.of(host_of(url)) == shard]
            if own:
                frontier.add_seeds(own)

    def next_page(self, now: float) -> Handout | None:
        pages = (frontier.next_page(now) for frontier in self.each)
        return next((page for page in pages if page is not None), None)

    def holds(self, lease: int) -> bool:
        return self._of(lease).holds(lease)

    def release_site(self, lease: int) -> None:
        self._of(lease).release_site(lease)

    def observe(self, lease: int, visit: PageVisit) -> None:
        self._of(lease).observe(lease, visit)

    def put_back(
        self, lease: int, request: object | None = None, priority: int | None = None
    ) -> None:
        self._of(lease).put_back(lease, request, priority)

    def ready_at(self) -> float:
        return min(frontier.ready_at() for frontier in self.each)

    def figures(self) -> dict[str, int | str]:
        return {}

    def close(self) -> None:
        for frontier in self.each:
            frontier.close()


class RedisHandScheduler(HandScheduler):
    """The scheduler of a worker whose crawl is shared through Redis.

    `CRAWLPRIO_FRONTIER = "redis"` with CRAWLPRIO_BRAIN selects it under the add-on. REDIS_URL,
    REDIS_PARAMS, SCHEDULER_PERSIST and SCHEDULER_FLUSH_ON_START have the meaning that scrapy-redis
    gives them. A worker ends once nothing is waiting and no worker has a page.
    """

    def open(self, spider: Spider) -> None:
        self._spider = spider
        self._has_ended = self._is_late = False
        self._counts: dict[str, int] = {}
        self._posts: list[HandPost] = []
        self._shards = Shards()
        self._said_to: dict[int, list[Statement]] = {}
        self._sends_soon = False
        self.asking = Asking(self._say_to, lambda host: self._shards.of(host))
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
            n_shards = max(int(self._mailbox.facts().get("shards", 1)), 1)
            for shard in range(n_shards):
                Mailbox(self._mailbox.client, self._name, shard).delete(brain_seconds(settings))
        self._shards = agree_on_shards(self._mailbox, self._crawl.asked_for, self._name)
        self._crawl.share_seeds = partial(share_seeds, self._mailbox.client, self._mailbox.prefix)

    def _make_frontier(self, crawl: RunningCrawl) -> Frontier:
        self._far = FrontierOfShards(crawl, self._shards, self._say_to)
        self._frontier = self._far  # type: ignore[assignment]
        return self._far

    def _spider_opened(self) -> None:
        from twisted.internet import reactor

        settings = self._crawler.settings
        if self._crawl.failure is not None:
            return
        if read_setting(self._crawl.asked_for, "CRAWLPRIO_WARC"):
            self._archiver = load("archivers of hands", "CRAWLPRIO_WARC")(self._crawl)
        self._far.share(self._wants())
        name = f"{socket.gethostname()}:{os.getpid()}:{uuid4().hex[:12]}"
        for shard, frontier in enumerate(self._far.each):
            frontier.post = HandPost(
                partial(open_mailbox, settings, self._name, shard),
                name,
                self._term,
                wants=partial(self._wants_of, shard),
                heard=partial(self._heard_from, shard),
                has=frontier.has,
                call_from_thread=reactor.callFromThread,
                failed=self._crawl.fail,
            )
            self._posts.append(frontier.post)
            hello = ["hello", values_of(self._crawl.asked_for), scope_of(self._spider)]
            frontier.post.say([hello])
        self._election = Election(self._crawler, self._mailbox.client, self._name, self._posts)
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

    def _say(self, statement: Statement) -> None:
        """Say what concerns no site: to one brain, or to all if it is on the scope."""
        for shard in range(len(self._shards) if statement[0] == "scope" else 1):
            self._say_to(shard, statement)

    def _say_to(self, shard: int, statement: Statement) -> None:
        self._said_to.setdefault(shard, []).append(statement)
        self._send_soon()

    def _send_soon(self) -> None:
        if not self._sends_soon:
            self._sends_soon = True
            call_later(0, self._send)

    def _send(self) -> None:
        """Send all that was said in this turn, and to all shards how many pages are wanted."""
        self._sends_soon = False
        before, said = self._far.shares, self._said_to
        self._said_to = {}
        is_new = self._far.share(self._wants())
        for shard, post in enumerate(self._posts):
            if shard in said or (is_new and before[shard] != self._far.shares[shard]):
                post.say(said.get(shard, []))

    def _sign_of_life(self) -> None:
        grown = self._newly_counted()
        if grown:
            self._say(["stats", grown])
        self._send()
        for post in self._posts:
            post.say([])

    def _wants_of(self, shard: int) -> int:
        return self._far.shares[shard]

    def _wants(self) -> int:
        """Return how many pages this worker wants in all: some ahead, if it fetches several."""
        at_once = 0.0 if self.dispatcher is None else self.dispatcher.at_once
        if self._has_ended or engine.is_closing(self._crawler) or at_once == 0:
            return 0
        at_once = min(at_once, 1000)
        return int(at_once + min(at_once // 4, _AHEAD))

    def _look(self) -> None:
        """See whether there is a brain, and whether one may count this worker as dead soon."""
        if self._crawl.failure is not None:
            self.asking.give_up()
        self._election.look()
        for frontier, post in zip(self._far.each, self._posts, strict=True):
            if boot_time() > post.reached_at + ABORT_SHARE * self._term:
                frontier.abort_all()

    def add_seeds(self, urls: Sequence[str]) -> None:
        Scheduler.add_seeds(self, urls)

    def has_pending_requests(self) -> bool:
        if self._has_ended or not self._posts:
            return self.dispatcher is not None and len(self.dispatcher.leases) > 0
        return Scheduler.has_pending_requests(self)

    def _heard_from(self, shard: int, statements: list[Statement]) -> None:
        for statement in statements:
            kind = statement[0]
            if kind == "hold":
                self.asking.again(shard)
            elif kind == "held":
                self._frontier.on_ready()
            elif kind == "may":
                self.asking.answered(shard, *statement[1:])
            elif kind == "refuse":
                self._crawl.fail(ConfigError(statement[1]))
            elif kind == "end":
                if statement[1] == "finished" and not self._is_late:
                    self._is_late = True
                    logger.warning(
                        "The crawl %r has finished without this worker, which ends; start it again "
                        "to begin a new crawl.",
                        self._name,
                    )
                self._has_ended = True
                self._put_all_back()
                engine.close_spider(self._crawler, statement[1])
            elif kind == "scope":
                self._widen_scope(statement[1])
            else:
                self._far.received(shard, statement)
        if len(self._shards) > 1:
            self._send_soon()

    def _put_all_back(self) -> None:
        for frontier in self._far.each:
            frontier.put_all_back()

    def close(self, reason: str) -> None:
        if not self._posts:
            Scheduler.close(self, reason)
            return
        is_all_done = reason == "finished" and not self._has_ended
        self._has_ended = True
        self._beat.stop()
        self._watch.stop()
        self._put_all_back()
        for frontier in self._far.each:
            for lease in [*frontier.held]:
                frontier.put_back(lease)
        self._sign_of_life()
        for shard in range(len(self._posts)):
            self._say_to(shard, ["bye", "finished" if is_all_done else ""])
        self._send()
        Scheduler.close(self, reason)
        until = monotonic() + _CLOSE_SECONDS
        is_sent = [post.close(max(until - monotonic(), 0.1)) for post in self._posts]
        if not all(is_sent):
            logger.warning(
                "Redis did not take what this worker had to say; its last pages are fetched again."
            )
        elif self._is_late:
            with suppress(RedisError):
                for shard, post in enumerate(self._posts):
                    Mailbox(self._mailbox.client, self._name, shard).forget_late(post.name)

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

    def __init__(
        self, say: Callable[[int, Statement], object], shard_of: Callable[[str], int]
    ) -> None:
        self._say = say
        self._shard_of = shard_of
        self._n_asked = 0
        self._asked: dict[int, tuple[int, Statement, Deferred[str]]] = {}
        self._granted: dict[Request, tuple[int, int]] = {}

    async def ask(self, request: Request) -> str:
        """Return, once it may be fetched, nothing; or why it must not be."""
        self._n_asked += 1
        number, answer = self._n_asked, Deferred[str]()
        agent = (request.headers.get("User-Agent") or b"").decode("latin-1")
        may = request.meta.get(ALLOW_PRIVATE, True)
        shard = self._shard_of(host_of(request.url))
        statement = ["ask", number, request.url, agent, may]
        self._asked[number] = shard, statement, answer
        self._say(shard, statement)
        cause = await maybe_deferred_to_future(answer)
        if not cause:
            self._granted[request] = shard, number
        return cause

    def again(self, shard: int) -> None:
        """Ask another brain of a shard, and tell it what was permitted."""
        for of, statement, _ in self._asked.values():
            if of == shard:
                self._say(shard, statement)
        for request, (of, number) in self._granted.items():
            if of == shard:
                self._say(shard, ["fetches", number, site_of(request)])

    def give_up(self) -> None:
        """Fetch nothing that was asked for: nobody answers any more."""
        asked, self._asked = self._asked, {}
        for *_, answer in asked.values():
            answer.callback("the crawl has failed")

    def answered(self, shard: int, number: int, cause: str) -> None:
        asked = self._asked.pop(number, None)
        if asked is None:
            self._say(shard, ["done", number])  # both brains have answered
        else:
            asked[2].callback(cause)

    def done(self, request: Request) -> None:
        """Note that a request is no longer in the downloader."""
        granted = self._granted.pop(request, None)
        if granted is not None:
            shard, number = granted
            self._say(shard, ["done", number])


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
    """Starts a brain, a process with the command line of this one, whenever a shard has none.

    Of the workers that do so at once, one is elected by the server; the others' end at once. A
    brain outlives the worker that started it. A crawl that a brain was heard of, and that Redis
    does not know any more, gets none: it would be another one.
    """

    def __init__(
        self, crawler: Crawler, client: Client, name: str, posts: Sequence[HandPost]
    ) -> None:
        self._crawler = crawler
        self._crawl = RunningCrawl.of(crawler)
        self._name = name
        self._posts = posts
        self._mailboxes = [Mailbox(client, name, shard) for shard in range(len(posts))]
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
            if self._posts[shard].had_brain and not missing[shard].get("id"):
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
        return {
            shard: mailbox.facts()
            for shard, mailbox in enumerate(self._mailboxes)
            if not mailbox.brain()
        }

    def _start_here(self, shard: int, facts: dict[str, str]) -> None:
        """Start a brain if this machine has the store of the shard, or none is there yet."""
        store = shard_store(self._crawl.asked_for, self._name, shard, len(self._mailboxes))
        if facts.get("id") and not store.exists():
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
            told = {"crawl": self._name, "name": uuid4().hex, "shard": shard}
            self._processes[shard] = subprocess.Popen(
                [sys.executable, *sys.orig_argv[1:]],
                env={**os.environ, BRAIN_VARIABLE: json.dumps(told)},
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
