"""How much order a crawl loses by its number of workers, fetches in flight and shards.

    python benchmarks/redis_order.py GRAPH [--seed URL|ID] [--fetches 10000] [--ordering NAME]...
        [--shards N]...

Crawls a link graph through real frontiers on a new `redis-server`. There is one frontier per
worker, all in this process; each has its share of the fetches in flight, and sites are spread over
`--shards` shards (default: 1). Whenever all fetches are in flight, a random one ends (`--random`).
If an ordering takes an elected worker, its thread runs too, and its lag is sampled every 100
visits. Figures: cumulative PageRank, averaged over the fetches and after the last one, next to
those of the simulator, which fetches one page at a time.

Not shown: time. Fetches take none, and the server, the workers and the elected worker share a core
or two, so pages leave as fast as Redis returns them. In a crawl limited by delays and the network,
the elected worker lags less.
"""

from __future__ import annotations

import argparse
import queue
import random
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from time import monotonic
from typing import Any, NamedTuple

import numpy as np

sys.path.extend(str(Path(__file__).resolve().parents[1] / "tests" / name) for name in ("", "kit"))

from redis_servers import RedisServer
from scrapy.utils.test import get_crawler

from crawlprio.frontier.protocol import Handout, PageVisit
from crawlprio.graph.linkgraph import LinkGraph
from crawlprio.items import LinkPairs
from crawlprio.measure.crawl_order import cumulative_pagerank, reachable
from crawlprio.orderings import make_ordering
from crawlprio.plugins.redis.connection import open_crawl
from crawlprio.plugins.redis.elected import Elected, ElectedThread
from crawlprio.plugins.redis.frontier import RedisFrontier
from crawlprio.plugins.redis.rules import rules_of
from crawlprio.plugins.redis.scripts import load_scripts
from crawlprio.plugins.redis.shards import prefix_of
from crawlprio.ranking.pagerank import pagerank
from crawlprio.settings_table.config import CrawlConfig
from crawlprio.simulator.timed import crawl_order
from crawlprio.store.graph_files import read_graph

SETUPS = ((1, 1), (1, 4), (1, 64), (4, 4), (4, 64))
"""Workers, and fetches in flight over all of them."""


class Figures(NamedTuple):
    """The order of a crawl, its pages per second, and the lag of the elected worker.

    `behind`: stream entries whose keys were not written, sampled every 100 visits.
    """

    order: list[int]
    pages_per_second: float
    behind: list[int]
    rebuilt: str


