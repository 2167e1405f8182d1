"""What `crawlprio score` reports: scores and figures of an order, as tables, plots, JSON and CSV.

The figures are those of Cho, Garcia-Molina & Page 1998 (P_CS, P_ST, P_BC), of Najork & Wiener 2001
(mean importance by day, when the most important pages were fetched, and how early they are known)
and of Castillo et al. 2004 (mean importance by depth), for your own crawl.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from rich import box
from rich.console import Console
from rich.table import Table

from crawlprio.errors import ConfigError, printable
from crawlprio.graph.link_tables import as_text
from crawlprio.graph.topic import Topic
from crawlprio.measure.crawl_models import (
    ModelCurve,
    crawl_and_stop,
    crawl_and_stop_with_threshold,
    limited_buffer,
    pagerank_seen,
    top_threshold,
)
from crawlprio.measure.crawl_order import (
    depth_from_seeds,
    mean_importance_by_depth,
    mean_importance_by_slice,
    mean_slice_of_top,
    overlap_of_top,
    scaled_to_mean_one,
    slices_by_fetch,
)
from crawlprio.measure.importance import (
    Importance,
    RecordedCrawl,
    Repository,
    make_importance,
    parts_of,
)
from crawlprio.measure.receipt_document import FROM_SEEDS, OF_ALL
from crawlprio.measure.scores import MARKS, Score, score
from crawlprio.ranking.pagerank import round_significant
from crawlprio.show.figures import Panel, Points, plot_cumulative, plot_panels, split_at
from crawlprio.show.tables import figure, figures_table, graph_in_words, wide_console

MODELS = {"crawl-stop": "P_CS", "threshold": "P_ST", "buffer": "P_BC"}
"""Models of Cho et al. by their name in `--model`, with the paper's symbol for the performance."""

HOT_SHARE = 0.01
"""Share of the pages that are hot under the model `threshold` without `--threshold`."""

BUFFERS = (0.01, 0.02, 0.05, 0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 1.0)
MODEL_MARKS = (0.1, 0.2, 0.5, 1.0)
"""Shares of all pages, fetched or in the buffer, at which a model is reported."""

_AXES = {
    "crawl-stop": ("share of pages fetched", "share of pages fetched that are hot"),
    "threshold": ("share of pages fetched", "share of hot pages fetched"),
    "buffer": ("share of pages in the buffer", "share of buffer hot"),
}

Options = Mapping[str, Mapping[str, Any]]


@dataclass(frozen=True)
class ScoreRequest:
    """What is asked of a repository; 0, None or nothing: not asked.

    `importances`: names, and `options` by name of an importance. `order`: pages to judge instead of
    those of the repository, in the order fetched, read from `order_file`. `models`: names of
    `MODELS`. `threshold`: importance from which a page is hot; None: that of the top 1 % of the
    pages. `days`: number of stretches with equally many fetches. `tops`: sizes N, ascending.
    `overlap`: percentage of the fetches after which the top pages are compared with those of the
    whole crawl. `least_links`: links that a page not fetched needs to count.
    """

    importances: tuple[str, ...]
    options: Options
    order_file: str | None = None
    order: Sequence[int] | None = None
    models: tuple[str, ...] = ()
    threshold: float | None = None
    days: int = 0
    tops: tuple[int, ...] = ()
    overlap: int = 0
    by_depth: bool = False
    least_links: int = 0

    @property
    def has_figures(self) -> bool:
        return any((self.models, self.days, self.tops, self.overlap, self.by_depth))


@dataclass(frozen=True, eq=False)
class OrderFigure:
    """A figure of an order by one importance: for JSON, as a table, and as panels of a plot.

    `name`: its key in JSON, where it has `values`. `caption`: what the rows of the table are.
    """

    name: str
    values: Any
    headings: Sequence[str]
    rows: Sequence[Sequence[str]]
    caption: str
    panels: Sequence[Panel]


