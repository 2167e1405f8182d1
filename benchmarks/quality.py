"""The quality of each ordering, on many webs and from many starts; run by hand.

    python benchmarks/quality.py WEB... [--ordering NAME[:OPTION=VALUE,...]]... [--starts N]
        [--in-flight 1,16,64] [--delay 15] [--importance NAME]
        [--plot FILE] [--markdown FILE] [--json FILE]
    python benchmarks/quality.py --again FILE... [--plot FILE] [--markdown FILE]

A WEB is a graph that `crawlprio simulate` reads, as those of `webs.py`. Next to `NAME.npz` there
may be `NAME.homes.txt`, the home page of each site. Crawls of a web start at all home pages, if
there are several, and at single pages: the first home page, and random pages (from a fixed seed)
that reach at least half as much, `--starts` in total (default 5). A crawl ends when nothing waits.

Each web and kind of start has one row per ordering: the mean and standard deviation of the average
cumulative PageRank over the starts, Kendall's tau, and the share of PageRank gathered after 5, 10
and 30 % of the pages. `gain` is the share of the distance from the better of opic and breadth-first
to greedy omniscient that an ordering closes. Greedy is no bound; all pages sorted by PageRank are
one. The summary says how much of the room from the better of the two to that bound an ordering
gains: the sum of gains over the sum of rooms, each web counting once, with its starts averaged; and
the start at which it is furthest below the best of breadth-first, opic and rankmass. It ends with
the share of PageRank gathered after 1 to 40 % of the pages, and the web at which that is least
beside breadth-first. `--in-flight`
repeats this with several fetches at once, and `--delay` with a clock: w seconds between fetches of
a site, 16 in flight, 1 s per fetch; the average is then over time. `--markdown` writes the rows as
the tables of experiments/sibling_sampling.md, with webs named `held-out-...` in a separate
table. `--again` prints, writes and draws the results that earlier runs wrote with `--json`.

PageRank is computed on the web in the file, with damping 0.85; pages outside it do not count.
`--importance` judges by another importance instead; omniscient then is greedy by that. The webs of
`webs.py` are documentation: clean, densely linked, without spam.
"""

from __future__ import annotations

import argparse
import json
import math
import statistics
import sys
import textwrap
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from crawlprio.frontier import Politeness
from crawlprio.graph.linkgraph import LinkGraph
from crawlprio.measure.crawl_order import best_order, cumulative_pagerank, reachable
from crawlprio.measure.importance import importance_of
from crawlprio.orderings import ORDERINGS, make_ordering
from crawlprio.show.figures import Panel
from crawlprio.show.simulation_results import Simulation
from crawlprio.simulator.graph_pages import Source
from crawlprio.simulator.network import Network

sys.path.append(str(Path(__file__).parents[1] / "experiments"))
import drawing

DEFAULT = (
    "breadth-first",
    "opic",
    "opic:seed_cash=100",
    "rankmass",
    "fica",
    "scout",
    "sibling-sampling",
    "omniscient",
)
POINTS = 51
SHARES = (0.01, 0.02, 0.05, 0.1, 0.2, 0.4)
"""Shares of the pages after which the summary says what has been gathered."""
OURS, HELD_OUT = "sibling-sampling", "held-out-"
USUAL, SAFE = ("breadth-first", "opic"), ("breadth-first", "opic", "rankmass")


@dataclass(frozen=True)
class Case:
    """Crawls of one web from starts of one kind, in one network."""

    web: str
    starts: str
    network: str
    seeds: list[list[int]] = field(repr=False)


