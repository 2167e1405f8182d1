"""PageRank of a link graph, compared with igraph's PRPACK and NetworkX, in turn, in one run.

    python benchmarks/pagerank.py GRAPH [--rounds N]

The graph is built for all three before the clock starts; compiling is not counted. Ours and
NetworkX stop at a total change of 1e-10 (NetworkX is given 1e-10 / pages, because it multiplies by
the number of pages); PRPACK has its own bound. Prints median seconds, ratios, and the largest
differences between ranks, absolute and relative to the rank.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable
from statistics import median
from time import perf_counter

import networkx
import numpy as np

from crawlprio.graph.convert import to_igraph, to_networkx
from crawlprio.ranking.pagerank import pagerank
from crawlprio.store.graph_files import read_graph


def main() -> None:
    """Print a line for each library."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("graph")
    parser.add_argument("--rounds", type=int, default=5, help="default %(default)s")
    given = parser.parse_args()

    graph = read_graph(given.graph)
    in_igraph, in_networkx = to_igraph(graph), to_networkx(graph)
    tolerance = 1e-10 / graph.n_pages
    libraries: dict[str, Callable[[], np.ndarray]] = {
        "crawlprio": lambda: pagerank(graph.indptr, graph.indices),
        "igraph": lambda: np.array(in_igraph.pagerank(damping=0.85)),
        "networkx": lambda: np.array(
            list(networkx.pagerank(in_networkx, tol=tolerance, max_iter=1000).values())
        ),
    }
    ranks = {name: compute() for name, compute in libraries.items()}
    seconds: dict[str, list[float]] = {name: [] for name in libraries}
    for _ in range(given.rounds):
        for name, compute in libraries.items():
            if name == "networkx" and seconds[name]:
                continue
            start = perf_counter()
            compute()
            seconds[name].append(perf_counter() - start)
    print(f"{given.graph}: {graph.n_pages:,} pages, {graph.n_links:,} links")
    ours = median(seconds["crawlprio"])
    for name, taken in seconds.items():
        apart = np.abs(ranks[name] - ranks["crawlprio"])
        print(
            f"{name:10} {median(taken):8.4f} s  {median(taken) / ours:6.1f} times ours  "
            f"apart at most {apart.max():.1e}, {(apart / ranks['crawlprio']).max():.1e} of a rank"
        )


if __name__ == "__main__":
    main()
