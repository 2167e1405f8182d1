"""A frontier in Redis compared with scrapy-redis: links, memory, leases and whole crawls.

    python benchmarks/redis_frontier.py [--only links bound pops crawls] [--rounds 3]

Each measurement starts its own `redis-server` and runs all contenders in turn.

links   Visits of 20 links each, 14 to the page's own site and 6 to random sites: first visits
        whose links are all new, then as many whose links are all known. crawlprio is the frontier
        of a worker with 32 fetches at once, OPIC and no delay: it leases pages ahead and observes
        visits as the dispatcher does, and its thread sends the calls in batches, with and without
        recording visits for the crawl store. scrapy-redis is its scheduler, dupefilter and
        priority queue, called once per link, as Scrapy calls a scheduler; its requests are made
        before the clock starts. It records nothing.
memory  After the new links, without the memory of the scripts, which is the same for any crawl.
bound   A script that only runs the commands that known links take.
pops    Leasing two pages from each of many sites, 16 at a time, and ending the leases.
crawls  The whole engine on the synthetic web of `engine.py`: a local frontier, one worker with a
        frontier in Redis, two at once, and stock Scrapy with the scheduler of scrapy-redis.

Not shown: delays, and a network between worker and server, for which scrapy-redis waits at every
link. The server's CPU time is as it reports it.
"""

from __future__ import annotations

import argparse
import json
import queue
import random
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import replace
from importlib.metadata import version
from importlib.util import find_spec
from pathlib import Path
from time import perf_counter
from typing import Any, NamedTuple

from harness import Crawl, Figures, our_crawl, run, stock_crawl
from redis import Redis

sys.path.extend(str(Path(__file__).resolve().parents[1] / "tests" / name) for name in ("", "kit"))

from redis_servers import RedisServer

N_LINKS, N_OWN = 20, 14
Links = Sequence[str]


class Cost(NamedTuple):
    """The cost of a phase: wall time and CPU time of the server, in seconds."""

    seconds: float
    server_seconds: float


class Taken(NamedTuple):
    """The cost of new and of known links, and the memory per known page."""

    new: Cost
    known: Cost
    bytes_a_page: float


@contextmanager
def fresh_server() -> Iterator[RedisServer]:
    """Run a new server without persistence."""
    with tempfile.TemporaryDirectory() as folder:
        server = RedisServer(Path(folder))
        server.start()
        try:
            yield server
        finally:
            server.kill()


def used(client: Redis) -> float:
    """Return the CPU time that the server has used so far, in seconds."""
    facts = client.info("cpu")
    return float(facts["used_cpu_user"] + facts["used_cpu_sys"])


def cost_of(client: Redis, work: Callable[[], object]) -> Cost:
    before, started = used(client), perf_counter()
    work()
    return Cost(perf_counter() - started, used(client) - before)


# Links


def url_of(page: int, n_sites: int) -> str:
    return f"https://www.site{page % n_sites}.example/section/article-{page}.html"


