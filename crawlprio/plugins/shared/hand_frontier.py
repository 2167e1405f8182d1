"""The frontier as a hand sees it: what the brain has leased to it, and a way to answer."""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Callable, Sequence
from time import monotonic
from typing import Any

from crawlprio.frontier.protocol import Entry, Handout, PageVisit
from crawlprio.plugins.shared.messages import (
    Statement,
    entry_row,
    request_text,
    row_handout,
    visit_row,
)


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
    """A `crawlprio.frontier.protocol.Frontier` whose pages are in the brain.

    The brain leases pages when it chooses to; `next_page` returns those that have come. `say` sends
    it a statement, in order. `usages` has, by lease, what the site's robots.txt says of the use of
    a page, until the scheduler takes it; `n_out` is how many pages hands have, as far as is known.
    """

    carries_json_only = True
    keeps_objects = False
    loses_leases = False
    is_busy = False

    def __init__(self, say: Callable[[Statement], object]) -> None:
        self.on_ready: Callable[[], object] = lambda: None
        self.on_lost: Callable[[int], object] = lambda lease: None
        self.clock = HandClock(say)
        self.usages: dict[int, str] = {}
        self.n_links = self.n_out = 0
        self._say = say
        self._leased: deque[Handout] = deque()
        self._n_waiting = 0
        self._ready_at = math.inf

    def received(self, statement: Statement) -> None:
        """Take note of what the brain says."""
        kind, *said = statement
        if kind == "lease":
            handout = row_handout(said[0])
            if said[1]:
                self.usages[handout.lease] = said[1]
            self._leased.append(handout)
            self.on_ready()
        elif kind == "status":
            self._n_waiting, self.n_out, seconds, self.n_links, *_ = said
            self._ready_at = math.inf if seconds is None else monotonic() + seconds

    def __len__(self) -> int:
        return self._n_waiting

    def is_duplicate(self, identity: str) -> bool:
        return False

    def add(self, entry: Entry) -> None:
        if entry.request is not None and not isinstance(entry.request, bytes):
            return  # JSON cannot hold it; the dispatcher has counted it
        self._say(["add", entry_row(entry)])

    def add_seeds(self, urls: Sequence[str]) -> None:
        self._say(["add_seeds", list(urls)])

    def next_page(self, now: float) -> Handout | None:
        return self._leased.popleft() if self._leased else None

    def holds(self, lease: int) -> bool:
        return True

    def release_site(self, lease: int) -> None:
        self._say(["release_site", lease])

    def observe(self, lease: int, visit: PageVisit) -> None:
        self._say(["observe", lease, visit_row(visit)])

    def put_back(
        self, lease: int, request: object | None = None, priority: int | None = None
    ) -> None:
        self._say(["put_back", lease, request_text(request), priority])

    def ready_at(self) -> float:
        return -math.inf if self._leased else self._ready_at

    def figures(self) -> dict[str, int | str]:
        return {}

    def close(self) -> None:
        self._leased.clear()
