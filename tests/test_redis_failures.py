"""A worker's calls survive a server that is stopped, down, full or replaced."""

from __future__ import annotations

import logging
import shutil
import signal
import subprocess
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from threading import Thread
from time import monotonic, sleep

import pytest
from redis_invariants import check
from redis_servers import RedisServer, free_port, require_redis
from settled_redis import SettledRedis

from crawlprio.errors import ConfigError
from crawlprio.frontier.protocol import PageVisit
from crawlprio.items import LinkPairs
from crawlprio.plugins.redis.connection import connect
from crawlprio.plugins.redis.counts import read_counts
from crawlprio.plugins.redis.shards import prefix_of

DOWN_SECONDS = 10.0
"""Seconds for which a server is down."""

N_PAGES, N_LINKS = 30, 10
AOF = ("--appendonly", "yes", "--appendfsync", "everysec")


@contextmanager
def started(folder: Path, *options: str) -> Iterator[RedisServer]:
    require_redis()
    folder.mkdir(exist_ok=True)
    server = RedisServer(folder, *options)
    server.start()
    try:
        yield server
    finally:
        server.kill()


def begin(url: str) -> SettledRedis:
    return SettledRedis(
        connect(url, {"socket_timeout": 2.0}), "failures", ORDERING="opic", DOWNLOAD_DELAY=0
    )


def visit(frontier: SettledRedis, n_pages: int) -> list[str]:
    """Visit pages, each with links to new ones; return their URLs."""
    visited = []
    until = monotonic() + 60.0
    while len(visited) < n_pages:
        handout = frontier.next_page(monotonic())
        if handout is None:  # no page leaves for a second after a restart
            assert monotonic() < until
            sleep(0.05)
            frontier._all[0].ask_at = 0.0
            continue
        visited.append(handout.url)
        links = [f"{handout.url}{n}/" for n in range(N_LINKS)]
        frontier.observe(handout.lease, PageVisit(LinkPairs(handout.url, links)))
    return visited


def assert_each_visit_counts_once(server: RedisServer, visited: list[str]) -> None:
    """Assert that each visit was applied once: its links wait once, and it is streamed once."""
    client, prefix = server.client(), prefix_of("failures")
    check(client, prefix)
    assert len(set(visited)) == len(visited)
    counts = read_counts(client, prefix)
    assert counts["visits"] == len(visited)
    assert counts["pages"] == 1 + N_LINKS * len(visited)
    entries = [fields for _, fields in client.xrange(f"{prefix}:visits")]
    assert [int(fields[b"n"]) for fields in entries] == list(range(1, len(visited) + 2))


def warnings(caplog: pytest.LogCaptureFixture) -> list[str]:
    return [
        record.getMessage().partition("(")[0].strip()
        for record in caplog.records
        if record.levelno >= logging.WARNING
    ]


LOGGED_ONCE = ["Redis is unavailable", "Redis is available again; the crawl continues."]


@contextmanager
def repaired_once_noticed(
    caplog: pytest.LogCaptureFixture, repair: Callable[[], object], seconds: float = 0.0
) -> Iterator[None]:
    """Repair the server once its failure has been logged and `seconds` have passed."""
    began = monotonic()

    def wait_and_repair() -> None:
        while not warnings(caplog) and monotonic() < began + 60.0:
            sleep(0.02)
        sleep(max(began + seconds - monotonic(), 0.0))
        repair()

    thread = Thread(target=wait_and_repair)
    thread.start()
    try:
        yield
    finally:
        thread.join()


def wait_until_written(server: RedisServer) -> None:
    """Wait until the server has written its log to the file, which survives a kill."""
    until = monotonic() + 60.0
    with server.client() as client:
        while client.info("persistence")["aof_buffer_length"]:
            assert monotonic() < until, "the server does not write its log"
            sleep(0.02)


