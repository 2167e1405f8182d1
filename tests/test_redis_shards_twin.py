"""Random calls of four workers on several shards, with messages delivered in any order.

Every call is compared with the plain frontier in `sharded_twin.py`. Messages wait until an action
delivers them; some are delivered twice, and those of dead workers are taken over.
"""

from __future__ import annotations

import math
import os
import random
import struct
from typing import Any

import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st
from redis_invariants import PAGE, PAGES_PER_BLOCK, check
from redis_servers import RedisServer
from settled_redis import SettledRedis
from sharded_twin import Lease, Token, Twin

from crawlprio.frontier.protocol import Entry, PageVisit
from crawlprio.items import LinkPairs
from crawlprio.orderings import make_ordering
from crawlprio.plugins.redis.counts import read_counts
from crawlprio.plugins.redis.rules import rules_of

N_WORKERS, N_SHARDS = 4, 3
N_EXAMPLES = int(os.environ.get("CRAWLPRIO_REDIS_EXAMPLES", "4"))
SITES = [f"{site}.test" for site in "abcdefgh"]
URLS = [f"http://{site}/{n}" for site in SITES for n in range(4)]
ACTIONS = [
    *("lease", "lease", "lease", "observe", "observe", "observe", "entry", "back", "go", "die"),
    *("deliver", "deliver", "deliver", "twice", "late"),
]

Held = tuple[int, int, list[Any]]
"""A message for a worker to deliver: home shard, target shard, arguments."""


def token_of(held: Held) -> Token:
    home, shard, arguments = held
    return home, shard, int(arguments[1])


class Worker(SettledRedis):
    """A worker whose messages wait until an action delivers them."""

    def __init__(self, *arguments: Any, **settings: Any) -> None:
        self.messages: list[Held] = []
        super().__init__(*arguments, **settings)
        self.send = self._messages._deliver
        self._messages._deliver = (  # type: ignore[method-assign]
            lambda *message: self.messages.append(message[:3])
        )

    def look(self) -> None:
        """Refresh the state of all shards, which other workers may have changed."""
        for shard in self._all:
            shard.ask_at = -math.inf
            if shard.status is not None:
                shard.status = shard.status._replace(received=-math.inf)
        self._ask(0.0)