@dataclass
class Row:
    """One ordering in one case, with one number per start."""

    web: str
    starts: str
    network: str
    ordering: str
    average: list[float]
    tau: list[float]
    early: list[list[float]]
    curve: list[float] = field(repr=False)
    bound: list[float] = field(default_factory=list, repr=False)
    """The average of all pages that can be reached, sorted by PageRank."""
    at: list[list[float]] = field(default_factory=list, repr=False)
    """For each start, the share of PageRank after each of `SHARES`; figures of old lack it."""

    @property
    def mean(self) -> float:
        return statistics.fmean(self.average)

    def early_mean(self, k: int) -> float:
        """Mean share of PageRank after 5, 10 or 30 % of the pages."""
        return statistics.fmean(shares[k] for shares in self.early)

    @property
    def spread(self) -> float:
        return statistics.stdev(self.average) if len(self.average) > 1 else math.nan


def single_starts(graph: LinkGraph, homes: list[int], n: int) -> list[list[int]]:
    """Return n single pages to start from: the first home page, and pages drawn at random."""
    sizes = [int(reachable(graph, [home]).sum()) for home in homes]
    starts, drawn = [[homes[0]]], np.random.default_rng(1).permutation(graph.n_pages)
    for page in drawn[: 40 * n].tolist():
        if len(starts) == n:
            break
        if 2 * int(reachable(graph, [page]).sum()) >= max(sizes):
            starts.append([page])
    return starts


def networks(in_flight: list[int], delay: float | None) -> Iterator[tuple[str, Network]]:
    """Return the networks to crawl through, by name."""
    for n in in_flight:
        name = "order-only" if n == 1 else f"{n} in flight"
        yield name, Network(robots=n, latency=0.0 if n == 1 else 1.0)
    if delay is not None:
        polite = Politeness(delay=delay)
        yield f"w = {delay:g} s", Network(robots=16, politeness=polite, latency=1.0)


def parse_ordering(text: str) -> tuple[str, dict[str, Any]]:
    """Return the name and the options in NAME[:OPTION=VALUE,...]."""
    name, _, rest = text.partition(":")
    options = dict(part.split("=", 1) for part in rest.split(",") if part)
    return name, {option: json.loads(value) for option, value in options.items()}


def measure(
    graph: LinkGraph, case: Case, network: Network, text: str, simulations: list[Simulation]
) -> Row:
    """Crawl from each start under one ordering."""
    name, options = parse_ordering(text)
    runs = [simulation.run(text, make_ordering(name, options)) for simulation in simulations]
    in_time = network.politeness.delay > 0
    return Row(
        case.web,
        case.starts,
        case.network,
        text,
        [
            run.timed.average_pagerank_by_time
            if in_time and run.timed is not None
            else run.average_cumulative_pagerank
            for run in runs
        ],
        [run.kendall_tau for run in runs],
        [list(run.pagerank_at) for run in runs],
        np.mean(
            [
                np.interp(np.linspace(0, 1, POINTS), *np.array([[0.0, 0.0], *run.curve]).T)
                for run in runs
            ],
            axis=0,
        ).tolist(),
        [bound_of(simulation) for simulation in simulations],
        [np.interp(SHARES, *np.array([[0.0, 0.0], *run.curve]).T).tolist() for run in runs],
    )


def bound_of(simulation: Simulation) -> float:
    """Return the average cumulative PageRank of all pages that can be reached, best first."""
    order = best_order(simulation.ranks, simulation.reachable)
    gathered = cumulative_pagerank(order, simulation.ranks, simulation.reachable)
    return float(gathered.mean())


def crawl_web(path: Path, given: argparse.Namespace) -> Iterator[list[Row]]:
    """Return the rows of each case of one web."""
    source = Source.open(str(path))
    graph = source.graph
    beside = path.with_name(f"{path.name.removesuffix('.npz')}.homes.txt")
    homes = [int(line) for line in beside.read_text().split()] if beside.exists() else []
    homes = homes or source.default_seeds()
    web = path.name.removesuffix(".npz")
    values = importance_of(graph, given.importance)
    values /= values.sum()
    kinds = {"one page": single_starts(graph, homes[:1], given.starts)}
    if len(homes) > 1:
        rng = np.random.default_rng(2)
        # The order of the home pages breaks ties, so shuffle them for a spread.
        shuffled = [rng.permutation(homes).tolist() for _ in range(given.starts - 1)]
        kinds = {"all home pages": [homes, *shuffled], **kinds}
    for starts, seeds in kinds.items():
        for name, network in networks(given.in_flight, given.delay):
            case = Case(web, starts, name, seeds)
            simulations = [Simulation(graph, each, network=network) for each in seeds]
            for simulation in simulations:
                simulation.__dict__["ranks"] = values
            yield [measure(graph, case, network, text, simulations) for text in given.ordering]


