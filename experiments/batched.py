"""Crawls in batches, like those of the papers' real crawlers: links are seen between batches."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from crawlprio.graph.linkgraph import LinkGraph
from crawlprio.graph.pages import PageIds
from crawlprio.orderings import Ordering
from crawlprio.simulator.network import Network
from crawlprio.simulator.timed import TimedCrawl, timed_crawl


def alone(graph: LinkGraph, pages: PageIds, network: Network) -> tuple[LinkGraph, Network]:
    """Return some pages as a web without links, with the network for them.

    Pages are renumbered in the order given, and sites among those that remain.
    """
    sites, site = np.unique(graph.site[pages], return_inverse=True)
    web = LinkGraph(np.zeros(len(pages) + 1, np.int64), np.empty(0, np.int32), site)
    sizes = np.broadcast_to(network.sizes(), graph.n_pages)
    return web, replace(
        network,
        page_bytes=sizes[pages],
        latency=network.latencies(graph.n_sites)[sites],
        site_speed=network.speeds(graph.n_sites)[sites],
    )


def crawl_in_batches(
    graph: LinkGraph,
    seeds: Sequence[int],
    make: Callable[[], Ordering],
    network: Network,
    size: int,
) -> tuple[PageIds, NDArray[np.float64]]:
    """Return the pages in the order in which their fetches start, and when the fetches end.

    A batch is the first `size` waiting pages by the ordering. When its last fetch has ended, the
    links of all its pages are seen, and the next batch begins. Delays of sites do not carry over
    to the next batch. Whether a site is small depends on its waiting pages, not its known pages.

    `make`: makes the ordering of each batch. It sees no links, so it goes by discovery or by site.
    `size`: pages of a batch, at least 1; 100,000 in Castillo et al. 2004, 200,000 in Baeza-Yates et
    al. 2005.
    """
    known = np.zeros(graph.n_pages, dtype=np.bool_)
    waiting = np.array(seeds, dtype=np.int32)
    known[waiting] = True
    orders: list[PageIds] = []
    ends: list[NDArray[np.float64]] = []
    now = 0.0
    while len(waiting):
        web, links = alone(graph, waiting, network)
        crawl: TimedCrawl = timed_crawl(web, range(len(waiting)), make(), links, budget=size)
        fetched = waiting[crawl.order]
        orders.append(fetched)
        ends.append(now + crawl.ended)
        now += crawl.seconds
        left = np.ones(len(waiting), dtype=np.bool_)
        left[crawl.order] = False
        rows = [graph.indices[graph.indptr[p] : graph.indptr[p + 1]] for p in fetched.tolist()]
        targets = np.concatenate(rows) if rows else np.empty(0, np.int32)
        targets = targets[~known[targets]]
        _, first = np.unique(targets, return_index=True)
        found = targets[np.sort(first)]
        known[found] = True
        waiting = np.concatenate((waiting[left], found)).astype(np.int32)
    return np.concatenate(orders), np.concatenate(ends)
