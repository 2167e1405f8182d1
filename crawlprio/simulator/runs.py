"""Simulated crawls and the quality of their orders, as `crawlprio simulate` reports them."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from crawlprio.errors import ConfigError
from crawlprio.evaluation import best_order, cumulative_pagerank, curve, kendall_tau, reachable
from crawlprio.importance import pagerank
from crawlprio.linkgraph import LinkGraph
from crawlprio.orderings import COMPARED, ORDERINGS, CompiledOrdering, Ordering, make_ordering
from crawlprio.orderings.baseline import LargerSitesFirst
from crawlprio.orderings.opic import Opic
from crawlprio.orderings.pagerank import BatchPageRank
from crawlprio.orderings.rules import compile_rule
from crawlprio.simulator.network import Network
from crawlprio.simulator.order_only import OnProgress, checked_seeds, runs_compiled
from crawlprio.simulator.pages import RecordedVisits
from crawlprio.simulator.run import Run, Runs
from crawlprio.simulator.sources import Source
from crawlprio.simulator.time_figures import MARKS, TimeFigures
from crawlprio.simulator.timed import timed_crawl
from crawlprio.topic import HotQueue

Orderings = str | Ordering | Iterable[str | Ordering] | Mapping[str, str | Ordering]
"""What `simulate` takes as orderings."""

ORDERING_NAMES = {cls: name for name, cls in ORDERINGS.items()}


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
    seeds: int | str | Iterable[int | str],
    orderings: Orderings = COMPARED,
    *,
    budget: int | None = None,
    network: Network | None = None,
) -> Runs:
    """Crawl a link graph once under each ordering, and return the measured crawls in that order.

    Parameters
    ----------
    graph
        The links, as from `read_graph`.
    seeds
        Where crawls start: page ids, or URLs of the graph.
    orderings
        Names or import paths, or orderings made by `make_ordering` or your class, which serve for
        one crawl; one or several, or several by the name that the run shall have. Default: those
        that `crawlprio simulate` compares.
    budget
        Maximum number of fetches; default: all pages that can be reached.
    network
        The cost of fetches; default: one at a time, which takes no time.

    Raises
    ------
    ConfigError
        If an ordering is unknown or two have the same name.
    GraphError
        If a seed is not a page of the graph.

    Notes
    -----
    The first run of a process also loads or compiles code, which counts in its `seconds`.
    """
    named = _named(orderings)
    simulation = Simulation(graph, _pages(graph, seeds), budget=budget, network=network)
    return Runs([simulation.run(name, ordering) for name, ordering in named.items()], simulation)


def _named(orderings: Orderings) -> dict[str, Ordering]:
    """Return the orderings by name; raise ConfigError if one is unknown or a name is taken."""
    if isinstance(orderings, Mapping):
        return {name: _made(given) for name, given in orderings.items()}
    named: dict[str, Ordering] = {}
    for given in [orderings] if isinstance(orderings, str | Ordering) else orderings:
        ordering = _made(given)
        name = given if isinstance(given, str) else ORDERING_NAMES.get(type(ordering))
        name = name or type(ordering).__name__
        if name in named:
            raise ConfigError(f"orderings has two named {name}; give a mapping of names to them.")
        named[name] = ordering
    return named


def _made(given: str | Ordering) -> Ordering:
    """Return the ordering, made if a name is given."""
    return given if isinstance(given, Ordering) else make_ordering(given)


def _pages(graph: LinkGraph, seeds: int | str | Iterable[int | str]) -> list[int]:
    """Return the pages for ids and URLs; raise GraphError for an unknown URL."""
    source = Source(Path("the graph"), graph)
    given = [seeds] if isinstance(seeds, int | str) else list(seeds)
    return [source.find_seeds([seed])[0] if isinstance(seed, str) else seed for seed in given]


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