@dataclass(frozen=True, eq=False)
class OrderEvaluation:
    """An order of the pages of a repository, and the importance by which its figures judge it.

    `order`: the pages that count, in the order fetched. `orderings`: `(fetches before it, name)` of
    each ordering that ruled the crawl, in turn.
    """

    asked: ScoreRequest
    importance: Importance
    scored: Score
    repository: Repository
    order: NDArray[Any]
    orderings: Sequence[tuple[int, str]]

    def figures(self) -> list[OrderFigure]:
        """Return the figures that are asked for; raise `GraphError` if no page is hot.

        O(pages log pages). The model `buffer` adds O(log B) per fetch and buffer size, and usually
        a PageRank of the pages seen 35 times per crawl; `overlap` adds two.
        """
        asked = self.asked
        makers = {
            self._models: bool(asked.models),
            self._by_day: bool(asked.days),
            self._tops: bool(asked.tops),
            self._overlap: bool(asked.overlap),
            self._by_depth: asked.by_depth,
        }
        return [make() for make, is_asked in makers.items() if is_asked]

    def _lines(self, points: Points, scale: float, first: float = 0.0) -> Mapping[str, Points]:
        """Return a line for each ordering in turn."""
        if len(self.orderings) < 2:
            return self._line(points)
        return split_at(points, [(first + n * scale, name) for n, name in self.orderings])

    def _line(self, points: Points) -> Mapping[str, Points]:
        """Return one line, named after the ordering if there was only one."""
        return {self.orderings[0][1] if len(self.orderings) == 1 else "this order": points}

    def _models(self) -> OrderFigure:
        """Return the performance under the models of Cho et al."""
        curves = {name: self._model(name) for name in self.asked.models}
        lines = ("performance", "ideal", "random")
        scale = 1 / self.scored.n_known
        names = ", ".join(f"{name}: {MODELS[name]}" for name in curves)
        return OrderFigure(
            "models",
            {
                name: {
                    "hot": int(curve.n_hot[-1]),
                    **{line: curve.points(line, 101) for line in lines},
                }
                for name, curve in curves.items()
            },
            ["model", "", *(f"{100 * mark:g} %" for mark in MODEL_MARKS)],
            [
                [name if line == "performance" else "", "upper-bound" if line == "ideal" else line]
                + [_at(curve.x, getattr(curve, line), mark) for mark in MODEL_MARKS]
                for name, curve in curves.items()
                for line in lines
            ],
            f"{names} of Cho et al., by {self.scored.importance}, at x % of all pages that count "
            "(buffer: x % held). upper-bound: the order by importance; random: the expectation "
            "of a random order.",
            [
                Panel(
                    self._line(curve.points()) if name == "buffer"
                    else self._lines(curve.points(), scale),
                    f"{MODELS[name]} ({name})", *_AXES[name],
                    x_percent=True, y_percent=True, y_limits=(0.0, 1.0),
                    references={
                        "upper-bound": curve.points("ideal"), "random": curve.points("random"),
                    },
                )
                for name, curve in curves.items()
            ],
        )  # fmt: skip

    def _model(self, name: str) -> ModelCurve:
        """Return the curve of the order under one model."""
        order, values, known = self.order, self.scored.values, self.scored.known
        if name == "crawl-stop":
            return crawl_and_stop(order, values, known)
        if name == "threshold":
            threshold = self.asked.threshold
            if threshold is None:
                threshold = top_threshold(values, HOT_SHARE, known)
            return crawl_and_stop_with_threshold(order, values, threshold, known)
        estimate = self.importance.estimate(self.repository, len(order))
        return limited_buffer(order, values, BUFFERS, estimate, reachable=known)

    def _by_day(self) -> OrderFigure:
        """Return the mean importance of the pages fetched in each stretch of the crawl."""
        n_fetched, importance = len(self.order), self.scored.importance
        scaled = scaled_to_mean_one(self.scored.values, self.scored.known)
        slices = slices_by_fetch(n_fetched, self.asked.days)
        means = mean_importance_by_slice(self.order, scaled, slices)
        points = means.points()
        return OrderFigure(
            "by_day", points, ["day", "mean"], _rows(points),
            f"Mean {importance} of the pages fetched in each of {len(means.x):,} stretches of the "
            "crawl; the mean of all pages that count is 1.",
            [
                Panel(
                    self._lines(points, len(means.x) / n_fetched, 0.5), "By stretch of the crawl",
                    "stretch of the crawl", f"mean {importance} (all pages: 1)",
                )
            ] if points else [],
        )  # fmt: skip

    def _tops(self) -> OrderFigure:
        """Return when the most important pages were fetched."""
        n_fetched, importance, days = len(self.order), self.scored.importance, self.asked.days
        places = np.arange(1, n_fetched + 1, dtype=np.int64)
        tops = self.asked.tops
        means = mean_slice_of_top(self.order, self.scored.values, places, tops)
        points = [(n, place / n_fetched) for n, place in means.points()]
        values: list[list[float]] = [[int(n), share] for n, share in points]
        headings, of = ["top", "fetched after"], (*points[:1], *points[-1:])
        rows = [[f"{n:,.0f}", f"{share:.2%}"] for n, share in points]
        caption = (
            f"Mean share of the fetches after which the N fetched pages of highest {importance} "
            "had been fetched."
        )
        drawn, up, scale = points, "mean share of the fetches", 1 / n_fetched
        if days:
            slices = slices_by_fetch(n_fetched, days)
            drawn = mean_slice_of_top(self.order, self.scored.values, slices, tops).points()
            up, scale = "mean day", days / n_fetched
            headings.append("day")
            for value, row, (_, day) in zip(values, rows, drawn, strict=True):
                value.append(day)
                row.append(f"{day:.2f}")
            caption += f" day: the mean of the {days:,} stretches in which they were."
        changes = {
            f"change to {name}": [(x, n * scale) for x, _ in of]
            for n, name in (self.orderings[1:] if points else ())
        }
        return OrderFigure(
            "tops", values, headings, rows, caption,
            [
                Panel(
                    self._line(drawn), "When the best pages were fetched",
                    f"N, pages of highest {importance}", up,
                    x_scale="log", y_percent=not days, y_limits=(0.0, float(days or 1)),
                    references=changes,
                )
            ] if points else [],
        )  # fmt: skip

    def _overlap(self) -> OrderFigure:
        """Return how many of the best pages of the whole crawl were the best early in it."""
        graph, percent = self.repository.graph, self.asked.overlap
        n_early = max(round(percent / 100 * len(self.order)), 1)
        means = overlap_of_top(
            pagerank_seen(graph, self.order[:n_early]),
            pagerank_seen(graph, self.order),
            self.asked.tops or None,
        )
        points = means.points()
        return OrderFigure(
            "overlap", [[int(n), share] for n, share in points], ["top", "in both"],
            [[f"{n:,.0f}", f"{share:.2%}"] for n, share in points],
            f"Share of the N pages of highest PageRank in the links seen after {percent} % of the "
            "fetches that are among the N of highest PageRank after all; ties at random.",
            [
                Panel(
                    self._line(points), "The best pages early and in the end",
                    "N, pages of highest PageRank", "share of the top N in both",
                    x_scale="log", y_percent=True, y_limits=(0.0, 1.0),
                )
            ] if points else [],
        )  # fmt: skip

    def _by_depth(self) -> OrderFigure:
        """Return the mean importance of the pages at each distance from the seeds."""
        crawl = self.repository
        seeds: tuple[int, ...] = ()
        if self.asked.order is None and isinstance(crawl, RecordedCrawl):
            seeds = crawl.seeds
        depths = depth_from_seeds(crawl.graph, seeds or self.order[:1])
        scaled = scaled_to_mean_one(self.scored.values, self.scored.known)
        points = mean_importance_by_depth(depths, scaled, self.scored.known).points()
        importance = self.scored.importance
        return OrderFigure(
            "by_depth", points, ["depth", "mean"], _rows(points),
            f"Mean {importance} of the pages by the fewest links from "
            f"{'the seeds' if seeds else 'the first page of the order'}; the mean of all pages "
            "that count is 1.",
            [
                Panel(
                    {"pages": points}, "By depth", "links from the start",
                    f"mean {importance} (all pages: 1)", y_scale="log",
                )
            ],
        )  # fmt: skip


