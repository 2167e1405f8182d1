"""The simulator against the real engine: the same web, order and politeness; run by hand.

    python benchmarks/simulator.py WEB.npz [--ordering NAME]... [--delay 0.2] [--in-flight 16]

Castillo et al. (2004, section V) validate their simulator by a real crawl. Here `crawlprio replay`
serves a web of `webs.py` or `archives.py` on loopback and crawls it from all home pages, and
`timed_crawl` crawls it with the same delay, as many robots, and the mean latency that the real
crawl had. A row compares both: average cumulative PageRank, seconds to half, 80 % and all of the
pages, and how far a page is displaced from one order to the other, as a share of the crawl.

What it does not show: bandwidth, sites that are slow at times, errors. With several fetches in
flight the order depends on which answer comes first, so it differs from one real crawl to the next.
"""

from __future__ import annotations

import argparse
import sqlite3
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from contextlib import closing
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from crawlprio.frontier import Politeness
from crawlprio.graph.linkgraph import LinkGraph
from crawlprio.graph.pages import NO_PAGE, PageTable, Visit
from crawlprio.measure.crawl_order import cumulative_pagerank
from crawlprio.orderings import make_ordering
from crawlprio.ranking.pagerank import pagerank
from crawlprio.simulator.network import Network
from crawlprio.simulator.timed import timed_crawl
from crawlprio.store import Store
from crawlprio.store.graph_files import read_graph

SHARES = (0.5, 0.8, 1.0)
Times = NDArray[np.float64]


def store_of(graph: LinkGraph, homes: Sequence[int], path: Path) -> None:
    """Write a crawl store in which every page of the graph was fetched."""
    table = PageTable()
    for url in graph.urls or ():
        table.add(url, url, table.site(url.split("/")[2]))
    with Store.create(path) as store:
        store.record(Visit(NO_PAGE, np.array(homes, dtype=np.int32)), table)
        for page in range(graph.n_pages):
            links = graph.indices[graph.indptr[page] : graph.indptr[page + 1]]
            store.record(Visit(page, links, [], 200), table)


def crawl(store: Path, seeds: Sequence[str], name: str, delay: float, robots: int) -> Path:
    """Crawl the store with the real engine; return the store of that crawl."""
    settings = {
        "ORDERING": name, "DOWNLOAD_DELAY": delay, "CONCURRENT_REQUESTS": robots,
        "ROBOTSTXT_OBEY": False, "CRAWLPRIO_PLOT": "", "LOG_LEVEL": "WARNING",
    }  # fmt: skip
    command = [sys.executable, "-m", "crawlprio.commands.cli", "replay", str(store)]
    command += ["-a", f"seeds={','.join(seeds)}", "-a", "follow=web"]
    command += [word for key, value in settings.items() for word in ("-s", f"{key}={value}")]
    subprocess.run(command, cwd=store.parent, check=True, stdout=subprocess.DEVNULL)
    return store.parent / "replay.sqlite"


def fetches(path: Path, graph: LinkGraph) -> tuple[NDArray[np.int32], Times, float]:
    """Return pages by the time at which they had arrived, these times, and the mean latency."""
    number_of = {url: page for page, url in enumerate(graph.urls or ())}
    query = (
        "SELECT p.url, v.fetched_at, v.elapsed FROM visits v JOIN pages p ON p.id = v.page "
        "WHERE v.page >= 0 AND v.status = 200"
    )
    with closing(sqlite3.connect(path)) as db:
        rows = [row for row in db.execute(query) if row[0] in number_of]
    rows.sort(key=lambda row: row[1])
    ended = np.array([row[1] for row in rows])
    latency = float(np.mean([row[2] for row in rows]))
    pages = np.array([number_of[row[0]] for row in rows], dtype=np.int32)
    return pages, ended - ended[0], latency


def figures(order: NDArray[np.int32], ended: Times, ranks: Times) -> str:
    """Return average cumulative PageRank and the seconds to shares of the pages, in words."""
    average = float(cumulative_pagerank(order, ranks).mean())
    seconds = [ended[min(int(x * len(ended)), len(ended) - 1)] for x in SHARES]
    return f"{average:.4f}, " + " / ".join(f"{x:.1f}" for x in seconds) + " s"


def main() -> None:
    """Crawl twice under each ordering and compare."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("web", type=Path)
    parser.add_argument("--ordering", action="append")
    parser.add_argument("--delay", type=float, default=0.2)
    parser.add_argument("--in-flight", type=int, default=16)
    given = parser.parse_args()
    graph = read_graph(given.web)
    beside = given.web.with_name(f"{given.web.stem}.homes.txt")
    homes = [int(line) for line in beside.read_text().split()]
    ranks = pagerank(graph.indptr, graph.indices)
    for name in given.ordering or ("breadth-first", "opic", "sibling-sampling"):
        with tempfile.TemporaryDirectory() as folder:
            store = Path(folder) / "web.sqlite"
            store_of(graph, homes, store)
            seeds = [(graph.urls or ())[home] for home in homes]
            made = crawl(store, seeds, name, given.delay, given.in_flight)
            order, ended, latency = fetches(made, graph)
        network = Network(
            robots=given.in_flight, politeness=Politeness(given.delay), latency=latency
        )
        timed = timed_crawl(graph, homes, make_ordering(name), network)
        by_end = np.argsort(timed.ended, kind="stable")
        place = np.argsort(timed.order[by_end])
        apart = np.abs(place[order] - np.arange(len(order))).mean() / len(order)
        print(f"{name}: {len(order):,} pages, mean latency {1000 * latency:.0f} ms")
        print(f"  real      {figures(order, ended, ranks)}")
        simulated = timed.ended[by_end] - timed.ended[by_end][0]
        print(f"  simulated {figures(timed.order[by_end], simulated, ranks)}")
        print(f"  a page is displaced by {apart:.2%} of the crawl on average", flush=True)


if __name__ == "__main__":
    main()
