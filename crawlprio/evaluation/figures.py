"""Figures of lines, points and bars on linear or logarithmic axes, in one or more panels.

matplotlib is imported when the first figure is drawn.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from textwrap import fill
from typing import TYPE_CHECKING, Any

import numpy as np

from crawlprio.errors import ConfigError
from crawlprio.evaluation.axes import format_axes, visible
from crawlprio.evaluation.looks import figure_styles, reference_style
from crawlprio.evaluation.panels import (
    Panel,
    Points,
    Series,
)
from crawlprio.evaluation.plots import FOREMOST, SOLID, check_plot_path, new_figure, save_figure

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

    from crawlprio.evaluation.plots import Style

__all__ = ["Panel", "Series", "plot_cumulative", "plot_panels"]

PANEL_WIDTH, PANEL_HEIGHT = 4.6, 3.7
LEGEND_WIDTH, LEGEND_LETTER, LEGEND_ROW = 0.8, 0.085, 0.22
TITLE_LETTERS = 8.0
"""Letters per inch at the font size of the figure's title."""
SINGLE_WIDTH, SINGLE_HEIGHT = 9.0, 5.2
BAND_OPACITY = 0.18


def plot_cumulative(
    curves: Mapping[str, Sequence[Sequence[float]]],
    path: str | Path,
    *,
    title: str,
    xlabel: str = "share of pages fetched",
    ylabel: str = "share of all PageRank",
) -> None:
    """Plot one curve per ordering and write it as PNG, SVG or PDF, depending on the suffix.

    Both axes are in percent, from 0 to the end of the longest curve. The legend has
    the names in the order of the curves from top to bottom. A thin diagonal shows the expectation
    for a random choice of pages. The same curves always give the same file.

    Parameters
    ----------
    curves
        Points `(x, y)` by name, with ascending x, both as fractions of 1. Names in
        `ORDERING_STYLES` have the style given there; the others take `OTHER_STYLES` in turn.
    path
        File to write; ends in `.png`, `.svg` or `.pdf`.
    title
        What was crawled and from where, in one line.
    xlabel, ylabel
        Labels of the axes.

    Raises
    ------
    ConfigError
        If the file has another suffix or cannot be written, or there is no curve.
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
        references={"diagonal": [(0.0, 0.0), (longest, longest)]},
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
    """Draw panels in a grid with a common legend, and write PNG, SVG or PDF.

    A name has the same style in all panels that share a legend. A legend lists names in order of
    first use, references last.

    Parameters
    ----------
    panels
        In reading order; the last row may be incomplete.
    path
        File to write; ends in `.png`, `.svg` or `.pdf`.
    title
        Title of the figure; none by default.
    columns
        Panels per row, >= 1.
    own_legends
        Give each panel its own legend below it, for panels with different names. Default: one
        legend beside all panels.

    Raises
    ------
    ConfigError
        If the file has another suffix or cannot be written, or a panel has nothing to draw.
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

    n_columns = min(columns, len(panels))
    n_rows = -(-len(panels) // n_columns)
    single = len(panels) == 1
    longest = max(len(name) for lines in (*drawn, *references) for name in lines)
    width, height = SINGLE_WIDTH, SINGLE_HEIGHT
    if not single:
        title = fill(title, int(PANEL_WIDTH * n_columns * TITLE_LETTERS))
        width = PANEL_WIDTH * n_columns
        width += 0.0 if own_legends else LEGEND_WIDTH + LEGEND_LETTER * longest
        most = max(len(one) + len(two) for one, two in zip(drawn, references, strict=True))
        legend_rows = most if own_legends else 0
        height = (PANEL_HEIGHT + LEGEND_ROW * legend_rows) * n_rows
        height += 0.3 * (title.count("\n") + 1) if title else 0.0
    with new_figure(width, height) as figure:
        handles: dict[str, Any] = {}
        thin_handles: dict[str, Any] = {}
        for k, (panel, styles) in enumerate(zip(panels, styles_of_panel, strict=True)):
            if own_legends:
                handles, thin_handles = {}, {}
            axes = figure.add_subplot(n_rows, n_columns, k + 1)
            mark = "" if single else f" ({k + 1})"
            for name, line in references[k].items():
                look = reference_style(name, line.like, styles)
                gid = f"reference{mark}: {name}"
                thin_handles.setdefault(name, _draw(axes, gid, line, look, 2, panel))
            for name, line in drawn[k].items():
                look = styles[name] if line.like is None else _like(styles, name, line.like)
                level = 4 if name.startswith(FOREMOST) else 3
                handles.setdefault(name, _draw(axes, name + mark, line, look, level, panel))
            format_axes(axes, panel, [*drawn[k].values(), *references[k].values()], single)
            if own_legends:
                below: Any = {"loc": "upper left", "bbox_to_anchor": (0.0, -0.16)}
                _add_legend(axes, handles, thin_handles, fontsize=9, **below)
        if title:
            figure.suptitle(title, x=0.01, ha="left", fontsize=14, fontweight="bold")
        if single:
            place: Any = {"loc": "upper left", "bbox_to_anchor": (1.045, 1.0), "borderaxespad": 0.0}
            _add_legend(axes, handles, thin_handles, fontsize=11, **place)
        elif not own_legends:
            place = {"loc": "outside right upper", "borderaxespad": 0.6}
            _add_legend(figure, handles, thin_handles, fontsize=11, **place)
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
        owner.legend(
            list(entries.values()), [_shown(name) for name in entries],
            frameon=False, handlelength=2.8, labelspacing=0.5, **looks,
        )  # fmt: skip


def _as_series(lines: Mapping[str, Points | Series], panel: Panel) -> dict[str, Series]:
    """Return the drawable part of each line on the panel's axes, by name."""
    series = {
        name: line if isinstance(line, Series) else Series(line) for name, line in lines.items()
    }
    clipped = {name: visible(line, panel) for name, line in series.items()}
    return {name: line for name, line in clipped.items() if len(line.points)}


def _like(styles: Mapping[str, Style], name: str, other: str) -> Style:
    """Return the style of a name in the colour of another name."""
    return (styles.get(other, styles[name])[0], *styles[name][1:])


def _shown(name: str) -> str:
    """Return a legend label that matplotlib shows even if the name begins with an underscore."""
    return "\u200b" + name if name.startswith("_") else name


def _draw(axes: Axes, gid: str, line: Series, style: Style, level: int, panel: Panel) -> Any:
    """Draw one series under a gid, and return its legend handle."""
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
            x, y, color=colour, linestyle="none", marker="o" if line_style == SOLID else "s",
            markersize=4.5, gid=gid,
            markerfacecolor="none", markeredgewidth=1.2, zorder=level,
        )[0]  # fmt: skip
    return axes.plot(
        x, y, color=colour, linestyle=line_style, linewidth=width, zorder=level, gid=gid,
        drawstyle="steps-post" if line.mark == "steps" else "default", clip_on=inside,
        solid_capstyle="round", marker="o" if len(x) == 1 else "",
    )[0]  # fmt: skip
