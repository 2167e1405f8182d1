"""Figures of lines, points and bars on linear or logarithmic axes, in one or more panels.

An ordering has the same colour, line style and marker in every figure, and no two lines of a figure
differ by colour alone. Figures are as wide as a page. matplotlib is imported when the first one is
drawn.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from itertools import cycle
from pathlib import Path
from tempfile import TemporaryDirectory
from textwrap import fill
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from crawlprio.errors import ConfigError
from crawlprio.graph.arrays import Floats
from crawlprio.safe_files import open_file

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.axis import Axis
    from matplotlib.figure import Figure

Style = tuple[str, Any, float]
"""Colour, line style in matplotlib's notation, line width in points."""

BLUE, SKY, GREEN, VERMILION = "#0072B2", "#56B4E9", "#009E73", "#D55E00"
PURPLE, ORANGE, BLACK, GREY = "#B0508C", "#E69F00", "#1A1A1A", "#8C8C8C"
WINE = "#7A1230"
SOLID, DASHED, DOTTED, DASH_DOT = "-", (0, (5, 1.6)), (0, (1.2, 1.4)), (0, (6, 1.6, 1.2, 1.6))

ORDERING_STYLES: dict[str, Style] = {
    "omniscient": (BLACK, SOLID, 2.0),
    "sibling-sampling": (WINE, SOLID, 2.4),
    "scout": (WINE, DASHED, 2.0),
    "opic": (VERMILION, SOLID, 2.4),
    "pagerank": (PURPLE, SOLID, 2.0),
    "batch-pagerank": (PURPLE, DASHED, 2.0),
    "partial-pagerank": (PURPLE, DASH_DOT, 2.0),
    "historical-pagerank": (PURPLE, DOTTED, 2.2),
    "backlink-count": (GREEN, SOLID, 2.0),
    "breadth-first": (BLUE, SOLID, 2.0),
    "depth-first": (BLUE, DASHED, 2.0),
    "larger-sites-first": (ORANGE, SOLID, 2.0),
    "location": (ORANGE, DASHED, 2.0),
    "anchor-similarity": (SKY, SOLID, 2.0),
    "combined": (SKY, DASHED, 2.0),
    "fica": (GREEN, DASHED, 2.0),
    "rankmass": (GREEN, DASH_DOT, 2.0),
    "random": (GREY, SOLID, 2.0),
    "upper-bound": (BLACK, DASHED, 1.4),
    "diagonal": (GREY, DOTTED, 1.4),
}
"""Styles by ordering name, one colour per family. The colours are those of Okabe and Ito (Color
universal design, 2008), which people with common forms of colour blindness can distinguish."""

MARKERS = ("o", "s", "^", "D", "v", "P", "X", "<", ">", "p")
"""Markers of lines and points, in turn."""

FOREMOST = ("sibling-sampling", "opic")
"""Orderings that are drawn on top of the others."""

OTHER_STYLES: tuple[Style, ...] = (
    (SKY, DASH_DOT, 2.0),
    (ORANGE, DASH_DOT, 2.0),
    (BLUE, DASH_DOT, 2.0),
    (SKY, DOTTED, 2.2),
    (ORANGE, DOTTED, 2.2),
    (GREEN, DOTTED, 2.2),
)
"""Styles for user-defined orderings, in turn."""

PLOT_SUFFIXES = (".png", ".svg", ".pdf")
DOTS_PER_INCH = 150


class Drawing:
    """A plot, drawn when it is saved or when a notebook shows it.

    `draw`: draws it into a file in the format of its suffix, and raises `ConfigError` if it cannot.
    """

    def __init__(self, draw: Callable[[Path], None]) -> None:
        self.save = draw

    def svg(self) -> str:
        """Return the plot as an SVG document."""
        with TemporaryDirectory() as folder:
            file = Path(folder, "plot.svg")
            self.save(file)
            return file.read_text("utf-8")

    _repr_svg_ = svg


@contextmanager
def new_figure(width: float, height: float) -> Iterator[Figure]:
    """Yield an empty figure, size in inches, with settings that make the output reproducible."""
    import matplotlib
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    settings: Any = {
        "svg.hashsalt": "crawlprio",
        "svg.fonttype": "none",
        "pdf.fonttype": 42,
        "text.parse_math": False,
    }
    with matplotlib.rc_context(settings):
        figure = Figure(figsize=(width, height), dpi=DOTS_PER_INCH, layout="constrained")
        FigureCanvasAgg(figure)
        yield figure


