"""The brain of a crawl whose hands are anywhere: it hears and answers them through Redis."""

from __future__ import annotations

import json
import logging
import math
import os
import signal
import socket
import sys
from collections.abc import AsyncIterator, Iterable, Mapping
from contextlib import suppress
from functools import partial
from itertools import islice
from pathlib import Path
from time import monotonic, sleep, time
from typing import TYPE_CHECKING, Any, NoReturn
from uuid import uuid4

from scrapy import Request
from scrapy.utils.asyncio import call_later
from scrapy.utils.defer import deferred_from_coro

from crawlprio.errors import ConfigError, CrawlprioError
from crawlprio.live import engine
from crawlprio.live.dispatch import site_of
from crawlprio.live.running import Callbacks
from crawlprio.live.workers import LinksOut, Shard, brain_facts
from crawlprio.plugins.shared.brain import DIED, Hand
from crawlprio.plugins.shared.brain_scheduler import END_SECONDS, LOOK_SECONDS, BrainScheduler
from crawlprio.plugins.shared.joining import JoinedCrawl, difference, joining, values_of
from crawlprio.plugins.shared.mailbox import START, Fenced, Mail
from crawlprio.plugins.shared.messages import (
    LINGER,
    OF_ONE_BRAIN,
    Statement,
    brain_of,
    written,
)
from crawlprio.plugins.shared.post import BrainPost, Carrier, HandPost, SaidByHand, said_by_hand
from crawlprio.plugins.shared.shards import FACTS, Outbox, Shards
from crawlprio.settings_table.config import CrawlConfig, read_setting
from crawlprio.store.files import StoreInUse, WriterLock
from crawlprio.web.addresses import ALLOW_PRIVATE
from crawlprio.web.urls import host_if_any

if TYPE_CHECKING:
    from scrapy import Spider
    from scrapy.crawler import Crawler

logger = logging.getLogger("crawlprio")

_START_SECONDS = 30.0
"""Seconds that a process may take to start again as the brain of a shard that it has claimed."""

_SHOW_SECONDS = 2.0
"""Seconds between two reports for `crawlprio frontier show`."""

_MOST_SHOWN = 100
"""Rows of each list in such a report."""

_MOST_SEARCHED = 100_000
"""Pages that may wait for the next ones to be looked for."""

_ALONE_SECONDS = 5.0
"""Seconds without any worker after which a brain that a worker started ends."""

_TELL_SECONDS = 0.005
"""Seconds for each hand between two reports to all of them on how far this shard is."""

_SHARD = "shard "
"""What the name of a brain begins with, as the hand of another; those of hands have a colon."""

PAUSED, DRAINING = "paused", "draining"


class FarHand(Hand):
    """A hand that is heard through a mailbox.

    Of its messages, `n_read` were carried out. In its latest one, at `heard_at`, its clock was
    `echo`, and it wanted so many pages in all (`wants`). `outside` has the sites of what it may
    fetch besides pages, by its number for it; none of what it waits for. A hand that `is_shard` is
    the brain of another shard, and only tells of links.
    """

    def __init__(self, name: str, n_sent: int, n_read: int = 0) -> None:
        super().__init__(self._queue, name=name, n_sent=n_sent)
        self.n_read = n_read
        self.outside: dict[int, str] = {}
        self.wants = 0
        self.echo = 0.0
        self.since = monotonic()
        self.said: list[Statement] = []
        self.is_shard = name.startswith(_SHARD)

    def _queue(self, statements: list[Statement]) -> None:
        self.said += statements

    @property
    def room(self) -> int:
        """How many more pages it wants."""
        return self.wants - len(self.leases) + len(self.waiting)

    def message(self, status: Statement) -> bytes:
        """Return the next message to it."""
        self.n_sent += 1
        lost = [["lost_below", self.lost_below]] if self.lost_below else []
        said, self.said = [*lost, *self.said, status], []
        head = b"%d,%d,%r" % (self.n_sent, self.n_read, self.echo)
        return b"[%b,%b]" % (head, written(said))


