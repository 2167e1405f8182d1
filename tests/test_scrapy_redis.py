"""A project written for scrapy-redis runs after a change of two settings."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from crawls import server_log
from forked import Forked
from redis_servers import RedisServer
from shared_crawls import PATIENCE

from crawlprio.demo.server import LoopbackServer
from crawlprio.store import Store

pytest.importorskip("scrapy_redis", reason="scrapy-redis is not installed (extra dev)")

N_PAGES, N_SITES = 60, 4

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
DOWNLOAD_HANDLERS = {{
    "http": "crawlprio.demo.handler.LoopbackHandler",
    "https": "crawlprio.demo.handler.LoopbackHandler",
}}
CRAWLPRIO_LOOPBACK = {loopback!r}
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
    rules = (
        Rule(LinkExtractor(deny=r"month="), callback="parse_page", follow=True),
    )

    def parse_page(self, response):
        return {"name": response.css("title::text").get(), "url": response.url}
"""


class Project:
    """The project and the web that it crawls."""

    def __init__(self, folder: Path, redis_url: str) -> None:
        self.folder = folder
        self.log = folder / "server.jsonl"
        self.web = LoopbackServer(pages=N_PAGES, sites=N_SITES, seed=1, port=0, log=self.log)
        self.web.start()
        package = folder / "example"
        (package / "spiders").mkdir(parents=True)
        (package / "__init__.py").write_text("")
        (package / "pipelines.py").write_text(PIPELINES)
        (package / "spiders" / "__init__.py").write_text(SPIDERS)
        (folder / "scrapy.cfg").write_text("[settings]\ndefault = example.settings\n")
        settings = SETTINGS.format(redis=redis_url, loopback=self.web.address)
        (package / "settings.py").write_text(settings)

    def crawl(self, spider: str, n_workers: int = 1) -> str:
        """Crawl; return the logs of all workers."""
        log = self.folder / "said.txt"
        running = [
            Forked("scrapy", ["crawl", spider], self.folder, stderr=log) for _ in range(n_workers)
        ]
        assert [process.wait(PATIENCE) for process in running] == [0] * n_workers, log.read_text()
        return log.read_text()

    def fetched(self) -> Counter[str]:
        return Counter(fetch["url"] for fetch in server_log(self.log))


@pytest.fixture
def project(redis_server: RedisServer, tmp_path: Path) -> Iterator[Project]:
    project = Project(tmp_path, redis_server.url)
    yield project
    project.web.stop()


def test_start_urls_pushed_to_redis_are_fetched_and_their_items_are_pushed_back(
    project: Project,
    redis_server: RedisServer,
) -> None:
    client = redis_server.client()
    first, second, third = (f"http://{host}/" for host in project.web.hosts[:3])
    client.lpush("myspider:start_urls", first)
    client.lpush("myspider:start_urls", json.dumps({"url": second, "meta": {"job": 7}}))
    client.lpush("myspider:start_urls", json.dumps({"url": third, "page": "2"}))
    log = project.crawl("myspider_redis")
    assert "Traceback" not in log, log[log.index("Traceback") - 1500 :][:5000]
    items: list[dict[str, Any]] = [
        json.loads(item) for item in client.lrange("myspider_redis:items", 0, -1)
    ]
    # The web has no page for this query.
    assert project.fetched() == {first: 1, second: 1, f"{third}?page=2": 1}
    assert sorted((item["url"], item["job"] or 0, item["seen"]) for item in items) == sorted(
        [(first, 0, True), (second, 7, True)]
    )
    assert client.llen("myspider:start_urls") == 0


def test_a_crawl_spider_on_two_workers_fetches_every_page_once(
    project: Project,
    redis_server: RedisServer,
) -> None:
    client = redis_server.client()
    client.rpush("mycrawler:start_urls", *project.web.seeds)
    log = project.crawl("mycrawler_redis", 2)
    assert "Traceback" not in log, log[log.index("Traceback") - 1500 :][:5000]
    fetched = project.fetched()
    pages = {url for url in fetched if "month=" not in url}
    assert len(pages) >= N_PAGES
    # As in Scrapy, a request with dont_filter does not mark its page as seen for links.
    assert {url for url, n in fetched.items() if n > 1} <= set(project.web.seeds)
    assert client.llen("mycrawler_redis:items") == len(pages) - len(project.web.seeds)
    stored = project.folder / "crawls" / "mycrawler_redis" / "crawl.sqlite"
    with Store.open(stored, readonly=True) as store:
        assert store.load_pages().urls(store.seeds()) == list(project.web.seeds)
