"""Crawls of the demo web by real brains, one process each: their order, and calls of idle ones.

    python benchmarks/brains.py order [--shards 1 4] [--pages 3000] [--at-once 8] [--seed 1]
    python benchmarks/brains.py idle [--hands 4] [--shards 8] [--seconds 60]

`order` crawls the whole web by one worker and prints, for each number of shards, the cumulative
PageRank, averaged over the fetches and after half of them, the visits a second, and the processor
time of a visit in all brains. `idle` waits until brains have nothing to do and counts, by the INFO
of Redis, the commands of hands and brains a second, with those inside of scripts, and its clients.
What it does not show: several machines, and pages that take time.
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
from collections import Counter
from contextlib import suppress
from pathlib import Path
from time import monotonic, sleep
from types import SimpleNamespace
from typing import Any

import numpy as np

sys.path.append(str(Path(__file__).resolve().parents[1] / "tests" / "kit"))

from shared_crawls import InRedis
from workers import spent

from crawlprio.demo.server import LoopbackServer
from crawlprio.measure.crawl_order import cumulative_pagerank, reachable
from crawlprio.ranking.pagerank import pagerank
from crawlprio.store import Store
from crawlprio.store.graph_files import read_graph

HANDLER = "crawlprio.demo.handler.LoopbackHandler"


def start(folder: Path, n_shards: int, server: LoopbackServer, n_hands: int, *more: str) -> Any:
    """Start a crawl of a web that is served: first all brains, then the hands."""
    web: Any = SimpleNamespace(url=lambda page: server.seeds[page])
    crawl = InRedis(folder, web, n_shards=n_shards, term=60.0)
    handlers = json.dumps(dict.fromkeys(("http", "https"), HANDLER))
    loopback = f"CRAWLPRIO_LOOPBACK={server.address}"
    words = "-s", loopback, "-s", f"DOWNLOAD_HANDLERS={handlers}", *more
    crawl.start(n_shards, *words, CRAWLPRIO_BRAIN="only")
    crawl.wait(lambda: all(mailbox.facts().get("process") for mailbox in crawl.mailboxes))
    crawl.start(n_hands, *words, CRAWLPRIO_BRAIN="never")
    return crawl


def order(server: LoopbackServer, n_shards: int, at_once: int, ordering: str) -> None:
    with tempfile.TemporaryDirectory() as name:
        crawl = start(
            *(Path(name), n_shards, server, 1, "--delay", "0", "--at-once", str(at_once)),
            *("--ordering", ordering),
        )
        try:
            brains, used = crawl.wait_for_brains(), Counter[int]()
            began = {brain: spent(brain) for brain in brains}
            while crawl.alive():
                for brain in brains:
                    with suppress(OSError):
                        used[brain] = max(used[brain], spent(brain) - began[brain])
                sleep(0.1)
            crawl.end()
            path = crawl.store
            with Store.open(path, readonly=True) as store:
                visits = [(visit.fetched_at, visit.page) for visit in store.visits()]
            graph = read_graph(path)
        finally:
            crawl.stop()
    pages = np.array([page for _, page in visits])
    ranks = pagerank(graph.indptr, graph.indices)
    curve = cumulative_pagerank(pages, ranks, reachable(graph, [int(pages[0])]))
    seconds = max(visits)[0] - min(visits)[0]
    print(
        f"{n_shards:3} shards: {len(pages):,} visits, average {curve.mean():.4f}, after half "
        f"{curve[len(curve) // 2]:.4f}; {len(pages) / seconds:.0f} visits/s, "
        f"{1000 * used.total() / len(pages):.2f} ms of brains a visit",
        flush=True,
    )


def idle(server: LoopbackServer, n_shards: int, n_hands: int, seconds: float) -> None:
    with tempfile.TemporaryDirectory() as name:
        crawl = start(Path(name), n_shards, server, n_hands, "--delay", "3600")
        try:
            with crawl.server.client() as client:
                sleep(seconds)
                before, began = client.info("commandstats"), monotonic()
                sleep(seconds)
                after, took = client.info("commandstats"), monotonic() - began
                n_clients = client.info("clients")["connected_clients"]
        finally:
            crawl.stop()
    calls = Counter(
        {
            command.removeprefix("cmdstat_"): (
                facts["calls"] - before.get(command, {"calls": 0})["calls"]
            )
            / took
            for command, facts in after.items()
        }
    )
    most = ", ".join(f"{command} {n:.1f}" for command, n in calls.most_common(9))
    print(
        f"{n_hands} hands, {n_shards} shards: {sum(calls.values()):.1f} commands/s ({most}); "
        f"{n_clients} clients",
        flush=True,
    )


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("what", choices=["order", "idle"])
    parser.add_argument("--hands", type=int, default=4)
    parser.add_argument("--shards", type=int, nargs="+", default=[])
    parser.add_argument("--pages", type=int, default=3_000)
    parser.add_argument("--sites", type=int, default=40)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--at-once", type=int, default=8)
    parser.add_argument("--ordering", default="sibling-sampling")
    parser.add_argument("--seconds", type=float, default=60.0)
    told = parser.parse_args()
    with LoopbackServer(pages=told.pages, sites=told.sites, seed=told.seed) as server:
        for n_shards in told.shards or ([8] if told.what == "idle" else [1, 4]):
            if told.what == "order":
                order(server, n_shards, told.at_once, told.ordering)
            else:
                idle(server, n_shards, told.hands, told.seconds)


if __name__ == "__main__":
    main()
