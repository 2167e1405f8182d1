"""Baeza-Yates, Castillo, Marin & Rodriguez, Crawling a country, WWW 2005.

Figures 3, 4 and 6 and table 2. History is a section of its own, `baeza_history`; claims about
strategies without it are judged in `every_web`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np
from baeza_webs import BEYOND, PRINTED, Group
from batched import crawl_in_batches
from measured import (
    DELAY,
    STRATEGIES,
    WHOLE_COUNTRY,
    Start,
    curves_panel,
    mean_curves,
    mean_with_spread,
    polite_network,
    small_country,
    with_bandwidth,
)
from numpy.typing import NDArray
from paper_crawls import SAME, displaced
from report import Report
from verdicts import RULE, Case
from webs import Web, uci

from crawlprio.graph.pages import PageIds
from crawlprio.measure.crawl_order import cumulative_by_time
from crawlprio.orderings import make_ordering
from crawlprio.show.figures import Panel, Series
from crawlprio.simulator.network import Network
from crawlprio.simulator.timed import timed_crawl

COUNTRIES = 4
COUNTRY_SHARE, CRAWLED_SHARE = 35, 5
"""Divisors of the large country's size: for the small countries, and for the one of figure 6."""

DAY = 86_400.0
CRAWL_DAYS, CRAWL_ROBOTS, SITES_A_ROBOT = 4, 1000, 10
PAGES_A_BATCH = 200_000
"""Batch size, for a crawl of 3.5 million pages."""


