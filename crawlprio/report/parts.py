"""The parts of a report: sections of tables and charts, whose texts come from anywhere."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple

from crawlprio.errors import printable

MAX_TEXT = 300
"""Length to which a text from the crawl is cut."""

MAX_URL = 2_083
"""Length up to which a URL is also a link."""

MAX_ROWS = 100
"""Rows of a table; the caption says how many there are."""


class Cell(NamedTuple):
    """A cell of a table.

    Parameters
    ----------
    text
        What it shows; printable.
    value
        The number to sort by; None: sorted by the text.
    url
        Where it leads; empty: nowhere.
    more
        Further cells, shown on request.
    """

    text: str
    value: float | None = None
    url: str = ""
    more: Sequence[Cell] = ()


class Table(NamedTuple):
    """A table with a caption; a column is numeric if the cells of its first row are."""

    caption: str
    headings: Sequence[str]
    rows: Sequence[Sequence[Cell]]


class Chart(NamedTuple):
    """A chart, and the same figures as a table for those who cannot see it.

    Parameters
    ----------
    name
        Unique in the report; of letters and hyphens.
    title
        What it shows.
    figure
        The chart as the plotting library embeds it.
    table
        Its most telling points.
    """

    name: str
    title: str
    figure: Mapping[str, Any]
    table: Table


class Section(NamedTuple):
    """A section of a report; its name is unique in it."""

    name: str
    title: str
    remarks: Sequence[str] = ()
    charts: Sequence[Chart] = ()
    tables: Sequence[Table] = ()


def text(given: object) -> Cell:
    """Return a cell with a text, cut, and without control and direction characters."""
    return Cell(_cut(str(given)))


def page(url: str) -> Cell:
    """Return a cell with a URL, which is a link if it is one of the web and not too long."""
    is_link = url.startswith(("http://", "https://")) and len(url) <= MAX_URL and url.isprintable()
    return Cell(_cut(url), url=url if is_link else "")


def number(value: float | None, form: str = ",") -> Cell:
    """Return a cell with a number; a dash for None and NaN, which sort last."""
    if value is None or not math.isfinite(value):
        return Cell("-", -math.inf)
    return Cell(format(value, form), float(value))


def pages(urls: Sequence[str], n_pages: int) -> Cell:
    """Return a cell with the number of some pages, which shows the first of them on request."""
    more = [page(url) for url in urls]
    if n_pages > len(urls):
        more.append(Cell(f"and {n_pages - len(urls):,} more"))
    return Cell(f"{n_pages:,}", n_pages, more=more)


def cut(
    caption: str, headings: Sequence[str], rows: Iterable[Sequence[Cell]], n_rows: int
) -> Table:
    """Return a table of at most `MAX_ROWS` rows, whose caption says how many there are."""
    kept = [row for row, _ in zip(rows, range(MAX_ROWS), strict=False)]
    of = f" The first {len(kept):,} of {n_rows:,}." if n_rows > len(kept) else ""
    return Table(f"{caption}.{of}", headings, kept)


def _cut(given: str) -> str:
    return printable(given if len(given) <= MAX_TEXT else f"{given[:MAX_TEXT]}...")
