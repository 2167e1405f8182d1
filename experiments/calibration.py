"""How true the coverage estimate of receipts is: calibration on known webs; run by hand.

    python experiments/calibration.py CASES [WEB...] [--synthetic] [--judge]
        [--markdown FILE] [--plot FILE]

A WEB is a graph that `crawlprio simulate` reads, as those of `benchmarks/webs.py` and
`benchmarks/archives.py`; `NAME.homes.txt` beside it has its home pages. Each is crawled in the
simulator from one page (the first home page, another one) and from ten (home pages, any), under
each of `ORDERINGS`, and the estimate of `crawlprio.ranking.coverage_estimate` is compared with the
truth when `STOPS` of all reachable pages are fetched. The folder CASES gets one JSON file per web;
webs that have one are not crawled again.

Then `ERRORS` of `crawlprio/ranking/coverage_estimate.py` is computed from all cases: they leave out
`BEYOND` of the errors on either side in each kind of crawl (ordering and number of seeds), and so
in the worst. It is judged leaving one web out at a time: the other webs give the interval. Each web
counts once. Webs that are set aside (`is_set_aside`) take part in neither; `--judge` compares them
with the constants in the package.

It also says how much of what the next pages brought was expected (`more`).
"""

from __future__ import annotations

import argparse
import itertools
import json
import sys
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

sys.path.insert(0, str(Path(__file__).parent.parent / "benchmarks"))

from archives import HELD_OUT

from crawlprio.graph.linkgraph import LinkGraph
from crawlprio.graph.synthetic import home_pages, synthetic_web
from crawlprio.measure.crawl_order import reachable
from crawlprio.orderings import make_ordering
from crawlprio.ranking import coverage_estimate
from crawlprio.ranking.coverage_estimate import (
    Estimates,
    Fetches,
    folders_of,
    interval,
    likely_coverage,
    logit_of,
)
from crawlprio.show.figures import Panel, Series, plot_panels
from crawlprio.simulator.timed import crawl_order
from crawlprio.store.graph_files import read_graph

Floats = NDArray[np.float64]
Case = dict[str, Any]

ORDERINGS = ("sibling-sampling", "rankmass", "breadth-first", "opic", "backlink-count")
STOPS = (0.02, 0.05, 0.1, 0.2, 0.3, 0.45, 0.6, 0.8)
N_SEEDS = 10
JUDGED = (0.05, 0.1, 0.3, 0.6)
"""The stops that the tables report; the constants come from all of `STOPS`."""

BEYOND = 0.03
"""Share of the known errors left out on either side; .05 would do if there were more webs."""

MORE = (100, 1_000, 10_000)
FEWEST = 80
"""Pages of the smallest web that takes part."""

TOLERANCE = 5e-4
"""By how much a share may be outside the interval; receipts have three digits."""


def is_set_aside(web: str) -> bool:
    """Return whether a web judges alone: nothing is computed from it."""
    return web in HELD_OUT or web.startswith("judge-")


def starts_of(graph: LinkGraph, homes: Sequence[int]) -> dict[str, list[int]]:
    """Return the sets of seeds from which a web is crawled; names begin with how many there are."""
    first = list(homes[:1]) or [int(np.argmax(np.diff(graph.indptr)))]
    least = max(int(reachable(graph, first).sum()), 0.3 * graph.n_pages) / 2
    random = np.random.default_rng(1)
    some = random.permutation(graph.n_pages)[:200].tolist()
    other = next((page for page in some if reachable(graph, [page]).sum() >= least), first[0])
    ten = random.permutation(graph.n_pages)[:N_SEEDS].tolist()
    from_homes = list(dict.fromkeys([*homes[:N_SEEDS], *ten]))[:N_SEEDS]
    return {"1 home": first, "1 other": [other], "10 homes": from_homes, "10 others": ten}


def folders_in(graph: LinkGraph) -> NDArray[np.int32] | None:
    """Return the folder of each page, or where no URL is known, its site."""
    if graph.urls is not None:
        return folders_of(graph.urls)
    return None if graph.site is None else graph.site.astype(np.int32)


