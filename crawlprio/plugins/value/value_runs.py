"""Simulated crawls judged by the value that they find, as `crawlprio simulate --value` reports."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from crawlprio.errors import ConfigError, GraphError
from crawlprio.graph.linkgraph import LinkGraph
from crawlprio.graph.pages import NO_PAGE
from crawlprio.graph.topic import HotQueue
from crawlprio.measure.crawl_order import curve, reachable
from crawlprio.orderings import Ordering
from crawlprio.plugins.value.model import ScoredModel, page_of
from crawlprio.plugins.value.models import make_model
from crawlprio.show.figures import plot_cumulative
from crawlprio.show.tables import figure, figures_table, wide_console
from crawlprio.simulator.graph_pages import RecordedVisits, Source
from crawlprio.simulator.timed import crawl_order

MARKS = (0.1, 0.2, 0.4)
"""Fractions of the reachable pages at which a crawl is judged."""

Floats = NDArray[np.float64]


def page_values(path: Path, graph: LinkGraph, model: ScoredModel) -> Floats:
    """Return the value of each page of a crawl store, 0 if it was not fetched.

    Raise GraphError for a store without texts, or without a page of any value.
    """
    from crawlprio.store import Store

    values, has_text = np.zeros(graph.n_pages), False
    with Store.open(path, readonly=True) as store:
        for visit in store.visits(anchors=False):
            if visit.page != NO_PAGE and 200 <= visit.status < 300 and (visit.title or visit.text):
                has_text |= bool(visit.text)
                url = "" if graph.urls is None else graph.urls[visit.page]
                values[visit.page] = model.score(page_of(url, visit.title, visit.text))
    if not has_text:
        raise GraphError(
            f"{path} has no page texts, because it was crawled without TOPIC and CRAWLPRIO_VALUE; "
            "crawl or replay it again with one of them."
        )
    if not values.any():
        raise GraphError(f"{path} has no page that {model.name} gives any value; name another.")
    return values


def starts_of(graph: LinkGraph, seeds: Sequence[int], n: int) -> list[list[int]]:
    """Return the seeds, and n - 1 single pages that reach at least half of what these reach.

    The pages are drawn with a fixed seed, 200 at most; fewer may qualify.
    """
    starts = [list(seeds)]
    if n > 1:
        least = reachable(graph, seeds).sum() / 2
        for page in np.random.default_rng(1).permutation(graph.n_pages)[:200].tolist():
            if len(starts) < n and reachable(graph, [page]).sum() >= least:
                starts.append([page])
    return starts


@dataclass(frozen=True)
class ValueRun:
    """The crawls of one ordering, one from each start.

    An oracle knows the values of pages that it has not fetched, as no crawl does. Of shape
    (starts, len(MARKS)), `recall` is the share of all reachable value found at each mark, and
    `harvest` the mean value of the pages fetched until then. `curve` has points [share of pages,
    share of value] of the first start.
    """

    ordering: str
    is_oracle: bool
    recall: Floats
    harvest: Floats
    curve: list[list[float]]

    def as_json(self) -> dict[str, Any]:
        """Return all fields, for JSON; figures by mark are lists with one number per start."""
        by_mark = {
            name: dict(zip(map(str, MARKS), table.T.tolist(), strict=True))
            for name, table in (("recall", self.recall), ("harvest", self.harvest))
        }
        own = {"ordering": self.ordering, "oracle": self.is_oracle, "curve": self.curve}
        return own | by_mark


class ValueLab:
    """Crawls of a recorded web under several orderings, judged by the value they find.

    `values` has the value of each page, which the oracle `omniscient` knows; `starts` the seeds of
    each crawl. `model` is the model that gave the values.
    """

    def __init__(
        self,
        graph: LinkGraph,
        recorded: RecordedVisits,
        values: Floats,
        starts: Sequence[Sequence[int]],
        model: ScoredModel,
    ) -> None:
        self.graph, self.values, self.starts = graph, values, starts
        self.model, self._judge = model.name, model.judge
        self._recorded = recorded
        recorded.values = values

    def as_json(self, runs: Sequence[ValueRun]) -> dict[str, Any]:
        """Return what was simulated, and all figures."""
        found = [run.as_json() for run in runs]
        return {"value": self.model, "starts": self.starts, "runs": found}

    def run(
        self,
        name: str,
        make: Callable[[], Ordering],
        hot_queue: Callable[[], HotQueue | None] = lambda: None,
    ) -> ValueRun:
        """Crawl from each start until the last of `MARKS`; each crawl has a new ordering."""
        recall, harvest = [], []
        points: list[list[float]] = []
        for start in self.starts:
            reached = reachable(self.graph, start)
            n_reached = int(reached.sum())
            ends = [max(round(mark * n_reached), 1) for mark in MARKS]
            ordering = make()
            ordering.judge = self._judge
            order = crawl_order(
                self.graph,
                start,
                ordering,
                budget=ends[-1],
                hot_queue=hot_queue(),
                truth=self.values if ordering.needs_truth else None,
                recorded=self._recorded,
            )
            found = np.cumsum(self.values[order])
            at = [found[min(end, len(found)) - 1] for end in ends]
            everything = float(self.values[reached].sum()) or 1.0
            recall.append([value / everything for value in at])
            harvest.append([value / end for value, end in zip(at, ends, strict=True)])
            points = points or curve(found / everything, n_pages=n_reached)
        return ValueRun(name, ordering.needs_truth, np.array(recall), np.array(harvest), points)

    def print(self, runs: Sequence[ValueRun], source: str) -> None:
        """Print one table: value found by each ordering, mean and worst over the starts."""
        console = wide_console()
        reached = reachable(self.graph, self.starts[0])
        console.print(
            f"{source}: {int(reached.sum()):,} pages can be reached, worth "
            f"{self.values[reached].sum():,.1f} in all by {self.model}. {len(self.starts)} start"
            f"{'s' if len(self.starts) > 1 else ''}."
        )
        marks = [f"at {100 * mark:g} %" for mark in MARKS]
        table = figures_table(("ordering", "kind"), (*marks, "worst", "spread", "harvest"))
        for run in runs:
            at_20 = run.recall[:, 1]
            numbers = (*run.recall.mean(axis=0), at_20.min(), at_20.std(), run.harvest[:, 1].mean())
            kind = "oracle" if run.is_oracle else "deployable"
            table.add_row(run.ordering, kind, *(figure(float(number), ".3f") for number in numbers))
        console.print(table)
        console.print(
            "at x %: share of all reachable value found after x % of the reachable pages, mean "
            "over the starts. worst, spread: its minimum and standard deviation over the starts at "
            "20 %. harvest: mean value of the pages fetched until 20 %. An oracle knows what it "
            "has not fetched, as no crawl does."
        )

    def plot(self, path: Path, runs: Sequence[ValueRun], title: str) -> None:
        """Plot value found against pages fetched, from the first start."""
        plot_cumulative(
            {run.ordering: run.curve for run in runs},
            path,
            title=title,
            xlabel="share of reachable pages fetched",
            ylabel="share of their value",
        )


def lab_of(
    source: Source, model_name: str, seeds: Sequence[int], n_starts: int, *, with_texts: bool
) -> ValueLab:
    """Return the lab of a crawl store, whose pages are valued by the model of this name.

    Orderings see the texts of pages only `with_texts`, which a topic and some orderings need.
    Raises `ConfigError` or `GraphError` if there is no such model, or the source has no texts.
    """
    model = make_model(model_name)
    recorded = source.recorded(with_texts=with_texts)
    if recorded is None:
        raise ConfigError(f"{source.path} is not a crawl store, so its pages have no text.")
    values = page_values(source.path, source.graph, model)
    starts = starts_of(source.graph, seeds, n_starts)
    return ValueLab(source.graph, recorded, values, starts, model)
