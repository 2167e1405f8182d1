"""A crawl over several shards: each visit counts exactly once in each of them."""

from __future__ import annotations

import os
import random
import signal
import sqlite3
import struct
import subprocess
import sys
from collections import Counter
from pathlib import Path
from time import monotonic, sleep, time
from typing import Any

import pytest
from crawls import ROOT
from redis_invariants import PAGE, PAGES_PER_BLOCK
from redis_servers import ClusterOfServers, RedisServer
from redis_workers import Workers, smallest_gap
from scrapy.settings import Settings
from settled_redis import SettledRedis
from sharded_twin import Twin
from test_redis_collect import contents
from test_redis_crawl import PROJECT, crawl
from test_redis_workers import DELAY, N_PAGES, N_SITES, SETTINGS, times_fetched

from crawlprio.errors import ConfigError, CrawlprioError
from crawlprio.frontier.protocol import Entry, PageVisit
from crawlprio.items import LinkPairs
from crawlprio.orderings import make_ordering
from crawlprio.plugins.redis.collect import collect
from crawlprio.plugins.redis.connection import delete_crawl
from crawlprio.plugins.redis.counts import read_counts
from crawlprio.plugins.redis.moving import load, save
from crawlprio.plugins.redis.operating import overview, set_state
from crawlprio.plugins.redis.rules import rules_of
from crawlprio.plugins.redis.scripts import Client
from crawlprio.plugins.redis.shards import Shards, prefix_of, shards_of

N_SHARDS = 4


def test_sites_spread_evenly_and_a_domain_with_a_budget_stays_in_one_shard() -> None:
    hosts = [f"{name}{n}.example" for name in "abcd" for n in range(1000)]
    for seed in ("one", "two"):
        shards = Shards(prefix_of("crawl"), 16, key=seed)
        sizes = Counter(map(shards.of, hosts))
        # 250 each on average, with a standard deviation of 15.
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
    redis_server: RedisServer,
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
    # Those too that a collector committed but was killed before it deleted them.
    for one in Shards(prefix, N_SHARDS).prefixes:
        assert client.xlen(f"{one}:visits") == 0
    assert sum(part.n_visits for part in parts) == len(local)
    assert links_of(there) == links_of(here)
    ours, theirs = contents(here), contents(there)
    for table in ("pages", "hosts", "links", "visits"):
        assert len(ours[table]) == len(theirs[table]), table
    urls = [{row[1]: row[3:] for row in each["pages"]} for each in (ours, theirs)]
    assert urls[0].keys() == urls[1].keys()
    assert {url for url, row in urls[0].items() if row[1]} == {
        url for url, row in urls[1].items() if row[1]
    }
    delete_crawl(client, prefix)
    assert list(client.scan_iter()) == []


def test_one_fetch_at_a_time_takes_the_best_page_of_all_shards(
    redis_server: RedisServer,
) -> None:
    sites = [f"{site}.test" for site in "abcdefgh"]
    urls = [f"http://{site}/{n}" for site in sites for n in range(6)]
    for seed in range(3):
        print("seed", seed)
        rng = random.Random(seed)
        frontier = SettledRedis(
            redis_server.client(), n_shards=N_SHARDS, ORDERING="opic", DOWNLOAD_DELAY=0
        )
        shard_of = {site: frontier._shards.of(site) for site in sites}
        twin = Twin(rules_of(make_ordering("opic"), "opic", n_shards=N_SHARDS), shard_of, 1)
        seeds = rng.sample(urls, 3)
        frontier.add_seeds(seeds)
        for url in seeds:
            twin.add(url, twin.rules.seed_key)
        n_fetched = 0
        while (expected := twin.lease()) is not None:
            handout = frontier.next_page(monotonic())
            assert handout is not None
            assert handout.url == expected.page.url
            links = rng.sample(urls, rng.randrange(8))
            frontier.observe(handout.lease, PageVisit(LinkPairs(handout.url, links)))
            for token in twin.observe(expected, links):
                twin.deliver(token)
            n_fetched += 1
        assert n_fetched > 30
        assert frontier.next_page(monotonic()) is None
        frontier.close()


