"""Polite crawls of a web from one choice of seeds, all measured by PageRank in the same way."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path

import numpy as np
from drawn_network import drawn_network
from measures import mean_and_spread
from numpy.typing import NDArray
from webs import Web

from crawlprio.evaluation import best_order, cumulative_pagerank, curve, kendall_tau, reachable
from crawlprio.evaluation.figures import Panel, Series
from crawlprio.frontier import Politeness
from crawlprio.importance import pagerank
from crawlprio.linkgraph import LinkGraph, read_graph
from crawlprio.linkgraph.synthetic import home_pages, synthetic_web
from crawlprio.orderings import Ordering, make_ordering
from crawlprio.simulator import Network, TimedCrawl, timed_crawl

Mask = NDArray[np.bool_]

DELAY = 15.0
"""w of Castillo et al. 2004 and Baeza-Yates et al. 2005 in seconds."""

BATCHES = 35
"""PageRank computations per crawl: K = 100,000 of about 3.5 million pages."""

PAGES_PER_SITE, MOST_PAGES_PER_SITE, WHOLE_COUNTRY = 70, 25_000, 3_500_000
"""The Chilean crawl of April 2004: 3.5 million pages, 50,000 sites with at most 25,000 each."""

STRATEGIES = (
    "random",
    "backlink-count",
    "partial-pagerank",
    "breadth-first",
    "batch-pagerank",
    "opic",
    "larger-sites-first",
    "omniscient",
)
POINTS = 1001


@dataclass(frozen=True, eq=False)
class Crawled:
    """One crawl of everything that its seeds reach, and the quality of its order.

    Parameters
    ----------
    timed
        pages and times.
    average
        average cumulative PageRank.
    tau
        Kendall's tau-b of the order against PageRank, on 5,000 pages.
    points
        1,001 points (share of pages fetched, share of PageRank).
    """

    timed: TimedCrawl
    average: float
    tau: float
    points: NDArray[np.float64]

    @property
    def order(self) -> NDArray[np.int32]:
        return self.timed.order

    def gathered_at(self, share: float) -> float:
        """Return the share of the PageRank gathered by this share of the pages."""
        return float(np.interp(share, self.points[:, 0], self.points[:, 1]))


@dataclass(frozen=True, eq=False)
class Start:
    """A web and the seeds of a crawl of it.

    Parameters
    ----------
    web
        what is crawled.
    seeds
        pages of the web that wait from the beginning.
    """

    web: Web
    seeds: list[int]

    @cached_property
    def reachable(self) -> NDArray[np.bool_]:
        return reachable(self.web.graph, self.seeds)

    @cached_property
    def n_pages(self) -> int:
        """Number of reachable pages."""
        return int(self.reachable.sum())

    @cached_property
    def best(self) -> NDArray[np.float64]:
        """The curve that no order exceeds: all reachable pages by descending PageRank."""
        return self.points(best_order(self.web.ranks, self.reachable))

    def ordering(self, name: str) -> Ordering:
        """Return one of the papers' strategies; PageRank is computed every N / 35 pages."""
        every = max(self.n_pages // BATCHES, 1)
        by_batches = name in ("batch-pagerank", "partial-pagerank")
        return make_ordering(name, {"every": every} if by_batches else {})

    def crawl(self, ordering: str | Ordering, network: Network | None = None) -> Crawled:
        """Crawl under a strategy, by order alone if there is no network, and measure the order."""
        policy = self.ordering(ordering) if isinstance(ordering, str) else ordering
        ranks = self.web.ranks
        timed = timed_crawl(self.web.graph, self.seeds, policy, network or Network(), truth=ranks)
        gathered = cumulative_pagerank(timed.order, ranks, self.reachable)
        return Crawled(
            timed,
            float(gathered.mean()),
            kendall_tau(timed.order, ranks, reachable=self.reachable),
            self.points(timed.order),
        )

    def crawls(self, names: Iterable[str], network: Network | None = None) -> dict[str, Crawled]:
        """Crawl under each of the strategies."""
        return {name: self.crawl(name, network) for name in names}

    def points(self, order: NDArray[np.int32]) -> NDArray[np.float64]:
        """Return the curve of an order."""
        gathered = cumulative_pagerank(order, self.web.ranks, self.reachable)
        return np.array(curve(gathered, POINTS, n_pages=self.n_pages))


def small_country(shared: Path, n_pages: int, seed: int = 0) -> Web:
    """Return a country in Chile's proportions: 70 pages per site, at most 25,000 of 3.5 million."""
    graph = synthetic_web(
        n_pages,
        max(n_pages // PAGES_PER_SITE, 1),
        hosts=read_graph(shared / "uk1996-hosts.npz"),
        max_pages_per_site=max(n_pages * MOST_PAGES_PER_SITE // WHOLE_COUNTRY, 1000),
        seed=seed,
    )
    largest = np.bincount(graph.site).argmax()
    return Web(f"country {seed + 1}", graph, int(home_pages(graph)[largest]), True)


def polite_network(web: Web, *, robots: int = 1, real_crawl: bool = False) -> Network:
    """Return a network of drawn sizes, speeds and latencies.

    w is 15 s, or in a real crawl 5 s, and 15 s for sites under 100 pages.
    """
    politeness = Politeness(5.0, DELAY) if real_crawl else Politeness(DELAY)
    return drawn_network(web.graph, robots=robots, politeness=politeness)


def with_bandwidth(network: Network, bandwidth: float | None) -> Network:
    """Return the same network behind a link with this bandwidth in bytes/s."""
    return replace(network, bandwidth=bandwidth)


def earlier_state(
    start: Start,
    *,
    known: float = 0.55,
    known_rank: float = 0.72,
    links_left: float = 1.0,
    seed: int = 0,
) -> tuple[NDArray[np.bool_], NDArray[np.float64]]:
    """Return which pages an earlier crawl of the web had, and the PageRank that it computed.

    Pages are removed at random; the probability that a page is old grows with a power of its
    PageRank. Each link existed before with probability `links_left`. The earlier crawl is what the
    remaining seeds reach through the remaining links. Bisection finds the share of pages and the
    power with which the earlier crawl has the shares wanted of the reachable pages and of their
    PageRank, or comes as close as reachability allows.

    Returns
    -------
    bool and float64, shape (n_pages,)
        known pages, and their PageRank in the graph of known pages alone; 0 elsewhere.
    """
    graph, ranks = start.web.graph, start.web.ranks
    if links_left < 1.0:
        there = np.random.default_rng(seed + 1).random(graph.n_links) < links_left
        graph = _links_where(graph, there)
    draws = np.log(np.random.default_rng(seed).exponential(size=graph.n_pages))
    n_wanted = known * start.n_pages
    rank_wanted = known_rank * ranks[start.reachable].sum()
    low, high = -1.0, 3.0
    for _ in range(10):
        power = (low + high) / 2
        ranking = np.argsort(draws - power * np.log(ranks), kind="stable")
        fewest, most = 0, graph.n_pages
        while most - fewest > max(start.n_pages // 2000, 1):
            n_left = (fewest + most) // 2
            if _crawled_of(graph, start.seeds, ranking[:n_left]).sum() < n_wanted:
                fewest = n_left
            else:
                most = n_left
        old = _crawled_of(graph, start.seeds, ranking[:most])
        if ranks[old].sum() < rank_wanted:
            low = power
        else:
            high = power
    within = _links_within(graph, old)
    lengths = np.diff(within.indptr)[old]
    local = np.cumsum(old, dtype=np.int32) - 1
    indptr = np.concatenate(([0], np.cumsum(lengths))).astype(np.int64)
    earlier = np.zeros(graph.n_pages)
    earlier[old] = pagerank(indptr, local[within.indices].astype(np.int32))
    return old, earlier


def _crawled_of(graph: LinkGraph, seeds: Sequence[int], left: NDArray[np.int64]) -> Mask:
    """Return the pages that a crawl of the remaining pages reaches."""
    is_left = np.zeros(graph.n_pages, dtype=np.bool_)
    is_left[left] = True
    starts = [seed for seed in seeds if is_left[seed]]
    return reachable(_links_within(graph, is_left), starts) if starts else is_left & False


def _links_within(graph: LinkGraph, kept: Mask) -> LinkGraph:
    """Return the graph with links between kept pages only."""
    return _links_where(graph, np.repeat(kept, np.diff(graph.indptr)) & kept[graph.indices])


def _links_where(graph: LinkGraph, stays: Mask) -> LinkGraph:
    """Return the graph with only the links that stay."""
    indptr = np.concatenate(([0], np.cumsum(stays)))[graph.indptr]
    return LinkGraph(indptr, graph.indices[stays])


def with_history(
    start: Start, known: NDArray[np.bool_], earlier: NDArray[np.float64]
) -> tuple[Start, dict[str, float]]:
    """Return the start with a URL per page, and the earlier PageRank of known pages by URL."""
    graph = start.web.graph
    urls = graph.urls or [f"http://page.example/{page}" for page in range(graph.n_pages)]
    named = LinkGraph(graph.indptr, graph.indices, graph.site, urls=urls)
    scores = {urls[page]: float(earlier[page]) for page in np.flatnonzero(known).tolist()}
    return Start(replace(start.web, graph=named), start.seeds), scores


def mean_curves(
    crawls: Sequence[Mapping[str, Crawled]], names: Iterable[str] | None = None
) -> dict[str, Series]:
    """Return the mean curve of each strategy over several crawls, with a band of their range."""
    return {
        name: mean_and_spread([each[name].points for each in crawls], 201, "range")
        for name in names or crawls[0]
    }


def curves_panel(
    title: str, curves: Mapping[str, Series | NDArray[np.float64]], starts: Sequence[Start]
) -> Panel:
    """Return a panel of cumulative PageRank against pages, with the diagonal and the bound."""
    bound = {"ideal": mean_and_spread([s.best for s in starts], POINTS).points} if starts else {}
    return Panel(
        curves,
        title,
        "share of pages fetched",
        "share of all PageRank",
        x_percent=True,
        y_percent=True,
        references={**bound, "random, expected": [(0.0, 0.0), (1.0, 1.0)]},
        x_limits=(0.0, 1.0),
        y_limits=(0.0, 1.0),
    )


def mean_with_spread(values: Sequence[float], digits: int = 3) -> str:
    """Return `mean ± sample standard deviation`, or the value alone if there is only one."""
    mean = f"{np.mean(values):.{digits}f}"
    return mean if len(values) < 2 else f"{mean} ± {np.std(values, ddof=1):.{digits}f}"
