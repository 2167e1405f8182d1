"""Pages per second of the order-only simulator; run by hand, at most about a minute.

    python benchmarks/simulate.py GRAPH [--seeds ID[,ID...]] [--ordering NAME]... [--every K]

For each ordering, the best of three runs on one core counts, or the first if it takes more than
five seconds. Compiling, reading the graph and the PageRank that `omniscient` looks up are excluded;
opening the ordering is included. `page by page` is the first 20,000 pages of the same crawl with
the frontier and ordering objects of a live crawl.

It shows the cost of deciding: no fetching, no parsing, no store. Graphs with more links per page,
or with records larger than the processor's cache (32 bytes per page), are slower.
"""

from __future__ import annotations

import argparse
import time
from functools import partial

from crawlprio.orderings import make_ordering, option_names
from crawlprio.ranking.pagerank import pagerank
from crawlprio.show.simulation_results import compile_kernels
from crawlprio.simulator.graph_pages import Source
from crawlprio.simulator.timed import crawl_order

ORDERINGS = (
    "breadth-first",
    "depth-first",
    "random",
    "backlink-count",
    "opic",
    "larger-sites-first",
    "omniscient",
    "batch-pagerank",
    "partial-pagerank",
    "pagerank",
)
REPEATS, LONG_SECONDS, CUT = 3, 5.0, 20_000


def main() -> None:
    """Print one line for each ordering."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("graph")
    parser.add_argument("--seeds", help="page ids; default: as scrapy simulate")
    parser.add_argument("--ordering", action="append")
    parser.add_argument("--every", type=int, default=10_000, help="visits; default 10,000")
    given = parser.parse_args()

    names = given.ordering or ORDERINGS
    compile_kernels(type(make_ordering(name)) for name in names)
    source = Source.open(given.graph)
    graph = source.graph
    seeds = source.find_seeds(given.seeds.split(",")) if given.seeds else source.default_seeds()
    ranks = pagerank(graph.indptr, graph.indices)
    print(f"{given.graph}: {graph.n_pages:,} pages, {graph.n_links:,} links, seeds {seeds}")
    print(f"{'ordering':30} {'pages':>10} {'seconds':>9} {'pages/s':>11} {'page by page':>13}")
    for name in names:
        # By default, `pagerank` is recomputed as often as is affordable; that is what to measure.
        every = "every" in option_names(name) and name != "pagerank"
        options = {"every": given.every} if every else {}
        crawl = partial(crawl_order, graph, seeds, truth=ranks)
        best = float("inf")
        for _ in range(REPEATS):
            start = time.perf_counter()
            n_pages = len(crawl(make_ordering(name, options)))
            best = min(best, time.perf_counter() - start)
            if best > LONG_SECONDS:
                break
        start = time.perf_counter()
        n_cut = len(crawl(make_ordering(name, options), compiled=False, budget=CUT))
        slowly = n_cut / (time.perf_counter() - start)
        label = f"{name} every={given.every}" if every else name
        print(f"{label:30} {n_pages:10,} {best:9.3f} {n_pages / best:11,.0f} {slowly:13,.0f}")


if __name__ == "__main__":
    main()