def save_figure(figure: Figure, path: Path) -> None:
    """Write the figure in the format of the file's suffix, without a timestamp."""
    kind = path.suffix[1:].lower()
    stamp = {"png": "Software", "svg": "Date", "pdf": "CreationDate"}[kind]
    try:
        with open_file(path, "wb") as file:
            figure.savefig(file, format=kind, metadata={stamp: None})
    except OSError as error:
        raise ConfigError(f"{path} cannot be written: {error.strerror or error}.") from error


def check_plot_path(path: str | Path) -> None:
    """Raise `ConfigError` for an unsupported suffix; call it before the work to be plotted."""
    if Path(path).suffix.lower() not in PLOT_SUFFIXES:
        raise ConfigError(f"{path} is not a plot file; its name must end in .png, .svg or .pdf.")


def frame(axes: Axes, title: str, xlabel: str, ylabel: str, size: float = 13.0) -> None:
    """Label the axes and draw a light grid; `size` is the font size of the title in points."""
    axes.set_title(title, loc="left", fontsize=size, fontweight="bold", pad=12)
    axes.set_xlabel(xlabel, fontsize=size - 1, labelpad=7)
    axes.set_ylabel(ylabel, fontsize=size - 1, labelpad=7)
    axes.tick_params(labelsize=size - 2, length=0, pad=6)
    axes.grid(color="#E3E3E3", linewidth=0.8)
    axes.set_axisbelow(True)
    for side in ("top", "right"):
        axes.spines[side].set_visible(False)
    for side in ("left", "bottom"):
        axes.spines[side].set_color("#9A9A9A")


Points = Sequence[Sequence[float]] | Floats
Scale = Literal["linear", "log"]
Mark = Literal["line", "points", "bars"]
Limits = tuple[float | None, float | None]


@dataclass(frozen=True, slots=True)
class Series:
    """One named series of a panel.

    `points`: `(x, y)` with ascending x; on a logarithmic axis only positive values are drawn. `low`
    and `high`: edges of a band around the line, one number per point. `mark`: `"line"` joins the
    points, `"points"` and `"bars"` are for histograms. `like`: name of the series whose colour to
    use.
    """

    points: Points
    low: Sequence[float] | Floats | None = None
    high: Sequence[float] | Floats | None = None
    mark: Mark = "line"
    like: str | None = None


@dataclass(frozen=True, slots=True)
class Panel:
    """One plot of a figure.

    A name of `series` that is an ordering, or an ordering followed by a comma and more (`"opic, r =
    64"`), has the ordering's colour in every figure. `x_percent` and `y_percent`: whether numbers
    are shares of 1, to be shown in percent. `references`: thin lines behind the others, by name:
    `"upper-bound"` is dashed, `"random"` dotted. Limits that are None fit the data, starting at 0
    if nothing is negative.
    """

    series: Mapping[str, Points | Series]
    title: str
    xlabel: str
    ylabel: str
    x_scale: Scale = "linear"
    y_scale: Scale = "linear"
    x_percent: bool = False
    y_percent: bool = False
    references: Mapping[str, Points | Series] = field(default_factory=dict)
    x_limits: Limits | None = None
    y_limits: Limits | None = None


def split_at(line: Points, parts: Sequence[tuple[float, str]]) -> dict[str, list[list[float]]]:
    """Return the parts of a line, each under its name, from its x to that of the next one."""
    x, y = np.array(line, dtype=np.float64).T
    starts = [x[0], *np.clip([start for start, _ in parts[1:]], x[0], x[-1])]
    drawn: dict[str, list[list[float]]] = {}
    for (_, part), start, end in zip(parts, starts, [*starts[1:], x[-1]], strict=True):
        places = np.concatenate(([start], x[(x > start) & (x < end)], [end]))
        name = part if part not in drawn else f"{part} again, {len(drawn) + 1}"
        drawn[name] = np.column_stack((places, np.interp(places, x, y))).tolist()
    return drawn


PLAIN_COLOURS = (BLUE, VERMILION, GREEN, ORANGE, PURPLE, SKY, BLACK)
LINE_STYLES = (SOLID, DASHED, DASH_DOT, DOTTED)
THIN, WIDEST = 1.4, 3.4


