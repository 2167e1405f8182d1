"""How much random walks prove of known webs, and whether it is true; run by hand.

    python experiments/certificates.py CASES WEB... [--synthetic] [--plot FILE]

The webs, starts, orderings and stops are those of `calibration.py`. At each stop `N_WALKS` walks
are drawn that leave the fetched pages, as `crawlprio certify` draws them, and what they prove is
compared with the truth. The folder CASES gets one JSON file per web; webs that have one are left as
they are. Printed are tables by stop and by web, in which each web counts once. The plot has one
point for each crawl.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from calibration import (
    JUDGED,
    ORDERINGS,
    is_set_aside,
    quantile,
    stopped_crawls,
    synthetic_webs,
    weights_of,
)

from crawlprio.graph.linkgraph import LinkGraph
from crawlprio.ranking.coverage_estimate import likely_coverage
from crawlprio.ranking.walks import Walks
from crawlprio.show.figures import Panel, Series, plot_panels
from crawlprio.store.graph_files import read_graph

N_WALKS = 200

Case = dict[str, Any]


def crawls_of(name: str, graph: LinkGraph, homes: Sequence[int]) -> Iterator[Case]:
    """Yield what walks prove at each stop of each crawl of a web, beside the truth."""
    for case, _, fetches, truth in stopped_crawls(graph, homes, JUDGED):
        seed = f"{name} {case['start']} {case['ordering']} {case['stop']}"
        try:
            walks = Walks(fetches, fetches.is_fetched, N_WALKS, seed)
        except ValueError:
            continue
        n_fetched = 0
        while walks.wanted:
            for page in walks.wanted:
                row = graph.indices[graph.indptr[page] : graph.indptr[page + 1]]
                walks.answer(page, row.tolist())
                n_fetched += 1
        found = walks.certificate()
        yield {
            "web": name,
            **case,
            "truth": float(truth[fetches.order].sum()),
            "bound": found.certain,
            "at_least": found.at_least,
            "at_most": found.at_most,
            "likely": found.likely,
            "model": likely_coverage(fetches).likely,
            "pages": n_fetched,
        }


def row_of(label: str, cases: Sequence[Case]) -> str:
    """Return a row of a table: how often it holds, and how far figures are from the truth."""
    weights = weights_of(cases)
    holds = [
        np.average([is_true(case) for case in cases], weights=weights)
        for is_true in (
            lambda case: case["at_least"] <= case["truth"] + 1e-9,
            lambda case: case["truth"] <= case["at_most"] + 1e-6,
        )
    ]
    gaps = [
        quantile(np.array([abs(case["truth"] - case[of]) for case in cases]), weights, 0.5)
        for of in ("bound", "at_least", "likely", "model")
    ]
    farthest = max(case["truth"] - case["at_least"] for case in cases)
    pages = quantile(np.array([float(case["pages"]) for case in cases]), weights, 0.5)
    most = max(case["pages"] for case in cases)
    shown = " | ".join([*(f"{hold:.0%}" for hold in holds), *(f"{gap:.3f}" for gap in gaps)])
    return f"| {label} | {shown} | {farthest:.2f} | {pages:.0f} | {most:,} |"


def tables(cases: Sequence[Case]) -> str:
    """Return the tables for the documentation: by stop and by web."""
    heading = (
        "| {} | at least holds | at most holds | bound is below by | at least is below by "
        "| walks err by | estimate errs by | farthest below | pages fetched | most |\n"
        "|---|---|---|---|---|---|---|---|---|---|"
    )
    lines = [heading.format("pages fetched before")]
    lines += [row_of(f"{stop:.0%}", [c for c in cases if c["stop"] == stop]) for stop in JUDGED]
    lines += [row_of("all four", cases), "", heading.format("ordering")]
    lines += [row_of(name, [c for c in cases if c["ordering"] == name]) for name in ORDERINGS]
    lines += ["", heading.format("web")]
    webs = sorted({case["web"] for case in cases}, key=lambda web: (is_set_aside(web), web))
    return "\n".join(lines + [row_of(w, [c for c in cases if c["web"] == w]) for w in webs])


def draw(path: str, cases: Sequence[Case]) -> None:
    """Draw the bound and what walks prove beside the truth, one panel per stop."""
    labels = {"bound": "certain", "at_least": "proved: at least", "at_most": "proved: at most"}
    panels = [
        Panel(
            {
                label: Series(
                    [(case[of], case["truth"]) for case in cases if case["stop"] == stop],
                    mark="points",
                )
                for of, label in labels.items()
            },
            f"{stop:.0%} of the pages fetched",
            "share of importance as said",
            "true share",
            references={"as said": [(0.0, 0.0), (1.0, 1.0)]},
            x_percent=True,
            y_percent=True,
            x_limits=(0.0, 1.0),
            y_limits=(0.0, 1.0),
        )
        for stop in JUDGED
    ]
    plot_panels(panels, path, title=f"What {N_WALKS} random walks prove")


def main() -> None:
    """Measure what is missing; print the tables."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("folder", type=Path, metavar="CASES")
    parser.add_argument("webs", nargs="*", type=Path, metavar="WEB")
    parser.add_argument("--synthetic", action="store_true", help="crawl synthetic webs, too")
    parser.add_argument("--plot")
    given = parser.parse_args()
    given.folder.mkdir(exist_ok=True)
    for path in given.webs:
        name = path.name.removesuffix(".npz")
        homes = path.with_name(f"{name}.homes.txt")
        pages = [int(page) for page in homes.read_text().split()] if homes.exists() else []
        if not (given.folder / f"{name}.json").exists():
            _write(given.folder, name, read_graph(path), pages)
    for name, graph in synthetic_webs() if given.synthetic else ():
        _write(given.folder, name, graph, [])
    files = sorted(given.folder.glob("*.json"))
    cases = [case for file in files for case in json.loads(file.read_text())]
    print(tables(cases))
    if given.plot:
        draw(given.plot, cases)


def _write(folder: Path, name: str, graph: LinkGraph, homes: Sequence[int]) -> None:
    cases = list(crawls_of(name, graph, homes))
    (folder / f"{name}.json").write_text(json.dumps(cases))
    print(f"{name}: {len(cases)} crawls", flush=True)


if __name__ == "__main__":
    main()
