"""Scores: the importance of the pages of a crawl, and the quality of the order of its fetches."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from crawlprio.graph.arrays import Flags, Floats, integers
from crawlprio.graph.pages import PageIds
from crawlprio.measure.crawl_order import (
    best_order,
    cumulative_pagerank,
    curve,
    kendall_tau,
    reachable,
)
from crawlprio.measure.importance import Importance, Repository

MARKS = (0.05, 0.1, 0.3, 1.0)
"""Fractions of the fetches at which a score reports the importance gathered so far."""

N_TOP = 10
"""Number of pages listed as the most important."""

HEAD = 0.01
"""Fraction of the pages whose share of all importance shows how skewed it is."""


@dataclass(frozen=True, eq=False)
class OrderScore:
    """The importance gathered by an order of fetches.

    `average`: mean, over all fetches, of the share gathered. `gathered_at`: share gathered after
    each of `MARKS` of the fetches, rounded up. `curve`: up to 101 points [fraction of the pages
    fetched, fraction of their importance].
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
    """One importance of all pages, and the quality of an order by it.

    `known`: the pages that count in all figures: those that the crawl fetched or saw, or only those
    fetched if the importance is computed from content; for an order of a graph's pages, those that
    can be reached from a page of the order. `remarks`: notes that a reader of the figures needs.
    `fetched`: pages of the order that count; None without an order. `order` and `bound`: importance
    gathered by the order, and by equally many pages of the greatest importance; None without an
    order, or if no page has any importance. `kendall_tau`: of the order against importance; NaN if
    undefined.
    """

    importance: str
    values: Floats
    known: Flags
    remarks: Sequence[str]
    fetched: int | None = None
    order: OrderScore | None = None
    bound: OrderScore | None = None
    kendall_tau: float = math.nan

    @property
    def n_known(self) -> int:
        return int(self.known.sum())

    def top(self) -> list[int]:
        """Return the `N_TOP` most important pages; ties are in order of page id."""
        top: list[int] = best_order(self.values, self.known)[:N_TOP].tolist()
        return top

    def random(self) -> OrderScore | None:
        """Return the expectation for equally many random pages, or None without an order.

        After k of n pages it is k/n, whatever the importance.
        """
        if self.order is None or self.fetched is None:
            return None
        return order_score(np.arange(1.0, self.fetched + 1) / self.n_known, self.n_known)

    def distribution(self) -> dict[str, float]:
        """Return statistics of importance over the pages that count; empty if there are none."""
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
        """Return the score for JSON, with values of the top pages only; null for NaN."""
        top = []
        for page in self.top():
            named = {} if urls is None else {"url": urls[page]}
            top.append({"page": page, **named, "value": float(self.values[page])})
        random = self.random()
        return {
            "importance": self.importance,
            "known": self.n_known,
            "distribution": {name: finite(x) for name, x in self.distribution().items()},
            "top": top,
            "remarks": list(self.remarks),
            "fetched": self.fetched,
            "kendall_tau": finite(self.kendall_tau),
            "order": None if self.order is None else self.order.as_json(),
            "bound": None if self.bound is None else self.bound.as_json(),
            "random": None if random is None else random.as_json(),
        }


def score(
    name: str,
    importance: Importance,
    repository: Repository,
    given: Sequence[int] | NDArray[Any] | None = None,
) -> Score:
    """Return the importance of all pages, and the quality of the order in which they were fetched.

    `given`: distinct pages in the order fetched, to judge instead of the order of the repository.
    GraphError if the repository lacks the data that the metric needs, or the order is invalid for
    it. The cost of the importance, plus O(pages log pages).
    """
    values = importance.of(repository)
    remarks = list(dict.fromkeys(importance.remarks(repository)))
    graph = repository.graph
    order = repository.order
    known = np.ones(graph.n_pages, dtype=np.bool_)
    if given is not None:
        order = integers(f"{repository.name}: order", given, below=graph.n_pages)
        known = reachable(graph, order) if len(order) else known
    if repository.counted is not None:
        known &= repository.counted
        order = None if order is None else order[known[order]]
    if importance.of_content and repository.order is not None:
        known &= repository.fetched()
        order = None if order is None else order[known[order]]
        remarks.append(f"{name} is known for fetched pages only, so only they count here.")
    if order is None:
        return Score(name, values, known, remarks)
    if not values[known].sum() > 0.0 or len(order) == 0:
        if len(order):
            remarks.append(f"No page has any importance by {name}, so no order is better.")
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
    return OrderScore(
        average=float(gathered.mean()) if len(gathered) else math.nan,
        gathered_at=shares_at(gathered, len(gathered), MARKS),
        curve=curve(gathered, n_pages=n_known),
    )


def shares_at(gathered: Floats, n_pages: int, marks: Sequence[float]) -> tuple[float, ...]:
    """Return the share gathered after each fraction of `n_pages` fetches, rounded up.

    It is NaN where the crawl ended before.
    """
    ends = (max(math.ceil(mark * n_pages), 1) for mark in marks)
    return tuple(float(gathered[n - 1]) if n <= len(gathered) else math.nan for n in ends)


def finite(value: float) -> float | None:
    """Return the number, or None if JSON cannot represent it."""
    return value if math.isfinite(value) else None
