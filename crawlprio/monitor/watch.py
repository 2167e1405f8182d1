"""What the live view notes of a crawl as it runs: its sites, and which pages link to which."""

from __future__ import annotations

from collections import OrderedDict, deque
from collections.abc import Sequence
from dataclasses import dataclass
from time import monotonic
from typing import NamedTuple

import numpy as np
from scrapy import Request
from scrapy.http import Response

from crawlprio.live.dispatch import site_of
from crawlprio.live.downloader import FetchObserver
from crawlprio.pages import NO_PAGE, PageIds, Visit

MAX_SITES = 10_000
"""Sites that are noted: those fetched from last."""

_WEIGHT = 0.2
"""Weight of a fetch in the averages of its site; of those before it, a fifth less each."""

_BATCH = 256
"""Visits that are taken in at once."""

_HARMLESS = frozenset((404, 410))
"""Error statuses that say something of a page, and nothing of its site."""


@dataclass(slots=True)
class SiteTally:
    """The last fetches on a site, averaged with more weight on later ones."""

    n_fetches: int = 0
    seconds: float = 0.0
    failing: float = 0.0
    status: int = 0

    def add(self, seconds: float, status: int) -> None:
        """Add a fetch; `status` 0 if no response came."""
        has_failed = not status or (status >= 400 and status not in _HARMLESS)
        weight = max(_WEIGHT, 1 / (self.n_fetches + 1))
        self.n_fetches += 1
        self.seconds += weight * (seconds - self.seconds)
        self.failing += weight * (has_failed - self.failing)
        self.status = status


class SiteTallies(FetchObserver):
    """Tallies every fetch by its site, robots.txt included. Some 2 microseconds a fetch."""

    def __init__(self) -> None:
        self.tallies: OrderedDict[str, SiteTally] = OrderedDict()
        self._begun: dict[Request, float] = {}
        self._statuses: dict[Request, int] = {}

    def fetch_started(self, request: Request) -> None:
        self._begun[request] = monotonic()

    def fetch_answered(self, request: Request, response: Response) -> None:
        self._statuses[request] = response.status

    def fetch_ended(self, request: Request) -> None:
        begun, status = self._begun.pop(request, None), self._statuses.pop(request, 0)
        if begun is None:
            return
        site = site_of(request)
        tally = self.tallies.pop(site, None) or SiteTally()
        tally.add(monotonic() - begun, status)
        self.tallies[site] = tally
        if len(self.tallies) > MAX_SITES:
            self.tallies.popitem(last=False)


class Latest(NamedTuple):
    """A visit, as it is shown."""

    page: int
    title: str
    got: str
    elapsed: float


class LinkNotes:
    """Which page showed each page first, how many link to it, and the last visits.

    Visits are taken in by batches, some 3 microseconds each. Memory: 8 bytes a page.

    Attributes
    ----------
    latest
        The last visits, latest first.
    """

    def __init__(self, most: int) -> None:
        self.latest: deque[Latest] = deque(maxlen=most)
        self._sources: list[int] = []
        self._targets: list[PageIds] = []
        self._found_by = np.full(1024, NO_PAGE, dtype=np.int32)
        self._n_linking = np.zeros(1024, dtype=np.int32)

    def note(self, visit: Visit) -> None:
        """Note a visit of the crawl."""
        got = visit.error or str(visit.status)
        self.latest.appendleft(Latest(visit.page, visit.title, got, visit.elapsed))
        self._sources.append(visit.page)
        self._targets.append(visit.targets)
        if len(self._sources) >= _BATCH:
            self._take_in()

    def finders(self, pages: Sequence[int]) -> list[tuple[int, int]]:
        """Return for each page the one that showed it first, and how many visits link to it.

        The first is `NO_PAGE` if none did.
        """
        self._take_in()
        self._grow(max(pages, default=0) + 1)
        return list(
            zip(self._found_by[pages].tolist(), self._n_linking[pages].tolist(), strict=True)
        )

    def _take_in(self) -> None:
        """Count the links of the visits since the last call."""
        if not self._sources:
            return
        targets = np.concatenate(self._targets)
        sources = np.repeat(self._sources, [len(each) for each in self._targets])
        self._sources, self._targets = [], []
        if len(targets):
            self._grow(int(targets.max()) + 1)
            np.add.at(self._n_linking, targets, np.int32(1))  # 1 takes forty times as long
            is_new = self._found_by[targets] == NO_PAGE
            # Of several sources of a page, the last one assigned stays: the first visit.
            self._found_by[targets[is_new][::-1]] = sources[is_new][::-1]

    def _grow(self, n_pages: int) -> None:
        n_more = n_pages - len(self._found_by)
        if n_more > 0:
            n_more = max(n_more, len(self._found_by))
            self._found_by = np.append(self._found_by, np.full(n_more, NO_PAGE, dtype=np.int32))
            self._n_linking = np.append(self._n_linking, np.zeros(n_more, dtype=np.int32))