def print_case(rows: list[Row]) -> None:
    """Print the rows of one case."""
    by_name = {row.ordering: row.mean for row in rows}
    base = max(by_name.get("opic", -1.0), by_name.get("breadth-first", -1.0))
    top = by_name.get("omniscient", math.nan)
    print(f"\n{rows[0].web}, {rows[0].starts}, {rows[0].network}; starts: {len(rows[0].average)}")
    print(
        f"  {'ordering':34} {'average':>7} {'+/-':>6} {'gain':>6} {'tau':>6}    5 %   10 %   30 %"
    )
    for row in rows:
        gain = (row.mean - base) / (top - base) if top > base >= 0 else math.nan
        early = " ".join(f"{share:6.3f}" for share in np.mean(row.early, axis=0))
        print(
            f"  {row.ordering:34} {row.mean:7.3f} {row.spread:6.3f} {gain:6.0%} "
            f"{statistics.fmean(row.tau):6.3f} {early}",
            flush=True,
        )


def print_summary(rows: list[Row], orderings: list[str]) -> None:
    """Print means over all cases of a network, and where an ordering is below the usual two."""
    for network in dict.fromkeys(row.network for row in rows):
        cases: dict[tuple[str, str], dict[str, Row]] = {}
        for row in rows:
            if row.network == network:
                cases.setdefault((row.web, row.starts), {})[row.ordering] = row
        print(f"\nmean over {len(cases)} webs and kinds of start, {network}")
        print(
            f"  {'ordering':34} {'average':>7} {'tau':>6}    5 %   10 %   30 %  below the better of"
        )
        print(f"  {'':34} {'':>7} {'':>6}                       opic and breadth-first")
        for text in orderings:
            own = [case[text] for case in cases.values()]
            below = []
            for (web, starts), case in cases.items():
                usual = [case[name] for name in ("opic", "breadth-first") if name in case]
                best = max(usual, key=lambda row: row.mean, default=case[text])
                spread = max(np.nan_to_num([best.spread, case[text].spread]))
                if case[text].mean < best.mean - spread:
                    below.append(f"{web} {starts} by {best.mean - case[text].mean:.3f}")
            early = " ".join(
                f"{x:6.3f}" for x in np.mean([np.mean(row.early, axis=0) for row in own], axis=0)
            )
            print(
                f"  {text:34} {statistics.fmean(row.mean for row in own):7.3f} "
                f"{statistics.fmean(statistics.fmean(row.tau) for row in own):6.3f} {early}  "
                f"{len(below)} of {len(cases)}{': ' if below else ''}{'; '.join(below[:4])}"
            )


def print_room(rows: list[Row], orderings: list[str]) -> None:
    """Print how much of the room to the sorted order each ordering gains, and its worst start."""
    cases = [case for case in by_case(rows).values() if all(name in case for name in SAFE)]
    webs: dict[str, list[dict[str, Row]]] = {}
    for case in cases:
        webs.setdefault(case["opic"].web, []).append(case)

    def of_web(web: str, name: str) -> float:
        return statistics.fmean(figure for case in webs[web] for figure in case[name].average)

    base = {web: max(of_web(web, name) for name in USUAL) for web in webs}
    rooms = [
        statistics.fmean(figure for case in own for figure in case["opic"].bound) - base[web]
        for web, own in webs.items()
    ]
    print(f"\nroom to the sorted order, {len(webs)} webs; worst start against {', '.join(SAFE)}")
    for text in orderings if webs else ():
        gain = sum(of_web(web, text) - base[web] for web in webs)
        worst, where = min(
            (own - max(others), f"{case[text].web}, {case[text].starts}")
            for case in cases
            for own, *others in zip(
                case[text].average, *(case[name].average for name in SAFE), strict=True
            )
        )
        print(f"  {text:34} {gain / sum(rooms):6.3f}   {worst:+.3f} ({where})")


