"""Budgets hold in Redis exactly as in a local crawl."""

from __future__ import annotations

import random
from collections import Counter
from typing import Any

import pytest
from redis_invariants import check
from redis_servers import RedisServer
from remote_frontier import local_frontier
from settled_redis import SettledRedis

from crawlprio.frontier.protocol import Entry, PageVisit
from crawlprio.items import LinkPairs
from crawlprio.plugins.redis.shards import prefix_of

HOSTS = ["victim.test", "www.victim.test", "evil.test", "a.evil.test", "b.evil.test", "other.test"]
BUDGETS: dict[str, dict[str, int]] = {
    "site": {"CRAWLPRIO_MAX_PAGES_PER_SITE": 9},
    "domain": {"CRAWLPRIO_MAX_PAGES_PER_DOMAIN": 14},
    "pattern": {"CRAWLPRIO_MAX_PAGES_PER_PATTERN": 6},
    "sites": {"CRAWLPRIO_MAX_SITES": 12},
    "all": {
        "CRAWLPRIO_MAX_PAGES_PER_SITE": 9,
        "CRAWLPRIO_MAX_PAGES_PER_DOMAIN": 14,
        "CRAWLPRIO_MAX_PAGES_PER_PATTERN": 6,
        "CRAWLPRIO_MAX_SITES": 25,
    },
}


def random_url(rng: random.Random) -> str:
    host = rng.choice(HOSTS)
    if rng.random() < 0.2:
        host = f"{rng.randrange(40)}.{host}"
    return (
        f"http://{host}/{rng.choice(['', 'a/', 'b'])}{rng.randrange(12)}{rng.choice(['', '?q=1'])}"
    )


@pytest.mark.parametrize("budgets", BUDGETS)
def test_random_calls_get_the_verdicts_of_a_local_crawl(
    budgets: str, redis_server: RedisServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("crawlprio.web.budgets.MAX_NEW_SITES", 2)
    for seed in range(3):
        rng = random.Random(seed)
        print("seed", seed)
        chosen: dict[str, Any] = {"ORDERING": "opic", "DOWNLOAD_DELAY": 0, **BUDGETS[budgets]}
        ours: list[str] = []
        theirs: list[str] = []
        frontier = SettledRedis(redis_server.client(), f"{budgets} {seed}", **chosen)
        frontier._on_refused = ours.append
        local = local_frontier(chosen, refused=theirs.append)
        seeds = [f"http://{host}/" for host in HOSTS[:3]]
        frontier.add_seeds(seeds)
        local.add_seeds(seeds)
        n_refused = 0
        for step in range(60):
            if rng.random() < 0.2:
                url = random_url(rng)
                request = rng.choice([None, b'{"url":""}'])
                entry = Entry(url, url, url.split("/")[2], 0, 0, request, False, rng.random() < 0.2)
                frontier.add(entry)
                local.add(entry)
            handout, expected = frontier.next_page(0.0), local.next_page(0.0)
            assert (handout and handout[1:4]) == (expected and expected[1:4])
            if handout is not None and expected is not None:
                status = rng.choice([200, 200, 404])
                links = [random_url(rng) for _ in range(rng.randrange(8))]
                visit = PageVisit(LinkPairs(handout.url, links, status=status))
                frontier.observe(handout.lease, visit)
                local.observe(expected.lease, visit)
            assert Counter(ours) == Counter(theirs)
            n_refused += len(ours)
            ours.clear()
            theirs.clear()
            if step % 10 == 0:
                check(redis_server.client(), prefix_of(f"{budgets} {seed}"))
        assert n_refused > 10
        frontier.close()


def fetch_all(frontier: SettledRedis, links_of: dict[str, list[str]]) -> list[str]:
    """Return the pages in the order fetched; none of them fails."""
    fetched = []
    while (handout := frontier.next_page(0.0)) is not None:
        fetched.append(handout.url)
        pairs = LinkPairs(handout.url, links_of.get(handout.url, []), status=200)
        frontier.observe(handout.lease, PageVisit(pairs))
    return fetched


@pytest.mark.parametrize("n_shards", [1, 4])
def test_links_from_others_do_not_spend_the_budget_of_a_site(
    n_shards: int, redis_server: RedisServer
) -> None:
    own = [f"http://victim.test/own/{n}" for n in range(99)]
    false = [f"http://victim.test/false/{n}" for n in range(300)]
    frontier = SettledRedis(
        redis_server.client(),
        f"victim {n_shards}",
        n_shards=n_shards,
        ORDERING="breadth-first",
        CRAWLPRIO_MAX_PAGES_PER_SITE=100,
        CRAWLPRIO_MAX_PAGES_PER_PATTERN=None,
        DOWNLOAD_DELAY=0,
    )
    frontier.add_seeds(["http://evil.test/", "http://victim.test/"])
    fetched = fetch_all(frontier, {"http://evil.test/": false, "http://victim.test/": own})
    assert fetched.count("http://victim.test/") == 1
    # Of the 100 pages, 25 may be claims until they have been fetched.
    assert [url for url in fetched if url in own] == own[:74]
    assert [url for url in fetched if url in false] == false[:25]
    frontier.close()


@pytest.mark.parametrize("n_shards", [1, 4])
def test_one_domain_introduces_a_quarter_of_all_sites(
    n_shards: int, redis_server: RedisServer
) -> None:
    frontier = SettledRedis(
        redis_server.client(),
        f"sites {n_shards}",
        n_shards=n_shards,
        ORDERING="breadth-first",
        CRAWLPRIO_MAX_SITES=400,
        DOWNLOAD_DELAY=0,
    )
    frontier.add_seeds(["http://evil.test/"])
    hosts = [f"http://{n}.trap.test/" for n in range(1_000)]
    fetched = fetch_all(frontier, {"http://evil.test/": hosts})
    assert len(fetched) == 1 + 100
    frontier.close()
