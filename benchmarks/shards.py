"""How much order a crawl loses by its number of shards.

    python benchmarks/shards.py GRAPH [--seed URL|ID] [--fetches 10000] [--ordering NAME]...
        [--shards N]... [--in-flight N]...

Crawls a link graph through the frontiers of several brains in this process, each with its share of
the sites, one page of a site at a time. Links to other shards reach them at once. The next page
comes from the shard whose best ready page ranks first; whenever all fetches are in flight, a random
one ends (`--random`). Figures: cumulative PageRank, averaged over the fetches and after the last
one, and the difference to one shard with as many in flight; and of the processor time, how much
messages take. GRAPH `web:PAGES:SITES` is a synthetic
web, with `--random` as its seed.

Not shown: time, and messages that are late. Fetches take none, and there are neither sockets nor
stores.
"""

from __future__ import annotations

import argparse
import random
import sys
from hashlib import blake2b
from pathlib import Path
from time import process_time
from typing import NamedTuple

import numpy as np
from scrapy.utils.test import get_crawler

from crawlprio.frontier.protocol import Handout, PageVisit
from crawlprio.graph.linkgraph import LinkGraph
from crawlprio.graph.synthetic import synthetic_web
from crawlprio.items import LinkPairs
from crawlprio.live.local_frontier import LocalFrontier
from crawlprio.live.recorder import Recorder
from crawlprio.live.requests import Identities
from crawlprio.live.workers import Shard
from crawlprio.measure.crawl_order import cumulative_pagerank, reachable
from crawlprio.ranking.pagerank import pagerank
from crawlprio.settings_table.config import CrawlConfig
from crawlprio.store.graph_files import read_graph


class Order(NamedTuple):
    """The pages fetched, in order, and the share of the processor time that messages took."""

    pages: list[int]
    messages: float


def shard_of(n: int, host: str) -> int:
    """Return the shard of a host."""
    return int.from_bytes(blake2b(host.encode(), digest_size=8).digest(), "big") % n


def frontier(ordering: str, shard: Shard) -> LocalFrontier:
    """Return the frontier of a brain."""
    settings = {
        **{"ORDERING": ordering, "CRAWLPRIO_STORE": None, "DOWNLOAD_DELAY": 0},
        **{"CONCURRENT_REQUESTS": 64, "CONCURRENT_REQUESTS_PER_DOMAIN": 1},
    }
    crawler = get_crawler(settings_dict=settings)
    config = CrawlConfig.from_settings(crawler.settings)
    recorder = Recorder(config, Identities(crawler), shard=shard, bounds_patterns=False)
    found = LocalFrontier(config, recorder)
    found.queue.recompute = lambda work: found.queue.accept(work())
    found._shares = None  # one robot, as in the simulator
    return found


def crawl(
    graph: LinkGraph,
    urls: list[str],
    seeds: list[int],
    ordering: str,
    n_shards: int,
    n_in_flight: int,
    n_fetches: int,
    rng: random.Random,
) -> Order:
    """Crawl a graph; return the order."""
    hosts = [url.split("/", 3)[2] for url in urls]
    page_of = {url: page for page, url in enumerate(urls)}
    shards = [
        frontier(ordering, Shard(lambda host: shard_of(n_shards, host), number))
        for number in range(n_shards)
    ]
    for seed in seeds:
        shards[shard_of(n_shards, hosts[seed])].add_seeds([urls[seed]])
    order: list[int] = []
    flying: list[tuple[int, Handout]] = []
    begin, messages, now = process_time(), 0.0, 0.0
    while len(order) < n_fetches:
        now += 1.0
        while len(flying) < n_in_flight:
            heads = [(shard.queue.head(now), -number) for number, shard in enumerate(shards)]
            best = max(((head, at) for head, at in heads if head is not None), default=None)
            if best is None:
                break
            handout = shards[-best[1]].next_page(now)
            assert handout is not None
            flying.append((-best[1], handout))
        if not flying:
            break
        number, handout = flying.pop(rng.randrange(len(flying)))
        page = page_of[handout.url]
        order.append(page)
        targets = [urls[to] for to in graph.out_links(page).tolist()]
        shard = shards[number]
        shard.observe(handout.lease, PageVisit(LinkPairs(handout.url, targets)))
        since = process_time()
        for to, links in shard.links_out:
            shards[to].take_links(links)
        shard.links_out.clear()
        messages += process_time() - since
    return Order(order, messages / (process_time() - begin))


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("graph")
    parser.add_argument("--seed", default=None)
    parser.add_argument("--fetches", type=int, default=10_000)
    parser.add_argument("--ordering", action="append")
    parser.add_argument("--shards", type=int, action="append")
    parser.add_argument("--in-flight", type=int, action="append")
    parser.add_argument("--random", type=int, default=0)
    told = parser.parse_args()
    if told.graph.startswith("web:"):
        n_pages, n_sites = map(int, told.graph.split(":")[1:])
        graph = synthetic_web(n_pages, n_sites, seed=told.random)
    else:
        graph = read_graph(Path(told.graph))
    if graph.urls is not None:
        urls = list(graph.urls)
    else:
        sites = graph.site.tolist()
        urls = [f"http://site{site}.test/{page}" for page, site in enumerate(sites)]
    if told.seed is None:
        seed = int(np.bincount(graph.indices, minlength=graph.n_pages).argmax())
    else:
        seed = int(told.seed) if told.seed.isdigit() else graph.find(told.seed)
    ranks = pagerank(graph.indptr, graph.indices)
    reached = reachable(graph, [seed])
    print(f"{told.graph}: {graph.n_pages:,} pages, {graph.n_sites:,} sites, from {urls[seed]}")
    for ordering in told.ordering or ["sibling-sampling"]:
        for n_in_flight in told.in_flight or [1]:
            one = None
            for n_shards in [1, *(told.shards or [4, 16])]:
                order = crawl(
                    *(graph, urls, [seed], ordering, n_shards, n_in_flight, told.fetches),
                    random.Random(told.random),
                )
                curve = cumulative_pagerank(np.array(order.pages), ranks, reached)
                average, end = float(curve.mean()), float(curve[-1])
                one = one or (average, end)
                print(
                    f"{ordering:18} {n_in_flight:3} in flight {n_shards:3} shards "
                    f"{len(order.pages):7,} pages: average {average:.4f} ({average - one[0]:+.4f})"
                    f" end {end:.4f} ({end - one[1]:+.4f}) messages {order.messages:.0%}",
                    flush=True,
                )


if __name__ == "__main__":
    sys.exit(main())
