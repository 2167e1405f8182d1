"""Reports of scores: tables and a plot for people, JSON, and a CSV for `historical-pagerank`."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from rich import box
from rich.console import Console
from rich.table import Table

from crawlprio.errors import ConfigError, printable
from crawlprio.graph.link_tables import as_text
from crawlprio.measure.importance import RecordedCrawl, Repository
from crawlprio.measure.metrics import parts_of
from crawlprio.measure.scores import MARKS, Score
from crawlprio.ranking.pagerank import round_significant
from crawlprio.show.figures import Panel, plot_cumulative, plot_panels, split_at
from crawlprio.show.order_figures import OrderFigures
from crawlprio.show.tables import figure, figures_table, wide_console


def print_scores(repository: Repository, scores: Sequence[Score], order_name: str | None) -> None:
    """Print what was scored, the most important pages, and the quality of the order.

    `order_name` is the name of the order; None: there is none.
    """
    console = wide_console()
    _say(console, _summary(repository))
    for scored in scores:
        _say(console, "")
        _print_top(console, repository, scored)
    ordered = [scored for scored in scores if scored.order is not None]
    if order_name is None:
        _say(console, "\nTo judge an order of the graph's pages, give --order FILE.")
    if order_name is None or not ordered:
        return
    marks = [f"{100 * mark:g} %" for mark in MARKS]
    table = figures_table(("by", "order"), ("fetched", "average", *marks, "tau"))
    for scored in ordered:
        rows = {order_name: scored.order, "bound": scored.bound, "random": scored.random()}
        for name, figures in rows.items():
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
        "average, x %: share gathered of the importance of the pages that count, averaged over all "
        "fetches and after x % of the fetches. bound: the most that as many pages can hold. "
        "random: the expectation for as many random pages. tau: Kendall's tau of the order "
        "against importance, with pages not fetched ranked last.",
    )


def print_table(headings: Sequence[str], rows: Sequence[Sequence[str]], caption: str) -> None:
    """Print another table about an order, with numbers right-aligned, followed by a caption."""
    console = wide_console()
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False)
    for k, heading in enumerate(headings):
        is_number = all(_is_number(row[k]) for row in rows)
        table.add_column(heading, justify="right" if is_number else "left", no_wrap=True)
    for row in rows:
        table.add_row(*map(printable, row))
    console.print(table)
    _say(console, caption)


def plot_scores(
    paths: Mapping[str, Path],
    scores: Sequence[Score],
    repository: Repository,
    figures: Mapping[str, OrderFigures],
    given: Sequence[int] | None,
) -> None:
    """Plot each score for which there is a path, with the figures of its order.

    Raises `ConfigError` if none has an order, or a file cannot be written.
    """
    drawn = [scored for scored in scores if scored.importance in paths and scored.order]
    if not drawn:
        raise ConfigError(
            f"--plot has nothing to draw: {repository.name} has no visits yet, or no page has any "
            "importance; leave --plot out."
        )
    orders = [(0, "order")] if given is not None else orders_of(repository)
    for scored in drawn:
        more = figures.get(scored.importance)
        panels = more.panels(scored, orders) if more else []
        _plot(paths[scored.importance], scored, orders, Path(repository.name).name, panels)


def _plot(
    path: Path, scored: Score, orders: Sequence[tuple[int, str]], name: str, more: Sequence[Panel]
) -> None:
    """Plot the importance gathered, a line for each ordering in turn, with further panels beside.

    `orders` has the number of fetches before each ordering, and its name. The bound and the
    expectation for random pages are drawn too.
    """
    assert scored.order is not None
    assert scored.bound is not None
    stretches = split_at(scored.order.curve, [(n / scored.n_known, part) for n, part in orders])
    title = f"{name}: {scored.fetched:,} of {scored.n_known:,} pages"
    across, up = "share of known pages fetched", f"share of their importance by {scored.importance}"
    if not more:
        curves = {"upper-bound": scored.bound.curve, **stretches}
        plot_cumulative(curves, path, title=title, xlabel=across, ylabel=up)
        return
    gathered = Panel(
        stretches if len(orders) > 1 else {"this order": scored.order.curve},
        "Importance gathered", across, up, x_percent=True, y_percent=True, y_limits=(0.0, 1.0),
        references={"ideal": scored.bound.curve, "random": [(0.0, 0.0), (1.0, 1.0)]},
    )  # fmt: skip
    under = ", then ".join(ordering for _, ordering in orders)
    plot_panels([gathered, *more], path, title=f"{title}, {under}")


def score_rows(
    scored: Score, urls: Sequence[str], *, for_spreadsheets: bool = False
) -> Iterator[tuple[str, float]]:
    """Yield URL and score of each page that counts, in page order.

    Scores have 8 significant digits, so that scores that are equal in theory are equal in the file.
    The ordering `historical-pagerank` reads it. `for_spreadsheets` is as for `export_links`.
    """
    values = round_significant(scored.values).tolist()
    for page in scored.known.nonzero()[0].tolist():
        yield as_text(urls[page]) if for_spreadsheets else urls[page], values[page]


def order_name_of(repository: Repository, given: Sequence[int] | None) -> str | None:
    """Return the name of the order: that of the ordering, if the store records it."""
    if given is not None:
        return "order"
    return ", then ".join(name for _, name in orders_of(repository)) or None


def orders_of(repository: Repository) -> Sequence[tuple[int, str]]:
    """Return `(fetches before it, name)` of the orderings of a crawl; empty for a graph."""
    if isinstance(repository, RecordedCrawl):
        return repository.orderings or [(0, "order")]
    return ()


def figures_json(
    repository: Repository,
    scores: Sequence[Score],
    options: Mapping[str, Mapping[str, Any]],
    order: str | None,
    more: Mapping[str, OrderFigures],
) -> dict[str, Any]:
    """Return all figures, for JSON."""
    graph = repository.graph
    crawl = repository if isinstance(repository, RecordedCrawl) else None
    figures: list[dict[str, Any]] = []
    for scored in scores:
        own = {part: options[part] for _, part in parts_of(scored.importance) if part in options}
        asked = more[scored.importance].as_json() if scored.importance in more else {}
        figures.append({**scored.as_json(graph.urls), **asked, "options": own})
    return {
        "source": repository.name,
        "pages": graph.n_pages,
        "links": graph.n_links,
        "sites": graph.n_sites,
        "fetched": None if crawl is None else crawl.n_fetched,
        "failed": None if crawl is None else crawl.n_failed,
        "not_fetched": None if crawl is None else crawl.n_unanswered,
        "index_files": None if crawl is None else crawl.n_index_files,
        "ordering": None if crawl is None else crawl.ordering,
        "orderings": None if crawl is None else crawl.orderings,
        "order_file": order,
        "importances": figures,
    }


def _summary(repository: Repository) -> str:
    """Summarise the repository, and what is unknown about it."""
    graph = repository.graph
    sites = "1 site" if graph.n_sites == 1 else f"{graph.n_sites:,} sites"
    what = f"{repository.name}: {graph.n_pages:,} pages, {graph.n_links:,} links, {sites}"
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
            f"the top 1 % of pages hold {figure(spread['top_1_percent'], '.1%')} of all "
            f"importance, which sums to {spread['total']:.6g}.",
        )
    for remark in scored.remarks:
        _say(console, remark)


def _is_number(cell: str) -> bool:
    """Whether a cell holds a number, or the dash that stands for none."""
    return cell == "-" or cell.replace(",", "").replace(".", "").rstrip("%").isdigit()


def _say(console: Console, text: str) -> None:
    console.print("\n".join(map(printable, text.split("\n"))))
