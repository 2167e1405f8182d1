"""The frontier's side: carries out messages of workers, and knows which worker has which page."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import partial
from time import monotonic
from typing import Any

from crawlprio.frontier.protocol import LeasedPage, PageVisit
from crawlprio.items import LinkPairs
from crawlprio.live.clock import AwaitedClock
from crawlprio.live.local_frontier import LocalFrontier
from crawlprio.plugins.shared.messages import (
    ENDED,
    FETCHING,
    OF_ONE_COORDINATOR,
    Statement,
    coordinator_of,
    leased_page_row,
    written,
)
from crawlprio.store.outcomes import DIED

MOST_DEATHS = 3
"""Workers that may die while they fetch a page; then it counts as failed, until the next run."""


@dataclass(eq=False)
class Worker:
    """A process that fetches; `send` sends it statements, and `name` is its name in messages.

    It joined at `since`; its last message arrived at `received_at`, or its first one is due then,
    both monotonic. `leases` has the number of the message that leased each page; `n_sent` messages
    were sent to it. It has begun to fetch the pages in `begun`, and the crawl no longer waits for
    the callbacks of those in `waiting`. By site, `fetching` counts its fetches that have not ended,
    `starting` those that have yet to start. Leases below `revoked_below` were revoked when it was
    taken for dead.
    """

    send: Callable[[list[Statement]], object]
    leases: dict[int, int] = field(default_factory=dict)
    begun: set[int] = field(default_factory=set)
    waiting: set[int] = field(default_factory=set)
    fetching: Counter[str] = field(default_factory=Counter)
    starting: Counter[str] = field(default_factory=Counter)
    name: str = ""
    since: float = field(default_factory=monotonic)
    received_at: float = field(default_factory=monotonic)
    n_sent: int = 0
    revoked_below: int = 0


class RemoteWorker(Worker):
    """A worker whose messages go through Redis.

    Of its messages, `n_read` were carried out. The latest one, of `received_at`, was sent at `echo`
    by its own clock, and asked for `wants` pages in all. `outside` has the sites of what it
    may fetch besides pages, by its number for it; empty while it waits for permission. Only one
    that `is_greeted` is leased pages and waited for: it was started for this crawl. `n_skipped` is
    the number of its last invalid message.
    """

    def __init__(self, name: str, n_sent: int, n_read: int = 0) -> None:
        self.unsent: list[Statement] = []
        super().__init__(self.unsent.extend, name=name, n_sent=n_sent)
        self.n_read = n_read
        self.outside: dict[int, str] = {}
        self.wants = self.n_skipped = 0
        self.echo = 0.0
        self.is_greeted = n_read > 0

    @property
    def room(self) -> int:
        """How many more pages it wants."""
        return self.wants - len(self.leases) + len(self.waiting)

    def message(self, status: Statement) -> bytes:
        """Return the next message to it."""
        self.n_sent += 1
        lost = [["revoked_below", self.revoked_below]] if self.revoked_below else []
        statements = written([*lost, *self.unsent, status])
        self.unsent.clear()
        return b"[%d,%d,%r,%b]" % (self.n_sent, self.n_read, self.echo, statements)


class Coordinator:
    """The one frontier of several workers; the `crawlprio.live.roles.WorkerPool` of its crawl.

    A page is leased to one worker. Each lease ends once: by a message of the worker, or by its
    death, after which the page waits again and its site rests for one delay. `handlers` carry out
    the statements of workers, by kind; those about pages that the worker has no lease of are
    ignored.

    `n_preparing` pages are about to be leased. By site, `outside` counts what workers may fetch
    besides pages, and `starting` the leased pages whose fetch has not begun. `deaths` counts, by
    URL, workers that died after they had begun to fetch a page, until it has an outcome.
    """

    def __init__(self, frontier: LocalFrontier) -> None:
        self.frontier = frontier
        self.on_fetch: Callable[[str, float, int], object] = lambda site, seconds, status: None
        self.workers: Iterable[Worker] = ()
        self.n_preparing = 0
        self.deaths: Counter[str] = Counter()
        self._sites: Counter[str] = Counter()
        self.outside: Counter[str] = Counter()
        self.starting: Counter[str] = Counter()
        self._flight: dict[int, tuple[str, float, str, str]] = {}
        self.handlers: dict[str, Callable[..., object]] = {
            "add": lambda worker, entry: frontier.add(entry),
            "add_seeds": lambda worker, urls: frontier.add_seeds(urls),
            "observe": self._observe,
            "begun": self._begin,
            "put_back": self._put_back,
            "release_site": self._release_site,
            "started": self._started,
            "ended": self._ended,
            "not_fetched": self._will_not_start,
        }
        clock = frontier.clock
        for rule in (clock.set_delay, clock.set_limit, clock.obey_crawl_delay):
            self.handlers[rule.__name__] = partial(_set_rule, clock, rule)

    @property
    def n_leased(self) -> int:
        """Pages that workers have."""
        return len(self._flight)

    @property
    def n_out(self) -> int:
        """Pages that workers have, or are about to get."""
        return self.n_preparing + self.n_leased

    def flight(self) -> Iterator[tuple[str, float, str]]:
        """Yield the URL of each page that a worker has, for how many seconds, and its name."""
        now = monotonic()
        for url, since, _, name in self._flight.values():
            yield url, now - since, name

    @property
    def dead_letters(self) -> list[str]:
        """URLs of pages that failed because workers died with them."""
        return [url for url, n_deaths in self.deaths.items() if n_deaths >= MOST_DEATHS]

    def holds(self, site: str) -> bool:
        """Return whether a worker has a page of a site, or may fetch anything else there."""
        return self._sites[site] > 0 or self.outside[site] > 0

    def may_fetch_outside(self, site: str) -> bool:
        """Return whether a worker may fetch what is no page from a site now."""
        is_ready = self.frontier.clock.is_ready(site, counts_unstarted=True)
        return is_ready and not self.outside[site]

    def may_lease(self, site: str) -> bool:
        """Return whether a page of a site may be leased now.

        Where a site may have several fetches at once, its delay runs from the start of the last
        one, which the worker must report first.
        """
        clock = self.frontier.clock
        return not (self.starting[site] and clock.delay(site) > 0) and clock.is_ready(site)

    def lease(self, worker: Worker, leased_page: LeasedPage) -> None:
        """Lease a page that has left the queue to a worker."""
        site = self._give(worker, leased_page, worker.n_sent + 1)
        self._will_start(worker, site)
        key = leased_page.page, leased_page.number, site
        worker.send([["lease", leased_page_row(leased_page), leased_page.usage, key]])

    def reconcile_leases(
        self, worker: Worker, n_received: int, leases: Sequence[Sequence[Any]]
    ) -> None:
        """Correct a worker's leases by its own list, made after message `n_received` reached it."""
        lost = []
        for lease, *known in leases:
            if lease not in worker.leases and not self._adopt(worker, lease, *known):
                lost.append(lease)
        if lost:
            worker.send([["lost", lost]])
        if len(worker.leases) + len(lost) > len(leases):
            theirs = {row[0] for row in leases}
            for lease, number in [*worker.leases.items()]:
                if number <= n_received and lease not in theirs:
                    self.put_back(worker, lease)

    def _adopt(
        self, worker: Worker, lease: int, page: int, number: int | None, progress: int
    ) -> bool:
        """Adopt a lease of an earlier coordinator; False if its page is not the worker's."""
        if lease < worker.revoked_below or coordinator_of(lease) == coordinator_of(worker.n_sent):
            return False
        leased_page, clock = self.frontier.leases.adopt(lease, page, number), self.frontier.clock
        if leased_page is None:
            return False
        site = self._give(worker, leased_page, 0)
        if progress in (FETCHING, ENDED):
            worker.begun.add(lease)
        if progress == FETCHING:
            clock.started(site, was_handed_out=True)
            worker.fetching[site] += 1
        elif progress == ENDED:
            clock.not_fetched(site)
        else:
            self._will_start(worker, site)
        return True

    def _will_start(self, worker: Worker, site: str) -> None:
        """Record that a worker is to start a fetch on a site."""
        worker.starting[site] += 1
        self.starting[site] += 1

    def _starts(self, worker: Worker, site: str) -> bool:
        """Record that such a fetch starts or is off; False if none was to start."""
        if not worker.starting[site]:
            return False
        worker.starting[site] -= 1
        self.starting[site] -= 1
        return True

    def _will_not_start(self, worker: Worker, site: str) -> None:
        if self._starts(worker, site):
            self.frontier.clock.not_fetched(site)

    def status(self) -> Statement:
        ready_at = self.frontier.ready_at()
        seconds = None if ready_at == math.inf else ready_at - monotonic()
        n_waiting = 0 if self.frontier.has_enough else len(self.frontier)
        return ["status", n_waiting, self.n_out, seconds, self.frontier.n_links]

    def died(self, worker: Worker) -> None:
        """Queue the pages of a dead worker again."""
        frontier = self.frontier
        lost = [
            coordinator_of(worker.n_sent) * OF_ONE_COORDINATOR,
            *(lease + 1 for lease in worker.leases),
        ]
        worker.revoked_below = max(lost)
        for site, n_fetching in worker.fetching.items():
            for _ in range(n_fetching):
                frontier.clock.ended(
                    site, was_handed_out=True, elapsed=0.0, status=0, retry_after=None
                )
        worker.fetching.clear()
        for site in [*worker.starting.elements()]:
            self._will_not_start(worker, site)
        for lease in [*worker.leases]:
            url, _, site, _ = self._flight[lease]
            has_begun = lease in worker.begun  # else it is not what killed the worker
            self._end(worker, lease)
            if has_begun:
                self.deaths[url] += 1
            if has_begun and self.deaths[url] >= MOST_DEATHS:
                frontier.observe(lease, PageVisit(LinkPairs(url, [], status=0), error=DIED))
            else:
                frontier.put_back(lease)
            # Its message that the fetch has begun may be lost.
            frontier.clock.rest(site)

    def put_back(self, worker: Worker, lease: int) -> None:
        """Queue a page again whose lease never reached its worker."""
        site = self._flight[lease][2]
        self._end(worker, lease)
        self._will_not_start(worker, site)
        self.frontier.put_back(lease)
        self.frontier.clock.rest(site)

    def _give(self, worker: Worker, leased_page: LeasedPage, message: int) -> str:
        """Record a lease, and the number of the message that grants it; return its site."""
        site = leased_page.site
        worker.leases[leased_page.lease] = message
        self._flight[leased_page.lease] = leased_page.url, monotonic(), site, worker.name
        self._sites[site] += 1
        return site

    def _end(self, worker: Worker, lease: int) -> bool:
        """Forget a lease; return False if the worker does not have it."""
        if worker.leases.pop(lease, None) is None:
            return False
        worker.begun.discard(lease)
        worker.waiting.discard(lease)
        site = self._flight.pop(lease)[2]
        self._sites[site] -= 1
        self.frontier.clock.wake(site)
        return True

    def _observe(self, worker: Worker, lease: int, visit: PageVisit) -> None:
        if lease in worker.leases:
            self.deaths.pop(self._flight[lease][0], None)
            self._end(worker, lease)
            self.frontier.observe(lease, visit)

    def _put_back(
        self, worker: Worker, lease: int, request: bytes | None, priority: int | None
    ) -> None:
        if self._end(worker, lease):
            self.frontier.put_back(lease, request, priority)

    def _begin(self, worker: Worker, lease: int) -> None:
        if lease in worker.leases:
            worker.begun.add(lease)

    def _release_site(self, worker: Worker, lease: int) -> None:
        if lease in worker.leases:
            worker.waiting.add(lease)
            self.frontier.release_site(lease)

    def _started(self, worker: Worker, site: str, was_handed_out: bool) -> None:
        was_handed_out = was_handed_out and self._starts(worker, site)
        self.frontier.clock.started(site, was_handed_out=was_handed_out)
        worker.fetching[site] += 1
        self.frontier.clock.wake(site)  # the worker has one fetch less to start

    def _ended(self, worker: Worker, site: str, fetch: dict[str, Any]) -> None:
        if not worker.fetching[site]:  # it began before this worker was taken for dead
            self._started(worker, site, False)
        worker.fetching[site] -= 1
        self.on_fetch(site, fetch["elapsed"], fetch["status"])
        self.frontier.clock.ended(site, **fetch)


def _set_rule(
    clock: AwaitedClock, rule: Callable[[str, Any], object], worker: Worker, site: str, value: float
) -> None:
    rule(site, value)
    clock.wake(site)
