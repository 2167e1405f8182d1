"""What a figure shows: series of points, and panels of series on the axes they need."""

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
    """What is drawn under one name.

    Parameters
    ----------
    points
        `(x, y)`, x rising; on a logarithmic axis only what is above 0 is drawn.
    low, high
        Lower and upper edge of a band around the line, one number for each point; both or neither.
    mark
        `"line"` joins the points, `"steps"` keeps each value up to the next, `"points"` and
        `"bars"` are for histograms.
    like
        Name whose colour this takes, such as that of the series to which a reference belongs.
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
        Points or `Series` by name. Names of orderings, alone or with a comma and more behind
        (`"opic, r = 64"`), have the ordering's colour in every figure.
    title, xlabel, ylabel
        In words, with units.
    x_scale, y_scale
        `"linear"` or `"log"`.
    x_percent, y_percent
        Whether numbers are shares of 1, to be written in percent.
    references
        Thin lines behind the others, by name: `"ideal"` is dashed, `"random"` dotted.
    x_limits, y_limits
        Ends of the axes; None: by what is drawn, from 0 on where nothing is negative.
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

    Between points lines are straight; the mean goes as far as all of them do.

    Parameters
    ----------
    runs
        Lines of `(x, y)`, x rising, such as of crawls from different seeds; at least one.
    points
        Points of the mean, >= 2.
    spread
        Band of one sample standard deviation on both sides, or from the least to the greatest.
    """
    lines = [np.asarray(run, dtype=np.float64).reshape(-1, 2) for run in runs]
    if not lines or any(len(line) == 0 for line in lines):
        raise ConfigError("a mean needs at least one line, and no empty one.")
    first = max(float(line[0, 0]) for line in lines)
    last = min(float(line[-1, 0]) for line in lines)
    if last < first:
        raise ConfigError(f"the lines have no common part: one begins at {first:g} after {last:g}.")
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
    """Return a panel of histograms as points on logarithmic axes, with lines of the laws fitted.

    Parameters
    ----------
    histograms
        By name. The height of a point is how many have one count.
    title, xlabel, ylabel
        As of `Panel`.
    fits
        Laws by name of the histogram; the legend gives their exponents.
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
