"""Simulated crawls under several orderings: run, measured, and shown as tables and plots."""

from __future__ import annotations

import math
import time
from base64 import b64encode
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from html import escape
from io import StringIO
from pathlib import Path
from typing import Any, overload

import numpy as np
from numpy.typing import NDArray
from rich.console import Console
from rich.table import Table

from crawlprio.errors import ConfigError
from crawlprio.graph.linkgraph import LinkGraph
from crawlprio.graph.pages import PageIds
from crawlprio.graph.topic import HotQueue
from crawlprio.measure.crawl_order import (
    best_order,
    cumulative_pagerank,
    curve,
    kendall_tau,
    reachable,
)
from crawlprio.measure.scores import finite, order_score, shares_at
from crawlprio.orderings import COMPARED, ORDERINGS, CompiledOrdering, Ordering, make_ordering
from crawlprio.orderings.base import compile_rule
from crawlprio.orderings.baseline import LargerSitesFirst
from crawlprio.orderings.by_pagerank import BatchPageRank
from crawlprio.orderings.opic import Opic
from crawlprio.ranking.pagerank import pagerank
from crawlprio.show.figures import Drawing, Panel, plot_cumulative, plot_panels
from crawlprio.show.tables import LEAST_WIDTH, figure, figures_table, graph_in_words, wide_console
from crawlprio.simulator.graph_pages import RecordedVisits, Source
from crawlprio.simulator.network import Network
from crawlprio.simulator.order_only import OnProgress, checked_seeds, runs_compiled
from crawlprio.simulator.timed import TIME_MARKS, TimeFigures, timed_crawl

BY_PAGES, SHARE = "share of reachable pages fetched", "share of the PageRank of all of them"
MARKS = (0.05, 0.1, 0.3)
"""Fractions of the reachable pages at which a run reports the PageRank gathered so far."""

_COUNTS = ("fetched", "pages/s")
_FIGURES = (*_COUNTS, "average", *(f"at {100 * mark:g} %" for mark in MARKS), "tau")


def plot_runs(path: Path, simulation: Simulation | None, runs: Sequence[Run], name: str) -> None:
    """Plot the curves of all runs and, if it is known what they simulate, of the best order.

    If the crawls took time, the figure has four panels: PageRank by pages and by hours, pages by
    hours, and active robots by hours.

    Raises `ConfigError` if the file cannot be written, or its suffix is unknown.
    """
    curves = {run.ordering: run.curve for run in runs}
    title = ", ".join(curves)
    if simulation is not None:
        curves = {"upper-bound": simulation.best_curve(), **curves}
        title = f"{name}: {simulation.n_reachable:,} pages from {_named(simulation.seeds)}"
    timed = {run.ordering: run.timed for run in runs if run.timed and run.timed.curve_by_time}
    if simulation is None or not timed:
        plot_cumulative(curves, path, title=title, xlabel=BY_PAGES, ylabel=SHARE)
        return

    def by_hours(title: str, ylabel: str, column: int, percent: bool = True) -> Panel:
        rows = {
            name: figures.curve_by_time if percent else figures.active_robots
            for name, figures in timed.items()
        }
        lines = {name: [(row[0], row[column]) for row in of_run] for name, of_run in rows.items()}
        return Panel(lines, title, "hours", ylabel, y_percent=percent)

    panels = [
        Panel(curves, "PageRank by pages", BY_PAGES, SHARE, x_percent=True, y_percent=True),
        by_hours("PageRank by time", "share of the PageRank of all pages", 1),
        by_hours("Pages by time", "share of reachable pages", 2),
        by_hours("Active robots", "fetches in flight", 1, percent=False),
    ]
    plot_panels(panels, path, title=f"{title}. {_in_words(simulation.network, runs)}")


def print_runs(simulation: Simulation, runs: Sequence[Run], graph_path: str) -> None:
    """Print a line on the graph, a table of the runs, and a line that explains the columns."""
    graph = simulation.graph
    console = wide_console()
    console.print(
        f"{graph_path}: {graph_in_words(graph)}. "
        f"{simulation.n_reachable:,} pages can be reached from {_named(simulation.seeds)}."
    )
    console.print(_table(runs))
    _print_times(console, simulation, runs)
    console.print(
        "average, at x %: share gathered of the PageRank of all reachable pages, averaged over all "
        "fetches and after x % of these pages. tau: Kendall's tau of the order against PageRank."
    )


