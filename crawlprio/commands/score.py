"""The command `scrapy score`: how important the pages of a crawl are, and how good its order was.

It reads options and writes files; what importance is, is the business of `crawlprio.importance`.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from crawlprio.commands import OneLineCommand, check_writable
from crawlprio.errors import ConfigError, GraphError

if TYPE_CHECKING:
    from crawlprio.importance import Importance, Repository
    from crawlprio.importance.scores import Score
    from crawlprio.topic import Topic

DEFAULT = "pagerank"
"""The importance where none is named; with --topic also `TOPICAL`."""

TOPICAL = "similarity"

Options = dict[str, dict[str, Any]]


class Command(OneLineCommand):
    """`scrapy score STORE|GRAPH` tells what a crawl got, and what it might have got."""

    def syntax(self) -> str:
        return "[options] STORE|GRAPH"

    def short_desc(self) -> str:
        return "Score the pages of a crawl by importance, and the order in which it fetched them"

    def long_desc(self) -> str:
        return (
            "Report the importance of the pages of STORE, a crawl store, and how much of it the "
            "crawl had gathered when, beside the most that any order could have and what a random "
            "one would have. GRAPH, an .npz, an edge list .txt or .txt.gz or a WebGraph .graph, "
            "has no order: give one with --order. Importances may be summed with weights, as in "
            "--importance 0.5*pagerank+2*backlinks; each is divided by its mean first."
        )

    def add_options(self, parser: argparse.ArgumentParser) -> None:
        super().add_options(parser)
        group = parser.add_argument_group(title="Score")
        group.add_argument(
            "--importance",
            action="append",
            metavar="NAME",
            help="name of an importance, or a weighted sum; may be repeated; default: pagerank, "
            "with --topic also similarity. Names: pagerank, cho-pagerank, remote-pagerank, "
            "backlinks, forward-links, location, similarity, term-count, harmonic, authorities, "
            "hubs",
        )
        group.add_argument(
            "--importance-options",
            metavar="JSON",
            help='options by importance, as in \'{"pagerank": {"damping": 0.9}}\'',
        )
        group.add_argument(
            "--topic",
            metavar="WORDS",
            help="words and phrases, with commas between, that similarity and term-count look for; "
            "default: the topic of the settings, else of the crawl",
        )
        group.add_argument(
            "--order",
            metavar="FILE",
            help="judge this order: page ids, one a line, as scrapy simulate --order writes them",
        )
        group.add_argument(
            "--plot",
            metavar="FILE",
            help="draw the importance gathered: .png, .svg or .pdf; with several importances, %%s "
            "in FILE stands for the name",
        )
        group.add_argument(
            "--csv",
            metavar="FILE",
            help="write URL and score of each page, which the ordering historical-pagerank reads; "
            "with several importances, %%s in FILE stands for the name",
        )
        group.add_argument("--json", metavar="FILE", help="write the figures as JSON")

    def execute(self, args: list[str], opts: argparse.Namespace) -> None:
        path = _only_argument(args)
        names = _names(opts)
        options = _options_of(names, opts.importance_options)
        plots = _by_name("--plot", opts.plot, names)
        tables = _by_name("--csv", opts.csv, names)
        _check_outputs(path, opts, plots, tables)
        given = None if opts.order is None else _read_order(Path(opts.order))

        from rich.console import Console

        from crawlprio.compiling import saying_that_it_compiles
        from crawlprio.importance import open_repository
        from crawlprio.importance.reporting import plot_score, print_scores, write_csv
        from crawlprio.importance.scores import score

        repository = open_repository(path)
        urls = repository.graph.urls
        if tables and urls is None:
            raise GraphError(f"{path} has no URLs, which --csv writes; leave --csv out.")
        if plots and given is None and repository.order is None:
            raise ConfigError(f"--plot draws an order, and {path} has none; give --order FILE.")
        importances = self._make(names, options, opts.topic, repository)
        progress = Console(stderr=True)
        scores: list[Score] = []
        with saying_that_it_compiles():
            for name, importance in importances.items():
                with progress.status(name):  # shown on a terminal only
                    scores.append(score(name, importance, repository, given))
        order_name = _order_name(repository, given)
        drawn = [scored for scored in scores if scored.importance in plots and scored.order]
        if plots and not drawn:
            raise ConfigError(
                f"--plot has nothing to draw: {path} has no visits yet, or no page has any "
                "importance; leave --plot out."
            )
        for scored in drawn:
            assert order_name is not None
            plot_score(plots[scored.importance], scored, order_name, Path(path).name)
        if urls is not None:
            for scored in scores:
                if scored.importance in tables:
                    write_csv(tables[scored.importance], scored, urls)
        if opts.json:
            figures = _figures(repository, scores, options, opts.order)
            _write_json(Path(opts.json), figures)
        print_scores(repository, scores, order_name)

    def _make(
        self, names: Sequence[str], options: Options, words: str | None, repository: Repository
    ) -> dict[str, Importance]:
        """The importances by name."""
        from crawlprio.importance import make_importance

        topic = self._topic(words, repository)
        return {name: make_importance(name, options, topic) for name in names}

    def _topic(self, words: str | None, repository: Repository) -> Topic | None:
        """The topic of --topic, else of the settings, else of the crawl."""
        from scrapy.settings import BaseSettings

        from crawlprio.config import CrawlConfig
        from crawlprio.importance.opening import RecordedCrawl

        assert self.settings is not None
        settings = BaseSettings()
        settings.set("TOPIC_OPTIONS", self.settings.get("TOPIC_OPTIONS"))
        settings.set("TOPIC", self.settings.get("TOPIC") if words is None else words)
        topic = CrawlConfig.from_settings(settings).topic
        if topic is None and isinstance(repository, RecordedCrawl) and repository.topic:
            settings.set("TOPIC", repository.topic)
            topic = CrawlConfig.from_settings(settings).topic
        return topic


def _only_argument(args: Sequence[str]) -> str:
    """The store or graph; argparse leaves options that it does not know among the arguments."""
    unknown = [arg for arg in args if arg.startswith("-")]
    if unknown:
        raise ConfigError(f"scrapy score has no option {unknown[0]}; see scrapy score --help.")
    if len(args) != 1:
        given = f"{len(args)} arguments" if args else "none"
        raise ConfigError(
            f"scrapy score takes one STORE or GRAPH and was given {given}; give a crawl store, an "
            ".npz, an edge list .txt or .txt.gz, or a WebGraph .graph."
        )
    return args[0]


def _names(opts: argparse.Namespace) -> list[str]:
    """The importances asked for, each once."""
    from crawlprio.importance.metrics import IMPORTANCES, parts_of

    asked = opts.importance or ([DEFAULT] if opts.topic is None else [DEFAULT, TOPICAL])
    names = list(dict.fromkeys(name.replace(" ", "") for name in asked))
    topical = [name for name in names if any(IMPORTANCES[p].needs_topic for _, p in parts_of(name))]
    if opts.topic is not None and not topical:
        raise ConfigError(
            f"--topic is {opts.topic!r}, and none of {', '.join(names)} goes by a topic; add "
            f"--importance {TOPICAL}."
        )
    return names


def _options_of(names: Sequence[str], text: str | None) -> Options:
    """The options by name of an importance."""
    from crawlprio.importance.metrics import parts_of

    if text is None:
        return {}
    example = '\'{"pagerank": {"damping": 0.9}}\''
    try:
        given = json.loads(text)
    except ValueError as error:
        raise ConfigError(
            f"--importance-options is {text!r}, which is no JSON ({error}); write it as in "
            f"{example}."
        ) from None
    if not isinstance(given, dict) or not all(isinstance(x, dict) for x in given.values()):
        raise ConfigError(
            f"--importance-options is {text!r}; give options by importance, as in {example}."
        )
    asked = list(dict.fromkeys(part for name in names for _, part in parts_of(name)))
    for name in given:
        if name not in asked:
            raise ConfigError(
                f"--importance-options has options of {name}, which is not asked for; asked for "
                f"are {', '.join(asked)}."
            )
    return given


def _by_name(option: str, template: str | None, names: Sequence[str]) -> dict[str, Path]:
    """The file for each importance; empty if none is wanted."""
    if template is None:
        return {}
    if len(names) > 1 and "%s" not in template:
        raise ConfigError(
            f"{option} is {template!r} for {len(names)} importances; write %s where the name of "
            "the importance goes, as in score-%s.csv."
        )
    return {name: Path(template.replace("%s", name)) for name in names}


def _check_outputs(
    source: str, opts: argparse.Namespace, plots: Mapping[str, Path], tables: Mapping[str, Path]
) -> None:
    """Make sure that all files can be written, and none over another or over what is read."""
    outputs = [("--plot", path) for path in plots.values()]
    outputs += [("--csv", path) for path in tables.values()]
    if opts.json:
        outputs.append(("--json", Path(opts.json)))
    taken = {Path(source).resolve(): "STORE or GRAPH"}
    if opts.order:
        taken.setdefault(Path(opts.order).resolve(), "--order")
    for option, path in outputs:
        owner = taken.setdefault(path.resolve(), option)
        if owner != option:
            raise ConfigError(f"{option} {path} is the file of {owner} too; name another.")
        check_writable(option, path)
    if plots:
        from crawlprio.evaluation.plots import check_plot_path

        check_plot_path(opts.plot)


def _read_order(path: Path) -> list[int]:
    """The page ids of a file, one a line."""
    try:
        lines = path.read_text("utf-8-sig").splitlines()
    except (OSError, UnicodeDecodeError) as error:
        reason = getattr(error, "strerror", None) or error
        raise ConfigError(f"--order {path}: the file cannot be read ({reason}).") from None
    order = []
    for number, line in enumerate(map(str.strip, lines), 1):
        if not line:
            continue
        if not (line.isascii() and line.isdigit() and len(line) < 12):
            raise ConfigError(f"{path}:{number}: expected a page id; found {line[:40]!r}.")
        order.append(int(line))
    if not order:
        raise ConfigError(f"--order {path} names no page; give page ids, one a line.")
    return order


def _order_name(repository: Repository, given: Sequence[int] | None) -> str | None:
    """What the order is called: the ordering that made it, where the store says which."""
    from crawlprio.importance.opening import RecordedCrawl

    if given is not None:
        return "order"
    if isinstance(repository, RecordedCrawl):
        return repository.ordering or "order"
    return None


def _figures(
    repository: Repository, scores: Sequence[Score], options: Options, order: str | None
) -> dict[str, Any]:
    """All figures, for JSON."""
    from crawlprio.importance.metrics import parts_of
    from crawlprio.importance.opening import RecordedCrawl

    graph = repository.graph
    crawl = repository if isinstance(repository, RecordedCrawl) else None
    figures: list[dict[str, Any]] = []
    for scored in scores:
        own = {part: options[part] for _, part in parts_of(scored.importance) if part in options}
        figures.append({**scored.as_json(graph.urls), "options": own})
    return {
        "source": repository.name,
        "pages": graph.n_pages,
        "links": graph.n_links,
        "sites": graph.n_sites,
        "fetched": None if crawl is None or crawl.order is None else len(crawl.order),
        "failed": None if crawl is None else crawl.n_failed,
        "ordering": None if crawl is None else crawl.ordering,
        "order_file": order,
        "importances": figures,
    }


def _write_json(path: Path, figures: Mapping[str, Any]) -> None:
    """Write the figures."""
    try:
        path.write_text(json.dumps(figures) + "\n", encoding="utf-8")
    except OSError as error:
        raise ConfigError(f"--json {path}: writing it failed ({error.strerror}).") from None