def run(shared: Path, output: Path, country_pages: int) -> None:
    """Write the section."""
    report = Report(output, "baeza_yates", "Baeza-Yates et al. 2005: Crawling a country")
    n_pages = country_pages // COUNTRY_SHARE
    countries = [small_country(shared, n_pages, seed) for seed in range(COUNTRIES)]
    groups = [
        Group.of("home pages", [Start(web, web.homes) for web in countries]),
        Group.of("one page", [Start(web, [web.start]) for web in countries]),
    ]
    report.text(
        f"Crawls of {COUNTRIES} synthetic countries of {n_pages:,} pages in the proportions of "
        "Chile's web (70 pages per site). The claims about strategies are judged on [every real "
        "web](every_web.md), those about history on [pairs of states](baeza_history.md). One "
        f"robot, with one connection per site at a time: {DELAY:g} s pass between the end of a "
        "fetch and the next start on its site. Fetch times follow from drawn sizes, speeds and "
        "latencies (about 1 s on average), and the clock jumps ahead when no site is ready. Batch "
        "and partial PageRank compute PageRank every N / 35 pages (K = 100,000 in the paper), and "
        "a batch ends when all its pages were retrieved; all other keys are updated after every "
        "page. 'random' picks each next page uniformly from those waiting. The seeds are all home "
        f"pages, or the home page of the largest site. {RULE}"
    )
    _figure_3(report, groups[0].starts)
    _figure_4(report, groups)
    _table_2(report, groups)
    report.write()
    _figure_6(report, [small_country(shared, country_pages // CRAWLED_SHARE), uci(shared)])
    report.write()


def _figure_3(report: Report, starts: list[Start]) -> None:
    """Write the distribution of PageRank, which bounds all curves."""
    bounds = {start.web.name: start.best for start in starts}
    report.figure(
        "figure-3",
        [
            Panel(
                bounds,
                "What the pages of highest PageRank hold (Baeza-Yates et al. 2005, figure 3)",
                "share of pages",
                "PageRank of all pages",
                x_percent=True,
                y_percent=True,
                references={"random, expected": [(0.0, 0.0), (1.0, 1.0)]},
            )
        ],
        "Figure 3: cumulative PageRank of the pages by descending PageRank, which no crawl "
        "exceeds. In the paper, the curves for Chile and Greece are almost the same.",
    )


def _figure_4(report: Report, groups: Sequence[Group]) -> None:
    """Write cumulative PageRank of all strategies."""
    report.figure(
        "figure-4",
        [curves_panel(g.name, mean_curves(g.crawls, STRATEGIES), g.starts) for g in groups],
        "Figure 4: cumulative PageRank against pages. In the paper's four panels, larger sites "
        "first, OPIC and batch PageRank are best. Breadth-first is good up to 20 to 30 % and "
        "worse after that. Backlink count and partial PageRank are at the diagonal or below. "
        "Curves are means over crawls; bands show the range from least to greatest.",
        title="PageRank gathered in a country, by ordering (Baeza-Yates et al. 2005, figure 4)",
        columns=3,
    )


def _table_2(report: Report, groups: Sequence[Group]) -> None:
    """Write average cumulative PageRank and Kendall's tau of all strategies."""
    names = [f"{group.name} ({len(group.crawls)})" for group in groups]
    report.table(
        "table-2-average",
        ["strategy", "paper", *names],
        [
            [strategy, PRINTED[strategy][0],
             *(mean_with_spread(g.averages(strategy)) for g in groups)]
            for strategy in (*STRATEGIES, *BEYOND)
        ],
        "Table 2, average cumulative PageRank: mean ± sample standard deviation over the crawls, "
        "with their number in parentheses. sibling-sampling is this project's own ordering. Its "
        "options were chosen on these webs and others, so these figures flatter it.",
    )  # fmt: skip
    report.table(
        "at-20",
        ["strategy", "paper", *names],
        [[s, None, *(f"{g.at(s, 0.2):.4f}" for g in groups)] for s in (*STRATEGIES, *BEYOND)],
        "Share of the PageRank at 20 % of the pages, mean over the crawls.",
    )
    report.table(
        "table-2-tau",
        ["strategy", "paper", *names],
        [
            [strategy, PRINTED[strategy][1], *(mean_with_spread(g.taus(strategy)) for g in groups)]
            for strategy in (*STRATEGIES, *BEYOND)
        ],
        "Table 2, Kendall's tau of the order against PageRank: tau-b, on 5,000 pages. How the "
        "paper treats ties is not known.",
    )  # fmt: skip


def _figure_6(report: Report, webs: Sequence[Web]) -> None:
    """Write timed crawls with many robots."""
    panels: list[Panel] = []
    rows: list[list[str | float]] = []
    faster: dict[str, float] = {}
    for web in webs:
        start = Start(web, web.homes)
        robots = min(CRAWL_ROBOTS, web.graph.n_sites // SITES_A_ROBOT)
        fast = polite_network(web, robots=robots, real_crawl=True)
        whole = float(fast.sizes()[start.reachable].sum())
        short = f"{'country' if web.is_synthetic else web.name}, r = {robots:,}"
        links = {
            f"{short}, link for {CRAWL_DAYS} days": with_bandwidth(
                fast, whole / (CRAWL_DAYS * DAY)
            ),
            f"{short}, unlimited link": fast,
        }
        batch = max(start.n_pages * PAGES_A_BATCH // WHOLE_COUNTRY, 1)
        kinds = {name: (network, None) for name, network in links.items()} | {
            f"{name}, in batches": (network, batch) for name, network in links.items()
        }
        for name, (network, size) in kinds.items():
            lines: dict[str, Series] = {}
            days: dict[tuple[str, str], list[float]] = {}
            orders: list[PageIds] = []
            for strategy in ("breadth-first", "larger-sites-first"):
                order, ended = _crawl(start, strategy, network, size)
                orders.append(order)
                seconds, rank, documents = cumulative_by_time(
                    order, ended, web.ranks, start.reachable
                )
                at = np.linspace(0, len(seconds) - 1, 400).astype(int)
                for what, shares in (("PageRank", rank), ("documents", documents)):
                    line = np.column_stack((seconds[at] / DAY, shares[at]))
                    is_first = strategy == "breadth-first"
                    lines[f"{strategy}, {what}"] = (
                        Series(line) if is_first else Series(line[::20], mark="points")
                    )
                    days[strategy, what] = [
                        float(seconds[np.searchsorted(shares, x)]) / DAY for x in (0.5, 0.8, 0.95)
                    ]
                rows.append(
                    [name, strategy, *days[strategy, "PageRank"], *days[strategy, "documents"],
                     float(ended.max()) / DAY]
                )  # fmt: skip
            panels.append(Panel(lines, name, "days", "share", y_percent=True))
            if displaced(*orders) >= SAME:
                faster |= _faster(name, days)
    report.figure(
        "figure-6",
        panels,
        "Figure 6: PageRank and documents against time, with breadth-first and larger sites "
        "first. The paper shows two real crawls of Greece in batches of 200,000 pages with r = "
        f"1,000. Here, up to {CRAWL_ROBOTS:,} robots, one per {SITES_A_ROBOT} sites, crawl a "
        f"country of {webs[0].graph.n_pages:,} pages and a recorded web from all home pages. w = "
        "5 s, or 15 s for sites with fewer than 100 known pages; k = 1. 'Link for 4 days': a "
        "link that carries all pages in that time. 'In batches': each batch is the same part of "
        "the web as 200,000 of 3.5 million pages, and its links are seen when its last page has "
        "arrived. Larger sites first is drawn as points, because the lines often coincide. Crawls "
        "with identical orders do not count.",
        title="PageRank and documents gathered by time (Baeza-Yates et al. 2005, figure 6)",
    )
    report.table(
        "figure-6",
        ["link", "strategy", *(f"days to {x} of the PageRank" for x in ("50 %", "80 %", "95 %")),
         *(f"to {x} of the documents" for x in ("50 %", "80 %", "95 %")), "in all"],
        rows,
        "Days until shares were gathered.",
    )  # fmt: skip
    report.finding(
        "Larger sites first is faster than breadth-first in documents and in PageRank (figure 6)",
        "time relative to breadth-first: " + ", ".join(f"{x:.3f} ({n})" for n, x in faster.items()),
        [Case(name, 0.99 - ratio) for name, ratio in faster.items()],
        "at least 1 % fewer days to 50, 80 and 95 %, on average of the three ratios",
        why="the largest site, or the link, bounds both",
        picture="figure-6",
        name="larger-sites-faster",
    )


def _crawl(
    start: Start, strategy: str, network: Network, size: int | None
) -> tuple[PageIds, NDArray[np.float64]]:
    """Return the order of a crawl (in batches, if a size is given), and when its fetches ended."""
    graph, seeds = start.web.graph, start.seeds
    if size is not None:
        return crawl_in_batches(graph, seeds, lambda: make_ordering(strategy), network, size)
    crawl = timed_crawl(graph, seeds, make_ordering(strategy), network)
    return crawl.order, crawl.ended


def _faster(name: str, days: Mapping[tuple[str, str], Sequence[float]]) -> dict[str, float]:
    """Return larger sites first's time relative to breadth-first, for PageRank and documents."""
    return {
        f"{name}, {what}": float(
            np.mean(np.divide(days["larger-sites-first", what], days["breadth-first", what]))
        )
        for what in ("PageRank", "documents")
    }
