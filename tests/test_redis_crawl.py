"""Crawls of the demo web whose frontier is in a real Redis server."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from crawls import fetched_urls, run_spider
from redis_servers import RedisServer, redis_server, shared_server  # noqa: F401 - fixtures

import crawlprio.settings
from crawlprio.spiders.site import SiteSpider

PROJECT = {name: value for name, value in vars(crawlprio.settings).items() if name.isupper()}

SHARED_ORDERINGS: dict[str, dict[str, object]] = {
    "random": {"seed": 3},
    "breadth-first": {},
    "depth-first": {},
    "backlink-count": {},
    "opic": {},
    "larger-sites-first": {},
    "rankmass": {},
    "fica": {"link": 0.1},
    "location": {},
    "anchor-similarity": {"words": "learning, web"},
}


def crawl(log: Path, **settings: Any) -> list[str]:
    """Crawl the demo web in this process, one page at a time; return the URLs fetched, in order."""
    run = run_spider(
        SiteSpider,
        {
            **PROJECT,
            "CONCURRENT_REQUESTS": 1,
            "DOWNLOAD_DELAY": 0,
            "ROBOTSTXT_OBEY": False,
            "RETRY_ENABLED": False,
            "CRAWLPRIO_DEMO_PAGES": 120,
            "CRAWLPRIO_DEMO_SITES": 6,
            "CRAWLPRIO_SERVER_LOG": str(log),
            "CRAWLPRIO_STORE": None,
            "CRAWLPRIO_PRINT": False,
            "CRAWLPRIO_PLOT": None,
            "CRAWLPRIO_COMPILE": False,
            "CLOSESPIDER_TIMEOUT": 60,
            **settings,
        },
        priority="cmdline",
    )
    assert run.reason == "finished", run.messages()
    return fetched_urls(log)


@pytest.mark.parametrize("ordering", SHARED_ORDERINGS)
def test_one_worker_with_one_fetch_at_a_time_has_the_order_of_a_local_crawl(
    ordering: str,
    redis_server: RedisServer,  # noqa: F811
    tmp_path: Path,
) -> None:
    chosen: dict[str, Any] = {
        "ORDERING": ordering,
        "ORDERING_OPTIONS": SHARED_ORDERINGS[ordering],
    }
    here = crawl(tmp_path / "here.jsonl", **chosen)
    there = crawl(
        tmp_path / "there.jsonl",
        CRAWLPRIO_FRONTIER="redis",
        REDIS_URL=redis_server.url,
        **chosen,
    )
    assert len(here) >= 120
    assert there == here