def fetches_of(
    graph: LinkGraph,
    seeds: Sequence[int],
    order: NDArray[np.int32],
    folders: NDArray[np.int32] | None = None,
) -> Fetches:
    """Return what a crawl that fetched these pages knows."""
    degrees = np.diff(graph.indptr)[order]
    rows = [graph.indices[graph.indptr[page] : graph.indptr[page + 1]] for page in order.tolist()]
    return Fetches(
        graph.n_pages,
        np.array(seeds, dtype=np.int32),
        order.astype(np.int32),
        np.concatenate([[0], np.cumsum(degrees)]).astype(np.int64),
        np.concatenate(rows).astype(np.int32),
        folders,
    )


def true_shares(graph: LinkGraph, seeds: Sequence[int]) -> Floats:
    """Return the importance of all pages: PageRank of a surfer who starts at the seeds."""
    everything = np.flatnonzero(reachable(graph, seeds)).astype(np.int32)
    return likely_coverage(fetches_of(graph, seeds, everything)).shares


class Stopped(NamedTuple):
    """A crawl of a web that was stopped.

    `case`: Where it started, its ordering, and the share of the reachable pages that it fetched.
    `order`: The pages in the order of the whole crawl. `fetches`: What it knew when it was stopped.
    `truth`: The importance of each page.
    """

    case: Case
    order: NDArray[np.int32]
    fetches: Fetches
    truth: Floats


def stopped_crawls(
    graph: LinkGraph, homes: Sequence[int], stops: Sequence[float]
) -> Iterator[Stopped]:
    """Yield each crawl of a web, from each start under each ordering, at each stop."""
    folders = folders_in(graph)
    for name, seeds in starts_of(graph, homes).items():
        truth = true_shares(graph, seeds)
        n_reachable = int(np.count_nonzero(truth))
        if n_reachable < FEWEST:
            continue
        for ordering in ORDERINGS:
            order = np.asarray(crawl_order(graph, seeds, make_ordering(ordering)), dtype=np.int32)
            for stop in stops:
                fetches = fetches_of(
                    graph, seeds, order[: max(2, int(stop * n_reachable))], folders
                )
                case = {"start": name, "ordering": ordering, "stop": stop}
                yield Stopped(case, order, fetches, truth)


def crawls_of(name: str, graph: LinkGraph, homes: Sequence[int]) -> Iterator[Case]:
    """Yield what the estimate says at each stop of each crawl of a web, beside the truth."""
    for case, order, fetches, truth in stopped_crawls(graph, homes, STOPS):
        n = len(fetches.order)
        found = likely_coverage(fetches)
        if found.estimates is None:
            continue
        waiting = np.sort(found.shares[~fetches.is_fetched])[::-1]
        yield {
            "web": name,
            **case,
            "fetched": n,
            "known": n + int(np.count_nonzero(waiting)),
            "bound": found.at_least,
            "estimates": found.estimates,
            "likely": found.likely,
            "truth": float(truth[order[:n]].sum()),
            "more": {
                k: [float(truth[order[n : n + k]].sum()), float(waiting[:k].sum())]
                for k in MORE
                if n + k <= len(order)
            },
        }


def synthetic_webs() -> Iterator[tuple[str, LinkGraph]]:
    """Yield synthetic webs of one site and of many."""
    for n_sites, links in ((1, 8.0), (20, 15.0), (400, 10.0)):
        graph = synthetic_web(20_000, n_sites, links_per_page=links, seed=n_sites)
        yield f"synthetic-{n_sites}", graph


def measure(folder: Path, paths: Sequence[Path], *, synthetic: bool) -> None:
    """Crawl the webs that have no file in the folder yet."""
    folder.mkdir(exist_ok=True)
    for path in paths:
        homes = path.with_name(f"{path.name.removesuffix('.npz')}.homes.txt")
        pages = [int(page) for page in homes.read_text().split()] if homes.exists() else []
        _write(folder, path.name.removesuffix(".npz"), lambda path=path: read_graph(path), pages)
    for name, graph in synthetic_webs() if synthetic else ():
        _write(folder, name, lambda graph=graph: graph, home_pages(graph).tolist())


def _write(folder: Path, name: str, graph: Any, homes: Sequence[int]) -> None:
    file = folder / f"{name}.json"
    if not file.exists():
        cases = list(crawls_of(name, graph(), homes))
        file.write_text(json.dumps(cases))
        print(f"{name}: {len(cases)} crawls", flush=True)


