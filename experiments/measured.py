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

from crawlprio.frontier import Politeness
from crawlprio.graph.synthetic import home_pages, synthetic_web
from crawlprio.measure.crawl_order import (
    best_order,
    cumulative_pagerank,
    curve,
    kendall_tau,
    reachable,
)
from crawlprio.orderings import Ordering, make_ordering
from crawlprio.show.figures import Panel, Series
from crawlprio.simulator.network import Network
from crawlprio.simulator.timed import TimedCrawl, timed_crawl
from crawlprio.store.graph_files import read_graph

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

    `timed`: pages and times. `average`: average cumulative PageRank. `tau`: Kendall's tau-b of the
    order against PageRank, on 5,000 pages. `points`: 1,001 points (share of pages fetched, share of
    PageRank).
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

    `web`: what is crawled. `seeds`: pages of the web that wait from the beginning.
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


def polite_network(
    web: Web, *, robots: int = 1, real_crawl: bool = False, seed: int = 0
) -> Network:
    """Return a network of drawn sizes, speeds and latencies.

    w is 15 s, or in a real crawl 5 s, and 15 s for sites under 100 pages.
    """
    politeness = Politeness(5.0, DELAY) if real_crawl else Politeness(DELAY)
    return drawn_network(web.graph, robots=robots, politeness=politeness, seed=seed)


def with_bandwidth(network: Network, bandwidth: float | None) -> Network:
    """Return the same network behind a link with this bandwidth in bytes/s."""
    return replace(network, bandwidth=bandwidth)


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
    """Return a panel of cumulative PageRank against pages, with the diagonal and upper bound."""
    bests = [start.best for start in starts]
    bound = {"upper-bound": mean_and_spread(bests, POINTS).points} if starts else {}
    return Panel(
        curves,
        title,
        "share of pages fetched",
        "PageRank of all pages",
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
