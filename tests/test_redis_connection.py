"""Connecting to Redis: what is waited for, and what is refused in one sentence."""

from __future__ import annotations

import threading
from collections import Counter
from pathlib import Path

import pytest
from redis_servers import ClusterOfServers, RedisServer, require_redis

from crawlprio.errors import ConfigError
from crawlprio.plugins.shared.connection import (
    Unavailable,
    check_server,
    connect,
    when_available,
)
from crawlprio.plugins.shared.shards import Shards

NOWHERE = "redis://127.0.0.1:1/0"


def test_a_worker_that_starts_waits_for_the_server(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    require_redis()
    server = RedisServer(tmp_path)
    starts = threading.Timer(1.0, server.start)
    starts.start()
    try:
        client = connect(server.url, {})
        when_available(lambda: check_server(client, server.url))
        assert client.ping()
    finally:
        starts.join()
        server.kill()
    waits = [record for record in caplog.records if "Waiting for up to" in record.message]
    assert len(waits) == 1


def test_the_wait_for_the_server_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("crawlprio.plugins.shared.connection.START_SECONDS", 0.6)
    client = connect(NOWHERE, {})
    with pytest.raises(Unavailable, match="no server answers there"):
        when_available(lambda: check_server(client, NOWHERE))


def test_a_server_that_may_evict_keys_is_refused(redis_server: RedisServer) -> None:
    client = redis_server.client()
    client.config_set("maxmemory-policy", "allkeys-lru")
    try:
        with pytest.raises(ConfigError, match=r"allkeys-lru.* set it to noeviction"):
            check_server(client, redis_server.url)
    finally:
        client.config_set("maxmemory-policy", "noeviction")
    check_server(client, redis_server.url)


def test_every_node_of_a_cluster_is_checked(redis_cluster: ClusterOfServers) -> None:
    client = redis_cluster.client()
    check_server(client, redis_cluster.url)
    with redis_cluster.nodes[2].client() as last:
        last.config_set("maxmemory-policy", "allkeys-lru")
        try:
            with pytest.raises(ConfigError, match="allkeys-lru"):
                check_server(client, redis_cluster.url)
        finally:
            last.config_set("maxmemory-policy", "noeviction")


@pytest.mark.parametrize(
    ("url", "sentence"),
    [
        ("redis+cluster://127.0.0.1:1", r"redis\+cluster://127.0.0.1:1'.* no server answers"),
        ("redis+cluster://127.0.0.1:1/3", "only database 0"),
        ("redis+sentinel://127.0.0.1:1", r"redis\+sentinel://HOST:PORT"),
        ("redis+sentinel://127.0.0.1:x/crawls/0", r"redis\+sentinel://HOST:PORT"),
    ],
)
def test_an_address_that_cannot_be_used_is_named(url: str, sentence: str) -> None:
    with pytest.raises(ConfigError, match=sentence):
        connect(url, {})


def test_sites_spread_evenly_and_a_domain_with_a_budget_stays_in_one_shard() -> None:
    hosts = [f"{name}{n}.example" for name in "abcd" for n in range(1000)]
    for seed in ("one", "two"):
        shards = Shards(16, key=seed)
        sizes = Counter(map(shards.of, hosts))
        # 250 each on average, with a standard deviation of 15.
        assert len(sizes) == 16
        assert all(160 < size < 340 for size in sizes.values())
    spread = Shards(16, key="one")
    other = Shards(16, key="two")
    assert [spread.of(host) for host in hosts] != [other.of(host) for host in hosts]
    together = Shards(16, key="one", by_domain=True)
    assert len({spread.of(f"{n}.shop.example.org") for n in range(100)}) == 16
    assert len({together.of(f"{n}.shop.example.org") for n in range(100)}) == 1
