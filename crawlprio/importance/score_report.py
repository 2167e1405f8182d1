"""Scores as people read them, tables and a plot, and as `historical-pagerank` does, a CSV.

Nothing here computes a figure.
"""

from __future__ import annotations

import csv
import math
from collections.abc import Sequence
from pathlib import Path

from rich import box
from rich.console import Console
from rich.table import Table

from crawlprio.errors import ConfigError
from crawlprio.evaluation.plots import plot_cumulative
from crawlprio.importance.base import Repository
from crawlprio.importance.opening import RecordedCrawl
from crawlprio.importance.scores import MARKS, Score
from crawlprio.orderings import ORDERINGS
from crawlprio.ranking.pagerank import round_significant

LEAST_WIDTH = 100
"""Columns of a table at least: on a narrower terminal lines wrap, and no figure is cut."""

NAME_WIDTH = max(map(len, ORDERINGS))
"""Columns of the names of orderings, so that none is broken; import paths are."""


def print_scores(repository: Repository, scores: Sequence[Score], order_name: str | None) -> None:
    """Print what was scored, the most important pages, and how good the order was.

    `order_name` is what the order is called; None: there is none.
    """
    console = Console(highlight=False, markup=False, emoji=False)
    console.width = max(console.width, LEAST_WIDTH)
    _say(console, _summary(repository))
    for scored in scores:
        _say(console, "")
        _print_top(console, repository, scored)
    ordered = [scored for scored in scores if scored.order is not None]
    if order_name is None:
        _say(console, "\nThe order of a graph's pages is judged with --order FILE.")
    if order_name is None or not ordered:
        return
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False, collapse_padding=True)
    table.add_column("importance", overflow="fold")
    table.add_column("order", overflow="fold", min_width=NAME_WIDTH)
    for heading in ("fetched", "average", *(f"{100 * mark:g} %" for mark in MARKS), "tau"):
        table.add_column(heading, justify="right", no_wrap=True, min_width=len("0.1234"))
    for scored in ordered:
        rows = {order_name: scored.order, "bound": scored.bound, "random": scored.random()}
        for name, figures in rows.items():
            assert figures is not None
            first = figures is scored.order
            table.add_row(
                scored.importance if first else "",
                name,
                f"{scored.fetched:,}" if first else "",
                *map(_share, (figures.average, *figures.gathered_at)),
                _share(scored.kendall_tau) if first else "",
            )
    console.print(table)
    _say(
        console,
        "average, x %: share of the importance of the pages that count gathered, on average over "
        "all fetches and after x % of the fetches. bound: the most that as many pages can hold. "
        "random: what as many drawn at random are expected to. tau: Kendall's, of the order "
        "against importance, pages not fetched behind all that were.",
    )


def plot_score(path: str | Path, scored: Score, order_name: str, name: str) -> None:
    """Draw the cumulative importance of the order, the bound, and the diagonal of random pages.

    The score must have an order.

    Raises
    ------
    ConfigError
        if the file cannot be written, or its name ends in no known way.
    """
    assert scored.order is not None
    assert scored.bound is not None
    plot_cumulative(
        {"upper-bound": scored.bound.curve, order_name: scored.order.curve},
        path,
        title=f"{name}: {scored.fetched:,} of {scored.n_known:,} pages",
        xlabel="share of known pages fetched",
        ylabel=f"share of their importance by {scored.importance}",
    )


def write_csv(path: str | Path, scored: Score, urls: Sequence[str]) -> None:
    """Write URL and score of each page that counts, in page order, below a line `url,score`.

    Scores have 8 significant digits, so that pages that are equal in theory are in the file too.
    The ordering `historical-pagerank` reads it.

    Raises
    ------
    ConfigError
        if the file cannot be written.
    """
    values = round_significant(scored.values).tolist()
    try:
        with Path(path).open("w", encoding="utf-8", newline="") as file:
            rows = csv.writer(file, lineterminator="\n")
            rows.writerow(("url", "score"))
            rows.writerows(
                (urls[page], values[page]) for page in scored.known.nonzero()[0].tolist()
            )
    except OSError as error:
        raise ConfigError(f"--csv {path}: writing it failed ({error.strerror}).") from None


def _summary(repository: Repository) -> str:
    """What there is, and what is unknown."""
    graph = repository.graph
    sites = "1 site" if graph.n_sites == 1 else f"{graph.n_sites:,} sites"
    what = f"{repository.name}: {graph.n_pages:,} pages, {graph.n_links:,} links, {sites}"
    if not isinstance(repository, RecordedCrawl):
        return f"{what}."
    assert repository.order is not None
    seen = graph.n_pages - len(repository.order)
    under = f" under {repository.ordering}" if repository.ordering else ""
    return (
        f"{what}. Fetched{under}: {len(repository.order):,}, of which {repository.n_failed:,} "
        f"failed; seen in links alone: {seen:,}.\nImportance is that in the graph as recorded: "
        "links of pages not fetched, and pages never seen, are unknown."
    )


def _print_top(console: Console, repository: Repository, scored: Score) -> None:
    """The most important pages, and how importance is spread."""
    urls = repository.graph.urls
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False)
    table.add_column("", justify="right")
    table.add_column(scored.importance, justify="right", no_wrap=True)
    table.add_column("page", overflow="fold")
    for rank, page in enumerate(scored.top(), 1):
        table.add_row(
            str(rank), f"{scored.values[page]:.6g}", str(page) if urls is None else urls[page]
        )
    console.print(table)
    spread = scored.distribution()
    if spread:
        _say(
            console,
            f"{scored.n_known:,} pages count; mean {spread['mean']:.4g}, median "
            f"{spread['median']:.4g}, most {spread['most']:.4g}; {spread['zero']:.1%} have 0; the "
            f"first 1 % of pages hold {_percent(spread['top_1_percent'])} of all importance, which "
            f"sums to {spread['total']:.6g}.",
        )
    for remark in scored.remarks:
        _say(console, remark)


def _say(console: Console, text: str) -> None:
    console.print(text, soft_wrap=True)


def _share(value: float) -> str:
    """A share or tau with four digits; a dash where it has no meaning."""
    return "-" if math.isnan(value) else f"{value:.4f}"


def _percent(value: float) -> str:
    return "-" if math.isnan(value) else f"{value:.1%}"
