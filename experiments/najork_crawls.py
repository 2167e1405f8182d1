"""The crawls of Najork & Wiener 2001: breadth-first, by order alone and with a clock."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from drawn_network import drawn_network
from measures import mean_and_spread, slices_by_time
from numpy.typing import NDArray
from paper_crawls import Crawls
from webs import Web

from crawlprio.frontier import Politeness
from crawlprio.graph.linkgraph import LinkGraph
from crawlprio.graph.pages import PageIds
from crawlprio.measure.crawl_models import pagerank_seen
from crawlprio.measure.crawl_order import (
    Means,
    mean_importance_by_slice,
    mean_slice_of_top,
    overlap_of_top,
    reachable,
    scaled_to_mean_one,
    slices_by_fetch,
)
from crawlprio.measure.importance import importance_of
from crawlprio.orderings import Ordering, make_ordering
from crawlprio.show.figures import Series
from crawlprio.simulator.timed import crawl_order, timed_crawl

Floats = NDArray[np.float64]

DAYS = 58
TOPS = [n * 10**k for k in range(8) for n in (1, 2, 5)]
ROBOTS, HOSTS, PAUSE = 500, 7_000_000, 10.0
"""Mercator's threads, the sites it found, and its pause as a multiple of the last fetch."""
STOPPED = 0.5
"""Share of the pages after which a crawl stops, if it is meant to leave much of the web unseen."""

EARLY_DAYS = 28
TOP_SHARE = 1 / 328
"""The paper's top million as a share of its 328 million pages."""
WEEKS = ((0, 1), (1, 7), (7, 14), (14, 28), (28, DAYS))
"""Stretches: day 1, the rest of week 1, week 2, weeks 3 and 4, the rest."""

MEANS_SHOWN = (0.2, 40.0)
"""Limits of the axes of mean PageRank."""

SINGLE, HOMES, HALFWAY = "one page", "all home pages", "one page, halfway"