def ordering_of(name: str) -> str | None:
    """Return the ordering that a name begins with, if any: `"opic, r = 64"` belongs to opic."""
    first = name.split(",")[0].split(" (")[0].strip()
    return first if first in ORDERING_STYLES else None


def figure_styles(panels: Sequence[Sequence[str]]) -> dict[str, Style]:
    """Return the style of each name of a figure, given the names in each of its panels.

    An ordering has its own style. Followed by a comma or parenthesis and more, it keeps the colour,
    and its variants differ by line style. Other names get solid lines in all colours in turn,
    except in panels with orderings, where they have those of `OTHER_STYLES`.
    """
    names = list(dict.fromkeys(name for panel in panels for name in panel))
    beside = {name for panel in panels if any(map(ordering_of, panel)) for name in panel}
    spare = cycle(OTHER_STYLES)
    whole = [n for n in names if n in beside and ordering_of(n) in (None, n)]
    styles = {name: ORDERING_STYLES.get(name) or next(spare) for name in whole}
    used = {(colour, str(line)) for colour, line, _ in styles.values()}
    for name in names:
        ordering = ordering_of(name)
        if name in styles or ordering is None:
            continue
        colour, line, width = ORDERING_STYLES[ordering]
        free = [s for s in (line, *LINE_STYLES) if (colour, str(s)) not in used]
        chosen = free[0] if free else line
        used.add((colour, str(chosen)))
        styles[name] = (colour, chosen, width)
    plain = [(c, s) for s in LINE_STYLES for c in PLAIN_COLOURS if (c, str(s)) not in used]
    others = [name for name in names if name not in styles]
    for k, name in enumerate(others):
        beside_it = next(panel for panel in panels if name in panel)
        n_above = len(beside_it) - 1 - list(beside_it).index(name)
        # Lower lines are wider, so that a line covered by others shows on both sides of them.
        styles[name] = (*plain[k % len(plain)], min(2.0 + 0.35 * n_above, WIDEST))
    return {name: styles[name] for name in names}


def reference_style(name: str, like: str | None, styles: Mapping[str, Style]) -> Style:
    """Return a thin style: upper-bound dashed, random dotted, others not; `like` colours it."""
    kind = name.split(",")[0].split(":")[0].strip()
    known = {name: ORDERING_STYLES[name] for name in ("upper-bound", "diagonal")}
    known["random"] = known["diagonal"]
    colour, line, _ = known.get(kind, (GREY, DASHED if like else DASH_DOT, THIN))
    if like is not None and like in styles:
        colour = styles[like][0]
    return colour, line, THIN


TIMES = "\u00d7"
SUPERSCRIPTS = str.maketrans("-0123456789", "⁻⁰¹²³⁴⁵⁶⁷⁸⁹")


def visible(line: Series, panel: Panel) -> Series:
    """Return the part of a series that can be drawn on the panel's axes."""
    points = np.asarray(line.points, dtype=np.float64).reshape(-1, 2)
    kept = np.isfinite(points).all(axis=1)
    if panel.x_scale == "log":
        kept &= points[:, 0] > 0
    if panel.y_scale == "log":
        kept &= points[:, 1] > 0
    if line.low is None or line.high is None:
        return replace(line, points=points[kept], low=None, high=None)
    low, high = np.asarray(line.low, np.float64)[kept], np.asarray(line.high, np.float64)[kept]
    if panel.y_scale == "log":
        low = np.where(low > 0, low, points[kept, 1])
    return replace(line, points=points[kept], low=low, high=high)


def figure_markers(names: Sequence[str]) -> dict[str, str]:
    """Return a marker for each name of a figure: that of its ordering, or the next that is free."""
    usual = {name: MARKERS[k % len(MARKERS)] for k, name in enumerate(ORDERING_STYLES)}
    markers: dict[str, str] = {}
    for name in names:
        own = usual.get(ordering_of(name) or "", MARKERS[len(markers) % len(MARKERS)])
        free = [marker for marker in (own, *MARKERS) if marker not in markers.values()]
        markers[name] = free[0] if free else own
    return markers


