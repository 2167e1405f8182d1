"""Crawls of the demo web with a frontier in a real Redis server."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from crawls import ADDON, Site, fetched_urls, page, run_spider
from redis_servers import RedisServer
from scrapy import Request, Spider
from shared_webs import shared_webs

import crawlprio.settings
from crawlprio import Ordering
from crawlprio.errors import ConfigError
from crawlprio.graph.pages import Visit
from crawlprio.orderings import BY_VALUE, ORDERINGS, Changed
from crawlprio.plugins.redis.collect import collect
from crawlprio.plugins.redis.rules import rules_of
from crawlprio.plugins.redis.shards import prefix_of
from crawlprio.plugins.value.kept_texts import kept_texts
from crawlprio.spiders.site import SiteSpider
from crawlprio.store import Store

PROJECT = {name: value for name, value in vars(crawlprio.settings).items() if name.isupper()}

OPTIONS: dict[str, dict[str, Any]] = {
    "random": {"seed": 3},
    "fica": {"link": 0.1},
    "anchor-similarity": {"words": "learning, web"},
    "pagerank": {"every": 1},
    "partial-pagerank": {"every": 20},
    "batch-pagerank": {"every": 20, "fill": True},
    "historical-pagerank": {"scores": {"http://gone.example/": 1.0}, "new": "omniscient"},
    "combined": {"weights": {"opic": 1.0, "location": 0.25, "pagerank": 20.0}},
}
"""Options that exercise an ordering fully on a small web; the others keep their defaults."""


TOPIC = "learning, web"


class LongestAnchor(Ordering):
    """Pages with the longest anchor text first: a user's own ordering."""

    needs_anchors = True

    def observe(self, visit: Visit) -> Changed:
        for target, anchor in zip(visit.targets, visit.anchors, strict=False):
            self.keys[target] = max(self.keys[target], len(anchor))
        return visit.targets


ALIKE = ("breadth-first", "depth-first", "backlink-count", "location", "fica")
"""Orderings whose live crawls need nothing that those of others do not."""

# test_redis_order.py holds every ordering to the local one, call for call.
CASES = [
    *(pytest.param(name, None, id=name) for name in ORDERINGS if name not in ALIKE),
    pytest.param("test_redis_crawl.LongestAnchor", None, id="own-class"),
    # test_redis_order.py covers all orderings with a topic.
    *(pytest.param(name, TOPIC, id=f"{name}-topic") for name in ("opic", "sibling-sampling")),
]


def crawl(log: Path, **settings: Any) -> list[str]:
    """Crawl the demo web in this process, one page at a time; return the URLs fetched, in order."""
    with shared_webs():
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
                "CLOSESPIDER_TIMEOUT": 240,
                **settings,
            },
            priority="cmdline",
        )
    assert run.reason in ("finished", "closespider_pagecount"), run.messages()
    return fetched_urls(log)


@pytest.mark.parametrize(("ordering", "topic"), CASES)
def test_one_worker_with_one_fetch_at_a_time_has_the_order_of_a_local_crawl(
    ordering: str,
    topic: str | None,
    redis_server: RedisServer,
    tmp_path: Path,
) -> None:
    chosen: dict[str, Any] = {
        "ORDERING": ordering,
        "ORDERING_OPTIONS": OPTIONS.get(ordering, {}),
        "TOPIC": topic,
    }
    here = crawl(tmp_path / "here.jsonl", **chosen)
    there = crawl(
        tmp_path / "there.jsonl",
        CRAWLPRIO_FRONTIER="redis",
        REDIS_URL=redis_server.url,
        **chosen,
    )
    assert len(here) >= 110
    assert there == here


@pytest.mark.parametrize("ordering", BY_VALUE)
def test_a_crawl_by_value_has_the_order_values_and_texts_of_a_local_crawl(
    ordering: str, redis_server: RedisServer, tmp_path: Path
) -> None:
    chosen: dict[str, Any] = {
        "ORDERING": ordering,
        "CRAWLPRIO_VALUE": "words:knight, rook, queen, oven, yeast, dough",
        "CRAWLPRIO_KEEP_TEXT": True,
        "CRAWLPRIO_STORE": str(tmp_path / "here.sqlite"),
    }
    here = crawl(tmp_path / "here.jsonl", **chosen)
    frontier = {"CRAWLPRIO_FRONTIER": "redis", "REDIS_URL": redis_server.url}
    there = crawl(tmp_path / "there.jsonl", **chosen, **frontier)
    assert there == here
    collect(redis_server.client(), prefix_of("site"), tmp_path / "there.sqlite")
    tables = []
    for name in ("here", "there"):
        with Store.open(tmp_path / f"{name}.sqlite", readonly=True) as store:
            tables.append([kept._replace(fetched_at=0) for kept in kept_texts(store)])
    assert tables[0] == tables[1]
    assert len({kept.value for kept in tables[0]}) > 3


def test_an_ordering_that_overrides_site_key_is_refused() -> None:
    class ByName(Ordering):
        def site_key(self, site: int, best_key: float, n_waiting: int) -> float:
            return -site

    with pytest.raises(ConfigError, match="overrides site_key"):
        rules_of(ByName(), "ByName")


class Shop(Spider):
    name = "shop"
    start_urls = ["http://shop.test/"]

    def parse(self, response: Any) -> Any:
        yield Request("http://shop.test/1", lambda response: None)
        yield Request("http://shop.test/2", lambda response: None)
        yield Request("http://shop.test/3", self.parse_thing)

    def parse_thing(self, response: Any) -> None:
        return None


def test_a_request_that_cannot_be_serialized_is_dropped_counted_and_logged(
    redis_server: RedisServer,
) -> None:
    with Site({f"/{name}": page() for name in ("", "1", "2", "3")}) as site:
        run = run_spider(
            Shop,
            {**ADDON, "CRAWLPRIO_FRONTIER": "redis", "REDIS_URL": redis_server.url},
            site=site,
        )
        assert run.reason == "finished"
        assert [fetch.path for fetch in site.fetches] == ["/", "/3"]
    assert run.stats["scheduler/unserializable"] == 2
    (warning,) = [text for text in run.messages() if "Unable to serialize" in text]
    assert "It is dropped because other workers could not fetch it" in warning


class FromText(Spider):
    """Starts from a page in its own URL, which no host serves."""

    name = "from-text"
    start_urls = ("data:,text",)

    def parse(self, response: Any) -> Any:
        yield {"url": response.url[:5]}
        if response.url.startswith("data:"):
            yield Request("http://a.test/")


def test_a_crawl_that_starts_from_a_data_url_ends(redis_server: RedisServer) -> None:
    settings = {**ADDON, "CRAWLPRIO_FRONTIER": "redis", "REDIS_URL": redis_server.url}
    with Site({"/": page()}) as site:
        run = run_spider(FromText, settings, site=site)
    assert run.reason == "finished"
    assert run.messages() == []
    assert run.items == [{"url": "data:"}, {"url": "http:"}]
    assert run.stats["crawlprio/pages_fetched"] == 2
