"""Plots of crawl orders; an ordering has the same colour and line style in every plot.

matplotlib is imported when the first plot is drawn.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Any

from crawlprio.errors import ConfigError

if TYPE_CHECKING:
    from matplotlib.axes import Axes
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
WIDTH, HEIGHT = 9.0, 5.2
DOTS_PER_INCH = 150


def plot_cumulative(
    curves: Mapping[str, Sequence[Sequence[float]]],
    path: str | Path,
    *,
    title: str,
    xlabel: str = "share of pages fetched",
    ylabel: str = "share of all PageRank",
) -> None:
    """Plot one curve per ordering and write it as PNG, SVG or PDF, depending on the suffix.

    Both axes are in percent, from 0 to the end of the longest curve. The legend is outside the
    axes, with names in the order of the curves from top to bottom. A thin diagonal shows the
    expectation for a random choice of pages. The same curves always give the same file.

    Parameters
    ----------
    curves
        Points `(x, y)` by name, with ascending x, both as fractions of 1. Names in
        `ORDERING_STYLES` have the style given there; the others take `OTHER_STYLES` in turn.
    path
        File to write; ends in `.png` (1350 x 780 pixels), `.svg` or `.pdf`.
    title
        What was crawled and from where, in one line.
    xlabel, ylabel
        Labels of the axes.

    Raises
    ------
    ConfigError
        If the file has another suffix or cannot be written, or there is no curve.
    """
    path = Path(path)
    check_plot_path(path)
    drawn = {name: points for name, points in curves.items() if len(points)}
    if not drawn:
        raise ConfigError("there is no curve to plot; simulate or score at least one ordering.")

    with new_figure(WIDTH, HEIGHT) as figure:
        axes = figure.add_subplot()
        _draw_curves(axes, drawn)
        _format_axes(axes, title, xlabel, ylabel)
        save_figure(figure, path)


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
    stamp = {"png": "Software", "svg": "Date", "pdf": "CreationDate"}[path.suffix[1:].lower()]
    try:
        figure.savefig(path, metadata={stamp: None})
    except OSError as error:
        raise ConfigError(f"{path} cannot be written: {error.strerror or error}.") from error


def check_plot_path(path: str | Path) -> None:
    """Raise `ConfigError` for an unsupported suffix; call it before the work to be plotted."""
    if Path(path).suffix.lower() not in PLOT_SUFFIXES:
        raise ConfigError(f"{path} is not a plot file; its name must end in .png, .svg or .pdf.")


def styles_of(names: Sequence[str]) -> dict[str, Style]:
    """Return the style of each name: its own, or the next one for other orderings."""
    others = [name for name in names if name not in ORDERING_STYLES]
    spare = {name: OTHER_STYLES[k % len(OTHER_STYLES)] for k, name in enumerate(others)}
    return {name: ORDERING_STYLES.get(name) or spare[name] for name in names}


def _draw_curves(axes: Axes, curves: Mapping[str, Sequence[Sequence[float]]]) -> None:
    """Plot the curves, the highest first in the legend, and the diagonal behind them."""
    styles = styles_of(list(curves))
    longest = max(points[-1][0] for points in curves.values())
    highest = max(max(y for _, y in points) for points in curves.values())
    for name in sorted(curves, key=lambda name: -_area(curves[name], longest)):
        colour, line_style, width = styles[name]
        x, y = zip(*curves[name], strict=True)
        axes.plot(
            x, y, color=colour, linestyle=line_style, linewidth=width, gid=name,
            solid_capstyle="round", zorder=4 if name in FOREMOST else 3, clip_on=False,
        )  # fmt: skip
    colour, line_style, width = ORDERING_STYLES["diagonal"]
    axes.plot(
        [0, longest], [0, longest], color=colour, linestyle=line_style, linewidth=width,
        gid="diagonal", zorder=2,
    )  # fmt: skip
    axes.set_xlim(0, longest or 1.0)
    axes.set_ylim(0, 1.0 if highest > 0.8 else 1.05 * max(highest, longest) or 1.0)


def _area(points: Sequence[Sequence[float]], longest: float) -> float:
    """Return the area under a curve, extended to `longest` at its last height."""
    area = 0.0
    for (x0, y0), (x1, y1) in pairwise(points):
        area += (x1 - x0) * (y0 + y1) / 2
    return area + (longest - points[-1][0]) * points[-1][1]


def _format_axes(axes: Axes, title: str, xlabel: str, ylabel: str) -> None:
    """Format the axes in percent, and place the legend beside the plot."""
    from matplotlib.ticker import FuncFormatter, MaxNLocator

    for axis in (axes.xaxis, axes.yaxis):
        axis.set_major_locator(MaxNLocator(nbins=6, steps=[1, 2, 5, 10]))
        axis.set_major_formatter(FuncFormatter(lambda share, _: f"{100 * share:g} %"))
    frame(axes, title, xlabel, ylabel)
    # Names are stored as gids: matplotlib omits labels that begin with "_" from legends.
    lines = axes.get_lines()
    axes.legend(
        lines, [str(line.get_gid()) for line in lines],
        loc="upper left", bbox_to_anchor=(1.045, 1.0), borderaxespad=0.0, frameon=False,
        fontsize=11, handlelength=2.8, labelspacing=0.5,
    )  # fmt: skip


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
