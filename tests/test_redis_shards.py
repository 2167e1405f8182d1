"""Crawls whose sites are shared by several brains, judged by a server's log and the true graph."""

from __future__ import annotations

import os
import signal
import sqlite3
from collections.abc import Iterator
from contextlib import closing, suppress
from pathlib import Path

import pytest
from logged_web import LoggedWeb
from redis_servers import ClusterOfServers, require_redis
from shared_crawls import InRedis

from crawlprio.plugins.shared.collect import merge
from crawlprio.plugins.shared.mailbox import Mailbox


class InShards(InRedis):
    """A crawl with a brain for each of several shards; its store is collected once it has ended."""

    def __init__(self, folder: Path, web: LoggedWeb, n: int, **chosen: object) -> None:
        super().__init__(folder, web, **chosen)  # type: ignore[arg-type]
        self.n = n
        self.mailboxes = [Mailbox(self.mailbox.client, "site", shard) for shard in range(n)]

    def options(self) -> tuple[str, ...]:
        return (*super().options(), "-s", f"CRAWLPRIO_REDIS_SHARDS={self.n}")

    def store_of(self, shard: int) -> Path:
        return self.folder / "crawls" / "site" / str(shard) / "crawl.sqlite"

    @property
    def store(self) -> Path:
        path = self.folder / "whole.sqlite"
        if not path.exists():
            merge([self.store_of(shard) for shard in range(self.n)], path)
        return path

    def brains(self) -> list[int]:
        """Return the process ids of the brains."""
        found = []
        for mailbox in self.mailboxes:
            with suppress(Exception):
                name = mailbox.brain()
                if name.count(" "):
                    found.append(int(name.split()[-1]))
        return found

    def wait_for_brains(self) -> list[int]:
        self.wait(lambda: len(self.brains()) == self.n)
        return self.brains()

    def end(self, seconds: float = 240.0) -> list[int]:
        statuses = super().end(seconds)
        self.wait(lambda: not self.brains())
        return statuses

    def stop(self) -> None:
        for brain in self.brains():
            with suppress(ProcessLookupError):
                os.kill(brain, signal.SIGKILL)
        super().stop()


@pytest.fixture
def web() -> Iterator[LoggedWeb]:
    with LoggedWeb(n_pages=160, n_sites=8) as served:
        yield served


@pytest.fixture
def crawl(tmp_path: Path, web: LoggedWeb) -> Iterator[InShards]:
    require_redis()
    shared = InShards(tmp_path, web, 3, term=6.0)
    yield shared
    shared.stop()


def rows_of(path: Path, query: str) -> list[tuple[object, ...]]:
    with closing(sqlite3.connect(path)) as db:
        return db.execute(query).fetchall()


def test_one_fetch_at_a_time_gets_every_page_once_and_keeps_robots_and_delays(
    crawl: InShards,
) -> None:
    crawl.start(1, "--at-once", "1", "--ordering", "opic", "-s", "SCHEDULER_PERSIST=False")
    assert crawl.end() == [0], crawl.said()
    crawl.check_whole()
    n_robots = sum(each.path == "/robots.txt" for each in crawl.web.seen)
    assert n_robots == crawl.web.n_sites
    fetched = [
        len(rows_of(crawl.store_of(shard), "SELECT 1 FROM visits WHERE status = 200"))
        for shard in range(crawl.n)
    ]
    assert sum(fetched) == crawl.web.n_pages
    assert crawl.server.client().keys("*") == []


def test_brains_and_workers_that_are_killed_lose_and_double_nothing(crawl: InShards) -> None:
    crawl.start(2, "--ordering", "opic")
    for n_fetched in (20, 60, 100):
        crawl.wait_for_fetches(n_fetched)
        os.kill(crawl.wait_for_brains()[n_fetched // 20 % crawl.n], signal.SIGKILL)
    crawl.wait_for_fetches(120)
    worker = crawl.alive()[0]
    worker.kill()
    worker.wait()
    crawl.start(1, "--ordering", "opic")
    assert crawl.end() == [0, 0], crawl.said()
    crawl.check_whole(most_refetched=crawl.web.n_sites + 4)


def test_ctrl_c_lets_all_shards_finish_and_the_crawl_goes_on_later(crawl: InShards) -> None:
    crawl.start(2, "--ordering", "opic")
    crawl.wait_for_fetches(40)
    crawl.wait_for_brains()
    for worker in crawl.alive():
        worker.send_signal(signal.SIGINT)
    assert crawl.end() == [0, 0], crawl.said()
    assert len(crawl.web.fetches()) < crawl.web.n_pages
    crawl.start(1, "--ordering", "opic")
    assert crawl.end() == [0], crawl.said()
    crawl.check_whole()


def test_a_cluster_spreads_shards_and_none_gets_more_than_its_part_of_the_pages(
    tmp_path: Path, web: LoggedWeb
) -> None:
    require_redis()
    (tmp_path / "nodes").mkdir()
    cluster = ClusterOfServers(tmp_path / "nodes")
    cluster.start()
    crawl = InShards(tmp_path, web, 3, server=cluster)
    try:
        assert len({cluster.owner(mailbox.prefix) for mailbox in crawl.mailboxes}) > 1
        for _ in range(3):
            crawl.start(1, "--ordering", "opic", "--pages", "30", brain="only")
        crawl.wait_for_brains()
        crawl.start(1, "--ordering", "opic", "--pages", "30", brain="never")
        worker = crawl.workers[-1]
        assert worker.wait(200.0) == 0, crawl.said()
        assert crawl.end() == [0, 0, 0]
        query = "SELECT count(*) FROM visits WHERE status = 200"
        got = [rows_of(crawl.store_of(shard), query)[0][0] for shard in range(3)]
        # A shard may have no site, or too few pages that the others' lead to.
        assert max(got) == 10
        assert crawl.visits().total() == sum(got) > 10
    finally:
        crawl.stop()
        cluster.kill()


def test_a_worker_with_another_number_of_shards_is_refused(crawl: InShards) -> None:
    crawl.start(1, "--ordering", "opic", "--pages", "60")
    crawl.wait_for_brains()
    crawl.start(1, "-s", "CRAWLPRIO_REDIS_SHARDS=2")
    other = crawl.workers.pop()
    assert other.wait(100.0) == 2
    assert "CRAWLPRIO_REDIS_SHARDS is 2, but the crawl 'site' in Redis has 3" in crawl.said()
