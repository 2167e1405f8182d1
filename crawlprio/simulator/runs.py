"""Simulated crawls and the quality of their orders, as `crawlprio simulate` reports them."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from crawlprio.evaluation import best_order, cumulative_pagerank, curve, kendall_tau, reachable
from crawlprio.importance import pagerank
from crawlprio.linkgraph import LinkGraph
from crawlprio.orderings import CompiledOrdering, Ordering
from crawlprio.orderings.baseline import LargerSitesFirst
from crawlprio.orderings.opic import Opic
from crawlprio.orderings.pagerank import BatchPageRank
from crawlprio.orderings.rules import compile_rule
from crawlprio.pages import PageIds
from crawlprio.simulator.network import Network
from crawlprio.simulator.order_only import OnProgress, checked_seeds, runs_compiled
from crawlprio.simulator.pages import RecordedVisits
from crawlprio.simulator.time_figures import TimeFigures
from crawlprio.simulator.timed import timed_crawl
from crawlprio.topic import HotQueue

MARKS = (0.05, 0.1, 0.3)
"""Fractions of the reachable pages at which a run reports the PageRank gathered so far."""


@dataclass(frozen=True, eq=False)
class Run:
    """One simulated crawl.

    Parameters
    ----------
    ordering
        Its name.
    order
        int32, shape (fetched,): pages of the graph in the order in which their fetches started.
    seconds
        Time of the simulation alone, without reading the graph, its PageRank or the evaluation.
    average_cumulative_pagerank, kendall_tau
        As in `crawlprio.evaluation`; NaN if undefined.
    curve
        Up to 101 points [fraction of reachable pages fetched, fraction of their PageRank].
    pagerank_at
        Share of the PageRank gathered at each of `MARKS`; NaN if the crawl ended before.
    timed
        Figures over time; None if the network takes no time.
    """

    ordering: str
    order: PageIds
    seconds: float
    average_cumulative_pagerank: float
    kendall_tau: float
    curve: list[list[float]]
    pagerank_at: tuple[float, ...]
    timed: TimeFigures | None = None

    @property
    def fetched(self) -> int:
        return len(self.order)

    @property
    def pages_per_second(self) -> float:
        return self.fetched / max(self.seconds, 1e-9)

    def as_json(self) -> dict[str, Any]:
        """Return all fields but the order, for JSON; null for an undefined number."""
        return {
            "ordering": self.ordering,
            "fetched": self.fetched,
            "seconds": self.seconds,
            "pages_per_second": self.pages_per_second,
            "average_cumulative_pagerank": _or_none(self.average_cumulative_pagerank),
            "kendall_tau": _or_none(self.kendall_tau),
            "pagerank_at": {
                f"{mark:g}": _or_none(share)
                for mark, share in zip(MARKS, self.pagerank_at, strict=True)
            },
            "curve": self.curve,
            **({} if self.timed is None else self.timed.as_json()),
        }


class Simulation:
    """Crawls of one graph from the same seeds under different orderings, measured the same way.

    The PageRank of the whole graph and the set of reachable pages are computed once, on first use.

    Parameters
    ----------
    graph, seeds, budget, recorded
        As for `timed_crawl`.
    hot_queue
        Makes a new hot queue for each crawl; None: no topic.
    network
        The cost of fetches; None (the default): one fetch at a time, which takes no time. If no
        time passes, the faster order-only simulation is used.

    Raises
    ------
    GraphError
        If a seed is not a page of the graph.
    ConfigError
        If an array of the network does not fit the graph.
    """

    def __init__(
        self,
        graph: LinkGraph,
        seeds: Sequence[int],
        *,
        budget: int | None = None,
        hot_queue: Callable[[], HotQueue | None] | None = None,
        recorded: RecordedVisits | None = None,
        network: Network | None = None,
    ) -> None:
        self.graph = graph
        self.network = network or Network()
        self.network.check(graph)
        self.seeds: list[int] = checked_seeds(graph, seeds).tolist()
        self.budget = budget
        self._hot_queue = hot_queue or (lambda: None)
        self._recorded = recorded

    @cached_property
    def ranks(self) -> NDArray[np.float64]:
        """float64, shape (n_pages,): PageRank over the whole graph."""
        return pagerank(self.graph.indptr, self.graph.indices)

    @cached_property
    def reachable(self) -> NDArray[np.bool_]:
        """bool, shape (n_pages,): pages reachable from the seeds."""
        return reachable(self.graph, self.seeds)

    @cached_property
    def n_reachable(self) -> int:
        return int(self.reachable.sum())

    @property
    def n_to_fetch(self) -> int:
        """Number of pages that a crawl fetches."""
        return self.n_reachable if self.budget is None else min(self.budget, self.n_reachable)

    def run(self, name: str, ordering: Ordering, on_progress: OnProgress | None = None) -> Run:
        """Crawl under an ordering, which is opened here, and measure the order.

        Raises
        ------
        GraphError, ConfigError
            As `timed_crawl`.
        """
        truth = self.ranks if ordering.needs_truth else None
        hot_queue = self._hot_queue()
        if self._recorded is not None and not runs_compiled(ordering, hot_queue):
            self._recorded.load()
        start = time.perf_counter()
        crawl = timed_crawl(
            self.graph,
            self.seeds,
            ordering,
            self.network,
            budget=self.budget,
            hot_queue=hot_queue,
            truth=truth,
            recorded=self._recorded,
            on_progress=on_progress,
        )
        seconds = time.perf_counter() - start
        order, timed = crawl.order, None
        if self.network.takes_time:
            timed = TimeFigures.of(crawl, self.ranks, self.reachable)
        gathered = cumulative_pagerank(order, self.ranks, self.reachable)
        return Run(
            ordering=name,
            order=order,
            seconds=seconds,
            average_cumulative_pagerank=float(gathered.mean()) if len(gathered) else math.nan,
            kendall_tau=kendall_tau(order, self.ranks, reachable=self.reachable),
            curve=curve(gathered, n_pages=self.n_reachable),
            pagerank_at=tuple(self._gathered_at(gathered, mark) for mark in MARKS),
            timed=timed,
        )

    def best_curve(self) -> list[list[float]]:
        """Return the curve of all reachable pages by descending PageRank, the upper bound."""
        order = best_order(self.ranks, self.reachable)
        gathered = cumulative_pagerank(order, self.ranks, self.reachable)
        return curve(gathered[: self.n_to_fetch], n_pages=self.n_reachable)

    def as_json(self, runs: Sequence[Run]) -> dict[str, Any]:
        """Return the parameters of the simulation and the results of its runs, for JSON."""
        return {
            "pages": self.graph.n_pages,
            "links": self.graph.n_links,
            "sites": self.graph.n_sites,
            "seeds": self.seeds,
            "budget": self.budget,
            "reachable": self.n_reachable,
            **({"network": self.network.as_json()} if self.network.takes_time else {}),
            "runs": [run.as_json() for run in runs],
        }

    def _gathered_at(self, gathered: NDArray[np.float64], mark: float) -> float:
        """Return the share gathered at a fraction, rounded up, of the reachable pages."""
        n_fetched = max(math.ceil(mark * self.n_reachable), 1)
        return float(gathered[n_fetched - 1]) if n_fetched <= len(gathered) else math.nan


def simulate(
    graph: LinkGraph,
    seeds: Sequence[int],
    orderings: Mapping[str, Ordering],
    *,
    budget: int | None = None,
    network: Network | None = None,
) -> list[Run]:
    """Return one measured crawl per ordering, in the given order; see `Simulation`."""
    simulation = Simulation(graph, seeds, budget=budget, network=network)
    return [simulation.run(name, ordering) for name, ordering in orderings.items()]


def compile_kernels(
    orderings: Iterable[type[Ordering]] = (), *, in_time: bool = False, by_site: bool = False
) -> None:
    """Compile all code that a simulation runs, or load it from numba's cache.

    Called before a run so that compilation does not count in its time.

    Parameters
    ----------
    orderings
        The orderings to be simulated; their rules and loops are compiled.
    in_time
        Also compile code that only a network that takes time needs.
    by_site
        Also compile code that only orderings with a `site_share` need.
    """
    chosen = [cls for cls in orderings if issubclass(cls, CompiledOrdering)]
    for cls in chosen:
        compile_rule(cls.rule)
    graph = LinkGraph.cleaned(np.array([0, 1, 1]), np.array([1]))
    slow = Network(robots=2, bandwidth=1.0, latency=1.0, page_bytes=1.0)
    simulation = Simulation(graph, [0], network=slow if in_time else None)
    runs: list[Ordering] = [Opic(), Opic(history=True), BatchPageRank(every=1)]
    if by_site or any(cls.by_waiting_pages for cls in chosen):
        runs.append(LargerSitesFirst())
    for ordering in runs:
        simulation.run("", ordering)


def _or_none(value: float) -> float | None:
    """Return the number, or None if JSON cannot represent it."""
    return value if math.isfinite(value) else None
