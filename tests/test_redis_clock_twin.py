"""Random fetches have the same times by the server's clock as by a local `SiteClock`, the twin.

`SettledRedis.advance` moves the server's time. The twin is told the time of each call from the
server's answer, so both compute with the same numbers.
"""

from __future__ import annotations

import math
import os
import random
from dataclasses import dataclass, field
from time import monotonic
from typing import Any

import pytest
from redis_invariants import SITE, check
from redis_servers import RedisServer
from remote_frontier import local_frontier
from settled_redis import SettledRedis

from crawlprio.frontier.protocol import PageVisit
from crawlprio.items import LinkPairs

SEED = int(os.environ.get("CRAWLPRIO_CLOCK_SEED", "20261122"))
N_CRAWLS, N_ACTIONS = 25, 120
SITES = ["a.test", "b.test", "one.c.test", "two.c.test", "three.c.test"]
URLS = [f"http://{site}/{n}" for site in SITES for n in range(24)]
STATUSES = [200, 200, 200, 404, 500, 429, 503, 503, 0]
MICROSECOND = 1e-6


@dataclass
class Fetch:
    """A page leased by both, or a fetch without a page; `lease` and `twin_lease` are 0 there."""

    host: str
    lease: int = 0
    twin_lease: int = 0
    started_at: float | None = None
    has_ended: bool = False
    url: str = field(default="", compare=False)


def settings_of(rng: random.Random) -> dict[str, Any]:
    limit = rng.choice([1, 1, 2, 3])
    return {
        "ORDERING": "breadth-first",
        "CONCURRENT_REQUESTS": rng.choice([0, 2, 3, 4, 16]),
        "CONCURRENT_REQUESTS_PER_DOMAIN": limit,
        "DOWNLOAD_DELAY": rng.choice([0, 0.5, 3]),
        "CRAWLPRIO_PAGES_PER_VISIT": rng.choice([1, 3]) if limit == 1 else 1,
        "CRAWLPRIO_SMALL_SITE_DELAY": rng.choice([None, 0, 5]),
        "CRAWLPRIO_SMALL_SITE_PAGES": 3,
        "CRAWLPRIO_ADAPTIVE_DELAY": rng.choice([0, 2]),
        "CRAWLPRIO_MAX_ADAPTIVE_DELAY": 4,
        "CRAWLPRIO_SITE_BANDWIDTH": rng.choice([0, 10_000]),
        "CRAWLPRIO_MAX_CRAWL_DELAY": 20,
        "CRAWLPRIO_MAX_BACK_OFF": 100,
        "DOWNLOAD_SLOTS": rng.choice([{}, {"b.test": {"delay": 1.5}}, {"b.test": {"delay": 0}}]),
        "CRAWLPRIO_MAX_PAGES_PER_PATTERN": None,
    }