def _rows(points: Sequence[tuple[float, float]]) -> list[list[str]]:
    return [[f"{x:g}", f"{mean:.4f}"] for x, mean in points]


def _at(x: NDArray[np.float64], y: NDArray[np.float64], mark: float) -> str:
    """Return the value at a share of the pages; a dash beyond the end of the crawl."""
    if len(x) == 0 or mark > x[-1] + 1e-9:
        return "-"
    return f"{float(np.interp(mark, x, y)):.4f}"


@dataclass(frozen=True, eq=False)
class ScoreReport:
    """The scores that were asked of a repository, and the figures of its order by importance."""

    repository: Repository
    asked: ScoreRequest
    scores: Sequence[Score]
    figures: Mapping[str, Sequence[OrderFigure]]

    @classmethod
    def of(
        cls, repository: Repository, asked: ScoreRequest, topic: Topic | None = None
    ) -> ScoreReport:
        """Compute what is asked; a terminal shows which importance is being computed.

        Raises `ConfigError` or `GraphError` as `make_importance` and `score` do.
        """
        if asked.least_links:
            repository = repository.without_rarely_linked(asked.least_links, asked.order)
        names = asked.importances
        importances = {name: make_importance(name, asked.options, topic) for name in names}
        scores: list[Score] = []
        figures: dict[str, Sequence[OrderFigure]] = {}
        report = cls(repository, asked, scores, figures)
        progress = Console(stderr=True)
        for name, importance in importances.items():
            with progress.status(name):
                scores.append(score(name, importance, repository, asked.order))
        order = repository.order if asked.order is None else np.asarray(asked.order, np.int64)
        for scored in scores if asked.has_figures else ():
            if scored.order is not None and order is not None:
                kept, made = order[scored.known[order]], importances[scored.importance]
                judged = OrderEvaluation(asked, made, scored, repository, kept, report.orders)
                figures[scored.importance] = judged.figures()
        return report

    @property
    def orders(self) -> Sequence[tuple[int, str]]:
        """`(fetches before it, name)` of the orderings of a crawl, or of the order given."""
        if self.asked.order is not None:
            return [(0, "order")]
        if not isinstance(self.repository, RecordedCrawl):
            return ()
        return self.repository.orderings or [(0, "order")]

    @property
    def order_name(self) -> str:
        """The name of the order: that of the ordering, if the store records it; empty: none."""
        return ", then ".join(name for _, name in self.orders)

    def print(self) -> None:
        """Print what was scored, the most important pages, and the quality of the order."""
        console = wide_console()
        _say(console, _summary(self.repository))
        for scored in self.scores:
            _say(console, "")
            _print_top(console, self.repository, scored)
        if not self.order_name:
            _say(console, "\nTo judge an order of the graph's pages, give --order FILE.")
        elif any(scored.order is not None for scored in self.scores):
            self._print_order(console)
        for each in (each for figures in self.figures.values() for each in figures):
            _print_table(console, each.headings, each.rows, each.caption)

    def _print_order(self, console: Console) -> None:
        marks = [f"{100 * mark:g} %" for mark in MARKS]
        table = figures_table(("by", "order"), ("fetched", "average", *marks, "tau"))
        for scored in self.scores:
            if scored.order is None:
                continue
            names = (self.order_name, "upper-bound", "random")
            rows = scored.order, scored.bound, scored.random()
            for name, figures in zip(names, rows, strict=True):
                assert figures is not None
                first = figures is scored.order
                table.add_row(
                    scored.importance if first else "",
                    printable(name),
                    f"{scored.fetched:,}" if first else "",
                    *map(figure, (figures.average, *figures.gathered_at)),
                    figure(scored.kendall_tau) if first else "",
                )
        console.print(table)
        _say(
            console,
            f"average, x %: share gathered of the importance {OF_ALL} that count (a receipt's is "
            f"{FROM_SEEDS}), averaged over all fetches and after x % of the fetches. upper-bound: "
            "the most that as many pages can hold. random: the expectation for as many random "
            "pages. tau: Kendall's tau of the order against importance, with pages not fetched "
            "ranked last.",
        )

    def plot(self, paths: Mapping[str, Path]) -> None:
        """Plot each score for which there is a path, with the figures of its order.

        Raises `ConfigError` if none has an order, or a file cannot be written.
        """
        drawn = [scored for scored in self.scores if scored.importance in paths and scored.order]
        if not drawn:
            raise ConfigError(
                f"--plot has nothing to draw: {self.repository.name} has no visits yet, or no page "
                "has any importance; leave --plot out."
            )
        for scored in drawn:
            self._plot(paths[scored.importance], scored)

    def _plot(self, path: Path, scored: Score) -> None:
        """Plot the importance gathered, a line for each ordering in turn, and its figures beside.

        The bound and the expectation for random pages are drawn too.
        """
        assert scored.order is not None
        assert scored.bound is not None
        orders, figures = self.orders, self.figures.get(scored.importance, ())
        parts = [(n / scored.n_known, part) for n, part in orders]
        stretches = split_at(scored.order.curve, parts)
        title = f"{Path(self.repository.name).name}: {scored.fetched:,} of {scored.n_known:,} pages"
        across = "share of known pages fetched"
        up = f"share of the importance {OF_ALL}, by {scored.importance}"
        more = [panel for each in figures for panel in each.panels]
        if not more:
            curves = {"upper-bound": scored.bound.curve, **stretches}
            plot_cumulative(curves, path, title=title, xlabel=across, ylabel=up)
            return
        gathered = Panel(
            stretches,
            "Importance gathered", across, up, x_percent=True, y_percent=True, y_limits=(0.0, 1.0),
            references={"upper-bound": scored.bound.curve, "random": [(0.0, 0.0), (1.0, 1.0)]},
        )  # fmt: skip
        plot_panels([gathered, *more], path, title=f"{title}, {self.order_name}")

    def rows(self, importance: str, *, for_spreadsheets: bool) -> Iterator[tuple[str, float]]:
        """Yield URL and score of each page that counts, in page order.

        Scores have 8 significant digits, so that scores that are equal in theory are equal in the
        file, which the ordering `historical-pagerank` reads.
        """
        urls = self.repository.graph.urls
        assert urls is not None
        (scored,) = (scored for scored in self.scores if scored.importance == importance)
        values = round_significant(scored.values).tolist()
        for page in scored.known.nonzero()[0].tolist():
            yield as_text(urls[page]) if for_spreadsheets else urls[page], values[page]

    def as_json(self) -> dict[str, Any]:
        graph, options = self.repository.graph, self.asked.options
        crawl = self.repository if isinstance(self.repository, RecordedCrawl) else None
        figures: list[dict[str, Any]] = []
        for scored in self.scores:
            name = scored.importance
            own = {part: options[part] for _, part in parts_of(name) if part in options}
            more = {each.name: each.values for each in self.figures.get(name, ())}
            figures.append({**scored.as_json(graph.urls), **more, "options": own})
        return {
            "source": self.repository.name,
            "pages": graph.n_pages,
            "links": graph.n_links,
            "sites": graph.n_sites,
            "fetched": None if crawl is None else crawl.n_fetched,
            "failed": None if crawl is None else crawl.n_failed,
            "not_fetched": None if crawl is None else crawl.n_unanswered,
            "index_files": None if crawl is None else crawl.n_index_files,
            "ordering": None if crawl is None else crawl.ordering,
            "orderings": None if crawl is None else crawl.orderings,
            "order_file": self.asked.order_file,
            "importances": figures,
        }


