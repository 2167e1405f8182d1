"""Collecting records every visit in the store exactly once, whatever interrupts it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from commands import run_command
from redis_servers import RedisServer
from stores import query
from test_redis_crawl import crawl

from crawlprio.errors import StoreError
from crawlprio.measure.receipt_document import make_receipt
from crawlprio.plugins.redis.collect import collect
from crawlprio.plugins.redis.shards import prefix_of

PREFIX = prefix_of("site")
TABLES = {
    "pages": "SELECT id, url, key, depth, seed FROM pages ORDER BY id",
    "hosts": "SELECT pages.id, host FROM pages JOIN sites ON sites.id = pages.site ORDER BY 1",
    "links": "SELECT source, target, anchor FROM links ORDER BY 1, 2",
    "visits": (
        "SELECT page, status, targets, anchors, title, error FROM visits WHERE page >= 0 "
        "ORDER BY seq"
    ),
}


def contents(store: Path) -> dict[str, list[Any]]:
    return {name: query(store, sql) for name, sql in TABLES.items()}


@pytest.fixture
def recorded(
    redis_server: RedisServer,
    tmp_path: Path,
) -> Path:
    """A crawl whose visits are in Redis, and the store of the same crawl run locally."""
    store = tmp_path / "here.sqlite"
    here = crawl(tmp_path / "here.jsonl", ORDERING="opic", CRAWLPRIO_STORE=str(store))
    there = crawl(
        tmp_path / "there.jsonl",
        CRAWLPRIO_FRONTIER="redis",
        ORDERING="opic",
        CRAWLPRIO_STORE=str(tmp_path / "unused.sqlite"),
        REDIS_URL=redis_server.url,
        SCHEDULER_PERSIST=True,
    )
    assert here == there
    assert not (tmp_path / "unused.sqlite").exists()
    return store


def test_overlapping_collections_give_the_store_of_a_local_crawl(
    recorded: Path,
    redis_server: RedisServer,
    tmp_path: Path,
) -> None:
    client = redis_server.client()
    store = tmp_path / "collected.sqlite"
    first = collect(client, PREFIX, store, trims=False, limit=50)
    assert 0 < first.n_visits <= 50
    # Not trimmed, as after a collector was killed between commit and trim.
    again = collect(client, PREFIX, store, trims=False, limit=50)
    assert again.n_visits == 50
    rest = collect(client, PREFIX, store)
    assert collect(client, PREFIX, store) == (0, 0)
    assert client.xlen(f"{PREFIX}:visits") == 0
    assert contents(store) == contents(recorded)
    assert first.n_visits + again.n_visits + rest.n_visits == len(contents(recorded)["visits"])


def test_the_command_that_collects_ends_with_the_receipt_of_the_crawl(
    recorded: Path,
    redis_server: RedisServer,
    tmp_path: Path,
) -> None:
    folder = tmp_path / "collected"
    folder.mkdir()
    line = ["links", "collect", "site", str(folder / "crawl.sqlite")]
    assert run_command(*line, "-s", f"REDIS_URL={redis_server.url}") == 0
    there = json.loads((folder / "receipt.json").read_text())
    here = make_receipt(recorded)
    assert there == make_receipt(folder / "crawl.sqlite")
    for part in ("seeds", "orderings"):
        assert there["asked"][part] == here["asked"][part]
    # Links that workers refused are counted in Redis, and are not collected.
    assert there["coverage"] | {"left_out": None} == here["coverage"] | {"left_out": None}
    for part in ("failed", "missing"):
        assert there[part] == here[part]


def test_a_store_without_the_entries_collected_elsewhere_is_refused(
    recorded: Path,
    redis_server: RedisServer,
    tmp_path: Path,
) -> None:
    client = redis_server.client()
    collect(client, PREFIX, tmp_path / "one.sqlite", limit=50)
    with pytest.raises(StoreError, match=r"lacks entry 1 of shard 0.* number 51"):
        collect(client, PREFIX, tmp_path / "other.sqlite")
    with pytest.raises(StoreError, match="was not collected from Redis"):
        collect(client, PREFIX, recorded)
