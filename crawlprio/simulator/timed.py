"""Simulation of a crawl without a clock or with one: the drivers, and the figures over time."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple, TypedDict, Unpack

import numpy as np
from numpy.typing import NDArray

from crawlprio.frontier import PageQueue, Politeness, heaps
from crawlprio.frontier.politeness import pause_for_fetch, usual_pause
from crawlprio.frontier.priority_classes import Demotion
from crawlprio.frontier.struct_layouts import QUEUE, Records, wide
from crawlprio.graph.arrays import Floats
from crawlprio.graph.compiled import PLAIN_UNTIL, Addresses, njit, record
from crawlprio.graph.linkgraph import LinkGraph
from crawlprio.graph.pages import NO_PAGE, PageIds, Visit
from crawlprio.graph.topic import HotQueue
from crawlprio.measure.crawl_order import active_robots, cumulative_by_time
from crawlprio.measure.scores import finite
from crawlprio.orderings import CompiledOrdering, Ordering
from crawlprio.orderings.base import RuleLoop, VisitRule
from crawlprio.orderings.historical import HistoricalPageRank
from crawlprio.simulator import transfers
from crawlprio.simulator.graph_pages import GraphPages, RecordedVisits
from crawlprio.simulator.network import Network
from crawlprio.simulator.order_only import (
    CompiledCrawl,
    Evidence,
    OnProgress,
    OrderLoop,
    WebArrays,
    checked_seeds,
    checked_until,
    depends_on_sites,
    runs_compiled,
    truth_for,
    truth_of,
    visit_page,
)

CLOCK = record("f8 now", "i8 n_started")
"""The progress of a timed crawl; its visits are counted in `PROGRESS`."""


class Costs(NamedTuple):
    """The size of each page, or one size for all; latency and speed of each site."""

    sizes: Floats
    latencies: Floats
    speeds: Floats


class Written(NamedTuple):
    """Output: graph page and start time by number of the fetch; graph pages as observed."""

    order: PageIds
    started: Floats
    visits: PageIds


@njit(cache=True)
def pause(rules: Any, elapsed: float, n_bytes: float, n_pages: int) -> float:
    """Return the pause of a site after a fetch with status 200, in seconds, by `PauseRules`."""
    usual = usual_pause(rules, np.nan, 0.0, n_pages)
    return float(max(usual, pause_for_fetch(rules, elapsed, n_bytes)))


@njit(cache=True)
def count_new_pages(
    page_sites: PageIds, graph_of: PageIds, n_pages_of: PageIds, first: int, last: int
) -> None:
    """Count the pages with local ids first, ..., last - 1 as known pages of their sites."""
    for page in range(first, last):
        n_pages_of[page_sites[graph_of[page]]] += 1


def _run_events(
    rule: VisitRule,
    web: WebArrays,
    known: Evidence,
    queue: Addresses,
    progress: Records,
    flight: transfers.Flight,
    rules: Any,
    costs: Costs,
    written: Written,
    clock: Records,
    n_pages_of: PageIds,
    until: int,
    pause_at: int,
    while_ranked_wait: bool,
) -> bool:
    """Crawl until `pause_at` visits are observed; return whether the crawl is over.

    Call it again to continue. At each point in time, in this order: fetches that end are observed,
    in the order of their start; transfers begin whose latency is over; fetches start while a robot
    is free and a page may leave; shares are recomputed. Time then advances to the next event.

    Like `fetch_pages`, but `progress` counts a page as fetched when its fetch has ended. `flight`
    has room for all robots, and in `times` when each fetch ended. `until`: total number of fetches
    to start. `while_ranked_wait`: also return as soon as all pages below `n_ranked` are observed.
    """
    indptr, page_sites, graph_of = web.indptr, web.page_sites, web.graph_of
    _, sites, _, totals = QUEUE(queue)
    sizes, latencies, speeds = costs
    order, started, visits = written
    robots = len(flight.ends)
    n_ranked = progress[0].n_ranked
    one_size = len(sizes) == 1
    while True:
        now = clock[0].now
        while True:
            fetch = transfers.end_due(flight, now)
            if fetch < 0:
                break
            graph_page = order[fetch]
            page = wide(web.local_of[graph_page])
            site = wide(page_sites[graph_page])
            elapsed = now - started[fetch]
            n_bytes = sizes[0 if one_size else graph_page]
            seconds = pause(rules, elapsed, n_bytes, n_pages_of[site])
            ends_visit = bool(seconds < 0.0)  # never; a literal would compile another version
            heaps.end_fetch(queue, site, now + seconds, ends_visit)
            visits[progress[0].n_fetched] = graph_page
            progress[0].n_fetched += 1
            progress[0].n_links += indptr[graph_page + 1] - indptr[graph_page]
            if page < n_ranked:
                progress[0].n_ranked_waiting -= 1
            n_known = progress[0].n_known
            progress[0].n_known = visit_page(rule, web, known, queue, graph_page, page, n_known)
            count_new_pages(page_sites, graph_of, n_pages_of, n_known, progress[0].n_known)
            heaps.release(queue, page)
            if progress[0].n_fetched >= pause_at or (
                while_ranked_wait and progress[0].n_ranked_waiting == 0
            ):
                return False
        while True:
            fetch = transfers.latent_due(flight, now)
            if fetch < 0:
                break
            n_bytes = sizes[0 if one_size else order[fetch]]
            transfers.begin(flight, fetch, now, n_bytes, speeds[page_sites[order[fetch]]])
        starting = True
        while starting and clock[0].n_started < until and flight.counts[0].n_active < robots:
            page = heaps.pop(queue, now)
            starting = page >= 0
            if starting:
                fetch = clock[0].n_started
                clock[0].n_started += 1
                graph_page = graph_of[page]
                site = page_sites[graph_page]
                order[fetch] = graph_page
                started[fetch] = now
                latency = latencies[site] if sites[site].n_visited == 0 else 0.0
                n_bytes = sizes[0 if one_size else graph_page]
                transfers.start(flight, fetch, now, latency, n_bytes, speeds[site])
        transfers.share_out(flight, now)
        soonest = transfers.next_time(flight)
        if not starting and totals[0].n_delayed > 0:
            soonest = min(soonest, heaps.soonest(queue))
        if soonest == np.inf:
            return True
        clock[0].now = soonest


run_events = RuleLoop(_run_events)


@dataclass(frozen=True, eq=False)
class TimedCrawl:
    """A crawl with the start and end time of each fetch, in seconds from its beginning.

    `order`, `started` and `ended` are by number of the fetch. `visits`: pages of the graph in the
    order in which they were observed: by end, with ties broken by start.
    """

    order: PageIds
    started: Floats
    ended: Floats
    visits: PageIds

    @classmethod
    def at_once(cls, order: PageIds) -> TimedCrawl:
        """Return a crawl whose fetches took no time."""
        return cls(order, np.zeros(len(order)), np.zeros(len(order)), order.copy())

    @property
    def fetched(self) -> int:
        return len(self.order)

    @cached_property
    def seconds(self) -> float:
        """Time from the first start to the last end; 0 if nothing was fetched."""
        return float(self.ended.max()) if len(self.ended) else 0.0


class EventByEvent:
    """One crawl with the same frontier as a live crawl, event by event or without a clock."""

    def __init__(
        self,
        pages: GraphPages,
        frontier: PageQueue,
        network: Network,
        recorded: RecordedVisits | None,
    ) -> None:
        graph = pages.graph
        self._pages, self._frontier, self._recorded = pages, frontier, recorded
        self._robots = min(network.robots, max(graph.n_sites, 1))
        self._bandwidth = network.bandwidth
        self._politeness = network.politeness
        self._sizes = network.sizes()
        self._latencies = network.latencies(graph.n_sites)
        self._speeds = network.speeds(graph.n_sites)
        self._n_pages_of = np.bincount(pages.sites, minlength=graph.n_sites).astype(np.int32)

    def crawl(self, until: int, report: OnProgress) -> TimedCrawl:
        """Crawl until `until` fetches have been made or none is left to make."""
        frontier, pages = self._frontier, self._pages
        leased = np.empty(until, dtype=np.int32)
        order = np.empty(until, dtype=np.int32)
        started, ended = np.empty(until), np.empty(until)
        visits: list[int] = []
        flight = transfers.empty_flight(self._robots, self._bandwidth, ended)
        now, n_started = 0.0, 0
        while True:
            while (fetch := transfers.end_due(flight, now)) >= 0:
                self._end(int(leased[fetch]), now, now - float(started[fetch]))
                visits.append(int(order[fetch]))
                if len(visits) % 500 == 0:
                    report(len(visits))
            while (fetch := transfers.latent_due(flight, now)) >= 0:
                transfers.begin(flight, fetch, now, *self._transfer_of(int(order[fetch])))
            starting = True
            while starting and n_started < until and flight.counts["n_active"][0] < self._robots:
                page = frontier.next_page(now)
                starting = page != NO_PAGE
                if starting:
                    graph_page = pages.graph_page(page)
                    site = int(pages.graph.site[graph_page])
                    leased[n_started], order[n_started] = page, graph_page
                    started[n_started] = now
                    latency = 0.0 if frontier.is_on_visit(site) else float(self._latencies[site])
                    transfers.start(flight, n_started, now, latency, *self._transfer_of(graph_page))
                    n_started += 1
            transfers.share_out(flight, now)
            soonest = transfers.next_time(flight)
            if not starting:
                soonest = min(soonest, frontier.ready_at())
            if soonest == math.inf:
                break
            now = soonest
        n = n_started
        observed = np.array(visits, dtype=np.int32)
        return TimedCrawl(order[:n].copy(), started[:n].copy(), ended[:n].copy(), observed)

    def order(self, until: int, report: OnProgress) -> PageIds:
        """Crawl as if fetches took no time: fetch, observe, next."""
        order = np.empty(until, dtype=np.int32)
        n_fetched = 0
        while n_fetched < until and (page := self._frontier.next_page(0.0)) != NO_PAGE:
            order[n_fetched] = graph_page = self._pages.graph_page(page)
            self._observe(page, graph_page)
            n_fetched += 1
            if n_fetched % 500 == 0:
                report(n_fetched)
        return order[:n_fetched].copy()

    def _transfer_of(self, graph_page: int) -> tuple[float, float]:
        """Return the size of a page in bytes, and the speed of its site in bytes/s."""
        size = self._sizes[0 if len(self._sizes) == 1 else graph_page]
        return float(size), float(self._speeds[self._pages.graph.site[graph_page]])

    def _end(self, page: int, now: float, elapsed: float) -> None:
        """Process the end of a fetch: set the site's pause, observe the visit, end the lease."""
        pages, frontier = self._pages, self._frontier
        graph_page = pages.graph_page(page)
        site = int(pages.graph.site[graph_page])
        pause = self._politeness.pause(
            elapsed=elapsed,
            n_bytes=self._transfer_of(graph_page)[0],
            n_pages=int(self._n_pages_of[site]),
        )
        frontier.end_fetch(site, now + pause)
        n_known = len(pages)
        self._observe(page, graph_page)
        np.add.at(self._n_pages_of, pages.sites[n_known:], 1)

    def _observe(self, page: int, graph_page: int) -> None:
        """Observe the visit of a leased page, and end its lease."""
        row = self._pages.graph.out_links(graph_page)
        targets = self._pages.discover(row)
        if self._recorded is None:
            visit = Visit(page, targets)
        else:
            visit = self._recorded.visit(graph_page, row, page, targets)
        self._frontier.observe(visit)
        self._frontier.release(page)


