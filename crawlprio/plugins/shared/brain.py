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
    ENDED,
    FETCHING,
    OF_ONE_BRAIN,
    Statement,
    brain_of,
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

    It was last heard at `heard_at`, monotonic; before it can be heard, that is when it is due.

    It has the pages of `leases`, each with the number of the message that told of it: `n_sent` were
    sent to it. For the callbacks of those `waiting`, the crawl no longer waits. By site, fetches of
    it are `fetching`, if they have not ended, or `starting`, if they are still to start. Leases
    below `lost_below` are others' since it was taken for dead.
    """

    send: Callable[[list[Statement]], object]
    leases: dict[int, int] = field(default_factory=dict)
    waiting: set[int] = field(default_factory=set)
    fetching: Counter[str] = field(default_factory=Counter)
    starting: Counter[str] = field(default_factory=Counter)
    name: str = ""
    heard_at: float = field(default_factory=monotonic)
    n_sent: int = 0
    lost_below: int = 0


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
        """Give a hand a page that the frontier has handed out."""
        site = self._give(hand, handout, hand.n_sent + 1)
        self._will_start(hand, site)
        key = *self.frontier.key_of(handout.lease), site
        hand.send([["lease", handout_row(handout), usage, key]])

    def agree(self, hand: Hand, n_heard: int, leases: Sequence[Sequence[Any]]) -> None:
        """Correct a hand's leases by its own list, made when it had heard message `n_heard`."""
        lost = []
        for lease, *known in leases:
            if lease not in hand.leases and not self._adopt(hand, lease, *known):
                lost.append(lease)
        if lost:
            hand.send([["lost", lost]])
        if len(hand.leases) + len(lost) > len(leases):
            theirs = {row[0] for row in leases}
            for lease, number in [*hand.leases.items()]:
                if number <= n_heard and lease not in theirs:
                    self.put_back(hand, lease)

    def _adopt(self, hand: Hand, lease: int, page: int, number: int | None, progress: int) -> bool:
        """Take note of a page that a hand has from an earlier brain; False if it must not."""
        if lease < hand.lost_below or brain_of(lease) == brain_of(hand.n_sent):
            return False
        handout, clock = self.frontier.adopt(lease, page, number), self.frontier.clock
        if handout is None:
            return False
        site = self._give(hand, handout, 0)
        if progress == FETCHING:
            clock.started(site, was_handed_out=True)
            hand.fetching[site] += 1
        elif progress == ENDED:
            clock.not_fetched(site)
        else:
            self._will_start(hand, site)
        return True

    def _will_start(self, hand: Hand, site: str) -> None:
        """Note that a hand is to start a fetch on a site."""
        hand.starting[site] += 1
        self.starting[site] += 1

    def _starts(self, hand: Hand, site: str) -> bool:
        """Note that such a fetch starts or need not any more; False if none was to start."""
        if not hand.starting[site]:
            return False
        hand.starting[site] -= 1
        self.starting[site] -= 1
        return True

    def _will_not_start(self, hand: Hand, site: str) -> None:
        if self._starts(hand, site):
            self.frontier.clock.not_fetched(site)

    def status(self, n_preparing: int) -> Statement:
        """Return the statement of what waits; some pages are about to be leased."""
        ready_at = self.frontier.ready_at()
        seconds = None if ready_at == math.inf else ready_at - monotonic()
        n_waiting = 0 if self.frontier.has_enough else len(self.frontier)
        n_out = self.n_leased + n_preparing
        return ["status", n_waiting, n_out, seconds, self.frontier.n_links]

    def received(self, hand: Hand, statements: list[Statement]) -> None:
        """Carry out what a hand says, in order; `CrawlprioError` if frontier or store fails."""
        for kind, *said in statements:
            getattr(self, f"_{kind}_said")(hand, *said)

    def died(self, hand: Hand) -> None:
        """Queue the pages of a dead hand again."""
        frontier = self.frontier
        lost = [brain_of(hand.n_sent) * OF_ONE_BRAIN, *(lease + 1 for lease in hand.leases)]
        hand.lost_below = max(lost)
        for site, n_fetching in hand.fetching.items():
            for _ in range(n_fetching):
                frontier.clock.ended(
                    site, was_handed_out=True, elapsed=0.0, status=0, retry_after=None
                )
        hand.fetching.clear()
        for site in [*hand.starting.elements()]:
            self._will_not_start(hand, site)
        for lease in [*hand.leases]:
            url, _, site, _ = self._flight[lease]
            self._end(hand, lease)
            self.deaths[url] += 1
            if self.deaths[url] >= MOST_DEATHS:
                frontier.observe(lease, PageVisit(LinkPairs(url, [], status=0), error=DIED))
            else:
                frontier.put_back(lease)
            # It may have begun a fetch without having said so yet.
            frontier.clock.rest(site)

    def put_back(self, hand: Hand, lease: int) -> None:
        """Queue a page again that a hand does not have, and so has not begun to fetch."""
        site = self._flight[lease][2]
        self._end(hand, lease)
        self._will_not_start(hand, site)
        self.frontier.put_back(lease)
        self.frontier.clock.rest(site)

    def _give(self, hand: Hand, handout: Handout, message: int) -> str:
        """Note that a hand has a page, of which a message tells; return its site."""
        site = self.frontier.site_of(handout.lease)
        hand.leases[handout.lease] = message
        self._flight[handout.lease] = handout.url, monotonic(), site, hand.name
        self._sites[site] += 1
        return site

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

    def _observe_said(self, hand: Hand, lease: int, visit: Statement) -> None:
        if lease in hand.leases:
            self.deaths.pop(self._flight[lease][0], None)
            self._end(hand, lease)
            self.frontier.observe(lease, row_visit(visit))

    def _put_back_said(
        self, hand: Hand, lease: int, request: str | None, priority: int | None
    ) -> None:
        if self._end(hand, lease):
            self.frontier.put_back(lease, request_bytes(request), priority)

    def _release_site_said(self, hand: Hand, lease: int) -> None:
        if lease in hand.leases:
            hand.waiting.add(lease)
            self.frontier.release_site(lease)

    def _clock_said(
        self, hand: Hand, method: str, arguments: list[Any], keywords: dict[str, Any]
    ) -> None:
        if method not in _CLOCK:
            return
        clock, site = self.frontier.clock, arguments[0]
        if method == "not_fetched":
            self._will_not_start(hand, site)
            return
        if method == "started":
            keywords["was_handed_out"] = keywords["was_handed_out"] and self._starts(hand, site)
            hand.fetching[site] += 1
        elif method == "ended":
            if not hand.fetching[site]:  # it began before this hand was taken for dead
                clock.started(site, was_handed_out=False)
                hand.fetching[site] += 1
            hand.fetching[site] -= 1
            self.on_fetch(site, keywords["elapsed"], keywords["status"])
        getattr(clock, method)(*arguments, **keywords)