def format_axes(
    axes: Axes, panel: Panel, lines: Sequence[Series], width: float, size: float
) -> None:
    """Set scales, limits, number formats, labels and the grid of axes so many inches wide."""
    points = np.concatenate([np.asarray(line.points, dtype=np.float64) for line in lines])
    widened = any(line.mark in ("points", "bars") for line in lines)
    edges = [
        np.asarray(edge) for line in lines for edge in (line.low, line.high) if edge is not None
    ]
    # A band may extend beyond 0 to 100 %, the values themselves do not.
    heights = points[:, 1] if panel.y_percent else np.concatenate([points[:, 1], *edges])
    axes.set_xscale(panel.x_scale)
    axes.set_yscale(panel.y_scale)
    axes.set_xlim(
        *_ends(points[:, 0], panel.x_scale, panel.x_percent, panel.x_limits, widened, 0.0)
    )
    axes.set_ylim(*_ends(heights, panel.y_scale, panel.y_percent, panel.y_limits, False, 0.05))
    ticks = 4 if width < 4.0 else 6
    _number(axes.xaxis, panel.x_scale, panel.x_percent, ticks)
    _number(axes.yaxis, panel.y_scale, panel.y_percent, 6)
    title = fill(panel.title, int((width - 0.6) * LETTERS / size))
    frame(axes, title, panel.xlabel, panel.ylabel, size)


def _ends(
    values: Any, scale: Scale, percent: bool, limits: Limits | None, widened: bool, room: float
) -> Limits:
    """Return the limits of an axis: as given, or else from the data, with some room on top."""
    least, most = float(values.min()), float(values.max())
    if scale == "log":
        factor = max((most / least) ** 0.03, 1.15)
        low, high = least / factor, most * factor
    elif percent and least >= 0.0 and 0.8 < most <= 1.0 + 1e-9:
        low, high = 0.0, 1.0
    else:
        span = most - least or abs(most) or 1.0
        from_zero = least >= 0.0 and (room > 0.0 or least < 0.2 * most) and not widened
        low = 0.0 if from_zero else least - (0.03 * span if widened else room * span)
        high = most + (0.03 if widened else room) * span
        if high <= low:
            high = low + span
    if limits is None:
        return low, high
    return (low if limits[0] is None else limits[0]), (high if limits[1] is None else limits[1])


def _number(axis: Axis, scale: Scale, percent: bool, ticks: int) -> None:
    """Put a few ticks at round numbers, in percent or with thousands separators."""
    from matplotlib.ticker import FuncFormatter, LogLocator, MaxNLocator, NullLocator

    low, high = axis.get_view_interval()
    if scale == "log" and high > 5.0 * low:
        steps = (1.0,) if high > 100.0 * low else (1.0, 2.0, 5.0)
        axis.set_major_locator(LogLocator(subs=steps, numticks=ticks + 2))
        axis.set_minor_locator(NullLocator())
    else:
        axis.set_major_locator(MaxNLocator(nbins=ticks, steps=[1, 2, 5, 10]))
    axis.set_major_formatter(
        FuncFormatter(lambda x, _: f"{100 * x:g} %" if percent else number_text(x))
    )


def number_text(value: float) -> str:
    """Format a number for an axis: 12,000, 0.05, 10⁷, 2.5×10⁻⁶."""
    if value == 0.0:
        return "0"
    power = math.floor(math.log10(abs(value)) + 1e-9)
    if -3 <= power < 6:
        return f"{value:,.10g}"
    mantissa = f"{value / 10.0**power:.4g}"
    raised = "10" + str(power).translate(SUPERSCRIPTS)
    return raised if mantissa == "1" else mantissa + TIMES + raised


WIDTH, MOST_COLUMNS = 9.0, 3
"""Inches of a figure, and panels side by side: more could not be read at the width of a page."""

HEIGHT_SHARE, LEGEND_ROW, LINE = 0.62, 0.27, 0.3
"""Height of a panel as a share of its width, and inches of a row of the legend and of the title."""

LETTERS = 118.0
"""Letters per inch, times the font size in points, of a bold title."""

SIZES = {1: 13.0, 2: 11.5, 3: 10.5}
"""Font size of the titles of panels, by the number of columns."""

BAND_OPACITY = 0.18
MARKER_EVERY = 0.16
"""Distance of the markers of a line, as a share of the diagonal of the panel."""


