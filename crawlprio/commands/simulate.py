"""The command `crawlprio simulate`: crawls of a link graph under orderings, and their quality."""

from __future__ import annotations

import argparse
import dataclasses
import sys
from collections.abc import Iterable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from crawlprio.commands import (
    OneLineCommand,
    Option,
    check_outputs,
    field_of,
    json_object,
    lines_of,
    named_outputs,
    only_argument,
    paths_by_name,
    setting_option,
    store_of,
    write_json,
    write_text,
)
from crawlprio.errors import ConfigError
from crawlprio.plugins import load
from crawlprio.settings_table.setting_types import OWN_PREFIX, Float, Int, Setting
from crawlprio.settings_table.table import DELAY_RULES

if TYPE_CHECKING:
    from rich.console import Console

    from crawlprio.graph.topic import HotQueue
    from crawlprio.orderings import Ordering
    from crawlprio.show.simulation_results import Run, Simulation
    from crawlprio.simulator.graph_pages import Source
    from crawlprio.simulator.network import Network

VALUED = (
    *("omniscient", "value", "value-and-importance", "parent-quality", "best-first"),
    *("breadth-first", "random"),
)
"""The orderings to judge by value if none is named."""

RECORDED = "recorded"
"""Stands for what a crawl store has of its pages and sites."""

_FROM_STORE = f"; '{RECORDED}': from the crawl store"

_NETWORK = {
    "--robots": Option(
        "R[,R...]",
        "maximum concurrent fetches, one per site; with several numbers, one crawl for each; "
        "default 1",
        Int(1),
        is_list=True,
    ),
    "--pages-per-visit": Option(
        "K", "pages fetched per connection, without delay; default 1", Int(1)
    ),
    "--bandwidth": Option(
        "BYTES/S", "bandwidth that all transfers share; default: unlimited", Float(above_zero=True)
    ),
    "--site-speed": Option(
        "BYTES/S",
        f"maximum bandwidth of a site; default: unlimited{_FROM_STORE}",
        Float(above_zero=True, also=RECORDED),
    ),
    "--latency": Option(
        "S", f"seconds to open a connection to a site; default 0{_FROM_STORE}", Float(also=RECORDED)
    ),
    "--page-bytes": Option("N", f"size of each page; default 0{_FROM_STORE}", Float(also=RECORDED)),
}
"""The options that are fields of `Network`."""


def _option_of(setting: Setting) -> str:
    """Return the option that corresponds to a setting of live crawls."""
    name = setting.name.removeprefix(OWN_PREFIX).removeprefix("DOWNLOAD_")
    return "--" + name.lower().replace("_", "-")


_RULES = {
    _option_of(setting): setting
    for rule, setting in DELAY_RULES.items()
    if rule not in ("max_crawl_delay", "max_back_off")  # simulated sites ask for no delay
}
"""The settings of the delay rules that have an option here."""


def _rule_option(setting: Setting) -> Option:
    """Return the option for a delay rule, whose help names options instead of settings."""
    names = {other.name: option for option, other in _RULES.items()}
    metavar = {"": "F", "pages": "N"}.get(setting.unit, setting.unit.upper())
    option = setting_option(setting, metavar, setting.guest_default, names=names)
    return option._replace(setting="")  # it sets a field of `Politeness`


