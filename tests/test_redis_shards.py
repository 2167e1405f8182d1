"""Crawls whose sites are shared by several brains: test_workers.py has what all crawls keep."""

import json
import os

import pytest
from logged_web import LoggedWeb
from shared_crawls import InRedis, shared_crawl
from shared_frontier import Shardwise
from stores import query

from crawlprio.plugins.shared.shards import shards_from

crawl = shared_crawl


@pytest.mark.parametrize("crawl", ["shards"], indirect=True)
def test_a_cluster_spreads_shards_and_none_gets_more_than_its_part_of_the_pages(
    crawl, redis_cluster
):
    crawl.serve_by(redis_cluster)
    assert len({redis_cluster.owner(mailbox.prefix) for mailbox in crawl.mailboxes}) > 1
    for _ in range(3):
        crawl.start(1, "--pages", "30", CRAWLPRIO_BRAIN="only")
    crawl.wait_for_brains()
    crawl.start(1, "--pages", "30", CRAWLPRIO_BRAIN="never")
    crawl.end()
    sql = "SELECT count(*) FROM visits WHERE status = 200"
    got = [query(crawl.store_of(shard), sql)[0][0] for shard in range(3)]
    # A shard may have no site, or too few pages that the others' lead to.
    assert max(got) == 10
    assert crawl.visits().total() == sum(got) > 10


def is_in_order(folder):
    """Crawl with one fetch at a time; return whether it always got the best page of all shards."""
    folder.mkdir()
    with LoggedWeb(n_pages=80, n_sites=8) as web:
        web.robots = b""
        crawl = InRedis(folder, web, n_shards=3, term=6.0)
        try:
            crawl.start(1, "--at-once", "1", "--delay", "0")
            crawl.end()
        finally:
            crawl.stop()
        ((facts,),) = query(crawl.store_of(0), "SELECT value FROM meta WHERE key = 'mailbox'")
        pages = {web.url(page): page for page in range(web.n_pages)}
        alone = Shardwise(
            lambda url: web.links(pages[url]) if url in pages else None,
            shards_from(json.loads(facts)["shards"]),
            "opic",
        )
        alone.seed(web.url(0))
        alone.fetch()
        seen = sorted(web.seen, key=lambda each: each.came)
        urls = [f"http://{each.site}:{web.port}{each.path}" for each in seen]
        return [url for url in urls if not url.endswith("/robots.txt")] == alone.order


@pytest.mark.skipif(
    "CRAWLPRIO_QUIET" not in os.environ,
    reason="a busy machine lets fetches leave before a shard has told of the last one: "
    "make shared-kills runs it",
)
def test_one_fetch_at_a_time_always_gets_the_best_page_of_all_shards(tmp_path):
    assert any(is_in_order(tmp_path / str(attempt)) for attempt in range(3))