def _rows(runs: Sequence[Run]) -> Iterator[tuple[str, ...]]:
    """Yield the cells of each run: its name, and the `_FIGURES`."""
    for run in runs:
        shares = (run.average_cumulative_pagerank, *run.pagerank_at, run.kendall_tau)
        counts = (f"{run.fetched:,}", f"{run.pages_per_second:,.0f}")
        yield (run.ordering, *counts, *map(figure, shares))


def _table(runs: Sequence[Run]) -> Table:
    table = figures_table(("ordering",), _FIGURES, _COUNTS)
    for row in _rows(runs):
        table.add_row(*row)
    return table


def _print_times(console: Console, simulation: Simulation, runs: Sequence[Run]) -> None:
    """Print the table of figures over time, if the crawls took time."""
    if not any(run.timed for run in runs):
        return
    console.print(f"{_in_words(simulation.network, runs)}:")
    several = len({run.robots for run in runs}) > 1
    marks = () if several else TIME_MARKS
    has_limit = simulation.network.bandwidth is not None
    least = ("T*",) if has_limit else ()
    speed = (*least, "hours", "pages/hour", *(["speed-up"] if several else []), "robots", "in time")
    table = figures_table(("ordering",), (*speed, *(f"{100 * mark:g} % t" for mark in marks)))
    for run in runs:
        if run.timed is not None:
            shares = run.timed.average_pagerank_by_time, *run.timed.pagerank_at_time
            table.add_row(
                run.ordering,
                *([f"{run.timed.optimal_hours:,.3f}"] if has_limit else []),
                f"{run.timed.hours:,.3f}",
                figure(run.timed.pages_per_hour, ",.0f"),
                *([figure(_speed_up(run, runs), ".2f")] if several else []),
                figure(run.timed.mean_active_robots, ".2f"),
                *map(figure, shares[: len(marks) + 1]),
            )
    console.print(table)
    over = "speed-up: pages per hour over those of the ordering with the fewest robots. "
    full = "T*: hours in which the link, if it were always full, could carry these pages. "
    after = "" if several else ", x % t"
    of_them = "" if several else " and after x % of them"
    console.print(
        f"{full if has_limit else ''}{over if several else ''}robots: average number of fetches in "
        f"flight. in time{after}: share gathered of the PageRank of all reachable pages, averaged "
        f"over the hours of a crawl{of_them}."
    )


def run_name(ordering: str, robots: int) -> str:
    """Return the name of the run of an ordering that is simulated with several numbers of robots.

    Its line in a plot has the colour of the ordering.
    """
    return f"{ordering}, r = {robots:,}"


def _speed_up(run: Run, runs: Sequence[Run]) -> float:
    """Return the ratio of a run's rate to that of its ordering with the fewest robots.

    Castillo et al., Scheduling algorithms for Web crawling, LA-WEB 2004, table I.
    """
    policy = run.ordering.partition(", r = ")[0]
    alike = (each for each in runs if each.ordering.partition(", r = ")[0] == policy)
    base = min(alike, key=lambda each: each.robots)
    if run.timed is None or base.timed is None:
        return math.nan
    return run.timed.pages_per_hour / base.timed.pages_per_hour


def _in_words(network: Network, runs: Sequence[Run]) -> str:
    """Describe the network of some runs in one line."""
    robots = sorted({run.robots for run in runs})
    *others, most = map("{:,}".format, robots)
    words = [
        f"{', '.join(others)} and {most} robots"
        if others
        else f"{most} robot{'s' if robots[0] > 1 else ''}",
        *network.politeness.in_words(),
    ]
    if network.pages_per_visit > 1:
        words.append(f"{network.pages_per_visit:,} pages per visit")
    if network.bandwidth is not None:
        words.append(f"{network.bandwidth:,.0f} bytes/s")
    for numbers, words_of in (
        (network.latency, "latency {} s"),
        (network.page_bytes, "pages of {} bytes"),
        (network.site_speed, "sites of {} bytes/s"),
    ):
        if numbers is not None and np.any(np.asarray(numbers) > 0):
            median = "a median " if np.ndim(numbers) else ""
            words.append(words_of.format(f"{median}{np.median(numbers):,.6g}"))
    return ", ".join(words)


