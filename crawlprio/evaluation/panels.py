"""The content of a figure: series of points, and panels of series with their axes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
Points = Sequence[Sequence[float]] | Floats
Scale = Literal["linear", "log"]
Mark = Literal["line", "steps", "points", "bars"]
Limits = tuple[float | None, float | None]


@dataclass(frozen=True, slots=True)
class Series:
    """One named series of a panel.

    Parameters
    ----------
    points
        `(x, y)` with ascending x; on a logarithmic axis only positive values are drawn.
    low, high
        Lower and upper edge of a band around the line, one number per point; both or neither.
    mark
        `"line"` joins the points, `"steps"` holds each value until the next point, `"points"` and
        `"bars"` are for histograms.
    like
        Name of the series whose colour to use, such as that of the series a reference belongs to.
    """

    points: Points
    low: Sequence[float] | Floats | None = None
    high: Sequence[float] | Floats | None = None
    mark: Mark = "line"
    like: str | None = None


@dataclass(frozen=True, slots=True)
class Panel:
    """One plot of a figure.

    Parameters
    ----------
    series
        Points or `Series` by name. A name that is an ordering, or an ordering followed by a comma
        and more (`"opic, r = 64"`), has the ordering's colour in every figure.
    title, xlabel, ylabel
        Texts, with units.
    x_scale, y_scale
        `"linear"` or `"log"`.
    x_percent, y_percent
        Whether numbers are shares of 1, to be shown in percent.
    references
        Thin lines behind the others, by name: `"ideal"` is dashed, `"random"` dotted.
    x_limits, y_limits
        Limits of the axes; None: fit the data, starting at 0 if nothing is negative.
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
