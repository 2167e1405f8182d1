"""Whether link farms and traps can buy rank: real webs with synthetic pages added; run by hand.

    python benchmarks/farms.py WEB... [--ordering NAME[:OPTION=VALUE,...]]... [--json FILE]

Pages are added to each WEB (see `quality.py`) until they are 30 % of all pages; the kinds of farms
and traps are in `tests/kit/attacks.py`. One random page of the web links to them, or ten, or one in
a hundred, as comments in forums do: every other link leads to the farm's front page, the rest to
any of its pages. The crawl starts at all home pages, and at one random page.

PageRank is computed on the web without the added pages; these have none. For each ordering and
attack, over all webs and starts, the output shows:

* how much the average cumulative PageRank exceeds that of breadth-first in the same attacked web,
  as the mean and as the smallest value, and in how many cases it is lower by more than .005;
* how many fetches (added pages included) it takes to gather half of the PageRank, relative to
  breadth-first, as the median and the worst case, and in how many cases it takes more.
"""

from __future__ import annotations

import argparse
import json
import statistics
import sys
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from quality import parse_ordering, single_starts

from crawlprio.graph.linkgraph import LinkGraph
from crawlprio.measure.crawl_order import cumulative_pagerank, reachable
from crawlprio.orderings import make_ordering
from crawlprio.ranking.pagerank import pagerank
from crawlprio.simulator.graph_pages import Source
from crawlprio.simulator.timed import crawl_order

sys.path.extend(str(Path(__file__).resolve().parents[1] / "tests" / name) for name in ("", "kit"))

from attacks import KINDS, attacked

USUAL = "breadth-first"
DEFAULT = ("opic", "rankmass", "scout", "sibling-sampling", "sibling-sampling:decay=0.7")
NONE = "no attack"
LESS = 0.005


@dataclass(frozen=True)
class Result:
    """One crawl of an attacked web; `to_half`: fetches until half of the PageRank is gathered."""

    web: str
    start: str
    kind: str
    entries: str
    ordering: str
    average: float
    to_half: int


def attacks_on(graph: LinkGraph, seeds: list[int]) -> Iterator[tuple[str, str, LinkGraph]]:
    """Yield the web without an attack and under each attack: kind, linking pages, web."""
    yield NONE, "", graph
    entries = {"1": 1, "10": 10, "1 in 100": max(graph.n_pages // 100, 1)}
    for kind in KINDS:
        for name, n in entries.items():
            yield kind, name, attacked(graph, seeds, kind, n)


def crawl_web(path: Path, orderings: list[str]) -> Iterator[Result]:
    """Crawl one web under each attack, from each start, under each ordering."""
    source = Source.open(str(path))
    graph = source.graph
    beside = path.with_name(f"{path.name.removesuffix('.npz')}.homes.txt")
    homes = [int(line) for line in beside.read_text().split()] if beside.exists() else []
    homes = homes or source.default_seeds()
    ranks = pagerank(graph.indptr, graph.indices)
    starts = {"home": homes, "one page": single_starts(graph, homes[:1], 2)[-1]}
    for start, seeds in starts.items():
        for kind, entries, web in attacks_on(graph, seeds):
            worth = np.append(ranks, np.zeros(web.n_pages - graph.n_pages))
            can_reach = reachable(web, seeds)
            for text in orderings:
                name, options = parse_ordering(text)
                order = crawl_order(web, seeds, make_ordering(name, options))
                average = float(cumulative_pagerank(order, worth, can_reach).mean())
                to_half = fetches_to_half(worth[order])
                yield Result(path.stem, start, kind, entries, text, average, to_half)


def fetches_to_half(gathered: NDArray[np.float64]) -> int:
    """Return the number of fetches after which half of the sum is gathered."""
    total = np.cumsum(gathered)
    return int(np.searchsorted(total, total[-1] / 2)) + 1


def print_table(results: list[Result], orderings: list[str]) -> None:
    """Print a Markdown table for each ordering."""
    by_case = {(r.web, r.start, r.kind, r.entries, r.ordering): r for r in results}
    attacks = list(dict.fromkeys((r.kind, r.entries) for r in results))
    for text in orderings[1:]:
        print(
            f"\n{text}\n\n| attack | links to it | mean | least | below | to half | worst | later |"
        )
        print("|---|---|---|---|---|---|---|---|")
        for kind, entries in attacks:
            pairs = [
                (r, by_case[r.web, r.start, kind, entries, USUAL])
                for r in results
                if (r.kind, r.entries, r.ordering) == (kind, entries, text)
            ]
            above = [own.average - usual.average for own, usual in pairs]
            ratios = [own.to_half / usual.to_half for own, usual in pairs]
            least, where = min(zip(above, (f"{r.web}, {r.start}" for r, _ in pairs), strict=True))
            print(
                f"| {kind} | {entries} | {statistics.fmean(above):+.3f} | {least:+.3f} ({where}) "
                f"| {sum(x < -LESS for x in above)} of {len(above)} "
                f"| {statistics.median(ratios):.0%} | {max(ratios):.0%} "
                f"| {sum(x > 1 for x in ratios)} of {len(ratios)} |"
            )


def main() -> None:
    """Crawl and print."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("web", type=Path, nargs="+")
    parser.add_argument("--ordering", action="append", help="name, and options; repeatable")
    parser.add_argument("--json", type=Path, help="write every figure")
    given = parser.parse_args()
    orderings = [USUAL, *(given.ordering or DEFAULT)]
    results: list[Result] = []
    for path in given.web:
        results += crawl_web(path, orderings)
        print(f"{path.stem} is done", file=sys.stderr)
    print_table(results, orderings)
    if given.json:
        given.json.write_text(json.dumps([asdict(result) for result in results]))


if __name__ == "__main__":
    main()
