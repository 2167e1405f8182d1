"""Links taken in, pages handed out and memory of a frontier in Redis, beside scrapy-redis's.

    python benchmarks/redis_frontier.py [--pages 20000] [--links 20] [--rounds 2]

It starts a `redis-server` of its own for each run, in turn: crawlprio's scripts, called as a worker
calls them, and scrapy-redis's dupefilter and priority queue (where it is installed), given the same
links as requests one by one, as its scheduler is. A made-up web: each page has `--links` links to
pages of `--sites` sites, so that most links lead to pages that are known.

What it does not show: fetching, parsing, delays; several workers; a network between worker and
server. Processor time of the server is from its own count.
"""

from __future__ import annotations

import argparse
import random
import subprocess
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from time import perf_counter
from typing import NamedTuple

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "tests"))

from redis_servers import RedisServer


class Figures(NamedTuple):
    """What one run took: links and pages, seconds, the server's processor time, its memory."""

    n_links: int
    n_known: int
    seconds: float
    server_seconds: float
    n_bytes: int

    def row(self, name: str) -> str:
        return (
            f"{name:14} {self.n_links / self.seconds:9,.0f} links/s  "
            f"{1e6 * self.server_seconds / self.n_links:6.1f} us of Redis a link  "
            f"{self.n_bytes / self.n_known:6.0f} bytes a page known ({self.n_known:,})"
        )


def links_of(page: int, options: argparse.Namespace) -> list[str]:
    """The links of a page of the made-up web."""
    rng = random.Random(page)
    return [url_of(rng.randrange(options.pages), options) for _ in range(options.links)]


def url_of(page: int, options: argparse.Namespace) -> str:
    return f"https://www.site{page % options.sites}.example/section/article-{page}.html"


def ours(server: RedisServer, options: argparse.Namespace) -> tuple[int, int]:
    """Observe visits one by one, each waited for; return links and pages known."""
    from settled_redis import SettledRedis

    from crawlprio.frontier.protocol import PageVisit
    from crawlprio.items import LinkPairs

    frontier = SettledRedis(
        server.client(),
        "benchmark",
        ORDERING="opic",
        DOWNLOAD_DELAY=0,
        CONCURRENT_REQUESTS_PER_DOMAIN=8,
        CRAWLPRIO_MAX_PAGES_PER_PATTERN=None,
    )
    server.client().hset(f"{frontier._prefix}:config", "records", 0)
    frontier.add_seeds([url_of(0, options)])
    n_links = 0
    for _ in range(options.visits):
        handout = frontier.next_page(0.0)
        assert handout is not None
        page = int(handout.url.rpartition("-")[2].removesuffix(".html"))
        links = list(dict.fromkeys(links_of(page, options)))
        n_links += len(links)
        frontier.observe(handout.lease, PageVisit(LinkPairs(handout.url, links)))
    n_known = int(server.client().hget(f"{frontier._prefix}:counts", "pages"))
    frontier.close()
    return n_links, n_known


def scrapy_redis(server: RedisServer, options: argparse.Namespace) -> tuple[int, int]:
    """Push what its dupefilter lets pass, and pop a request for each page visited."""
    from scrapy import Request, Spider
    from scrapy.utils.test import get_crawler
    from scrapy_redis.dupefilter import RFPDupeFilter
    from scrapy_redis.queue import PriorityQueue

    crawler = get_crawler(Spider)
    spider = Spider.from_crawler(crawler, name="benchmark")
    client = server.client()
    queue = PriorityQueue(client, spider, "benchmark:requests")
    seen = RFPDupeFilter(client, "benchmark:seen")
    queue.push(Request(url_of(0, options)))
    n_links = 0
    for _ in range(options.visits):
        request = queue.pop()
        assert request is not None
        page = int(request.url.rpartition("-")[2].removesuffix(".html"))
        for url in dict.fromkeys(links_of(page, options)):
            n_links += 1
            link = Request(url)
            if not seen.request_seen(link):
                queue.push(link)
    return n_links, int(client.scard("benchmark:seen"))


def run(
    work: Callable[[RedisServer, argparse.Namespace], tuple[int, int]],
    options: argparse.Namespace,
) -> Figures:
    with tempfile.TemporaryDirectory() as folder:
        server = RedisServer(Path(folder))
        server.start()
        try:
            client = server.client()
            before = client.info()
            started = perf_counter()
            n_links, n_known = work(server, options)
            seconds = perf_counter() - started
            after = client.info()
        finally:
            server.kill()
    used = sum(after[name] - before[name] for name in ("used_cpu_user", "used_cpu_sys"))
    n_bytes = after["used_memory"] - before["used_memory"]
    return Figures(n_links, n_known, seconds, used, n_bytes)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--pages", type=int, default=20_000)
    parser.add_argument("--sites", type=int, default=500)
    parser.add_argument("--links", type=int, default=20)
    parser.add_argument("--visits", type=int, default=2000)
    parser.add_argument("--rounds", type=int, default=2)
    options = parser.parse_args()
    version = subprocess.run(["redis-server", "--version"], capture_output=True, text=True)
    print(version.stdout.strip())
    works = {"crawlprio": ours}
    try:
        import scrapy_redis as peer

        works[f"scrapy-redis {peer.__version__}"[:14]] = scrapy_redis
    except ModuleNotFoundError:
        print("scrapy-redis is not installed, and not measured.")
    for _ in range(options.rounds):
        for name, work in works.items():
            print(run(work, options).row(name), flush=True)


if __name__ == "__main__":
    main()
