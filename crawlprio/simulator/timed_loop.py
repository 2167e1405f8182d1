"""The compiled event loop of a timed simulation: starts, latencies, transfers, ends, delays."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from crawlprio.compiled import njit
from crawlprio.frontier import heaps, site_heaps
from crawlprio.frontier.politeness import pause_for_fetch, usual_pause
from crawlprio.frontier.records import LEASED, Queue, Records, wide
from crawlprio.orderings.rules import RuleLoop, VisitRule
from crawlprio.pages import PageIds
from crawlprio.simulator import transfers
from crawlprio.simulator.loop import Evidence, Web, visit_page

Floats = NDArray[np.float64]

CLOCK = np.dtype([("now", np.float64), ("n_started", np.int64)], align=True)
"""The progress of a timed crawl; its visits are counted in `PROGRESS`."""


class Polite(NamedTuple):
    """`PauseRules`; own delay of each site, or NaN; Crawl-delay of each site, or 0."""

    rules: Any
    own_delays: Floats
    crawl_delays: Floats


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
def pause(polite: Polite, site: int, elapsed: float, n_bytes: float, n_pages: int) -> float:
    """Return the pause of a site after a fetch with status 200, in seconds."""
    own, crawl = polite.own_delays[site], polite.crawl_delays[site]
    usual = usual_pause(polite.rules, own, crawl, n_pages)
    return float(max(usual, pause_for_fetch(polite.rules, elapsed, n_bytes)))


@njit(cache=True)
def count_new_pages(
    page_sites: PageIds, graph_of: PageIds, n_pages_of: PageIds, first: int, last: int
) -> None:
    """Count the pages with local ids first, ..., last - 1 as known pages of their sites."""
    for page in range(first, last):
        n_pages_of[page_sites[graph_of[page]]] += 1


@njit(cache=True)
def rekey_leased(pages: Records, n_known: int, keys: Floats) -> None:
    """Give pages in flight their new keys too, because their visits pass the keys on."""
    for page in range(n_known):
        if pages[page].state == LEASED:
            pages[page].key = keys[page]


def _run_events(
    rule: VisitRule,
    web: Web,
    known: Evidence,
    queue: Queue,
    progress: Records,
    flight: transfers.Flight,
    polite: Polite,
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

    Parameters
    ----------
    rule, web, known, queue, progress
        As for `fetch_pages`; `progress` counts a page as fetched when its fetch has ended.
    flight
        As made by `transfers.empty_flight`, with room for all robots; its `times` are the times at
        which fetches ended, by number of the fetch.
    clock
        One `CLOCK` row.
    n_pages_of
        int32, shape (n_sites,): known pages of each site.
    until
        Total number of fetches to start.
    pause_at
        Total number of visits at which to return.
    while_ranked_wait
        Also return as soon as all pages below `n_ranked` are observed.
    """
    indptr, page_sites, graph_of = web.indptr, web.page_sites, web.graph_of
    pages, sites, heap, totals = queue
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
            seconds = pause(polite, site, elapsed, n_bytes, n_pages_of[site])
            ends_visit = bool(seconds < 0.0)  # never; a literal would compile another version
            heaps.end_fetch(pages, sites, heap, totals, site, now + seconds, ends_visit)
            visits[progress[0].n_fetched] = graph_page
            progress[0].n_fetched += 1
            progress[0].n_links += indptr[graph_page + 1] - indptr[graph_page]
            if page < n_ranked:
                progress[0].n_ranked_waiting -= 1
            n_known = progress[0].n_known
            progress[0].n_known = visit_page(rule, web, known, queue, graph_page, page, n_known)
            count_new_pages(page_sites, graph_of, n_pages_of, n_known, progress[0].n_known)
            heaps.release(pages, sites, heap, totals, page)
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
            page = heaps.pop(pages, sites, heap, totals, now)
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
            soonest = min(soonest, site_heaps.soonest(heap))
        if soonest == np.inf:
            return True
        clock[0].now = soonest


run_events = RuleLoop(_run_events)
