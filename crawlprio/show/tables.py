"""Tables of figures, on a terminal and in files."""

from __future__ import annotations

import csv
import math
import os
import sys
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

from rich import box
from rich.console import Console
from rich.progress import track
from rich.table import Table
from rich.text import Text

from crawlprio.errors import ConfigError
from crawlprio.safe_files import open_file

if TYPE_CHECKING:
    from crawlprio.graph.linkgraph import LinkGraph

T = TypeVar("T")

LEAST_WIDTH = 80
"""Minimum width of a table; on a narrower terminal lines wrap, so that no figure is cut off."""


class PipeSafeConsole(Console):
    """A console that goes quiet when its reader exits (`| head`); rich would stop the engine."""

    def on_broken_pipe(self) -> None:
        self.quiet = True
        nowhere = os.open(os.devnull, os.O_WRONLY)
        os.dup2(nowhere, sys.stdout.fileno())
        os.close(nowhere)

    def print_pairs(self, rows: Iterable[tuple[str, str]]) -> None:
        """Print a table of names and values; values are printed as they are."""
        table = Table(show_header=False)
        table.add_column()
        table.add_column(overflow="fold")
        for name, value in rows:
            table.add_row(name, Text(value))
        self.print(table)


def wide_console() -> Console:
    """Return a console for tables, which prints texts as they are."""
    console = Console(highlight=False, markup=False, emoji=False)
    console.width = max(console.width, LEAST_WIDTH)
    return console


def graph_in_words(graph: LinkGraph) -> str:
    """Return how many pages, links and sites a graph has."""
    sites = "1 site" if graph.n_sites == 1 else f"{graph.n_sites:,} sites"
    return f"{graph.n_pages:,} pages, {graph.n_links:,} links, {sites}"


def tracked(rows: Iterable[T], what: str, total: int) -> Iterable[T]:
    """Return rows to be read, with a progress bar if standard error is a terminal."""
    console = Console(stderr=True)
    return track(
        rows, what, total=total, console=console, transient=True, disable=not console.is_terminal
    )


def figures_table(
    texts: Sequence[str], figures: Sequence[str], counts: Sequence[str] = ()
) -> Table:
    """Return a table without rows: headings of columns of texts, which wrap, and of figures.

    `counts` are those of the figures that need room for millions.
    """
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False, padding=0)
    for heading in texts:
        table.add_column(heading, overflow="fold")
    for heading in figures:
        width = len("1,000,000" if heading in counts else "0.1234")
        table.add_column(heading, justify="right", no_wrap=True, min_width=width)
    return table


def write_csv(path: str | Path, headings: Sequence[str], rows: Iterable[Sequence[object]]) -> None:
    """Write the file of `--csv`; raise `ConfigError` if that fails."""
    try:
        with open_file(path, "w", encoding="utf-8", newline="") as file:
            written = csv.writer(file, lineterminator="\n")
            written.writerow(headings)
            written.writerows(rows)
    except OSError as error:
        raise ConfigError(f"--csv {path}: writing it failed ({error.strerror}).") from None


def figure(value: float, form: str = ".4f") -> str:
    """Format a number, by default with four decimals; a dash if it is NaN."""
    return "-" if math.isnan(value) else format(value, form)
