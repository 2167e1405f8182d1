"""The content of a figure: series of points, and panels of series with their axes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from crawlprio.errors import ConfigError
from crawlprio.evaluation.distributions import LogHistogram, PowerLaw

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


def mean_and_spread(
    runs: Sequence[Points], points: int = 201, spread: Literal["deviation", "range"] = "deviation"
) -> Series:
    """Return the mean of several lines and a band around it, at evenly spaced x.

    Lines are interpolated linearly; the mean covers the range of x that they have in common.

    Parameters
    ----------
    runs
        Lines of `(x, y)` with ascending x, such as crawls from different seeds; at least one.
    points
        Number of points of the mean, >= 2.
    spread
        Band of one sample standard deviation on either side, or from minimum to maximum.
    """
    lines = [np.asarray(run, dtype=np.float64).reshape(-1, 2) for run in runs]
    if not lines or any(len(line) == 0 for line in lines):
        raise ConfigError("a mean needs at least one line, and none may be empty.")
    first = max(float(line[0, 0]) for line in lines)
    last = min(float(line[-1, 0]) for line in lines)
    if last < first:
        raise ConfigError(
            f"the lines have no common range of x: one begins at {first:g}, after one ends at "
            f"{last:g}."
        )
    x = np.linspace(first, last, max(points, 2))
    heights = np.array([np.interp(x, line[:, 0], line[:, 1]) for line in lines])
    mean = heights.mean(axis=0)
    if spread == "range":
        low, high = heights.min(axis=0), heights.max(axis=0)
    else:
        deviation = heights.std(axis=0, ddof=1) if len(lines) > 1 else np.zeros(len(x))
        low, high = mean - deviation, mean + deviation
    return Series(np.column_stack((x, mean)), low, high)


def distribution_panel(
    histograms: Mapping[str, LogHistogram],
    *,
    title: str,
    xlabel: str,
    ylabel: str,
    fits: Mapping[str, PowerLaw] | None = None,
) -> Panel:
    """Return a panel of histograms as points on logarithmic axes, with lines for fitted laws.

    Parameters
    ----------
    histograms
        Histograms by name. The height of a point is its `per_count`.
    title, xlabel, ylabel
        As for `Panel`.
    fits
        Fitted laws by name of the histogram; the legend shows their exponents.
    """
    references = {}
    for name, law in (fits or {}).items():
        largest = int(histograms[name].last[-1])
        label = f"{name}: exponent {law.exponent:.2f} from {law.minimum} on"
        references[label] = Series(law.points(largest), like=name)
    return Panel(
        {name: Series(h.points(), mark="points") for name, h in histograms.items()},
        title, xlabel, ylabel, "log", "log", references=references,
    )  # fmt: skip
