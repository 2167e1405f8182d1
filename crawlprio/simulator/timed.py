"""Simulation in time: robots, delays, latency and bandwidth, on a link graph."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from crawlprio.frontier import CompiledFrontier, Politeness
from crawlprio.linkgraph import LinkGraph
from crawlprio.orderings import CompiledOrdering, Ordering
from crawlprio.orderings.historical import HistoricalPageRank
from crawlprio.pages import NO_PAGE, Visit
from crawlprio.simulator.events import EventByEvent, EventLoop, TimedCrawl
from crawlprio.simulator.network import Network
from crawlprio.simulator.order_only import (
    OnProgress,
    checked_seeds,
    checked_until,
    crawl_order,
    runs_compiled,
    truth_for,
    truth_of,
)
from crawlprio.simulator.pages import GraphPages, RecordedVisits
from crawlprio.topic import HotQueue

Floats = NDArray[np.float64]


def timed_crawl(
    graph: LinkGraph,
    seeds: Sequence[int],
    ordering: Ordering,
    network: Network,
    *,
    budget: int | None = None,
    hot_queue: HotQueue | None = None,
    truth: Floats | None = None,
    recorded: RecordedVisits | None = None,
    compiled: bool = True,
    on_progress: OnProgress | None = None,
) -> TimedCrawl:
    """Return a crawl of a graph under an ordering, with the times of its fetches.

    A page leaves the frontier when its fetch starts and is observed when it ends. At each moment
    first all fetches that end are observed, in the order of their start; then transfers begin whose
    latency is over; then fetches start, while a robot is free and a page of a ready site waits;
    then the bandwidth is shared again. A fetch that takes no time ends after all those have started
    that start with it. The pause of a site is what `Politeness.pause` says when its fetch ends,
    before its links are seen, as in a live crawl: that is the number of known pages which makes a
    site small. Every fetch is answered: none is refused, whatever status a crawl store recorded.

    Parameters
    ----------
    network
        what fetches take.
    graph, seeds, ordering, hot_queue, truth, recorded, compiled
        as for `crawl_order`.
    budget
        fetches to start at most; None (the default): no limit.
    on_progress
        called now and then with the number of pages observed so far.

    Raises
    ------
    GraphError, ConfigError
        as `crawl_order`, and if an array of the network does not fit the graph.

    Notes
    -----
    With one robot and a network that takes no time it is `crawl_order`. The compiled loop and the
    page-by-page driver come to the same times bit for bit. Orderings made of compiled rules take
    some 1.5 to 3 microseconds for a page of ten links on a graph of 300,000 pages, with 256 robots
    or 1,000, and 6 to 8 on one of 5 million whose links are random; where the bandwidth is shared
    a page takes O(robots). Memory is that of `crawl_order` and 20 bytes per page of the graph.
    """
    network.check(graph)
    if compiled and not network.takes_time:
        order = crawl_order(
            graph,
            seeds,
            ordering,
            budget=budget,
            hot_queue=hot_queue,
            truth=truth,
            recorded=recorded,
            on_progress=on_progress,
        )
        return TimedCrawl(order, np.zeros(len(order)), np.zeros(len(order)), order.copy())
    distinct = checked_seeds(graph, seeds)
    until = checked_until(graph, budget)
    truth = truth_for(graph, ordering, truth)
    pages = GraphPages(graph)
    report: OnProgress = on_progress or (lambda n_fetched: None)
    if (
        compiled
        and isinstance(ordering, CompiledOrdering)
        and runs_compiled(ordering, hot_queue)
        and type(network.politeness) is Politeness
    ):
        return EventLoop(pages, distinct, ordering, truth, network).crawl(until, report)
    if isinstance(ordering, HistoricalPageRank):
        ordering.check_known(graph.urls)
    frontier = CompiledFrontier(
        ordering,
        pages,
        pages_per_visit=network.pages_per_visit,
        hot_queue=hot_queue,
        truth=truth_of(pages, truth),
    )
    frontier.observe(Visit(NO_PAGE, pages.discover(distinct)))
    return EventByEvent(pages, frontier, network, recorded).crawl(until, report)
