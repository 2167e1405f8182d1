"""The pages that this worker has leased, from all shards."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from time import monotonic
from typing import Any

from crawlprio.frontier.protocol import Handout
from crawlprio.plugins.redis.clock import RedisClock
from crawlprio.plugins.redis.shard import Shard

IDLE_SECONDS = 5.0
"""Seconds after which pages that were leased ahead are left to others, because this worker hands
out none: all of its fetches are slow."""


@dataclass(slots=True)
class Leased:
    """A leased page: `number` is the lease within its shard, `host` the page's site."""

    shard: Shard
    number: int
    url: str
    host: str
    holds_site: bool = True
    is_lost: bool = False


class LeasedPages:
    """Pages that were leased ahead, which wait here, and those that are handed out.

    Parameters
    ----------
    clock
        Told which sites are held.
    n_shards
        Number of shards. A handout's lease is a number over all of them.
    """

    def __init__(self, clock: RedisClock, n_shards: int) -> None:
        self._clock = clock
        self._n_shards = n_shards
        self._waiting: deque[tuple[Handout, Leased]] = deque()
        self._handed_out: dict[int, Leased] = {}
        self._moved_at = 0.0

    @property
    def n_waiting(self) -> int:
        """Number of pages that were leased ahead."""
        return len(self._waiting)

    def add(self, shard: Shard, result: Sequence[Any]) -> int:
        """Add the pages in the result of `lease.lua`; return how many."""
        if not self._waiting:
            self._moved_at = monotonic()
        fields = iter(result)
        for number, url, depth, request, host in zip(*[fields] * 5, strict=True):
            lease = Leased(shard, int(number), url.decode(), host.decode())
            name = lease.number * self._n_shards + shard.number
            self._waiting.append((Handout(name, lease.url, int(depth), request or None), lease))
            self._clock.leased(lease.host)
        return len(result) // 5

    def hand_out(self) -> Handout:
        """Return the page that was leased first."""
        handout, lease = self._waiting.popleft()
        self._moved_at = monotonic()
        self._handed_out[handout.lease] = lease
        return handout

    def take_idle(self) -> list[Leased]:
        """Remove and return the pages that were leased ahead, if none is needed at the moment."""
        if not self._waiting or monotonic() - self._moved_at < IDLE_SECONDS:
            return []
        idle = list(self.waiting())
        self._waiting.clear()
        for lease in idle:
            self.release(lease)
        return idle

    def waiting(self) -> Iterator[Leased]:
        """Yield the pages that were leased ahead."""
        return (lease for _, lease in self._waiting)

    def of(self, lease: int) -> Leased:
        """Return the page of a lease that is handed out."""
        return self._handed_out[lease]

    def holds(self, lease: int) -> bool:
        """Return whether a lease is handed out and not lost."""
        return lease in self._handed_out and not self._handed_out[lease].is_lost

    def end(self, lease: int) -> Leased:
        """Remove a lease that is handed out."""
        ended = self._handed_out.pop(lease)
        self.release(ended)
        return ended

    def release(self, lease: Leased) -> None:
        """Release the site of a page."""
        if lease.holds_site:
            lease.holds_site = False
            self._clock.released(lease.host)

    def lose(self, shard: Shard, number: int, on_lost: Callable[[int], object]) -> None:
        """Note that a lease has expired; `on_lost` is called with one that is handed out."""
        for lease in self.waiting():
            self._lose(lease, shard, number)
        self._waiting = deque(each for each in self._waiting if not each[1].is_lost)
        for name, lease in list(self._handed_out.items()):
            if self._lose(lease, shard, number):
                on_lost(name)

    def _lose(self, lease: Leased, shard: Shard, number: int) -> bool:
        if lease.shard is not shard or lease.number != number:
            return False
        self.release(lease)
        lease.is_lost = True
        return True
