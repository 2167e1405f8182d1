"""A Redis Cluster of three nodes passes tests of a single server, even while a slot migrates.

This module runs a selection; `make redis-cluster` runs all tests of the Redis frontier.
"""

from __future__ import annotations

from collections import Counter
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from time import monotonic, sleep
from typing import Any

import pytest
from crawls import ADDON, Run, Site, page, run_spider
from redis.exceptions import TryAgainError
from redis_servers import ClusterOfServers, migrate_slot
from redis_workers import Workers, smallest_gap
from remote_frontier import local_frontier
from settled_redis import SettledRedis
from test_redis_collect import (  # noqa: F401 - run here again, on a cluster
    recorded,
    test_overlapping_collections_give_the_store_of_a_local_crawl,
)
from test_redis_moving import (  # noqa: F401
    test_waiting_requests_move_with_the_crawl_both_ways,
)
from test_redis_order import OPTIONS, drive, truth
from test_redis_shards import (  # noqa: F401
    test_a_crawl_over_shards_has_the_pages_and_links_of_a_local_one,
    test_messages_of_a_killed_worker_are_delivered_exactly_once,
)
from test_redis_shards_twin import (  # noqa: F401
    test_workers_and_messages_in_any_order_match_the_plain_frontier,
)
from test_redis_start_urls import (  # noqa: F401
    test_all_start_urls_of_a_list_set_or_sorted_set_are_fetched,
)
from test_redis_workers import DELAY, N_PAGES, N_SITES, SETTINGS

from crawlprio.errors import ConfigError
from crawlprio.plugins.redis.cluster import node_for, script_keys
from crawlprio.plugins.redis.connection import check_server, connect
from crawlprio.plugins.redis.counts import read_counts
from crawlprio.plugins.redis.scripts import script
from crawlprio.plugins.redis.shards import prefix_of
from crawlprio.spiders.site import SiteSpider


@pytest.fixture
def redis_server(redis_cluster: ClusterOfServers) -> ClusterOfServers:
    """Replaces the single server in the imported tests."""
    return redis_cluster


@pytest.mark.parametrize("ordering", ["opic", "random", "fica", "location", "sibling-sampling"])
def test_random_calls_have_the_same_outcome_as_on_a_local_frontier(
    ordering: str,
    redis_cluster: ClusterOfServers,
) -> None:
    settings: dict[str, Any] = {
        "ORDERING": ordering,
        "ORDERING_OPTIONS": OPTIONS.get(ordering, {}),
        "CRAWLPRIO_MAX_PAGES_PER_SITE": None,
        "DOWNLOAD_DELAY": 0,
    }
    there = SettledRedis(redis_cluster.client(), truth=truth, **settings)
    seen = drive(there, 1, 100)
    there.close()
    assert seen == drive(local_frontier(settings, truth), 1, 100)


