"""Crawls of the demo web by a real coordinator behind Redis: its order, and the calls of an idle
one.

    python benchmarks/coordinators.py order [--pages 3000] [--at-once 8] [--seed 1]
    python benchmarks/coordinators.py idle [--workers 4] [--seconds 60]

`order` crawls the whole web by one worker and prints the cumulative PageRank, averaged over the
fetches and after half of them, the visits a second, and the processor time of a visit in the
coordinator. `idle` waits until the coordinator has nothing to do and counts, by the INFO of Redis,
the commands of workers and coordinator a second, with those inside of scripts, and its clients.
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


def start(folder: Path, server: LoopbackServer, n_workers: int, *more: str) -> Any:
    """Start a crawl of a web that is served: first the coordinator, then the workers."""
    web: Any = SimpleNamespace(url=lambda page: server.seeds[page])
    crawl = InRedis(folder, web, lease_timeout=60.0)
    handlers = json.dumps(dict.fromkeys(("http", "https"), HANDLER))
    loopback = f"CRAWLPRIO_LOOPBACK={server.address}"
    words = "-s", loopback, "-s", f"DOWNLOAD_HANDLERS={handlers}", *more
    crawl.start(1, *words, CRAWLPRIO_COORDINATOR="only")
    crawl.wait(lambda: crawl.streams.facts().get("process"))
    crawl.start(n_workers, *words, CRAWLPRIO_COORDINATOR="never")
    return crawl


def order(server: LoopbackServer, at_once: int, ordering: str) -> None:
    with tempfile.TemporaryDirectory() as name:
        crawl = start(
            *(Path(name), server, 1, "--delay", "0", "--at-once", str(at_once)),
            *("--ordering", ordering),
        )
        try:
            (coordinator,), used = crawl.wait_for_coordinators(), 0.0
            began = spent(coordinator)
            while crawl.alive():
                with suppress(OSError):
                    used = max(used, spent(coordinator) - began)
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
        f"{len(pages):,} visits, average {curve.mean():.4f}, after half "
        f"{curve[len(curve) // 2]:.4f}; {len(pages) / seconds:.0f} visits/s, "
        f"{1000 * used / len(pages):.2f} ms of the coordinator a visit",
        flush=True,
    )


def idle(server: LoopbackServer, n_workers: int, seconds: float) -> None:
    with tempfile.TemporaryDirectory() as name:
        crawl = start(Path(name), server, n_workers, "--delay", "3600")
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
        f"{n_workers} workers: {sum(calls.values()):.1f} commands/s ({most}); {n_clients} clients",
        flush=True,
    )


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("what", choices=["order", "idle"])
    parser.add_argument("--workers", type=int, default=4)
    parser.add_argument("--pages", type=int, default=3_000)
    parser.add_argument("--sites", type=int, default=40)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--at-once", type=int, default=8)
    parser.add_argument("--ordering", default="sibling-sampling")
    parser.add_argument("--seconds", type=float, default=60.0)
    told = parser.parse_args()
    with LoopbackServer(pages=told.pages, sites=told.sites, seed=told.seed) as server:
        if told.what == "order":
            order(server, told.at_once, told.ordering)
        else:
            idle(server, told.workers, told.seconds)


if __name__ == "__main__":
    main()
