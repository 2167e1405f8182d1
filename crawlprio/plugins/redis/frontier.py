"""The shared frontier, as seen by one worker."""

from __future__ import annotations

import logging
import math
from collections.abc import Callable, Sequence
from functools import partial
from time import monotonic
from typing import Any

from redis.exceptions import RedisError

from crawlprio.errors import CrawlprioError
from crawlprio.frontier.protocol import Entry, Handout, PageVisit, SharedFiles
from crawlprio.graph.pages import PageTable
from crawlprio.live.counts import Figures
from crawlprio.plugins.redis.ahead import Ahead
from crawlprio.plugins.redis.clock import RedisClock
from crawlprio.plugins.redis.connection import delete_crawl
from crawlprio.plugins.redis.leased import Leased, LeasedPages
from crawlprio.plugins.redis.messages import Message, Messages, message_arguments
from crawlprio.plugins.redis.own_visits import OwnVisits
from crawlprio.plugins.redis.robots import SharedRobots
from crawlprio.plugins.redis.rules import Rules
from crawlprio.plugins.redis.scripts import Argument, Client
from crawlprio.plugins.redis.session import LINGER, UNLIMITED, ServerAnswer, Session, Status
from crawlprio.plugins.redis.shard import Rounds, Shard, questions
from crawlprio.plugins.redis.shards import Shards
from crawlprio.plugins.redis.wire import LINKS_PER_CALL, Wire, hash_of, record
from crawlprio.settings_table.config import CrawlConfig
from crawlprio.store.outcomes import got
from crawlprio.web.urls import host_of

logger = logging.getLogger("crawlprio")

_CLOSE_SECONDS = 10.0
"""Seconds for which `close` waits for the server."""


