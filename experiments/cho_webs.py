"""Crawls as Cho, Garcia-Molina & Page 1998 make and judge them: orderings, importances, models."""

from __future__ import annotations

from collections.abc import Callable
from functools import cached_property
from itertools import count

import numpy as np
from numpy.typing import NDArray
from paper_crawls import Crawls, Mask

from crawlprio.graph.pages import PageIds, Visit
from crawlprio.measure.crawl_models import ModelCurve, crawl_and_stop, crawl_and_stop_with_threshold
from crawlprio.measure.importance import importance_of
from crawlprio.orderings import Ordering, make_ordering
from crawlprio.orderings.base import Changed, Keys, Rows
from crawlprio.orderings.by_pagerank import PageRank
from crawlprio.show.figures import Panel, Points, Series

DAMPING = 0.9
THREE = ("breadth-first", "backlink-count", "pagerank")
"""The orderings of the paper."""

DRAWS = ("random", "random, second draw")
"""Random crawls: two draws from each start."""

NEWEST_FIRST = "backlink-count, newest first"
RANK_NEWEST_FIRST = "pagerank, newest first"
FETCHED, HOT_FETCHED = "share of pages fetched", "share of hot pages fetched"


class BacklinksNewestFirst(Ordering):
    """Backlink count, but of pages with equally many the one discovered last comes first."""

    def discover(self, first: int, last: int, visit: Visit) -> None:
        self.keys[first:last] = np.arange(first, last) * 2.0**-32

    def observe(self, visit: Visit) -> Changed:
        if visit.page >= 0:
            self.keys[visit.targets] += 1.0
        return visit.targets


class PageRankNewestFirst(PageRank):
    """PageRank, but of pages of equal rank the one discovered last comes first.

    Pages found since the last computation keep their places among themselves until the next.
    """

    rule = PageRank.rule

    def compute_keys(self, rows: Rows, n_visits: int) -> Keys:
        ranks = super().compute_keys(rows, n_visits)
        return ranks * (1.0 + 1e-14 * np.arange(len(ranks)))


def orderings(every: int | None = None, *names: str) -> dict[str, Callable[[], Ordering]]:
    """The paper's orderings and a random one; PageRank is computed every so many pages.

    Each random crawl is a draw of its own.
    """
    options = {"damping": DAMPING} | ({} if every is None else {"every": every})
    made: dict[str, Callable[[], Ordering]] = {
        "pagerank": lambda: make_ordering("pagerank", options),
        NEWEST_FIRST: BacklinksNewestFirst,
        RANK_NEWEST_FIRST: lambda: PageRankNewestFirst(**options),
    }
    for name in ("breadth-first", "backlink-count"):
        made[name] = lambda name=name: make_ordering(name)  # type: ignore[misc]
    draws = count()
    for name in DRAWS:
        made[name] = lambda: make_ordering("random", {"seed": next(draws)})
    return {name: made[name] for name in (names or (*THREE, "random"))}


class JudgedCrawls(Crawls):
    """Crawls judged by backlinks, IB, and by PageRank, IR, over the whole graph."""

    @cached_property
    def backlinks(self) -> NDArray[np.float64]:
        """IB(P)."""
        return self._importance("backlinks")

    @cached_property
    def ranks(self) -> NDArray[np.float64]:
        """IR(P), with the sum n."""
        return self._importance("cho-pagerank")

    @cached_property
    def untied_backlinks(self) -> NDArray[np.float64]:
        """IB(P), of equal pages one before the other by lot.

        Otherwise all pages with as many backlinks as the Kth are hot under Crawl & Stop: every
        page, once one backlink suffices.
        """
        return self.backlinks + np.random.default_rng(1998).random(self.graph.n_pages)

    def p_st(
        self, importance: NDArray[np.float64], threshold: float, *orderings: str
    ) -> dict[str, list[ModelCurve]]:
        """Crawl & Stop with Threshold, by ordering."""

        def measure(order: PageIds, reached: Mask) -> ModelCurve:
            return crawl_and_stop_with_threshold(order, importance, threshold, reached)

        return self.curves(measure, *orderings)

    def p_cs(self, importance: NDArray[np.float64], *orderings: str) -> dict[str, list[ModelCurve]]:
        """Crawl & Stop, by ordering."""

        def measure(order: PageIds, reached: Mask) -> ModelCurve:
            return crawl_and_stop(order, importance, reached)

        return self.curves(measure, *orderings)

    def share_hot(self, importance: NDArray[np.float64], threshold: float) -> float:
        """Share of the pages that the first crawl reaches that are hot."""
        return float((importance[self.reachable[0]] >= threshold).mean())

    def _importance(self, name: str) -> NDArray[np.float64]:
        return importance_of(self.graph, name)


def bound_and_random(curve: ModelCurve) -> dict[str, Points | Series]:
    """The reference lines of a model."""
    return {"upper-bound": curve.points("ideal"), "random, expected": curve.points("random")}


def share_panel(
    title: str,
    series: dict[str, Series],
    references: dict[str, Points | Series],
    ylabel: str = HOT_FETCHED,
    xlabel: str = FETCHED,
) -> Panel:
    """A panel of shares against shares."""
    return Panel(
        series, title, xlabel, ylabel, x_percent=True, y_percent=True, references=references,
        y_limits=(0.0, 1.0),
    )  # fmt: skip
