"""A brain behind Redis compared with scrapy-redis: visits/s, and what they cost the server.

    python benchmarks/redis_frontier.py [--visits 20000] [--rounds 3]

A visit has 20 links, 14 to the page's own site and 6 to random ones, most of them new. Each
measurement starts its own `redis-server` with `appendonly yes`, and the contenders take turns.

crawlprio     A brain in a process of its own, as `CRAWLPRIO_BRAIN=only` starts it, with the default
              ordering and its store. This process is its one worker, with the real post, but makes
              up what it fetches: the figures are those of brain, mailbox and server.
scrapy-redis  Its scheduler, dupefilter and priority queue, called once for each link, as Scrapy
              calls a scheduler. It orders by priority only, and records nothing.

Printed are visits/s, processor time a visit of the server and of the brain or the scheduler, and
the memory that the server uses after each fifth of the visits. Not shown: fetching and parsing,
delays, and a network between worker and server, for which scrapy-redis waits at every link.
"""

from __future__ import annotations

import argparse
import queue
import random
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from importlib.metadata import version
from importlib.util import find_spec
from pathlib import Path
from time import perf_counter, process_time
from typing import Any, NamedTuple

from redis import Redis

sys.path.extend(str(Path(__file__).resolve().parents[1] / "tests" / name) for name in ("", "kit"))

from redis_servers import RedisServer
from shared_crawls import brain_of
from workers import spent

N_LINKS, N_OWN, N_PARTS = 20, 14, 5
AT_ONCE = 64
CRAWL = "benchmark"


class Cost(NamedTuple):
    """What the visits of a run took: seconds in all, and of processors; memory as they went on."""

    seconds: float
    server_seconds: float
    own_seconds: float
    memory: list[int]


@contextmanager
def fresh_server() -> Iterator[RedisServer]:
    """Run a new server."""
    with tempfile.TemporaryDirectory() as folder:
        server = RedisServer(Path(folder), "--appendonly", "yes")
        server.start()
        try:
            yield server
        finally:
            server.kill()


def used(client: Redis) -> float:
    """Return the CPU time that the server has used so far, in seconds."""
    facts = client.info("cpu")
    return float(facts["used_cpu_user"] + facts["used_cpu_sys"])


def url_of(page: int, n_sites: int) -> str:
    return f"https://www.site{page % n_sites}.example/section/article-{page}.html"


