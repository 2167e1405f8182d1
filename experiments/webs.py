"""The webs of the experiments: recorded link graphs, and a synthetic country."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from crawlprio.graph.linkgraph import LinkGraph
from crawlprio.graph.synthetic import home_pages, synthetic_web
from crawlprio.measure.crawl_order import reachable
from crawlprio.ranking.pagerank import pagerank
from crawlprio.store.graph_files import read_graph

STARTS = 5
"""Number of seed pages that a web is crawled from, one at a time."""

PAGES_PER_SITE = 70
"""The country has 3.5 million pages on 50,000 sites, as in Castillo et al. 2004."""


@dataclass(frozen=True, eq=False)
class Web:
    """A link graph with the seeds that its crawls start from.

    `name`: name in figures. `graph`: its links. `start`: a page that reaches most of the web.
    `is_synthetic`: whether the web is synthetic. `known_homes`: the home pages, where they are
    known.
    """

    name: str
    graph: LinkGraph
    start: int
    is_synthetic: bool = False
    known_homes: tuple[int, ...] = ()

    @cached_property
    def ranks(self) -> NDArray[np.float64]:
        """PageRank over the whole graph, d = 0.85."""
        return pagerank(self.graph.indptr, self.graph.indices)

    @cached_property
    def homes(self) -> list[int]:
        """One page per site: its home page, or the page with the most in-links."""
        graph = self.graph
        if self.known_homes:
            return list(self.known_homes)
        if graph.urls is None:
            return [int(page) for page in home_pages(graph)]
        in_links = np.bincount(graph.indices, minlength=graph.n_pages)
        slashes = np.array([url.rstrip("/").count("/") for url in graph.urls])
        by_site = np.lexsort((np.arange(graph.n_pages), -in_links, slashes, graph.site))
        first = np.r_[True, np.diff(graph.site[by_site]) != 0]
        return [int(page) for page in by_site[first]]

    @cached_property
    def single_seeds(self) -> list[int]:
        """The good start and others, `STARTS` in all."""
        return self.singles(STARTS)

    def singles(self, n: int) -> list[int]:
        """Return the good start, and random pages that reach at least half as much."""
        rng = np.random.default_rng(1998)
        most = int(reachable(self.graph, [self.start]).sum())
        seeds = [self.start]
        for page in rng.permutation(self.graph.n_pages).tolist():
            if len(seeds) >= n:
                break
            if page not in seeds and 2 * reachable(self.graph, [page]).sum() >= most:
                seeds.append(page)
        return seeds

    def starts(self, n: int) -> list[list[int]]:
        """Return the single seeds; where too few reach much, the good start and a random page."""
        singles = self.singles(n)
        if len(singles) == n:
            return [[seed] for seed in singles]
        others = np.random.default_rng(1998).permutation(self.graph.n_pages)[: n - 1]
        return [[self.start], *([self.start, page] for page in others.tolist())]


def built(folder: Path, name: str) -> Web:
    """Return a web that `benchmarks/webs.py` or `benchmarks/archives.py` wrote into the folder."""
    homes = tuple(map(int, (folder / f"{name}.homes.txt").read_text().split()))
    return Web(name, read_graph(folder / f"{name}.npz"), homes[0], known_homes=homes)


def uci(shared: Path) -> Web:
    """Return a real crawl of 88 sites of a university department."""
    graph = read_graph(shared / "uci-ics.npz")
    assert graph.urls is not None
    return Web("uci-ics", graph, list(graph.urls).index("http://www.ics.uci.edu/"))


def cnr(shared: Path) -> Web:
    """Return the Italian CNR of 2000; its sites are unknown, so all pages are on one."""
    return Web("cnr-2000", read_graph(shared / "cnr-2000.npz"), 217849)


def hollins(shared: Path) -> Web:
    """Return a small university of four sites."""
    return Web("hollins", read_graph(shared / "hollins.npz"), 0)


def country(shared: Path, n_pages: int, n_sites: int | None = None, seed: int = 0) -> Web:
    """Return a synthetic country whose sites link like the hosts of the .uk web of 1996."""
    hosts = read_graph(shared / "uk1996-hosts.npz")
    n_sites = n_sites or max(n_pages // PAGES_PER_SITE, 1)
    graph = synthetic_web(n_pages, n_sites, hosts=hosts, seed=seed)
    largest = np.bincount(graph.site).argmax()
    return Web(f"country of {n_pages:,} pages", graph, int(home_pages(graph)[largest]), True)