def _print_table(
    console: Console, headings: Sequence[str], rows: Sequence[Sequence[str]], caption: str
) -> None:
    """Print another table about an order, with numbers right-aligned, followed by a caption."""
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False)
    for k, heading in enumerate(headings):
        is_number = all(_is_number(row[k]) for row in rows)
        table.add_column(heading, justify="right" if is_number else "left", no_wrap=True)
    for row in rows:
        table.add_row(*map(printable, row))
    console.print(table)
    _say(console, caption)


def _summary(repository: Repository) -> str:
    """Summarise the repository, and what is unknown about it."""
    graph = repository.graph
    what = f"{repository.name}: {graph_in_words(graph)}"
    if not isinstance(repository, RecordedCrawl):
        return f"{what}."
    assert repository.order is not None
    n_tried = repository.n_unanswered
    seen = graph.n_pages - len(repository.order) - n_tried
    tried = f"without an answer: {n_tried:,}; " if n_tried else ""
    under = f" under {repository.ordering}" if repository.ordering else ""
    n_twice = repository.n_index_files
    twice = f"index files with the same body as their folder: {n_twice:,}; " if n_twice else ""
    return (
        f"{what}. Fetched{under}: {repository.n_fetched:,}; {twice}failed: "
        f"{repository.n_failed:,}; {tried}seen in links only: {seen:,}.\n"
        "Importance is computed on the recorded graph: links of pages not fetched, and pages never "
        "seen, are unknown."
    )