def _named(seeds: Sequence[int]) -> str:
    """Describe the seeds in a few words."""
    return f"page {seeds[0]}" if len(seeds) == 1 else f"{len(seeds):,} seeds"


@dataclass(frozen=True, eq=False, repr=False)
class Run:
    """One simulated crawl; it prints as a table, and a notebook shows it with its plot.

    Parameters
    ----------
    ordering
        Its name.
    order
        int32, shape (fetched,): pages of the graph in the order in which their fetches started.
    seconds
        Time of the simulation alone, without reading the graph, its PageRank or the evaluation.
    average_cumulative_pagerank, kendall_tau
        As in `crawlprio.measure`; NaN if undefined.
    curve
        Up to 101 points [fraction of reachable pages fetched, fraction of their PageRank].
    pagerank_at
        Share of the PageRank gathered at each of `MARKS`; NaN if the crawl ended before.
    timed
        Figures over time; None if the network takes no time.
    robots
        Maximum number of fetches in flight.
    """

    ordering: str
    order: PageIds
    seconds: float
    average_cumulative_pagerank: float
    kendall_tau: float
    curve: list[list[float]]
    pagerank_at: tuple[float, ...]
    timed: TimeFigures | None = None
    robots: int = 1

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
            "average_cumulative_pagerank": finite(self.average_cumulative_pagerank),
            "kendall_tau": finite(self.kendall_tau),
            "pagerank_at": {
                f"{mark:g}": finite(share)
                for mark, share in zip(MARKS, self.pagerank_at, strict=True)
            },
            "curve": self.curve,
            **({} if self.timed is None else {"robots": self.robots} | self.timed.as_json()),
        }

    def plot(self, path: str | Path | None = None) -> Drawing:
        """Draw the share of the PageRank by pages fetched; see `Runs.plot`."""
        return Runs([self]).plot(path)

    def __repr__(self) -> str:
        return repr(Runs([self]))

    def _repr_html_(self) -> str:
        return Runs([self])._repr_html_()


class Runs(Sequence[Run]):
    """The runs of one simulation, in the order simulated, by position or by name of the ordering.

    They print as a table, and a notebook shows them with their plot.

    Parameters
    ----------
    runs
        The runs.
    simulation
        What they are runs of: the plot then has its title and the upper bound.
    """

    def __init__(self, runs: Sequence[Run], simulation: Simulation | None = None) -> None:
        self._runs = tuple(runs)
        self.simulation = simulation

    def __len__(self) -> int:
        return len(self._runs)

    def __iter__(self) -> Iterator[Run]:
        return iter(self._runs)

    @overload
    def __getitem__(self, key: int | str) -> Run: ...
    @overload
    def __getitem__(self, key: slice) -> Runs: ...
    def __getitem__(self, key: int | str | slice) -> Run | Runs:
        if isinstance(key, slice):
            return Runs(self._runs[key], self.simulation)
        if isinstance(key, int):
            return self._runs[key]
        for run in self._runs:
            if run.ordering == key:
                return run
        names = ", ".join(run.ordering for run in self._runs)
        raise KeyError(f"no run has the ordering {key!r}; there are {names or 'none'}")

    def plot(self, path: str | Path | None = None) -> Drawing:
        """Draw the curves of all runs, and return the picture, which notebooks show.

        Parameters
        ----------
        path
            A `.png`, `.svg` or `.pdf` file to write as well.

        Raises
        ------
        ConfigError
            If the file has another suffix or cannot be written, or there is no run.
        """

        def draw(file: Path) -> None:
            plot_runs(file, self.simulation, self, "Link graph")

        if path is not None:
            draw(Path(path))
        return Drawing(draw)

    def __repr__(self) -> str:
        file = StringIO()
        # In a notebook, rich would display the table instead of writing it to the file.
        console = Console(file=file, width=LEAST_WIDTH + 20, force_jupyter=False, color_system=None)
        console.print(_table(self), markup=False, highlight=False)
        return "\n".join(line.rstrip() for line in file.getvalue().splitlines()).strip("\n")

    def _repr_html_(self) -> str:
        head = "".join(f"<th>{heading}</th>" for heading in ("ordering", *_FIGURES))
        rows = "".join(
            f"<tr>{''.join(f'<td>{escape(cell)}</td>' for cell in row)}</tr>" for row in _rows(self)
        )
        table = f"<table><thead><tr>{head}</tr></thead><tbody>{rows}</tbody></table>"
        if not any(run.curve for run in self):
            return table
        picture = b64encode(self.plot().svg().encode()).decode()
        return f'{table}<img style="max-width:100%" src="data:image/svg+xml;base64,{picture}">'


