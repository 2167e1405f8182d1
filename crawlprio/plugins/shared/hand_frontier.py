"""The frontier as a hand sees it: what brains have leased to it, and a way to answer."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from time import monotonic
from typing import Any, NamedTuple, Protocol

from crawlprio.frontier.protocol import Entry, Handout, PageVisit
from crawlprio.plugins.shared.messages import (
    UNSTARTED,
    Statement,
    entry_row,
    request_text,
    row_handout,
    visit_row,
)
from crawlprio.plugins.shared.shards import Shards, shard_of_lease
from crawlprio.web.urls import host_of

_PATIENCE = 10.0
"""Seconds for which the only fetch of a worker waits until all shards know of the last one."""

_START_SECONDS = 60.0
"""Seconds for which a worker that starts fetches nothing until all shards have a brain."""


class Line(Protocol):
    """A hand's end of its connection to a brain.

    Fetches may start while it `is_alive`; `is_heard` once the brain has all that was said. A sign
    of life `is_due` unless the brain can do without for now.
    """

    @property
    def is_due(self) -> bool: ...

    @property
    def is_alive(self) -> bool: ...

    @property
    def is_heard(self) -> bool: ...

    def say(self, statements: list[Statement]) -> None: ...


class ShardStatus(NamedTuple):
    """What a brain said last of its shard, as the statement `status` does."""

    n_waiting: int = 0
    n_out: int = 0
    ready_at: float = math.inf
    n_links: int = 0
    head: list[float] | None = None
    n_preparing: int = 0
    sent: Sequence[int] = ()
    read: Sequence[int] = ()

    @property
    def n_to_lease(self) -> int:
        """Pages that wait, or are about to be leased."""
        return self.n_waiting + self.n_preparing


_UNHEARD = ShardStatus()


class HandClock:
    """A `crawlprio.frontier.protocol.FetchClock` that tells the brain, which keeps the times.

    A page is leased when its site may be fetched from, so its fetch need not wait here.
    """

    def __init__(self, say: Callable[[Statement], object]) -> None:
        self._say = say

    def next_start(self, site: str) -> float:
        return -math.inf

    def has_room(self, site: str) -> bool:
        return True

    def may_send(self, site: str) -> bool:
        return True

    def hold(self, site: str, n_fetches: int = 1) -> None:
        """Do nothing: whatever a hand fetches, it fetches under a lease."""

    def not_fetched(self, site: str) -> None:
        self._say(["clock", "not_fetched", [site], {}])

    def started(self, site: str, *, was_handed_out: bool) -> float:
        self._say(["clock", "started", [site], {"was_handed_out": was_handed_out}])
        return math.inf

    def ended(self, site: str, **said: Any) -> None:
        self._say(["clock", "ended", [site], said])

    def set_delay(self, site: str, seconds: float) -> None:
        self._say(["clock", "set_delay", [site, seconds], {}])

    def obey_crawl_delay(self, site: str, seconds: float) -> float:
        self._say(["clock", "obey_crawl_delay", [site, seconds], {}])
        return seconds


class HandFrontier:
    """A `crawlprio.frontier.protocol.Frontier` whose pages are in a brain, or in one per shard.

    Brains lease pages when they choose to; `next_page` returns those that have come. What concerns
    a site or a lease goes to its shard: `say` sends a statement to one. With several shards, free
    fetches go to those whose next pages rank first: `shares` is how many pages each is to lease.

    `held` has the sites of the pages that this hand has, by lease; `leased` those of them that are
    not being fetched yet; `usages` what robots.txt says of the use of a page, until the scheduler
    takes it. If it `loses_leases`, to time or to other hands, it depends on `lines`, one to each
    brain, once there are some.
    """

    carries_json_only = True
    keeps_objects = False

    def __init__(
        self,
        say: Callable[[int, Statement], object],
        shards: Shards | None = None,
        *,
        loses_leases: bool = False,
    ) -> None:
        self.on_ready: Callable[[], object] = lambda: None
        self.on_lost: Callable[[int], object] = lambda lease: None
        self._say = say
        self._shards = shards = shards or Shards()
        self.clock = HandClock(lambda said: say(shards.of(said[2][0]), said))
        self.loses_leases = loses_leases
        self.lines: Sequence[Line] = ()
        self.n_links = 0
        self.usages: dict[int, str] = {}
        self.held: dict[int, str] = {}
        self.statuses = [_UNHEARD] * len(shards)
        self.shares = [0] * len(shards)
        self._listed: dict[int, list[Any]] = {}
        self.leased: dict[int, Handout] = {}
        self._released: set[int] = set()
        self._unsettled_since: float | None = None
        self._waits_until = monotonic() + _START_SECONDS

    def _shard_of(self, lease: int) -> int:
        return shard_of_lease(lease, len(self._shards))

    def leases_of(self, shard: int) -> list[int]:
        """Return the leases of a shard that this hand has."""
        return [lease for lease in self.held if self._shard_of(lease) == shard]

    def _is_alive(self, lease: int) -> bool:
        """Return whether a fetch may start under a lease, as far as its brain is concerned."""
        if not self.loses_leases:
            return True
        return bool(self.lines) and self.lines[self._shard_of(lease)].is_alive

    # What brains say

    def received(self, shard: int, statement: Statement) -> None:
        """Take note of what a brain says."""
        kind, *said = statement
        if kind == "lease":
            handout = row_handout(said[0])
            if said[1]:
                self.usages[handout.lease] = said[1]
            page, number, self.held[handout.lease] = said[2]
            self._listed[handout.lease] = [handout.lease, page, number, UNSTARTED]
            self.leased[handout.lease] = handout
        elif kind == "lost":
            self._lose(said[0])
        elif kind == "lost_below":
            self._lose([lease for lease in self.leases_of(shard) if lease < said[0]])
        elif kind == "status":
            n_waiting, n_out, seconds, *more = said
            ready_at = math.inf if seconds is None else monotonic() + seconds
            self.statuses[shard] = ShardStatus(n_waiting, n_out, ready_at, *more)
            self.n_links = sum(status.n_links for status in self.statuses)
        self.on_ready()

    def _lose(self, leases: Sequence[int]) -> None:
        for lease in leases:
            self._end(lease)
            for known in (self.usages, self.leased, self._listed):
                known.pop(lease, None)
        for lease in leases:
            self.on_lost(lease)

    # What brains are told that this hand has

    def listed(self, shard: int) -> list[list[Any]]:
        """Return the leases of a shard that this hand has, or had when it last said something."""
        return [row for lease, row in self._listed.items() if self._shard_of(lease) == shard]

    def list_again(self, progress: Mapping[int, int]) -> None:
        """List only what this hand has now, with its progress, as all until now was said."""
        self._listed = {
            lease: [*row[:3], progress.get(lease, UNSTARTED)]
            for lease, row in self._listed.items()
            if lease in self.held
        }

    @property
    def n_out(self) -> int:
        """Pages that hands have, as far as is known."""
        return sum(status.n_out for status in self.statuses)

    @property
    def is_busy(self) -> bool:
        if not self.loses_leases:
            return False
        is_heard = bool(self.lines) and all(line.is_heard for line in self.lines)
        return not (is_heard and self.is_settled)

    @property
    def is_settled(self) -> bool:
        """Whether each shard says it has read all that the others say they sent to it.

        If all were idle then, all are: only a message could have woken one, and each is counted.
        """
        n, known = len(self.statuses), self.statuses
        return n == 1 or all(
            len(known[one].sent) == n
            and len(known[other].read) == n
            and known[one].sent[other] == known[other].read[one]
            for one in range(n)
            for other in range(n)
        )

    # Which shard is to lease pages

    def share(self, n_wanted: int) -> bool:
        """Share the pages that this hand wants in all between the shards; True if that is new.

        With one fetch at a time, the choice waits until all shards know of the last one.
        """
        shares = self._shares_of(n_wanted)
        is_new, self.shares = shares != self.shares, shares
        return is_new

    def _shares_of(self, n_wanted: int) -> list[int]:
        if len(self.statuses) == 1:
            return [n_wanted]
        active = Counter(self._shard_of(lease) for lease in self.held.keys() - self._released)
        shares = [active[shard] for shard in range(len(self.statuses))]
        n_free = n_wanted - sum(shares)
        if _UNHEARD in self.statuses and monotonic() < self._waits_until:
            return shares
        if n_wanted == 1 and n_free > 0 and not self._may_choose():
            return shares
        asked = [at for at, n in enumerate(self.shares) if n > shares[at]]
        if n_wanted == 1 and n_free > 0 and any(self.statuses[at].n_preparing for at in asked):
            return self.shares
        ranked = sorted(
            (at for at, status in enumerate(self.statuses) if status.n_to_lease),
            key=self._rank,
            reverse=True,
        )
        room = [self.statuses[at].n_to_lease for at in ranked]
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

    def _rank(self, shard: int) -> tuple[bool, list[float], float]:
        status = self.statuses[shard]
        return (
            (True, status.head, 0.0) if status.head is not None else (False, [], -status.ready_at)
        )

    # The frontier

    def __len__(self) -> int:
        return sum(status.n_waiting for status in self.statuses)

    def is_duplicate(self, identity: str) -> bool:
        return False

    def add(self, entry: Entry) -> None:
        if entry.request is not None and not isinstance(entry.request, bytes):
            return  # JSON cannot hold it; the dispatcher has counted it
        self._say(self._shards.of(entry.site), ["add", entry_row(entry)])

    def add_seeds(self, urls: Sequence[str]) -> None:
        for shard in range(len(self._shards)):
            own = [url for url in urls if self._shards.of(host_of(url)) == shard]
            if own:
                self._say(shard, ["add_seeds", own])

    def next_page(self, now: float) -> Handout | None:
        lease = next(filter(self._is_alive, self.leased), None)
        return None if lease is None else self.leased.pop(lease)

    def holds(self, lease: int) -> bool:
        return lease in self.held and self._is_alive(lease)

    def release_site(self, lease: int) -> None:
        if lease in self.held:
            self._released.add(lease)
            self._say(self._shard_of(lease), ["release_site", lease])

    def observe(self, lease: int, visit: PageVisit) -> None:
        if self._end(lease):
            self._say(self._shard_of(lease), ["observe", lease, visit_row(visit)])

    def put_back(
        self, lease: int, request: object | None = None, priority: int | None = None
    ) -> None:
        if self._end(lease):
            said = ["put_back", lease, request_text(request), priority]
            self._say(self._shard_of(lease), said)

    def put_all_back(self) -> None:
        """Put back the pages that are not being fetched."""
        leased, self.leased = self.leased, {}
        for lease in leased:
            self.clock.not_fetched(self.held[lease])
            self.put_back(lease)

    def _end(self, lease: int) -> bool:
        """Forget a lease; return False if this hand does not have it."""
        self._released.discard(lease)
        return self.held.pop(lease, None) is not None

    def ready_at(self) -> float:
        if any(map(self._is_alive, self.leased)):
            return -math.inf
        times, now = (status.ready_at for status in self.statuses), monotonic()
        return min((at for at in times if at > now), default=math.inf)

    def figures(self) -> dict[str, int | str]:
        return {}

    def close(self) -> None:
        self.leased.clear()
