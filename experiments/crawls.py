"""Crawls of a web from several seeds under several orderings, and how a claim fared in all of them.

It must not know papers, figures or what a crawl is judged by.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import cached_property

import numpy as np
from numpy.typing import NDArray
from report import Verdict

from crawlprio.evaluation import ModelCurve, reachable
from crawlprio.evaluation.figures import Series, mean_and_spread
from crawlprio.linkgraph import LinkGraph
from crawlprio.orderings import Ordering
from crawlprio.pages import PageIds
from crawlprio.simulator import RecordedVisits, crawl_order
from crawlprio.topic import HotQueue

Mask = NDArray[np.bool_]
Measure = Callable[[PageIds, Mask], ModelCurve]

HOLDS, HOLDS_AT_TIMES = 0.9, 0.25
"""Shares of the cases from which on a claim is reproduced, and partly reproduced."""

RULE = (
    "A claim that is tested in several crawls counts as reproduced if it holds in at least "
    f"{HOLDS:.0%} of them, and as partly reproduced if in at least {HOLDS_AT_TIMES:.0%}."
)


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

    def curves(self, measure: Measure) -> dict[str, list[ModelCurve]]:
        """Measure all crawls; by ordering, one curve for each seed."""
        return {
            ordering: [measure(*crawl) for crawl in zip(orders, self.reachable, strict=True)]
            for ordering, orders in self.orders.items()
        }


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


def verdict(cases: Sequence[bool]) -> Verdict:
    """What becomes of a claim that was tested in these cases; see `RULE`."""
    if not len(cases):
        return "not tested"
    share = float(np.mean(cases))
    if share >= HOLDS:
        return "reproduced"
    return "partly reproduced" if share >= HOLDS_AT_TIMES else "not reproduced"


def tally(cases: Sequence[bool]) -> str:
    """In how many of the cases something holds, in words."""
    return f"{sum(map(bool, cases))} of {len(cases)}"
