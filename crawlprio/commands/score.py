"""The command `crawlprio score`: how important a crawl's pages are, and how good its order was."""

from __future__ import annotations

import argparse
import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from crawlprio.commands import OneLineCommand
from crawlprio.commands.arguments import (
    SPREADSHEET,
    check_outputs,
    json_object,
    lines_of,
    max_unpacked_bytes,
    named_outputs,
    only_argument,
    paths_by_name,
    topic_config,
    write_text,
)
from crawlprio.commands.score_figures import FigureOptions, OrderFigures, order_figures
from crawlprio.errors import ConfigError, GraphError

if TYPE_CHECKING:
    from crawlprio.importance import Importance, Repository
    from crawlprio.importance.scores import Score
    from crawlprio.topic import Topic

DEFAULT = "pagerank"
"""The importance if none is named; with --topic, `TOPICAL` as well."""

TOPICAL = "similarity"

Options = dict[str, dict[str, Any]]


class Command(OneLineCommand):
    """`crawlprio score` reports how much a crawl gathered, and how much it could have."""

    examples = (
        "score crawl.sqlite",
        "score example/crawl.sqlite --plot score.png --csv scores.csv",
        "score crawl.sqlite --importance 0.5*pagerank+2*backlinks",
        "score graph.npz --order order.txt --model threshold --top 10,100",
    )

    def syntax(self) -> str:
        return "[options] STORE|GRAPH"

    def short_desc(self) -> str:
        return "Score the pages of a crawl by importance, and rate its order"

    def long_desc(self) -> str:
        from crawlprio.linkgraph.formats import GRAPH_FORMS

        return (
            "Report the importance of the pages of STORE, a crawl store, and how much of it the "
            "crawl had gathered at each point, next to the best possible order and a random one. "
            f"GRAPH is {GRAPH_FORMS}. Only a crawl store has an order; for any other graph, give "
            "one with --order. Importances can be summed with weights, as in --importance "
            "0.5*pagerank+2*backlinks; each is divided by its mean first."
        )

    def add_options(self, parser: argparse.ArgumentParser) -> None:
        from crawlprio.importance import IMPORTANCES

        super().add_options(parser)
        group = parser.add_argument_group(title="Score")
        group.add_argument(
            "--importance",
            action="append",
            metavar="NAME",
            help="name of an importance, or a weighted sum; may be repeated; default: pagerank, "
            f"with --topic also similarity. Names: {', '.join(IMPORTANCES)}",
        )
        group.add_argument(
            "--importance-options",
            metavar="JSON",
            help='options by importance, as in \'{"pagerank": {"damping": 0.9}}\'',
        )
        group.add_argument(
            "--topic",
            metavar="WORDS",
            help="comma-separated words and phrases that similarity and term-count look for; "
            "default: the topic of the settings, or else of the crawl",
        )
        group.add_argument(
            "--order",
            metavar="FILE",
            help="rate this order: page ids, one per line, as simulate --order writes them",
        )
        FigureOptions.add_to(group)
        group.add_argument(
            "--plot",
            metavar="FILE",
            help="plot the importance gathered, and the figures of --model, --by-day and --top: "
            ".png, .svg or .pdf; with several importances, %%s in FILE stands for the name",
        )
        group.add_argument(
            "--csv",
            metavar="FILE",
            help="write the URL and score of each page, for the ordering historical-pagerank; "
            "with several importances, %%s in FILE stands for the name",
        )
        group.add_argument("--spreadsheet", action="store_true", help=SPREADSHEET)
        group.add_argument(
            "--report",
            metavar="FILE",
            help="write a page about the crawl for people, .html: the receipt, these figures as "
            "charts and tables, sites, and what crawlprio audit finds; needs crawlprio[report]",
        )
        group.add_argument("--json", metavar="FILE", help="write the figures as JSON")

    def execute(self, args: list[str], opts: argparse.Namespace) -> None:
        path = only_argument("score", "STORE or GRAPH", args)
        names = _names(opts)
        options = _options_of(names, opts.importance_options)
        plots = paths_by_name("--plot", opts.plot, names, "importances")
        tables = paths_by_name("--csv", opts.csv, names, "importances")
        outputs = [("--plot", file) for file in plots.values()]
        outputs += [("--csv", file) for file in tables.values()]
        check_outputs(
            outputs + named_outputs(opts, "--json", "--report"),
            inputs={"STORE or GRAPH": path, "--order": opts.order},
        )
        if opts.report:
            from crawlprio.report.document import check_report

            check_report()
        figure_options = FigureOptions.of(opts)
        given = None if opts.order is None else _read_order(opts.order)

        from rich.console import Console

        from crawlprio.importance import open_repository
        from crawlprio.importance.opening import RecordedCrawl
        from crawlprio.importance.score_report import (
            plot_score,
            print_scores,
            print_table,
            write_csv,
        )
        from crawlprio.importance.scores import score

        repository = open_repository(path, max_unpacked_bytes(self.settings))
        urls = repository.graph.urls
        if tables and urls is None:
            raise GraphError(f"{path} has no URLs, which --csv writes; leave --csv out.")
        if plots and given is None and repository.order is None:
            raise ConfigError(f"--plot draws an order, but {path} has none; give --order FILE.")
        if figure_options.any and given is None and repository.order is None:
            raise ConfigError(
                f"--model, --by-day and --top rate an order, but {path} has none; give "
                "--order FILE."
            )
        if opts.report and not isinstance(repository, RecordedCrawl):
            raise ConfigError(f"--report is about a crawl, and {path} is a graph; name a store.")
        importances = self._make(names, options, opts.topic, repository)
        progress = Console(stderr=True)
        scores: list[Score] = []
        figures: dict[str, OrderFigures] = {}
        for name, importance in importances.items():
            with progress.status(name):  # shown on a terminal only
                scores.append(score(name, importance, repository, given))
                if figure_options.any:
                    found = order_figures(figure_options, scores[-1], repository, given)
                    figures |= {name: found} if found is not None else {}
        order_name = _order_name(repository, given)
        drawn = [scored for scored in scores if scored.importance in plots and scored.order]
        if plots and not drawn:
            raise ConfigError(
                f"--plot has nothing to draw: {path} has no visits yet, or no page has any "
                "importance; leave --plot out."
            )
        for scored in drawn:
            assert order_name is not None
            orders = [(0, order_name)] if given is not None else _orders(repository)
            more = figures.get(scored.importance)
            panels = more.panels(scored, orders) if more else []
            plot_score(plots[scored.importance], scored, orders, Path(path).name, panels)
        if urls is not None:
            for scored in scores:
                if scored.importance in tables:
                    write_csv(
                        tables[scored.importance], scored, urls, for_spreadsheets=opts.spreadsheet
                    )
        if opts.json:
            all_figures = _figures(repository, scores, options, opts.order, figures)
            write_text("--json", opts.json, json.dumps(all_figures) + "\n")
        if opts.report and isinstance(repository, RecordedCrawl):
            from crawlprio.report.crawled import ReportedCrawl
            from crawlprio.report.document import write_report

            write_report(opts.report, ReportedCrawl.read(repository, scores, order_name or "order"))
        print_scores(repository, scores, order_name)
        for name, found in figures.items():
            for headings, rows, caption in found.tables(name):
                print_table(headings, rows, caption)

    def _make(
        self, names: Sequence[str], options: Options, words: str | None, repository: Repository
    ) -> dict[str, Importance]:
        """Return the importances by name."""
        from crawlprio.importance import make_importance

        topic = self._topic(words, repository)
        return {name: make_importance(name, options, topic) for name in names}

    def _topic(self, words: str | None, repository: Repository) -> Topic | None:
        """Return the topic of --topic, or else of the settings, or else of the crawl."""
        from crawlprio.importance.opening import RecordedCrawl

        assert self.settings is not None
        topic = topic_config(self.settings, words).topic
        if topic is None and isinstance(repository, RecordedCrawl) and repository.topic:
            topic = topic_config(self.settings, repository.topic).topic
        return topic


