"""Figures of a simulated crawl over time: PageRank gathered, pages fetched, active robots."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from crawlprio.measure.crawl_in_time import cumulative_by_time
from crawlprio.measure.crawl_order import active_robots
from crawlprio.measure.scores import finite
from crawlprio.simulator.events import TimedCrawl

HOUR = 3600.0
TIME_MARKS = (0.1, 0.25, 0.5)
"""Fractions of a crawl's time at which a run reports the PageRank gathered so far."""

INTERVALS = 100


@dataclass(frozen=True, eq=False)
class TimeFigures:
    """The figures of a crawl over time. A page counts from the end of its fetch.

    `crawl`: the times of all fetches. `hours`: time from the first start to the last end.
    `average_pagerank_by_time`: mean over that time of the share gathered of the reachable pages'
    PageRank; NaN for a crawl that took no time, like the next two. `pagerank_at_time`: that share
    at each of `TIME_MARKS` of the time. `mean_active_robots`: fetches in flight, averaged over the
    time. `curve_by_time`: up to 101 points [hours, share of PageRank, share of the reachable
    pages], evenly spaced in time. `active_robots`: 100 points [hours, fetches in flight]: the mean
    over each hundredth of the time, at its midpoint.
    """

    crawl: TimedCrawl
    hours: float
    average_pagerank_by_time: float
    pagerank_at_time: tuple[float, ...]
    mean_active_robots: float
    curve_by_time: list[list[float]]
    active_robots: list[list[float]]

    @classmethod
    def of(
        cls, crawl: TimedCrawl, ranks: NDArray[np.float64], reachable: NDArray[np.bool_]
    ) -> TimeFigures:
        """Return the figures of a crawl; `ranks` and `reachable` as for `cumulative_pagerank`."""
        seconds = crawl.seconds
        if not seconds > 0:
            nothing = (math.nan,) * len(TIME_MARKS)
            return cls(crawl, 0.0, math.nan, nothing, math.nan, [], [])
        times, gathered, fetched = cumulative_by_time(
            crawl.order, crawl.ended, ranks, reachable, start=0.0
        )

        def by(at: NDArray[np.float64], shares: NDArray[np.float64]) -> NDArray[np.float64]:
            return np.concatenate([[0.0], shares])[np.searchsorted(times, at, side="right")]

        at = np.linspace(0.0, seconds, INTERVALS + 1)
        middles, active = active_robots(crawl.started, crawl.ended, points=INTERVALS)
        lasting = np.diff(times, append=seconds)
        busy = float((crawl.ended - crawl.started).sum())
        return cls(
            crawl=crawl,
            hours=seconds / HOUR,
            average_pagerank_by_time=float((gathered * lasting).sum() / seconds),
            pagerank_at_time=tuple(by(seconds * np.array(TIME_MARKS), gathered).tolist()),
            mean_active_robots=busy / seconds,
            curve_by_time=np.column_stack([at / HOUR, by(at, gathered), by(at, fetched)]).tolist(),
            active_robots=np.column_stack([middles / HOUR, active]).tolist(),
        )

    @property
    def pages_per_hour(self) -> float:
        return self.crawl.fetched / self.hours if self.hours > 0 else math.nan

    def as_json(self) -> dict[str, Any]:
        """Return all fields but the fetch times, for JSON; null for an undefined number."""
        return {
            "hours": self.hours,
            "pages_per_hour": finite(self.pages_per_hour),
            "mean_active_robots": finite(self.mean_active_robots),
            "average_pagerank_by_time": finite(self.average_pagerank_by_time),
            "pagerank_at_time": {
                f"{mark:g}": finite(share)
                for mark, share in zip(TIME_MARKS, self.pagerank_at_time, strict=True)
            },
            "curve_by_time": self.curve_by_time,
            "active_robots": self.active_robots,
        }
