"""Pages per second of frontier, ordering and journal alone, driven one page at a time from Python.

Crawls a link graph with URLs like a live crawl, but without Scrapy and HTML: looks up the URLs of
each page's links, observes the visit, records it, and takes the next page.

    python benchmarks/frontier.py GRAPH --seed URL [--ordering NAME]... [--rounds 3]

Runs in memory and journalled, in turn. The journal is the crawl store, with one transaction per
visit, and with one per 16 visits, as a crawl with 16 fetches in flight may commit them.

What it does not show: parsing, fetching, requests, delays; anchor texts and titles in the journal.
"""

from __future__ import annotations

import argparse
import statistics
import tempfile
from pathlib import Path
from time import perf_counter

import numpy as np

from crawlprio.frontier import PageQueue
from crawlprio.graph.linkgraph import LinkGraph
from crawlprio.graph.pages import NO_PAGE, PageTable, Visit
from crawlprio.orderings import make_ordering
from crawlprio.store import Store
from crawlprio.store.graph_files import read_graph
from crawlprio.web.urls import host_of


def crawl(
    graph: LinkGraph,
    links: list[list[str]],
    seed: str,
    name: str,
    store: Store | None = None,
    n_visits: int = 1,
) -> tuple[int, float]:
    """Crawl everything reachable, so many visits per transaction; return pages and seconds."""
    assert graph.urls is not None
    row_of = {url: row for row, url in enumerate(graph.urls)}
    pages = PageTable() if store is None else store.stored_pages()
    frontier = PageQueue(make_ordering(name), pages)
    add, site = pages.add, pages.site
    n_fetched = 0
    started = perf_counter()
    add(seed, seed, site(host_of(seed)))
    frontier.observe(Visit(NO_PAGE, np.zeros(1, dtype=np.int32)))
    while True:
        page = frontier.next_page(0.0)
        if page == NO_PAGE:
            break
        urls = links[row_of[pages.url(page)]]
        targets = pages.find_all(urls)
        for at, url in enumerate(urls):
            if targets[at] == NO_PAGE:
                targets[at] = add(url, url, site(host_of(url)))
        visit = Visit(page, np.array(targets, dtype=np.int32))
        if store is not None:
            store.record(visit, pages, commits=n_fetched % n_visits == 0)
        frontier.observe(visit)
        frontier.release(page)
        n_fetched += 1
    if store is not None:
        store.commit()
    return n_fetched, perf_counter() - started


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("graph")
    parser.add_argument("--seed", required=True)
    parser.add_argument("--ordering", action="append")
    parser.add_argument("--rounds", type=int, default=3)
    options = parser.parse_args()
    graph = read_graph(options.graph)
    assert graph.urls is not None
    urls = graph.urls
    links = [[urls[target] for target in graph.out_links(page)] for page in range(graph.n_pages)]
    for name in options.ordering or ["opic", "breadth-first"]:
        n_pages, _ = crawl(graph, links, options.seed, name)
        rates: dict[str, list[float]] = {"in memory": [], "journalled": [], "16 at once": []}
        for _ in range(options.rounds):
            rates["in memory"].append(n_pages / crawl(graph, links, options.seed, name)[1])
            for label, n_visits in (("journalled", 1), ("16 at once", 16)):
                with (
                    tempfile.TemporaryDirectory() as folder,
                    Store.create(Path(folder, "s")) as store,
                ):
                    seconds = crawl(graph, links, options.seed, name, store, n_visits)[1]
                rates[label].append(n_pages / seconds)
        print(f"{name}, {n_pages:,} pages")
        for label, of_label in rates.items():
            print(
                f"  {label:10} {statistics.median(of_label):9,.0f} pages/s "
                f"({min(of_label):,.0f} to {max(of_label):,.0f})",
                flush=True,
            )


if __name__ == "__main__":
    main()
