"""The frontier of a worker, whose pages wait in Redis together with those of all other workers."""

from __future__ import annotations

import logging
import math
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from time import monotonic

import numpy as np
from redis.exceptions import RedisError

from crawlprio.config import CrawlConfig
from crawlprio.errors import CrawlprioError
from crawlprio.frontier.protocol import Entry, Handout, PageVisit
from crawlprio.live.figures import Figures
from crawlprio.pages import NO_PAGE, PageTable, Visit
from crawlprio.redis.clock import RedisClock
from crawlprio.redis.connection import delete_crawl
from crawlprio.redis.rules import Rules
from crawlprio.redis.scripts import Argument, Client
from crawlprio.redis.session import Answer, Session, Status
from crawlprio.redis.wire import Wire, hash_of, record
from crawlprio.web.urls import host_of

logger = logging.getLogger("crawlprio")

MAX_AHEAD = 16
"""Pages that are leased ahead at most."""

_POLLS = (0.05, 0.1, 0.2, 0.5)
"""Seconds between two questions of a worker that waits for others; the last one again and again."""

_PATIENCE = 10.0
"""Seconds for which the end of a crawl waits for the server."""


@dataclass(slots=True)
class _Lease:
    """A page that was handed out; `host` is its site by the server."""

    url: str
    host: str
    holds_site: bool = True