class Pair:
    """A worker on a crawl in Redis, and the twin."""

    def __init__(self, server: RedisServer, crawl: str, chosen: dict[str, Any]) -> None:
        self.client = server.client()
        self.prefix = f"crawlprio:{{{crawl}:0}}"
        self.redis = SettledRedis(server.client(), crawl, lease_seconds=1e9, **chosen)
        self.limit = int(chosen["CONCURRENT_REQUESTS_PER_DOMAIN"])
        self.local = local_frontier(chosen)
        self.sites = self.local.clock.sites
        self.fetches: list[Fetch] = []
        seeds = [url for url in URLS if url.endswith(("/0", "/1"))]
        self.redis.add_seeds(seeds)
        self.local.add_seeds(seeds)

    @property
    def now(self) -> float:
        """The server's time in the last answer."""
        status = self.redis._all[0].status
        assert status is not None
        return status.server_now

    def id_of(self, host: str) -> int:
        return self.local._recorder.pages.site(host)

    def lease(self) -> None:
        self.redis._all[0].ask_at = -math.inf
        handout = self.redis.next_page(0.0)
        expected = self.local.next_page(self.now)
        assert (handout and handout.url) == (expected and expected.url)
        if handout is not None and expected is not None:
            host = handout.url.split("/")[2]
            self.fetches.append(Fetch(host, handout.lease, expected.lease, url=handout.url))

    def start(self, fetch: Fetch) -> None:
        self.redis.clock.started(fetch.host, was_handed_out=bool(fetch.lease))
        fetch.started_at = self.now
        self.sites.started(self.id_of(fetch.host), self.now, was_handed_out=bool(fetch.lease))

    def end(self, rng: random.Random, fetch: Fetch) -> None:
        assert fetch.started_at is not None
        status = rng.choice(STATUSES)
        said: dict[str, Any] = {
            "was_handed_out": bool(fetch.lease),
            "elapsed": rng.choice([0.0, rng.random(), 3 * rng.random()]),
            "status": status,
            "retry_after": rng.choice([None, 0.0, 7.0, 1e5]) if status in (429, 503) else None,
            "n_bytes": rng.randrange(100_000),
        }
        self.redis.clock.ended(fetch.host, **said)
        self.sites.ended(self.id_of(fetch.host), self.now, **said)
        fetch.has_ended = True
        if self.limit == 1:  # in the worker, the next fetch in place of the page waits as well
            received = self.redis._all[0].status.received
            wait = self.redis.clock._ready_at[fetch.host] - received
            expected = max(self.sites.next_start(self.id_of(fetch.host)) - self.now, -1.0)
            assert max(wait, -1.0) == pytest.approx(expected, abs=MICROSECOND)

    def fetch_without_page(self, rng: random.Random, host: str) -> None:
        """Fetch robots.txt, unless a leased page could be fetched in its place."""
        open_ones = [fetch for fetch in self.fetches if fetch.host == host]
        if any(fetch.started_at is None or fetch.has_ended for fetch in open_ones):
            return
        if len(open_ones) >= self.limit:
            return
        clock = self.redis.clock
        clock._ask_at.clear()
        clock.hold(host)
        clock.next_start(host)
        is_granted = clock.next_start(host) <= monotonic()
        may_start = self.sites.may_start(self.id_of(host), self.now)
        if self.limit == 1:
            assert is_granted == may_start
        assert may_start or not is_granted
        if not is_granted:
            clock.hold(host, -1)
            return
        self.sites.hold(self.id_of(host))
        fetch = Fetch(host)
        self.start(fetch)
        self.end(rng, fetch)
        clock.hold(host, -1)
        self.sites.hold(self.id_of(host), -1)

    def finish(self, rng: random.Random, fetch: Fetch) -> None:
        """End the lease of a page; its links make its site, and others, larger."""
        self.fetches.remove(fetch)
        if fetch.started_at is None:
            self.redis.clock.not_fetched(fetch.host)
            self.sites.not_fetched(self.id_of(fetch.host), self.now)
        pairs = LinkPairs(fetch.url, rng.sample(URLS, rng.randrange(3)))
        self.redis.observe(fetch.lease, PageVisit(pairs))
        self.local.observe(fetch.twin_lease, PageVisit(pairs))

    def act(self, rng: random.Random) -> None:
        waiting = [fetch for fetch in self.fetches if fetch.started_at is None]
        running = [fetch for fetch in self.fetches if fetch.started_at and not fetch.has_ended]
        ended = [fetch for fetch in self.fetches if fetch.has_ended]
        action = rng.choice(["lease", "start", "start", "end", "end", "drop", "finish", "finish"])
        action = rng.choice(
            [action, action, action, "robots", "crawl-delay", "delay", "time", "time"]
        )
        if action == "lease":
            self.lease()
        elif action == "start" and waiting:
            self.start(rng.choice(waiting))
        elif action == "end" and running:
            self.end(rng, rng.choice(running))
        elif action == "finish" and ended:
            self.finish(rng, rng.choice(ended))
        elif action == "drop" and waiting and rng.random() < 0.3:
            self.finish(rng, rng.choice(waiting))
        elif action == "robots":
            self.fetch_without_page(rng, rng.choice(SITES))
        elif action == "crawl-delay" and rng.random() < 0.3:
            host, seconds = rng.choice(SITES), rng.choice([0.0, 2.0, 1000.0])
            obeyed = self.redis.clock.obey_crawl_delay(host, seconds)
            assert obeyed == self.sites.obey_crawl_delay(self.id_of(host), seconds, self.now)
        elif action == "delay" and rng.random() < 0.3:  # as AutoThrottle does
            host, seconds = rng.choice(SITES), 3 * rng.random()
            self.redis.clock.set_delay(host, seconds)
            self.sites.set_site(self.id_of(host), delay=seconds)
        elif action == "time":
            self.redis.advance(rng.choice([0.01, 0.3, 1.0, 5.0, 30.0]) * rng.random())

    def compare(self) -> None:
        hosts = {
            host.decode(): int(site)
            for host, site in self.client.hgetall(f"{self.prefix}:hosts").items()
            if host != b" "
        }
        for host, site in hosts.items():
            record = SITE.unpack(self.client.hget(f"{self.prefix}:sites", site)[: SITE.size])
            refusals, unstarted = record[-11:-9]
            _, own_delay, crawl_delay, ready_at, started_at, ended_at, paused, refused, _ = record[
                -9:
            ]
            known, local = self.sites._of(self.id_of(host)), self.id_of(host)
            found = [ready_at, started_at, ended_at, paused, refused]
            expected = [
                self.local.queue.site_ready_at(local),
                known.started_at if self.limit > 1 else -math.inf,
                known.ended_at,
                known.paused_until,
                known.refused_at,
            ]
            assert found == pytest.approx(expected, abs=MICROSECOND), host
            assert refusals == known.n_refusals
            assert max(crawl_delay, 0.0) == (known.crawl_delay or 0.0)
            assert max(own_delay, 0.0) == (0.0 if math.isnan(known.own_delay) else known.own_delay)
            if self.limit > 1:
                assert unstarted == known.n_unstarted

    def close(self) -> None:
        self.redis.close()
        self.local.close()


def test_the_times_of_random_fetches_are_equal_to_the_microsecond(
    redis_server: RedisServer,
) -> None:
    print("seed", SEED)
    for number in range(N_CRAWLS):
        rng = random.Random(SEED + number)
        chosen = settings_of(rng)
        print(number, chosen)
        pair = Pair(redis_server, f"clock {number}", chosen)
        try:
            for _ in range(N_ACTIONS):
                pair.act(rng)
                pair.compare()
            check(pair.client, pair.prefix)
        finally:
            pair.close()
