"""Start URLs that are pushed to Redis are fetched, even while a crawl runs.

Workers of a shared crawl read them in test_redis_brain.py, and as scrapy-redis in
test_scrapy_redis.py.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest
from crawls import ADDON, Run, Site, page, run_spider
from redis import Redis
from redis_servers import RedisServer
from scrapy import Request, Spider, signals
from scrapy.crawler import Crawler

from crawlprio.plugins.shared.connection import connect
from crawlprio.plugins.shared.start_urls import StartUrls

KEY = "shop:start_urls"
PAGES = {f"/{name}": page(title=name) for name in "abcd"}


class Shop(Spider):
    name = "shop"
    on_page: Callable[[str], object] = staticmethod(lambda url: None)

    def parse(self, response: Any) -> Any:
        type(self).on_page(response.url)
        yield {"url": response.url, "meta": response.meta.get("job"), "by": "parse"}


class Reads:
    """An extension that reads start URLs, in a crawl whose frontier is in this process."""

    def __init__(self, crawler: Crawler, seconds: float) -> None:
        client = connect(crawler.settings["REDIS_URL"], {})
        self.urls = StartUrls(crawler, client, KEY, batch_size=1, max_idle=seconds)
        crawler.signals.connect(self.urls.begin, signal=signals.spider_opened)
        crawler.signals.connect(self.urls.close, signal=signals.spider_closed)

    @classmethod
    def from_crawler(cls, crawler: Crawler) -> Reads:
        return cls(crawler, crawler.settings["SECONDS"])


def crawl(
    server: RedisServer, spider: type[Spider] = Shop, seconds: float = 0.5
) -> tuple[Run, Site]:
    with Site(PAGES) as site:
        settings = {
            **{**ADDON, "REDIS_URL": server.url, "EXTENSIONS": {Reads: 1}},
            **{"SECONDS": seconds, "CONCURRENT_REQUESTS": 1, "ORDERING": "breadth-first"},
        }
        return run_spider(spider, settings, site=site), site


def fetched(site: Site) -> list[str]:
    return [fetch.path for fetch in site.fetches]


@pytest.mark.parametrize("kind", ["list", "set", "zset"])
def test_all_start_urls_of_a_list_set_or_sorted_set_are_fetched(
    kind: str,
    redis_server: RedisServer,
) -> None:
    client: Redis = redis_server.client()
    urls = [f"http://shop.test{path}" for path in PAGES]
    if kind == "list":
        client.rpush(KEY, *urls)
    elif kind == "set":
        client.sadd(KEY, *urls)
    else:
        client.zadd(KEY, {url: -at for at, url in enumerate(urls)})
    run, site = crawl(redis_server)
    assert run.reason == "finished", run.messages()
    paths = fetched(site)
    assert sorted(paths) == sorted(PAGES)
    if kind != "set":
        assert paths == list(PAGES)
    assert not client.exists(KEY)


def test_a_start_url_pushed_during_the_crawl_is_fetched(
    redis_server: RedisServer,
) -> None:
    client: Redis = redis_server.client()

    class Pushing(Shop):
        @staticmethod
        def on_page(url: str) -> None:
            if url.endswith("/a"):
                client.rpush(KEY, json.dumps({"url": "http://shop.test/b", "meta": {"job": 3}}))

    client.rpush(KEY, "http://shop.test/a")
    run, site = crawl(redis_server, Pushing, seconds=2.0)
    assert fetched(site) == ["/a", "/b"]
    assert [item["meta"] for item in run.items] == [None, 3]


def test_entries_are_parsed_as_in_scrapy_redis_and_invalid_ones_are_counted(
    redis_server: RedisServer,
) -> None:
    client: Redis = redis_server.client()
    client.rpush(
        KEY,
        json.dumps({"url": "http://shop.test/a", "method": "post", "q": "boots"}),
        json.dumps({"no": "url"}),
        b"\xff\xfe",
        "no URL at all",
    )
    run, site = crawl(redis_server)
    (fetch,) = site.fetches
    assert (fetch.path, fetch.method, fetch.body) == ("/a", "POST", b"q=boots")
    assert run.stats["crawlprio/start_urls_not_read"] == 3
    assert run.reason == "finished"


def test_a_spider_may_make_the_requests_itself(
    redis_server: RedisServer,
) -> None:
    class Own(Shop):
        def make_request_from_data(self, entry: bytes) -> Request:
            return Request(f"http://shop.test/{entry.decode()}", meta={"job": "own"})

    redis_server.client().rpush(KEY, "c")
    run, site = crawl(redis_server, Own)
    assert fetched(site) == ["/c"]
    assert run.items[0]["meta"] == "own"
