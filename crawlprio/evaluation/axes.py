"""Axes of a figure: scales, limits and number formats.

matplotlib is imported when the first axes are formatted.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from textwrap import fill
from typing import TYPE_CHECKING, Any

import numpy as np

from crawlprio.evaluation.plots import frame

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.axis import Axis

    from crawlprio.evaluation.panels import Limits, Panel, Scale, Series

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


def format_axes(axes: Axes, panel: Panel, lines: Sequence[Series], single: bool) -> None:
    """Set scales, limits, number formats, labels and the grid of the axes."""
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
    _number(axes.xaxis, panel.x_scale, panel.x_percent, 6 if single else 5)
    _number(axes.yaxis, panel.y_scale, panel.y_percent, 6 if single else 5)
    title = fill(panel.title, 76 if single else 40)
    frame(axes, title, panel.xlabel, panel.ylabel, 13.0 if single else 12.0)


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
