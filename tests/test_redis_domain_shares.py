"""No registered domain holds more than half of all workers' fetches while pages of others wait.

The frontier in one process, with as many fetches as all workers together, is the judge.
"""

from __future__ import annotations

import math
import os
import random
from collections import Counter, defaultdict
from collections.abc import Iterator
from typing import Any

import pytest
from redis_invariants import SITE, check
from redis_servers import RedisServer
from remote_frontier import local_frontier
from settled_redis import SettledRedis

from crawlprio.frontier.domain_shares import LATELY
from crawlprio.frontier.protocol import PageVisit
from crawlprio.items import LinkPairs
from crawlprio.plugins.redis.counts import read_counts
from crawlprio.plugins.redis.shards import prefix_of

SEED = int(os.environ.get("CRAWLPRIO_SHARES_SEED", "20261123"))
N_CRAWLS, N_ACTIONS, CHECKED_EVERY = 10, 120, 8


class Pair:
    """Workers on a crawl in Redis, and the twin."""

    def __init__(self, server: RedisServer, crawl: str, rng: random.Random) -> None:
        self.rng, self.prefix, self.client = rng, prefix_of(crawl), server.client()
        n_workers, at_once = rng.choice([(1, 4), (1, 5), (2, 2), (3, 2)])
        n_domains, n_sites = rng.choice([(1, 6), (2, 8), (4, 4)])
        chosen: dict[str, Any] = {
            "ORDERING": rng.choice(["breadth-first", "opic", "larger-sites-first"]),
            "CONCURRENT_REQUESTS_PER_DOMAIN": rng.choice([1, 2]),
            "DOWNLOAD_DELAY": rng.choice([0, 2]),
            "CRAWLPRIO_MAX_PAGES_PER_PATTERN": None,
        }
        print(crawl, n_workers, at_once, n_domains, n_sites, chosen)
        self.urls = [
            f"http://{site}.{domain}.test/{n}"
            for n in range(3)
            for domain in range(n_domains)
            for site in range(n_sites)
        ]
        self.workers = [
            SettledRedis(server.client(), crawl, 1e9, **chosen, CONCURRENT_REQUESTS=at_once)
            for _ in range(n_workers)
        ]
        self.local = local_frontier({**chosen, "CONCURRENT_REQUESTS": n_workers * at_once})
        self.leases: list[tuple[SettledRedis, int, int]] = []
        seeds = rng.sample(self.urls, len(self.urls) // 2)
        self.workers[0].add_seeds(seeds)
        self.local.add_seeds(seeds)

    def lease(self) -> None:
        worker = self.rng.choice(self.workers)
        worker._all[0].ask_at = -math.inf
        handout = worker.next_page(0.0)
        status = worker._all[0].status
        assert status is not None
        expected = self.local.next_page(status.server_now)
        assert (handout and handout.url) == (expected and expected.url)
        if handout is not None and expected is not None:
            self.leases.append((worker, handout.lease, expected.lease))

    def act(self) -> None:
        rng = self.rng
        action = rng.choice(["lease", "lease", "lease", "observe", "observe", "back", "go", "time"])
        if action == "lease":
            self.lease()
        elif action == "time":
            self.workers[0].advance(rng.choice([0.5, 5.0, LATELY]))
            for worker in self.workers[1:]:
                worker._all[0].session.time.forget()
        elif self.leases:
            at = rng.randrange(len(self.leases))
            worker, lease, twin_lease = self.leases[at]
            if action == "go":
                worker.release_site(lease)
                self.local.release_site(twin_lease)
                return
            del self.leases[at]
            if action == "back":
                worker.put_back(lease)
                self.local.put_back(twin_lease)
            else:
                visit = PageVisit(LinkPairs("", rng.sample(self.urls, 2), status=200))
                worker.observe(lease, visit)
                self.local.observe(twin_lease, visit)

    def close(self) -> None:
        for worker in self.workers:
            worker.close()
        self.local.close()


def test_random_calls_of_several_workers_have_the_outcome_of_one_local_frontier(
    redis_server: RedisServer,
) -> None:
    print("seed", SEED)
    n_held = 0.0
    for number in range(N_CRAWLS):
        pair = Pair(redis_server, f"shares {number}", random.Random(SEED + number))
        for n in range(N_ACTIONS):
            pair.act()
            if n % CHECKED_EVERY == 0:
                check(pair.client, pair.prefix)
            n_held += read_counts(pair.client, pair.prefix)["held"]
        pair.close()
        counts = read_counts(pair.client, pair.prefix)
        assert (counts["leased"], counts["fetches"]) == (0, 0)
    assert n_held > N_CRAWLS * N_ACTIONS / 10, "sites are held back often"


def begin(server: RedisServer, urls: list[str], **chosen: Any) -> SettledRedis:
    frontier = SettledRedis(
        server.client(),
        "attack",
        ORDERING="breadth-first",
        DOWNLOAD_DELAY=0,
        CONCURRENT_REQUESTS_PER_DOMAIN=1,
        **chosen,
    )
    frontier.add_seeds(urls)
    return frontier


def leases(frontier: SettledRedis, n_calls: int) -> Iterator[tuple[int, str]]:
    """Yield the number and URL of each page that leaves in so many calls."""
    for _ in range(n_calls):
        for shard in frontier._all:
            shard.ask_at = -math.inf
        handout = frontier.next_page(0.0)
        if handout is not None:
            yield handout.lease, handout.url.split("/")[2]


def test_thousands_of_subdomains_hold_half_of_the_fetches_and_no_call_for_long(
    redis_server: RedisServer,
) -> None:
    many = [f"http://{n}.evil.test/" for n in range(2_000)]
    frontier = begin(redis_server, [*many, "http://good.test/"], CONCURRENT_REQUESTS=8)
    client, prefix = redis_server.client(), prefix_of("attack")
    left = list(leases(frontier, 40))
    hosts = [host for _, host in left]
    assert hosts == ["0.evil.test", "1.evil.test", "2.evil.test", "3.evil.test", "good.test"]
    assert read_counts(client, prefix)["held"] == 1_996
    # All sites of a domain without fetches return, some in each call.
    for lease, _ in left:
        frontier.observe(lease, PageVisit(LinkPairs("", [], status=200)))
    returned = [1_996 - read_counts(client, prefix)["held"]]
    while returned[-1] < 1_996:
        frontier._call(0, "lease", 0, 0, "")
        returned.append(1_996 - read_counts(client, prefix)["held"])
        assert 0 < returned[-1] - returned[-2] <= 100
    check(client, prefix)
    frontier.close()


def test_a_domain_is_known_by_whatever_its_hosts_are_called(redis_server: RedisServer) -> None:
    one_owner = ["a.evil.test", "evil.test:8080", "b.evil.test.", "xn--bcher-kva.evil.test"]
    one_owner += ["bücher.evil.test:81", "EVIL.test", "a.b.c.d.e.evil.test"]
    owners = [one_owner, ["one.github.io", "x.one.github.io"], ["two.github.io"]]
    owners += [["127.0.0.2", "127.0.0.2:81"], ["127.0.0.3"], ["[::1]"], ["a.co.uk"], ["b.co.uk"]]
    urls = [f"http://{host}/" for hosts in owners for host in hosts]
    frontier = begin(redis_server, urls, CONCURRENT_REQUESTS=8)
    client, prefix = redis_server.client(), prefix_of("attack")
    domains: dict[int, list[str]] = defaultdict(list)
    for site in range(int(client.hlen(f"{prefix}:hosts")) - 1):
        record = client.hget(f"{prefix}:sites", site)
        domains[SITE.unpack(record[: SITE.size])[6]].append(record[SITE.size :].decode())
    found = sorted(sorted({*hosts}) for hosts in domains.values())
    assert len(found) == len(owners)
    assert max(map(len, found)) >= 5
    frontier.close()


def test_shards_divide_the_share_of_a_domain(redis_server: RedisServer) -> None:
    urls = [f"http://{n}.{name}.test/" for n in range(60) for name in ("evil", "good")]
    frontier = begin(redis_server, urls, n_shards=4, CONCURRENT_REQUESTS=32)
    left = Counter(host.split(".")[1] for _, host in leases(frontier, 80))
    assert left == {"evil": 16, "good": 16}
    frontier.close()


def test_fetches_of_a_worker_that_died_no_longer_count(redis_server: RedisServer) -> None:
    one, other = (begin(redis_server, [], CONCURRENT_REQUESTS=n) for n in (8, 4))
    client, prefix = redis_server.client(), prefix_of("attack")
    assert read_counts(client, prefix)["fetches"] == 12
    client.zadd(f"{prefix}:workers", {one._all[0].session.worker: 0.0})
    assert other.next_page(0.0) is None
    assert read_counts(client, prefix)["fetches"] == 4
    for frontier in (one, other):
        frontier.close()
    assert read_counts(client, prefix)["fetches"] == 0


@pytest.mark.parametrize("fetches", [0, 1])
def test_one_fetch_at_a_time_and_no_limit_share_nothing(
    fetches: int, redis_server: RedisServer
) -> None:
    urls = [f"http://{n}.{name}.test/" for name in ("evil", "good") for n in range(6)]
    frontier = begin(redis_server, urls, CONCURRENT_REQUESTS=fetches)
    assert [host for _, host in leases(frontier, 12)] == [url.split("/")[2] for url in urls]
    frontier.close()