class RedisBrainScheduler(BrainScheduler):
    """The scheduler of a brain that workers have elected, or that was started by itself.

    Its crawl is in an ordinary job directory. What hands say is committed there together with the
    place in the mailbox up to which it was read, so it counts exactly once, whoever is killed.

    A brain that takes over hands out nothing until each of the hands that are `_silent` has said
    what it has, or its term is over.
    """

    _hands: dict[FarHand, None]

    def __init__(self, crawler: Crawler) -> None:
        super().__init__(crawler)
        self._post: BrainPost | None = None
        self._known: dict[str, FarHand] = {}
        self._silent: set[str] = set()
        self._generation = 0
        self._scope: dict[str, Any] | None = None
        self._had_hands = self._is_fenced = self._is_deaf = self._is_of_worker = False
        self._state = ""
        self._shown_at = self._alone_since = monotonic()
        self._n_admitting = 0
        self._was_busy = True
        self._shards = Shards()
        self._number = 0
        self._outbox = Outbox(1)
        self._posts: dict[int, HandPost] = {}
        self._carriers: dict[Carrier, None] = {}
        self._is_told_all_is_done = False
        self._due: set[FarHand] = set()
        self._told: list[Any] = []
        self._told_at = -math.inf
        self._answering = engine.Alarm(self._answer)

    # Begin

    def open(self, spider: Spider) -> None:
        crawl = self._crawl
        if crawl.failure is None:
            with joining(crawl):
                self._joined = joined = JoinedCrawl(crawl, spider)
                self._name, self._shards = joined.name, joined.shards
                self._claim()
                self._find_store(crawl.config)
                if len(self._shards) > 1:
                    crawl.shard = Shard(self._shards.of, self._number)
        super().open(spider)
        if crawl.failure is None and self.dispatcher is not None:
            with joining(crawl):
                self._take_over()

    def _check_supported(self, config: CrawlConfig, spider: Spider) -> None:
        """Refuse nothing: it was, before joining."""

    def _claim(self) -> None:
        """Become the brain; without being told to, end at once if another process is."""
        facts = brain_facts()
        self._is_of_worker = facts is not None and not facts.get("waits")
        if facts is None and len(self._shards) > 1:
            facts = self._choose_shard()
        self._number = 0 if facts is None else facts.get("shard", 0)
        self._mailbox, seconds = self._joined.mailboxes[self._number], self._joined.seconds
        if facts is not None and facts["crawl"] != self._name:
            raise ConfigError(
                f"This process was started as the brain of {facts['crawl']!r}, and not of "
                f"{self._name!r}; another worker starts that one."
            )
        name = f"{facts['name'] if facts else uuid4().hex} {socket.gethostname()} {os.getpid()}"
        if facts and facts.get("worker", os.getppid()) != os.getppid():
            os._exit(0)  # its worker has ended meanwhile, as the crawl may have
        has_said, path = False, self._joined.store(self._number)
        # If the server has lost all, the brain that writes to the store tells it of the crawl.
        while (
            not (self._mailbox.brain() or self._mailbox.facts()) and path.exists() and _writer(path)
        ) or not self._mailbox.claim(name, seconds):
            if self._is_of_worker:
                os._exit(0)
            if not has_said:
                has_said = True
                logger.info("%s: another process is its brain; waiting.", self._name)
            sleep(seconds / 20)
        self._before = self._mailbox.facts()
        if self._before.get("key", self._shards.key) != self._shards.key:
            self._mailbox.delete()  # left by an earlier crawl, whose other shards are gone
            self._before = {}
            self._mailbox.claim(name, seconds)
        from twisted.internet import reactor

        self._post = BrainPost(
            partial(self._joined.open, self._number),
            name,
            seconds,
            arrived=self._arrived,
            state_changed=self._state_changed,
            call_from_thread=reactor.callFromThread,
            failed=self._post_failed,
        )
        self._post.begin()

    def _choose_shard(self) -> NoReturn:
        """Become the brain of a shard that has none: start again as that one."""
        joined, name, has_said = self._joined, uuid4().hex, False
        whole = f"{name} {socket.gethostname()} {os.getpid()}"
        while True:
            for shard, mailbox in enumerate(joined.mailboxes):
                may = joined.store(shard).exists() or not mailbox.facts().get("id")
                if may and mailbox.claim(whole, _START_SECONDS):
                    process = joined.as_brain(shard, name=name, waits=True)
                    os.execve(sys.executable, process["args"], process["env"])
            if not has_said:
                has_said = True
                logger.info("%s: other processes are its brains; waiting.", self._name)
            sleep(joined.seconds / 20)

    def _find_store(self, config: CrawlConfig) -> None:
        """Check that the store of the crawl is here, and wait until no other brain writes to it."""
        path = config.store_path
        assert path is not None
        if self._before.get("id"):
            if not path.exists():
                raise self._elsewhere()
        elif path.exists() and read_setting(self._crawl.asked_for, "JOBDIR") is None:
            _move_aside(path.parent)
            path.parent.mkdir(mode=0o700)
        _wait_for(path, self._before.get("process", ""))

    def _elsewhere(self) -> ConfigError:
        folder, host = self._before.get("folder"), self._before.get("host")
        return ConfigError(
            f"The crawl {self._name!r} in Redis has its pages in {folder} on {host}, and not in "
            f"{self._crawl.config.store_path} here; start a worker there, bring that folder here, "
            f"or delete the crawl with 'crawlprio frontier delete {self._name} --yes'."
        )

    def _take_over(self) -> None:
        """Go on where the last brain was killed or ended."""
        store, post = self._crawl.recorder.store, self._post
        assert store is not None
        assert post is not None
        stored = json.loads(store.get_meta(FACTS) or "{}")
        crawl_id = self._before.get("id")
        if crawl_id and stored.get("id") != crawl_id:
            raise self._elsewhere()
        if stored.get("shards", self._shards.facts()) != self._shards.facts():
            raise ConfigError(
                f"{store.path} is of a crawl whose sites are spread over shards in another way; "
                "bring the stores of all its shards here, or name another job directory."
            )
        # Whatever was lost, no brain of any shard has the number of another.
        n_shards = len(self._shards)
        self._generation = max(stored.get("generation", 0) + 1, int(time()))
        self._generation += (self._number - self._generation) % n_shards
        post.crawl_id = crawl_id or uuid4().hex
        self._position = stored.get("position", START) if crawl_id else START
        self._scope = stored.get("scope") if crawl_id else None
        self._values = values_of(self._crawler.settings)
        for name, n_read in stored.get("read", {}).items():
            if crawl_id or name.startswith(_SHARD):
                self._known[name] = hand = self._new_hand(name, n_read)
                hand.lost_below = stored.get("lost", {}).get(name, 0)
        self._brain.deaths.update(stored.get("deaths", {}))
        self._outbox = Outbox(n_shards)
        if n_shards > 1:
            store.attach(self._outbox)
        store.set_meta(FACTS, self._facts()[FACTS])
        self._frontier.number_leases_from(self._generation * OF_ONE_BRAIN)
        self._mailbox.put_facts(
            id=post.crawl_id,
            folder=str(store.path.parent.resolve()),
            host=socket.gethostname(),
            process=f"{_machine()} {os.getpid()}",
            **({"key": self._shards.key} if n_shards > 1 else {}),
        )
        self._crawl.awaits_seeds = False

    def _new_hand(self, name: str, n_read: int = 0) -> FarHand:
        return FarHand(name, self._generation * OF_ONE_BRAIN, n_read)

    def _facts(self) -> Mapping[str, str]:
        """Return what the store keeps of the mail, in the transaction of what it led to."""
        assert self._post is not None
        known = self._known.values()
        facts = {
            "id": self._post.crawl_id,
            "generation": self._generation,
            "position": self._position,
            "read": {hand.name: hand.n_read for hand in known},
            "lost": {hand.name: hand.lost_below for hand in known if hand.lost_below},
            "scope": self._scope,
            "shards": self._shards.facts(),
            "deaths": self._brain.deaths,
        }
        return {FACTS: json.dumps(facts)}

    def _open_hands(self) -> None:
        store, post = self._crawl.recorder.store, self._post
        assert store is not None
        assert post is not None
        hands = [hand for hand in self._known.values() if not hand.is_shard]
        self._silent = {hand.name for hand in hands}
        self._had_hands = bool(hands)
        self._alone_since = monotonic()
        for hand in hands:
            hand.heard_at = monotonic()
            self._hands[hand] = None
        if hands:
            logger.info("%s: asking %d workers what they have.", self._name, len(hands))
        post.listen(store.path, self._position)
        self._open_posts()
        self._flush(self._known.values())

    def _open_posts(self) -> None:
        """Say again what other shards may not have heard, and all else from now on."""
        own = f"{_SHARD}{self._number}"
        for shard, carrier in enumerate(self._joined.carriers(own, self._crawl.fail)):
            if shard != self._number:
                # What it has answered to an earlier brain is by another clock.
                self._joined.mailboxes[shard].forget(own)
                taken = partial(self._outbox.has_taken, shard)
                self._posts[shard] = HandPost(carrier, shard, self._term, acknowledged=taken)
        self._carriers = {post.carrier: None for post in self._posts.values()}
        for carrier in self._carriers:
            carrier.begin()
        self._send_links()

    def _send_links(self) -> None:
        self._outbox.deliver(lambda shard, *message: self._posts[shard].deliver(*message))

    # Mail

    def _arrived(self, mail: list[Mail]) -> bool:
        """Carry out what hands say, and commit it with the place of the last message.

        Return False if this process hears nothing more.
        """
        recorder, post = self._crawl.recorder, self._post
        if self._is_deaf or self._crawl.failure is not None:
            return False
        assert recorder.store is not None
        assert post is not None
        heard: dict[FarHand, None] = {}
        try:
            with recorder.store.together(self._facts):
                for each in mail:
                    hand = self._hear(each)
                    if hand is not None:
                        heard[hand] = None
                    self._position = each.place
                self._outbox.add(self._frontier.links_out)
                self._frontier.links_out.clear()
                recorder.flush()
        except CrawlprioError as error:
            self._crawl.fail(error)
            return False
        self._send_links()
        post.position = self._position
        n_wanted = sum(hand.wants for hand in self._known.values())
        self._frontier.share_between(n_wanted)
        super()._progressed()
        self._flush(heard, monotonic() + LINGER if n_wanted > 1 else -math.inf)
        return True

    def _hear(self, mail: Mail) -> FarHand | None:
        """Carry out one message; return its hand, if an answer may tell it anything."""
        if not mail.hand:
            return None
        try:
            said = said_by_hand(mail)
        except (ValueError, TypeError):
            logger.error("A message in Redis is none of crawlprio: %.100r", mail.body)
            return None
        hand = self._known.get(mail.hand)
        if hand is None:
            hand = self._known[mail.hand] = self._new_hand(mail.hand)
        if hand.is_shard:
            hand.echo = 0.0
        elif hand not in self._hands:
            self._hands[hand] = None
            self._had_hands = True
        hand.heard_at = monotonic()
        is_next = mail.number == hand.n_read + 1
        if mail.number > hand.n_read or (not said.statements and said.clock > hand.echo):
            hand.wants, hand.echo = said.wants, max(hand.echo, said.clock)
            if is_next or mail.number == hand.n_read:
                self._agree(hand, said)
        if is_next:
            hand.n_read = mail.number
            self._is_told_all_is_done = self._is_told_all_is_done and hand.is_shard
            for statement in said.statements:
                self._receive(hand, statement)
        has_said = mail.number != hand.n_read or said.statements or said.leases or said.asks
        return hand if has_said or said.n_heard != hand.n_sent else None

    def _agree(self, hand: FarHand, said: SaidByHand) -> None:
        """Take a hand's word for what it has."""
        self._brain.agree(hand, said.n_heard, said.leases)
        for number, url, agent, may, site in said.asks:
            known = hand.outside.get(number)
            if site and not known:  # by an earlier brain
                self._fetches(hand, number, site)
            elif known and not site:  # it may have missed the answer
                hand.send([["may", number, ""]])
            elif known is None:
                hand.outside[number] = ""
                permit = self._permit(hand, number, url, agent, may)
                deferred_from_coro(permit).addErrback(self._failed)
        for number in hand.outside.keys() - {row[0] for row in said.asks}:
            self._done(hand, number)
        if brain_of(said.n_heard) == self._generation:
            self._silent.discard(hand.name)

    def _receive(self, hand: Hand, statement: Statement) -> None:
        kind, *said = statement
        if kind == "add_seeds":
            self._admit(map(host_if_any, said[0]))
        elif kind == "add" and said[0][7]:
            self._admit([host_if_any(said[0][1])])
        super()._receive(hand, statement)

    def _admit(self, hosts: Any) -> None:
        """Open the private addresses of seeds before anything is fetched from them."""
        if not self._crawl.addresses.opens_seeds:
            return

        async def admit() -> None:
            self._n_admitting += 1
            try:
                await self._crawl.admit_seeds(list(filter(None, hosts)))
            finally:
                self._n_admitting -= 1
                self._progressed()

        deferred_from_coro(admit()).addErrback(self._failed)

    def _hello_said(self, hand: FarHand, values: dict[str, str], scope: dict[str, Any]) -> None:
        """Greet a hand, or refuse it if it was started for another crawl."""
        self._had_hands = True
        if scope:
            self._scope = self._scope or scope
        sentence = difference(self._name, self._values, values, self._scope or {}, scope)
        if sentence:
            hand.send([["refuse", sentence]])
            return
        hand.send([["scope", url] for url in self._seeds_arrived])

    async def _permit(self, hand: FarHand, number: int, url: str, agent: str, may: bool) -> None:
        """Permit a hand to fetch what is no page (media, say) once its site is ready."""
        request = Request(url, headers={"User-Agent": agent} if agent else {})
        if not may:
            request.meta[ALLOW_PRIVATE] = False
        cause = await self._cause_against(request)
        site, clock = site_of(request), self._clock
        if not cause:
            clock.hold(site)
            while self._silent or not clock.is_idle(site):
                if hand.outside.get(number) != "" or self._is_deaf:
                    break
                await engine.sleep(LOOK_SECONDS)
            clock.hold(site, -1)
        if hand.outside.get(number) != "" or self._is_deaf:
            return
        if cause:
            del hand.outside[number]
        else:
            self._fetches(hand, number, site)
        hand.send([["may", number, cause]])
        self._progressed()

    def _fetches(self, hand: FarHand, number: int, site: str) -> None:
        """Note that a hand may fetch what it asked for."""
        hand.outside[number] = site
        self._brain.outside[site] += 1
        self._clock.hold(site)

    def _done(self, hand: FarHand, number: int) -> None:
        """Forget what a hand asked for, and has fetched if it was permitted."""
        site = hand.outside.pop(number)
        if site:
            self._brain.outside[site] -= 1
            self._clock.hold(site, -1)

    def _links_said(self, hand: FarHand, *links: Any) -> None:
        """Learn from links that another shard has found."""
        self._frontier.take_links(LinksOut(*links))

    def _bye_said(self, hand: FarHand, reason: str = "") -> None:
        """Forget a hand that has ended; if it has `finished`, no shard has anything left."""
        self._is_told_all_is_done = reason == "finished"
        for number in [*hand.outside]:
            self._done(hand, number)
        for lease in [*hand.leases]:
            self._brain.put_back(hand, lease)
        self._hands.pop(hand, None)
        self._known.pop(hand.name, None)
        self._silent.discard(hand.name)
        self._alone_since = monotonic()
        call_later(0, self._look_after_hands)

    def _flush(self, hands: Iterable[FarHand] = (), at: float = -math.inf) -> None:
        """Answer these hands, and all others for which there is something, at some time."""
        self._due.update(hands)
        self._answering.set(at)

    def _answer(self) -> None:
        self._answering.cancel()
        if self._post is None or self._post.is_closed:
            return
        status = self._brain.status(self._n_preparing)
        is_busy = bool(status[1] or status[2])
        is_news = self._was_busy and not is_busy
        self._was_busy = is_busy
        if len(self._shards) > 1:
            status += self._shard_status()
            is_news = self._is_news([is_busy, *status[5:]])
        due, self._due = self._due, set()
        answers = [
            (hand.name, hand.message(status))
            for hand in self._known.values()
            if hand.said or hand in due or (is_news and not hand.is_shard)
        ]
        shown = ""
        if monotonic() - self._shown_at >= _SHOW_SECONDS:
            self._shown_at = monotonic()
            shown = json.dumps(self._shown())
        if answers or shown:
            self._post.answer(answers, shown)

    def _shard_status(self) -> Statement:
        """Return what hands need to choose between shards, and to know when all are done."""
        n_read = [0] * len(self._shards)
        for hand in self._known.values():
            if hand.is_shard:
                n_read[int(hand.name.removeprefix(_SHARD))] = hand.n_read
        may = not (self._silent or self._state or self._n_admitting or self._frontier.has_enough)
        head = self._frontier.queue.head(monotonic()) if may else None
        return [head, self._n_preparing, list(self._outbox.n_said), n_read]

    def _is_news(self, news: list[Any]) -> bool:
        """Return whether all hands are to be told now how far this shard is."""
        if news == self._told:
            return False
        wait = self._told_at + _TELL_SECONDS * (len(self._hands) - 1) - monotonic()
        if wait > 0:
            self._flush(at=monotonic() + wait)
            return False
        self._told, self._told_at = news, monotonic()
        return True

    def _progressed(self) -> None:
        super()._progressed()
        if self._post is not None:
            self._flush()

    def _shown(self) -> dict[str, Any]:
        """Return what `crawlprio frontier show` shows; times are seconds from now."""
        now, recorder, queue = monotonic(), self._crawl.recorder, self._frontier.queue
        counts = {
            "pages": len(recorder.pages),
            "visits": recorder.figures.n_fetched,
            "ready": queue.n_ready,
            "waiting": len(self._frontier),
            "leased": self._brain.n_leased,
            "dead": len(self._brain.dead_letters),
            "taken_over": self._crawler.stats.get_value("crawlprio/workers_died", 0),
        }
        head = queue.upcoming(_MOST_SHOWN) if len(queue) <= _MOST_SEARCHED else []
        return {
            "ordering": self._crawl.config.ordering_name,
            "sites": recorder.pages.n_sites,
            "delayed": queue.n_delayed,
            "counts": counts,
            "workers": [
                {
                    "name": hand.name,
                    "leases": len(hand.leases),
                    "age": now - hand.since,
                    "dead_in": hand.heard_at + self._term - now,
                }
                for hand in self._hands
            ],
            "leases": [
                {"age": seconds, "worker": name, "url": url}
                for url, seconds, name in islice(self._brain.flight(), _MOST_SHOWN)
            ],
            "head": [
                {
                    "key": float(queue.page_records["key"][page]),
                    "hot": queue.usual_tier(page) % 2,
                    "priority": queue.usual_tier(page) // 2,
                    "url": recorder.pages.url(page),
                }
                for page in head
            ],
            "dead": [
                {"url": url, "reason": DIED} for url in self._brain.dead_letters[-_MOST_SHOWN:]
            ],
        }

    def _state_changed(self, state: str) -> None:
        self._state = state
        logger.info("%s is %s.", self._name, state or "resumed")
        if state == DRAINING:
            engine.close_spider(self._crawler, "drained")
        self._progressed()

    def _post_failed(self, error: CrawlprioError) -> None:
        if isinstance(error, Fenced):
            self._is_fenced = True
            logger.warning("%s: another process is its brain by now; this one ends.", self._name)
            engine.close_spider(self._crawler, "fenced")
        else:
            self._crawl.fail(error)

    # Pages

    def _has_room(self) -> bool:
        if self._silent or self._state or self._n_admitting:
            return False
        return sum(max(hand.room, 0) for hand in self._hands) > self._n_preparing

    def _choose(self) -> Hand | None:
        if self._silent or self._n_admitting:
            return None
        hand = max(self._hands, key=lambda each: each.room, default=None)
        return None if hand is None or hand.room <= 0 else hand

    # End

    def has_pending_requests(self) -> bool:
        return True  # or the engine, which looks now and then, takes it for finished

    def _was_down(self) -> bool:
        return self._post is None or self._post.was_down()

    def _look_after_hands(self) -> None:
        super()._look_after_hands()
        for post in self._posts.values():
            if not post.is_heard:  # by what hears this, it will know that something is missing
                post.say([])
        self._flush()
        if not (self._hands or self._is_ending):
            self._end_alone()

    def _give_up(self, hand: FarHand) -> None:
        """Queue the pages of a hand again; if it comes back, it hears what it has lost."""
        del self._hands[hand]
        self._silent.discard(hand.name)
        self._is_told_all_is_done = self._is_told_all_is_done and not hand.n_read
        for number in [*hand.outside]:
            self._done(hand, number)
        n_lost, store = len(hand.leases), self._crawl.recorder.store
        assert store is not None
        try:
            with store.together(self._facts):
                self._brain.died(hand)
                self._crawl.recorder.flush()
        except CrawlprioError as error:
            self._crawl.fail(error)
        logger.warning("A worker (%s) is silent; its %d pages wait again.", hand.name, n_lost)
        self._crawler.stats.inc_value("crawlprio/workers_died")
        self._alone_since = monotonic()
        self._progressed()

    def _end_alone(self) -> None:
        """End once no hand is left: all was fetched, or nobody fetches."""
        status = self._brain.status(self._n_preparing)
        is_done = not (status[1] or status[2] or self._n_admitting)
        if self._posts:  # others may still tell of links
            is_heard = all(post.is_heard for post in self._posts.values())
            is_done = is_done and is_heard and self._is_told_all_is_done
        if self._had_hands and is_done:
            enough = self._crawl.recorder.enough
            engine.close_spider(self._crawler, enough or "finished")
        elif self._is_of_worker and monotonic() - self._alone_since > _ALONE_SECONDS:
            logger.info("%s: no worker is left; the crawl goes on once one is started.", self._name)
            engine.close_spider(self._crawler, "shutdown")

    async def _drain(self, reason: str) -> None:
        self._is_ending = True
        if self._is_fenced or self._crawl.failure is not None:
            return
        hands = [*self._hands]
        if reason != "shutdown":  # else a hand that is absent goes on with the next brain
            hands = [hand for hand in self._known.values() if not hand.is_shard]
        for hand in hands:
            hand.send([["end", reason]])
        self._answer()
        until = monotonic() + max(END_SECONDS, self._term)
        while self._hands and monotonic() < until and not self._is_fenced:
            await engine.sleep(0.05)

    def close(self, reason: str) -> None:
        self._is_deaf = True
        self._hands.clear()
        if self._posts:  # no receipt does: it is made of all shards
            self._crawl.recorder.finish(reason)
        super().close(reason)
        post = self._post
        if post is None:
            return
        keeps = read_setting(self._crawler.settings, "SCHEDULER_PERSIST")
        if reason == "finished" and not keeps:
            post.absent = [hand.name for hand in self._known.values() if not hand.is_shard]
        self._crawl.parts.add(
            Callbacks(ended=partial(post.close, END_SECONDS)),  # now that the store is closed
            *(Callbacks(ended=partial(each.close, 0.0)) for each in self._carriers),
        )


