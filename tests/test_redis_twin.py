"""Random calls of four workers have the same outcome as on one local frontier, the twin.

When a worker dies, the twin puts its leases back; calls under lost leases do nothing. Every
invariant of the keys is checked after each call.
"""

from __future__ import annotations

import math
import os
import random
from typing import Any

import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st
from redis_invariants import check
from redis_servers import RedisServer
from remote_frontier import local_frontier
from settled_redis import SettledRedis

from crawlprio.frontier.protocol import Entry, PageVisit
from crawlprio.items import LinkPairs
from crawlprio.plugins.redis.counts import read_counts

N_WORKERS = 4
N_EXAMPLES = int(os.environ.get("CRAWLPRIO_REDIS_EXAMPLES", "8"))
URLS = [f"http://{site}.test/{n}" for site in "abc" for n in range(8)]
ACTIONS = ["lease", "lease", "lease", "observe", "observe", "entry", "back", "go", "die", "late"]
ACTIONS += ["together", "together"]


class Pair:
    """Four workers on one crawl in Redis, and the twin."""

    def __init__(self, server: RedisServer, crawl: str, **chosen: Any) -> None:
        self._client = server.client()
        self._prefix = f"crawlprio:{{{crawl}:0}}"
        self._make = lambda: SettledRedis(server.client(), crawl, **chosen)
        self.workers = [self._make() for _ in range(N_WORKERS)]
        self.twin = local_frontier(chosen)
        self.held: list[dict[int, tuple[int, str]]] = [{} for _ in range(N_WORKERS)]
        self.dead: list[tuple[SettledRedis, list[int]]] = []

    def act(self, rng: random.Random, action: str) -> None:
        at = rng.randrange(N_WORKERS)
        if action == "together":
            self._act_together(rng, at)
        else:
            self._act(rng, action, at)

    def _act_together(self, rng: random.Random, at: int) -> None:
        """Send many calls of a worker in one batch, ending with a lease."""
        worker = self.workers[at]
        for _ in range(3):
            self._act(rng, "lease", at)
        with worker.together():
            for action in rng.choices(["observe", "observe", "entry", "back", "go"], k=6):
                self._act(rng, action, at)
            worker._all[0].ask_at = -math.inf
            worker._ask(0.0)
        self._act(rng, "lease", at)

    def _act(self, rng: random.Random, action: str, at: int) -> None:
        worker, held = self.workers[at], self.held[at]
        lease = rng.choice(sorted(held)) if held else None
        if action == "lease":
            worker._all[0].ask_at = -math.inf  # other workers may have changed the shard
            handout, expected = worker.next_page(0.0), self.twin.next_page(0.0)
            assert (handout and handout[1:4]) == (expected and expected[1:4])
            if handout is not None and expected is not None:
                held[handout.lease] = (expected.lease, handout.url)
        elif action == "entry":
            url = rng.choice(URLS)
            priority = rng.choice([0, 0, 1, -1])
            said: dict[str, Any] = {
                "depth": rng.randrange(3),
                "priority": priority,
                "request": rng.choice([None, f'{{"priority":{priority}}}'.encode()]),
                "repeats": rng.random() < 0.3,
                "is_seed": rng.random() < 0.3,
            }
            entry = Entry(url, url, url.split("/")[2], **said)
            worker.add(entry)
            self.twin.add(entry)
        elif action == "die":
            self._die(at)
        elif action == "late":
            if self.dead:
                late, leases = rng.choice(self.dead)
                for lost in leases:
                    late.observe(lost, PageVisit(LinkPairs("", rng.sample(URLS, 2))))
                leases.clear()
        elif lease is not None:
            twin_lease, url = held[lease]
            if action == "go":
                worker.release_site(lease)
                self.twin.release_site(twin_lease)
                return
            del held[lease]
            if action == "back":
                priority = rng.choice([None, 1])
                worker.put_back(lease, None, priority)
                self.twin.put_back(twin_lease, None, priority)
            elif action == "observe":
                pairs = LinkPairs(url, rng.sample(URLS, rng.randrange(5)))
                visit = PageVisit(pairs, rng.random() < 0.2)
                worker.observe(lease, visit)
                self.twin.observe(twin_lease, visit)

    def _die(self, at: int) -> None:
        """Expire a worker's lease, so that the next question takes over its page leases."""
        worker, held = self.workers[at], self.held[at]
        self._client.zadd(f"{self._prefix}:workers", {worker._all[0].session.worker: 0.0})
        for twin_lease, _ in held.values():
            self.twin.put_back(twin_lease)
        self.dead.append((worker, sorted(held)))
        self.workers[at], self.held[at] = self._make(), {}
        # The next question takes over; put the page it brings back.
        handout = self.workers[at].next_page(0.0)
        expected = self.twin.next_page(0.0)
        assert (handout and handout[1:4]) == (expected and expected[1:4])
        if handout is not None and expected is not None:
            self.workers[at].put_back(handout.lease)
            self.twin.put_back(expected.lease)

    def check(self) -> None:
        check(self._client, self._prefix)
        assert read_counts(self._client, self._prefix)["waiting"] == len(self.twin)

    def close(self) -> None:
        for worker in (*self.workers, *(dead for dead, _ in self.dead)):
            worker.close()
        check(self._client, self._prefix)
        assert read_counts(self._client, self._prefix)["leased"] == 0


@pytest.mark.parametrize("ordering", ["opic", "larger-sites-first", "depth-first"])
def test_four_workers_match_a_local_frontier_and_keep_every_invariant(
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
        # An example takes about a second, and shrinking needs hundreds.
        phases=[Phase.generate],
    )
    @given(
        seed=st.integers(0, 2**32),
        limit=st.sampled_from([1, 2]),
        actions=st.lists(st.sampled_from(ACTIONS), min_size=20, max_size=80),
    )
    def run(seed: int, limit: int, actions: list[str]) -> None:
        rng = random.Random(seed)
        pair = Pair(
            redis_server,
            f"{ordering} {next(numbers)}",
            ORDERING=ordering,
            CONCURRENT_REQUESTS_PER_DOMAIN=limit,
            DOWNLOAD_DELAY=0,
        )
        try:
            seeds = rng.sample(URLS, 5)
            pair.workers[0].add_seeds(seeds)
            pair.workers[1].add_seeds(seeds)
            pair.twin.add_seeds(seeds)
            for action in actions:
                pair.act(rng, action)
                pair.check()
        finally:
            pair.close()

    run()