class RedisFrontier:
    """A `crawlprio.frontier.protocol.Frontier` whose state is in Redis.

    No method waits for the network: one thread per shard sends calls in order and returns pages
    that were leased ahead. With one fetch at a time nothing is leased ahead, so every choice takes
    all earlier visits into account.

    With several shards, pages are leased from the shards whose first pages are best according to
    their last answers. The crawl is over once two consecutive rounds of questions find every shard
    empty and unchanged, which proves that all were empty at the same time.

    Parameters
    ----------
    client, shards, config, rules, lease_seconds, records, bounded
        The crawl, as returned by and passed to `open_crawl`.
    call_from_thread
        Calls a function in the crawl's thread.
    identity_of
        Returns the identity of a plain link.
    read_request
        Parses a request's JSON. If it raises `CrawlprioError`, the entry becomes a dead letter.
    figures
        Counts this worker's fetches, by the pages in `pages`.
    pages
        The page table of `figures`.
    on_failure
        Called when the frontier becomes unusable.
    on_refused
        Called with the name of a budget that had no room for a page.
    max_pages
        Maximum number of pages that the crawl fetches, over all workers, with one shard; None: no
        limit.
    on_enough
        Called once that many were fetched.
    persists
        Whether the frontier stays in Redis after the last worker has finished the crawl. Visits
        always stay.
    ahead
        Pages to lease per round trip; if more than 1, before they are requested. None: adapt, up to
        `ahead.MAX_AHEAD`, or 1 if the crawl makes one fetch at a time.
    awaits_keys
        Whether no page leaves until the elected worker has written the keys of all visits so far;
        that worker then calls `keys_changed`.

    Attributes
    ----------
    ends_crawl
        Set before `close` if nothing was left to fetch.
    n_dead
        Entries that this worker moved to the dead letters.
    """

    carries_json_only = True
    keeps_objects = False

    def __init__(
        self,
        client: Client,
        shards: Shards,
        config: CrawlConfig,
        rules: Rules,
        *,
        lease_seconds: float,
        call_from_thread: Callable[[Callable[[], object]], object],
        identity_of: Callable[[str], str] = lambda url: url,
        read_request: Callable[[bytes], object] = lambda request: request,
        figures: Figures | None = None,
        pages: PageTable | None = None,
        on_failure: Callable[[CrawlprioError], object] = lambda error: None,
        on_refused: Callable[[str], object] = lambda reason: None,
        records: bool = True,
        bounded: bool = True,
        max_pages: int | None = None,
        on_enough: Callable[[], object] = lambda: None,
        persists: bool = True,
        ahead: int | None = None,
        awaits_keys: bool = False,
    ) -> None:
        self.on_ready: Callable[[], object] = lambda: None
        self.on_lost: Callable[[int], object] = lambda lease: None
        self.n_links = 0
        self.ends_crawl = False
        self.n_dead = 0
        self._client = client
        self._shards = shards
        self._rules = rules
        self._records = records
        self._identity_of = identity_of
        self._read_request = read_request
        self._own_visits = OwnVisits(pages, figures)
        self._on_refused = on_refused
        self._max_pages = max_pages
        self._on_enough = on_enough
        self._robots = SharedRobots(self._call_site)
        self.robots: SharedFiles | None = self._robots
        self.loses_leases = True
        self._persists = persists
        self._wire = Wire(rules, config, bounded=bounded)
        self._ahead = Ahead(ahead, config.concurrency)
        self._all = [
            Shard(
                number,
                Session(
                    client,
                    prefix,
                    lease_seconds=lease_seconds,
                    n_fetches=config.concurrency or UNLIMITED,
                    call_from_thread=call_from_thread,
                    on_failure=lambda error: (self._robots.give_up(error), on_failure(error)),
                    on_status=partial(self._on_status, number),
                    linger=LINGER if self._ahead.n > 1 else 0.0,
                ),
            )
            for number, prefix in enumerate(shards.prefixes)
        ]
        self._messages = Messages(shards, self._wire, self._call, self._count_refused)
        self.clock = RedisClock(
            self._call_site,
            lambda site: self._all[shards.of(site)].session.is_alive,
            config.politeness,
            config.limit,
            config.slots,
        )
        self._awaits_keys = awaits_keys
        self._has_new_keys = False
        self._leases = LeasedPages(self.clock, len(self._all))
        self._rounds = Rounds(self._all)
        self._is_closed = False
        for shard in self._all:
            shard.session.start()

    def __len__(self) -> int:
        return sum(shard.status.n_waiting for shard in self._all if shard.status is not None)

    @property
    def is_busy(self) -> bool:
        if self._n_pending or self._leases.n_waiting or not self._rounds.is_over:
            return True
        return any(shard.status is not None and shard.status.n_others for shard in self._all)

    @property
    def _n_pending(self) -> int:
        return sum(shard.session.n_pending for shard in self._all)

    # Queueing

    def is_duplicate(self, identity: str) -> bool:
        return False

    def add(self, entry: Entry) -> None:
        if entry.request is not None and not isinstance(entry.request, bytes):
            return  # not JSON; the dispatcher has counted it
        shard = self._shards.of(entry.site)
        self._messages.remember(entry.identity, entry.site, shard)
        self._call(
            shard,
            "add",
            hash_of(entry.identity),
            entry.url,
            entry.identity if entry.identity != entry.url else "",
            entry.site,
            self._wire.domain(entry.site),
            self._wire.pattern(entry.url),
            repr(self._rules.link_value(entry.url, "")),
            entry.depth,
            entry.priority,
            entry.request or b"",
            int(entry.repeats),
            int(entry.is_seed),
            on_answer=self._added,
        )

    def add_seeds(self, urls: Sequence[str]) -> None:
        by_shard: dict[int, list[str]] = {}
        for url in urls:
            by_shard.setdefault(self._shards.of(host_of(url)), []).append(url)
        for shard, hosted in by_shard.items():
            for at in range(0, len(hosted), LINKS_PER_CALL):
                some = hosted[at : at + LINKS_PER_CALL]
                links = self._wire.links(some, list(map(self._identity_of, some)))
                self._call(shard, "seeds", *links, on_answer=self._count_refused, n_links=len(some))

    def _added(self, answer: ServerAnswer) -> None:
        (outcome,) = answer.result
        if isinstance(outcome, bytes):
            self._on_refused(outcome.decode())

    # Leases

    def next_page(self, now: float) -> Handout | None:
        if not self._leases.n_waiting:
            self._ahead.count_miss(is_asking=any(shard.is_asking for shard in self._all))
            self._ask(now)
            return None
        handout = self._leases.hand_out()
        if self._ahead.n > 1 and self._leases.n_waiting <= self._ahead.n // 2:
            self._ask(now)
        if isinstance(handout.request, bytes):
            try:
                handout = handout._replace(request=self._read_request(handout.request))
            except CrawlprioError as error:
                self._bury(handout, error)
                return self.next_page(now)
        return handout

    def _bury(self, handout: Handout, error: CrawlprioError) -> None:
        """Move an entry that cannot be fetched to the dead letters."""
        self.n_dead += 1
        logger.warning("An invalid entry of the frontier was moved to the dead letters: %s", error)
        self._end_lease(self._leases.end(handout.lease), "bury", str(error))

    def holds(self, lease: int) -> bool:
        return self._leases.holds(lease)

    def release_site(self, lease: int) -> None:
        held = self._leases.of(lease)
        if held.holds_site:
            self._leases.release(held)
            self._call(held.shard.number, "end_lease", held.number, "release_site", "", "")

    def observe(self, lease: int, visit: PageVisit) -> None:
        ended = self._leases.end(lease)
        pairs = visit.pairs
        targets = pairs.targets
        identities = list(targets)
        if not visit.links_are_entries:
            identities = list(map(self._identity_of, targets))
        # Scope decides which links are followed; all of them are links of the graph.
        outside = [(self._identity_of(url), anchor) for url, anchor in pairs.outside]
        self._own_visits.count(ended.url, visit)
        home = ended.shard.number
        remote: Sequence[Message] = ()
        link_shards: Sequence[int] = ()
        own = self._identity_of(ended.url) if len(identities) > LINKS_PER_CALL else ""
        if len(self._all) == 1:
            urls = [] if visit.links_are_entries else targets
            first, *parts = self._wire.pieces(urls, identities, pairs.anchors, outside, own=own)
        else:
            split = self._messages.split(home, visit, identities, outside)
            remote, link_shards = split.remote(self._wire), split.shards
            first, *parts = split.local(self._wire, own)
        self._call(
            home,
            "observe",
            ended.number,
            record(visit, link_shards) if self._records else b"",
            got(pairs.status, has_links=bool(targets)),
            self._wire.domain(ended.host),
            *first.arguments,
            sum(part.n_targets for part in parts),
            len(parts),
            *(part.packed for part in parts),
            *message_arguments(remote),
            on_answer=partial(self._observed, home, remote),
            ends=ended.number,
            n_links=first.n_followed,
        )
        for part in parts:
            name = f"{ended.shard.session.worker} {ended.number}"
            self._messages.take_part(home, name, part.n_followed)

    def put_back(
        self, lease: int, request: object | None = None, priority: int | None = None
    ) -> None:
        self._end_lease(
            self._leases.end(lease),
            "put_back",
            # A request that is not JSON is replaced by the one that was leased.
            request if isinstance(request, bytes) else b"",
            "" if priority is None else priority,
        )

    def ready_at(self) -> float:
        if self._n_pending:
            return math.inf
        if self._leases.n_waiting:
            return 0.0
        if not self._rounds.is_over and all(shard.is_empty for shard in self._all):
            return min(shard.ask_at for shard in self._all)
        return min(shard.ready_at() for shard in self._all)

    def figures(self) -> dict[str, int]:
        known = [shard.status for shard in self._all if shard.status is not None]
        return {
            "sites known": sum(status.n_sites for status in known),
            "pages known": sum(status.n_pages for status in known),
        }

    def close(self) -> None:
        if self._is_closed:
            return
        self._is_closed = True
        for lease in self._leases.waiting():
            self._end_lease(lease, "put_back")
        until = monotonic() + _CLOSE_SECONDS
        closed = [shard.session.close(max(until - monotonic(), 0.1)) for shard in self._all]
        if not all(closed):
            logger.error(
                "Redis did not accept all calls of this worker; its leased pages will be fetched "
                "again after CRAWLPRIO_LEASE_SECONDS."
            )
            return
        if self.ends_crawl and not self._persists:
            try:
                prefixes = self._shards.prefixes
                if not any(self._client.zcard(f"{prefix}:workers") for prefix in prefixes):
                    delete_crawl(self._client, prefixes[0], keeps_visits=True)
            except RedisError as error:
                logger.error("The crawl could not be deleted from Redis: %s.", error)
        self._client.close()

    # Calls and their answers

    def _call(self, shard: int, script: str, *arguments: Argument, **how: Any) -> None:
        called = self._all[shard]
        called.ask_at = -math.inf
        self._rounds.begin()
        called.session.call(script, *arguments, **how)

    def _call_site(self, script: str, what: str, site: str, *rest: Argument, **how: Any) -> None:
        self._call(self._shards.of(site), script, what, site, *rest, **how)

    def _end_lease(
        self, lease: Leased, how: str, argument: Argument = b"", priority: Argument = ""
    ) -> None:
        shard, number = lease.shard.number, lease.number
        self._call(shard, "end_lease", number, how, argument, priority, ends=number)

    def _ask(self, now: float) -> None:
        """Ask for more pages, unless it is too early to."""
        if self._is_closed:
            return
        if self._ahead.n == 1 < len(self._all) and self._n_pending:
            return  # the best shard is known only once all calls have been answered
        n_pages = self._ahead.n - self._leases.n_waiting - sum(shard.n_asked for shard in self._all)
        for shard, n_asked in questions(self._all, n_pages, now, self._rounds):
            shard.is_asking, shard.n_asked, shard.asked_at = True, n_asked, now
            self._rounds.asked(shard)
            self._has_new_keys = False
            shard.session.call(
                "lease",
                n_asked,
                int(self._awaits_keys),
                "" if self._max_pages is None else self._max_pages,
                on_answer=partial(self._leased, shard),
            )

    def _leased(self, shard: Shard, answer: ServerAnswer) -> None:
        if answer.result == [b"enough"]:
            answer = answer._replace(result=[])
            self._on_enough()
        n_before = self._leases.n_waiting
        n_leased = self._leases.add(shard, answer.result)
        self._ahead.adapt(shard.n_asked, n_leased, n_before)
        shard.schedule_question(n_leased)
        if not answer.result and self._has_new_keys:  # written after the server answered
            shard.ask_at = -math.inf
        self._rounds.answered(shard)
        self.on_ready()

    def keys_changed(self) -> None:
        self._has_new_keys = True
        for shard in self._all:
            shard.ask_at = -math.inf
        self.on_ready()

    def _on_status(self, number: int, status: Status, lost: set[int]) -> None:
        """Note the state of a shard and drop the pages whose leases were lost."""
        shard = self._all[number]
        shard.status = status
        self.n_links = sum(each.status.n_links for each in self._all if each.status is not None)
        if not shard.is_empty:
            self._rounds.begin()
        if status.n_orphans:
            self._messages.recover(number)
        for lease in lost:
            self._lose(shard, lease)
        for idle in self._leases.take_idle():
            self._end_lease(idle, "put_back")
        if not self._n_pending:
            self.on_ready()

    def _lose(self, shard: Shard, number: int) -> None:
        """Fetch nothing more under a lease that has expired."""
        self.clock.lost(number, lambda site: self._shards.of(site) == shard.number)
        self._leases.lose(shard, number, self.on_lost)

    def _observed(self, home: int, remote: Sequence[Message], answer: ServerAnswer) -> None:
        if len(self._all) > 1:
            self._messages.send(home, remote, answer)
        self._count_refused(answer._replace(result=answer.result[2:]))

    def _count_refused(self, answer: ServerAnswer) -> None:
        fields = iter(answer.result)
        for reason, count in zip(fields, fields, strict=True):
            for _ in range(int(count)):
                self._on_refused(reason.decode())
