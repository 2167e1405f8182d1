"""A worker ends when its frontier fails for good, whatever still waits for a site."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from redis_servers import RedisServer

_SPIDER = """
import sys

import redis
import scrapy
from scrapy.crawler import CrawlerProcess

URL, PREFIX = sys.argv[1:]


class Media(scrapy.Spider):
    name = "given-up"

    async def start(self):
        client = redis.Redis.from_url(URL)
        for key in client.keys(PREFIX + "*"):
            client.delete(key)
            client.set(key, "no hash, list or set")
        try:
            await self.crawler.engine.download_async(scrapy.Request("http://127.0.0.1:1/media"))
        except Exception as error:
            print(type(error).__name__, flush=True)
        for request in ():
            yield request


process = CrawlerProcess(
    {
        "ADDONS": {"crawlprio.Addon": 500},
        "CRAWLPRIO_FRONTIER": "redis",
        "CRAWLPRIO_COMPILE": False,
        "CRAWLPRIO_REDIS_CRAWL": "given-up",
        "CRAWLPRIO_LEASE_SECONDS": 4,
        "ORDERING": "breadth-first",
        "REDIS_URL": URL,
        "RETRY_ENABLED": False,
        "ROBOTSTXT_OBEY": False,
    }
)
process.crawl(Media)
process.start()
"""


def test_a_request_without_a_lease_does_not_wait_for_a_frontier_that_failed(
    redis_server: RedisServer, tmp_path: Path
) -> None:
    file = tmp_path / "media.py"
    file.write_text(_SPIDER)
    line = [sys.executable, str(file), redis_server.url, "crawlprio:{given-up:0}"]
    ended = subprocess.run(
        line, cwd=tmp_path, capture_output=True, text=True, timeout=40, check=False
    )
    assert ended.stdout.split() == ["IgnoreRequest"], ended.stderr[-2000:]
    assert "The frontier in Redis is unusable" in ended.stderr
