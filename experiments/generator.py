"""Synthetic webs compared with real ones: whether results on synthetic webs can be believed.

Compares distributions, and crawls of real webs and of their twins. The generator's errors follow
from these; in the other sections, synthetic webs decide nothing below them.
"""

from __future__ import annotations

from pathlib import Path

import generator_errors
import numpy as np
from drawing import distribution_panel
from measures import mean_and_spread
from report import Report
from webs import Web, cnr, country, hollins, uci

from crawlprio.graph.linkgraph import LinkGraph
from crawlprio.graph.synthetic import home_pages, twin
from crawlprio.orderings import make_ordering
from crawlprio.plugins.papers.distributions import fit_power_law, log_histogram
from crawlprio.show.figures import Panel, Series
from crawlprio.show.simulation_results import Simulation

ORDERINGS = (
    "omniscient", "opic", "backlink-count", "larger-sites-first", "breadth-first", "random",
)  # fmt: skip
TWINS = 3


def run(shared: Path, output: Path, country_pages: int) -> None:
    """Write the section."""
    report = Report(output, "generator", "The generator: synthetic webs compared with real ones")
    real = uci(shared)
    generator_errors.add(report, [real, hollins(shared), cnr(shared)])
    _calibration(report, real)
    report.write()
    _distributions(report, real, country(shared, country_pages))
    report.write()


def _distributions(report: Report, real: Web, made: Web) -> None:
    """Write degrees, site sizes and PageRank of both webs, with the exponents of their tails."""
    panels, rows = [], []
    named = {web.name: _counts(web.graph, web.ranks) for web in (real, made)}
    for quantity in next(iter(named.values())):
        histograms = {name: log_histogram(counts[quantity]) for name, counts in named.items()}
        fits = {name: fit_power_law(counts[quantity]) for name, counts in named.items()}
        panels.append(
            distribution_panel(
                histograms, title=quantity, xlabel=quantity, ylabel="how many have it", fits=fits
            )
        )
        rows += [
            (quantity, name, float(counts[quantity].mean()), int(counts[quantity].max()),
             fits[name].exponent, fits[name].minimum)
            for name, counts in named.items()
        ]  # fmt: skip
    report.figure(
        "distributions", panels,
        "Baeza-Yates et al. and Castillo et al. report that these quantities follow power laws "
        "in their webs. Exponents are maximum-likelihood estimates for the tail that fits best.",
        title="A generated country beside a real web",
    )  # fmt: skip
    report.table(
        "distributions",
        ("quantity", "web", "mean", "largest", "exponent of the tail", "from"),
        rows, "Tails of the distributions.",
    )  # fmt: skip
    report.table(
        "shares",
        ("web", "pages", "links", "sites", "links between sites", "pages without links"),
        [
            (web.name, web.graph.n_pages, web.graph.n_links, web.graph.n_sites,
             web.graph.between_sites().n_links / web.graph.n_links,
             float((np.diff(web.graph.indptr) == 0).mean()))
            for web in (real, made)
        ],
        "The two webs.",
    )  # fmt: skip


def _counts(graph: LinkGraph, ranks: np.ndarray) -> dict[str, np.ndarray]:
    """Return the distributed quantities as whole numbers; PageRank in thousandths of the mean."""
    return {
        "links to a page": np.bincount(graph.indices, minlength=graph.n_pages),
        "links of a page": np.diff(graph.indptr),
        "pages of a site": np.bincount(graph.site),
        "PageRank, mean = 1,000": np.rint(1000 * graph.n_pages * ranks).astype(np.int64),
    }


def _calibration(report: Report, real: Web) -> None:
    """Draw cumulative PageRank under each ordering on a real web and on twins of it."""
    on_real = _curves(real.graph, real.homes)
    on_twins = [
        _curves(graph, [int(page) for page in home_pages(graph)])
        for graph in (twin(real.graph, seed) for seed in range(TWINS))
    ]
    panels = [
        Panel(
            curves, title, "pages fetched", "PageRank of all pages",
            x_percent=True, y_percent=True, y_limits=(0.0, 1.0),
        )
        for title, curves in (
            (real.name, {name: Series(points) for name, points in on_real.items()}),
            (
                f"mean of {TWINS} twins of it",
                {
                    name: mean_and_spread([curves[name] for curves in on_twins], spread="range")
                    for name in ORDERINGS
                },
            ),
        )
    ]  # fmt: skip
    report.figure(
        "twin", panels,
        f"Crawls of {real.name} and of synthetic twins by order alone, from all home pages. Each "
        f"site of a twin has as many pages, links and links between sites as in {real.name}. "
        "Bands show the range over the twins.",
        title="Orderings on a real web, and on generated webs like it",
    )  # fmt: skip


def _curves(graph: LinkGraph, seeds: list[int]) -> dict[str, list[list[float]]]:
    """Return the cumulative PageRank of a crawl under each ordering."""
    simulation = Simulation(graph, seeds)
    return {name: simulation.run(name, make_ordering(name, {})).curve for name in ORDERINGS}
