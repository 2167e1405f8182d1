"""The command `crawlprio score`: how important a crawl's pages are, and how good its order was."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from crawlprio.commands import (
    SPREADSHEET,
    OneLineCommand,
    Option,
    check_outputs,
    json_object,
    lines_of,
    named_outputs,
    only_argument,
    paths_by_name,
    store_of,
    write_json,
    write_text,
)
from crawlprio.errors import ConfigError, GraphError
from crawlprio.extras import require
from crawlprio.settings_table.setting_types import Float, Int

if TYPE_CHECKING:
    from crawlprio.measure.importance import RecordedCrawl, Repository
    from crawlprio.show.report_page import ReportedCrawl
    from crawlprio.show.score_report import ScoreReport, ScoreRequest

DEFAULT = "pagerank"
"""The importance if none is named; with --topic, `TOPICAL` as well."""

TOPICAL = "similarity"


def options_of(parts: Sequence[str], text: str | None) -> dict[str, dict[str, Any]]:
    """Return the options by name of the importance; `parts` are those that are requested."""
    if text is None:
        return {}
    example = '{"pagerank": {"damping": 0.9}}'
    given = json_object("--importance-options", text, example)
    if not all(isinstance(value, dict) for value in given.values()):
        raise ConfigError(
            f"--importance-options is {text!r}; give options by importance, as in '{example}'."
        )
    for name in given:
        if name not in parts:
            raise ConfigError(
                f"--importance-options has options of {name}, which is not requested; requested "
                f"importances: {', '.join(parts)}."
            )
    return given


def read_order(path: str) -> list[int]:
    """Return the page ids in a file, one per line."""
    order = []
    for number, line in enumerate(lines_of(f"--order {path}", path), 1):
        if not line:
            continue
        if not (line.isascii() and line.isdigit() and len(line) < 12):
            raise ConfigError(f"{path}:{number}: expected a page id; found {line[:40]!r}.")
        order.append(int(line))
    if not order:
        raise ConfigError(f"--order {path} has no page ids; write one per line.")
    return order


def asked_of(opts: argparse.Namespace) -> ScoreRequest:
    """Return what the options ask of a repository.

    Raises `ConfigError` if an importance or a model is unknown, or a file cannot be read.
    """
    from crawlprio.measure.importance import class_of, parts_of
    from crawlprio.show.score_report import MODELS, ScoreRequest

    named = opts.importance or ([DEFAULT] if opts.topic is None else [DEFAULT, TOPICAL])
    names = tuple(dict.fromkeys(name.replace(" ", "") for name in named))
    parts = list(dict.fromkeys(part for name in names for _, part in parts_of(name)))
    if opts.topic is not None and not any(class_of(part).needs_topic for part in parts):
        raise ConfigError(
            f"--topic is {opts.topic!r}, but none of {', '.join(names)} uses a topic; add "
            f"--importance {TOPICAL}."
        )
    models = tuple(dict.fromkeys(opts.model or ()))
    for name in models:
        if name not in MODELS:
            raise ConfigError(f"--model is {name!r}; known models: {', '.join(MODELS)}.")
    if opts.threshold is not None and "threshold" not in models:
        raise ConfigError(
            f"--threshold is {opts.threshold:g}, but no model uses it; add --model threshold."
        )
    return ScoreRequest(
        names,
        options_of(parts, opts.importance_options),
        opts.order,
        None if opts.order is None else read_order(opts.order),
        models,
        opts.threshold,
        opts.by_day or 0,
        tuple(opts.top or ()),
        opts.overlap or 0,
        bool(opts.by_depth),
        opts.least_links or 0,
    )


class Command(OneLineCommand):
    """`crawlprio score` reports how much a crawl gathered, and how much it could have."""

    title = "Score"
    takes = "[options] STORE|FOLDER|GRAPH"
    does = "Score the pages of a crawl by importance, and rate its order"
    examples = (
        "score crawl.sqlite",
        "score example --plot score.png --csv scores.csv",
        "score monday.sqlite friday.sqlite --report changes.html",
        "score crawl.sqlite --importance scaled:0.5*pagerank+2*backlinks",
        "score graph.npz --order order.txt --model threshold --top 10,100",
    )

    def long_desc(self) -> str:
        from crawlprio.store.graph_files import GRAPH_FORMS

        return (
            "Report the importance of the pages of STORE, a crawl store, or of the crawl in "
            "FOLDER, and how much of it the crawl had gathered at each point, next to the "
            "upper-bound, the most that any order could, and a random one. "
            f"GRAPH is {GRAPH_FORMS}. Only a crawl store has an order; for any other graph, give "
            "one with --order. Importances can be summed with weights, as in --importance "
            "0.5*cho-pagerank+2*backlinks, or, each divided by its mean, as in "
            "scaled:0.5*pagerank+2*backlinks. --importance 'term-count>=10&backlinks>=5' is 1 for "
            "pages that meet all conditions, and otherwise 0. With --report and two "
            "stores, the page says what each crawl found that the other did not, and what changed."
        )

    def own_options(self) -> dict[str, Option]:
        from crawlprio.measure.importance import IMPORTANCES

        return {
            "--importance": Option(
                "NAME",
                "name or import path of an importance, a weighted sum, or conditions; may be "
                "repeated; default: pagerank, with --topic also similarity. Names: "
                f"{', '.join(IMPORTANCES)}",
                may_repeat=True,
            ),
            "--importance-options": Option(
                "JSON", 'options by importance, as in \'{"pagerank": {"damping": 0.9}}\''
            ),
            "--topic": Option(
                "WORDS",
                "comma-separated words and phrases that similarity and term-count look for; "
                "default: the topic of the settings, or else of the crawl",
            ),
            "--order": Option(
                "FILE", "rate this order: page ids, one per line, as simulate --order writes them"
            ),
            "--model": Option(
                "NAME",
                "report the order under a model of Cho et al.: crawl-stop (the share of pages "
                "fetched that are hot), threshold (the share of hot pages that are fetched) or "
                "buffer (the share of a buffer that is hot at the end); may be repeated",
                may_repeat=True,
            ),
            "--threshold": Option(
                "G",
                "importance from which a page is hot under the model threshold; default: that of "
                "the top 1 %% of the pages",
                Float(),
            ),
            "--by-day": Option(
                "N",
                "report the mean importance of the pages fetched in each of N stretches with "
                "equally many fetches (Najork & Wiener: 58 days)",
                Int(1),
            ),
            "--top": Option(
                "N[,N...]",
                "report when the N most important pages were fetched on average, as a share of "
                "all fetches, and with --by-day as a day",
                Int(1),
                is_list=True,
            ),
            "--overlap": Option(
                "PERCENT",
                "report how many of the N pages of highest PageRank after this part of the "
                "fetches are among the N of highest PageRank after all; N as in --top; default: 1, "
                "10, 100, ...",
                Int(1, 100),
            ),
            "--by-depth": Option(
                None, "report the mean importance of the pages by the fewest links from the seeds"
            ),
            "--least-links": Option(
                "N",
                "leave out the pages that were not fetched and to which fewer than N pages link "
                "(Najork & Wiener); default: count all known pages",
                Int(1),
            ),
            "--plot": Option(
                "FILE",
                "plot the importance gathered, and the figures of --model, --by-day and the like: "
                ".png, .svg or .pdf; with several importances, %%s in FILE stands for the name",
            ),
            "--csv": Option(
                "FILE",
                "write the URL and score of each page, for the ordering historical-pagerank; with "
                "several importances, %%s in FILE stands for the name",
            ),
            "--spreadsheet": Option(None, SPREADSHEET),
            "--report": Option(
                "FILE",
                "write a page about the crawl for people, .html: the receipt, these figures as "
                "charts and tables, sites, and what crawlprio audit finds; needs "
                "crawlprio[report]",
            ),
            "--json": Option("FILE", "write the figures as JSON"),
        }

    def execute(self, args: list[str], opts: argparse.Namespace) -> None:
        if opts.report:
            from crawlprio.show.report_page import NEEDED

            for module in NEEDED:
                require(module, "report", "--report")
        are_two = opts.report and len(args) == 2 and not any(arg.startswith("-") for arg in args)
        named = args if are_two else [only_argument("score", "STORE, FOLDER or GRAPH", args)]
        path, *others = (str(store_of(each)) for each in named)
        asked = asked_of(opts)
        if others:
            self._compare([path, *others], asked, opts)
            return
        plots = paths_by_name("--plot", opts.plot, asked.importances, "importances")
        tables = paths_by_name("--csv", opts.csv, asked.importances, "importances")
        outputs = [("--plot", file) for file in plots.values()]
        outputs += [("--csv", file) for file in tables.values()]
        check_outputs(
            outputs + named_outputs(opts, "--json", "--report"),
            inputs={"STORE or GRAPH": path, "--order": opts.order},
        )

        from crawlprio.measure.importance import open_repository
        from crawlprio.settings_table.config import read_setting
        from crawlprio.show.tables import write_csv

        most_bytes = read_setting(self.settings, "CRAWLPRIO_MAX_UNPACKED_BYTES")
        repository = open_repository(path, most_bytes)
        if tables and repository.graph.urls is None:
            raise GraphError(f"{path} has no URLs for --csv to write; leave --csv out.")
        has_order = asked.order is not None or repository.order is not None
        if plots and not has_order:
            raise ConfigError(f"--plot draws an order, but {path} has none; give --order FILE.")
        if asked.has_figures and not has_order:
            raise ConfigError(
                f"--model, --by-day and --top rate an order, but {path} has none; give "
                "--order FILE."
            )
        if opts.report:
            _check_crawl(repository)
        report = self._report(repository, asked, opts.topic)
        if plots:
            report.plot(plots)
        for name, table in tables.items():
            rows = report.rows(name, for_spreadsheets=opts.spreadsheet)
            write_csv(table, ("url", "score"), rows)
        write_json(opts, report.as_json)
        if opts.report:
            from crawlprio.show.report_page import report_of

            write_text("--report", opts.report, report_of(_reported(report)))
        report.print()

    def _compare(self, paths: Sequence[str], asked: ScoreRequest, opts: argparse.Namespace) -> None:
        """Write the report on two crawls, and print its summary."""
        of_order = ("order", "model", "by_day", "top", "overlap", "by_depth", "least_links")
        for option in ("plot", "csv", "json", *of_order):
            if getattr(opts, option):
                raise ConfigError(
                    f"--{option.replace('_', '-')} works with one crawl, and two are given; leave "
                    "it out."
                )
        inputs: dict[str, str | None] = dict(zip(("the first STORE", "STORE"), paths, strict=True))
        check_outputs(named_outputs(opts, "--report"), inputs)

        from crawlprio.measure.importance import open_repository
        from crawlprio.show.report_page import ComparedCrawls, comparison_of

        crawls = (_check_crawl(open_repository(path)) for path in paths)
        reports = (self._report(crawl, asked, opts.topic) for crawl in crawls)
        compared = ComparedCrawls(*map(_reported, reports))
        write_text("--report", opts.report, comparison_of(compared))
        for sentence in compared.sentences():
            print(sentence)

    def _report(
        self, repository: Repository, asked: ScoreRequest, topic: str | None
    ) -> ScoreReport:
        """Score by the topic given, or else that of the settings, or else that of the crawl."""
        from crawlprio.measure.importance import RecordedCrawl
        from crawlprio.settings_table.config import topic_of
        from crawlprio.show.score_report import ScoreReport

        found = topic_of(self.settings, topic)[0]
        if found is None and isinstance(repository, RecordedCrawl) and repository.topic:
            found = topic_of(self.settings, repository.topic)[0]
        return ScoreReport.of(repository, asked, found)


def _check_crawl(repository: Repository) -> RecordedCrawl:
    from crawlprio.measure.importance import RecordedCrawl

    if not isinstance(repository, RecordedCrawl):
        raise ConfigError(
            f"--report needs a crawl, and {repository.name} is a graph; name a store."
        )
    return repository


def _reported(report: ScoreReport) -> ReportedCrawl:
    """Return all that a page says of a crawl that was scored."""
    from crawlprio.show.report_page import ReportedCrawl

    crawl = _check_crawl(report.repository)
    return ReportedCrawl.read(crawl, report.scores, report.order_name or "order")
