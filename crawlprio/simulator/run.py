"""The results of a simulation: a run for each ordering, shown as a table and a plot."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, overload

from crawlprio.pages import PageIds
from crawlprio.simulator.time_figures import MARKS, TimeFigures

if TYPE_CHECKING:
    from crawlprio.evaluation.plots import Drawing
    from crawlprio.simulator.runs import Simulation


@dataclass(frozen=True, eq=False, repr=False)
class Run:
    """One simulated crawl; it prints as a table, and a notebook shows it with its plot.

    Parameters
    ----------
    ordering
        Its name.
    order
        int32, shape (fetched,): pages of the graph in the order in which their fetches started.
    seconds
        Time of the simulation alone, without reading the graph, its PageRank or the evaluation.
    average_cumulative_pagerank, kendall_tau
        As in `crawlprio.evaluation`; NaN if undefined.
    curve
        Up to 101 points [fraction of reachable pages fetched, fraction of their PageRank].
    pagerank_at
        Share of the PageRank gathered at each of `MARKS`; NaN if the crawl ended before.
    timed
        Figures over time; None if the network takes no time.
    """

    ordering: str
    order: PageIds
    seconds: float
    average_cumulative_pagerank: float
    kendall_tau: float
    curve: list[list[float]]
    pagerank_at: tuple[float, ...]
    timed: TimeFigures | None = None

    @property
    def fetched(self) -> int:
        return len(self.order)

    @property
    def pages_per_second(self) -> float:
        return self.fetched / max(self.seconds, 1e-9)

    def as_json(self) -> dict[str, Any]:
        """Return all fields but the order, for JSON; null for an undefined number."""
        return {
            "ordering": self.ordering,
            "fetched": self.fetched,
            "seconds": self.seconds,
            "pages_per_second": self.pages_per_second,
            "average_cumulative_pagerank": _or_none(self.average_cumulative_pagerank),
            "kendall_tau": _or_none(self.kendall_tau),
            "pagerank_at": {
                f"{mark:g}": _or_none(share)
                for mark, share in zip(MARKS, self.pagerank_at, strict=True)
            },
            "curve": self.curve,
            **({} if self.timed is None else self.timed.as_json()),
        }

    def plot(self, path: str | Path | None = None) -> Drawing:
        """Draw the share of the PageRank by pages fetched; see `Runs.plot`."""
        return Runs([self]).plot(path)

    def __repr__(self) -> str:
        return repr(Runs([self]))

    def _repr_html_(self) -> str:
        return Runs([self])._repr_html_()


class Runs(Sequence[Run]):
    """The runs of one simulation, in the order simulated, by position or by name of the ordering.

    They print as a table, and a notebook shows them with their plot.

    Parameters
    ----------
    runs
        The runs.
    simulation
        What they are runs of: the plot then has its title and the best possible order.
    """

    def __init__(self, runs: Sequence[Run], simulation: Simulation | None = None) -> None:
        self._runs = tuple(runs)
        self.simulation = simulation

    def __len__(self) -> int:
        return len(self._runs)

    def __iter__(self) -> Iterator[Run]:
        return iter(self._runs)

    @overload
    def __getitem__(self, key: int | str) -> Run: ...
    @overload
    def __getitem__(self, key: slice) -> Runs: ...
    def __getitem__(self, key: int | str | slice) -> Run | Runs:
        if isinstance(key, slice):
            return Runs(self._runs[key], self.simulation)
        if isinstance(key, int):
            return self._runs[key]
        for run in self._runs:
            if run.ordering == key:
                return run
        names = ", ".join(run.ordering for run in self._runs)
        raise KeyError(f"no run has the ordering {key!r}; there are {names or 'none'}")

    def plot(self, path: str | Path | None = None) -> Drawing:
        """Draw the curves of all runs, and return the picture, which notebooks show.

        Parameters
        ----------
        path
            A `.png`, `.svg` or `.pdf` file to write as well.

        Raises
        ------
        ConfigError
            If the file has another suffix or cannot be written, or there is no run.
        """
        from crawlprio.simulator.run_report import draw_runs

        return draw_runs(self, path)

    def __repr__(self) -> str:
        from crawlprio.simulator.run_report import table_text

        return table_text(self)

    def _repr_html_(self) -> str:
        from crawlprio.simulator.run_report import table_html

        return table_html(self)


def _or_none(value: float) -> float | None:
    """Return the number, or None if JSON cannot represent it."""
    return value if math.isfinite(value) else None