def plot_cumulative(
    curves: Mapping[str, Sequence[Sequence[float]]],
    path: str | Path,
    *,
    title: str,
    xlabel: str = "share of pages fetched",
    ylabel: str = "share of the PageRank of all pages",
) -> None:
    """Plot one curve per ordering, of points `(x, y)` as fractions of 1, as PNG, SVG or PDF.

    Both axes are in percent, from 0 to the end of the longest curve. The legend has the names in
    the order of the curves from top to bottom. A thin diagonal shows the expectation for a random
    choice of pages. The same curves always give the same file. ConfigError if the file has another
    suffix or cannot be written, or there is no curve.
    """
    check_plot_path(path)
    drawn = {name: points for name, points in curves.items() if len(points)}
    if not drawn:
        raise ConfigError("there is no curve to plot; simulate or score at least one ordering.")
    longest = max(points[-1][0] for points in drawn.values())
    highest = max(y for points in drawn.values() for _, y in points)
    names = sorted(drawn, key=lambda name: -_area(drawn[name], longest))
    panel = Panel(
        {name: drawn[name] for name in names}, title, xlabel, ylabel,
        x_percent=True, y_percent=True, x_limits=(0.0, longest or 1.0),
        y_limits=(0.0, 1.0 if highest > 0.8 else 1.05 * max(highest, longest) or 1.0),
        references={"random, expected": [(0.0, 0.0), (longest, longest)]},
    )  # fmt: skip
    plot_panels([panel], path)


def _area(points: Sequence[Sequence[float]], longest: float) -> float:
    """Return the area under a curve, extended to `longest` at its last height."""
    x, y = np.array([*points, (longest, points[-1][1])]).T
    return float((np.diff(x) * (y[1:] + y[:-1])).sum() / 2)