def test_links_not_followed_and_links_queued_before_count_in_other_shards_too(
    redis_server: RedisServer,
) -> None:
    frontier = SettledRedis(
        redis_server.client(), n_shards=N_SHARDS, ORDERING="backlink-count", DOWNLOAD_DELAY=0
    )
    others = [f"http://{name}.test/" for name in "bcdefg"]
    frontier.add_seeds(["http://a.test/"])
    handout = frontier.next_page(monotonic())
    assert handout is not None
    for url in others:
        frontier.add(Entry(url, url, url.split("/")[2]))
    # The identity of a POST request names no host.
    post = Entry("fingerprint:1", "http://b.test/", "b.test", request=b"{}")
    frontier.add(post)
    targets = [*others[:3], "fingerprint:1"]
    outside = [(url, "") for url in (*others[3:], "http://unknown.test/")]
    pairs = LinkPairs(handout.url, targets, [], outside)
    frontier.observe(handout.lease, PageVisit(pairs, links_are_entries=True))
    keys = keys_of_pages(redis_server, frontier._shards)
    assert sorted(keys) == [0.0] + [1.0] * 7
    frontier.close()


def keys_of_pages(server: RedisServer | ClusterOfServers, shards: Shards) -> list[float]:
    """Return the keys of all pages of a crawl."""
    keys = []
    with server.client() as client:
        for prefix in shards.prefixes:
            for page in range(int(read_counts(client, prefix)["pages"])):
                at = page % PAGES_PER_BLOCK * PAGE.size
                key = f"{prefix}:p:{page // PAGES_PER_BLOCK}"
                record = client.getrange(key, at, at + PAGE.size - 1)
                keys.append(struct.unpack_from(">d", record)[0])
    return keys


CHILD = """
import os, signal, sys
from settled_redis import SettledRedis
from crawlprio.plugins.redis.connection import connect
from crawlprio.frontier.protocol import PageVisit
from crawlprio.items import LinkPairs

url, moment, *links = sys.argv[1:]
frontier = SettledRedis(
    connect(url, {}), "killed", lease_seconds=1.0, n_shards=4, ORDERING="backlink-count",
    DOWNLOAD_DELAY=0,
)
messages = frontier._messages
deliver, sent = messages._deliver, []

def end(*ignored):
    os.kill(os.getpid(), signal.SIGKILL)

def one(*message):
    if sent:
        end()
    sent.append(message)
    deliver(*message)

messages._deliver = one
if moment == "before it says so":
    messages._delivered = end
frontier.add_seeds(["http://a.test/"])
handout = frontier.next_page(0.0)
frontier.observe(handout.lease, PageVisit(LinkPairs(handout.url, links)))
"""


@pytest.mark.parametrize("moment", ["between two messages", "before it says so"])
def test_messages_of_a_killed_worker_are_delivered_exactly_once(
    moment: str,
    redis_server: RedisServer,
    tmp_path: Path,
) -> None:
    links = [f"http://{name}.test/" for name in "bcdefghijklm"]
    line = [sys.executable, "-c", CHILD, redis_server.url, moment, *links]
    paths = os.pathsep.join([str(ROOT), str(ROOT / "tests" / "kit")])
    died = subprocess.run(line, env={**os.environ, "PYTHONPATH": paths}, check=False, timeout=60)
    assert died.returncode == -signal.SIGKILL
    client = redis_server.client()
    shards = shards_of(client, prefix_of("killed"))

    def n_in_flight() -> int:
        return sum(int(read_counts(client, one)["outgoing"]) for one in shards.prefixes)

    assert n_in_flight() > 0
    assert len(keys_of_pages(redis_server, shards)) < 1 + len(links)
    other = SettledRedis(
        redis_server.client(),
        "killed",
        lease_seconds=1.0,
        n_shards=4,
        ORDERING="backlink-count",
        DOWNLOAD_DELAY=0,
    )
    until = monotonic() + 30.0
    while n_in_flight():
        assert monotonic() < until
        assert other.is_busy
        for shard in other._all:
            shard.ask_at = 0.0
        other._ask(monotonic())
        sleep(0.05)
    # Each target is known, with one backlink.
    assert sorted(keys_of_pages(redis_server, shards)) == [0.0] + [1.0] * len(links)
    other.close()
    client_store = tmp_path / "killed.sqlite"
    assert collect(client, prefix_of("killed"), client_store).n_visits == 1
    assert links_of(client_store) == Counter(("http://a.test/", url) for url in links)


