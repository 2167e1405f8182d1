"""A frontier over several shards, as plain as possible, to compare with.

Pages are plain links; sites have no delays. O(pages) per call.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from crawlprio.plugins.redis.rules import COUNT_BACKLINKS, SPREAD, Rules

Token = tuple[int, int, int]
"""A message: sending shard, receiving shard, its number between these two."""


@dataclass
class TwinPage:
    """A page; `number` is its number within its shard."""

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
    """A leased page, and whether it holds its site."""

    page: TwinPage
    holds: bool = True


@dataclass
class Twin:
    """The frontier.

    Attributes
    ----------
    pages
        All pages by URL; those of a shard in order of discovery.
    leases
        All leases.
    messages
        Messages not delivered yet: URLs, and the gain of each one's key.
    """

    rules: Rules
    shard_of: dict[str, int]
    limit: int
    pages: dict[str, TwinPage] = field(default_factory=dict)
    leases: list[Lease] = field(default_factory=list)
    messages: dict[Token, tuple[list[str], float]] = field(default_factory=dict)
    n_sent: dict[tuple[int, int], int] = field(default_factory=dict)

    def add(self, url: str, key: float, priority: int = 0) -> None:
        """Queue a page unless it is known."""
        if url not in self.pages:
            shard = self.shard_of[url.split("/")[2]]
            number = sum(page.shard == shard for page in self.pages.values())
            self.pages[url] = TwinPage(url, shard, number, key, priority)

    def best(self) -> TwinPage | None:
        """Return the page that leaves next: by priority, rank of its site, shard and number; only
        the first page of a site can leave."""
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
        """Learn from a visit; return the messages that it sends."""
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
        by_shard: dict[int, list[str]] = {}
        for url in targets:
            by_shard.setdefault(self.shard_of[url.split("/")[2]], []).append(url)
        for shard, targets_there in by_shard.items():
            if shard == visited.shard:
                self._gain(targets_there, gain)
                continue
            between = visited.shard, shard
            self.n_sent[between] = self.n_sent.get(between, 0) + 1
            token = (*between, self.n_sent[between])
            self.messages[token] = targets_there, gain
            sent.append(token)
        return sent

    def deliver(self, token: Token) -> None:
        """Receive a message; ignore a repeat."""
        if token in self.messages:
            self._gain(*self.messages.pop(token))

    def _gain(self, urls: list[str], gain: float) -> None:
        for url in urls:
            self.add(url, self.rules.new_key)
        for url in urls:
            self.pages[url].key += gain
