"""A coordinator behind Redis compared with scrapy-redis: visits/s, and what they cost the server.

    python benchmarks/redis_frontier.py [--visits 20000] [--rounds 3] [--new 15] [--apart]

A visit has 20 links, 14 to the page's own site and 6 to random ones, `--new` of them to pages that
were not linked yet. The worker sends the visits of up to 64 pages in one message, or `--apart` each
in its own. Each measurement starts its own `redis-server` with `appendonly yes`, and the contenders
take turns. The coordinator is measured once it runs compiled code.

in process    The floor of the coordinator: its frontier and store alone, in one process, 64 visits
              a transaction.
crawlprio     A coordinator in a process of its own, as `CRAWLPRIO_COORDINATOR=only`
              starts it, with the default ordering and its store. This process is its one worker,
              with the real channel, but makes up what it fetches: the figures are those of
              coordinator, streams and server.
scrapy-redis  Its scheduler, dupefilter and priority queue, called once for each link, as Scrapy
              calls a scheduler. It orders by priority only, and records nothing.

Printed are visits/s, processor time a visit of the server and of the coordinator or the scheduler,
and the memory that the server uses after each fifth of the visits. Not shown: fetching and parsing,
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
from functools import partial
from importlib.metadata import version
from importlib.util import find_spec
from pathlib import Path
from time import monotonic, perf_counter, process_time, sleep
from typing import Any, NamedTuple

from redis import Redis

sys.path.extend(str(Path(__file__).resolve().parents[1] / "tests" / name) for name in ("", "kit"))

from redis_servers import RedisServer
from shared_crawls import coordinator_of
from workers import spent

N_LINKS, N_OWN, N_PARTS, WARM_UP = 20, 14, 5, 600
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
    """The links of one visit after the other, `n_new` of 20 to pages that were not linked yet."""

    def __init__(self, n_sites: int, n_new: int) -> None:
        self._rng, self._n_sites = random.Random(1), n_sites
        self._share_known = 1 - n_new / N_LINKS
        self._next = [site + n_sites for site in range(n_sites)]

    def of(self, url: str) -> list[str]:
        rng, n_sites = self._rng, self._n_sites
        own = int(url.partition("site")[2].partition(".")[0])
        found = []
        for at in range(N_LINKS):
            site = own if at < N_OWN else rng.randrange(n_sites)
            page = self._next[site]
            if rng.random() < self._share_known:
                page = site + n_sites * rng.randrange(page // n_sites)
            else:
                self._next[site] += n_sites
            found.append(url_of(page, n_sites))
        return found


class Worker:
    """A worker of the coordinator that makes up its fetches, and sends each visit `apart`."""

    def __init__(
        self, server: RedisServer, settings: dict[str, Any], links: Links, *, apart: bool
    ) -> None:
        from scrapy.settings import Settings

        from crawlprio.plugins.shared.channels import RedisTransport, WorkerChannel
        from crawlprio.plugins.shared.handshake import scope_of, values_of
        from crawlprio.plugins.shared.messages import from_coordinator
        from crawlprio.plugins.shared.redis_streams import RedisStreams

        self._links, self._apart = links, apart
        self._calls: queue.SimpleQueue[tuple[Callable[..., object], Any]] = queue.SimpleQueue()
        self.n_visits = 0
        self._leased: list[Any] = []
        self._listed: list[Any] = []
        self.transport = RedisTransport(
            lambda: RedisStreams(server.client(), CRAWL),
            "worker",
            self._fail,
            lambda action, *arguments: self._calls.put((action, arguments)),
        )
        self.channel = WorkerChannel(
            self.transport,
            60.0,
            from_coordinator(lambda data: True),
            has=lambda: (AT_ONCE, self._listed, []),
            arrived=self._heard,
        )
        self.transport.begin()
        self.channel.say([["hello", values_of(Settings(settings)), scope_of(None)]])

    def _fail(self, error: Exception) -> None:
        raise error

    def _heard(self, statements: list[Any]) -> None:
        for statement in statements:
            assert statement[0] != "refuse", statement
            if statement[0] == "lease":
                self._leased.append(statement)
                leased_page, (page, number, _) = statement[1], statement[3]
                self._listed.append([leased_page.lease, page, number, 0])

    def seed(self, urls: list[str]) -> None:
        self.channel.say([["add_seeds", urls]])

    def visit(self, n_visits: int) -> None:
        """Visit pages until there were so many."""
        from crawlprio.frontier.protocol import PageVisit
        from crawlprio.items import LinkPairs
        from crawlprio.plugins.shared.messages import visit_row

        while self.n_visits < n_visits:
            action, arguments = self._calls.get()
            action(*arguments)
            leased, self._leased = self._leased, []
            said: list[Any] = []
            for _, leased_page, _, key in leased:
                lease, url, site = leased_page.lease, leased_page.url, key[2]
                pairs = LinkPairs(url, self._links.of(url), status=200)
                said += [
                    ["begun", lease],
                    ["started", site, True],
                    ["ended", site, [True, 0.1, 200, 9000, None]],
                    ["observe", lease, visit_row(PageVisit(pairs, False, 1.7e9, 0.1))],
                ]
                if self._apart:
                    self._say(said, {lease})
                    said = []
            self.n_visits += len(leased)
            if said:
                self._say(said, {row[1].lease for row in leased})

    def _say(self, statements: list[Any], ended: set[int]) -> None:
        """Send statements, after which leases have ended."""
        self.channel.say(statements)
        self._listed[:] = [row for row in self._listed if row[0] not in ended]

    def leave(self) -> None:
        self.channel.say([["bye"]])
        assert self.transport.close(30.0)


def measured(
    client: Redis, n_visits: int, visit: Callable[[int], object], own: Callable[[], float]
) -> Cost:
    """Visit pages in parts; return what that cost."""
    before, own_before, started, memory = used(client), own(), perf_counter(), []
    for part in range(1, N_PARTS + 1):
        visit(part * n_visits // N_PARTS)
        memory.append(int(client.info("memory")["used_memory"]))
    return Cost(perf_counter() - started, used(client) - before, own() - own_before, memory)


def is_compiled(pid: int) -> bool:
    """Return whether a process has loaded the compiler, which a crawl does to use its code."""
    return "llvmlite" in Path(f"/proc/{pid}/maps").read_text()


def is_idle(pid: int) -> bool:
    """Return whether a process does nothing for a while, as once its code is loaded."""
    before = spent(pid)
    sleep(0.3)
    return spent(pid) - before <= 0.02


def crawlprio(n_visits: int, n_sites: int, n_new: int, *, apart: bool) -> Cost:
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
        with coordinator_of(Path(folder), CRAWL, settings) as coordinator:
            worker = Worker(server, settings, Links(n_sites, n_new), apart=apart)
            worker.seed([url_of(site, n_sites) for site in range(n_sites)])
            worker.visit(WARM_UP)
            while not (is_compiled(coordinator.pid) and is_idle(coordinator.pid)):
                worker.visit(worker.n_visits + 1)
            worker.visit(worker.n_visits + WARM_UP)
            n_before = worker.n_visits
            cost = measured(
                client,
                n_visits,
                lambda n: worker.visit(n_before + n),
                lambda: spent(coordinator.pid),
            )
            worker.leave()
        return cost


def in_process(n_visits: int, n_sites: int, n_new: int) -> float:
    """Return the processor time of such visits in one process, without making them up."""
    from scrapy.utils.test import get_crawler

    from crawlprio.frontier.protocol import PageVisit
    from crawlprio.items import LinkPairs
    from crawlprio.live.compiling import compile_crawl
    from crawlprio.live.local_frontier import LocalFrontier
    from crawlprio.live.recorder import Recorder
    from crawlprio.live.requests import Identities
    from crawlprio.settings_table.config import CrawlConfig

    with tempfile.TemporaryDirectory() as folder:
        settings = {
            "CRAWLPRIO_STORE": str(Path(folder) / "crawl.sqlite"),
            "CONCURRENT_REQUESTS": AT_ONCE,
            "CONCURRENT_REQUESTS_PER_DOMAIN": 8,
            "DOWNLOAD_DELAY": 0,
        }
        crawler = get_crawler(settings_dict=settings)
        config = CrawlConfig.from_settings(crawler.settings)
        compile_crawl(config.ordering)
        recorder, links = Recorder(config, Identities(crawler)), Links(n_sites, n_new)
        frontier = LocalFrontier(config, recorder, call_soon=lambda commit: None)
        recorder.open()
        assert recorder.store is not None
        frontier.add_seeds([url_of(site, n_sites) for site in range(n_sites)])
        seconds = [0.0]
        while len(seconds) <= (2 * WARM_UP + n_visits) // AT_ONCE:
            begun = process_time()
            leased = [frontier.next_page(monotonic()) for _ in range(AT_ONCE)]
            taken = process_time() - begun
            pairs = [LinkPairs(page.url, links.of(page.url), status=200) for page in leased if page]
            begun = process_time()
            with recorder.store.together(lambda: {}):
                for page, found in zip(leased, pairs, strict=True):
                    assert page is not None
                    frontier.observe(page.lease, PageVisit(found, False, 1.7e9, 0.1))
                recorder.flush()
            seconds.append(taken + process_time() - begun)
        recorder.close()
        measured = seconds[2 * WARM_UP // AT_ONCE :]
        return sum(measured) * n_visits / (len(measured) * AT_ONCE)


def scrapy_redis(n_visits: int, n_sites: int, n_new: int) -> Cost:
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
        scheduler, links, n_done = Scheduler.from_crawler(crawler), Links(n_sites, n_new), 0
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
    parser.add_argument("--new", type=int, default=15, help="of 20 links; default %(default)s")
    parser.add_argument("--apart", action="store_true", help="send each visit in its own message")
    given = parser.parse_args()
    n_visits, web = given.visits, (given.visits, given.sites, given.new)
    done = subprocess.run(["redis-server", "--version"], capture_output=True, text=True, check=True)
    print(done.stdout.strip(), f"redis-py {version('redis')}")
    contenders: dict[str, Callable[..., Cost]] = {
        "crawlprio": partial(crawlprio, apart=given.apart)
    }
    if find_spec("scrapy_redis"):
        print(f"scrapy-redis {version('scrapy-redis')}")
        contenders["scrapy-redis"] = scrapy_redis
    rates: dict[str, list[float]] = {name: [] for name in contenders}
    for _ in range(given.rounds):
        floor = 1e6 * in_process(*web) / n_visits
        print(f"  in process   {floor:40.0f} us of frontier and store", flush=True)
        for name, run in contenders.items():
            cost = run(*web)
            rates[name].append(n_visits / cost.seconds)
            memory = ", ".join(f"{n_bytes / 1e6:.1f}" for n_bytes in cost.memory)
            own = 1e6 * cost.own_seconds / n_visits
            print(
                f"  {name:12} {rates[name][-1]:7,.0f} visits/s; a visit "
                f"{1e6 * cost.server_seconds / n_visits:5.1f} us of Redis, "
                f"{own:5.0f} us of the coordinator or scheduler, {own / floor:.2f} of the floor; "
                f"Redis has {memory} MB",
                flush=True,
            )
    if len(rates) == 2:
        ratios = [ours / theirs for ours, theirs in zip(*rates.values(), strict=True)]
        print(f"  crawlprio to scrapy-redis: {statistics.median(ratios):.1f} times the visits/s")


if __name__ == "__main__":
    main()
