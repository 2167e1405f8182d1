"""Batches of Castillo et al. 2004: figures 3 and 7 to 9, and the bandwidth that batches waste."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

import numpy as np
from batched import alone
from castillo_webs import LENGTH
from drawing import distribution_panel
from numpy.typing import NDArray
from report import Report
from verdicts import above, below
from webs import uci

from crawlprio.graph.linkgraph import LinkGraph
from crawlprio.measure.crawl_order import active_robots
from crawlprio.orderings import make_ordering
from crawlprio.plugins.papers.distributions import (
    fit_power_law,
    log_histogram,
)
from crawlprio.show.figures import Panel, Series
from crawlprio.simulator.network import Network
from crawlprio.simulator.timed import TimedCrawl, timed_crawl

Batch = NDArray[np.int32]

LEAST_SITES = 20

BATCH_BANDWIDTHS = {
    "2 kB/s": 2e3,
    "20 kB/s": 2e4,
    "200 kB/s": 2e5,
    "2 MB/s": 2e6,
    "20 MB/s": 2e7,
}
BATCH_ROBOTS = 256


def add(
    report: Report,
    shared: Path,
    graph: LinkGraph,
    batches: Mapping[str, Batch],
    of_recorded: Mapping[str, Batch],
    network: Network,
) -> None:
    """Write the figures about batches of the country and of a recorded web."""
    _figures_3_and_7(report, shared, graph, batches, of_recorded)
    _figures_8_and_9(report, graph, batches, network)


def _figures_3_and_7(
    report: Report,
    shared: Path,
    graph: LinkGraph,
    batches: Mapping[str, Batch],
    of_recorded: Mapping[str, Batch],
) -> None:
    """Write the sizes of sites in the whole web and in batches."""
    real = uci(shared).graph
    sizes = {
        "country": np.bincount(graph.site),
        "uci-ics": np.bincount(real.site),
        **{f"batch of {name}": np.bincount(graph.site[batch]) for name, batch in batches.items()},
        **{f"batch of {n}": np.bincount(real.site[batch]) for n, batch in of_recorded.items()},
    }
    ranked = {name: np.sort(n[n > 0])[::-1] for name, n in sizes.items()}
    drawn = {name: n for name, n in ranked.items() if len(n) >= LEAST_SITES}
    law = fit_power_law(sizes["country"][sizes["country"] > 0])
    shares = {
        name: Series(
            np.column_stack((np.arange(1, len(n) + 1) / len(n), np.cumsum(n) / n.sum()))[
                np.unique(np.geomspace(1, len(n), 400).astype(int) - 1)
            ]
        )
        for name, n in drawn.items()
    }
    rank_curves = {
        name: np.column_stack((np.arange(1, len(n) + 1), n))[
            np.unique(np.geomspace(1, len(n), 400).astype(int) - 1)
        ]
        for name, n in drawn.items()
    }
    report.figure(
        "figures-3-7",
        [
            distribution_panel(
                {"country": log_histogram(sizes["country"])},
                title="Sites by size (3)",
                xlabel="pages of a site",
                ylabel="sites of that size",
                fits={"country": law},
            ),
            Panel(rank_curves, "Pages by rank of the site (3, 7)", "rank of the site",
                  "pages", x_scale="log", y_scale="log"),
            Panel(shares, "Pages on the largest sites (3, 7)", "share of sites, largest first",
                  "share of pages", x_percent=True, y_percent=True,
                  references={"random: alike": [(0.0, 0.0), (1.0, 1.0)]}),
        ],
        "Figures 3 and 7: distribution of pages over sites, for the whole Web and for a typical "
        "batch. In the paper, few sites hold most pages of either. The country's sizes were "
        "generated that way; uci-ics (88 sites) is a real crawl. Batches are N / 35 consecutive "
        "fetches from the middle of a crawl: of Length with 256 robots (uci-ics: with one), of "
        "Batch with one.",
        title="How pages are spread over sites (Castillo et al. 2004, figures 3 and 7)",
        columns=2,
    )  # fmt: skip
    held = {name: _sites_for_half(n) for name, n in ranked.items()}
    report.table(
        "figure-7",
        ["pages of", "pages", "sites", "share on the largest site", "sites that hold half"],
        [
            [name, int(n.sum()), len(n), float(n[0] / n.sum()), f"{held[name]:.2%}"]
            for name, n in ranked.items()
        ],
        "Pages and sites.",
    )
    of_web = {"country": graph.n_sites, "uci-ics": real.n_sites}
    few = {
        name: held[name] * len(n) / of_web["uci-ics" if "uci" in name else "country"]
        for name, n in ranked.items()
        if "batch" in name
    }
    report.finding(
        "Most pages of a typical batch are on a small number of sites (section VI)",
        "half of the pages are on "
        + ", ".join(f"{x:.1%} of the web's sites ({name})" for name, x in few.items()),
        below(_by_web(few), 0.1),
        "half of the pages of a batch are on less than a tenth of the web's sites",
        picture="figures-3-7",
        name="batch-on-few-sites",
    )
    skewed = {n: x for n, x in held.items() if "batch" in n and len(ranked[n]) >= LEAST_SITES}
    report.finding(
        "The pages of a batch are as unevenly spread over its sites as those of the Web (figure 7)",
        "half of the pages are on "
        + ", ".join(f"{x:.1%} of the batch's sites ({name})" for name, x in skewed.items()),
        below(_by_web(skewed), 0.1),
        f"half are on less than a tenth of the batch's sites; batches with {LEAST_SITES} sites or "
        "more",
        why="Length rotates over the largest sites and takes the same number of pages from each",
        picture="figures-3-7",
    )


def _by_web(cases: Mapping[str, float]) -> dict[str, float]:
    """Return the cases by names that begin with the web."""
    return {f"{'uci-ics' if 'uci' in name else 'country'}, {name}": x for name, x in cases.items()}


def _sites_for_half(sizes: NDArray[np.int64]) -> float:
    """Return the share of sites, largest first, that holds half of the pages."""
    return float(np.searchsorted(np.cumsum(sizes), sizes.sum() / 2) + 1) / len(sizes)


def _figures_8_and_9(
    report: Report, graph: LinkGraph, batches: Mapping[str, Batch], network: Network
) -> None:
    """Write robots at work while each batch is fetched, with k = 1 and with k = 100."""
    crawls: dict[tuple[str, int, str], TimedCrawl] = {}
    n_bytes: dict[str, float] = {}
    for kind, batch in batches.items():
        pages, fetches = alone(graph, batch, replace(network, robots=BATCH_ROBOTS))
        n_bytes[kind] = float(fetches.sizes().sum())
        for k in (1, 100):
            for name, bandwidth in BATCH_BANDWIDTHS.items():
                crawls[kind, k, name] = _crawl_of_batch(
                    pages, replace(fetches, pages_per_visit=k, bandwidth=bandwidth)
                )
    n_sites = {kind: len(np.unique(graph.site[batch])) for kind, batch in batches.items()}
    report.figure(
        "figures-8-9",
        [
            Panel(
                {name: _active(crawls[kind, k, name]) for name in BATCH_BANDWIDTHS},
                f"{kind}'s batch, k = {k} (fig. {figure})",
                "share of the batch's retrieval time",
                "robots at work",
                x_percent=True,
                y_limits=(0.0, 1.05 * BATCH_ROBOTS),
            )
            for kind in batches
            for k, figure in ((1, 8), (100, 9))
        ],
        f"Figures 8 and 9: robots at work while {BATCH_ROBOTS} robots fetch a batch with w = 15 "
        "s, at one page per connection and at up to 100. Top: the nearly flat batch of Length, "
        f"on {n_sites['Length']:,} sites. Bottom: the skewed batch of Batch, on "
        f"{n_sites['Batch']:,}. The paper's curves are for 'small (2K) and large (20K) "
        "bandwidth', without a unit or r. In them, most robots are idle most of the time; with k "
        "= 100, more are at work. A robot waiting for its share of a saturated link counts as at "
        "work here.",
        title="Robots at work while they fetch a batch (Castillo et al. 2004, figures 8 and 9)",
    )
    report.table(
        "figures-8-9",
        ["batch", "bandwidth", "hours, k = 1", "hours, k = 100", "T*, hours",
         "bandwidth wasted, k = 1", "k = 100", "robots at work on average, k = 1", "k = 100",
         "time with most robots idle, k = 1", "k = 100"],
        [
            [kind, name, *(crawls[kind, k, name].seconds / 3600 for k in (1, 100)),
             n_bytes[kind] / bandwidth / 3600,
             *(f"{1 - n_bytes[kind] / bandwidth / crawls[kind, k, name].seconds:.1%}"
               for k in (1, 100)),
             *(_mean_active(crawls[kind, k, name]) for k in (1, 100)),
             *(f"{_idle_time(crawls[kind, k, name]):.0%}" for k in (1, 100))]
            for kind in batches
            for name, bandwidth in BATCH_BANDWIDTHS.items()
        ],
        "The same in numbers. T* is equation 2: the time for all bytes at full bandwidth. Unused "
        "bandwidth is wasted (section III). Most robots idle: fewer than half of them at work.",
    )  # fmt: skip
    kinds = [(kind, name) for kind in batches for name in BATCH_BANDWIDTHS]
    idle = {f"{kind}, {name}": _idle_time(crawls[kind, 1, name]) for kind, name in kinds}
    report.finding(
        "In a batch most robots are idle most of the time, at small and large bandwidth (figure 8)",
        "share of the time with fewer than half of the robots at work: "
        + ", ".join(f"{x:.0%} ({name})" for name, x in idle.items()),
        above(_by_web(idle), 0.5),
        "more than half of the time",
        why="on a saturated link, all robots wait for it",
        picture="figures-8-9",
    )
    wasted = {
        f"{kind}, {name}": 1
        - n_bytes[kind] / BATCH_BANDWIDTHS[name] / crawls[kind, 1, name].seconds
        for kind, name in kinds
    }
    faster = {
        f"{kind}, {name}": crawls[kind, 1, name].seconds / crawls[kind, 100, name].seconds
        for kind, name in kinds
    }
    report.finding(
        "Up to 100 pages per connection (k = 100) amortise w and use the robots better (figure 9); "
        "judged where more than half of the bandwidth is wasted with k = 1",
        "times faster than k = 1: " + ", ".join(f"{x:.1f} ({n})" for n, x in faster.items()),
        above(_by_web({n: x for n, x in faster.items() if wasted[n] > 0.5}), 1.5),
        "the batch takes less than two thirds of the time",
        picture="figures-8-9",
        name="keep-alive",
    )
    report.finding(
        "The optimal time T* is not achieved: bandwidth is wasted on waiting and slow sites "
        "(section III, figure 2)",
        "wasted: " + ", ".join(f"{x:.0%} ({name})" for name, x in wasted.items()),
        above(_by_web(wasted), 0.05),
        "more than 5 % of the bandwidth is wasted, k = 1",
        picture="figures-8-9",
    )
    report.write()


def _crawl_of_batch(batch: LinkGraph, network: Network) -> TimedCrawl:
    """Fetch a batch, larger sites first; all of its pages wait from the start."""
    pages = list(range(batch.n_pages))
    return timed_crawl(batch, pages, make_ordering(LENGTH), network)


def _active(crawl: TimedCrawl) -> Series:
    """Return robots at work by share of the time."""
    seconds, active = active_robots(crawl.started, crawl.ended, 100)
    return Series(np.column_stack((seconds / crawl.seconds, active)))


def _mean_active(crawl: TimedCrawl) -> float:
    """Return the mean number of robots at work over time."""
    return float((crawl.ended - crawl.started).sum()) / crawl.seconds


def _idle_time(crawl: TimedCrawl) -> float:
    """Return the share of the time with fewer than half of the robots at work."""
    seconds, active = active_robots(crawl.started, crawl.ended)
    lasting = np.diff(seconds)
    return float(lasting[active[:-1] < BATCH_ROBOTS / 2].sum() / seconds[-1])