class Command(OneLineCommand):
    """`crawlprio simulate GRAPH` crawls a link graph in memory, once for each ordering."""

    title = "Simulation"
    takes = "[options] GRAPH"
    does = "Crawl a link graph in memory under several orderings"
    examples = (
        "simulate crawl.sqlite --plot curves.png",
        "simulate graph.npz --seeds 0,7 --ordering opic --ordering random",
        "simulate graph.npz --robots 256 --delay 5 --latency 0.3",
    )

    def long_desc(self) -> str:
        from crawlprio.store.graph_files import GRAPH_FORMS

        return (
            "Crawl GRAPH in memory, once for each ordering, and report how much of the PageRank "
            f"each had gathered at each point. GRAPH is {GRAPH_FORMS}. Live crawls run the same "
            "orderings, and fetch pages in the same order. -s TOPIC=WORDS puts a hot queue in "
            "front of each. With robots, delays, latency or bandwidth, the crawl runs on a clock, "
            "and the report also shows how much was gathered by which hour."
        )

    def own_options(self) -> dict[str, Option]:
        from crawlprio.orderings import COMPARED

        return {
            "--ordering": Option(
                "NAME",
                "name or import path of an ordering; may be repeated; default: "
                + ", ".join(COMPARED),
                may_repeat=True,
            ),
            "--ordering-options": Option(
                "JSON",
                "options of the orderings that have them, as in '{\"every\": 1000}', or by "
                'ordering: \'{"opic": {"seed_cash": 10}}\'',
            ),
            "--seeds": Option(
                "ID|URL[,...]|@FILE",
                "where crawls start, in this order; @FILE: one per line. Default: the seeds of a "
                "crawl store, or those in NAME.seeds.txt beside its export; otherwise page 0 or "
                "one of the four pages with the most links, whichever reaches the most pages",
            ),
            "--value": Option(
                "MODEL",
                "judge by the value found instead of PageRank, by this value model; GRAPH is a "
                "crawl store with texts",
            ),
            "--starts": Option(
                "N",
                "with --value, crawl from N starts: the seeds, and single pages; default 1",
                Int(1),
                1,
            ),
            "--budget": Option("N", "maximum number of fetches; default: no limit", Int(1)),
            **{option: _rule_option(setting) for option, setting in _RULES.items()},
            **_NETWORK,
            "--order": Option(
                "FILE",
                "write the page ids in the order fetched, one per line; with several orderings, "
                "%%s in FILE stands for the name",
            ),
            "--plot": Option("FILE", "plot the curves: .png, .svg or .pdf"),
            "--json": Option("FILE", "write the figures as JSON"),
        }

    def execute(self, args: list[str], opts: argparse.Namespace) -> None:
        from crawlprio.orderings import COMPARED, make_ordering

        graph_path = str(store_of(only_argument("simulate", "GRAPH", args)))
        robots = opts.robots
        opts.robots = None if robots is None else robots[0]
        network, recorded = _network(opts)
        names = list(dict.fromkeys(opts.ordering or (VALUED if opts.value else COMPARED)))
        runs_of = _runs_of(names, robots)
        order_paths = paths_by_name("--order", opts.order, list(runs_of), "orderings")
        orders = [("--order", path) for path in order_paths.values()]
        check_outputs(
            orders + named_outputs(opts, "--plot", "--json"), inputs={"GRAPH": graph_path}
        )
        options = _options_of(names, opts.ordering_options)
        orderings = {run: make_ordering(name, options[name]) for run, (name, _) in runs_of.items()}
        self._hot_queue()
        if opts.value is not None:
            if opts.order is not None or opts.budget is not None or network.takes_time:
                raise ConfigError(
                    "--value simulates without a clock, up to 40 % of the pages; leave out "
                    "--order, --budget and the options of the network."
                )
            self._judge_by_value(graph_path, names, options, opts)
            return
        for name, ordering in orderings.items():
            if ordering.needs_values:
                raise ConfigError(f"{name} orders pages by their value; give --value MODEL.")

        from rich.console import Console

        from crawlprio.show.simulation_results import (
            Simulation,
            compile_kernels,
            plot_runs,
            print_runs,
        )

        progress_console = Console(stderr=True)
        source = self._source(graph_path)
        seeds, remark = _start(source, opts.seeds)
        compile_kernels(
            map(type, orderings.values()),
            in_time=network.takes_time or bool(recorded) or len(runs_of) > len(names),
            by_site=any(ordering.site_share for ordering in orderings.values()),
        )
        simulation = Simulation(
            source.graph,
            seeds,
            budget=opts.budget,
            hot_queue=self._hot_queue,
            recorded=source.recorded(with_texts=self._hot_queue() is not None),
            network=_as_recorded(network, recorded, source),
        )
        runs = []
        for name, ordering in orderings.items():
            runs.append(_run(simulation, name, ordering, progress_console, runs_of[name][1]))
            if name in order_paths:
                ids = "\n".join(map(str, runs[-1].order.tolist()))
                write_text("--order", order_paths[name], f"{ids}\n" if ids else "")
        figures = simulation.as_json(runs)
        for run in figures["runs"]:
            run["options"] = options[runs_of[run["ordering"]][0]]
        write_json(opts, lambda: figures)
        if opts.plot:
            plot_runs(Path(opts.plot), simulation, runs, Path(graph_path).name)
        for said in filter(None, (remark, source.remark)):
            print(said, file=sys.stderr)
        print_runs(simulation, runs, graph_path)

    def _judge_by_value(
        self,
        graph_path: str,
        names: Sequence[str],
        options: Mapping[str, Mapping[str, Any]],
        opts: argparse.Namespace,
    ) -> None:
        """Crawl a store from one start or several under each ordering; report the value found.

        With a topic, breadth-first is also run behind its hot queue.
        """
        from crawlprio.orderings import make_ordering

        source = self._source(graph_path)
        has_topic = self._hot_queue() is not None
        seeds, _ = _start(source, opts.seeds)
        texts = has_topic or any(make_ordering(name, options[name]).needs_texts for name in names)
        lab = load("functions", "value")(source, opts.value, seeds, opts.starts, with_texts=texts)
        runs = [lab.run(name, partial(make_ordering, name, options[name])) for name in names]
        if has_topic:
            runs.append(
                lab.run("hot-queue", partial(make_ordering, "breadth-first"), self._hot_queue)
            )
        write_json(opts, lambda: lab.as_json(runs))
        if opts.plot:
            lab.plot(Path(opts.plot), runs, f"{Path(graph_path).name}: value by {lab.model}")
        lab.print(runs, graph_path)

    def _source(self, path: str) -> Source:
        from crawlprio.settings_table.config import read_setting
        from crawlprio.simulator.graph_pages import Source

        return Source.open(path, read_setting(self.settings, "CRAWLPRIO_MAX_UNPACKED_BYTES"))

    def _hot_queue(self) -> HotQueue | None:
        """Return a new hot queue for TOPIC and TOPIC_OPTIONS, or None without a topic."""
        from crawlprio.graph.topic import HotQueue
        from crawlprio.settings_table.config import topic_of

        topic, options = topic_of(self.settings)
        return None if topic is None else HotQueue(topic, **options)


