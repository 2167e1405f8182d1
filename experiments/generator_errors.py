"""How wrong synthetic webs are: measures of recorded webs and of their synthetic twins."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from itertools import combinations

import numpy as np
from measured import STRATEGIES, Crawled, Start
from najork_crawls import Watched, margins_by_day, watch_to_the_end
from report import Report
from webs import Web

from crawlprio.graph.synthetic import home_pages, twin

TWINS = 2
PLACES = (0.05, 0.1, 0.2, 0.3, 0.5, 0.8)
"""Shares of the pages at which curves are compared."""
QUANTILE = 0.9

MEASURES = {
    "average": "average cumulative PageRank of an ordering",
    "lead": "difference of two orderings in that average",
    "share": "share of the PageRank at 5, 10, 20, 30, 50 or 80 % of the pages",
    "lead at a share": "difference of two orderings in that share",
    "late lead": "largest lead of an ordering over omniscient after half of the pages",
    "tau lead": "difference of two orderings in Kendall's tau",
}
"""What each error refers to, by the name under which other sections look it up."""


def add(report: Report, webs: Sequence[Web]) -> None:
    """Write the errors: rows `measure, error` that `verdicts.GeneratorErrors` reads."""
    errors: dict[str, list[float]] = {name: [] for name in MEASURES}
    rows = []
    by_day: dict[str, list[float]] = {}
    for web in webs:
        copies = [_twin(web, seed) for seed in range(TWINS)]
        for protocol, seeds_of in _PROTOCOLS.items():
            if web.graph.n_sites == 1 and protocol == "home pages":
                continue
            crawls = _crawls(web, seeds_of(web))
            on_twins = [_crawls(copy, seeds_of(copy)) for copy in copies]
            for measure, values in _measures(crawls).items():
                means = np.mean([list(_measures(t)[measure].values()) for t in on_twins], axis=0)
                errors[measure] += np.abs(means - list(values.values())).tolist()
            rows += [
                (f"{web.name}, {protocol}", name, crawl.average,
                 float(np.mean([t[name].average for t in on_twins])))
                for name, crawl in crawls.items()
            ]  # fmt: skip
        if web.graph.n_sites > 1:
            found = _by_day(web)
            of_twins = [_by_day(copy) for copy in copies]
            for measure, value in found.items():
                mean = float(np.mean([t[measure] for t in of_twins]))
                by_day.setdefault(measure, []).append(abs(mean - value))
    report.text(
        "The model of the synthetic countries makes twins of a recorded web. It uses only the "
        "web's sites: each gets as many pages, links and links between sites as in the "
        "recording. Every measure is taken on the web and on its twins. The generator's error is "
        f"the difference that {QUANTILE:.0%} of these comparisons do not exceed. They cover "
        f"{', '.join(web.name for web in webs)}, starts at one page and at all home pages, and "
        f"{len(STRATEGIES)} orderings by order alone; values are means of {TWINS} twins. For "
        "breadth-first crawls day by day there is one value per web, and the error is the "
        "largest difference. **In the other sections, a result on a synthetic web counts for "
        "nothing if it is smaller than the error.**"
    )
    report.table(
        "errors",
        ("measure", "error", "what it is of"),
        [
            *(
                (name, float(np.quantile(values, QUANTILE)), MEASURES[name])
                for name, values in errors.items()
            ),
            *(
                (name, max(values), "a breadth-first crawl, day by day")
                for name, values in by_day.items()
            ),
        ],
        "The generator's errors.",
    )
    report.table(
        "twins",
        ("web", "ordering", "average on the recorded web", "on its twins"),
        rows,
        "Average cumulative PageRank on recorded webs and on their twins, by order alone.",
    )


def _twin(web: Web, seed: int) -> Web:
    """Return a synthetic web as similar to this one as the generator can make it, and its start."""
    graph = twin(web.graph, seed)
    largest = np.bincount(graph.site).argmax()
    return Web(f"twin of {web.name}", graph, int(home_pages(graph)[largest]), True)


_PROTOCOLS: Mapping[str, Callable[[Web], list[int]]] = {
    "one page": lambda web: [web.start],
    "home pages": lambda web: web.homes,
}


def _crawls(web: Web, seeds: list[int]) -> dict[str, Crawled]:
    """Return crawls by order alone under all strategies that apply to the web."""
    names = [n for n in STRATEGIES if n != "larger-sites-first" or web.graph.n_sites > 1]
    return Start(web, seeds).crawls(names)


def _measures(crawls: Mapping[str, Crawled]) -> dict[str, dict[str, float]]:
    """Return the values of each of `MEASURES`, by what each value refers to."""
    late = np.linspace(0.5, 0.995, 100)
    best = crawls["omniscient"]
    shares = {f"{n} {x}": c.gathered_at(x) for n, c in crawls.items() for x in PLACES}
    pairs = list(combinations(crawls, 2))
    return {
        "average": {n: c.average for n, c in crawls.items()},
        "lead": {f"{a} {b}": crawls[a].average - crawls[b].average for a, b in pairs},
        "share": shares,
        "lead at a share": {
            f"{a} {b} {x}": shares[f"{a} {x}"] - shares[f"{b} {x}"]
            for a, b in pairs
            for x in PLACES
        },
        "late lead": {
            n: max(c.gathered_at(x) - best.gathered_at(x) for x in late)
            for n, c in crawls.items()
            if n != "omniscient"
        },
        "tau lead": {f"{a} {b}": crawls[a].tau - crawls[b].tau for a, b in pairs},
    }


def _by_day(web: Web) -> dict[str, float]:
    """Return the measures behind the claims of Najork & Wiener, for a crawl from the start."""
    crawl: Watched = watch_to_the_end(web, [web.start])
    return margins_by_day(web, crawl)