def test_workers_wait_for_a_server_that_is_stopped_for_ten_seconds(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    with started(tmp_path / "redis") as server:
        frontier = begin(server.url)
        frontier.add_seeds(["http://a.test/"])
        visited = visit(frontier, N_PAGES)
        server.send(signal.SIGSTOP)
        stopped = monotonic()
        with repaired_once_noticed(caplog, lambda: server.send(signal.SIGCONT), DOWN_SECONDS):
            visited += visit(frontier, N_PAGES)
        assert monotonic() - stopped >= DOWN_SECONDS
        frontier.close()
        assert warnings(caplog) == LOGGED_ONCE
        assert_each_visit_counts_once(server, visited)


def test_workers_wait_for_a_server_that_is_killed_and_down_for_ten_seconds(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    with started(tmp_path / "redis", *AOF) as server:
        frontier = begin(server.url)
        frontier.add_seeds(["http://a.test/"])
        visited = visit(frontier, N_PAGES)
        wait_until_written(server)
        server.kill()
        with repaired_once_noticed(caplog, server.start, DOWN_SECONDS):
            visited += visit(frontier, N_PAGES)
        frontier.close()
        assert warnings(caplog) == LOGGED_ONCE
        assert_each_visit_counts_once(server, visited)


def test_workers_wait_for_a_full_server_until_it_has_more_memory(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    with started(tmp_path / "redis") as server, server.client() as client:
        frontier = begin(server.url)
        frontier.add_seeds(["http://a.test/"])
        visited = visit(frontier, N_PAGES)
        client.config_set("maxmemory", client.info("memory")["used_memory"] + 20_000)
        full_at = monotonic()
        with repaired_once_noticed(caplog, lambda: client.config_set("maxmemory", 0), 3.0):
            visited += visit(frontier, 10 * N_PAGES)
        assert monotonic() - full_at >= 3.0
        frontier.close()
        assert warnings(caplog) == LOGGED_ONCE
        assert_each_visit_counts_once(server, visited)


def test_a_replica_promoted_by_a_sentinel_continues_the_crawl(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    with (
        started(tmp_path / "first") as first,
        started(
            tmp_path / "second",
            *("--replicaof", "127.0.0.1", str(first.port), "--repl-diskless-sync-delay", "0"),
        ) as second,
        sentinel_of(first, tmp_path) as address,
    ):
        frontier = begin(f"redis+sentinel://{address}/crawls/0")
        frontier.add_seeds(["http://a.test/"])
        visited = visit(frontier, N_PAGES)
        with first.client() as client:
            # WAIT covers the writes of its own connection, and all earlier ones.
            client.set("written", "last")
            assert client.wait(1, 20_000) == 1, "the replica is not in step"
        first.kill()
        visited += visit(frontier, N_PAGES)
        frontier.close()
        assert second.client().role()[0] in (b"master", "master")
        assert warnings(caplog) == LOGGED_ONCE
        assert_each_visit_counts_once(second, visited)


@contextmanager
def sentinel_of(primary: RedisServer, folder: Path) -> Iterator[str]:
    """Run a sentinel that watches a server and its replicas; yield its address."""
    port = free_port()
    settings = folder / "sentinel.conf"
    settings.write_text(
        f"port {port}\nbind 127.0.0.1\ndir {folder}\n"
        f"sentinel monitor crawls 127.0.0.1 {primary.port} 1\n"
        "sentinel down-after-milliseconds crawls 1000\n"
        "sentinel failover-timeout crawls 5000\n"
    )
    program = shutil.which("redis-server")
    assert program is not None
    process = subprocess.Popen([program, str(settings), "--sentinel"], stdout=subprocess.DEVNULL)
    try:
        client = connect(f"redis://127.0.0.1:{port}", {})
        until = monotonic() + 30.0
        while True:
            try:
                if client.execute_command("SENTINEL", "REPLICAS", "crawls"):
                    break
            except Exception:
                assert monotonic() < until
            assert monotonic() < until, "the sentinel finds no replica"
            sleep(0.1)
        yield f"127.0.0.1:{port}"
    finally:
        process.kill()
        process.wait()


@pytest.mark.parametrize(
    "url", ["redis+sentinel://127.0.0.1:1", "redis+sentinel://127.0.0.1:x/crawls/0"]
)
def test_an_incomplete_sentinel_url_is_refused(url: str) -> None:
    with pytest.raises(ConfigError, match=r"redis\+sentinel://HOST:PORT"):
        connect(url, {})
