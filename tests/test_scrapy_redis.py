"""A project written for scrapy-redis runs after a change of two settings."""

import json

import pytest
from shared_crawls import shared_crawl

from crawlprio.store import Store

pytest.importorskip("scrapy_redis", reason="scrapy-redis is not installed (extra dev)")

crawl = shared_crawl

SETTINGS = """
SPIDER_MODULES = ["example.spiders"]
USER_AGENT = "example (+https://example.org/)"
DUPEFILTER_CLASS = "scrapy_redis.dupefilter.RFPDupeFilter"
SCHEDULER = "crawlprio.schedulers.RedisScheduler"
SCHEDULER_PERSIST = True
ITEM_PIPELINES = {{
    "example.pipelines.ExamplePipeline": 300,
    "scrapy_redis.pipelines.RedisPipeline": 400,
}}
DOWNLOAD_DELAY = 0
REDIS_URL = {redis!r}
MAX_IDLE_TIME_BEFORE_CLOSE = 4
ROBOTSTXT_OBEY = False
CRAWLPRIO_PRIVATE_NETWORKS = ["127.0.0.0/8"]
ADDONS = {{"crawlprio.Addon": 500}}
"""

PIPELINES = """
class ExamplePipeline:
    def process_item(self, item):
        item["seen"] = True
        return item
"""

SPIDERS = """
from scrapy.linkextractors import LinkExtractor
from scrapy.spiders import Rule
from scrapy_redis.spiders import RedisCrawlSpider, RedisSpider


class MySpider(RedisSpider):
    name = "myspider_redis"
    redis_key = "myspider:start_urls"

    def parse(self, response):
        yield {"name": response.css("title::text").get(), "url": response.url,
               "job": response.meta.get("job")}


class MyCrawler(RedisCrawlSpider):
    name = "mycrawler_redis"
    redis_key = "mycrawler:start_urls"
    rules = (Rule(LinkExtractor(deny="private"), callback="parse_page", follow=True),)

    def parse_page(self, response):
        return {"name": response.css("title::text").get(), "url": response.url}
"""


def run_project(crawl, spider, n_workers):
    """Write the project, and run one of its spiders to the end."""
    for name, text in (
        ("scrapy.cfg", "[settings]\ndefault = example.settings\n"),
        ("example/__init__.py", ""),
        ("example/settings.py", SETTINGS.format(redis=crawl.server.url)),
        ("example/pipelines.py", PIPELINES),
        ("example/spiders.py", SPIDERS),
    ):
        file = crawl.folder / name
        file.parent.mkdir(exist_ok=True)
        file.write_text(text)
    for _ in range(n_workers):
        crawl.run("scrapy", ["crawl", spider])
    crawl.end()
    assert "Traceback" not in crawl.said(), crawl.said()


def test_start_urls_pushed_to_redis_are_fetched_and_their_items_are_pushed_back(crawl):
    client, key = crawl.client, "myspider:start_urls"
    first, second = map(crawl.web.url, range(2))
    third = f"http://{crawl.web.host(0)}:{crawl.web.port}/none"
    client.lpush(key, first)
    client.lpush(key, json.dumps({"url": second, "meta": {"job": 7}}))
    client.lpush(key, json.dumps({"url": third, "page": "2"}))
    run_project(crawl, "myspider_redis", 1)
    items = [json.loads(item) for item in client.lrange("myspider_redis:items", 0, -1)]
    assert crawl.web.fetches() == {first: 1, second: 1, f"{third}?page=2": 1}
    assert sorted((item["url"], item["job"] or 0, item["seen"]) for item in items) == sorted(
        [(first, 0, True), (second, 7, True)]
    )
    assert client.llen(key) == 0


def test_a_crawl_spider_on_two_workers_fetches_every_page_once(crawl):
    seeds = [crawl.web.url(page) for page in range(3)]
    crawl.client.rpush("mycrawler:start_urls", *seeds)
    run_project(crawl, "mycrawler_redis", 2)
    fetched = crawl.web.fetches()
    assert set(fetched) == {crawl.web.url(page) for page in range(crawl.web.n_pages)}
    # As in Scrapy, a request with dont_filter does not mark its page as seen for links.
    assert {url for url, n in fetched.items() if n > 1} <= set(seeds)
    assert crawl.client.llen("mycrawler_redis:items") == fetched.total() - len(seeds)
    crawl.job = crawl.folder / "crawls" / "mycrawler_redis"
    with Store.open(crawl.store, readonly=True) as store:
        assert store.load_pages().urls(store.seeds()) == seeds