def print_curves(rows: list[Row], orderings: list[str]) -> None:
    """Print what is gathered after each of `SHARES`, and where that is least beside breadth-first.

    Each web counts once, with all of its starts.
    """
    webs: dict[str, dict[str, list[list[float]]]] = {}
    for case in by_case(rows).values():
        for text, row in case.items():
            webs.setdefault(row.web, {}).setdefault(text, []).extend(row.at)
    webs = {web: found for web, found in webs.items() if all(found.values())}
    print(f"\nshare of PageRank after a share of the pages, {len(webs)} webs")
    print(f"  {'':34}" + "".join(f" {share:6.0%}" for share in SHARES))
    for text in orderings if webs else ():
        means = {web: np.mean(found[text], axis=0) for web, found in webs.items()}
        print(f"  {text:34}" + "".join(f" {x:6.3f}" for x in np.mean([*means.values()], axis=0)))
        if any("breadth-first" not in found for found in webs.values()):
            continue
        above = {web: means[web] - np.mean(webs[web]["breadth-first"], axis=0) for web in webs}
        worst = [min(webs, key=lambda web, k=k: above[web][k]) for k in range(len(SHARES))]
        least = ", ".join(f"{above[web][k]:+.3f} {web}" for k, web in enumerate(worst))
        print(f"  {'  least above breadth-first':34} {least}")


def by_case(rows: list[Row]) -> dict[tuple[str, str], dict[str, Row]]:
    """Return the rows of each web and kind of start by ordering, for the first network."""
    cases: dict[tuple[str, str], dict[str, Row]] = {}
    for row in rows:
        if row.network == rows[0].network:
            cases.setdefault((row.web, row.starts), {})[row.ordering] = row
    return cases


def distance_closed(case: dict[str, Row]) -> str:
    """Return how much of the distance to greedy omniscient the default closes, or why none."""
    best = max(case[name].mean for name in ("opic", "breadth-first"))
    own, greedy = case[OURS].mean, case["omniscient"].mean
    if greedy > best:
        return f"{(own - best) / (greedy - best):.0%}"
    others = max(row.mean for name, row in case.items() if name != OURS)
    return f"{own - others:+.3f} to the best other (greedy is not best)"


def write_tables(rows: list[Row], path: Path) -> None:
    """Write one Markdown table of the webs, and one of the held-out webs."""
    cases = by_case(rows)
    tables = []
    for is_held_out in (False, True):
        chosen = {
            key: case for key, case in cases.items() if key[0].startswith(HELD_OUT) == is_held_out
        }
        if chosen:
            tables.append(table_of(chosen))
    path.write_text("\n\n".join(tables) + "\n", encoding="utf-8")


