"""One shard as seen by a worker: its session and last known state."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from time import monotonic

from crawlprio.plugins.redis.session import Session, Status

_POLLS = (0.05, 0.1, 0.2, 0.5)
"""Seconds between two questions while other workers hold leases; the last one repeats."""

_STALE = 0.5
"""Seconds after which the known state of a shard is out of date."""

_UNASKED = 1.0
"""Seconds after which to ask any shard: asking also takes over the leases of dead workers."""


class Shard:
    """A shard of the crawl.

    Attributes
    ----------
    status
        The state of the shard as of its last answer; None before the first one.
    ask_at
        Monotonic time before which asking for pages is useless.
    is_asking, asked_in
        Whether a question is pending, and the round it belongs to (see `Rounds`).
    n_asked
        Pages asked for in that question.
    asked_at
        Monotonic time of the last question.
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
        """Whether nothing waits and no other worker holds a lease."""
        status = self.status
        return status is not None and status.n_waiting == status.n_others == 0

    def has_page(self, now: float) -> bool | None:
        """Return whether a page can leave; None if the state is out of date."""
        status = self.status
        if status is None or now - status.received > _STALE:
            return None
        if status.head is not None:
            return True
        return False if status.ready_at > now else None

    def ready_at(self) -> float:
        """Return the monotonic time at which to ask again; inf before the first answer."""
        if self.status is None:
            return math.inf
        return self.ask_at if self.status.n_others else self.status.ready_at

    def schedule_question(self, n_pages: int) -> None:
        """Schedule the next question by how many pages the last one brought."""
        n_asked, self.n_asked, self.is_asking = self.n_asked, 0, False
        assert self.status is not None
        if n_pages:
            self._n_empty = 0
        elif not n_asked and self.status.head is not None:
            self.ask_at = -math.inf  # the question was for the state only
        else:
            poll = _POLLS[min(self._n_empty, len(_POLLS) - 1)]
            self._n_empty += 1
            self.ask_at = max(min(self.status.ready_at, self.status.received + poll), monotonic())


class Rounds:
    """Detects that all shards were empty at the same time.

    In a round each shard is asked once. If two consecutive rounds find all shards empty with
    unchanged `n_changes`, then no shard changed between its two answers, so all were empty when the
    first round ended. With a single shard one answer suffices.
    """

    def __init__(self, shards: Sequence[Shard]) -> None:
        self._shards = shards
        self._number = 0
        self._found: dict[int, int] = {}
        self._before: dict[int, int] | None = None
        self._is_over = False

    @property
    def is_over(self) -> bool:
        """Whether all shards were empty at one time and nothing has been queued since."""
        return self._is_over or len(self._shards) == 1

    def begin(self) -> None:
        """Start over, because a shard is not empty or was called."""
        self._is_over = False
        self._before = None
        self._found = {}
        self._number += 1

    def asked(self, shard: Shard) -> None:
        """Note that a shard was asked for pages."""
        shard.asked_in = self._number

    def answered(self, shard: Shard) -> None:
        """Note its answer."""
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
    """Yield the shards to ask, each with a number of pages.

    Of several shards, those with the best first pages are asked for equal parts of `n_pages`;
    shards whose state is out of date are asked for their state only.
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
    # Refresh the other shards' states, and confirm that empty ones are empty.
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
