"""What `crawlprio simulate --value` does: crawls judged by the value that they find."""

from __future__ import annotations

import argparse
import json
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from crawlprio.commands.arguments import checked_option, write_text
from crawlprio.errors import ConfigError
from crawlprio.setting_table.kinds import Whole

if TYPE_CHECKING:
    from crawlprio.simulator import Source
    from crawlprio.topic import HotQueue


def judge_by_value(
    graph_path: str,
    names: Sequence[str],
    options: Mapping[str, Mapping[str, Any]],
    opts: argparse.Namespace,
    hot_queue: Callable[[], HotQueue | None],
    most_bytes: int | None,
    seeds_of: Callable[[Source, str | None], tuple[list[int], str]],
) -> None:
    """Crawl a store from one start or several under each ordering, and report the value found.

    Parameters
    ----------
    names, options
        The orderings, and the options of each.
    opts
        The options of the command.
    hot_queue
        Makes a hot queue; if there is a topic, breadth-first is also run behind it.
    most_bytes
        CRAWLPRIO_MAX_UNPACKED_BYTES.
    seeds_of
        Returns the pages that --seeds names, or else the source's own, and a remark.
    """
    from crawlprio.orderings import make_ordering
    from crawlprio.simulator import Source
    from crawlprio.simulator import value_runs as runs_of
    from crawlprio.value.registry import make_model

    n_starts = checked_option("--starts", Whole(1), opts.starts) or 1
    model = make_model(opts.value)
    source = Source.open(graph_path, most_bytes)
    recorded = source.recorded(with_texts=hot_queue() is not None)
    if recorded is None:
        raise ConfigError(f"{graph_path} is not a crawl store, so its pages have no text.")
    values = runs_of.page_values(source.path, source.graph, model)
    seeds, _ = seeds_of(source, opts.seeds)
    starts = runs_of.starts_of(source.graph, seeds, n_starts)
    lab = runs_of.ValueLab(source.graph, recorded, values, starts)
    runs = [lab.run(name, partial(make_ordering, name, options[name])) for name in names]
    if hot_queue() is not None:
        runs.append(lab.run(runs_of.HOT_QUEUE, partial(make_ordering, "breadth-first"), hot_queue))
    if opts.json:
        figures = {"value": model.name, "starts": starts, "runs": [run.as_json() for run in runs]}
        write_text("--json", opts.json, json.dumps(figures) + "\n")
    if opts.plot:
        title = f"{Path(graph_path).name}: value by {model.name}"
        runs_of.plot_value_runs(Path(opts.plot), runs, title)
    runs_of.print_value_runs(lab, runs, graph_path, model.name)
