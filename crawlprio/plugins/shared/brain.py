"""The frontier's side: carries out what hands say, and knows which hand has which page."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from time import monotonic
from typing import Any

from crawlprio.frontier.protocol import Handout, PageVisit
from crawlprio.items import LinkPairs
from crawlprio.live.local_frontier import LocalFrontier
from crawlprio.plugins.shared.messages import (
    Statement,
    handout_row,
    request_bytes,
    row_entry,
    row_visit,
)

MOST_DEATHS = 3
"""Hands that a page may take with it; then it counts as failed."""

DIED = "worker died"

_CLOCK = frozenset({"started", "ended", "not_fetched", "set_delay", "obey_crawl_delay"})


@dataclass(eq=False)
class Hand:
    """A process that fetches, by the `name` that people know it by; `send` sends it statements.

    It has the pages of `leases`; for the callbacks of those `waiting`, the crawl no longer waits.
    By site, fetches of it are `fetching`, if they have not ended, or `starting`, if they are still
    to start.
    """

    send: Callable[[list[Statement]], object]
    leases: dict[int, Handout] = field(default_factory=dict)
    waiting: set[int] = field(default_factory=set)
    fetching: Counter[str] = field(default_factory=Counter)
    starting: Counter[str] = field(default_factory=Counter)
    name: str = ""


class Brain:
    """The one frontier of several hands; the `crawlprio.live.workers.Workers` of its crawl.

    A page is leased to one hand; each lease ends once, by what the hand says of it, or by the death
    of the hand, after which the page waits again and its site rests for one delay. What a hand says
    of a page that it does not hold is ignored.

    `outside` counts, by site, what hands may fetch there that no page of the frontier is, and
    `starting` the pages that hands have and have not begun to fetch; `deaths` counts, by URL, the
    hands that a page took with it, until it has an outcome.
    """

    def __init__(self, frontier: LocalFrontier) -> None:
        self.frontier = frontier
        self.on_fetch: Callable[[str, float, int], object] = lambda site, seconds, status: None
        self.hands: Iterable[Hand] = ()
        self.deaths: Counter[str] = Counter()
        self._sites: Counter[str] = Counter()
        self.outside: Counter[str] = Counter()
        self.starting: Counter[str] = Counter()
        self._flight: dict[int, tuple[str, float, str, str]] = {}

    @property
    def n_leased(self) -> int:
        """Pages that hands have."""
        return len(self._flight)

    def flight(self) -> Iterator[tuple[str, float, str]]:
        """Yield the URL of each page that a hand has, for how many seconds, and its name."""
        now = monotonic()
        for url, since, _, name in self._flight.values():
            yield url, now - since, name

    @property
    def dead_letters(self) -> list[str]:
        """URLs of pages that failed because hands died with them."""
        return [url for url, n_deaths in self.deaths.items() if n_deaths >= MOST_DEATHS]

    def holds(self, site: str) -> bool:
        """Return whether a hand has a page of a site, or may fetch something else there."""
        return self._sites[site] > 0 or self.outside[site] > 0

    def lease(self, hand: Hand, handout: Handout, usage: str = "") -> None:
        """Give a page that the frontier has handed out to a hand."""
        self._give(hand, handout)
        self.starts(hand, self._flight[handout.lease][2])
        key = *self.frontier.key_of(handout.lease), self._flight[handout.lease][2]
        hand.send([["lease", handout_row(handout), usage, key]])

    def starts(self, hand: Hand, site: str, n: int = 1) -> None:
        """Note that a hand is to start a fetch on a site, or with -1 that it need not any more."""
        if n > 0 or hand.starting[site] > 0:
            hand.starting[site] += n
            self.starting[site] += n

    def adopt(self, hand: Hand, lease: int, key: Sequence[Any]) -> bool:
        """Take note of a page that a hand has from an earlier brain; False if it must not."""
        page, number, _ = key
        handout = self.frontier.adopt(lease, page, number)
        if handout is None:
            return False
        self._give(hand, handout)
        return True

    def status(self, n_preparing: int) -> Statement:
        """Return the statement of what waits; some pages are about to be leased."""
        ready_at = self.frontier.ready_at()
        seconds = None if ready_at == math.inf else ready_at - monotonic()
        n_waiting = 0 if self.frontier.has_enough else len(self.frontier)
        n_out = self.n_leased + n_preparing
        return ["status", n_waiting, n_out, seconds, self.frontier.n_links]

    def received(self, hand: Hand, statements: list[Statement]) -> None:
        """Carry out what a hand says, in order.

        Raises
        ------
        CrawlprioError
            The frontier or its store fails.
        """
        for kind, *said in statements:
            getattr(self, f"_{kind}_said")(hand, *said)

    def died(self, hand: Hand) -> None:
        """Queue the pages of a dead hand again."""
        frontier = self.frontier
        for site, n_fetching in hand.fetching.items():
            for _ in range(n_fetching):
                frontier.clock.ended(
                    site, was_handed_out=True, elapsed=0.0, status=0, retry_after=None
                )
        hand.fetching.clear()
        for site, n_starting in [*hand.starting.items()]:
            self.starts(hand, site, -n_starting)
        for lease, handout in list(hand.leases.items()):
            site = self._flight[lease][2]
            self._end(hand, lease)
            self.deaths[handout.url] += 1
            if self.deaths[handout.url] >= MOST_DEATHS:
                frontier.observe(lease, PageVisit(LinkPairs(handout.url, [], status=0), error=DIED))
            else:
                frontier.put_back(lease)
            # It may have begun a fetch without having said so yet.
            frontier.clock.rest(site)

    def put_back(self, hand: Hand, lease: int) -> None:
        """Queue a page again that a hand does not have, and so has not begun to fetch."""
        site = self._flight[lease][2]
        self._end(hand, lease)
        self.starts(hand, site, -1)
        self.frontier.put_back(lease)
        self.frontier.clock.rest(site)

    def _give(self, hand: Hand, handout: Handout) -> None:
        site = self.frontier.site_of(handout.lease)
        hand.leases[handout.lease] = handout
        self._flight[handout.lease] = handout.url, monotonic(), site, hand.name
        self._sites[site] += 1

    def _end(self, hand: Hand, lease: int) -> bool:
        """Forget a lease; return False if the hand does not have it."""
        if hand.leases.pop(lease, None) is None:
            return False
        hand.waiting.discard(lease)
        site = self._flight.pop(lease)[2]
        self._sites[site] -= 1
        return True

    # What hands say

    def _add_said(self, hand: Hand, entry: Statement) -> None:
        self.frontier.add(row_entry(entry))

    def _add_seeds_said(self, hand: Hand, urls: list[str]) -> None:
        self.frontier.add_seeds(urls)

    def _observe_said(self, hand: Hand, lease: int, visit: Statement, key: object = None) -> None:
        handout = hand.leases.get(lease)
        if handout is not None:
            self._end(hand, lease)
            self.frontier.observe(lease, row_visit(visit))
            self.deaths.pop(handout.url, None)

    def _put_back_said(
        self,
        hand: Hand,
        lease: int,
        request: str | None,
        priority: int | None,
        key: object = None,
    ) -> None:
        if self._end(hand, lease):
            self.frontier.put_back(lease, request_bytes(request), priority)

    def _release_site_said(self, hand: Hand, lease: int, key: object = None) -> None:
        if lease in hand.leases:
            hand.waiting.add(lease)
            self.frontier.release_site(lease)

    def _clock_said(
        self, hand: Hand, method: str, arguments: list[Any], keywords: dict[str, Any]
    ) -> None:
        if method in _CLOCK:
            if method == "not_fetched" or (method == "started" and keywords["was_handed_out"]):
                self.starts(hand, arguments[0], -1)
            if method == "started":
                hand.fetching[arguments[0]] += 1
            if method == "ended":
                hand.fetching[arguments[0]] -= 1
                self.on_fetch(arguments[0], keywords["elapsed"], keywords["status"])
            getattr(self.frontier.clock, method)(*arguments, **keywords)
