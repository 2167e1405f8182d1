"""A frontier in Redis hands out pages in the order of the local one, call for call."""

from __future__ import annotations

import math
import os
import random
from typing import Any

import pytest
from redis_servers import RedisServer
from remote_frontier import local_frontier
from settled_redis import SettledRedis

from crawlprio.frontier.protocol import Entry, Frontier, PageVisit
from crawlprio.items import LinkPairs
from crawlprio.orderings import ORDERINGS
from crawlprio.plugins.redis.wire import LINKS_PER_CALL


def truth(url: str) -> float:
    """A number for each URL, in place of its PageRank."""
    return (sum(map(ord, url)) % 17) / 16


OPTIONS: dict[str, dict[str, Any]] = {
    "random": {"seed": 3},
    "opic": {"seed_cash": 2},
    "fica": {"link": 0.1},
    "location": {"words": {"b": 0.5}},
    "anchor-similarity": {"words": "one, two"},
    "pagerank": {"every": 3},
    "partial-pagerank": {"every": 4},
    "batch-pagerank": {"every": 4, "fill": True},
    "historical-pagerank": {"scores": {"http://a.test/1": 2.0, "http://b.test/2": 1.0}},
    "combined": {"weights": {"opic": 1.0, "location": 0.5, "pagerank": 2.0}},
}
"""Options that exercise an ordering fully with few pages; the others keep their defaults."""

CASES = [
    *(pytest.param(name, 1, None, id=name) for name in ORDERINGS),
    *(pytest.param(name, 3, None, id=f"{name}-three-at-once") for name in ORDERINGS),
    *(pytest.param(name, 1, "one, two", id=f"{name}-topic") for name in ORDERINGS),
]
N_SEEDS = int(os.environ.get("CRAWLPRIO_REDIS_SEEDS", "3"))

WORDS = ("one", "two", "one two", "three", "")


def drive(frontier: Frontier, seed: int, n_actions: int = 250) -> list[str]:
    """Do actions drawn with `seed`; return everything observable about each."""
    rng = random.Random(seed)
    held: list[tuple[int, str]] = []
    seen: list[str] = []
    some = [f"http://{rng.choice('abcd')}.test/{'x/' * rng.randrange(3)}{n}" for n in range(60)]
    frontier.add_seeds(rng.sample(some, 3))
    for _ in range(n_actions):
        action = rng.choice(["lease", "lease", "observe", "observe", "entry", "back", "go", "seed"])
        if action == "lease":
            handout = frontier.next_page(0.0)
            seen.append("nothing" if handout is None else f"{handout.url} {handout.request!r}")
            if handout is not None:
                held.append((handout.lease, handout.url))
        elif action == "entry":
            url, priority = rng.choice(some), rng.choice([0, 0, 0, 1, -2])
            body = f'{{"url":"{rng.choice("xy")}","priority":{priority}}}'.encode()
            frontier.add(
                Entry(
                    url,
                    url,
                    url.split("/")[2],
                    depth=rng.randrange(3),
                    priority=priority,
                    request=rng.choice([None, body, body]),
                    repeats=rng.random() < 0.3,
                    is_seed=rng.random() < 0.2,
                )
            )
        elif action == "seed":
            frontier.add_seeds(rng.sample(some, rng.randrange(1, 3)))
        elif held:
            at = rng.randrange(len(held))
            if action == "go":
                frontier.release_site(held[at][0])
            else:
                lease, url = held.pop(at)
                if action == "back":
                    frontier.put_back(
                        lease, rng.choice([None, b'{"url":"z"}']), rng.choice([None, None, 2])
                    )
                else:
                    targets = rng.sample(some, rng.randrange(6))
                    anchors = [rng.choice(WORDS) for _ in targets]
                    outside = [(target, rng.choice(WORDS)) for target in rng.sample(some, 2)]
                    pairs = LinkPairs(url, targets, anchors, outside, title=rng.choice(WORDS))
                    frontier.observe(lease, PageVisit(pairs, rng.random() < 0.2, 1.0, 0.1))
        seen.append(f"{action} {len(frontier)} {frontier.n_links} {frontier.ready_at() < math.inf}")
    return seen


