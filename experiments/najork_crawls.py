"""The crawls of Najork & Wiener 2001: breadth-first, in order alone and against the clock.

It must not know figures or what the paper found.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from crawls import Crawls
from numpy.typing import NDArray
from webs import Web

from crawlprio.evaluation import (
    Means,
    mean_importance_by_slice,
    mean_slice_of_top,
    pagerank_seen,
    scaled_to_mean_one,
    slices_by_fetch,
    slices_by_time,
)
from crawlprio.evaluation.figures import Series, mean_and_spread
from crawlprio.frontier import Politeness
from crawlprio.importance import importance_of
from crawlprio.linkgraph import LinkGraph
from crawlprio.orderings import Ordering, make_ordering
from crawlprio.pages import PageIds
from crawlprio.simulator import Network, timed_crawl

Floats = NDArray[np.float64]

DAYS = 58
TOPS = [n * 10**k for k in range(8) for n in (1, 2, 5)]
ROBOTS, HOSTS, PAUSE = 500, 7_000_000, 10.0
"""Mercator's threads, the sites it met, and its pause in durations of the last fetch."""
STOPPED = 0.5
"""Share of the pages after which crawls are stopped that are to leave much of the web unseen."""

MEANS_SHOWN = (0.2, 40.0)
"""Ends of the axes of mean PageRank."""

SINGLE, HOMES, HALFWAY = "one page", "all home pages", "one page, halfway"


@dataclass(frozen=True, eq=False)
class Watched:
    """A crawl and the importance of its pages.

    Parameters
    ----------
    label
        how it started or ended.
    order
        pages in the order fetched.
    ranks, remote
        PageRank with the mean 1, by all links and by those between sites.
    days
        day of each fetch, from 1 on.
    sites
        site of each page.
    """

    label: str
    order: PageIds
    ranks: Floats
    remote: Floats
    days: NDArray[np.int64]
    sites: NDArray[np.int32]

    @cached_property
    def by_day(self) -> Means:
        """Figure 1."""
        return mean_importance_by_slice(self.order, self.ranks, self.days)

    @cached_property
    def remote_by_day(self) -> Means:
        """Figure 4."""
        return mean_importance_by_slice(self.order, self.remote, self.days)

    def day_of_top(self, tops: Sequence[int] | None = None) -> Means:
        """Figure 2."""
        return mean_slice_of_top(self.order, self.ranks, self.days, tops)

    def top(self, n: int) -> NDArray[np.int64]:
        """The days on which the n best pages were fetched."""
        best = np.argsort(-self.ranks[self.order], kind="stable")[:n]
        return self.days[best]

    @property
    def pages_per_site_early(self) -> float:
        """Pages for each site met, in the first tenth of the fetches."""
        early = self.order[: max(len(self.order) // 10, 1)]
        return len(early) / len(np.unique(self.sites[early]))


def watch(web: Web) -> list[Watched]:
    """Crawls of a web in order alone: from single pages, all home pages, and stopped halfway."""
    graph = web.graph
    starts = [[seed] for seed in web.single_seeds] + [web.homes]
    crawls = Crawls(web.name, graph, starts, {"breadth-first": _breadth_first})
    remote = importance_of(graph, "remote-pagerank")
    orders = crawls.orders["breadth-first"]
    watched = [
        Watched(
            SINGLE if len(seeds) == 1 else HOMES,
            order,
            scaled_to_mean_one(web.ranks, reached),
            scaled_to_mean_one(remote, reached),
            slices_by_fetch(len(order), DAYS),
            graph.site,
        )
        for seeds, order, reached in zip(starts, orders, crawls.reachable, strict=True)
    ]
    first = orders[0][: int(STOPPED * len(orders[0]))]
    return [*watched, _stopped(HALFWAY, graph, first, slices_by_fetch(len(first), DAYS))]


def watch_clock(web: Web, n_fetches: int) -> list[Watched]:
    """Crawls against the clock, with as many robots as Mercator, and with as many for each site."""
    graph = web.graph
    polite = Politeness(adaptive=PAUSE, max_adaptive=1e9)
    watched = []
    for robots in (ROBOTS, max(round(ROBOTS * graph.n_sites / HOSTS), 1)):
        network = Network.drawn(graph, robots=robots, politeness=polite)
        crawl = timed_crawl(graph, [web.start], _breadth_first(), network, budget=n_fetches)
        by_end = np.argsort(crawl.ended, kind="stable")
        days = slices_by_time(crawl.ended[by_end], crawl.seconds / DAYS, start=0.0)
        label = f"{HALFWAY}, {robots} robot{'s' if robots > 1 else ''}"
        watched.append(_stopped(label, graph, crawl.order[by_end], np.minimum(days, DAYS)))
    return watched


def _stopped(label: str, graph: LinkGraph, order: PageIds, days: NDArray[np.int64]) -> Watched:
    """A crawl that left pages unseen, judged by what it saw."""
    ranks = pagerank_seen(graph, order)
    seen = ~np.isnan(ranks)
    remote = pagerank_seen(graph.between_sites(), order)
    # Whatever no link between sites leads to has the least rank there is.
    remote = np.where(np.isnan(remote), np.nanmin(remote), remote)
    return Watched(
        label,
        order,
        scaled_to_mean_one(ranks, seen),
        scaled_to_mean_one(remote, seen),
        days,
        graph.site,
    )


def _breadth_first() -> Ordering:
    return make_ordering("breadth-first")


def lines(
    crawls: Sequence[Watched], points: Callable[[Watched], Sequence[Sequence[float]] | Floats]
) -> dict[str, Series]:
    """A line for each kind of crawl, with a band from the least to the greatest of several."""
    drawn = {}
    for label in dict.fromkeys(crawl.label for crawl in crawls):
        runs = [points(crawl) for crawl in crawls if crawl.label == label]
        drawn[label] = mean_and_spread(runs, DAYS, "range") if len(runs) > 1 else Series(runs[0])
    return drawn


def by_log_x(points: Sequence[tuple[float, float]]) -> Floats:
    """Points by the logarithm of x, so that means are taken at places even on a log axis."""
    line = np.array(points)
    line[:, 0] = np.log10(line[:, 0])
    return line


def from_log_x(line: Series) -> Series:
    """A line whose x are logarithms, by x."""
    points = np.array(line.points)
    points[:, 0] = 10.0 ** points[:, 0]
    return Series(points, line.low, line.high)
