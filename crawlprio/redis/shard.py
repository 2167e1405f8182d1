"""One shard as a worker sees it: its session, and how things stand there."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from time import monotonic

from crawlprio.redis.session import Session, Status

_POLLS = (0.05, 0.1, 0.2, 0.5)
"""Seconds between two questions of a worker that waits for others; the last one again and again."""

_STALE = 0.5
"""Seconds after which others may have changed what a shard has."""

_UNASKED = 1.0
"""Seconds for which no shard goes unasked: a question also finds workers that are dead."""


class Shard:
    """A shard of the crawl.

    Attributes
    ----------
    status
        how things stood at its last answer; None before the first.
    ask_at
        monotonic time before which it makes no sense to ask for pages.
    is_asking, asked_in
        whether it was asked for pages, and in which round of questions (`RedisFrontier`).
    n_asked
        pages that it was asked for.
    asked_at
        monotonic time at which it was asked last.
    """

    def __init__(self, number: int, session: Session) -> None:
        self.number = number
        self.session = session
        self.status: Status | None = None
        self.ask_at = -math.inf
        self.is_asking = False
        self.asked_in = 0
        self.n_asked = 0
        self.asked_at = -math.inf
        self._n_empty = 0

    @property
    def is_empty(self) -> bool:
        """Whether nothing waits there, and no other worker has anything leased."""
        status = self.status
        return status is not None and status.n_waiting == status.n_others == 0

    def has_page(self, now: float) -> bool | None:
        """Return whether a page can leave; None where that is not known."""
        status = self.status
        if status is None or now - status.received > _STALE:
            return None
        if status.head is not None:
            return True
        return False if status.ready_at > now else None

    def ready_at(self) -> float:
        """Return the monotonic time at which a page can leave, or it makes sense to ask."""
        if self.status is None:
            return math.inf
        return self.ask_at if self.status.n_others else self.status.ready_at

    def was_answered(self, n_pages: int) -> None:
        """Note the pages that came, by which the next question may have to wait."""
        n_asked, self.n_asked, self.is_asking = self.n_asked, 0, False
        assert self.status is not None
        if n_pages:
            self._n_empty = 0
        elif not n_asked and self.status.head is not None:
            self.ask_at = -math.inf  # it was only asked how things stand
        else:
            poll = _POLLS[min(self._n_empty, len(_POLLS) - 1)]
            self._n_empty += 1
            self.ask_at = max(min(self.status.ready_at, self.status.received + poll), monotonic())


@dataclass(slots=True)
class Leased:
    """A page that was handed out; `number` is its lease in its shard, `host` its site there."""

    shard: Shard
    number: int
    url: str
    host: str
    holds_site: bool = True


class Rounds:
    """Knows whether all shards were empty at one time.

    In a round each shard is asked once. If two rounds find all empty and nothing changed in
    between, then no shard changed from its answer in the first round to that in the second, and all
    were as they said when the first one ended. With one shard its word will do.
    """

    def __init__(self, shards: Sequence[Shard]) -> None:
        self._shards = shards
        self._number = 0
        self._found: dict[int, int] = {}
        self._before: dict[int, int] | None = None
        self._is_over = False

    @property
    def is_over(self) -> bool:
        """Whether all shards were empty at one time, and nothing is known to have come since."""
        return self._is_over or len(self._shards) == 1

    def begin(self) -> None:
        """Begin again: something is there, or was told."""
        self._is_over = False
        self._before = None
        self._found = {}
        self._number += 1

    def asked(self, shard: Shard) -> None:
        """Note that a shard is asked for pages."""
        shard.asked_in = self._number

    def answered(self, shard: Shard) -> None:
        """Note that it has answered."""
        if shard.asked_in != self._number or shard.status is None or not shard.is_empty:
            return
        self._found[shard.number] = shard.status.n_changes
        if len(self._found) == len(self._shards):
            self._is_over = self._found == self._before
            self._before, self._found = self._found, {}
            self._number += 1


def questions(
    shards: Sequence[Shard], n_pages: int, now: float, rounds: Rounds
) -> Iterator[tuple[Shard, int]]:
    """Yield the shards to ask for pages, and how many pages of each.

    With several, those whose first pages are best are asked for them in equal parts; those of which
    it is not known by now whether they have any only tell.
    """
    able = [shard for shard in shards if not shard.is_asking and now >= shard.ask_at]
    if len(shards) == 1:
        if able and n_pages > 0:
            yield able[0], n_pages
        return
    ready = [shard for shard in able if shard.has_page(now)]
    if ready and n_pages > 0:
        ready.sort(key=_best_first)
        n_asked = min(len(ready), n_pages)
        for at, shard in enumerate(ready[:n_asked]):
            yield shard, n_pages // n_asked + (at < n_pages % n_asked)
    # How things stand elsewhere, and whether those that seem empty are.
    for shard in able:
        if shard.is_asking:
            continue
        is_due = shard.has_page(now) is None or now - shard.asked_at > _UNASKED
        if is_due or (not rounds.is_over and shard.is_empty):
            yield shard, 0


def _best_first(shard: Shard) -> tuple[float, float, int]:
    assert shard.status is not None
    assert shard.status.head is not None
    tier, rank = shard.status.head
    return -tier, -rank, shard.number
