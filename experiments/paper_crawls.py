"""Crawls of a web from several seeds under several orderings, and which of them are the same."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import cached_property

import numpy as np
from measures import mean_and_spread
from numpy.typing import NDArray

from crawlprio.graph.linkgraph import LinkGraph
from crawlprio.graph.pages import PageIds
from crawlprio.graph.topic import HotQueue
from crawlprio.measure.crawl_models import ModelCurve
from crawlprio.measure.crawl_order import reachable
from crawlprio.orderings import Ordering
from crawlprio.show.figures import Series
from crawlprio.simulator.graph_pages import RecordedVisits
from crawlprio.simulator.timed import crawl_order

Mask = NDArray[np.bool_]
Measure = Callable[[PageIds, Mask], ModelCurve]

SAME = 0.01
"""Crawls are the same if their pages are displaced by less than this on average, as a share."""


class Crawls:
    """Crawls of one graph, each from its own seeds, under each of several orderings.

    `name`: name of the graph in figures. `graph`: the graph to crawl. `seeds`: the seeds of each
    crawl. `orderings`: factories of orderings, by name. `hot_queue` and `recorded`: as in
    `crawl_order`; each crawl gets its own hot queue.
    """

    def __init__(
        self,
        name: str,
        graph: LinkGraph,
        seeds: Sequence[Sequence[int]],
        orderings: Mapping[str, Callable[[], Ordering]],
        *,
        hot_queue: Callable[[], HotQueue] | None = None,
        recorded: RecordedVisits | None = None,
    ) -> None:
        self.name, self.graph, self.seeds = name, graph, seeds
        self.orders: dict[str, list[PageIds]] = {
            ordering: [
                crawl_order(
                    graph,
                    starts,
                    make(),
                    hot_queue=hot_queue() if hot_queue else None,
                    recorded=recorded,
                )
                for starts in seeds
            ]
            for ordering, make in orderings.items()
        }

    @cached_property
    def reachable(self) -> list[Mask]:
        """The pages that each crawl can reach."""
        return [reachable(self.graph, starts) for starts in self.seeds]

    @property
    def n_reachable(self) -> int:
        """Number of pages that the first crawl reaches."""
        return int(self.reachable[0].sum())

    def distinct(self, *orderings: str) -> list[int]:
        """Return one index into `seeds` per distinct crawl under these orderings (default: all).

        Two seeds lead to the same crawl if they do so under every ordering; see `SAME`.
        """
        runs = [self.orders[name] for name in (orderings or self.orders)]
        kept: list[int] = []
        for k in range(len(self.seeds)):
            if not any(all(displaced(o[k], o[j]) < SAME for o in runs) for j in kept):
                kept.append(k)
        return kept

    def cases(self, values: Sequence[float], *orderings: str) -> dict[str, float]:
        """Return the value of each distinct crawl under these orderings, by the case's name."""
        places = self.distinct(*orderings)
        if len(places) == 1:
            return {self.name: values[0]}
        return {f"{self.name}, seed {k + 1}": values[k] for k in places}

    def curves(self, measure: Measure, *orderings: str) -> dict[str, list[ModelCurve]]:
        """Measure crawls under these orderings (default: all); one curve per seed, by ordering."""
        return {
            name: [measure(*crawl) for crawl in zip(self.orders[name], self.reachable, strict=True)]
            for name in (orderings or self.orders)
        }


def displaced(one: PageIds, other: PageIds) -> float:
    """Return the mean distance between a page's places in two crawls, as a share of the crawl.

    Pages that only one of the crawls fetched count as displaced by the whole crawl.
    """
    n_pages = int(max(one.max(), other.max())) + 1
    place = np.full(n_pages, -1, dtype=np.int64)
    place[one] = np.arange(len(one))
    there = place[other]
    both = there >= 0
    n_both, longest = int(both.sum()), max(len(one), len(other))
    apart = float(np.abs(there[both] - np.flatnonzero(both)).sum()) / longest
    n_all = len(one) + len(other) - n_both
    return (apart + n_all - n_both) / n_all


def bands(curves: Mapping[str, Sequence[ModelCurve]]) -> dict[str, Series]:
    """Return the mean over seeds with a band from least to greatest, by ordering."""
    return {
        name: mean_and_spread([c.points() for c in of_seeds], spread="range")
        for name, of_seeds in curves.items()
    }


def at(curve: ModelCurve, share: float) -> float:
    """Return the performance once this share of the pages is fetched."""
    return float(np.interp(share, curve.x, curve.performance))


def mean_at(curves: Sequence[ModelCurve], share: float) -> float:
    """The mean of that over crawls."""
    return float(np.mean([at(curve, share) for curve in curves]))


def areas(curves: Sequence[ModelCurve]) -> list[float]:
    """Return the mean performance over all fetches of each crawl: the area under its curve."""
    return [float(curve.performance.mean()) for curve in curves]


def area(curves: Sequence[ModelCurve]) -> float:
    """The mean of that over crawls."""
    return float(np.mean(areas(curves)))


def tally(cases: Sequence[bool]) -> str:
    """Return in how many of the cases something holds, in words."""
    return f"{sum(map(bool, cases))} of {len(cases)}"