def _print_top(console: Console, repository: Repository, scored: Score) -> None:
    """Print the most important pages, and how importance is distributed."""
    urls = repository.graph.urls
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False)
    table.add_column("", justify="right")
    table.add_column(scored.importance, justify="right", no_wrap=True)
    table.add_column("page", overflow="fold")
    for rank, page in enumerate(scored.top(), 1):
        table.add_row(
            str(rank),
            f"{scored.values[page]:.6g}",
            str(page) if urls is None else printable(urls[page]),
        )
    console.print(table)
    spread = scored.distribution()
    if spread:
        _say(
            console,
            f"{scored.n_known:,} pages count; mean {spread['mean']:.4g}, median "
            f"{spread['median']:.4g}, maximum {spread['most']:.4g}; {spread['zero']:.1%} have 0; "
            f"the top 1 % of pages hold {figure(spread['top_1_percent'], '.1%')} of the "
            f"importance {OF_ALL}, which sums to {spread['total']:.6g}.",
        )
    for remark in scored.remarks:
        _say(console, remark)


def _is_number(cell: str) -> bool:
    """Whether a cell holds a number, or the dash that stands for none."""
    return cell == "-" or cell.replace(",", "").replace(".", "").rstrip("%").isdigit()


def _say(console: Console, text: str) -> None:
    console.print("\n".join(map(printable, text.split("\n"))))
