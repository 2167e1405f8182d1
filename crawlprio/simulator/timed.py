"""Simulation of a crawl of a link graph, without a clock or with one, and its figures over time."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, TypedDict, Unpack

import numpy as np
from numpy.typing import NDArray

from crawlprio.frontier import PageQueue, Politeness
from crawlprio.frontier.page_queue import JudgesRepeats
from crawlprio.graph.linkgraph import LinkGraph
from crawlprio.graph.pages import NO_PAGE, PageIds, Visit
from crawlprio.graph.topic import HotQueue
from crawlprio.measure.crawl_order import active_robots, cumulative_by_time
from crawlprio.measure.scores import finite
from crawlprio.orderings import CompiledOrdering, Ordering
from crawlprio.orderings.historical import HistoricalPageRank
from crawlprio.simulator.events import EventByEvent, EventLoop, TimedCrawl
from crawlprio.simulator.graph_pages import GraphPages, RecordedVisits
from crawlprio.simulator.network import Network
from crawlprio.simulator.order_only import (
    OnProgress,
    OrderLoop,
    checked_seeds,
    checked_until,
    depends_on_sites,
    runs_compiled,
    truth_for,
    truth_of,
)

Floats = NDArray[np.float64]


class CrawlOptions(TypedDict, total=False):
    """What may be said of a simulated crawl besides its graph, seeds and ordering.

    `budget`: number of fetches at which to stop; None (the default): no limit. `hot_queue`: a new
    hot queue, which moves pages on a topic to the front. `novelty`: a new `Novelty`, which puts off
    pages that are likely to repeat others, by the fingerprints or content hashes in `recorded`.
    `truth`: float64, shape (n_pages,): PageRank of the whole graph, for orderings that need it;
    computed if omitted. Orderings see it rounded to 8 significant digits, so that equal ranks tie.
    `recorded`: what the pages contained besides links, from a crawl store. `compiled`: False runs
    every ordering page by page in Python, for tests. `on_progress`: called from time to time with
    the number of pages observed so far.
    """

    budget: int | None
    hot_queue: HotQueue | None
    novelty: JudgesRepeats | None
    truth: Floats | None
    recorded: RecordedVisits | None
    compiled: bool
    on_progress: OnProgress | None


def crawl_order(
    graph: LinkGraph, seeds: Sequence[int], ordering: Ordering, **options: Unpack[CrawlOptions]
) -> PageIds:
    """Return the pages of a graph in the order in which a crawl under an ordering fetches them.

    The links of a page are discovered in the order of its row, seeds in the order given, duplicates
    dropped. The crawl ends when no page is waiting. The result is the order of a live crawl with
    one fetch at a time and no delay: int32, shape (n_fetched,), distinct page ids. The ordering is
    opened here.

    Raises `GraphError` if a seed is not a page of the graph, or the ordering reads URLs and the
    graph has none; `ConfigError` if the budget is negative, or no earlier score belongs to a page
    of the graph.

    Orderings with a compiled rule take about 0.25 microseconds for a page of ten links, and 52
    bytes per page of the graph, or 60 with external scores. Those that compute PageRank during the
    crawl take the time of that in addition, and 4 bytes per link while it runs. All others, and all
    orderings with a hot queue, take 8 microseconds or more per page, and the memory of the
    ordering's own state.
    """
    return timed_crawl(graph, seeds, ordering, Network(), **options).order


def timed_crawl(
    graph: LinkGraph,
    seeds: Sequence[int],
    ordering: Ordering,
    network: Network,
    *,
    budget: int | None = None,
    hot_queue: HotQueue | None = None,
    novelty: JudgesRepeats | None = None,
    truth: Floats | None = None,
    recorded: RecordedVisits | None = None,
    compiled: bool = True,
    on_progress: OnProgress | None = None,
) -> TimedCrawl:
    """Crawl a graph under an ordering and return the order with the times of all fetches.

    A page leaves the frontier when its fetch starts and is observed when its fetch ends. At each
    point in time, in this order: all fetches that end are observed, in the order of their start;
    transfers begin whose latency is over; fetches start while a robot is free and a page of a ready
    site is waiting; the bandwidth is shared out again. A fetch that takes no time ends after all
    fetches of the same moment have started. The pause of a site is `Politeness.pause` at the end of
    its fetch, computed before the page's links are known, as in a live crawl; this matters for the
    number of known pages that makes a site small. Every fetch succeeds: none is refused, whatever
    status a crawl store recorded.

    The options are `CrawlOptions`. Raises as `crawl_order` does, and `ConfigError` if an array of
    the network does not fit the graph.

    With one robot and a network that takes no time, the order is that of `crawl_order`. The
    compiled loop and the page-by-page driver compute the same times bit for bit. Orderings with a
    compiled rule take about 1.5 to 3 microseconds for a page of ten links on a graph of 300,000
    pages with 256 to 1,000 robots, and 6 to 8 on a graph of 5 million pages with random links. If
    the bandwidth is shared, a page takes O(robots). Memory is that of `crawl_order` plus 20 bytes
    per page of the graph.
    """
    network.check(graph)
    distinct = checked_seeds(graph, seeds)
    until = checked_until(graph, budget)
    truth = truth_for(graph, ordering, truth)
    pages = GraphPages(graph)
    report: OnProgress = on_progress or (lambda n_fetched: None)
    if (
        compiled
        and isinstance(ordering, CompiledOrdering)
        and runs_compiled(ordering, hot_queue)
        and novelty is None
        and type(network.politeness) is Politeness
    ):
        if network.takes_time or depends_on_sites(ordering):
            return EventLoop(pages, distinct, ordering, truth, network).crawl(until, report)
        return TimedCrawl.at_once(OrderLoop(pages, distinct, ordering, truth).order(until, report))
    if isinstance(ordering, HistoricalPageRank):
        ordering.check_known(graph.urls)
    frontier = PageQueue(
        ordering,
        pages,
        pages_per_visit=network.pages_per_visit,
        hot_queue=hot_queue,
        novelty=novelty,
        truth=truth_of(pages, truth),
    )
    frontier.observe(Visit(NO_PAGE, pages.discover(distinct)))
    driver = EventByEvent(pages, frontier, network, recorded)
    if network.takes_time:
        return driver.crawl(until, report)
    return TimedCrawl.at_once(driver.order(until, report))


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
