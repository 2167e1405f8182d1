"""Simulation of a crawl of a link graph, without a clock or with robots, delays and bandwidth."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from crawlprio.frontier import PageQueue, Politeness
from crawlprio.frontier.page_queue import JudgesRepeats
from crawlprio.graph.linkgraph import LinkGraph
from crawlprio.graph.pages import NO_PAGE, PageIds, Visit
from crawlprio.graph.topic import HotQueue
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

if TYPE_CHECKING:
    pass

Floats = NDArray[np.float64]


def crawl_order(
    graph: LinkGraph,
    seeds: Sequence[int],
    ordering: Ordering,
    *,
    budget: int | None = None,
    hot_queue: HotQueue | None = None,
    novelty: JudgesRepeats | None = None,
    truth: Floats | None = None,
    recorded: RecordedVisits | None = None,
    compiled: bool = True,
    on_progress: OnProgress | None = None,
) -> PageIds:
    """Return the pages of a graph in the order in which a crawl under an ordering fetches them.

    The links of a page are discovered in the order of its row, seeds in the order given. The crawl
    ends when no page is waiting. The result is the order of a live crawl with one fetch at a time
    and no delay.

    Parameters
    ----------
    graph
        The graph to crawl.
    seeds
        Page ids; at least one. Duplicates are dropped.
    ordering
        The ordering, which is opened here.
    budget
        Number of fetches at which to stop; None (the default): no limit.
    hot_queue
        A new hot queue, which moves pages on a topic to the front.
    novelty
        A new `Novelty`, which puts off pages that are likely to repeat others, by the fingerprints
        or content hashes in `recorded`.
    truth
        float64, shape (n_pages,): PageRank of the whole graph, for orderings that need it; computed
        if omitted. Orderings see it rounded to 8 significant digits, so that equal ranks tie.
    recorded
        What the pages contained besides links, from a crawl store.
    compiled
        False runs every ordering page by page in Python, for tests.
    on_progress
        Called from time to time with the number of pages fetched so far.

    Returns
    -------
    int32, shape (n_fetched,): distinct page ids of the graph.

    Raises
    ------
    GraphError
        If a seed is not a page of the graph, or the ordering reads URLs and the graph has none.
    ConfigError
        If the budget is negative, or no earlier score belongs to a page of the graph.

    Notes
    -----
    Orderings with a compiled rule take about 0.25 microseconds for a page of ten links, and 52
    bytes per page of the graph, or 60 with external scores. Those that compute PageRank during the
    crawl take the time of that in addition, and 4 bytes per link while it runs. All others, and all
    orderings with a hot queue, take 8 microseconds or more per page, and the memory of the
    ordering's own state.
    """
    return timed_crawl(
        graph,
        seeds,
        ordering,
        Network(),
        budget=budget,
        hot_queue=hot_queue,
        novelty=novelty,
        truth=truth,
        recorded=recorded,
        compiled=compiled,
        on_progress=on_progress,
    ).order


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

    Parameters
    ----------
    network
        The cost of fetches.
    graph, seeds, ordering, hot_queue, novelty, truth, recorded, compiled
        As for `crawl_order`.
    budget
        Maximum number of fetches to start; None (the default): no limit.
    on_progress
        Called from time to time with the number of pages observed so far.

    Raises
    ------
    GraphError, ConfigError
        As `crawl_order`, and if an array of the network does not fit the graph.

    Notes
    -----
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
