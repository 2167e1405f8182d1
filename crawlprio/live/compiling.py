"""Ahead-of-time compilation of what a crawl runs, or of everything, on tiny inputs."""

from __future__ import annotations

import tempfile
from pathlib import Path

import numpy as np

from crawlprio.frontier import PageQueue
from crawlprio.graph import compiled
from crawlprio.graph.pages import NO_PAGE, PageTable, Visit
from crawlprio.orderings import ALL_PAGES, COMPARED, ORDERINGS, Changed, Ordering, make_ordering
from crawlprio.store.hashtable import HashTable
from crawlprio.web.pieces import SMALL, pieces


class _Restless(Ordering):
    """Changes all keys in some visits, so that a crawl calls each function of the queue."""

    def observe(self, visit: Visit) -> Changed:
        return ALL_PAGES if visit.page % 2 else visit.targets


def compile_reading() -> None:
    """Compile, or load from numba's cache, the code that reads a page."""
    pieces(b"<p>" * SMALL)


def compile_crawl(ordering: Ordering) -> None:
    """Compile, or load from numba's cache, the code that a live crawl runs between two fetches.

    Otherwise the first pages would block the event loop for that time: half a second with a warm
    cache, about 15 seconds of processor time on the very first crawl.
    """
    compiled.load()
    ordering.compile()
    compile_reading()
    table = HashTable()
    table.add_run(range(1000), 0)
    table.add(1000, table.find(0))
    table.find_all([0])
    pages = PageTable()
    site = pages.site("")
    pages.add("seed", "seed", site)
    queue = PageQueue(_Restless(), pages)
    queue.observe(Visit(NO_PAGE, np.array([0], dtype=np.int32)))
    for now in (0.0, 1.0, 2.0):
        page = queue.next_page(now)
        pages.add(f"page {now}", f"page {now}", site)
        queue.end_fetch(site, now + 0.5)
        queue.observe(Visit(page, np.array([len(pages) - 1], dtype=np.int32)))
        queue.release(page)
    queue.next_page(2.0)
    queue.add(queue.next_page(3.0), 1)


def compile_usual() -> None:
    """Compile what crawl, simulate and score run by default, if this process had to compile.

    So the first of them compiles for all three.
    """
    from crawlprio.show.simulated import compile_kernels

    if compiled.announced_compiling() and compiled.is_used():
        compile_crawl(make_ordering("sibling-sampling"))
        compile_kernels(ORDERINGS[name] for name in COMPARED)


def compile_all() -> None:
    """Compile, or load from numba's cache, all that crawls and commands run."""
    compile_crawl(make_ordering("pagerank"))
    pages = PageTable()
    for page in "ab":
        pages.add(page, page, pages.site(""))
    bounded = PageQueue(make_ordering("breadth-first"), pages, max_waiting=1)
    bounded.observe(Visit(NO_PAGE, np.array([0, 1], dtype=np.int32)))
    bounded.finish(0)
    with tempfile.TemporaryDirectory() as folder:
        _compile_graphs(Path(folder))
    _compile_simulations()


def _compile_graphs(folder: Path) -> None:
    """Compile what reads, generates and evaluates link graphs."""
    from crawlprio.graph.linkgraph import LinkGraph
    from crawlprio.graph.npz import write_npz
    from crawlprio.graph.synthetic import synthetic_web, twin
    from crawlprio.measure.crawl_models import BacklinksSeen, limited_buffer, pagerank_seen
    from crawlprio.measure.crawl_order import depth_from_seeds
    from crawlprio.measure.importance import importance_of
    from crawlprio.store.graph_files import read_graph

    (folder / "edges.txt").write_text(
        "".join(f"{page} {page + 1}\n{page} 0\n" for page in range(9))
    )
    graph = read_graph(folder / "edges.txt")
    (folder / "one.graph").write_bytes(b"\x80")
    (folder / "one.properties").write_text("nodes=1\narcs=0\n")
    read_graph(folder / "one.graph")
    urls = [f"http://a.example/{page}" for page in range(graph.n_pages)]
    sites = np.arange(graph.n_pages, dtype=np.int32) % 2
    write_npz(LinkGraph(graph.indptr, graph.indices, sites, urls), folder / "graph.npz")
    graph = read_graph(folder / "graph.npz")
    graph.in_links(0)
    for importance in ("cho-pagerank", "remote-pagerank", "backlinks", "harmonic", "hubs"):
        importance_of(graph, importance)
    twin(synthetic_web(60, 3))
    order = np.arange(graph.n_pages, dtype=np.int32)
    depth_from_seeds(graph, [0])
    values = pagerank_seen(graph, order)
    limited_buffer(order, values, [0.5], BacklinksSeen(graph))


def _compile_simulations() -> None:
    """Compile the crawl simulator, with and without a clock."""
    from crawlprio.show.simulated import compile_kernels

    compile_kernels(ORDERINGS.values())
    compile_kernels(ORDERINGS.values(), in_time=True)