@pytest.mark.parametrize(("ordering", "limit", "topic"), CASES)
def test_random_calls_have_the_same_outcome_as_on_a_local_frontier(
    ordering: str,
    limit: int,
    topic: str | None,
    redis_server: RedisServer,
) -> None:
    settings: dict[str, Any] = {
        "ORDERING": ordering,
        "ORDERING_OPTIONS": OPTIONS.get(ordering, {}),
        "TOPIC": topic,
        "CONCURRENT_REQUESTS_PER_DOMAIN": limit,
        # A frontier in Redis reserves no share of a budget for other sites' links.
        "CRAWLPRIO_MAX_PAGES_PER_SITE": None,
        "DOWNLOAD_DELAY": 0,
    }
    for seed in range(N_SEEDS):
        print("seed", seed)
        there = SettledRedis(redis_server.client(), truth=truth, **settings)
        seen = drive(there, seed)
        there.close()
        assert seen == drive(local_frontier(settings, truth), seed)


@pytest.mark.parametrize("ordering", ["sibling-sampling", "pagerank", "scout", "combined"])
def test_seeds_that_take_several_calls_keep_the_order_of_a_local_crawl(
    ordering: str, redis_server: RedisServer
) -> None:
    """The keys of these orderings come from an elected worker, which sees each call by itself."""
    settings: dict[str, Any] = {
        "ORDERING": ordering,
        "ORDERING_OPTIONS": OPTIONS.get(ordering, {}),
        "CONCURRENT_REQUESTS": 1,
        "DOWNLOAD_DELAY": 0,
    }
    n_seeds = 2 * LINKS_PER_CALL + 10
    seeds = [f"http://{n % 30}.test/{n}" for n in range(n_seeds)]
    orders: list[list[str]] = []
    there = SettledRedis(redis_server.client(), f"seeds {ordering}", **settings)
    for frontier in (there, local_frontier(settings)):
        rng = random.Random(5)
        frontier.add_seeds(seeds)
        orders.append(order := [])
        for n in range(30):
            handout = frontier.next_page(0.0)
            assert handout is not None
            order.append(handout.url)
            links = [*rng.sample(seeds, 6), f"http://{n}.test/new"]
            frontier.observe(handout.lease, PageVisit(LinkPairs(handout.url, links, status=200)))
        frontier.close()
    assert orders[0] == orders[1]


def test_site_domain_and_pattern_budgets_apply_across_workers(
    redis_server: RedisServer,
) -> None:
    workers = [
        SettledRedis(
            redis_server.client(),
            "budgets",
            ORDERING="breadth-first",
            DOWNLOAD_DELAY=0,
            CRAWLPRIO_MAX_PAGES_PER_SITE=5,
            CRAWLPRIO_MAX_PAGES_PER_DOMAIN=7,
            CRAWLPRIO_MAX_PAGES_PER_PATTERN=3,
        )
        for _ in range(2)
    ]
    refused: list[str] = []
    for worker in workers:
        worker._on_refused = refused.append
    links = [
        *(f"http://a.example.com/{letter}" for letter in "abcd"),
        *(f"http://b.example.com/page{n}" for n in range(5)),
        *(f"http://c.example.com/{letter}" for letter in "ab"),
        *(f"http://other.org/{letter}" for letter in "abcdef"),
    ]
    workers[0].add_seeds(["http://a.example.com/"])
    handout = workers[0].next_page(0.0)
    assert handout is not None
    workers[0].observe(handout.lease, PageVisit(LinkPairs("", links[:9])))
    # Five of a.example.com and two of b.example.com fill the domain before the pattern.
    assert refused == ["domain-budget"] * 3
    handout = workers[1].next_page(0.0)
    assert handout is not None
    workers[1].observe(handout.lease, PageVisit(LinkPairs("", links[9:])))
    # Links from another domain may take a quarter of five pages.
    assert sorted(refused[3:]) == ["claim-budget"] * 5 + ["domain-budget"] * 2
    workers[1].add(Entry("http://d.net/1", "http://d.net/1", "d.net"))
    for n in range(2, 6):
        workers[1].add(Entry(f"http://d.net/{n}", f"http://d.net/{n}", "d.net"))
    assert refused[10:] == ["pattern-budget"] * 2
    for worker in workers:
        worker.close()
