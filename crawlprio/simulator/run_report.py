"""Reports of simulated crawls: a table and a plot, on a terminal, in a file or in a notebook."""

from __future__ import annotations

from base64 import b64encode
from collections.abc import Iterator, Sequence
from html import escape
from io import StringIO
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
from rich.console import Console
from rich.table import Table

from crawlprio.evaluation.figures import Panel, plot_cumulative, plot_panels
from crawlprio.evaluation.plots import Drawing
from crawlprio.evaluation.tables import LEAST_WIDTH, figure, figures_table, wide_console
from crawlprio.simulator.network import Network
from crawlprio.simulator.time_figures import MARKS, TIME_MARKS

if TYPE_CHECKING:
    from crawlprio.simulator.run import Run, Runs
    from crawlprio.simulator.runs import Simulation

BY_PAGES, SHARE = "share of reachable pages fetched", "share of their PageRank"
_COUNTS = ("fetched", "pages/s")
_FIGURES = (*_COUNTS, "average", *(f"at {100 * mark:g} %" for mark in MARKS), "tau")


def plot_runs(path: Path, simulation: Simulation, runs: Sequence[Run], name: str) -> None:
    """Plot the curves of all runs and of the best possible order.

    If the crawls took time, the figure has four panels: PageRank by pages and by hours, pages by
    hours, and active robots by hours.

    Raises
    ------
    ConfigError
        If the file cannot be written, or its suffix is unknown.
    """
    curves = {"upper-bound": simulation.best_curve(), **{run.ordering: run.curve for run in runs}}
    title = f"{name}: {simulation.n_reachable:,} pages from {_named(simulation.seeds)}"
    timed = {run.ordering: run.timed for run in runs if run.timed and run.timed.curve_by_time}
    if not timed:
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
        Panel(
            {name: [(x, y) for x, y in curve] for name, curve in curves.items()},
            "PageRank by pages",
            BY_PAGES,
            SHARE,
            x_percent=True,
            y_percent=True,
        ),
        by_hours("PageRank by time", "share of the PageRank", 1),
        by_hours("Pages by time", "share of reachable pages", 2),
        by_hours("Active robots", "fetches in flight", 1, percent=False),
    ]
    plot_panels(panels, path, title=f"{title}. {_in_words(simulation.network)}")


def print_runs(simulation: Simulation, runs: Sequence[Run], graph_path: str) -> None:
    """Print a line on the graph, a table of the runs, and a line that explains the columns."""
    graph = simulation.graph
    console = wide_console()
    sites = "1 site" if graph.n_sites == 1 else f"{graph.n_sites:,} sites"
    console.print(
        f"{graph_path}: {graph.n_pages:,} pages, {graph.n_links:,} links, {sites}. "
        f"{simulation.n_reachable:,} pages can be reached from {_named(simulation.seeds)}."
    )
    console.print(_table(runs))
    _print_times(console, simulation, runs)
    console.print(
        "average, at x %: share of the PageRank of the reachable pages gathered, averaged over all "
        "fetches and after x % of these pages. tau: Kendall's tau of the order against PageRank."
    )


def table_text(runs: Sequence[Run]) -> str:
    """Return the table of the runs as text."""
    file = StringIO()
    # In a notebook, rich would display the table instead of writing it to the file.
    console = Console(file=file, width=LEAST_WIDTH + 20, force_jupyter=False, color_system=None)
    console.print(_table(runs), markup=False, highlight=False)
    return "\n".join(line.rstrip() for line in file.getvalue().splitlines()).strip("\n")


def table_html(runs: Runs) -> str:
    """Return the table of the runs as HTML, with their plot below it."""
    head = "".join(f"<th>{heading}</th>" for heading in ("ordering", *_FIGURES))
    rows = "".join(
        f"<tr>{''.join(f'<td>{escape(cell)}</td>' for cell in row)}</tr>" for row in _rows(runs)
    )
    table = f"<table><thead><tr>{head}</tr></thead><tbody>{rows}</tbody></table>"
    if not any(run.curve for run in runs):
        return table
    picture = b64encode(draw_runs(runs).svg().encode()).decode()
    return f'{table}<img style="max-width:100%" src="data:image/svg+xml;base64,{picture}">'


def draw_runs(runs: Runs, path: str | Path | None = None) -> Drawing:
    """Return the plot of the runs, and write it to a file if one is named; see `Runs.plot`."""

    def draw(file: Path) -> None:
        if runs.simulation is not None:
            plot_runs(file, runs.simulation, runs, "Link graph")
            return
        curves = {run.ordering: run.curve for run in runs}
        plot_cumulative(curves, file, title=", ".join(curves), xlabel=BY_PAGES, ylabel=SHARE)

    if path is not None:
        draw(Path(path))
    return Drawing(draw)


def _rows(runs: Sequence[Run]) -> Iterator[tuple[str, ...]]:
    """Yield the cells of each run: its name, and the `_FIGURES`."""
    for run in runs:
        shares = (run.average_cumulative_pagerank, *run.pagerank_at, run.kendall_tau)
        counts = (f"{run.fetched:,}", f"{run.pages_per_second:,.0f}")
        yield (run.ordering, *counts, *map(figure, shares))


def _table(runs: Sequence[Run]) -> Table:
    """Return the table of the runs."""
    table = figures_table(("ordering",), _FIGURES, _COUNTS)
    for row in _rows(runs):
        table.add_row(*row)
    return table


def _print_times(console: Console, simulation: Simulation, runs: Sequence[Run]) -> None:
    """Print the table of figures over time, if the crawls took time."""
    if not any(run.timed for run in runs):
        return
    console.print(f"{_in_words(simulation.network)}:")
    marks = [f"{100 * mark:g} % t" for mark in TIME_MARKS]
    table = figures_table(("ordering",), ("hours", "pages/hour", "robots", "in time", *marks))
    for run in runs:
        if run.timed is not None:
            table.add_row(
                run.ordering,
                f"{run.timed.hours:,.3f}",
                figure(run.timed.pages_per_hour, ",.0f"),
                figure(run.timed.mean_active_robots, ".2f"),
                *map(figure, (run.timed.average_pagerank_by_time, *run.timed.pagerank_at_time)),
            )
    console.print(table)
    console.print(
        "robots: average number of fetches in flight. in time, x % t: share of the PageRank "
        "gathered, averaged over the hours of a crawl and after x % of them."
    )


def _in_words(network: Network) -> str:
    """Describe the network in one line."""
    words = [
        f"{network.robots:,} robot{'s' if network.robots > 1 else ''}",
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
