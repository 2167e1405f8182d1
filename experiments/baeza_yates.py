"""Baeza-Yates, Castillo, Marin & Rodriguez, Crawling a country, WWW 2005.

Figures 3, 4 and 6 and table 2. Their claims are in `baeza_claims`, history is in `baeza_history`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

import baeza_claims
import baeza_history
import numpy as np
from baeza_webs import BEYOND, PRINTED, Group, drawn, no_delay, rounds
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
from verdicts import RULE, Case, GeneratorErrors
from webs import Web, cnr, hollins, uci

from crawlprio.evaluation import cumulative_by_time
from crawlprio.evaluation.figures import Panel, Points
from crawlprio.orderings import make_ordering
from crawlprio.pages import PageIds
from crawlprio.simulator import Network, timed_crawl

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
    errors = GeneratorErrors.read(output)
    n_pages = country_pages // COUNTRY_SHARE
    countries = [small_country(shared, n_pages, seed) for seed in range(COUNTRIES)]
    recorded = [uci(shared), hollins(shared), cnr(shared)]
    groups = _groups(countries, recorded)
    report.text(
        f"Crawls of {COUNTRIES} synthetic countries of {n_pages:,} pages in the proportions of "
        "Chile's web (70 pages per site), and of three recorded webs. One robot, with one "
        f"connection per site at a time. *w = 15 s*: {DELAY:g} s pass between the end of a fetch "
        "and the next start on its site. Fetch times follow from drawn sizes, speeds and "
        "latencies (about 1 s on average), and the clock jumps ahead when no site is ready. "
        "*Rounds*: the same, but fetches take no time, so every site with waiting pages is "
        "fetched from once per round. *Order alone*: no delay. The sites of cnr-2000 are "
        "unknown, so there larger sites first is breadth-first and politeness has no effect. "
        "Batch and partial PageRank compute PageRank every N / 35 pages (K = 100,000 in the "
        "paper); all other keys are updated after every page. 'random' picks each next page "
        "uniformly from those waiting. The seeds are all home pages, or one page. With one page, "
        "there are several crawls: the first from a good start, the others from random pages. "
        f"{RULE} A case is one kind of crawl, and its numbers are means over the crawls. It is "
        "left out of claims about larger sites first if sites are unknown."
    )
    _figure_3(report, [Start(web, web.homes) for web in countries], recorded)
    _figure_4(report, groups)
    _table_2(report, groups)
    baeza_claims.add(report, groups, errors)
    report.write()
    baeza_history.add(report, countries, recorded, errors)
    report.write()
    _figure_6(report, [small_country(shared, country_pages // CRAWLED_SHARE), recorded[0]])
    report.write()


def _groups(countries: list[Web], recorded: list[Web]) -> list[Group]:
    """Return all crawls except those with history."""
    by_homes = [Start(web, web.homes) for web in countries]
    by_page = [Start(web, [web.start]) for web in countries]
    ics, college, italian = recorded
    groups = [
        Group.of("countries, home pages, w = 15 s", by_homes, drawn),
        Group.of("countries, home pages, rounds", by_homes, rounds),
        Group.of("countries, home pages, order alone", by_homes, no_delay),
        Group.of("countries, one page, w = 15 s", by_page, drawn),
        Group.of("uci-ics, home pages, w = 15 s", [Start(ics, ics.homes)], drawn),
    ]
    for web, kind, network in (
        (ics, "w = 15 s", drawn),
        (ics, "order alone", no_delay),
        (college, "w = 15 s", drawn),
        (italian, "order alone", no_delay),
    ):
        starts = [Start(web, [seed]) for seed in web.single_seeds]
        groups.append(Group.of(f"{web.name}, one page, {kind}", starts, network))
    return groups


def _figure_3(report: Report, countries: list[Start], recorded: list[Web]) -> None:
    """Write the distribution of PageRank, which bounds all curves."""
    starts = [*countries, *(Start(web, [web.start]) for web in recorded)]
    bounds = {start.web.name: start.best for start in starts}
    report.figure(
        "figure-3",
        [
            Panel(
                bounds,
                "The upper bound: pages by falling PageRank",
                "share of pages",
                "share of all PageRank",
                x_percent=True,
                y_percent=True,
                references={"random, expected": [(0.0, 0.0), (1.0, 1.0)]},
            )
        ],
        "Figure 3: cumulative PageRank of the pages by descending PageRank, which no crawl "
        "exceeds. In the paper, the curves for Chile and Greece are almost the same.",
    )
    shares = np.linspace(0.0, 1.0, 201)
    heights = {n: np.interp(shares, b[:, 0], b[:, 1]) for n, b in bounds.items()}
    names = [web.name for web in recorded]
    apart = {
        f"{a} and {b}": float(np.abs(heights[a] - heights[b]).max())
        for k, a in enumerate(names)
        for b in names[:k]
    }
    report.finding(
        "PageRank is distributed almost alike in different webs (figure 3)",
        "largest distance between curves: " + ", ".join(f"{x:.3f} ({n})" for n, x in apart.items()),
        [Case(name, 0.05 - gap) for name, gap in apart.items()],
        "curves are never more than 0.05 apart; the countries are left out, because one model "
        "made them all",
        picture="figure-3",
        name="pagerank-alike",
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
        title="Baeza-Yates et al. 2005, figure 4",
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
            lines: dict[str, Points] = {}
            days: dict[tuple[str, str], list[float]] = {}
            orders: list[PageIds] = []
            for strategy in ("breadth-first", "larger-sites-first"):
                order, ended = _crawl(start, strategy, network, size)
                orders.append(order)
                seconds, rank, documents = cumulative_by_time(
                    order, ended, web.ranks, start.reachable, start=0.0
                )
                at = np.linspace(0, len(seconds) - 1, 400).astype(int)
                for what, shares in (("PageRank", rank), ("documents", documents)):
                    lines[f"{strategy}, {what}"] = np.column_stack((seconds[at] / DAY, shares[at]))
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
        "arrived. Where only one line is visible, both coincide. Crawls with identical orders do "
        "not count.",
        title="Baeza-Yates et al. 2005, figure 6",
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
        f"{what}, {name}": float(
            np.mean(np.divide(days["larger-sites-first", what], days["breadth-first", what]))
        )
        for what in ("PageRank", "documents")
    }
