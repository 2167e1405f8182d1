"""A worker fetches start URLs that are pushed to Redis, even while its crawl runs."""

import json

import pytest
from crawls import ADDON, Site, page, run_spider
from scrapy import Request, Spider
from shared_crawls import coordinator_of
from waiting import until

KEY = "shop:start_urls"
PAGES = {f"/{name}": page(title=name) for name in "abcd"}


class Shop(Spider):
    name = "shop"

    def parse(self, response):
        yield {"job": response.meta.get("job")}


def crawl(folder, server, spider=Shop, seconds=0.5):
    """Return the outcome and what was fetched: path, method and body, in order."""
    settings = {
        **{**ADDON, "REDIS_URL": server.url, "CRAWLPRIO_FRONTIER": "redis"},
        **{"REDIS_START_URLS_KEY": "%(name)s:start_urls", "MAX_IDLE_TIME_BEFORE_CLOSE": seconds},
        **{"CONCURRENT_REQUESTS": 1, "ORDERING": "breadth-first", "ROBOTSTXT_OBEY": False},
    }
    with Site(PAGES) as site, coordinator_of(folder, "shop", settings), server.client() as client:
        until(lambda: client.exists("crawlprio:{shop:0}:crawl"))  # or the start takes the time
        run = run_spider(spider, {**settings, "CRAWLPRIO_COORDINATOR": "never"}, site=site)
    assert run.reason == "finished", run.messages()
    return run, [(fetch.path, fetch.method, fetch.body) for fetch in site.fetches]


@pytest.mark.sampled(1)
@pytest.mark.parametrize("kind", ["list", "set", "zset"])
def test_all_start_urls_of_a_list_set_or_sorted_set_are_fetched(kind, redis_server, tmp_path):
    client = redis_server.client()
    urls = [f"http://shop.test{path}" for path in PAGES]
    if kind == "list":
        client.rpush(KEY, *urls)
    elif kind == "set":
        client.sadd(KEY, *urls)
    else:
        client.zadd(KEY, {url: -at for at, url in enumerate(urls)})
    paths = [path for path, _, _ in crawl(tmp_path, redis_server)[1]]
    assert (sorted(paths) if kind == "set" else paths) == list(PAGES)
    assert not client.exists(KEY)


def test_entries_are_parsed_as_in_scrapy_redis_also_during_the_crawl_and_invalid_ones_counted(
    redis_server, tmp_path
):
    client = redis_server.client()

    class Pushing(Shop):
        def parse(self, response):
            if response.url.endswith("/a"):
                client.rpush(KEY, json.dumps({"url": "http://shop.test/b", "meta": {"job": 3}}))
            return super().parse(response)

    form = json.dumps({"url": "http://shop.test/a", "method": "post", "q": "boots"})
    client.rpush(KEY, form, json.dumps({"no": "url"}), b"\xff\xfe", "no URL at all")
    run, fetched = crawl(tmp_path, redis_server, Pushing, seconds=2.0)
    assert fetched == [("/a", "POST", b"q=boots"), ("/b", "GET", b"")]
    assert run.items == [{"job": None}, {"job": 3}]
    assert run.stats["crawlprio/start_urls_not_read"] == 3


def test_a_spider_may_make_the_requests_itself(redis_server, tmp_path):
    class Own(Shop):
        def make_request_from_data(self, entry):
            return Request(f"http://shop.test/{entry.decode()}", meta={"job": "own"})

    redis_server.client().rpush(KEY, "c")
    run, fetched = crawl(tmp_path, redis_server, Own)
    assert fetched == [("/c", "GET", b"")]
    assert run.items == [{"job": "own"}]
