"""A frontier over several shards as plainly as it can be written, for comparison.

Pages are plain links; sites have no delays. Costs O(pages) a call.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from crawlprio.redis.rules import COUNT_BACKLINKS, SPREAD, Rules

Token = tuple[int, int, int]
"""A message: the shard that sends it, the one that it is for, its number between these two."""


@dataclass
class TwinPage:
    """A page; `number` is its place in its shard."""

    url: str
    shard: int
    number: int
    key: float
    priority: int = 0
    waits: bool = True

    @property
    def site(self) -> str:
        return self.url.split("/")[2]


@dataclass
class Lease:
    """A page that a worker has, and whether it holds its site."""

    page: TwinPage
    holds: bool = True


@dataclass
class Twin:
    """The frontier.

    Attributes
    ----------
    pages
        by URL, those of a shard in their order.
    leases
        all of them.
    messages
        that were sent and not delivered: URLs, and what each of them gains.
    """

    rules: Rules
    shard_of: dict[str, int]
    limit: int
    pages: dict[str, TwinPage] = field(default_factory=dict)
    leases: list[Lease] = field(default_factory=list)
    messages: dict[Token, tuple[list[str], float]] = field(default_factory=dict)
    n_sent: dict[tuple[int, int], int] = field(default_factory=dict)

    def add(self, url: str, key: float, priority: int = 0) -> None:
        """Have a page wait, unless it is known."""
        if url not in self.pages:
            shard = self.shard_of[url.split("/")[2]]
            number = sum(page.shard == shard for page in self.pages.values())
            self.pages[url] = TwinPage(url, shard, number, key, priority)

    def best(self) -> TwinPage | None:
        """Return the page that leaves next: larger priority, larger rank of its site, then the
        smaller shard and number; of a site its first page."""
        candidates = []
        for site in {page.site for page in self.pages.values()}:
            waiting = [page for page in self.pages.values() if page.waits and page.site == site]
            held = sum(lease.holds and lease.page.site == site for lease in self.leases)
            if waiting and held < self.limit:
                first = min(waiting, key=lambda page: (-page.priority, -page.key, page.number))
                rank = len(waiting) if self.rules.by_waiting_pages else first.key
                candidates.append(((-first.priority, -rank, first.shard, first.number), first))
        return min(candidates, key=lambda each: each[0])[1] if candidates else None

    def lease(self) -> Lease | None:
        page = self.best()
        if page is None:
            return None
        page.waits = False
        self.leases.append(Lease(page))
        return self.leases[-1]

    def put_back(self, lease: Lease) -> None:
        self.leases.remove(lease)
        lease.page.waits = True

    def observe(self, lease: Lease, urls: list[str]) -> list[Token]:
        """Learn from a visit; return the messages that it takes."""
        self.leases.remove(lease)
        visited = lease.page
        targets = list(dict.fromkeys(url for url in urls if url != visited.url))
        gain = 0.0
        if self.rules.evidence_rule == COUNT_BACKLINKS:
            gain = 1.0
        elif self.rules.evidence_rule == SPREAD and targets:
            gain = visited.key / len(targets)
            visited.key = 0.0
        sent = []
        of_shard: dict[int, list[str]] = {}
        for url in targets:
            of_shard.setdefault(self.shard_of[url.split("/")[2]], []).append(url)
        for shard, its in of_shard.items():
            if shard == visited.shard:
                self._gain(its, gain)
                continue
            between = visited.shard, shard
            self.n_sent[between] = self.n_sent.get(between, 0) + 1
            token = (*between, self.n_sent[between])
            self.messages[token] = its, gain
            sent.append(token)
        return sent

    def deliver(self, token: Token) -> None:
        """Take a message in, the first time."""
        if token in self.messages:
            self._gain(*self.messages.pop(token))

    def _gain(self, urls: list[str], gain: float) -> None:
        for url in urls:
            self.add(url, self.rules.new_key)
        for url in urls:
            self.pages[url].key += gain