class Pair:
    """Four workers on one crawl in Redis, and the twin."""

    def __init__(self, server: RedisServer, crawl: str, **chosen: Any) -> None:
        self._client = server.client()
        self._make = lambda: Worker(server.client(), crawl, n_shards=N_SHARDS, **chosen)
        self.workers = [self._make() for _ in range(N_WORKERS)]
        self.shards = self.workers[0]._shards
        ordering = chosen["ORDERING"]
        self.twin = Twin(
            rules_of(make_ordering(ordering), ordering, n_shards=N_SHARDS),
            {site: self.shards.of(site) for site in SITES},
            chosen["CONCURRENT_REQUESTS_PER_DOMAIN"],
        )
        self.held: list[dict[int, Lease]] = [{} for _ in range(N_WORKERS)]
        self.gone: list[Held] = []
        self.dead: list[tuple[Worker, list[int]]] = []

    def seeds(self, urls: list[str]) -> None:
        self.workers[0].add_seeds(urls)
        for url in urls:
            self.twin.add(url, self.twin.rules.seed_key)

    def act(self, rng: random.Random, action: str) -> None:
        at = rng.randrange(N_WORKERS)
        worker, held = self.workers[at], self.held[at]
        lease = rng.choice(sorted(held)) if held else None
        if action == "lease":
            self._lease(worker, held)
        elif action == "entry":
            url, priority = rng.choice(URLS), rng.choice([0, 0, 1, -1])
            worker.add(Entry(url, url, url.split("/")[2], priority=priority))
            self.twin.add(url, self.twin.rules.initial_key, priority)
        elif action == "deliver" and worker.messages:
            message = worker.messages.pop(rng.randrange(len(worker.messages)))
            self.gone.append(message)
            self._deliver(worker, message)
        elif action == "twice" and self.gone:
            self._deliver(worker, rng.choice(self.gone))
        elif action == "die":
            self._die(at)
        elif action == "late" and self.dead:
            late, leases = rng.choice(self.dead)
            for lost in leases:
                late.observe(lost, PageVisit(LinkPairs("", rng.sample(URLS, 2))))
            leases.clear()
        elif lease is not None and action == "go":
            worker.release_site(lease)
            held[lease].holds = False
        elif lease is not None and action == "back":
            worker.put_back(lease)
            self.twin.put_back(held.pop(lease))
        elif lease is not None and action == "observe":
            urls = rng.sample(URLS, rng.randrange(8))
            before = {token_of(message) for message in worker.messages}
            twin_lease = held.pop(lease)
            worker.observe(lease, PageVisit(LinkPairs(twin_lease.page.url, urls)))
            sent = self.twin.observe(twin_lease, urls)
            assert {token_of(message) for message in worker.messages} - before == set(sent)

    def _lease(self, worker: Worker, held: dict[int, Lease]) -> None:
        worker.look()
        handout, expected = worker.next_page(0.0), self.twin.lease()
        assert (handout and handout.url) == (expected and expected.page.url)
        if handout is not None and expected is not None:
            held[handout.lease] = expected

    def _deliver(self, worker: Worker, message: Held) -> None:
        worker.send(*message)
        worker.settle()
        self.twin.deliver(token_of(message))

    def _die(self, at: int) -> None:
        """Expire a worker's lease; another takes over its leases and messages."""
        dead, held = self.workers[at], self.held[at]
        for shard, prefix in zip(dead._all, self.shards.prefixes, strict=True):
            self._client.zadd(f"{prefix}:workers", {shard.session.worker: 0.0})
        for lease in held.values():
            self.twin.put_back(lease)
        self.dead.append((dead, sorted(held)))
        self.workers[at], self.held[at] = self._make(), {}
        self.workers[at].look()
        assert sorted(map(token_of, self.workers[at].messages)) == sorted(
            map(token_of, dead.messages)
        )
        dead.messages.clear()

    def check(self) -> None:
        for prefix in self.shards.prefixes:
            check(self._client, prefix)
        counts = [read_counts(self._client, prefix) for prefix in self.shards.prefixes]
        assert sum(each["outgoing"] for each in counts) == len(self.twin.messages)
        assert sum(each["waiting"] for each in counts) == sum(
            page.waits for page in self.twin.pages.values()
        )

    def check_keys(self) -> None:
        """Assert that each page's key is correct to the last bit."""
        for page in self.twin.pages.values():
            key = f"{self.shards.prefixes[page.shard]}:p:{page.number // PAGES_PER_BLOCK}"
            at = page.number % PAGES_PER_BLOCK * PAGE.size
            record = self._client.getrange(key, at, at + PAGE.size - 1)
            assert struct.unpack_from(">d", record) == (page.key,), page

    def close(self) -> None:
        for worker in self.workers:
            for message in worker.messages:
                self._deliver(worker, message)
        assert self.twin.messages == {}
        self.check_keys()
        for worker in (*self.workers, *(dead for dead, _ in self.dead)):
            worker.close()
        n_received = 0
        for prefix in self.shards.prefixes:
            check(self._client, prefix)
            counts = read_counts(self._client, prefix)
            assert counts["leased"] == counts["outgoing"] == 0
            inboxes = self._client.scan_iter(f"{prefix.replace('{', '[{]')}:inbox:*")
            n_received += sum(map(self._client.bitcount, inboxes))
        assert n_received == sum(self.twin.n_sent.values())


@pytest.mark.parametrize("ordering", ["opic", "backlink-count", "larger-sites-first"])
def test_workers_and_messages_in_any_order_match_the_plain_frontier(
    ordering: str,
    redis_server: RedisServer,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("crawlprio.plugins.redis.connection.MAX_ATTEMPTS", 10**6)
    numbers = iter(range(10**6))

    @settings(
        max_examples=N_EXAMPLES,
        deadline=None,
        suppress_health_check=list(HealthCheck),
        database=None,
        # An example takes some five seconds, and shrinking needs hundreds.
        phases=[Phase.generate],
    )
    @given(
        seed=st.integers(0, 2**32),
        limit=st.sampled_from([1, 2]),
        actions=st.lists(st.sampled_from(ACTIONS), min_size=30, max_size=80),
    )
    def run(seed: int, limit: int, actions: list[str]) -> None:
        rng = random.Random(seed)
        pair = Pair(
            redis_server,
            f"{ordering} {next(numbers)}",
            ORDERING=ordering,
            CONCURRENT_REQUESTS_PER_DOMAIN=limit,
            CRAWLPRIO_MAX_PAGES_PER_SITE=None,
            DOWNLOAD_DELAY=0,
        )
        pair.seeds(rng.sample(URLS, 5))
        for action in actions:
            pair.act(rng, action)
            pair.check()
        pair.close()

    run()