def plot_panels(
    panels: Sequence[Panel],
    path: str | Path,
    *,
    title: str = "",
    columns: int = 2,
    own_legends: bool = False,
) -> None:
    """Draw panels in a grid, in reading order, with a common legend, and write PNG, SVG or PDF.

    A name has the same style in all panels that share a legend. A legend lists names in order of
    first use, references last. An axis that has the label of the one beside or below it has none.
    `columns`: panels per row, of which at most `MOST_COLUMNS` are beside each other. `own_legends`:
    give each panel its own legend below it, for panels with different names. ConfigError if the
    file has another suffix or cannot be written, or a panel has nothing to draw.
    """
    path = Path(path)
    check_plot_path(path)
    if columns < 1:
        raise ConfigError(f"columns is {columns}; it must be at least 1.")
    if not panels:
        raise ConfigError("there is no panel to plot; give at least one.")
    drawn = [_as_series(panel.series, panel) for panel in panels]
    for panel, lines in zip(panels, drawn, strict=True):
        if not lines:
            raise ConfigError(f"there is nothing to plot in {panel.title!r}; give a series.")
    references = [_as_series(panel.references, panel) for panel in panels]
    own_legends = own_legends and len(panels) > 1
    shared = [[list(lines)] for lines in drawn] if own_legends else [[list(n) for n in drawn]]
    styles_of_panel = [figure_styles(names) for names in shared] * (len(panels) // len(shared))

    n_columns = min(columns, len(panels), MOST_COLUMNS)
    n_rows = -(-len(panels) // n_columns)
    size = SIZES[n_columns]
    width = WIDTH / n_columns
    title = fill(title, int(WIDTH * LETTERS / 14.0))
    entries = [[*lines, *others] for lines, others in zip(drawn, references, strict=True)]
    if own_legends:
        legend_columns = 1
        rows = n_rows * max(map(len, entries))
    else:
        names = list(dict.fromkeys(name for of_panel in entries for name in of_panel))
        legend_columns = max(int(WIDTH / (0.75 + 0.078 * max(map(len, names)))), 1)
        rows = -(-len(names) // legend_columns)
    height = n_rows * (HEIGHT_SHARE * width + 0.4) + LEGEND_ROW * rows
    height += LINE * (title.count("\n") + 1) if title else 0.0
    with new_figure(WIDTH, height) as figure:
        handles: dict[str, Any] = {}
        thin_handles: dict[str, Any] = {}
        for k, (panel, styles) in enumerate(zip(panels, styles_of_panel, strict=True)):
            if own_legends:
                handles, thin_handles = {}, {}
            axes = figure.add_subplot(n_rows, n_columns, k + 1)
            markers = figure_markers(list(styles)) if len(styles) > 1 else {}
            mark = "" if len(panels) == 1 else f" ({k + 1})"
            for name, line in references[k].items():
                look = reference_style(name, line.like, styles)
                gid = f"reference{mark}: {name}"
                thin_handles.setdefault(name, _draw(axes, gid, line, look, 2, panel))
            for at, (name, line) in enumerate(drawn[k].items()):
                look = (styles.get(line.like or name, styles[name])[0], *styles[name][1:])
                level = 4 if name.startswith(FOREMOST) else 3
                marker = markers.get(name, ""), at / len(drawn[k])
                handle = _draw(axes, name + mark, line, look, level, panel, *marker)
                handles.setdefault(name, handle)
            beside = panels[k - 1].ylabel if k % n_columns else ""
            below = panels[k + n_columns].xlabel if k + n_columns < len(panels) else ""
            labelled = replace(
                panel,
                xlabel="" if panel.xlabel == below and not own_legends else panel.xlabel,
                ylabel="" if panel.ylabel == beside else panel.ylabel,
            )
            format_axes(axes, labelled, [*drawn[k].values(), *references[k].values()], width, size)
            if own_legends:
                under: Any = {"loc": "upper left", "bbox_to_anchor": (0.0, -0.22)}
                _add_legend(axes, handles, thin_handles, fontsize=9, **under)
        if title:
            figure.suptitle(title, x=0.01, ha="left", fontsize=14, fontweight="bold")
        if not own_legends:
            place: Any = {"loc": "outside lower left", "ncols": legend_columns}
            _add_legend(
                figure, handles, thin_handles, fontsize=11 if n_columns < 3 else 10, **place
            )
        save_figure(figure, path)


def _add_legend(
    owner: Axes | Figure, handles: dict[str, Any], thin_handles: dict[str, Any], **looks: Any
) -> None:
    """Add a legend of lines and references if there are at least two."""
    entries = handles | {
        f"{name} (reference)" if name in handles else name: handle
        for name, handle in thin_handles.items()
    }
    if len(entries) > 1:
        # matplotlib leaves out labels that begin with an underscore.
        owner.legend(
            list(entries.values()), ["\u200b" * (name[:1] == "_") + name for name in entries],
            frameon=False, handlelength=2.8, labelspacing=0.5, **looks,
        )  # fmt: skip


def _as_series(lines: Mapping[str, Points | Series], panel: Panel) -> dict[str, Series]:
    """Return the drawable part of each line on the panel's axes, by name."""
    series = {
        name: line if isinstance(line, Series) else Series(line) for name, line in lines.items()
    }
    clipped = {name: visible(line, panel) for name, line in series.items()}
    return {name: line for name, line in clipped.items() if len(line.points)}


def _draw(
    axes: Axes,
    gid: str,
    line: Series,
    style: Style,
    level: int,
    panel: Panel,
    marker: str = "",
    start: float = 0.0,
) -> Any:
    """Draw one series under a gid, with its first marker after a start; return its handle."""
    colour, line_style, width = style
    points = np.asarray(line.points, dtype=np.float64)
    x, y = points[:, 0], points[:, 1]
    inside = panel.x_limits is not None or panel.y_limits is not None
    if line.low is not None and line.high is not None:
        axes.fill_between(
            x, line.low, line.high, color=colour, alpha=BAND_OPACITY, linewidth=0, zorder=level - 1
        )
    if line.mark == "bars":
        gap = float(np.diff(x).min()) if len(x) > 1 else 1.0
        return axes.bar(x, y, width=0.85 * gap, color=colour, zorder=level)
    if line.mark == "points":
        return axes.plot(
            x, y, color=colour, linestyle="none", marker=marker or "o",
            markersize=4.5, gid=gid,
            markerfacecolor="none", markeredgewidth=1.2, zorder=level,
        )[0]  # fmt: skip
    return axes.plot(
        x, y, color=colour, linestyle=line_style, linewidth=width, zorder=level, gid=gid,
        clip_on=inside, solid_capstyle="round", marker=marker or ("o" if len(x) == 1 else ""),
        markersize=6.0, markeredgecolor="white", markeredgewidth=0.7,
        markevery=(start * MARKER_EVERY, MARKER_EVERY) if len(x) > 1 else None,
    )[0]  # fmt: skip
