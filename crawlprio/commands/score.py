"""The command `crawlprio score`: how important a crawl's pages are, and how good its order was."""

from __future__ import annotations

import argparse
import json
from collections.abc import Sequence
from typing import TYPE_CHECKING

from crawlprio.commands import OneLineCommand
from crawlprio.commands.arguments import (
    SPREADSHEET,
    check_outputs,
    max_unpacked_bytes,
    named_outputs,
    only_argument,
    paths_by_name,
    store_of,
    topic_config,
    write_text,
)
from crawlprio.commands.score_arguments import Options, importance_names, options_of, read_order
from crawlprio.commands.score_figures import add_figure_options, asked_figures
from crawlprio.errors import ConfigError, GraphError

if TYPE_CHECKING:
    from crawlprio.importance import Importance, Repository
    from crawlprio.importance.opening import RecordedCrawl
    from crawlprio.importance.scores import Score
    from crawlprio.topic import Topic


class Command(OneLineCommand):
    """`crawlprio score` reports how much a crawl gathered, and how much it could have."""

    examples = (
        "score crawl.sqlite",
        "score example --plot score.png --csv scores.csv",
        "score monday.sqlite friday.sqlite --report changes.html",
        "score crawl.sqlite --importance 0.5*pagerank+2*backlinks",
        "score graph.npz --order order.txt --model threshold --top 10,100",
    )

    def syntax(self) -> str:
        return "[options] STORE|FOLDER|GRAPH"

    def short_desc(self) -> str:
        return "Score the pages of a crawl by importance, and rate its order"

    def long_desc(self) -> str:
        from crawlprio.linkgraph.formats import GRAPH_FORMS

        return (
            "Report the importance of the pages of STORE, a crawl store, or of the crawl in "
            "FOLDER, and how much of it the crawl had gathered at each point, next to the best "
            "possible order and a random one. "
            f"GRAPH is {GRAPH_FORMS}. Only a crawl store has an order; for any other graph, give "
            "one with --order. Importances can be summed with weights, as in --importance "
            "0.5*pagerank+2*backlinks; each is divided by its mean first. With --report and two "
            "stores, the page says what each crawl found that the other did not, and what changed."
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
        add_figure_options(group)
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
        if opts.report:
            from crawlprio.report.document import check_report

            check_report()
            if len(args) == 2 and not any(arg.startswith("-") for arg in args):
                self._compare([str(store_of(arg)) for arg in args], opts)
                return
        path = str(store_of(only_argument("score", "STORE, FOLDER or GRAPH", args)))
        names = importance_names(opts)
        options = options_of(names, opts.importance_options)
        plots = paths_by_name("--plot", opts.plot, names, "importances")
        tables = paths_by_name("--csv", opts.csv, names, "importances")
        outputs = [("--plot", file) for file in plots.values()]
        outputs += [("--csv", file) for file in tables.values()]
        check_outputs(
            outputs + named_outputs(opts, "--json", "--report"),
            inputs={"STORE or GRAPH": path, "--order": opts.order},
        )
        asked = asked_figures(opts)
        given = None if opts.order is None else read_order(opts.order)

        from crawlprio.importance import open_repository
        from crawlprio.importance.order_figures import OrderFigures, order_figures
        from crawlprio.importance.score_report import (
            figures_json,
            order_name_of,
            plot_scores,
            print_scores,
            print_table,
            write_csv,
        )

        repository = open_repository(path, max_unpacked_bytes(self.settings))
        urls = repository.graph.urls
        if tables and urls is None:
            raise GraphError(f"{path} has no URLs, which --csv writes; leave --csv out.")
        if plots and given is None and repository.order is None:
            raise ConfigError(f"--plot draws an order, but {path} has none; give --order FILE.")
        if asked.any and given is None and repository.order is None:
            raise ConfigError(
                f"--model, --by-day and --top rate an order, but {path} has none; give "
                "--order FILE."
            )
        if opts.report:
            _check_crawl(repository)
        scores = self._scores(repository, opts, given)
        figures: dict[str, OrderFigures] = {}
        for scored in scores if asked.any else ():
            found = order_figures(asked, scored, repository, given)
            figures |= {scored.importance: found} if found is not None else {}
        order_name = order_name_of(repository, given)
        if plots:
            plot_scores(plots, scores, repository, figures, given)
        if urls is not None:
            for name, table in tables.items():
                (scored,) = (scored for scored in scores if scored.importance == name)
                write_csv(table, scored, urls, for_spreadsheets=opts.spreadsheet)
        if opts.json:
            all_figures = figures_json(repository, scores, options, opts.order, figures)
            write_text("--json", opts.json, json.dumps(all_figures) + "\n")
        if opts.report:
            from crawlprio.report.crawled import ReportedCrawl
            from crawlprio.report.document import write_report

            crawl = ReportedCrawl.read(_check_crawl(repository), scores, order_name or "order")
            write_report(opts.report, crawl)
        print_scores(repository, scores, order_name)
        for name, found in figures.items():
            for headings, rows, caption in found.tables(name):
                print_table(headings, rows, caption)

    def _compare(self, paths: Sequence[str], opts: argparse.Namespace) -> None:
        """Write the report on two crawls, and print what it says of both."""
        alone = ("plot", "csv", "json", "order", "model", "by_day", "top")
        for option in alone:
            if getattr(opts, option):
                raise ConfigError(
                    f"--{option.replace('_', '-')} is about one crawl, and two are named; leave "
                    "it out."
                )
        inputs: dict[str, str | None] = dict(zip(("the first STORE", "STORE"), paths, strict=True))
        check_outputs(named_outputs(opts, "--report"), inputs)

        from crawlprio.importance import open_repository
        from crawlprio.importance.score_report import order_name_of
        from crawlprio.report.compared import ComparedCrawls
        from crawlprio.report.crawled import ReportedCrawl
        from crawlprio.report.document import write_comparison

        crawls = []
        for path in paths:
            crawl = _check_crawl(open_repository(path))
            scores = self._scores(crawl, opts)
            name = order_name_of(crawl, None)
            crawls.append(ReportedCrawl.read(crawl, scores, name or "order"))
        compared = ComparedCrawls(*crawls)
        write_comparison(opts.report, compared)
        for sentence in compared.sentences():
            print(sentence)

    def _scores(
        self,
        repository: Repository,
        opts: argparse.Namespace,
        given: Sequence[int] | None = None,
    ) -> list[Score]:
        """Return the scores by each importance."""
        from rich.console import Console

        from crawlprio.importance.scores import score

        names = importance_names(opts)
        options = options_of(names, opts.importance_options)
        scores = []
        progress = Console(stderr=True)
        for name, importance in self._make(names, options, opts.topic, repository).items():
            with progress.status(name):  # shown on a terminal only
                scores.append(score(name, importance, repository, given))
        return scores

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


def _check_crawl(repository: Repository) -> RecordedCrawl:
    """Return a repository that is a crawl; raise ConfigError for any other."""
    from crawlprio.importance.opening import RecordedCrawl

    if not isinstance(repository, RecordedCrawl):
        raise ConfigError(
            f"--report is about a crawl, and {repository.name} is a graph; name a store."
        )
    return repository
