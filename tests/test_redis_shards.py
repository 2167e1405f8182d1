"""Sites of a crawl spread over several shards: each visit counts once in each of them."""

from __future__ import annotations

import sqlite3
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from redis_servers import RedisServer, redis_server, shared_server  # noqa: F401 - fixtures
from test_redis_collect import contents
from test_redis_crawl import crawl

from crawlprio.redis.collect import collect
from crawlprio.redis.connection import delete_crawl
from crawlprio.redis.counts import read_counts
from crawlprio.redis.shards import Shards, prefix_of, shards_of

N_SHARDS = 4


def test_sites_are_spread_evenly_and_a_domain_stays_together_where_its_pages_are_counted() -> None:
    hosts = [f"{name}{n}.example" for name in "abcd" for n in range(1000)]
    for seed in ("one", "two"):
        shards = Shards(prefix_of("crawl"), 16, key=seed)
        sizes = Counter(map(shards.of, hosts))
        # 250 each on average, with a deviation of 15.
        assert len(sizes) == 16
        assert all(160 < size < 340 for size in sizes.values())
    spread = Shards(prefix_of("crawl"), 16, key="one")
    other = Shards(prefix_of("crawl"), 16, key="two")
    assert [spread.of(host) for host in hosts] != [other.of(host) for host in hosts]
    together = Shards(prefix_of("crawl"), 16, key="one", by_domain=True)
    assert len({spread.of(f"{n}.shop.example.org") for n in range(100)}) == 16
    assert len({together.of(f"{n}.shop.example.org") for n in range(100)}) == 1


def links_of(store: Path) -> Counter[tuple[str, str]]:
    with sqlite3.connect(store) as db:
        found = db.execute(
            "SELECT sources.url, targets.url FROM links "
            "JOIN pages AS sources ON sources.id = links.source "
            "JOIN pages AS targets ON targets.id = links.target"
        ).fetchall()
    return Counter(found)


@pytest.mark.parametrize("persists", [True, False], ids=["kept", "deleted"])
def test_a_crawl_over_shards_has_the_pages_and_links_of_a_local_one(
    persists: bool,
    redis_server: RedisServer,  # noqa: F811
    tmp_path: Path,
) -> None:
    here = tmp_path / "here.sqlite"
    chosen: dict[str, Any] = {"ORDERING": "opic", "CRAWLPRIO_MAX_PAGES_PER_PATTERN": None}
    local = crawl(tmp_path / "here.jsonl", CRAWLPRIO_STORE=str(here), **chosen)
    spread = crawl(
        tmp_path / "there.jsonl",
        CRAWLPRIO_FRONTIER="redis",
        CRAWLPRIO_REDIS_SHARDS=N_SHARDS,
        CRAWLPRIO_STORE=str(tmp_path / "unused.sqlite"),
        REDIS_URL=redis_server.url,
        SCHEDULER_PERSIST=persists,
        **chosen,
    )
    assert sorted(spread) == sorted(local)
    client, prefix = redis_server.client(), prefix_of("site")
    if persists:
        counts = [read_counts(client, one) for one in shards_of(client, prefix).prefixes]
        assert sum(each["visits"] > 0 for each in counts) > 1, "several shards have sites"
        assert sum(each["visits"] for each in counts) == len(set(local))
        assert all(each["outgoing"] == each["leased"] == 0 for each in counts)
    there = tmp_path / "there.sqlite"
    parts = [collect(client, prefix, there, limit=70, trims=n % 2 == 1) for n in range(3)]
    parts.append(collect(client, prefix, there))
    assert collect(client, prefix, there) == (0, 0)
    assert sum(part.n_visits for part in parts) == len(local)
    assert links_of(there) == links_of(here)
    ours, theirs = contents(here), contents(there)
    for table in ("pages", "hosts", "links", "visits"):
        assert len(ours[table]) == len(theirs[table]), table
    urls = [{row[1]: row[3:] for row in each["pages"]} for each in (ours, theirs)]
    assert urls[0].keys() == urls[1].keys()
    assert {url for url, told in urls[0].items() if told[1]} == {
        url for url, told in urls[1].items() if told[1]
    }
    delete_crawl(client, prefix)
    assert client.keys() == []
