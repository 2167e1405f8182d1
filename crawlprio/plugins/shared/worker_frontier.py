"""The frontier of a worker: pages leased to it, and messages about them to the coordinator."""

from __future__ import annotations

import logging
import math
from collections.abc import Callable, Mapping, Sequence
from time import monotonic
from typing import Any

from crawlprio.frontier.protocol import Attached, LeasedPage, PageVisit, QueueEntry
from crawlprio.items import LinkPairs
from crawlprio.live.clock import AwaitedClock
from crawlprio.plugins.shared.messages import (
    FETCH_FIELDS,
    MOST_SECONDS,
    UNSTARTED,
    Statement,
    entry_row,
    request_text,
    visit_reader,
    visit_row,
)
from crawlprio.store.side_tables import TABLES, SideTable

logger = logging.getLogger("crawlprio")


class WorkerClock(AwaitedClock):
    """A clock that reports to the coordinator's; a page is leased when it may be fetched."""

    def __init__(self, say: Callable[[Statement], object]) -> None:
        super().__init__()
        self._say = say

    def next_start(self, site: str) -> float:
        return -math.inf

    def has_room(self, site: str) -> bool:
        return True

    def hold(self, site: str, n_fetches: int = 1) -> None:
        """Do nothing: a worker fetches everything under a lease."""

    def not_fetched(self, site: str) -> None:
        self._say(["not_fetched", site])

    def started(self, site: str, *, was_handed_out: bool) -> float:
        self._say(["started", site, was_handed_out])
        return math.inf

    def ended(self, site: str, *, retry_after: float | None, **fetch: Any) -> None:
        most = None if retry_after is None else min(retry_after, MOST_SECONDS)
        fetch = {"n_bytes": 0, **fetch, "retry_after": most}
        self._say(["ended", site, [fetch[name] for name in FETCH_FIELDS]])

    def set_delay(self, site: str, seconds: float) -> None:
        self._say(["set_delay", site, seconds])

    def set_limit(self, site: str, n_fetches: int) -> None:
        self._say(["set_limit", site, n_fetches])

    def obey_crawl_delay(self, site: str, seconds: float) -> float:
        self._say(["obey_crawl_delay", site, seconds])
        return seconds