def _names(opts: argparse.Namespace) -> list[str]:
    """Return the names of the requested importances, each once."""
    from crawlprio.importance.metrics import IMPORTANCES, parts_of

    asked = opts.importance or ([DEFAULT] if opts.topic is None else [DEFAULT, TOPICAL])
    names = list(dict.fromkeys(name.replace(" ", "") for name in asked))
    topical = [name for name in names if any(IMPORTANCES[p].needs_topic for _, p in parts_of(name))]
    if opts.topic is not None and not topical:
        raise ConfigError(
            f"--topic is {opts.topic!r}, but none of {', '.join(names)} uses a topic; add "
            f"--importance {TOPICAL}."
        )
    return names


def _options_of(names: Sequence[str], text: str | None) -> Options:
    """Return the options by name of the importance."""
    from crawlprio.importance.metrics import parts_of

    if text is None:
        return {}
    example = '{"pagerank": {"damping": 0.9}}'
    given = json_object("--importance-options", text, example)
    if not all(isinstance(value, dict) for value in given.values()):
        raise ConfigError(
            f"--importance-options is {text!r}; give options by importance, as in '{example}'."
        )
    asked = list(dict.fromkeys(part for name in names for _, part in parts_of(name)))
    for name in given:
        if name not in asked:
            raise ConfigError(
                f"--importance-options has options of {name}, which is not requested; requested "
                f"importances: {', '.join(asked)}."
            )
    return given


def _read_order(path: str) -> list[int]:
    """Return the page ids in a file, one per line."""
    order = []
    for number, line in enumerate(lines_of(f"--order {path}", path), 1):
        if not line:
            continue
        if not (line.isascii() and line.isdigit() and len(line) < 12):
            raise ConfigError(f"{path}:{number}: expected a page id; found {line[:40]!r}.")
        order.append(int(line))
    if not order:
        raise ConfigError(f"--order {path} names no page; give page ids, one per line.")
    return order


def _order_name(repository: Repository, given: Sequence[int] | None) -> str | None:
    """Return the name of the order: that of the ordering, if the store records it."""
    if given is not None:
        return "order"
    return ", then ".join(name for _, name in _orders(repository)) or None


def _orders(repository: Repository) -> Sequence[tuple[int, str]]:
    """Return `(fetches before it, name)` of the orderings of a crawl; empty for a graph."""
    from crawlprio.importance.opening import RecordedCrawl

    if isinstance(repository, RecordedCrawl):
        return repository.orderings or [(0, "order")]
    return ()


def _figures(
    repository: Repository,
    scores: Sequence[Score],
    options: Options,
    order: str | None,
    more: Mapping[str, OrderFigures],
) -> dict[str, Any]:
    """Return all figures, for JSON."""
    from crawlprio.importance.metrics import parts_of
    from crawlprio.importance.opening import RecordedCrawl

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
