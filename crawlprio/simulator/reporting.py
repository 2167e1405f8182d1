"""Simulated crawls as people read them: a table and a plot.

Nothing here computes a figure.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from pathlib import Path

from rich import box
from rich.console import Console
from rich.table import Table

from crawlprio.evaluation.plots import plot_cumulative
from crawlprio.simulator.runs import MARKS, Run, Simulation

LEAST_WIDTH = 100
"""Columns of the table at least: on a narrower terminal lines wrap, and no figure is cut."""


def plot_runs(path: Path, simulation: Simulation, runs: Sequence[Run], name: str) -> None:
    """Draw the curves of all runs, and that of the best order there is.

    Raises
    ------
    ConfigError
        if the file cannot be written, or its name ends in no known way.
    """
    curves = {"upper-bound": simulation.best_curve(), **{run.ordering: run.curve for run in runs}}
    plot_cumulative(
        curves,
        path,
        title=f"{name}: {simulation.n_reachable:,} pages from {_named(simulation.seeds)}",
        xlabel="share of reachable pages fetched",
        ylabel="share of their PageRank",
    )


def print_runs(simulation: Simulation, runs: Sequence[Run], graph_path: str) -> None:
    """Print the runs as a table, with a line of what was crawled and one of what figures mean."""
    graph = simulation.graph
    console = Console(highlight=False)
    console.width = max(console.width, LEAST_WIDTH)
    sites = "1 site" if graph.n_sites == 1 else f"{graph.n_sites:,} sites"
    console.print(
        f"{graph_path}: {graph.n_pages:,} pages, {graph.n_links:,} links, {sites}. "
        f"From {_named(simulation.seeds)} {simulation.n_reachable:,} pages can be reached.",
        soft_wrap=True,
        markup=False,
    )
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False)
    table.add_column("ordering", overflow="fold")
    for heading in ("fetched", "pages/s", "average", *(f"at {100 * m:g} %" for m in MARKS), "tau"):
        width = 10 if heading in ("fetched", "pages/s") else len("average")
        table.add_column(heading, justify="right", no_wrap=True, min_width=width)
    for run in runs:
        table.add_row(
            run.ordering,
            f"{run.fetched:,}",
            f"{run.pages_per_second:,.0f}",
            *map(_figure, (run.average_cumulative_pagerank, *run.pagerank_at, run.kendall_tau)),
        )
    console.print(table)
    console.print(
        "average, at x %: share of the PageRank of the reachable pages gathered, on average over "
        "all fetches and after x % of these pages. tau: Kendall's, of the order against PageRank.",
        soft_wrap=True,
        markup=False,
    )


def _figure(value: float) -> str:
    """A share or tau with four digits; a dash where it has no meaning."""
    return "-" if math.isnan(value) else f"{value:.4f}"


def _named(seeds: Sequence[int]) -> str:
    """The seeds in a few words."""
    return f"page {seeds[0]}" if len(seeds) == 1 else f"{len(seeds):,} seeds"