def table_of(cases: dict[tuple[str, str], dict[str, Row]]) -> str:
    """Return a Markdown table with means, and a sentence on early coverage and Kendall's tau."""
    orderings = list(next(iter(cases.values())))
    names = [name.replace(":", ", ") for name in orderings]
    heads = ["web, start", *names, "distance closed", "tau, OPIC", "tau"]
    lines = ["| " + " | ".join(heads) + " |", "|---" * len(heads) + "|"]
    for (web, starts), case in cases.items():
        figures = [
            f"{row.mean:.3f}" + (f" ±{row.spread:.3f}" if row.spread >= 0.0005 else "")
            for row in case.values()
        ]
        taus = [f"{statistics.fmean(case[name].tau):.2f}" for name in ("opic", OURS)]
        start = f"{web.removeprefix(HELD_OUT)}, {starts}"
        lines.append("| " + " | ".join([start, *figures, distance_closed(case), *taus]) + " |")

    def mean(name: str, figure: Callable[[Row], float]) -> float:
        return statistics.fmean(figure(case[name]) for case in cases.values())

    means = [f"**{mean(name, lambda row: row.mean):.3f}**" for name in orderings]
    taus = [f"{mean(name, lambda row: statistics.fmean(row.tau)):.2f}" for name in ("opic", OURS)]
    lines.append("| " + " | ".join(["**mean**", *means, "", *taus]) + " |")
    early = [
        f"{label} "
        + " / ".join(f"{mean(name, lambda row, k=k: row.early_mean(k)):.3f}" for k in range(3))
        for name, label in zip(orderings, names, strict=True)
    ]
    n_better = sum(
        statistics.fmean(case[OURS].tau) >= statistics.fmean(case["opic"].tau) + 0.1
        for case in cases.values()
    )
    sentence = (
        f"Share of PageRank after 5, 10 and 30 % of the pages, mean over these rows: "
        f"{'; '.join(early)}. Kendall's tau is at least 0.1 above that of OPIC in {n_better} of "
        f"{len(cases)} rows."
    )
    return "\n".join([*lines, "", *textwrap.wrap(sentence, 110)])


def draw(rows: list[Row], path: Path) -> None:
    """Record a panel of curves for each web and kind of start, by order alone, and draw them."""
    at = np.linspace(0, 1, POINTS)
    panels = [
        Panel(
            {
                name.replace(":", ", "): np.column_stack([at, row.curve])
                for name, row in case.items()
            },
            f"{web}, {starts}",
            "share of pages fetched",
            "PageRank of all pages",
            x_percent=True,
            y_percent=True,
            references={"random, expected": [[0.0, 0.0], [1.0, 1.0]]},
        )
        for (web, starts), case in by_case(rows).items()
    ]
    title = "PageRank gathered by share of the pages, order alone"
    drawing.record(path.parent, path.stem, panels, title=title, columns=3)


def main() -> None:
    """Crawl, print, draw."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("web", type=Path, nargs="*")
    parser.add_argument("--ordering", action="append", help="name, and options; repeatable")
    parser.add_argument("--starts", type=int, default=5, help="of each kind; default 5")
    parser.add_argument("--in-flight", type=lambda s: [int(n) for n in s.split(",")], default=[1])
    parser.add_argument("--delay", type=float, help="seconds between fetches of a site")
    parser.add_argument("--importance", default="pagerank", help="of a page; default pagerank")
    parser.add_argument("--plot", type=Path, help="a .png; its lines are recorded beside it")
    parser.add_argument("--markdown", type=Path, help="write the tables of the documentation")
    parser.add_argument("--json", type=Path, help="write every figure")
    parser.add_argument("--again", type=Path, nargs="+", default=[], help="earlier figures")
    given = parser.parse_args()
    if not given.web and not given.again:
        parser.error("there is nothing to crawl or print; give a WEB, or --again FILE")
    given.ordering = given.ordering or [
        text for text in DEFAULT if text.partition(":")[0] in ORDERINGS
    ]
    rows = [Row(**each) for path in given.again for each in json.loads(path.read_text())]
    if rows:
        given.ordering = list(dict.fromkeys(row.ordering for row in rows))
    missing = sorted({"opic", "breadth-first", "omniscient", OURS} - set(given.ordering))
    if given.markdown and missing:
        parser.error(f"--markdown takes figures of {', '.join(missing)} too; add --ordering")
    for path in given.web:
        for case in crawl_web(path, given):
            print_case(case)
            rows += case
    print_summary(rows, given.ordering)
    print_room(rows, given.ordering)
    print_curves(rows, given.ordering)
    if given.json:
        given.json.write_text(json.dumps([asdict(row) for row in rows]))
    if given.markdown:
        write_tables(rows, given.markdown)
    if given.plot:
        draw(rows, given.plot)
        print(f"\ndrawn to {given.plot}")


if __name__ == "__main__":
    main()
