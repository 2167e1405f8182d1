"""The importance of the pages of a crawl, and how good the order was in which it fetched them.

Nothing here knows files, terminals or how importance is computed.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from crawlprio.errors import GraphError
from crawlprio.evaluation import best_order, cumulative_pagerank, curve, kendall_tau, reachable
from crawlprio.importance.base import Floats, Importance, PageMask, Repository
from crawlprio.pages import PageIds

MARKS = (0.05, 0.1, 0.3, 1.0)
"""Fractions of the fetches after which a score says how much importance had been gathered."""

N_TOP = 10
"""Pages named as the most important."""

HEAD = 0.01
"""Fraction of the pages whose part of all importance tells how uneven it is."""


@dataclass(frozen=True, eq=False)
class OrderScore:
    """How much importance an order of fetches gathers.

    Parameters
    ----------
    average
        mean, over all fetches, of the share of the importance gathered.
    gathered_at
        share gathered after each of `MARKS` of the fetches, rounded up.
    curve
        up to 101 points [fraction of the pages fetched, fraction of their importance].
    """

    average: float
    gathered_at: tuple[float, ...]
    curve: list[list[float]]

    def as_json(self) -> dict[str, Any]:
        gathered = {f"{mark:g}": share for mark, share in zip(MARKS, self.gathered_at, strict=True)}
        return {
            "average_cumulative_importance": self.average,
            "gathered_at": gathered,
            "curve": self.curve,
        }


@dataclass(frozen=True, eq=False)
class Score:
    """One importance of all pages, and how good an order was by it.

    Parameters
    ----------
    importance
        its name.
    values
        float64, shape (n_pages,).
    known
        bool, shape (n_pages,): the pages that count. They are the universe of all figures: those
        that the crawl fetched or saw, only those fetched where the importance goes by content; for
        an order of a graph's pages, those that can be reached from any page of the order.
    remarks
        what a reader has to know, in a sentence each.
    fetched
        pages of the order that count; None without an order.
    order, bound
        how much was gathered by the order, and by as many pages of the greatest importance. None
        without an order, or if no page has any importance.
    kendall_tau
        of the order against importance; NaN where it has no meaning.
    """

    importance: str
    values: Floats
    known: PageMask
    remarks: Sequence[str]
    fetched: int | None = None
    order: OrderScore | None = None
    bound: OrderScore | None = None
    kendall_tau: float = math.nan

    @property
    def n_known(self) -> int:
        return int(self.known.sum())

    def top(self) -> list[int]:
        """Return the `N_TOP` most important pages, the first page first of equal ones."""
        top: list[int] = best_order(self.values, self.known)[:N_TOP].tolist()
        return top

    def random(self) -> OrderScore | None:
        """Return what as many pages drawn at random are expected to gather, if there is an order.

        After k of n pages that is k/n, whatever the importance.
        """
        return None if self.order is None else order_score(self._drawn(), self.n_known)

    def distribution(self) -> dict[str, float]:
        """Return how importance is spread over the pages that count; empty if there are none."""
        values = np.sort(self.values[self.known])
        if len(values) == 0:
            return {}
        total = float(values.sum())
        head = values[len(values) - math.ceil(HEAD * len(values)) :]
        return {
            "total": total,
            "mean": float(values.mean()),
            "median": float(np.median(values)),
            "least": float(values[0]),
            "most": float(values[-1]),
            "zero": float((values == 0.0).mean()),
            "top_1_percent": float(head.sum()) / total if total > 0.0 else math.nan,
        }

    def as_json(self, urls: Sequence[str] | None) -> dict[str, Any]:
        """Return all but the values of pages that are not on top; null where there is no number."""
        top = []
        for page in self.top():
            named = {} if urls is None else {"url": urls[page]}
            top.append({"page": page, **named, "value": float(self.values[page])})
        random = self.random()
        return {
            "importance": self.importance,
            "known": self.n_known,
            "distribution": {name: _or_none(x) for name, x in self.distribution().items()},
            "top": top,
            "remarks": list(self.remarks),
            "fetched": self.fetched,
            "kendall_tau": _or_none(self.kendall_tau),
            "order": None if self.order is None else self.order.as_json(),
            "bound": None if self.bound is None else self.bound.as_json(),
            "random": None if random is None else random.as_json(),
        }

    def _drawn(self) -> Floats:
        """The expected share after each random draw."""
        assert self.fetched is not None
        return np.arange(1, self.fetched + 1, dtype=np.float64) / self.n_known


def score(
    name: str,
    importance: Importance,
    repository: Repository,
    given: Sequence[int] | NDArray[Any] | None = None,
) -> Score:
    """Return the importance of all pages, and how good the order was in which they were fetched.

    Parameters
    ----------
    name
        what the importance is called.
    importance, repository
        the metric and the pages.
    given
        pages in the order fetched, none twice, to be judged in place of that of the repository.

    Raises
    ------
    GraphError
        if the repository lacks what the metric goes by, or the order is none of its pages.

    Notes
    -----
    The cost of the importance, and O(pages log pages).
    """
    values = importance.of(repository)
    remarks = list(dict.fromkeys(importance.remarks(repository)))
    graph = repository.graph
    order = repository.order if given is None else np.asarray(given, dtype=np.int64)
    known = np.ones(graph.n_pages, dtype=np.bool_)
    if given is not None and order is not None and len(order):
        strangers = order[(order < 0) | (order >= graph.n_pages)]
        if len(strangers):
            raise GraphError(
                f"the order names page {strangers[0]}, which is not a page of {repository.name}; "
                f"page ids are 0 to {graph.n_pages - 1}."
            )
        known = reachable(graph, order)
    if importance.of_content and repository.order is not None:
        known &= repository.fetched()
        order = None if order is None else order[known[order]]
        remarks.append(f"{name} is known of fetched pages alone, which are all that count here.")
    if order is None:
        return Score(name, values, known, remarks)
    if not values[known].sum() > 0.0 or len(order) == 0:
        if len(order):
            remarks.append(f"No page has any importance by {name}, so that no order is better.")
        return Score(name, values, known, remarks, fetched=len(order))
    n_known = int(known.sum())
    best: PageIds = best_order(values, known)[: len(order)]
    return Score(
        name,
        values,
        known,
        remarks,
        fetched=len(order),
        order=order_score(cumulative_pagerank(order, values, known), n_known),
        bound=order_score(cumulative_pagerank(best, values, known), n_known),
        kendall_tau=kendall_tau(order, values, reachable=known),
    )


def order_score(gathered: Floats, n_known: int) -> OrderScore:
    """Return the figures of an order from the share gathered after each of its fetches."""
    n_fetched = len(gathered)
    return OrderScore(
        average=float(gathered.mean()),
        gathered_at=tuple(float(gathered[max(math.ceil(m * n_fetched), 1) - 1]) for m in MARKS),
        curve=curve(gathered, n_pages=n_known),
    )


def _or_none(value: float) -> float | None:
    """The number, or None for what JSON cannot say."""
    return value if math.isfinite(value) else None