@dataclass(frozen=True, eq=False)
class Watched:
    """A crawl and the importance of its pages.

    `label`: how the crawl started or ended. `order`: pages in the order fetched. `ranks` and
    `remote`: PageRank with mean 1, by all links and by links between sites. `days`: day of each
    fetch, from 1. `sites`: site of each page.
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
        """Write figure 2."""
        return mean_slice_of_top(self.order, self.ranks, self.days, tops)

    def top(self, n: int) -> NDArray[np.int64]:
        """Return the days on which the n best pages were fetched."""
        best = np.argsort(-self.ranks[self.order], kind="stable")[:n]
        return self.days[best]

    @property
    def pages_per_site_early(self) -> float:
        """Pages per site found, in the first tenth of the fetches."""
        early = self.order[: max(len(self.order) // 10, 1)]
        return len(early) / len(np.unique(self.sites[early]))


def watch(web: Web) -> list[Watched]:
    """Return crawls by order alone: from single pages, from all home pages, and stopped halfway.

    If several seeds lead to the same crawl, only the first is included.
    """
    graph = web.graph
    starts = [[seed] for seed in web.single_seeds] + [web.homes]
    crawls = Crawls(web.name, graph, starts, {"breadth-first": _breadth_first})
    watched = [
        _whole(web, crawls.orders["breadth-first"][k], crawls.reachable[k], len(starts[k]) == 1)
        for k in crawls.distinct()
    ]
    order = crawls.orders["breadth-first"][0]
    first = order[: int(STOPPED * len(order))]
    return [*watched, _stopped(HALFWAY, graph, first, slices_by_fetch(len(first), DAYS))]


def watch_to_the_end(web: Web, seeds: list[int]) -> Watched:
    """Crawl everything that the seeds reach, by order alone."""
    order = crawl_order(web.graph, seeds, _breadth_first())
    return _whole(web, order, reachable(web.graph, seeds), len(seeds) == 1)


def _whole(web: Web, order: PageIds, reached: NDArray[np.bool_], single: bool) -> Watched:
    """Return a crawl of everything reachable, judged by the whole web.

    On a web of one site `remote` is by all links.
    """
    has_remote = web.graph.between_sites().n_links > 0
    remote = importance_of(web.graph, "remote-pagerank") if has_remote else web.ranks
    return Watched(
        SINGLE if single else HOMES,
        order,
        scaled_to_mean_one(web.ranks, reached),
        scaled_to_mean_one(remote, reached),
        slices_by_fetch(len(order), DAYS),
        web.graph.site,
    )


def margins_by_day(web: Web, crawl: Watched) -> dict[str, float]:
    """Return the measures behind the claims about breadth-first crawls, one number each.

    The generator's errors are the errors of these numbers.
    """
    day, remote = crawl.by_day.mean, crawl.remote_by_day.mean
    by_week = [float(np.nanmean(day[a:b])) for a, b in WEEKS]
    sizes = [n for n in (100, 1000, 10_000, 100_000, 1_000_000) if n < len(crawl.order)]
    tops = crawl.day_of_top([*sizes, len(crawl.order)]).mean
    early = np.flatnonzero(crawl.days <= EARLY_DAYS)
    partial = pagerank_seen(web.graph, crawl.order[: len(early)])
    whole = pagerank_seen(web.graph, crawl.order)
    top = max(round(TOP_SHARE * len(crawl.order)), 1)
    overlap = overlap_of_top(partial, whole, TOPS)
    return {
        "mean PageRank of day 1": float(day[0]),
        "day 1 by day 2": float(day[0] / day[1]),
        "least fall from stretch to stretch": -float(np.diff(by_week).max()),
        "day 1, remote less all links": float(remote[0] - day[0]),
        "day 1 by day 2, remote less all links": float(remote[0] / remote[1] - day[0] / day[1]),
        "top 10 on day 1": float((crawl.top(10) == 1).sum()),
        "top 100 on day 1": float((crawl.top(100) == 1).sum()),
        "least rise of the mean day with N": float(np.diff(tops).min()),
        "top 1 % in the first tenth": float(
            (crawl.top(max(len(crawl.order) // 100, 1)) <= DAYS // 10).mean()
        ),
        "top 0.3 % fetched in 28 days": float((crawl.top(top) <= EARLY_DAYS).mean()),
        "overlap of the top 0.3 %": float(overlap_of_top(partial, whole, [top]).mean[0]),
        "least overlap from N = 20": float(overlap.mean[overlap.x >= 20].min()),
    }


def watch_clock(web: Web, n_fetches: int) -> list[Watched]:
    """Return timed crawls with as many robots as Mercator, and with as many per site."""
    graph = web.graph
    polite = Politeness(adaptive=PAUSE, max_adaptive=1e9)
    watched = []
    for robots in (ROBOTS, max(round(ROBOTS * graph.n_sites / HOSTS), 1)):
        network = drawn_network(graph, robots=robots, politeness=polite)
        crawl = timed_crawl(graph, [web.start], _breadth_first(), network, budget=n_fetches)
        by_end = np.argsort(crawl.ended, kind="stable")
        days = slices_by_time(crawl.ended[by_end], crawl.seconds / DAYS, start=0.0)
        label = f"{HALFWAY}, {robots} robot{'s' if robots > 1 else ''}"
        watched.append(_stopped(label, graph, crawl.order[by_end], np.minimum(days, DAYS)))
    return watched


def _stopped(label: str, graph: LinkGraph, order: PageIds, days: NDArray[np.int64]) -> Watched:
    """Return a crawl that left pages unseen, judged by what it saw."""
    ranks = pagerank_seen(graph, order)
    seen = ~np.isnan(ranks)
    remote = pagerank_seen(graph.between_sites(), order)
    # Pages without a link from another site have the lowest rank.
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
    """Return a line for each kind of crawl, with a band from least to greatest."""
    drawn = {}
    for label in dict.fromkeys(crawl.label for crawl in crawls):
        runs = [points(crawl) for crawl in crawls if crawl.label == label]
        drawn[label] = mean_and_spread(runs, DAYS, "range") if len(runs) > 1 else Series(runs[0])
    return drawn


def by_log_x(points: Sequence[tuple[float, float]]) -> Floats:
    """Return points by the logarithm of x, so that means are taken at even steps of a log axis."""
    line = np.array(points)
    line[:, 0] = np.log10(line[:, 0])
    return line


def from_log_x(line: Series) -> Series:
    """Return a line over logarithms of x as a line over x."""
    points = np.array(line.points)
    points[:, 0] = 10.0 ** points[:, 0]
    return Series(points, line.low, line.high)
