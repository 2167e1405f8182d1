"""Crawls of a web from several seeds under several orderings, and which of them are the same."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from crawlprio.evaluation import ModelCurve, reachable
from crawlprio.evaluation.figures import Series, mean_and_spread
from crawlprio.linkgraph import LinkGraph
from crawlprio.orderings import Ordering
from crawlprio.pages import PageIds
from crawlprio.simulator import RecordedVisits, crawl_order
from crawlprio.topic import HotQueue

Mask = NDArray[np.bool_]
Measure = Callable[[PageIds, Mask], ModelCurve]

SAME = 0.01
"""Crawls whose pages are displaced by less than this share of the crawl on average are the same."""


class Crawls:
    """Crawls of one graph, each from its own seeds, under each of several orderings.

    Parameters
    ----------
    name
        as figures name the graph.
    graph
        what is crawled.
    seeds
        the seeds of each crawl.
    orderings
        by name, what makes each of them.
    hot_queue, recorded
        as of `crawl_order`; a hot queue is made for each crawl.
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
        """Pages that the first crawl reaches."""
        return int(self.reachable[0].sum())

    def distinct(self, *orderings: str) -> list[int]:
        """Return one place in `seeds` for each different crawl under these orderings, all if none.

        Two seeds lead to the same crawl if they do under each of the orderings; see `SAME`.
        """
        runs = [self.orders[name] for name in (orderings or self.orders)]
        kept: list[int] = []
        for k in range(len(self.seeds)):
            if not any(all(displaced(o[k], o[j]) < SAME for o in runs) for j in kept):
                kept.append(k)
        return kept

    def cases(self, values: Sequence[float], *orderings: str) -> dict[str, float]:
        """Return the value of each different crawl under these orderings, by the case's name."""
        places = self.distinct(*orderings)
        if len(places) == 1:
            return {self.name: values[0]}
        return {f"{self.name}, seed {k + 1}": values[k] for k in places}

    def curves(self, measure: Measure) -> dict[str, list[ModelCurve]]:
        """Measure all crawls; by ordering, one curve for each seed."""
        return {
            ordering: [measure(*crawl) for crawl in zip(orders, self.reachable, strict=True)]
            for ordering, orders in self.orders.items()
        }


def displaced(one: PageIds, other: PageIds) -> float:
    """Return how far apart a page's places in two crawls are on average, as a share of the crawl.

    Pages that only one of them fetched are displaced by the whole crawl.
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
    """The mean over seeds with a band from the least to the greatest, by ordering."""
    return {
        name: mean_and_spread([c.points() for c in of_seeds], spread="range")
        for name, of_seeds in curves.items()
    }


def at(curve: ModelCurve, share: float) -> float:
    """The performance when this share of the pages was fetched."""
    return float(np.interp(share, curve.x, curve.performance))


def mean_at(curves: Sequence[ModelCurve], share: float) -> float:
    """The mean of that over crawls."""
    return float(np.mean([at(curve, share) for curve in curves]))


def areas(curves: Sequence[ModelCurve]) -> list[float]:
    """The mean performance over all fetches of each crawl: the area under its curve."""
    return [float(curve.performance.mean()) for curve in curves]


def area(curves: Sequence[ModelCurve]) -> float:
    """The mean of that over crawls."""
    return float(np.mean(areas(curves)))


def tally(cases: Sequence[bool]) -> str:
    """In how many of the cases something holds, in words."""
    return f"{sum(map(bool, cases))} of {len(cases)}"