class NoStart:
    """A spider middleware of brains, which leave start requests to hands."""

    async def process_start(self, start: AsyncIterator[Any]) -> AsyncIterator[Any]:
        """Yield nothing."""
        return
        yield


def _move_aside(folder: Path) -> None:
    """Rename a folder, that of an earlier crawl, to the next free numbered name."""
    number = 1
    while (name := folder.with_name(f"{folder.name}.{number}")).exists():
        number += 1
    folder.rename(name)
    logger.info("%s held an earlier crawl; it was renamed to %s.", folder, name)


def _machine() -> str:
    """Return what this machine, and on Linux this container, calls its processes by."""
    space = "/proc/self/ns/pid"
    return socket.gethostname() + (os.readlink(space) if os.path.exists(space) else "")


def _writer(path: Path) -> StoreInUse | None:
    """Return what says that a process writes to a store, if one does."""
    try:
        WriterLock(path).release()
    except StoreInUse as error:
        return error
    return None


def _wait_for(path: Path, before: str) -> None:
    """Wait until no process writes to a store; end the brain before this one if it hangs.

    It is on this machine and may be stopped; its time as the brain is over.
    """
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    has_said, machine, until = False, _machine(), monotonic() + 1.0
    while (error := _writer(path)) is not None:
        is_before = error.pid != os.getpid() and before == f"{machine} {error.pid}"
        if error.pid and is_before and monotonic() > until:
            with suppress(ProcessLookupError):
                os.kill(error.pid, signal.SIGKILL)
        elif not has_said:
            has_said = True
            logger.warning("%s Waiting for its end.", error)
        sleep(0.1)
