"""Compiles what a crawl runs before it starts."""

from __future__ import annotations

import numpy as np

from crawlprio import compiled
from crawlprio.frontier import CompiledFrontier
from crawlprio.orderings import make_ordering
from crawlprio.pages import NO_PAGE, PageTable, Visit
from crawlprio.store.hashtable import HashTable
from crawlprio.web.pieces import SMALL, pieces


def compile_frontier(*, with_ranks: bool) -> None:
    """Compile, or load from numba's cache, all that a live crawl runs between two fetches.

    Otherwise the first pages would hold the event loop for as long: half a second from the cache,
    some ten seconds at the first crawl ever.

    Parameters
    ----------
    with_ranks
        PageRank too, for orderings that compute it.
    """
    compiled.load()
    pieces(b"<p>" * SMALL)
    table = HashTable()
    table.add_run(range(1000), 0)
    table.add(1000, table.find(0))
    table.find_all([0])
    names = ["opic", "partial-pagerank"] if with_ranks else ["opic"]
    for name in names:
        options = {"every": 2} if name == "partial-pagerank" else {}
        pages = PageTable()
        site = pages.site("")
        pages.add("seed", "seed", site)
        frontier = CompiledFrontier(make_ordering(name, options), pages)
        frontier.observe(Visit(NO_PAGE, np.array([0], dtype=np.int32)))
        for now in (0.0, 1.0, 2.0):
            page = frontier.next_page(now)
            pages.add(f"page {now}", f"page {now}", site)
            frontier.end_fetch(site, now + 0.5)
            frontier.observe(Visit(page, np.array([len(pages) - 1], dtype=np.int32)))
            frontier.release(page)
        frontier.next_page(2.0)
        frontier.add(frontier.next_page(3.0), 1)