def weights_of(cases: Sequence[Case]) -> Floats:
    """Return the weight of each case, so that each web counts once."""
    counts = Counter(case["web"] for case in cases)
    return np.array([1.0 / counts[case["web"]] for case in cases])


def quantile(values: Floats, weights: Floats, share: float) -> float:
    """Return the smallest value that at least a share of the weight does not exceed."""
    by_value = np.argsort(values)
    below = np.cumsum(weights[by_value]) / weights.sum()
    return float(values[by_value][min(int(np.searchsorted(below, share)), len(values) - 1)])


def errors_of(cases: Sequence[Case]) -> tuple[Floats, Floats]:
    """Return true minus estimated part of what is not certain, as logits, for both estimates."""
    errors = []
    for case in cases:
        found = Estimates(*case["estimates"])
        true = logit_of(case["truth"], found.bound)
        errors.append(
            [true - logit_of(share, found.bound) for share in (found.lower, found.higher)]
        )
    lower, higher = np.array(errors).T
    return lower, higher


def kind_of(case: Case) -> tuple[str, str]:
    """Return the kind of a crawl: its ordering, and how many seeds it had."""
    return case["ordering"], case["start"].split()[0]


def constants(cases: Sequence[Case]) -> tuple[float, float]:
    """Return ERRORS: the widest that any kind of crawl asks for."""
    lows, highs = [], []
    for kind in itertools.product(ORDERINGS, ("1", str(N_SEEDS))):
        of = [case for case in cases if kind_of(case) == kind]
        (lower, higher), weights = errors_of(of), weights_of(of)
        lows.append(quantile(lower, weights, BEYOND))
        highs.append(quantile(higher, weights, 1.0 - BEYOND))
    return round(min(lows), 2), round(max(highs), 2)


def judged(cases: Sequence[Case], errors: tuple[float, float]) -> list[Case]:
    """Return the cases with the interval that the constants give them."""
    return [
        {**case, "low": edges[0], "high": edges[2]}
        for case in cases
        for edges in (interval(Estimates(*case["estimates"]), errors),)
    ]


def leave_one_out(cases: Sequence[Case]) -> list[Case]:
    """Return the cases with the interval that the other webs give them."""
    found = []
    for web in dict.fromkeys(case["web"] for case in cases):
        errors = constants([case for case in cases if case["web"] != web])
        found += judged([case for case in cases if case["web"] == web], errors)
    return found


def is_inside(case: Case) -> bool:
    """Return whether the interval holds the true share."""
    low, high = case["low"] - TOLERANCE, case["high"] + TOLERANCE
    return bool(low <= case["truth"] <= high)


def row_of(label: str, cases: Sequence[Case]) -> str:
    """Return a row of the table: how often an interval is said, and its hits, errors and widths."""
    is_said = [case["high"] - case["low"] <= coverage_estimate.WIDEST for case in cases]
    n_said = np.average(is_said, weights=weights_of(cases))
    cases = [case for case, said in zip(cases, is_said, strict=True) if said]
    if not cases:
        return f"| {label} | {n_said:.0%} | - | - | - | - | - | - |"
    weights = weights_of(cases)
    hits = np.average([is_inside(case) for case in cases], weights=weights)
    certain = [is_inside({**case, "low": case["bound"], "high": 1.0}) for case in cases]
    errors = [abs(case["likely"] - case["truth"]) for case in cases]
    widths = [case["high"] - case["low"] for case in cases]
    gaps = [case["truth"] - case["bound"] for case in cases]
    middle = [quantile(np.array(of), weights, 0.5) for of in (errors, gaps, widths)]
    worst = max(cases, key=lambda case: abs(case["likely"] - case["truth"]))
    shown = " | ".join(f"{value:.3f}" for value in middle)
    far = f"{worst['likely']:.2f} for {worst['truth']:.2f} ({worst['web']}, {worst['ordering']})"
    return f"| {label} | {n_said:.0%} | {hits:.0%} | {np.mean(certain):.0%} | {shown} | {far} |"