class RedisFrontier:
    """`crawlprio.frontier.protocol.Frontier` whose pages are in Redis.

    Nothing waits for the network: a thread sends what is told, in order, and brings back pages that
    were leased ahead. With one fetch at a time none is leased ahead, so that each choice knows all
    visits before it.

    Parameters
    ----------
    client, prefix
        of the server, and of the crawl's keys there, which `open_crawl` has made.
    config
        delays, bounds and concurrency, as `open_crawl` had it.
    rules
        the ordering.
    lease_seconds
        after which the pages of a silent worker wait again.
    deliver
        calls a function in the thread of the crawl.
    identity_of
        returns the identity of a plain link.
    read_request
        makes a request of its JSON; it raises a `CrawlprioError` for one that cannot be used, which
        is then set aside on the server.
    figures
        counts the pages that this worker fetched, in the page table given to it.
    pages
        that page table.
    failed
        is called when the frontier cannot go on.
    refused
        is called with the name of a budget that had no room for a page.
    records
        whether visits go to the stream, from which `scrapy links collect` makes a crawl store.
    bounded
        whether the budget by pattern of URLs holds.
    persists
        whether what is in Redis stays there when the last worker has ended the crawl; visits stay
        in any case.
    ahead
        pages leased in one round trip, before they are asked for if it is more than 1. None: half
        as many as there may be fetches, at most `MAX_AHEAD`.
    awaits_keys
        whether no page leaves before the elected worker has written the keys that follow from all
        visits; it calls `keys_changed`.

    Attributes
    ----------
    ends_crawl
        set it before `close` when nothing was left to fetch.
    n_dead
        entries that this worker has set aside.
    """

    carries_json_only = True
    keeps_objects = False

    def __init__(
        self,
        client: Client,
        prefix: str,
        config: CrawlConfig,
        rules: Rules,
        *,
        lease_seconds: float,
        deliver: Callable[[Callable[[], object]], object],
        identity_of: Callable[[str], str] = lambda url: url,
        read_request: Callable[[bytes], object] = lambda request: request,
        figures: Figures | None = None,
        pages: PageTable | None = None,
        failed: Callable[[CrawlprioError], object] = lambda error: None,
        refused: Callable[[str], object] = lambda reason: None,
        records: bool = True,
        bounded: bool = True,
        persists: bool = True,
        ahead: int | None = None,
        awaits_keys: bool = False,
    ) -> None:
        self.on_ready: Callable[[], object] = lambda: None
        self.n_links = 0
        self.ends_crawl = False
        self.n_dead = 0
        self._client = client
        self._prefix = prefix
        self._rules = rules
        self._records = records
        self._identity_of = identity_of
        self._read_request = read_request
        self._pages = PageTable() if pages is None else pages
        self._figures = Figures(self._pages) if figures is None else figures
        self._refused = refused
        self._persists = persists
        self._wire = Wire(
            rules,
            counts_domains=config.max_pages_per_domain is not None,
            counts_patterns=bounded and config.max_pages_per_pattern is not None,
        )
        self._session = Session(
            client,
            prefix,
            lease_seconds=lease_seconds,
            deliver=deliver,
            failed=failed,
            told=self._told,
        )
        self._lease_seconds = lease_seconds
        self.clock = RedisClock(
            self._session, self._call, config.politeness, config.limit, config.slots
        )
        if ahead is None:
            ahead = min((config.concurrency or 2 * MAX_AHEAD) // 2, MAX_AHEAD)
        self._ahead = max(ahead, 1)
        self._awaits_keys = awaits_keys
        self._has_new_keys = False
        self._handouts: deque[tuple[Handout, str]] = deque()
        self._leases: dict[int, _Lease] = {}
        self._n_waiting = 0
        self._n_others = 0
        self._ready_at = math.inf
        self._ask_at = -math.inf
        self._n_empty = 0
        self._is_asking = False
        self._is_closed = False
        self._session.start()

    def __len__(self) -> int:
        return self._n_waiting

    @property
    def is_busy(self) -> bool:
        return self._session.n_unanswered > 0 or bool(self._handouts) or self._n_others > 0

    # Pages that come to wait

    def is_duplicate(self, identity: str) -> bool:
        return False

    def add(self, entry: Entry) -> None:
        if entry.request is not None and not isinstance(entry.request, bytes):
            return  # the caller has counted it
        self._call(
            "add",
            hash_of(entry.identity),
            entry.url,
            entry.identity if entry.identity != entry.url else "",
            entry.site,
            self._wire.domain(entry.site),
            self._wire.pattern(entry.url),
            repr(self._rules.number_of(entry.url, "")),
            entry.depth,
            entry.priority,
            entry.request or b"",
            int(entry.repeats),
            int(entry.is_seed),
            answered=self._added,
        )

    def add_seeds(self, urls: Sequence[str]) -> None:
        identities = list(map(self._identity_of, urls))
        self._call("seeds", *self._wire.links(urls, identities), answered=self._count_refused)

    def _added(self, answer: Answer) -> None:
        (outcome,) = answer.result
        if isinstance(outcome, bytes):
            self._refused(outcome.decode())

    # Leases

    def next_page(self, now: float) -> Handout | None:
        if not self._handouts:
            self._ask(now)
            return None
        handout, host = self._handouts.popleft()
        if self._ahead > 1 and len(self._handouts) <= self._ahead // 2:
            self._ask(now)
        self._leases[handout.lease] = _Lease(handout.url, host)
        if isinstance(handout.request, bytes):
            try:
                handout = handout._replace(request=self._read_request(handout.request))
            except CrawlprioError as error:
                self._bury(handout, error)
                return self.next_page(now)
        return handout

    def _bury(self, handout: Handout, error: CrawlprioError) -> None:
        """Set an entry aside that cannot be fetched."""
        self.n_dead += 1
        logger.warning(
            "An entry of the frontier in Redis cannot be used, and is set aside: %s", error
        )
        self._end(handout.lease)
        self._call("end_lease", handout.lease, "bury", str(error), "", ends=handout.lease)

    def let_go(self, lease: int) -> None:
        held = self._leases[lease]
        if held.holds_site:
            held.holds_site = False
            self.clock.released(held.host)
            self._call("end_lease", lease, "let_go", "", "")

    def observe(self, lease: int, visit: PageVisit) -> None:
        ended = self._end(lease)
        pairs = visit.pairs
        targets = pairs.targets
        identities = list(targets)
        if not visit.links_are_entries:
            identities = list(map(self._identity_of, targets))
        # Scope says which links are followed, not which are links of the graph.
        outside = [(self._identity_of(url), anchor) for url, anchor in pairs.outside]
        self._count(ended.url, visit)
        self._call(
            "observe",
            lease,
            int(visit.links_are_entries),
            record(visit) if self._records else b"",
            *self._wire.links(
                [] if visit.links_are_entries else targets, identities, pairs.anchors, outside
            ),
            answered=self._observed,
            ends=lease,
        )

    def put_back(
        self, lease: int, request: object | None = None, priority: int | None = None
    ) -> None:
        self._end(lease)
        self._call(
            "end_lease",
            lease,
            "put_back",
            # In place of one that cannot be written it waits with the one that it had.
            request if isinstance(request, bytes) else b"",
            "" if priority is None else priority,
            ends=lease,
        )

    def ready_at(self) -> float:
        if self._session.n_unanswered:
            return math.inf
        if self._handouts:
            return 0.0
        return self._ask_at if self._n_others else self._ready_at

    def close(self) -> None:
        if self._is_closed:
            return
        self._is_closed = True
        for handout, _ in self._handouts:
            self._call("end_lease", handout.lease, "put_back", b"", "", ends=handout.lease)
        if not self._session.close(_PATIENCE):
            logger.error(
                "Redis did not take all that this worker had to tell; what it had leased is "
                "fetched again once %g seconds have passed.",
                self._lease_seconds,
            )
            return
        if self.ends_crawl and not self._persists:
            try:
                if not self._client.zcard(f"{self._prefix}:workers"):
                    delete_crawl(self._client, self._prefix, keeps_visits=True)
            except RedisError as error:
                logger.error("The crawl could not be deleted from Redis: %s.", error)
        self._client.close()

    # Calls and answers

    def _call(
        self,
        script: str,
        *arguments: Argument,
        answered: Callable[[Answer], None] | None = None,
        ends: int | None = None,
    ) -> None:
        self._ask_at = -math.inf
        self._session.call(script, *arguments, answered=answered, ends=ends)

    def _ask(self, now: float) -> None:
        """Ask for more pages, if there may be some by now."""
        n_pages = self._ahead - len(self._handouts)
        if self._is_asking or n_pages <= 0 or now < self._ask_at or self._is_closed:
            return
        self._is_asking = True
        ahead = max(now - monotonic(), 0.0)
        self._has_new_keys = False
        waits = int(self._awaits_keys)
        self._session.call("lease", n_pages, repr(ahead), waits, answered=self._leased)

    def _leased(self, answer: Answer) -> None:
        self._is_asking = False
        until = answer.status.received + self._lease_seconds
        fields = iter(answer.result)
        for lease, url, depth, request, host in zip(*[fields] * 5, strict=True):
            handout = Handout(int(lease), url.decode(), int(depth), request or None, until)
            self._handouts.append((handout, host.decode()))
            self.clock.leased(host.decode())
        if answer.result:
            self._n_empty = 0
        else:
            poll = _POLLS[min(self._n_empty, len(_POLLS) - 1)]
            self._n_empty += 1
            self._ask_at = max(min(self._ready_at, answer.status.received + poll), monotonic())
            if self._has_new_keys:  # written after the server had answered
                self._ask_at = -math.inf
        self.on_ready()

    def keys_changed(self) -> None:
        """Note that the elected worker has written keys."""
        self._has_new_keys = True
        self._ask_at = -math.inf
        self.on_ready()

    def _told(self, status: Status, lost: set[int]) -> None:
        """Note how things stand."""
        self._n_waiting, self._n_others = status.n_waiting, status.n_others
        self._ready_at, self.n_links = status.ready_at, status.n_links
        if lost:
            for handout, host in self._handouts:
                if handout.lease in lost:
                    self.clock.released(host)
            self._handouts = deque(
                waiting for waiting in self._handouts if waiting[0].lease not in lost
            )
        if not self._session.n_unanswered:
            self.on_ready()

    def _observed(self, answer: Answer) -> None:
        self._count_refused(answer._replace(result=answer.result[1:]))

    def _count_refused(self, answer: Answer) -> None:
        fields = iter(answer.result)
        for reason, count in zip(fields, fields, strict=True):
            for _ in range(int(count)):
                self._refused(reason.decode())

    def _end(self, lease: int) -> _Lease:
        ended = self._leases.pop(lease)
        if ended.holds_site:
            self.clock.released(ended.host)
        return ended

    def _count(self, url: str, visit: PageVisit) -> None:
        """Count a visit among those of this worker."""
        pages, pairs = self._pages, visit.pairs
        page = pages.find(url)
        if page == NO_PAGE:
            page = pages.add(url, url, pages.site(host_of(url)))
        self._figures.count(
            Visit(
                page,
                np.zeros(len(pairs.targets), dtype=np.int32),
                status=pairs.status,
                content_hash=pairs.content_hash,
            )
        )