def set_dead_at(client: Client, dead_at: float) -> None:
    """Set the time at which the killed worker's lease expires."""
    for prefix in shards_of(client, prefix_of("killed")).prefixes:
        for worker in client.zrange(f"{prefix}:workers", 0, -1):
            client.zadd(f"{prefix}:workers", {worker: dead_at})


def test_saving_delivers_the_messages_of_dead_workers(
    redis_server: RedisServer,
    tmp_path: Path,
) -> None:
    links = [f"http://{name}.test/" for name in "bcdefghijklm"]
    line = [sys.executable, "-c", CHILD, redis_server.url, "between two messages", *links]
    paths = os.pathsep.join([str(ROOT), str(ROOT / "tests" / "kit")])
    subprocess.run(line, env={**os.environ, "PYTHONPATH": paths}, check=False, timeout=60)
    client, prefix = redis_server.client(), prefix_of("killed")
    set_dead_at(client, time() + 60.0)
    with pytest.raises(CrawlprioError, match="workers: 1"):
        save(client, prefix, tmp_path / "killed.sqlite")
    set_dead_at(client, 0.0)
    assert save(client, prefix, tmp_path / "killed.sqlite") == (1, 1 + len(links))
    assert links_of(tmp_path / "killed.sqlite") == Counter(("http://a.test/", url) for url in links)


def test_four_workers_on_four_shards_fetch_every_page_once_and_keep_the_delay_of_each_site(
    redis_server: RedisServer,
    tmp_path: Path,
) -> None:
    settings = {**SETTINGS, "CRAWLPRIO_REDIS_SHARDS": N_SHARDS}
    workers = Workers(tmp_path, redis_server.url, pages=N_PAGES, sites=N_SITES, settings=settings)
    try:
        workers.start(4)
        assert workers.wait() == [0] * 4
        fetched = times_fetched(workers)
        assert set(fetched.values()) == {1}
        assert len(fetched) == N_PAGES
        assert smallest_gap(workers.fetches()) >= DELAY
        assert workers.logs().count("'finish_reason': 'finished'") == 4
    finally:
        workers.stop()


def test_a_crawl_over_shards_is_shown_and_paused_as_a_whole(
    redis_server: RedisServer,
) -> None:
    frontier = SettledRedis(
        redis_server.client(), "shop", n_shards=N_SHARDS, ORDERING="opic", DOWNLOAD_DELAY=0
    )
    urls = [f"http://{name}.test/" for name in "abcdefgh"]
    frontier.add_seeds(urls)
    first = frontier.next_page(monotonic())
    assert first is not None
    client, prefix = redis_server.client(), prefix_of("shop")
    shown = overview(client, prefix, 3)
    assert (shown["shards"], shown["sites"], shown["counts"]["waiting"]) == (N_SHARDS, 8, 7)
    assert [lease["url"] for lease in shown["leases"]] == [first.url]
    assert [worker["leases"] for worker in shown["workers"]] == [1]
    assert len(shown["head"]) == 3
    assert set_state(client, prefix, "paused") == ""
    assert frontier.next_page(monotonic()) is None
    assert set_state(client, prefix, "") == "paused"
    for shard in frontier._all:
        shard.ask_at = 0.0
    assert frontier.next_page(monotonic()) is not None
    frontier.close()


def test_settings_that_shards_do_not_support_are_refused(
    redis_server: RedisServer,
    tmp_path: Path,
) -> None:
    with pytest.raises(ConfigError, match="'sibling-sampling', whose keys an elected worker"):
        rules_of(make_ordering("sibling-sampling"), "sibling-sampling", n_shards=2)
    with pytest.raises(ConfigError, match="'opic' with a TOPIC"):
        rules_of(make_ordering("opic"), "opic", has_topic=True, n_shards=2)
    first = SettledRedis(redis_server.client(), "shared", n_shards=2, ORDERING="opic")
    with pytest.raises(ConfigError, match="begun with shards 2, but this worker has 3"):
        SettledRedis(redis_server.client(), "shared", n_shards=3, ORDERING="opic")
    first.close()
    client, prefix = redis_server.client(), prefix_of("shared")
    collect(client, prefix, tmp_path / "crawl.sqlite")
    spread = Settings({**PROJECT, "ORDERING": "opic", "CRAWLPRIO_REDIS_SHARDS": 2})
    with pytest.raises(CrawlprioError, match="loaded into 1 shard only"):
        load(client, prefix_of("other"), tmp_path / "crawl.sqlite", spread)