AnOrdering = str | type[Ordering] | Ordering
Orderings = AnOrdering | Iterable[AnOrdering] | Mapping[str, AnOrdering]
"""What `simulate` takes as orderings."""


class Simulation:
    """Crawls of one graph from the same seeds under different orderings, measured the same way.

    The PageRank of the whole graph and the set of reachable pages are computed once, on first use.
    `budget`, `recorded`: as for `timed_crawl`. `hot_queue`: makes a new hot queue for each crawl.
    `network`: the cost of fetches; if no time passes, as by default, the faster order-only
    simulation is used. GraphError if a seed is not a page of the graph; ConfigError if an array of
    the network does not fit it.
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
        self._hot_queue = hot_queue  # no lambda, which could not be pickled
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

    def run(
        self,
        name: str,
        ordering: Ordering,
        on_progress: OnProgress | None = None,
        robots: int | None = None,
    ) -> Run:
        """Crawl under an ordering, which is opened here, and measure the order.

        `robots`: instead of those of the network.

        Raises `GraphError` or `ConfigError` as `timed_crawl`.
        """
        network = self.network if robots is None else replace(self.network, robots=robots)
        truth = self.ranks if ordering.needs_truth else None
        hot_queue = None if self._hot_queue is None else self._hot_queue()
        if self._recorded is not None and not runs_compiled(ordering, hot_queue):
            self._recorded.load()
        start = time.perf_counter()
        crawl = timed_crawl(
            self.graph,
            self.seeds,
            ordering,
            network,
            budget=self.budget,
            hot_queue=hot_queue,
            truth=truth,
            recorded=self._recorded,
            on_progress=on_progress,
        )
        seconds = time.perf_counter() - start
        order, timed = crawl.order, None
        if network.takes_time:
            timed = TimeFigures.of(crawl, self.ranks, self.reachable, network)
        gathered = cumulative_pagerank(order, self.ranks, self.reachable)
        judged = order_score(gathered, self.n_reachable)
        return Run(
            ordering=name,
            order=order,
            seconds=seconds,
            average_cumulative_pagerank=judged.average,
            kendall_tau=kendall_tau(order, self.ranks, reachable=self.reachable),
            curve=judged.curve,
            pagerank_at=shares_at(gathered, self.n_reachable, MARKS),
            timed=timed,
            robots=network.robots,
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
        Names, import paths or classes, or orderings made by `make_ordering` or your class, which
        serve for one crawl; one or several, or several by the name that the run shall have.
        Default: those that `crawlprio simulate` compares.
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
    named = _named_runs(orderings)
    simulation = Simulation(graph, _pages(graph, seeds), budget=budget, network=network)
    return Runs([simulation.run(name, ordering) for name, ordering in named.items()], simulation)


def _named_runs(orderings: Orderings) -> dict[str, Ordering]:
    """Return the orderings by name; raise ConfigError if one is unknown or a name is taken."""
    if isinstance(orderings, Mapping):
        return {name: _made(given) for name, given in orderings.items()}
    named: dict[str, Ordering] = {}
    for given in [orderings] if isinstance(orderings, str | type | Ordering) else orderings:
        ordering = _made(given)
        known = (name for name, cls in ORDERINGS.items() if cls is type(ordering))
        name = given if isinstance(given, str) else next(known, type(ordering).__name__)
        if name in named:
            raise ConfigError(f"orderings has two named {name}; give a mapping of names to them.")
        named[name] = ordering
    return named


def _made(given: AnOrdering) -> Ordering:
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

    Called before a run so that compilation does not count in its time. `in_time` and `by_site`:
    also what only a network that takes time needs, and orderings with a `site_share`.
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