class WorkerFrontier(Attached):
    """A `crawlprio.frontier.protocol.Frontier` whose pages are in the coordinator.

    The coordinator leases pages when it chooses to; `next_page` returns those that have arrived.
    `say` sends it a statement. `held` has this worker's pages, by lease; `leased` the
    pages whose fetch has not begun. Leases that expire depend on the `line` to the coordinator: a
    `WorkerChannel`, or a `SocketTransport`. In all, `n_waiting` pages wait and workers have
    `n_out`, as of the last statement `status`.
    """

    carries_json_only = True
    keeps_objects = loses_leases = False

    def __init__(
        self, say: Callable[[Statement], object], tables: Mapping[str, SideTable] = TABLES
    ) -> None:
        self._say = say
        self._checked = visit_reader(tables)
        self.clock = WorkerClock(say)
        self.line: Any = None
        self.n_links = self.n_waiting = self.n_out = 0
        self.held: dict[int, LeasedPage] = {}
        self._ready_at = math.inf
        self._n_added = 0
        self._is_any_ready = False
        self._start_sites: set[str] = set()
        self._listed: dict[int, list[Any]] = {}
        self.leased: dict[int, LeasedPage] = {}

    @property
    def _is_alive(self) -> bool:
        """Whether leases are valid, so that fetches may start."""
        return self.line is None or self.line.is_alive

    def received(self, statement: Statement) -> None:
        """Carry out a statement of the coordinator."""
        kind, *values = statement
        if kind == "lease":
            leased_page, usage, (page, number, site) = values
            lease = leased_page.lease
            leased_page.page, leased_page.number, leased_page.site = page, number, site
            leased_page.usage = usage
            self.held[lease] = self.leased[lease] = leased_page
            self._listed[lease] = [lease, page, number, UNSTARTED]
        elif kind == "lost":
            self._lose(values[0])
        elif kind == "revoked_below":
            self._lose([lease for lease in self.held if lease < values[0]])
        elif kind == "status":
            self.n_waiting, self.n_out, seconds, self.n_links = values
            self._ready_at = math.inf if seconds is None else monotonic() + seconds
            self._is_any_ready = self.n_waiting > 0 and seconds is not None and seconds <= 0
            self._n_added = 0
        if self.user is not None:
            self.user.page_ready()

    def _lose(self, leases: Sequence[int]) -> None:
        for lease in leases:
            self._end(lease)
            self.leased.pop(lease, None)
            self._listed.pop(lease, None)
        self.abort(leases)

    def abort(self, leases: Sequence[int]) -> None:
        """End the fetches under these leases."""
        if self.user is not None:
            for lease in leases:
                self.user.lease_lost(lease)

    def listed(self) -> list[list[Any]]:
        """Return the leases that this worker has, or had when its last message was sent."""
        return [*self._listed.values()]

    def list_again(self, progress: Mapping[int, int]) -> None:
        """List only present leases, with their progress, now that all statements were sent."""
        self._listed = {
            lease: [*row[:3], progress.get(lease, UNSTARTED)]
            for lease, row in self._listed.items()
            if lease in self.held
        }

    @property
    def is_busy(self) -> bool:
        return self.line is not None and not self.line.is_acknowledged

    def __len__(self) -> int:
        return self.n_waiting + self._n_added

    def is_duplicate(self, identity: str) -> bool:
        return False

    def add(self, entry: QueueEntry) -> None:
        if entry.request is not None and not isinstance(entry.request, bytes):
            return  # JSON cannot hold it; the dispatcher has counted it
        self._n_added += 1
        if entry.is_seed:
            self._start_sites.add(entry.site)
        self._say(["add", entry_row(entry)])

    def start_enters_at(self, site: str, priority: int, n_free: float, *, can_lease: bool) -> float:
        """Not while a page can be fetched or messages are not acknowledged.

        Requests that wait for their sites keep back those of the same sites, unless they are fewer
        than `n_free`.
        """
        if self.leased or self._is_any_ready or self.is_busy or self._n_added >= n_free:
            return math.inf
        return -math.inf if len(self) < n_free or site not in self._start_sites else math.inf

    def add_seeds(self, urls: Sequence[str]) -> None:
        if urls:
            self._say(["add_seeds", [*urls]])

    def next_page(self, now: float) -> LeasedPage | None:
        lease = next(iter(self.leased), None)
        return None if lease is None or not self._is_alive else self.leased.pop(lease)

    def holds(self, lease: int) -> bool:
        return lease in self.held and self._is_alive

    def release_site(self, lease: int) -> None:
        if lease in self.held:
            self._say(["release_site", lease])

    def observe(self, lease: int, visit: PageVisit) -> None:
        if self._end(lease):
            row = visit_row(visit)
            try:
                self._checked(row)
            except ValueError as error:  # its spider made it
                logger.error("%s: an invalid LinkPairs; %s.", visit.pairs.source, error)
                pairs = LinkPairs(visit.pairs.source, [], status=0)
                row = visit_row(PageVisit(pairs, error="invalid LinkPairs"))
            self._say(["observe", lease, row])

    def put_back(
        self, lease: int, request: object | None = None, priority: int | None = None
    ) -> None:
        if self._end(lease):
            self._say(["put_back", lease, request_text(request), priority])

    def put_all_back(self) -> None:
        """Put back the pages that are not being fetched."""
        leased, self.leased = self.leased, {}
        for lease in leased:
            self.clock.not_fetched(self.held[lease].site)
            self.put_back(lease)

    def _end(self, lease: int) -> bool:
        """Forget a lease; return False if this worker does not have it."""
        return self.held.pop(lease, None) is not None

    def ready_at(self) -> float:
        if self.leased and self._is_alive:
            return -math.inf
        return self._ready_at if self._ready_at > monotonic() else math.inf

    def figures(self) -> dict[str, int | str]:
        return {}

    def close(self) -> None:
        self.leased.clear()
