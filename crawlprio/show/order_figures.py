"""Figures of an order of fetches besides its cumulative importance: models, days, tops.

These are the figures of Cho, Garcia-Molina & Page 1998 (P_CS, P_ST, P_BC) and of Najork & Wiener
2001 (mean importance by day, and when the most important pages were fetched), for your own crawl.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from crawlprio.measure.crawl_models import (
    BacklinksSeen,
    ModelCurve,
    PageRankSeen,
    crawl_and_stop,
    crawl_and_stop_with_threshold,
    limited_buffer,
    top_threshold,
)
from crawlprio.measure.crawl_order import (
    Means,
    mean_importance_by_slice,
    mean_slice_of_top,
    scaled_to_mean_one,
    slices_by_fetch,
)
from crawlprio.measure.importance import Repository
from crawlprio.measure.scores import Score
from crawlprio.show.figures import Panel, Points, split_at

MODELS = {"crawl-stop": "P_CS", "threshold": "P_ST", "buffer": "P_BC"}
"""Models of Cho et al. by their name in `--model`, with the paper's symbol for the performance."""

HOT_SHARE = 0.01
"""Share of the pages that are hot under the model `threshold` without `--threshold`."""

BUFFERS = (0.01, 0.02, 0.05, 0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 1.0)
MODEL_MARKS = (0.1, 0.2, 0.5, 1.0)
"""Shares of all pages, fetched or in the buffer, at which a model is reported."""


@dataclass(frozen=True)
class FigureOptions:
    """The figures of an order to report.

    `models`: names of `MODELS`. `threshold`: importance from which a page is hot; None: that of the
    top 1 % of the pages. `days`: number of stretches with equally many fetches; 0: not requested.
    `tops`: sizes N, ascending.
    """

    models: tuple[str, ...] = ()
    threshold: float | None = None
    days: int = 0
    tops: tuple[int, ...] = ()

    @property
    def any(self) -> bool:
        return bool(self.models or self.days or self.tops)


@dataclass(frozen=True, eq=False)
class OrderFigures:
    """The figures of one order by one importance.

    `models`: curves by the name of the model. `by_day`: mean importance by stretch, where the mean
    of all pages is 1; None: not requested. `tops`: mean share of the fetches after which the top N
    were fetched; None: not requested.
    """

    models: Mapping[str, ModelCurve]
    by_day: Means | None
    tops: Means | None

    def as_json(self) -> dict[str, Any]:
        """Return the requested figures."""
        figures: dict[str, Any] = {}
        if self.models:
            figures["models"] = {
                name: {
                    "hot": int(curve.n_hot[-1]),
                    **{
                        line: curve.points(line, 101) for line in ("performance", "ideal", "random")
                    },
                }
                for name, curve in self.models.items()
            }
        if self.by_day is not None:
            figures["by_day"] = self.by_day.points()
        if self.tops is not None:
            figures["tops"] = [[int(n), share] for n, share in self.tops.points()]
        return figures

    def tables(self, importance: str) -> list[tuple[list[str], list[list[str]], str]]:
        """Return the tables to print: headings, rows and caption."""
        tables: list[tuple[list[str], list[list[str]], str]] = []
        if self.models:
            rows = [
                [name if line == "performance" else "", line]
                + [_at(curve.x, getattr(curve, line), mark) for mark in MODEL_MARKS]
                for name, curve in self.models.items()
                for line in ("performance", "ideal", "random")
            ]
            headings = ["model", "", *(f"{100 * mark:g} %" for mark in MODEL_MARKS)]
            names = ", ".join(f"{name}: {MODELS[name]}" for name in self.models)
            tables.append(
                (headings, rows, f"{names} of Cho et al., by {importance}, at x % of all pages "
                 "that count (buffer: x % held). ideal: the order by importance; random: the "
                 "expectation of a random order.")
            )  # fmt: skip
        if self.by_day is not None:
            days = [[f"{day:g}", f"{mean:.4f}"] for day, mean in self.by_day.points()]
            tables.append(
                (["day", "mean"], days, f"Mean {importance} of the pages fetched in each of "
                 f"{len(self.by_day.x):,} stretches of the crawl; the mean of all pages that count "
                 "is 1.")
            )  # fmt: skip
        if self.tops is not None:
            shares = [[f"{n:,.0f}", f"{share:.2%}"] for n, share in self.tops.points()]
            tables.append(
                (["top", "fetched after"], shares, f"Mean share of the fetches after which the N "
                 f"fetched pages of highest {importance} had been fetched.")
            )  # fmt: skip
        return tables

    def panels(self, scored: Score, orders: Sequence[tuple[int, str]]) -> list[Panel]:
        """Return a panel for each requested figure, with the changes of the ordering.

        `orders`: `(fetches before it, name)` of each ordering, in turn.
        """

        def lines(points: Points, scale: float, first: float = 0.0) -> Mapping[str, Points]:
            if len(orders) < 2:
                return {"this order": points}
            return split_at(points, [(first + n * scale, name) for n, name in orders])

        panels = [
            Panel(
                {"this order": curve.points()} if name == "buffer"
                else lines(curve.points(), 1 / scored.n_known),
                f"{MODELS[name]} ({name})",
                "share of pages in the buffer" if name == "buffer" else "share of pages fetched",
                "share of buffer hot" if name == "buffer"
                else "share of hot pages fetched" if name == "threshold"
                else "share of pages fetched that are hot",
                x_percent=True, y_percent=True, y_limits=(0.0, 1.0),
                references={"ideal": curve.points("ideal"), "random": curve.points("random")},
            )
            for name, curve in self.models.items()
        ]  # fmt: skip
        n_fetched = scored.fetched or 1
        if self.by_day is not None and (days := self.by_day.points()):
            panels.append(
                Panel(
                    lines(days, len(self.by_day.x) / n_fetched, 0.5), "By stretch of the crawl",
                    "stretch of the crawl", f"mean {scored.importance} (all pages: 1)",
                )
            )  # fmt: skip
        if self.tops is not None and (tops := self.tops.points()):
            panels.append(
                Panel(
                    {"this order": tops}, "When the best pages were fetched",
                    f"N, pages of highest {scored.importance}", "mean share of the fetches",
                    x_scale="log", y_percent=True, y_limits=(0.0, 1.0),
                    references={
                        f"change to {name}": [(x, n / n_fetched) for x in (tops[0][0], tops[-1][0])]
                        for n, name in orders[1:]
                    },
                )
            )  # fmt: skip
        return panels