class Links:
    """The links of one visit after the other: three of four to pages that were not linked yet."""

    def __init__(self, n_sites: int) -> None:
        self._rng, self._n_sites = random.Random(1), n_sites
        self._next = [site + n_sites for site in range(n_sites)]

    def of(self, url: str) -> list[str]:
        rng, n_sites = self._rng, self._n_sites
        own = int(url.partition("site")[2].partition(".")[0])
        found = []
        for at in range(N_LINKS):
            site = own if at < N_OWN else rng.randrange(n_sites)
            page = self._next[site]
            if rng.random() < 0.25:
                page = site + n_sites * rng.randrange(page // n_sites)
            else:
                self._next[site] += n_sites
            found.append(url_of(page, n_sites))
        return found


class Worker:
    """A worker of the brain that makes up its fetches."""

    def __init__(self, server: RedisServer, settings: dict[str, Any], links: Links) -> None:
        from scrapy.settings import Settings

        from crawlprio.plugins.shared.joining import scope_of, values_of
        from crawlprio.plugins.shared.mailbox import Mailbox
        from crawlprio.plugins.shared.post import Carrier, HandPost

        self._links = links
        self._calls: queue.SimpleQueue[tuple[Callable[..., object], Any]] = queue.SimpleQueue()
        self.n_visits = 0
        self._leased: list[Any] = []
        self._listed: list[Any] = []
        self.carrier = Carrier(
            lambda: Mailbox(server.client(), CRAWL),
            "worker",
            lambda action, *arguments: self._calls.put((action, arguments)),
            self._fail,
        )
        self.post = HandPost(
            self.carrier,
            0,
            60.0,
            has=lambda: (AT_ONCE, self._listed, []),
            heard=self._heard,
        )
        self.carrier.begin()
        self.post.say([["hello", values_of(Settings(settings)), scope_of(None)]])

    def _fail(self, error: Exception) -> None:
        raise error

    def _heard(self, statements: list[Any]) -> None:
        for statement in statements:
            assert statement[0] != "refuse", statement
            if statement[0] == "lease":
                self._leased.append(statement)
                handout, (page, number, _) = statement[1], statement[3]
                self._listed.append([handout[0], page, number, 0])

    def seed(self, urls: list[str]) -> None:
        self.post.say([["add_seeds", urls]])

    def visit(self, n_visits: int) -> None:
        """Visit pages until there were so many."""
        from crawlprio.frontier.protocol import PageVisit
        from crawlprio.items import LinkPairs
        from crawlprio.plugins.shared.messages import visit_row

        while self.n_visits < n_visits:
            action, arguments = self._calls.get()
            action(*arguments)
            said: list[Any] = []
            for _, handout, _, key in self._leased:
                lease, url, site = handout[0], handout[1], key[2]
                pairs = LinkPairs(url, self._links.of(url), status=200)
                ended = {"elapsed": 0.1, "status": 200, "retry_after": None, "n_bytes": 9000}
                said += [
                    ["clock", "started", [site], {"was_handed_out": True}],
                    ["clock", "ended", [site], {"was_handed_out": True, **ended}],
                    ["observe", lease, visit_row(PageVisit(pairs, False, 1.7e9, 0.1))],
                ]
            self.n_visits += len(self._leased)
            self._leased.clear()
            if said:
                self.post.say(said)
                self._listed.clear()

    def leave(self) -> None:
        self.post.say([["bye"]])
        assert self.carrier.close(30.0)


def measured(
    client: Redis, n_visits: int, visit: Callable[[int], object], own: Callable[[], float]
) -> Cost:
    """Visit pages in parts; return what that cost."""
    before, own_before, started, memory = used(client), own(), perf_counter(), []
    for part in range(1, N_PARTS + 1):
        visit(part * n_visits // N_PARTS)
        memory.append(int(client.info("memory")["used_memory"]))
    return Cost(perf_counter() - started, used(client) - before, own() - own_before, memory)


def crawlprio(n_visits: int, n_sites: int) -> Cost:
    with (
        fresh_server() as server,
        server.client() as client,
        tempfile.TemporaryDirectory() as folder,
    ):
        settings = {
            "ADDONS": {"crawlprio.Addon": 500},
            "CRAWLPRIO_FRONTIER": "redis",
            "REDIS_URL": server.url,
            "CRAWLPRIO_REDIS_CRAWL": CRAWL,
            "CRAWLPRIO_COMPILE": True,
            "CONCURRENT_REQUESTS_PER_DOMAIN": 8,
            "DOWNLOAD_DELAY": 0,
            "ROBOTSTXT_OBEY": False,
            "LOG_LEVEL": "WARNING",
        }
        with brain_of(Path(folder), CRAWL, settings) as brain:
            worker = Worker(server, settings, Links(n_sites))
            worker.seed([url_of(site, n_sites) for site in range(n_sites)])
            worker.visit(200)
            cost = measured(
                client, n_visits, lambda n: worker.visit(200 + n), lambda: spent(brain.pid)
            )
            worker.leave()
        return cost


def scrapy_redis(n_visits: int, n_sites: int) -> Cost:
    from scrapy import Request, Spider
    from scrapy.utils.test import get_crawler
    from scrapy_redis.scheduler import Scheduler

    with fresh_server() as server, server.client() as client:
        settings = {
            "REDIS_URL": server.url,
            "SCHEDULER_PERSIST": True,
            "DUPEFILTER_CLASS": "scrapy_redis.dupefilter.RFPDupeFilter",
        }
        crawler = get_crawler(Spider, settings)
        crawler.spider = Spider.from_crawler(crawler, name=CRAWL)
        scheduler, links, n_done = Scheduler.from_crawler(crawler), Links(n_sites), 0
        scheduler.open(crawler.spider)
        for site in range(n_sites):
            scheduler.enqueue_request(Request(url_of(site, n_sites)))

        def visit(n: int) -> None:
            nonlocal n_done
            while n_done < n:
                for url in links.of(scheduler.next_request().url):
                    scheduler.enqueue_request(Request(url))
                n_done += 1

        return measured(client, n_visits, visit, process_time)


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--sites", type=int, default=500, help="default %(default)s")
    parser.add_argument("--visits", type=int, default=20_000, help="default %(default)s")
    parser.add_argument("--rounds", type=int, default=3, help="default %(default)s")
    given = parser.parse_args()
    done = subprocess.run(["redis-server", "--version"], capture_output=True, text=True, check=True)
    print(done.stdout.strip(), f"redis-py {version('redis')}")
    contenders: dict[str, Callable[[int, int], Cost]] = {"crawlprio": crawlprio}
    if find_spec("scrapy_redis"):
        print(f"scrapy-redis {version('scrapy-redis')}")
        contenders["scrapy-redis"] = scrapy_redis
    rates: dict[str, list[float]] = {name: [] for name in contenders}
    for _ in range(given.rounds):
        for name, run in contenders.items():
            cost = run(given.visits, given.sites)
            rates[name].append(given.visits / cost.seconds)
            memory = ", ".join(f"{n_bytes / 1e6:.1f}" for n_bytes in cost.memory)
            print(
                f"  {name:12} {rates[name][-1]:7,.0f} visits/s; a visit "
                f"{1e6 * cost.server_seconds / given.visits:5.1f} us of Redis, "
                f"{1e6 * cost.own_seconds / given.visits:5.0f} us of the brain or scheduler; "
                f"Redis has {memory} MB",
                flush=True,
            )
    if len(rates) == 2:
        ratios = [ours / theirs for ours, theirs in zip(*rates.values(), strict=True)]
        print(f"  crawlprio to scrapy-redis: {statistics.median(ratios):.1f} times the visits/s")


if __name__ == "__main__":
    main()