def tables(cases: Sequence[Case]) -> str:
    """Return the tables for the documentation: by stop, by ordering and by web."""
    heading = (
        "| {} | said | interval holds | bound holds | error | bound is below by | width "
        "| farthest estimate |\n|---|---|---|---|---|---|---|---|"
    )
    at_stops = [case for case in cases if case["stop"] in JUDGED]
    lines = [heading.format("pages fetched")]
    lines += [row_of(f"{stop:.0%}", [c for c in cases if c["stop"] == stop]) for stop in JUDGED]
    lines += [row_of("all four", at_stops), "", heading.format("ordering")]
    for name, n in itertools.product(ORDERINGS, ("1", str(N_SEEDS))):
        of = [case for case in at_stops if kind_of(case) == (name, n)]
        lines.append(row_of(f"{name}, seeds: {n}", of))
    lines += ["", heading.format("web")]
    webs = sorted({case["web"] for case in cases})
    lines += [row_of(web, [c for c in at_stops if c["web"] == web]) for web in webs]
    return "\n".join(lines)


def expectations(cases: Sequence[Case]) -> str:
    """Return what the next pages brought under the default ordering, beside what is expected."""
    cases = [case for case in cases if case["ordering"] == ORDERINGS[0]]
    lines = ["| next pages | crawls | they brought | expected | error, median | error, 9 in 10 |"]
    lines += ["|---|---|---|---|---|---|"]
    for k in MORE:
        of = [(*case["more"][str(k)], case) for case in cases if str(k) in case["more"]]
        if of:
            weights = weights_of([case for *_, case in of])
            true, expected = (np.array([row[i] for row in of]) for i in (0, 1))
            numbers = [quantile(v, weights, 0.5) for v in (true, expected, abs(true - expected))]
            numbers.append(quantile(abs(true - expected), weights, 0.9))
            shown = " | ".join(f"{number:.3f}" for number in numbers)
            lines.append(f"| {k:,} | {len(of)} | {shown} |")
    return "\n".join(lines)


def draw(path: str, parts: Mapping[str, Sequence[Case]]) -> None:
    """Draw estimates beside the truth, with the interval, one panel per stop."""
    panels = []
    for stop in JUDGED:
        series: dict[str, Any] = {}
        for name, cases in parts.items():
            at_stop = sorted(
                (case for case in cases if case["stop"] == stop), key=lambda case: case["likely"]
            )
            points = [(case["likely"], case["truth"]) for case in at_stop]
            series[name] = Series(points, mark="points")
        panels.append(
            Panel(
                series,
                f"{stop:.0%} of the pages fetched",
                "estimated share of importance",
                "true share",
                references={"as estimated": [(0.0, 0.0), (1.0, 1.0)]},
                x_percent=True,
                y_percent=True,
                x_limits=(0.0, 1.0),
                y_limits=(0.0, 1.0),
            )
        )
    plot_panels(panels, path, title="Coverage: estimated and true")


def main() -> None:
    """Measure what is missing; print constants and tables."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("folder", type=Path, metavar="CASES")
    parser.add_argument("webs", nargs="*", type=Path, metavar="WEB")
    parser.add_argument("--synthetic", action="store_true", help="crawl synthetic webs, too")
    parser.add_argument("--judge", action="store_true", help="also judge the webs set aside")
    parser.add_argument("--markdown", type=Path)
    parser.add_argument("--plot")
    given = parser.parse_args()
    measure(given.folder, given.webs, synthetic=given.synthetic)
    cases = [
        c for file in sorted(given.folder.glob("*.json")) for c in json.loads(file.read_text())
    ]
    ours = [case for case in cases if not is_set_aside(case["web"])]
    left_out = leave_one_out(ours)
    text = f"ERRORS = {constants(ours)}\n\n{tables(left_out)}\n\n{expectations(ours)}\n"
    parts = {"webs left out one at a time": left_out}
    aside = [case for case in cases if is_set_aside(case["web"])]
    if given.judge and aside:
        parts["webs set aside"] = judged(aside, coverage_estimate.ERRORS)
        text += f"\nSet aside:\n\n{tables(parts['webs set aside'])}\n\n{expectations(aside)}\n"
    print(text)
    if given.markdown:
        given.markdown.write_text(text)
    if given.plot:
        draw(given.plot, parts)


if __name__ == "__main__":
    main()