def order_figures(
    options: FigureOptions,
    scored: Score,
    repository: Repository,
    given: Sequence[int] | NDArray[Any] | None = None,
) -> OrderFigures | None:
    """Return the figures of an order, or None if no page has any importance.

    `scored`: the score of the same order. `given`: the order, as for `score`; default: the
    repository's. Raises `GraphError` if no page reaches the threshold.

    O(pages log pages). The model `buffer` adds O(log B) per fetch and buffer size, and a PageRank
    of the pages seen 35 times per crawl unless the importance is backlinks.
    """
    order = repository.order if given is None else np.asarray(given, dtype=np.int64)
    if order is None or scored.order is None:
        return None
    order = order[scored.known[order]]
    n_fetched = len(order)
    by_day = tops = None
    if options.days:
        slices = slices_by_fetch(n_fetched, options.days)
        scaled = scaled_to_mean_one(scored.values, scored.known)
        by_day = mean_importance_by_slice(order, scaled, slices)
    if options.tops:
        places = np.arange(1, n_fetched + 1, dtype=np.int64)
        found = mean_slice_of_top(order, scored.values, places, options.tops)
        tops = type(found)(found.x, found.mean / n_fetched, found.n)
    models = {name: _model(name, options, scored, repository, order) for name in options.models}
    return OrderFigures(models, by_day, tops)


def _model(
    name: str,
    options: FigureOptions,
    scored: Score,
    repository: Repository,
    order: NDArray[Any],
) -> ModelCurve:
    """Return the curve of an order under one model."""
    values, known = scored.values, scored.known
    if name == "crawl-stop":
        return crawl_and_stop(order, values, known)
    if name == "threshold":
        threshold = options.threshold
        if threshold is None:
            threshold = top_threshold(values, HOT_SHARE, known)
        return crawl_and_stop_with_threshold(order, values, threshold, known)
    graph = repository.graph
    estimate = BacklinksSeen(graph) if scored.importance == "backlinks" else PageRankSeen(graph)
    return limited_buffer(order, values, BUFFERS, estimate, reachable=known)


def _at(x: NDArray[np.float64], y: NDArray[np.float64], mark: float) -> str:
    """Return the value at a share of the pages; a dash beyond the end of the crawl."""
    if len(x) == 0 or mark > x[-1] + 1e-9:
        return "-"
    return f"{float(np.interp(mark, x, y)):.4f}"