class EventLoop(CompiledCrawl):
    """One timed crawl in the compiled loop."""

    def __init__(
        self,
        pages: GraphPages,
        seeds: PageIds,
        ordering: CompiledOrdering,
        truth: Floats | None,
        network: Network,
    ) -> None:
        super().__init__(
            pages, seeds, ordering, truth, by_site=True, pages_per_visit=network.pages_per_visit
        )
        graph = pages.graph
        n_sites = graph.n_sites
        self._network = network
        self._robots = min(network.robots, max(n_sites, 1))
        self._costs = Costs(network.sizes(), network.latencies(n_sites), network.speeds(n_sites))
        self._n_pages_of = np.zeros(n_sites, dtype=np.int32)
        count_new_pages(graph.site, pages.graph_of, self._n_pages_of, 0, len(pages))
        self._clock = np.zeros(1, dtype=CLOCK)

    def crawl(self, until: int, report: OnProgress) -> TimedCrawl:
        """Crawl until `until` fetches have been made or none is left to make."""
        order, visits = np.empty(until, dtype=np.int32), np.empty(until, dtype=np.int32)
        started, ended = np.empty(until), np.empty(until)
        flight = transfers.empty_flight(self._robots, self._network.bandwidth, ended)
        written = Written(order, started, visits)
        loop: Callable[..., bool] | None = None

        def run(pause_at: int) -> bool:
            nonlocal loop
            arguments = (
                *(self._web, self._known, self._queue, self._progress, flight),
                *(self._network.politeness.rules, self._costs, written, self._clock),
                *(self._n_pages_of, until, pause_at),
                self._ordering.due_when_ranked_are_fetched,
            )
            loop = loop or run_events.of(type(self._ordering).rule, *arguments)
            return loop(*arguments)

        self._run(until, report, visits, run)
        n = int(self._clock["n_started"][0])
        return TimedCrawl(order[:n].copy(), started[:n].copy(), ended[:n].copy(), visits[:n].copy())