class Crawl:
    """A crawl of a graph by several workers in this process."""

    def __init__(
        self,
        server: RedisServer,
        graph: LinkGraph,
        ordering: str,
        n_workers: int,
        n_in_flight: int,
        rng: random.Random,
        n_shards: int = 1,
    ) -> None:
        self._graph = graph
        self._rng = rng
        self._n_in_flight = n_in_flight
        self._answers: queue.SimpleQueue[Callable[[], object]] = queue.SimpleQueue()
        self._client = server.client()
        self._prefix = prefix_of(f"{ordering} {n_workers} {n_in_flight}")
        each = n_in_flight // n_workers
        self._each = each
        self.workers = []
        for _ in range(n_workers):
            settings = {
                "ORDERING": ordering,
                "CONCURRENT_REQUESTS": each,
                "CONCURRENT_REQUESTS_PER_DOMAIN": 0,
                "DOWNLOAD_DELAY": 0,
                "CRAWLPRIO_MAX_PAGES_PER_SITE": None,
                "CRAWLPRIO_MAX_PAGES_PER_DOMAIN": None,
                "CRAWLPRIO_MAX_PAGES_PER_PATTERN": None,
                "CRAWLPRIO_STORE": None,
            }
            config = CrawlConfig.from_settings(get_crawler(settings_dict=settings).settings)
            rules = rules_of(config.ordering, ordering, n_shards=n_shards)
            self._config = config
            self._is_elected = rules.is_elected
            shared: dict[str, Any] = {"lease_seconds": 600.0, "records": rules.is_elected}
            shards = open_crawl(
                self._client, self._prefix, config, rules, n_shards=n_shards, **shared
            )
            self.workers.append(
                RedisFrontier(
                    server.client(),
                    shards,
                    config,
                    rules,
                    call_from_thread=self._answers.put,
                    awaits_keys=rules.is_elected and n_in_flight == 1,
                    **shared,
                )
            )
        self._thread = None
        if self._is_elected:
            load_scripts(self._client)
            self._thread = ElectedThread(
                Elected(server.client(), self._prefix, config, lease_seconds=600.0),
                call_from_thread=self._answers.put,
                on_keys_changed=lambda: [worker.keys_changed() for worker in self.workers],
                on_failure=_fail,
                poll_seconds=1.0,
            )
            self._thread.start()

    def run(self, seed: int, n_fetches: int) -> Figures:
        self.workers[0].add_seeds([self._url(seed)])
        in_flight: list[tuple[int, Handout]] = []
        of_worker = [0] * len(self.workers)
        order: list[int] = []
        behind: list[int] = []
        started = monotonic()
        while len(order) < n_fetches:
            self._take_answers()
            for at, worker in enumerate(self.workers):
                while of_worker[at] < self._each:
                    handout = worker.next_page(monotonic())
                    if handout is None:
                        break
                    in_flight.append((at, handout))
                    of_worker[at] += 1
            is_full = len(in_flight) == self._n_in_flight
            if not is_full and any(worker._n_pending for worker in self.workers):
                self._wait()
                continue
            if not in_flight:
                if not any(len(worker) for worker in self.workers):
                    break
                self._wait()
                continue
            at, handout = in_flight.pop(self._rng.randrange(len(in_flight)))
            of_worker[at] -= 1
            page = int(handout.url.rpartition("/")[2])
            order.append(page)
            links = [self._url(target) for target in self._graph.out_links(page).tolist()]
            self.workers[at].observe(handout.lease, PageVisit(LinkPairs(handout.url, links)))
            if self._is_elected and len(order) % 100 == 0:
                behind.append(self._n_behind())
        seconds = monotonic() - started
        for at, handout in in_flight:
            self.workers[at].put_back(handout.lease)
        if self._thread is not None:
            self._thread.stop()
        for worker in self.workers:
            worker.close()
        return Figures(order, len(order) / seconds, behind, self._rebuilt() if behind else "")

    def _rebuilt(self) -> str:
        """Return the size of the stream, and the time in which a successor replays it."""
        n_bytes = self._client.memory_usage(f"{self._prefix}:visits", samples=0)
        (last,) = self._client.xrevrange(f"{self._prefix}:visits", count=1)
        n_entries = int(last[1][b"n"])
        self._client.hset(f"{self._prefix}:elected", mapping={"until": 0, "read": n_entries})
        started = monotonic()
        other = Elected(self._client, self._prefix, self._config, lease_seconds=600.0)
        other.claim()
        while other.n_read < n_entries:
            other.step()
        seconds = monotonic() - started
        return (
            f"stream {n_bytes / n_entries:,.0f} bytes a visit; another worker learns from "
            f"{n_entries / seconds:,.0f} visits/s"
        )

    def _take_answers(self) -> None:
        while not self._answers.empty():
            self._answers.get()()

    def _wait(self) -> None:
        try:
            self._answers.get(timeout=0.05)()
        except queue.Empty:
            return

    def _n_behind(self) -> int:
        """Return the number of stream entries whose keys are not written yet."""
        read = int(self._client.hget(f"{self._prefix}:elected", "read") or 0)
        last = self._client.xrevrange(f"{self._prefix}:visits", count=1)
        return int(last[0][1][b"n"]) - read if last else 0

    def _url(self, page: int) -> str:
        return f"http://site{self._graph.site[page]}.example/{page}"


def _fail(error: Exception) -> None:
    raise error


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("graph", type=Path)
    parser.add_argument("--seed", default="0")
    parser.add_argument("--fetches", type=int, default=10_000)
    parser.add_argument("--ordering", action="append")
    parser.add_argument("--shards", type=int, action="append")
    parser.add_argument("--random", type=int, default=1)
    options = parser.parse_args()
    graph = read_graph(options.graph)
    seed = int(options.seed) if options.seed.isdecimal() else graph.find(options.seed)
    reached = reachable(graph, [seed])
    ranks = pagerank(graph.indptr, graph.indices)

    def row(name: str, order: Any) -> str:
        curve = cumulative_pagerank(np.asarray(order), ranks, reached)
        return f"{name:36} {curve.mean():8.4f} {curve[-1]:8.4f}"

    print(
        f"{options.graph.name}, {int(reached.sum()):,} pages reached, {options.fetches:,} fetches"
    )
    for ordering in options.ordering or ["opic", "sibling-sampling"]:
        print(f"\n{ordering:36} {'average':>8} {'at end':>8}   pages/s   behind: mean, most")
        simulated = crawl_order(graph, [seed], make_ordering(ordering), budget=options.fetches)
        print(row("simulator, one at a time", simulated))
        setups = [(*setup, n_shards) for n_shards in options.shards or [1] for setup in SETUPS]
        for n_workers, n_in_flight, n_shards in setups:
            with tempfile.TemporaryDirectory() as folder:
                server = RedisServer(Path(folder))
                server.start()
                try:
                    crawl = Crawl(
                        server,
                        graph,
                        ordering,
                        n_workers,
                        n_in_flight,
                        random.Random(options.random),
                        n_shards,
                    )
                    found = crawl.run(seed, options.fetches)
                finally:
                    server.kill()
            text = row(
                f"{n_workers} workers, {n_in_flight} in flight, {n_shards} shards", found.order
            )
            text += f" {found.pages_per_second:9.0f}"
            if found.behind:
                text += f"   {np.mean(found.behind):10.1f} {max(found.behind):5}"
            if n_in_flight == n_shards == 1:
                text += "   same order" if found.order == simulated.tolist() else "   OTHER ORDER"
            print(text, flush=True)
            if found.rebuilt:
                print(f"  {found.rebuilt}", flush=True)


if __name__ == "__main__":
    main()
