"""Crawls whose sites are shared by several brains, judged by a server's log and the true graph."""

from __future__ import annotations

import json
import os
import signal
import sqlite3
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest
from logged_web import LoggedWeb
from redis_servers import ClusterOfServers, require_redis
from shared_crawls import PATIENCE, InShards, logged_web
from shared_frontier import local_frontier

from crawlprio.frontier.protocol import PageVisit
from crawlprio.items import LinkPairs
from crawlprio.live.workers import Shard
from crawlprio.plugins.shared.hand_frontier import HandFrontier
from crawlprio.plugins.shared.shards import Shards, shards_from

web = logged_web


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
        assert [each.wait(PATIENCE) for each in crawl.workers] == [0] * 4, crawl.said()
        crawl.end()
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
    assert other.wait(PATIENCE) == 2
    assert "CRAWLPRIO_REDIS_SHARDS is 2, but the crawl 'site' in Redis has 3" in crawl.said()


def order_in_one_process(web: LoggedWeb, shards: Shards) -> list[str]:
    """Return the URLs that a crawl fetches which takes the best page of all shards, each time."""

    settings = {"ORDERING": "opic", "CONCURRENT_REQUESTS": 1, "DOWNLOAD_DELAY": 0}
    each = [local_frontier(settings, Shard(shards.of, number)) for number in range(len(shards))]
    each[shards.of(web.host(0))].add_seeds([web.url(0)])
    pages, order = {web.url(page): page for page in range(web.n_pages)}, list[str]()
    while True:
        heads = [(one.queue.head(0.0), -number) for number, one in enumerate(each)]
        found = max(((head, at) for head, at in heads if head is not None), default=None)
        if found is None:
            return order
        handout = each[-found[1]].next_page(0.0)
        assert handout is not None
        order.append(handout.url)
        visit = PageVisit(LinkPairs(handout.url, [], status=404))
        if handout.url in pages:
            visit = PageVisit(LinkPairs(handout.url, web.links(pages[handout.url])))
        each[-found[1]].observe(handout.lease, visit)
        for shard, links in each[-found[1]].links_out:
            each[shard].take_links(links)
        each[-found[1]].links_out.clear()


def is_in_order(folder: Path) -> bool:
    """Crawl with one fetch at a time; return whether it always got the best page of all shards."""
    folder.mkdir()
    with LoggedWeb(n_pages=80, n_sites=8) as web:
        web.robots = b""
        crawl = InShards(folder, web, 3, term=6.0)
        try:
            crawl.start(1, "--at-once", "1", "--delay", "0", "--ordering", "opic")
            assert crawl.end() == [0], crawl.said()
        finally:
            crawl.stop()
        query = "SELECT value FROM meta WHERE key = 'mailbox'"
        facts = json.loads(str(rows_of(crawl.store_of(0), query)[0][0]))["shards"]
        fetched = [
            f"http://{each.site}:{web.port}{each.path}"
            for each in sorted(web.seen, key=lambda each: each.came)
            if each.path != "/robots.txt"
        ]
        return fetched == order_in_one_process(web, shards_from(facts))


@pytest.mark.skipif(
    "CRAWLPRIO_QUIET" not in os.environ,
    reason="a busy machine lets fetches leave before a shard has told of the last one: "
    "make shared-kills runs it",
)
def test_one_fetch_at_a_time_always_gets_the_best_page_of_all_shards(tmp_path: Path) -> None:
    require_redis()
    assert any(is_in_order(tmp_path / str(attempt)) for attempt in range(3))


def test_free_fetches_go_to_the_shards_whose_next_pages_rank_first() -> None:
    frontier = HandFrontier(lambda shard, statement: None, Shards(3, "key"))
    none = [0, 0, 0]
    for shard, head in enumerate(([0, 0, 1.0], [0, 0, 3.0], [1, 0, 0.0])):
        frontier.received(shard, ["status", 5, 0, 0.0, 0, head, 0, none, none])
    assert frontier.is_settled
    shares = []
    for n_wanted in (2, 3, 4):
        frontier.share(n_wanted)
        shares.append(list(frontier.shares))
    assert shares == [[0, 1, 1], [1, 1, 1], [1, 1, 2]]
    frontier.received(0, ["status", 0, 0, None, 0, None, 0, [0, 1, 0], none])
    assert not frontier.is_settled, "shard 1 has not read what shard 0 has sent it"
    frontier.share(2)
    assert frontier.shares == [0, 1, 1]