class CrawlOptions(TypedDict, total=False):
    """Options of a simulated crawl, in addition to its graph, seeds and ordering.

    `budget`: number of fetches at which to stop; None (the default): no limit. `hot_queue`: a new
    hot queue, which moves pages on a topic to the front. `novelty`: a new `Novelty`, which puts off
    pages that are likely to repeat others, by the fingerprints or content hashes in `recorded`.
    `truth`: float64, shape (n_pages,): PageRank of the whole graph, for orderings that need it;
    computed if omitted. Orderings see it rounded to 8 significant digits, so that equal ranks tie.
    `recorded`: what the pages contained besides links, from a crawl store. `compiled`: False runs
    every ordering page by page in Python, as a crawl begins. `on_progress`: called at times with
    the number of pages observed so far.
    """

    budget: int | None
    hot_queue: HotQueue | None
    novelty: Demotion | None
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
    one fetch at a time and no delay. The ordering is opened here. GraphError if a seed is not a
    page of the graph, or the ordering reads URLs and the graph has none; ConfigError if the budget
    is negative, or no earlier score belongs to a page of the graph.

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
    **options: Unpack[CrawlOptions],
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

    Raises as `crawl_order` does, and `ConfigError` if an array of
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
    until = checked_until(graph, options.get("budget"))
    truth = truth_for(graph, ordering, options.get("truth"))
    pages = GraphPages(graph)
    report: OnProgress = options.get("on_progress") or (lambda n_fetched: None)
    hot_queue, novelty = options.get("hot_queue"), options.get("novelty")
    if (
        options.get("compiled", True)
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
        demotion=novelty,
        truth=truth_of(pages, truth),
        plain_until=0 if options.get("compiled", True) else PLAIN_UNTIL,
    )
    frontier.observe(Visit(NO_PAGE, pages.discover(distinct)))
    driver = EventByEvent(pages, frontier, network, options.get("recorded"))
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

    `hours`: from the first start to the last end. `average_pagerank_by_time`: mean over that time
    of the share gathered of the reachable pages' PageRank; NaN for a crawl that took no time, like
    the next two. `pagerank_at_time`: that share at each of `TIME_MARKS` of the time.
    `mean_active_robots`: fetches in flight, averaged over the time. `curve_by_time`: up to 101
    points [hours, share of PageRank, share of the reachable pages], evenly spaced in time.
    `active_robots`: 100 points [hours, mean fetches in flight], at the midpoint of each hundredth.
    `optimal_hours`: as `Network.optimal_hours` of the pages fetched.
    """

    crawl: TimedCrawl
    hours: float
    average_pagerank_by_time: float
    pagerank_at_time: tuple[float, ...]
    mean_active_robots: float
    curve_by_time: list[list[float]]
    active_robots: list[list[float]]
    optimal_hours: float = math.nan

    @classmethod
    def of(
        cls,
        crawl: TimedCrawl,
        ranks: NDArray[np.float64],
        reachable: NDArray[np.bool_],
        network: Network,
    ) -> TimeFigures:
        """Return the figures of a crawl; `ranks` and `reachable` as for `cumulative_pagerank`."""
        seconds = crawl.seconds
        if not seconds > 0:
            nothing = (math.nan,) * len(TIME_MARKS)
            return cls(crawl, 0.0, math.nan, nothing, math.nan, [], [])
        times, gathered, fetched = cumulative_by_time(crawl.order, crawl.ended, ranks, reachable)

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
            optimal_hours=network.optimal_hours(crawl.order),
        )

    @property
    def pages_per_hour(self) -> float:
        return self.crawl.fetched / self.hours if self.hours > 0 else math.nan

    def as_json(self) -> dict[str, Any]:
        """Return all fields but the fetch times, for JSON; null for an undefined number."""
        return {
            "optimal_hours": finite(self.optimal_hours),
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
