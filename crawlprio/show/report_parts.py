"""The parts of a report: sections, tables and charts.

Colours are those of `show.figures` that are visible on white and on black. What is drawn in
`INK` has the colour of the text, which the page sets.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from crawlprio.errors import printable
from crawlprio.show.figures import (
    BLACK,
    BLUE,
    GREEN,
    ORANGE,
    ORDERING_STYLES,
    SKY,
    VERMILION,
    WINE,
    Points,
    ordering_of,
)

MAX_TEXT = 300
"""Length to which a text from the crawl is cut."""

MAX_URL = 2_083
"""Length up to which a URL is also a link."""

MAX_ROWS = 100
"""Rows of a table; the caption says how many there are."""


class Cell(NamedTuple):
    """A cell of a table.

    `text`: what it shows; printable. `value`: the number to sort by; None: sorted by the text.
    `url`: where it leads; empty: nowhere. `more`: further cells, shown on request.
    """

    text: str
    value: float | None = None
    url: str = ""
    more: Sequence[Cell] = ()


class ReportTable(NamedTuple):
    """A table with a caption; a column is numeric if the cells of its first row are."""

    caption: str
    headings: Sequence[str]
    rows: Sequence[Sequence[Cell]]


class Chart(NamedTuple):
    """A chart, and the same figures as a table for those who cannot see it.

    `name`: unique in the report; of letters and hyphens. `figure`: the chart as the plotting
    library embeds it. `table`: its most telling points.
    """

    name: str
    title: str
    figure: Mapping[str, Any]
    table: ReportTable


class ReportSection(NamedTuple):
    """A section of a report; its name is unique in it."""

    name: str
    title: str
    remarks: Sequence[str] = ()
    charts: Sequence[Chart] = ()
    tables: Sequence[ReportTable] = ()


def text(given: object) -> Cell:
    """Return a cell with a text, cut, and without control and direction characters."""
    return Cell(printable(given, MAX_TEXT))


def page(url: str) -> Cell:
    """Return a cell with a URL, which is a link if it is one of the web and not too long."""
    is_link = url.startswith(("http://", "https://")) and len(url) <= MAX_URL and url.isprintable()
    return Cell(printable(url, MAX_TEXT), url=url if is_link else "")


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
) -> ReportTable:
    """Return a table of at most `MAX_ROWS` rows, whose caption says how many there are."""
    kept = [row for row, _ in zip(rows, range(MAX_ROWS), strict=False)]
    of = f" The first {len(kept):,} of {n_rows:,}." if n_rows > len(kept) else ""
    return ReportTable(f"{caption}.{of}", headings, kept)


INK = "ink"
"""Tag of what is drawn in the colour of the text."""

COLOURS = (VERMILION, BLUE, GREEN, ORANGE, SKY)
_TAGS = {BLACK: [INK], WINE: [f"light {WINE}", "dark #DE7A9A"]}
"""For colours that cannot be seen on black: what is drawn instead, which the page sets."""

DASHES = ("solid", "dashdot", "dashed", "dotted", "dotdash")
HEIGHT = 340
LETTER_WIDTH, NAME_HEIGHT = 0.016, 0.1
"""Of a name in a picture of a graph, whose nodes are in the unit circle."""

N_POINTS = 11
"""Points of each line in the table."""


def lines(
    name: str,
    title: str,
    series: Mapping[str, Points],
    axes: tuple[str, str],
    percent: tuple[bool, bool] = (False, False),
) -> Chart:
    """Return a chart with a line for each series; orderings have their colours in all pictures."""
    plot = _plot(axes, percent)
    for place, (label, points) in enumerate(series.items()):
        x, y = np.asarray(points, dtype=np.float64).reshape(-1, 2).T
        colour = COLOURS[place % len(COLOURS)]
        colour = ORDERING_STYLES.get(ordering_of(label) or "", (colour,))[0]
        plot.line(
            x="x", y="y", source=_source(x=x, y=y), name=label, legend_label=label, line_width=2.5,
            line_color=colour, line_dash=DASHES[place % len(DASHES)],
            tags=_TAGS.get(colour, []),
        )  # fmt: skip
    forms = [("0.0 %" if is_percent else "0,0.[00]") for is_percent in percent]
    for span, is_percent in zip((plot.x_range, plot.y_range), percent, strict=True):
        if is_percent:
            span.start = 0
    _hover(plot, [("", "$name"), (axes[0], f"@x{{{forms[0]}}}"), (axes[1], f"@y{{{forms[1]}}}")])
    _legend(plot)
    return Chart(name, title, _item(plot), _sampled(title, series, axes, percent))


def bars(
    name: str,
    title: str,
    categories: Sequence[str],
    series: Mapping[str, Sequence[float]],
    axes: tuple[str, str],
) -> Chart:
    """Return a chart with a bar for each category, stacked of all series."""
    plot = _plot(axes, (False, False), x_range=list(categories))
    labels = list(series)
    columns = {f"y{k}": list(series[label]) for k, label in enumerate(labels)}
    plot.vbar_stack(
        list(columns), x="x", width=0.8, source=_source(x=list(categories), **columns),
        color=list(COLOURS[: len(labels)]), legend_label=labels, name=labels,
    )  # fmt: skip
    tips = [(axes[0], "@x"), *((label, f"@y{k}{{0,0}}") for k, label in enumerate(labels))]
    _hover(plot, tips)
    _legend(plot)
    plot.y_range.start = 0
    rows = [
        [text(category), *(number(series[label][k]) for label in labels)]
        for k, category in enumerate(categories)
    ]
    return Chart(name, title, _item(plot), ReportTable(title, [axes[0], *labels], rows))


def dots(
    name: str,
    title: str,
    points: Mapping[str, Sequence[Any]],
    axes: tuple[str, str],
    tips: Mapping[str, str],
) -> Chart:
    """Return a chart of dots on logarithmic axes: `x`, `y` and `label`; positive ones are drawn.

    `tips` are the names of all columns to be shown, with their format.
    """
    kept = [k for k, (x, y) in enumerate(zip(points["x"], points["y"], strict=True)) if x * y > 0]
    drawn = {column: [values[k] for k in kept] for column, values in points.items()}
    plot = _plot(axes, (False, False), x_axis_type="log", y_axis_type="log")
    plot.scatter(
        "x", "y", source=_source(**drawn), size=9, color=SKY, line_color=BLUE, fill_alpha=0.6
    )
    _hover(plot, [(label, f"@{{{label}}}{form}") for label, form in tips.items()])
    rows = [
        [
            text(value) if isinstance(value, str) else number(value, ",.4g")
            for value in (drawn[label][k] for label in tips)
        ]
        for k in range(min(len(kept), 20))
    ]
    return Chart(name, title, _item(plot), ReportTable(title, list(tips), rows))


def network(
    name: str,
    title: str,
    labels: Sequence[str],
    places: Sequence[tuple[float, float]],
    sizes: Sequence[float],
    edges: Sequence[tuple[int, int, int]],
    n_named: int,
) -> Chart:
    """Return a picture of a graph.

    `labels`, `places`, `sizes`: name, position in the unit circle and number of pages of each node.
    `edges`: `(source, target, links)`, those with most links first. `n_named`: how many of the
    first nodes have their name written below them, where no other name is.
    """
    plot = _plot(("", ""), (False, False))
    plot.axis.visible = False
    plot.grid.visible = False
    most = max((links for *_, links in edges), default=1)
    plot.segment(
        "x0", "y0", "x1", "y1", line_width="width", line_alpha=0.25, tags=[INK],
        source=_source(
            x0=[places[a][0] for a, *_ in edges], y0=[places[a][1] for a, *_ in edges],
            x1=[places[b][0] for _, b, _ in edges], y1=[places[b][1] for _, b, _ in edges],
            width=[0.5 + 4.0 * np.log1p(links) / np.log1p(most) for *_, links in edges],
        ),
    )  # fmt: skip
    x, y = ([place[axis] for place in places] for axis in (0, 1))
    share = np.sqrt(np.asarray(sizes) / max(max(sizes), 1))
    nodes = _source(x=x, y=y, label=list(labels), pages=list(sizes), size=8 + 24 * share)
    drawn = plot.scatter(
        "x", "y", source=nodes, size="size", color=SKY, line_color=BLUE, fill_alpha=0.8
    )
    shown = _apart(labels[:n_named], places)
    named = _source(**{name: [column[k] for k in shown] for name, column in
                       {"x": x, "y": y, "label": labels}.items()})  # fmt: skip
    plot.text(
        "x", "y", text="label", source=named, text_align="center", text_baseline="top",
        y_offset=9, text_font_size="12px", tags=[INK],
    )  # fmt: skip
    _hover(plot, [("", "@label"), ("pages", "@pages{0,0}")], [drawn])
    plot.height = 460
    rows = [[text(labels[a]), text(labels[b]), number(links)] for a, b, links in edges[:50]]
    table = ReportTable(f"{title}: links between them", ["from", "to", "links"], rows)
    return Chart(name, f"{title}: size for pages, width for links", _item(plot), table)


def _apart(labels: Sequence[str], places: Sequence[tuple[float, float]]) -> list[int]:
    """Return the nodes whose names do not cover that of an earlier one, on a wide page."""
    kept: list[int] = []
    for k, label in enumerate(labels):
        x, y = places[k]
        if all(
            abs(y - places[other][1]) > NAME_HEIGHT
            or abs(x - places[other][0]) > LETTER_WIDTH * (len(label) + len(labels[other])) / 2
            for other in kept
        ):
            kept.append(k)
    return kept


def _plot(axes: tuple[str, str], percent: tuple[bool, bool], **options: Any) -> Any:
    """Return an empty plot with transparent background; one with tools, none of them active."""
    from bokeh.models import NumeralTickFormatter
    from bokeh.plotting import figure

    plot = figure(
        height=HEIGHT, sizing_mode="stretch_width", tools="box_zoom,pan,reset,save",
        active_drag=None, toolbar_location="above", background_fill_color=None,
        border_fill_color=None, outline_line_color=None, **options,
    )  # fmt: skip
    plot.toolbar.logo = None
    for axis, label, is_percent in zip((plot.xaxis, plot.yaxis), axes, percent, strict=True):
        axis.axis_label = label
        if is_percent:
            axis.formatter = NumeralTickFormatter(format="0.[00] %")
    plot.xgrid.visible = False
    return plot


def _hover(plot: Any, tips: Sequence[tuple[str, str]], renderers: Any = "auto") -> None:
    from bokeh.models import HoverTool

    plot.add_tools(HoverTool(tooltips=list(tips), renderers=renderers, visible=False))


def _legend(plot: Any) -> None:
    """Put the legend above the plot; a click on an entry hides its line."""
    legend = plot.legend[0]
    plot.add_layout(legend, "above")
    legend.update(
        orientation="horizontal", click_policy="hide", background_fill_color=None,
        border_line_color=None, padding=2, ncols=2,
    )  # fmt: skip


def _source(**columns: Any) -> Any:
    from bokeh.models import ColumnDataSource

    return ColumnDataSource({name: list(values) for name, values in columns.items()})


def _item(plot: Any) -> Mapping[str, Any]:
    from bokeh.embed import json_item

    item: Mapping[str, Any] = json_item(plot)
    return item


def _sampled(
    title: str, series: Mapping[str, Points], axes: tuple[str, str], percent: tuple[bool, bool]
) -> ReportTable:
    """Return some points of each line: those nearest to evenly spaced places of the longest."""
    arrays = {label: np.asarray(p, dtype=np.float64).reshape(-1, 2) for label, p in series.items()}
    end = max(float(points[-1, 0]) for points in arrays.values())
    forms = [".0%" if is_percent else ",.6g" for is_percent in percent]
    rows = []
    for x in np.linspace(0.0, end, N_POINTS):
        values = [
            np.interp(x, *points.T) if x <= points[-1, 0] + 1e-9 else np.nan
            for points in arrays.values()
        ]
        rows.append([number(x, forms[0]), *(number(y, forms[1]) for y in values)])
    return ReportTable(f"{title}: {axes[1]}", [axes[0], *arrays], rows)