@pytest.mark.parametrize("n_shards", [1, 4])
def test_a_crawl_fetches_every_page_once_while_a_slot_migrates(
    n_shards: int,
    redis_cluster: ClusterOfServers,
    tmp_path: Path,
) -> None:
    settings = {**SETTINGS, "CRAWLPRIO_REDIS_SHARDS": n_shards}
    workers = Workers(tmp_path, redis_cluster.url, pages=N_PAGES, sites=N_SITES, settings=settings)
    try:
        workers.start(2)
        workers.wait_until_joined(2)
        workers.wait_for(N_PAGES // 4)
        before = redis_cluster.owner(prefix_of("site"))

        def hold_back(n_moved: int) -> None:
            """Once some keys have moved, wait until both workers have noticed."""
            if n_moved:
                workers.wait_until_logged("Redis is unavailable")

        n_moved = migrate_slot(redis_cluster, prefix_of("site"), each=hold_back)
        assert workers.wait() == [0] * 2
        after = redis_cluster.owner(prefix_of("site"))
        fetches = workers.fetches()
    finally:
        workers.stop()
    assert n_moved > 10
    assert after != before
    times = Counter(fetch["url"] for fetch in fetches)
    assert len(times) == N_PAGES
    assert set(times.values()) == {1}
    assert smallest_gap(fetches) >= DELAY
    assert workers.n_logs_with("Redis is available again") == 2


def test_a_worker_that_starts_while_the_slot_migrates_waits_and_crawls(
    redis_cluster: ClusterOfServers, caplog: pytest.LogCaptureFixture
) -> None:
    shared = {
        **ADDON,
        "CRAWLPRIO_FRONTIER": "redis",
        "REDIS_URL": redis_cluster.url,
        "SCHEDULER_PERSIST": True,
        "CONCURRENT_REQUESTS": 1,
    }
    links = [f"/{n}" for n in range(8)]

    def crawl(**settings: Any) -> Run:
        return run_spider(SiteSpider, {**shared, **settings}, site=site, seeds="http://a.test/")

    with Site({"/": page(*links), **{link: page() for link in links}}) as site:
        crawl(CLOSESPIDER_PAGECOUNT=3)
        n_before = len(site.fetches)
        with ThreadPoolExecutor(1) as pool:
            started: list[Future[Run]] = []

            def start_worker(n_moved: int) -> None:
                """Once some keys have moved, start a worker, and wait until it waits."""
                if not n_moved or started:
                    return
                started.append(pool.submit(crawl))
                until = monotonic() + 60.0
                while "Waiting for up to" not in caplog.text:
                    assert monotonic() < until, caplog.text
                    assert not started[0].done(), started[0].result().messages()
                    sleep(0.02)

            migrate_slot(redis_cluster, prefix_of("site"), each=start_worker)
            run = started[0].result(timeout=90.0)
    assert run.reason == "finished", run.messages()
    assert 1 < n_before < 9
    assert sorted(site.paths()) == ["/", *links]


def test_no_call_begins_in_a_migrating_slot(
    redis_cluster: ClusterOfServers,
) -> None:
    frontier = SettledRedis(redis_cluster.client(), "moving", ORDERING="opic", DOWNLOAD_DELAY=0)
    frontier.add_seeds([f"http://{name}.test/" for name in "abcdef"])
    client, prefix = redis_cluster.client(), prefix_of("moving")
    before = read_counts(client, prefix)
    seen: list[Exception] = []

    def call_both(n_moved: int) -> None:
        """Call a script as a worker would, on the source node and on the target."""
        at = redis_cluster.owner(prefix)
        command = (
            "EVALSHA",
            script("calls").sha,
            *script_keys(prefix),
            "worker",
            1,
            "lease",
            3,
            1,
            0,
            0,
        )
        for node in (redis_cluster.nodes[at], redis_cluster.nodes[(at + 1) % 3]):
            with node.client() as server:
                server.script_load(script("calls").text)
                for asks in (False, True):
                    pipe = server.pipeline(transaction=False)
                    if asks:
                        pipe.execute_command("ASKING")
                    pipe.execute_command(*command)
                    (*_, reply) = pipe.execute(raise_on_error=False)
                    assert isinstance(reply, Exception), (n_moved, node.port, asks)
                    seen.append(reply)

    n_moved = migrate_slot(redis_cluster, prefix, each=call_both)
    assert n_moved > 3
    assert len(seen) >= 4 * 2
    assert any(isinstance(error, TryAgainError) for error in seen)
    assert read_counts(client, prefix) == before
    until = monotonic() + 60.0
    while frontier.next_page(monotonic()) is None:  # sites rest, as after a restart
        assert monotonic() < until
        sleep(0.1)
    frontier.close()


def test_an_unreachable_cluster_is_named_in_the_error() -> None:
    with pytest.raises(ConfigError, match=r"redis\+cluster://127.0.0.1:1'.* no server answers"):
        connect("redis+cluster://127.0.0.1:1", {})
    with pytest.raises(ConfigError, match="only database 0"):
        connect("redis+cluster://127.0.0.1:1/3", {})


def test_every_node_of_a_cluster_is_checked(
    redis_cluster: ClusterOfServers,
) -> None:
    client = redis_cluster.client()
    check_server(client, redis_cluster.url)
    with redis_cluster.nodes[2].client() as last:
        last.config_set("maxmemory-policy", "allkeys-lru")
        try:
            with pytest.raises(ConfigError, match="allkeys-lru"):
                check_server(client, redis_cluster.url)
        finally:
            last.config_set("maxmemory-policy", "noeviction")
    assert node_for(client, prefix_of("crawl")).ping()
