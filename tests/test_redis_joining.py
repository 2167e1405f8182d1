"""Starting workers: which crawl they join, how long they wait, and how many pages they fetch."""

from __future__ import annotations

import random
import subprocess
import sys
import threading
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from redis_servers import RedisServer
from redis_workers import Workers
from scrapy.utils.test import get_crawler
from settled_redis import SettledRedis
from test_frontier_command import Run
from test_frontier_command import run as run

from crawlprio.errors import ConfigError
from crawlprio.frontier.protocol import PageVisit
from crawlprio.items import LinkPairs
from crawlprio.plugins.redis.connection import (
    Unavailable,
    check_server,
    connect,
    open_crawl,
    when_available,
)
from crawlprio.plugins.redis.counts import read_counts
from crawlprio.plugins.redis.rules import rules_of
from crawlprio.plugins.redis.shards import prefix_of
from crawlprio.settings_table.config import CrawlConfig

SITE: dict[str, Any] = {"seeds": ["http://a.test/"], "follow": None, "allow": "x", "deny": None}


def join(server: RedisServer, scope: dict[str, Any], crawl: str = "site", **chosen: Any) -> None:
    crawler = get_crawler(settings_dict={"CRAWLPRIO_STORE": None, "ORDERING": "opic", **chosen})
    config = CrawlConfig.from_settings(crawler.settings)
    rules = rules_of(config.ordering, config.ordering_name)
    open_crawl(server.client(), prefix_of(crawl), config, rules, lease_seconds=60, scope=scope)


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        ({"seeds": ["http://b.test/"]}, "begun with seeds http://a.test/, but .* http://b.test/;"),
        ({"follow": "web"}, "begun with follow none, but this worker has web;"),
        ({"allow": None}, "begun with allow x, but this worker has none;"),
        ({"deny": "y"}, "begun with deny none, but this worker has y;"),
    ],
)
def test_a_worker_of_another_crawl_is_refused_by_what_differs(
    changed: dict[str, Any], message: str, redis_server: RedisServer
) -> None:
    join(redis_server, SITE)
    join(redis_server, SITE)
    with pytest.raises(ConfigError, match=message) as refusal:
        join(redis_server, {**SITE, **changed})
    assert "CRAWLPRIO_REDIS_CRAWL" in str(refusal.value)
    assert "crawlprio frontier delete site --yes" in str(refusal.value)
    join(redis_server, {**SITE, **changed}, "another")


def test_a_loaded_crawl_takes_the_scope_of_its_first_worker(redis_server: RedisServer) -> None:
    join(redis_server, {})
    join(redis_server, SITE)
    join(redis_server, {})
    with pytest.raises(ConfigError, match="begun with allow x"):
        join(redis_server, {**SITE, "allow": None})


def test_delays_are_named_as_they_were_set(redis_server: RedisServer) -> None:
    join(redis_server, {}, DOWNLOAD_DELAY=0.05)
    with pytest.raises(ConfigError, match=r"begun with delay 0\.05, but this worker has 3;"):
        join(redis_server, {}, DOWNLOAD_DELAY=3)


def test_a_crawl_is_deleted_once_it_has_no_workers_and_that_is_confirmed(
    run: Run, redis_server: RedisServer
) -> None:
    frontier = SettledRedis(redis_server.client(), "old", ORDERING="opic", DOWNLOAD_DELAY=0)
    frontier.add_seeds(["http://a.test/", "http://b.test/"])
    code, _, err = run("delete", "old", "--yes")
    assert (code, "is running (workers: 1)" in err) == (2, True)
    frontier.close()
    code, _, err = run("delete", "old")
    assert code == 2
    assert "2 pages, 2 of them waiting, and 1 visits" in err
    assert "add --yes" in err
    assert run("show", "old")[0] == 0
    code, out, _ = run("delete", "old", "--yes")
    assert (code, out) == (0, "old: deleted with 2 pages, 2 of them waiting, and 1 visits.\n")
    assert list(redis_server.client().scan_iter("crawlprio:*old*")) == []
    assert run("delete", "old", "--yes")[0] == 2


def test_a_worker_that_starts_waits_for_the_server(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
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
    monkeypatch.setattr("crawlprio.plugins.redis.connection.START_SECONDS", 0.6)
    client = connect("redis://127.0.0.1:1/0", {})
    with pytest.raises(Unavailable, match="no server answers there"):
        when_available(lambda: check_server(client, "redis://127.0.0.1:1/0"))


def test_four_workers_fetch_as_many_pages_as_asked(redis_server: RedisServer) -> None:
    for seed in range(3):
        print("seed", seed)
        rng = random.Random(seed)
        crawl, enough = f"pages {seed}", set[int]()
        workers = [
            SettledRedis(redis_server.client(), crawl, ORDERING="opic", DOWNLOAD_DELAY=0)
            for _ in range(4)
        ]
        for at, worker in enumerate(workers):
            worker._max_pages = 23
            worker._on_enough = partial(enough.add, at)
        workers[0].add_seeds([f"http://s{n}.test/" for n in range(40)])
        held: list[tuple[SettledRedis, int]] = []
        n_fetched = most = 0
        while len(enough) < 4:
            worker = rng.choice(workers)
            worker._all[0].ask_at = -1.0
            handout = worker.next_page(0.0)
            if handout is not None:
                held.append((worker, handout.lease))
            most = max(most, n_fetched + len(held))
            if held and rng.random() < 0.5:
                owner, lease = held.pop(rng.randrange(len(held)))
                if rng.random() < 0.2:
                    owner.put_back(lease)
                else:
                    is_got = rng.random() < 0.8
                    n_fetched += is_got
                    pairs = LinkPairs("", ["http://x.test/"], status=200 if is_got else 404)
                    owner.observe(lease, PageVisit(pairs))
        assert (n_fetched, most, held) == (23, 23, [])
        assert read_counts(redis_server.client(), prefix_of(crawl))["fetched"] == 23
        for worker in workers:
            worker.close()


def test_a_crawl_by_four_processes_ends_at_its_number_of_pages(
    redis_server: RedisServer, tmp_path: Path
) -> None:
    workers = Workers(
        tmp_path,
        redis_server.url,
        pages=400,
        sites=20,
        settings={"CRAWLPRIO_MAX_PAGES": 60, "DOWNLOAD_DELAY": 0, "CONCURRENT_REQUESTS": 8},
    )
    try:
        workers.start(4)
        assert workers.wait(120.0) == [0] * 4
        assert len(workers.fetches()) == 60
        assert read_counts(redis_server.client(), prefix_of("site"))["fetched"] == 60
    finally:
        workers.stop()


def test_the_option_pages_limits_all_workers_of_a_crawl_in_redis(
    redis_server: RedisServer, tmp_path: Path
) -> None:
    line = [sys.executable, "-m", "crawlprio.commands.cli", "crawl", "--demo"]
    line += ["--pages", "7", "--delay", "0"]
    chosen = {"CRAWLPRIO_FRONTIER": "redis", "REDIS_URL": redis_server.url, "CRAWLPRIO_COMPILE": 0}
    for name, value in {**chosen, "SCHEDULER_PERSIST": True, "JOBDIR": "job"}.items():
        line += ["-s", f"{name}={value}"]
    ended = subprocess.run(line, cwd=tmp_path, capture_output=True, text=True, check=True)
    assert read_counts(redis_server.client(), prefix_of("site"))["fetched"] == 7
    assert "nothing is recorded" not in ended.stderr
