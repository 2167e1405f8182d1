"""Whether link farms and traps can buy rank: real webs with made-up pages added; run by hand.

    python benchmarks/farms.py WEB... [--ordering NAME[:OPTION=VALUE,...]]...

To each WEB (see `quality.py`) pages are added until they are 30 % of all, three random pages of the
web link to each of the first of them, and the crawl starts at the home pages. The kinds:

* farm: one site, each page with 20 random links inside and one to its first page;
* domains: the same, ten pages to a site;
* calendar: on the site of the first home page, each day links to the day before, the next and the
  one after;
* months: a tree, each page links to eight new ones and back.

For each ordering: the average cumulative PageRank, where PageRank is that of the web without the
added pages, which have none; and after what share of the web's size, added pages fetched counting,
half and nine tenths of its top 1 % had been fetched.
"""

from __future__ import annotations

import argparse
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from quality import parse_ordering

from crawlprio.evaluation import average_cumulative_pagerank, reachable
from crawlprio.importance import pagerank
from crawlprio.linkgraph import LinkGraph
from crawlprio.orderings import make_ordering
from crawlprio.simulator import Source, crawl_order

KINDS = ("none", "farm", "domains", "calendar", "months")
DEFAULT = ("breadth-first", "opic", "sibling-sampling")
SHARE = 0.3
ENTRIES = {"calendar": 1, "months": 1}


def added_rows(kind: str, n: int, first: int, rng: np.random.Generator) -> list[NDArray[np.int32]]:
    """Return the links of n added pages first, first + 1, ..."""
    rows = []
    for page in range(n):
        if kind == "calendar":
            near = np.array([page - 1, page + 1, page + 2])
        elif kind == "months":
            near = np.array([(page - 1) // 8, *range(8 * page + 1, 8 * page + 9)])
        else:
            near = np.append(0, rng.integers(0, n, 20))
        near = near[(near >= 0) & (near < n) & (near != page)]
        rows.append((first + near).astype(np.int32))
    return rows


def with_farm(graph: LinkGraph, homes: list[int], kind: str) -> LinkGraph:
    """Return the web with added pages behind its own."""
    if kind == "none":
        return graph
    rng = np.random.default_rng(3)
    n_real = graph.n_pages
    n = int(n_real * SHARE / (1 - SHARE))
    rows = [graph.out_links(page) for page in range(n_real)]
    reached = np.flatnonzero(reachable(graph, homes))
    for entry in range(n_real, n_real + ENTRIES.get(kind, 3)):
        for source in rng.choice(reached, 3):
            rows[source] = np.append(rows[source], np.int32(entry))
    rows += added_rows(kind, n, n_real, rng)
    site = np.full(n, graph.n_sites, dtype=np.int32)
    if kind == "domains":
        site += np.arange(n, dtype=np.int32) // 10
    elif kind in ENTRIES:
        site[:] = graph.site[homes[0]]
    return LinkGraph.cleaned(
        np.cumsum([0, *map(len, rows)]), np.concatenate(rows), site=np.append(graph.site, site)
    )


def main() -> None:
    """Crawl and print."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("web", type=Path, nargs="+")
    parser.add_argument("--ordering", action="append")
    given = parser.parse_args()
    for path in given.web:
        source = Source.open(str(path))
        graph = source.graph
        beside = path.with_name(f"{path.name.removesuffix('.npz')}.homes.txt")
        homes = [int(line) for line in beside.read_text().split()] if beside.exists() else []
        homes = homes or source.default_seeds()
        ranks = pagerank(graph.indptr, graph.indices)
        top = np.argsort(-ranks)[: max(graph.n_pages // 100, 1)]
        print(f"\n{path.name}: {graph.n_pages:,} pages, {len(homes)} seeds")
        for kind in KINDS:
            farmed = with_farm(graph, homes, kind)
            worth = np.append(ranks, np.zeros(farmed.n_pages - graph.n_pages))
            can_reach = reachable(farmed, homes)
            for text in given.ordering or DEFAULT:
                name, options = parse_ordering(text)
                order = crawl_order(farmed, homes, make_ordering(name, options))
                position = np.full(farmed.n_pages, len(order))
                position[order] = np.arange(len(order))
                half, most = np.percentile(position[top[can_reach[top]]], [50, 90]) / graph.n_pages
                average = average_cumulative_pagerank(order, worth, can_reach)
                print(f"  {kind:9} {text:30} {average:.3f}  half {half:6.1%}  9/10 {most:6.1%}")


if __name__ == "__main__":
    main()