def visits(n_visits: int, n_sites: int) -> tuple[list[Links], list[Links]]:
    """Return the links of visits to new pages, and of as many visits to known pages."""
    rng = random.Random(1)
    next_page = [site + n_sites for site in range(n_sites)]
    new: list[Links] = []
    for at in range(n_visits):
        sites = [at % n_sites] * N_OWN
        sites += [rng.randrange(n_sites) for _ in range(N_LINKS - N_OWN)]
        pages = []
        for site in sites:
            pages.append(next_page[site])
            next_page[site] += n_sites
        new.append([url_of(page, n_sites) for page in pages])
    known: list[Links] = []
    for at in range(n_visits):
        pages = []
        while len(pages) < N_LINKS:
            site = at % n_sites if len(pages) < N_OWN else rng.randrange(n_sites)
            page = site + n_sites * rng.randrange(1, next_page[site] // n_sites)
            if page not in pages:
                pages.append(page)
        known.append([url_of(page, n_sites) for page in pages])
    return new, known


class Worker:
    """A worker's frontier, and its event loop: lease, observe, receive answers."""

    def __init__(self, server: RedisServer, *, records: bool = False) -> None:
        from scrapy.utils.test import get_crawler

        from crawlprio.live.requests import Identities
        from crawlprio.plugins.redis.connection import open_crawl
        from crawlprio.plugins.redis.frontier import RedisFrontier
        from crawlprio.plugins.redis.rules import rules_of
        from crawlprio.plugins.redis.shards import prefix_of
        from crawlprio.settings_table.config import CrawlConfig

        settings = {
            "ORDERING": "opic",
            "DOWNLOAD_DELAY": 0,
            "CONCURRENT_REQUESTS": 32,
            "CONCURRENT_REQUESTS_PER_DOMAIN": 8,
            "CRAWLPRIO_MAX_PAGES_PER_PATTERN": None,
            "CRAWLPRIO_STORE": None,
        }
        crawler = get_crawler(settings_dict=settings)
        config = CrawlConfig.from_settings(crawler.settings)
        rules = rules_of(config.ordering, config.ordering_name)
        self._answers: queue.SimpleQueue[Callable[[], object]] = queue.SimpleQueue()
        self.prefix = prefix_of("benchmark")
        client = server.client()
        shards = open_crawl(
            client, self.prefix, config, rules, lease_seconds=600.0, records=records
        )
        self.frontier = RedisFrontier(
            client,
            shards,
            config,
            rules,
            lease_seconds=600.0,
            call_from_thread=self._answers.put,
            identity_of=Identities(crawler).of_url,
            records=records,
            on_failure=self._fail,
        )

    def _fail(self, error: Exception) -> None:
        raise error

    def seed(self, urls: Links) -> None:
        """Queue seeds, a thousand at a time."""
        for at in range(0, max(len(urls), 1), 1000):
            self.frontier.add_seeds(urls[at : at + 1000])
            self.settle()

    def settle(self) -> None:
        while self.frontier._n_pending:
            self._answers.get()()

    def leased(self) -> Any:
        """Wait for the next page."""
        while (handout := self.frontier.next_page(0.0)) is None:
            self._answers.get()()
        return handout

    def observe(self, given: Sequence[Links]) -> None:
        """Visit one page per list of links."""
        from crawlprio.frontier.protocol import PageVisit
        from crawlprio.items import LinkPairs

        for links in given:
            handout = self.leased()
            pairs = LinkPairs(handout.url, list(links))
            self.frontier.observe(handout.lease, PageVisit(pairs, fetched_at=1.7e9, elapsed=0.1))
        self.settle()

    def close(self) -> None:
        self.settle()
        self.frontier.close()


def ours(new: list[Links], known: list[Links], n_sites: int, *, records: bool) -> Taken:
    from crawlprio.plugins.redis.counts import read_counts

    with fresh_server() as server, server.client() as client:
        worker = Worker(server, records=records)
        worker.seed([])  # loads the scripts
        before = client.info("memory")["used_memory"]
        worker.seed([url_of(site, n_sites) for site in range(n_sites)])
        for_new = cost_of(client, lambda: worker.observe(new))
        n_bytes = client.info("memory")["used_memory"] - before
        n_pages = read_counts(client, worker.prefix)["pages"]
        for_known = cost_of(client, lambda: worker.observe(known))
        assert read_counts(client, worker.prefix)["pages"] == n_pages
        worker.close()
    return Taken(for_new, for_known, n_bytes / n_pages)


def scrapy_redis(new: list[Links], known: list[Links], n_sites: int) -> Taken:
    from scrapy import Request, Spider
    from scrapy.utils.test import get_crawler
    from scrapy_redis.scheduler import Scheduler

    with fresh_server() as server, server.client() as client:
        before = client.info("memory")["used_memory"]
        settings = {
            "REDIS_URL": server.url,
            "SCHEDULER_PERSIST": True,
            "DUPEFILTER_CLASS": "scrapy_redis.dupefilter.RFPDupeFilter",
        }
        crawler = get_crawler(Spider, settings)
        spider = Spider.from_crawler(crawler, name="benchmark")
        crawler.spider = spider
        scheduler = Scheduler.from_crawler(crawler)
        scheduler.open(spider)
        for site in range(n_sites):
            scheduler.enqueue_request(Request(url_of(site, n_sites)))

        def observe(given: list[list[Request]]) -> None:
            for requests in given:
                assert scheduler.next_request() is not None
                for request in requests:
                    scheduler.enqueue_request(request)

        made = [[Request(url) for url in links] for links in new]
        for_new = cost_of(client, lambda: observe(made))
        n_bytes = client.info("memory")["used_memory"] - before
        n_pages = int(client.scard("benchmark:dupefilter"))
        made = [[Request(url) for url in links] for links in known]
        for_known = cost_of(client, lambda: observe(made))
        assert client.scard("benchmark:dupefilter") == n_pages
    return Taken(for_new, for_known, n_bytes / n_pages)


def compare_links(given: argparse.Namespace) -> None:
    new, known = visits(given.visits, given.sites)
    n_links = given.visits * N_LINKS
    contenders: dict[str, Callable[[], Taken]] = {
        "crawlprio": lambda: ours(new, known, given.sites, records=False),
        "crawlprio, recorded": lambda: ours(new, known, given.sites, records=True),
    }
    if find_spec("scrapy_redis"):
        contenders[PEER] = lambda: scrapy_redis(new, known, given.sites)
    print(f"links: {given.visits:,} visits of {N_LINKS} links, {given.sites:,} sites, twice")
    runs: dict[str, list[Taken]] = {name: [] for name in contenders}
    for _ in range(given.rounds):
        for name, work in contenders.items():
            runs[name].append(work())
            new_cost, known_cost, n_bytes = runs[name][-1]
            print(
                f"  {name:20} new {rate(n_links, new_cost)}, known {rate(n_links, known_cost)}, "
                f"{n_bytes:4.0f} bytes a page",
                flush=True,
            )
    for name in contenders:
        if name == PEER or PEER not in runs:
            continue
        pairs = list(zip(runs[name], runs[PEER], strict=True))
        faster = [
            statistics.median(peer[at].seconds / own[at].seconds for own, peer in pairs)
            for at in (0, 1)
        ]
        cheaper = [
            statistics.median(
                own[at].server_seconds / peer[at].server_seconds for own, peer in pairs
            )
            for at in (0, 1)
        ]
        memory = statistics.median(own.bytes_a_page / peer.bytes_a_page for own, peer in pairs)
        print(
            f"  {name} to {PEER}: {faster[0]:.1f} times the new links/s and {faster[1]:.1f} times "
            f"the known; {cheaper[0]:.2f} and {cheaper[1]:.2f} of the server's time; "
            f"{memory:.2f} of its memory a page",
            flush=True,
        )


def rate(n_links: int, cost: Cost) -> str:
    server = 1e6 * cost.server_seconds / n_links
    return f"{n_links / cost.seconds:7,.0f}/s ({server:4.1f} us of Redis)"


# Bound

_BARE = """
local P, call = KEYS[1], redis.call
local links, sites, queues = cjson.decode(ARGV[1]), cjson.decode(ARGV[2]), cjson.decode(ARGV[3])
call('MGET', unpack(links.buckets))
for at, key in ipairs(links.blocks) do
  call('GETRANGE', key, links.places[at], links.places[at] + 20)
  call('SETRANGE', key, links.places[at], ARGV[4])
end
local found, changed = call('HMGET', P .. ':sites', unpack(sites)), {}
for at, site in ipairs(sites) do
  changed[2 * at - 1], changed[2 * at] = site, found[at]
  call('ZADD', P .. ':w:' .. site, unpack(queues[at]))
end
call('HSET', P .. ':sites', unpack(changed))
"""


def measure_bound(given: argparse.Namespace) -> None:
    """Measure the commands that a visit with known links takes, without any logic."""
    rng, n_pages = random.Random(1), 25 * given.sites
    with fresh_server() as server, server.client() as client:
        for block in range(n_pages // 24 + 1):
            client.set(f"b:p:{block}", b"x" * 504)
            client.set(f"b:i:{block}", b"x" * 224)
        for site in range(given.sites):
            client.hset("b:sites", str(site), "x" * 130)
            client.zadd(f"b:w:{site}", {f"{page:04}": rng.random() for page in range(25)})
        sha = client.script_load(_BARE)
        calls = []
        for at in range(given.visits):
            on_site = [at % given.sites] * N_OWN
            on_site += [rng.randrange(given.sites) for _ in range(N_LINKS - N_OWN)]
            blocks = [rng.randrange(n_pages // 24) for _ in on_site]
            links = {
                "buckets": [f"b:i:{block}" for block in blocks],
                "blocks": [f"b:p:{block}" for block in blocks],
                "places": [21 * rng.randrange(24) for _ in blocks],
            }
            sites = sorted(set(on_site))
            queues = [
                [
                    part
                    for _ in range(on_site.count(site))
                    for part in (rng.random(), f"{at % 25:04}")
                ]
                for site in sites
            ]
            calls.append([json.dumps(each) for each in (links, list(map(str, sites)), queues)])

        def work() -> None:
            for at in range(0, len(calls), 16):
                pipeline = client.pipeline(transaction=False)
                for call in calls[at : at + 16]:
                    pipeline.evalsha(sha, 1, "b", *call, "x" * 21)
                pipeline.execute()

        cost = cost_of(client, work)
    print(f"bound: a bare script with the commands of a known link: {rate(len(calls) * 20, cost)}")


# Pops


def measure_pops(given: argparse.Namespace) -> None:
    print("pops: 2 pages a site, 16 leased in a round trip; us of Redis a page, and in all")
    for n_sites in given.pop_sites:
        with fresh_server() as server, server.client() as client:
            worker = Worker(server)
            urls = [url_of(page, n_sites) for page in range(2 * n_sites)]
            filled = cost_of(client, lambda: worker.seed(urls))  # noqa: B023
            n_bytes = client.info("memory")["used_memory"]
            n_pops = min(given.pops, n_sites)
            leased: list[Any] = []
            popped = cost_of(
                client,
                lambda: leased.extend(worker.leased() for _ in range(n_pops)),  # noqa: B023
            )
            ended = cost_of(client, lambda: end_all(worker, leased))  # noqa: B023
            worker.close()
        print(
            f"  {n_sites:9,} sites: lease {1e6 * popped.server_seconds / n_pops:5.1f} us of Redis "
            f"({1e6 * popped.seconds / n_pops:5.1f} us), visit without links "
            f"{1e6 * ended.server_seconds / n_pops:5.1f} ({1e6 * ended.seconds / n_pops:5.1f}); "
            f"{n_bytes / (2 * n_sites):5.0f} bytes a page with its share of a site; "
            f"filled at {2 * n_sites / filled.seconds:,.0f} pages/s",
            flush=True,
        )


def end_all(worker: Worker, leased: list[Any]) -> None:
    from crawlprio.frontier.protocol import PageVisit
    from crawlprio.items import LinkPairs

    for handout in leased:
        worker.frontier.observe(handout.lease, PageVisit(LinkPairs(handout.url, [])))
    worker.settle()


# Crawls


def worker_crawl(crawl: Crawl, url: str, label: str, **settings: Any) -> Crawl:
    """Return the same crawl with its frontier in Redis."""
    shared = {"REDIS_URL": url, "SCHEDULER_PERSIST": True, **settings}
    return replace(crawl, label=label, settings={**crawl.settings, **shared})


def crawl_at_once(crawls: Sequence[Crawl]) -> tuple[list[Figures], float]:
    """Run crawls at the same time on one server; return their figures and its CPU time."""
    with fresh_server() as server, server.client() as client:
        given = [
            replace(crawl, settings={**crawl.settings, "REDIS_URL": server.url}) for crawl in crawls
        ]
        with ThreadPoolExecutor() as pool:
            figures = list(pool.map(run, given))
        return figures, used(client)


def compare_crawls(given: argparse.Namespace) -> None:
    n_pages, n_sites = given.pages, given.sites
    local = our_crawl(n_pages, n_sites, "one process", ORDERING="opic")
    one = worker_crawl(local, "", "1 worker", CRAWLPRIO_FRONTIER="redis")
    contenders = {"one process": [local], "1 worker": [one], "2 workers": [one, one]}
    if find_spec("scrapy_redis"):
        parts = {
            "SCHEDULER": "scrapy_redis.scheduler.Scheduler",
            "DUPEFILTER_CLASS": "scrapy_redis.dupefilter.RFPDupeFilter",
        }
        contenders[PEER] = [worker_crawl(stock_crawl(n_pages, n_sites), "", PEER, **parts)]
    for crawls in contenders.values():
        run_short = [replace(crawl, n_pages=100) for crawl in crawls[:1]]
        crawl_at_once(run_short)
    print(f"crawls: {n_pages:,} pages a worker on {n_sites:,} sites, without a network")
    rates: dict[str, list[float]] = {name: [] for name in contenders}
    for _ in range(given.rounds):
        for name, crawls in contenders.items():
            figures, server_seconds = crawl_at_once(crawls)
            rates[name].append(sum(one_of.rate for one_of in figures))
            own = sum(one_of.cpu_seconds for one_of in figures) / len(figures) / n_pages
            server = server_seconds / len(figures) / n_pages
            print(
                f"  {name:20} {rates[name][-1]:7,.0f} pages/s; a page {1e6 * own:5.0f} us of its "
                f"worker and {1e6 * server:4.0f} us of Redis",
                flush=True,
            )
    for name, base in (("1 worker", "one process"), ("2 workers", "1 worker"), ("1 worker", PEER)):
        if base in rates:
            ratio = statistics.median(a / b for a, b in zip(rates[name], rates[base], strict=True))
            print(f"  {name} to {base}: {ratio:.2f}")


PEER = "scrapy-redis"


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parts = {
        "links": compare_links,
        "bound": measure_bound,
        "pops": measure_pops,
        "crawls": compare_crawls,
    }
    parser.add_argument("--only", nargs="+", choices=parts, default=list(parts))
    parser.add_argument("--sites", type=int, default=500, help="default %(default)s")
    parser.add_argument("--visits", type=int, default=2000, help="default %(default)s")
    parser.add_argument(
        "--pop-sites", type=int, nargs="+", default=[1000, 10_000, 100_000, 1_000_000]
    )
    parser.add_argument("--pops", type=int, default=4000, help="at most; default %(default)s")
    parser.add_argument("--pages", type=int, default=1500, help="default %(default)s")
    parser.add_argument("--rounds", type=int, default=3, help="default %(default)s")
    given = parser.parse_args()
    done = subprocess.run(["redis-server", "--version"], capture_output=True, text=True, check=True)
    print(done.stdout.strip())
    if find_spec("scrapy_redis"):
        print(f"{PEER} {version('scrapy-redis')}, redis-py {version('redis')}")
    else:
        print(f"{PEER} is not installed, and not measured.")
    for name in given.only:
        parts[name](given)


if __name__ == "__main__":
    main()
