"""The drivers of a simulation: event by event on a frontier, and in a compiled loop."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from crawlprio.frontier import PageQueue
from crawlprio.orderings import CompiledOrdering
from crawlprio.pages import NO_PAGE, PageIds, Visit
from crawlprio.simulator import transfers
from crawlprio.simulator.network import Network
from crawlprio.simulator.order_only import STRIDE, CompiledCrawl, OnProgress
from crawlprio.simulator.pages import GraphPages, RecordedVisits
from crawlprio.simulator.timed_loop import (
    CLOCK,
    Costs,
    Polite,
    Written,
    count_new_pages,
    rekey_leased,
    run_events,
)

Floats = NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class TimedCrawl:
    """A crawl with the start and end time of each fetch, in seconds from its beginning.

    Parameters
    ----------
    order
        int32, shape (fetched,): pages of the graph in the order in which their fetches started.
    started, ended
        float64, shape (fetched,): times in seconds, indexed like `order`.
    visits
        int32, shape (fetched,): pages of the graph in the order in which they were observed: by
        end, with ties broken by start.
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
        self._delays = network.delays_of_sites(graph.n_sites)
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
        own_delays, crawl_delays = self._delays
        pause = self._politeness.pause(
            own_delay=float(own_delays[site]),
            crawl_delay=float(crawl_delays[site]),
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
        self._polite = Polite(network.politeness.rules, *network.delays_of_sites(n_sites))
        self._costs = Costs(network.sizes(), network.latencies(n_sites), network.speeds(n_sites))
        self._n_pages_of = np.zeros(n_sites, dtype=np.int32)
        count_new_pages(graph.site, pages.graph_of, self._n_pages_of, 0, len(pages))
        self._clock = np.zeros(1, dtype=CLOCK)

    def crawl(self, until: int, report: OnProgress) -> TimedCrawl:
        """Crawl until `until` fetches have been made or none is left to make."""
        ordering, progress = self._ordering, self._progress
        order, visits = np.empty(until, dtype=np.int32), np.empty(until, dtype=np.int32)
        started, ended = np.empty(until), np.empty(until)
        flight = transfers.empty_flight(self._robots, self._network.bandwidth, ended)
        pages = self._pages
        n_visits, is_over = 0, False
        run: Callable[..., bool] | None = None
        while not is_over:
            due = ordering.due_at(int(progress["n_links"][0]))
            arguments = (
                self._web,
                self._known,
                self._queue,
                progress,
                flight,
                self._polite,
                self._costs,
                Written(order, started, visits),
                self._clock,
                self._n_pages_of,
                until,
                min(due, n_visits + STRIDE),
                ordering.due_when_ranked_are_fetched,
            )
            run = run or run_events.of(type(ordering).rule, *arguments)
            is_over = run(*arguments)
            pages.n_known = int(progress["n_known"][0])
            n_visits = int(progress["n_fetched"][0])
            report(n_visits)
            if not is_over and n_visits < until and self._is_due(n_visits):
                keys = self._compute_keys(visits, n_visits)
                rekey_leased(self._queue[0], len(pages), keys)
        n = int(self._clock["n_started"][0])
        return TimedCrawl(order[:n].copy(), started[:n].copy(), ended[:n].copy(), visits[:n].copy())