def _runs_of(
    names: Sequence[str], robots: Sequence[int] | None
) -> dict[str, tuple[str, int | None]]:
    from crawlprio.show.simulation_results import run_name

    if robots is None or len(robots) == 1:
        return {name: (name, None) for name in names}
    return {run_name(name, n): (name, n) for name in names for n in robots}


def _network(opts: argparse.Namespace) -> tuple[Network, list[str]]:
    """Return the network, as far as the options give numbers, and those to take from the store."""
    from crawlprio.frontier import Politeness
    from crawlprio.simulator.network import Network

    def values(options: Iterable[str]) -> dict[str, Any]:
        given = {option: getattr(opts, field_of(option)) for option in options}
        return {option: value for option, value in given.items() if value is not None}

    rules, network = values(_RULES), values(_NETWORK)
    if "--max-adaptive-delay" in rules and not rules.get("--adaptive-delay"):
        raise ConfigError(
            f"--max-adaptive-delay is {opts.max_adaptive_delay:g}, but there is no "
            "--adaptive-delay to limit; give one, or leave it out."
        )
    recorded = [option for option, value in network.items() if value == RECORDED]
    for option in ("--bandwidth", "--site-speed"):
        if option in network and option not in recorded and opts.page_bytes is None:
            raise ConfigError(
                f"{option} is {network[option]:g}, but pages have no size; give --page-bytes."
            )
    fields = {field_of(name): value for name, value in network.items() if name not in recorded}
    politeness = Politeness(**{_RULES[option].rule: value for option, value in rules.items()})
    return Network(politeness=politeness, **fields), recorded


def _as_recorded(network: Network, recorded: Sequence[str], source: Source) -> Network:
    """Return the network, with the values of some options as the crawl store has them."""
    if not recorded:
        return network
    if not source.is_store:
        raise ConfigError(
            f"{recorded[0]} is 'recorded', but {source.path} is not a crawl store; give a number."
        )
    from crawlprio.simulator.network import Network

    stored = Network.from_store(source.path)
    fields = {field_of(option): getattr(stored, field_of(option)) for option in recorded}
    return dataclasses.replace(network, **fields)


def _options_of(names: Sequence[str], text: str | None) -> dict[str, dict[str, Any]]:
    """Return the options of each ordering: its own, or the shared ones that it knows."""
    from crawlprio.orderings import NAMED, option_names

    if text is None:
        return {name: {} for name in names}
    given = json_object("--ordering-options", text, '{"every": 1000}')
    known = {name: option_names(name) for name in names}
    by_name = given and all(
        isinstance(value, dict) and (key in known or key in NAMED) for key, value in given.items()
    )
    if by_name:
        for name in given:
            if name not in known:
                raise ConfigError(
                    f"--ordering-options has options of {name}, which is not simulated; simulated "
                    f"orderings: {', '.join(names)}."
                )
        return {name: given.get(name, {}) for name in names}
    allowed = sorted({option for options in known.values() for option in options})
    for option in given:
        if option not in allowed:
            raise ConfigError(
                f"--ordering-options names {option!r}, which no simulated ordering has; known "
                f"options: {', '.join(allowed) or 'none'}."
            )
    return {
        name: {option: value for option, value in given.items() if option in known[name]}
        for name in names
    }


def _start(source: Source, text: str | None) -> tuple[list[int], str]:
    """Return the pages that --seeds names, or else the source's own, and a remark on those."""
    from crawlprio.store.graph_files import SEEDS

    if text is not None:
        return _seeds(source, text), ""
    name = source.path.name.removesuffix(".gz")
    beside = source.path.with_name(f"{name.rpartition('.')[0] or name}{SEEDS}")
    if not source.is_store and beside.is_file():
        return _seeds(source, f"@{beside}"), f"Started where the crawl did, according to {beside}."
    found = source.default_seeds()
    if source.is_store or source.graph.urls is None:
        return found, ""
    names = ", ".join(source.graph.urls[page] for page in found)
    return found, (
        f"{source.path} does not say where a crawl started; started at {names}; give others with "
        "--seeds."
    )


def _seeds(source: Source, text: str) -> list[int]:
    if text.startswith("@"):
        lines = lines_of(f"--seeds {text}", text[1:])
        given = [line for line in lines if line and not line.startswith("#")]
    else:
        given = [part.strip() for part in text.split(",") if part.strip()]
    if not given:
        raise ConfigError(f"--seeds is {text!r}, which names no page; give page ids or URLs.")
    return source.find_seeds(given)


def _run(
    simulation: Simulation, name: str, ordering: Ordering, console: Console, robots: int | None
) -> Run:
    """Simulate one crawl, with a progress bar on a terminal."""
    if not console.is_terminal:
        return simulation.run(name, ordering, robots=robots)
    from rich.progress import Progress

    with Progress(console=console, transient=True) as progress:
        task = progress.add_task(name, total=simulation.n_to_fetch)
        return simulation.run(
            name, ordering, lambda n_fetched: progress.update(task, completed=n_fetched), robots
        )
