"""Baeza-Yates, Castillo, Marin & Rodriguez, Crawling a country, WWW 2005.

It must not know how crawls are simulated or figures are drawn.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from crawls import RULE
from measured import (
    DELAY,
    STRATEGIES,
    Crawled,
    Start,
    curves_panel,
    earlier_state,
    judged,
    mean_curves,
    mean_with_spread,
    polite_network,
    small_country,
    with_bandwidth,
    with_history,
)
from numpy.typing import NDArray
from report import Report
from webs import Web, cnr, hollins, uci

from crawlprio.evaluation import cumulative_by_time
from crawlprio.evaluation.figures import Panel
from crawlprio.frontier import Politeness
from crawlprio.orderings import make_ordering
from crawlprio.simulator import Network, timed_crawl

PRINTED = {
    "random": (None, None),
    "backlink-count": ("0.50 ± 0.01", 0.0157),
    "partial-pagerank": ("0.52 ± 0.01", 0.0236),
    "breadth-first": ("0.64 ± 0.04", 0.1293),
    "batch-pagerank": ("0.63 ± 0.03", 0.1961),
    "opic": ("0.67 ± 0.03", 0.2229),
    "larger-sites-first": ("0.67 ± 0.01", 0.2498),
    "omniscient": ("0.74 ± 0.04", 0.6504),
}
PRINTED_HISTORICAL = {
    "historical-pagerank, zero": ("0.68", 0.3573),
    "historical-pagerank, random": ("0.70", 0.3689),
    "historical-pagerank, parent": ("0.70", 0.3520),
    "historical-pagerank, omniscient": ("0.77", 0.6385),
}
"""Table 2 of the paper: average cumulative PageRank and Kendall's tau."""

COUNTRIES = 4
COUNTRY_SHARE, CRAWLED_SHARE = 35, 5
"""Parts of the large country that the small ones, and that of figure 6, are."""

GOOD = ("batch-pagerank", "opic", "larger-sites-first")
POOR = ("breadth-first", "backlink-count", "partial-pagerank")
LEAST_LEAD = 0.001
DAY = 86_400.0
CRAWL_DAYS, CRAWL_ROBOTS = 4, 256


@dataclass(frozen=True, eq=False)
class Group:
    """Crawls of the same kind, over which figures are averaged."""

    name: str
    starts: list[Start]
    crawls: list[dict[str, Crawled]]

    @classmethod
    def of(cls, name: str, starts: list[Start], network: Callable[[Web], Network | None]) -> Group:
        """Crawl from all starts under all strategies."""
        return cls(name, starts, [s.crawls(STRATEGIES, network(s.web)) for s in starts])

    def averages(self, strategy: str) -> list[float]:
        return [crawls[strategy].average for crawls in self.crawls]

    def average(self, strategy: str) -> float:
        """Average cumulative PageRank, mean over the crawls."""
        return float(np.mean(self.averages(strategy)))

    def taus(self, strategy: str) -> list[float]:
        return [crawls[strategy].tau for crawls in self.crawls]

    def tau(self, strategy: str) -> float:
        """Kendall's tau, mean over the crawls."""
        return float(np.mean(self.taus(strategy)))

    def at(self, strategy: str, share: float) -> float:
        """Share of the PageRank at this share of the pages, mean over the crawls."""
        return float(np.mean([crawls[strategy].gathered_at(share) for crawls in self.crawls]))

    def lead(self, strategy: str, other: str) -> float:
        """The largest lead over another strategy after half of the pages."""
        shares = np.linspace(0.5, 0.995, 100)
        return max(self.at(strategy, share) - self.at(other, share) for share in shares)

    def best(self, measure: Callable[[str], float], among: Sequence[str]) -> str:
        """The strategy of the largest measure."""
        return max(among, key=measure)


def run(shared: Path, output: Path, country_pages: int) -> None:
    """Write the section."""
    report = Report(output, "baeza_yates", "Baeza-Yates et al. 2005: Crawling a country")
    n_pages = country_pages // COUNTRY_SHARE
    countries = [small_country(shared, n_pages, seed) for seed in range(COUNTRIES)]
    recorded = [uci(shared), hollins(shared), cnr(shared)]
    groups = _groups(countries, recorded)
    report.text(
        f"Crawls of {COUNTRIES} made-up countries of {n_pages:,} pages in the proportions of "
        "Chile's (70 pages a site), and of three recorded webs. One robot, one connection to a "
        f"site at a time. *w = 15 s*: {DELAY:g} s from the end of a fetch to the next start on "
        "its site, fetches taking the time that drawn sizes, speeds and latencies give (about 1 "
        "s on average); the clock jumps when no site is ready. *Rounds*: the same, but fetches "
        "take no time, so that every site with waiting pages is fetched from once in a round. "
        "*Order alone*: no delay. cnr-2000 has no known sites, so that larger sites first is "
        "breadth-first there and politeness decides nothing. PageRank of batch and partial "
        "PageRank is computed every N / 35 pages (K = 100,000 in the paper), all other keys are "
        "brought up to date after every page. The seeds are all home pages, or one page; with "
        "one page the crawls are from several, of which the first is a good start and the others "
        f"drawn. {RULE} A case is one kind of crawls, and its numbers are means over the crawls."
    )
    _figure_3(report, [Start(web, web.homes) for web in countries], recorded)
    _figure_4(report, groups)
    _table_2(report, groups)
    _compare(report, groups)
    report.write()
    _figure_5(report, countries, recorded)
    report.write()
    _figure_6(report, small_country(shared, country_pages // CRAWLED_SHARE))
    report.write()


def _drawn(web: Web) -> Network:
    """w = 15 s, and fetches that take time."""
    return polite_network(web)


def _rounds(web: Web) -> Network:
    """w = 15 s, and fetches that take none."""
    return Network(politeness=Politeness(DELAY))


def _no_delay(web: Web) -> None:
    """Order alone."""
    return


def _groups(countries: list[Web], recorded: list[Web]) -> list[Group]:
    """All crawls but those with history."""
    by_homes = [Start(web, web.homes) for web in countries]
    by_page = [Start(web, [web.start]) for web in countries]
    ics, college, italian = recorded
    groups = [
        Group.of("countries, home pages, w = 15 s", by_homes, _drawn),
        Group.of("countries, home pages, rounds", by_homes, _rounds),
        Group.of("countries, home pages, order alone", by_homes, _no_delay),
        Group.of("countries, one page, w = 15 s", by_page, _drawn),
        Group.of("uci-ics, home pages, w = 15 s", [Start(ics, ics.homes)], _drawn),
    ]
    for web, kind, network in (
        (ics, "w = 15 s", _drawn),
        (ics, "order alone", _no_delay),
        (college, "w = 15 s", _drawn),
        (italian, "order alone", _no_delay),
    ):
        starts = [Start(web, [seed]) for seed in web.single_seeds]
        groups.append(Group.of(f"{web.name}, one page, {kind}", starts, network))
    return groups


def _figure_3(report: Report, countries: list[Start], recorded: list[Web]) -> None:
    """The distribution of PageRank, which bounds all curves."""
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
        "Figure 3: cumulative PageRank of the pages by falling PageRank, which no crawl exceeds. "
        "The paper's shows almost the same curve for Chile and Greece.",
    )
    shares = np.linspace(0.0, 1.0, 201)
    heights = np.array([np.interp(shares, b[:, 0], b[:, 1]) for b in bounds.values()])
    apart = {
        "countries": float(np.ptp(heights[: len(countries)], axis=0).max()),
        "all webs": float(np.ptp(heights, axis=0).max()),
    }
    outcome, why = judged(
        {name: gap < 0.05 for name, gap in apart.items()},
        "curves are never more than 0.05 apart; the countries are made by one model",
    )
    report.finding(
        "PageRank is distributed almost alike in different countries (figure 3)",
        "largest distance of curves: " + ", ".join(f"{x:.3f} ({n})" for n, x in apart.items()),
        outcome,
        why,
    )


def _figure_4(report: Report, groups: Sequence[Group]) -> None:
    """Cumulative PageRank of all strategies."""
    report.figure(
        "figure-4",
        [curves_panel(group.name, mean_curves(group.crawls), group.starts) for group in groups],
        "Figure 4: cumulative PageRank against pages. The paper's four panels show larger sites "
        "first, OPIC and batch PageRank best, breadth-first good up to 20 to 30 % and worse after, "
        "and backlink count and partial PageRank at the diagonal or below. Means over crawls; "
        "bands from the least to the greatest.",
        title="Baeza-Yates et al. 2005, figure 4",
        columns=3,
    )


def _table_2(report: Report, groups: Sequence[Group]) -> None:
    """Average cumulative PageRank and Kendall's tau of all strategies."""
    names = [f"{group.name} ({len(group.crawls)})" for group in groups]
    report.table(
        "table-2-average",
        ["strategy", "paper", *names],
        [
            [strategy, PRINTED[strategy][0],
             *(mean_with_spread(g.averages(strategy)) for g in groups)]
            for strategy in STRATEGIES
        ],
        "Table 2, average cumulative PageRank: mean ± sample standard deviation over the crawls, "
        "whose number is in parentheses.",
    )  # fmt: skip
    report.table(
        "table-2-tau",
        ["strategy", "paper", *names],
        [
            [strategy, PRINTED[strategy][1], *(mean_with_spread(g.taus(strategy)) for g in groups)]
            for strategy in STRATEGIES
        ],
        "Table 2, Kendall's tau of the order against PageRank: tau-b, on 5,000 pages. How the "
        "paper treats ties is not known.",
    )  # fmt: skip


def _compare(report: Report, groups: Sequence[Group]) -> None:
    """Hold the claims on strategies without history against the crawls."""

    def claim(text: str, measured: str, holds: Callable[[Group], bool], rule: str) -> None:
        outcome, why = judged({group.name: holds(group) for group in groups}, rule)
        report.finding(text, measured, outcome, why)

    def each(measure: Callable[[Group], float], digits: int = 3) -> str:
        values = [measure(group) for group in groups]
        return f"{min(values):.{digits}f} to {max(values):.{digits}f}"

    known = [name for name in STRATEGIES if name not in ("omniscient", "random")]
    claim(
        "A random crawl gathers PageRank approximately linearly (section 5.2)",
        f"average {each(lambda g: g.average('random'))} (linear: 0.5)",
        lambda g: abs(g.average("random") - 0.5) < 0.03,
        "average within 0.03 of 0.5; a crawl at random meets well-linked pages sooner than a draw",
    )
    claim(
        "Omniscient has the best performance (figure 4, table 2)",
        "its lead over the best other average: "
        + each(lambda g: g.average("omniscient") - max(map(g.average, known))),
        lambda g: g.average("omniscient") > max(map(g.average, known)),
        "the highest average",
    )
    claim(
        "Omniscient is too greedy: others surpass it late in the crawl (section 5.2)",
        "largest lead over it after half of the pages: "
        + each(lambda g: max(g.lead(name, "omniscient") for name in known), 4),
        lambda g: max(g.lead(name, "omniscient") for name in known) > LEAST_LEAD,
        "another strategy leads by more than 0.001 of the PageRank after half of the pages",
    )
    for name, words in (
        ("backlink-count", "Backlink count"),
        ("partial-pagerank", "Partial PageRank"),
    ):
        claim(
            f"{words} performs worse than a random crawl (figure 4)",
            f"averages {each(lambda g, n=name: g.average(n))}; largest lag behind random after "
            f"half of the pages {each(lambda g, n=name: g.lead('random', n))}",
            lambda g, n=name: g.lead("random", n) > LEAST_LEAD,
            "behind the random crawl by more than 0.001 somewhere after half of the pages",
        )
    claim(
        "Backlink count and partial PageRank are the two worst strategies (table 2)",
        "better of the two by average, against the worst of the others: "
        + each(lambda g: max(map(g.average, POOR[1:])) - min(map(g.average, (*GOOD, POOR[0])))),
        lambda g: max(map(g.average, POOR[1:])) < min(map(g.average, (*GOOD, POOR[0]))),
        "both averages below those of breadth-first, batch PageRank, OPIC and larger sites first",
    )
    claim(
        "Breadth-first is close to the best for the first 20 to 30 % of pages (figure 4)",
        "its lag behind the best at 20 % of the pages: "
        + each(lambda g: max(g.at(n, 0.2) for n in known) - g.at("breadth-first", 0.2)),
        lambda g: all(
            max(g.at(n, x) for n in known) - g.at("breadth-first", x) < 0.05 for x in (0.2, 0.3)
        ),
        "within 0.05 of the best, omniscient apart, at 20 and 30 %",
    )
    claim(
        "After that breadth-first becomes less efficient (figure 4)",
        "its lag behind the best at 50 % of the pages: "
        + each(lambda g: max(g.at(n, 0.5) for n in known) - g.at("breadth-first", 0.5)),
        lambda g: (
            max(g.at(n, 0.5) for n in known) - g.at("breadth-first", 0.5)
            > max(g.at(n, 0.2) for n in known) - g.at("breadth-first", 0.2)
        ),
        "it lags more at 50 % than at 20 %",
    )
    for good in GOOD:
        claim(
            f"{good} is better than breadth-first, backlink count and partial PageRank (table 2)",
            f"average less the best of theirs: "
            f"{each(lambda g, n=good: g.average(n) - max(map(g.average, POOR)))}",
            lambda g, n=good: g.average(n) > max(map(g.average, POOR)),
            "the higher average",
        )
    claim(
        "Batch PageRank is not better than OPIC and larger sites first (conclusions)",
        "its average less theirs: "
        + each(lambda g: g.average("batch-pagerank") - max(map(g.average, GOOD[1:]))),
        lambda g: g.average("batch-pagerank") <= max(map(g.average, GOOD[1:])),
        "no higher average than the better of the two",
    )
    claim(
        "OPIC and larger sites first perform alike (table 2)",
        f"OPIC less larger sites first: "
        f"{each(lambda g: g.average('opic') - g.average('larger-sites-first'))}",
        lambda g: abs(g.average("opic") - g.average("larger-sites-first")) < 0.02,
        "averages within 0.02",
    )
    claim(
        "Larger sites first has the advantage when the coverage wanted is high (section 5.2)",
        "its lead over OPIC and batch PageRank at 80 % of the pages: "
        + each(lambda g: g.at(GOOD[2], 0.8) - max(g.at(n, 0.8) for n in GOOD[:2])),
        lambda g: g.at(GOOD[2], 0.8) > max(g.at(n, 0.8) for n in GOOD[:2]),
        "ahead of both at 80 % of the pages",
    )
    claim(
        "OPIC, larger sites first and batch PageRank have half of the PageRank after 20 to 30 % "
        "of the pages (section 5.2)",
        "PageRank of the least of the three at 30 %: "
        + each(lambda g: min(g.at(n, 0.3) for n in GOOD)),
        lambda g: all(g.at(n, 0.3) >= 0.5 for n in GOOD),
        "all three have half at 30 %",
    )
    claim(
        "By Kendall's tau larger sites first is the best strategy without history (table 2)",
        "its tau less the best other: "
        + each(lambda g: g.tau(GOOD[2]) - max(g.tau(n) for n in known if n != GOOD[2])),
        lambda g: g.best(g.tau, known) == "larger-sites-first",
        "the highest tau; best are " + ", ".join(sorted({g.best(g.tau, known) for g in groups})),
    )


def _figure_5(report: Report, countries: list[Web], recorded: list[Web]) -> None:
    """Strategies with the PageRank of an earlier crawl."""
    ics, _, italian = recorded
    kinds: list[tuple[str, list[Start], Callable[[Web], Network | None]]] = [
        ("countries, home pages, w = 15 s", [Start(w, w.homes) for w in countries], _drawn),
        ("uci-ics, home pages, w = 15 s", [Start(ics, ics.homes)], _drawn),
        ("cnr-2000, one page, order alone", [Start(italian, [italian.start])], _no_delay),
    ]
    groups, states = [], []
    for name, starts, network in kinds:
        crawls = []
        for start in starts:
            known, earlier = earlier_state(start)
            states.append([f"{start.web.name}", *_state(start, known, earlier)])
            crawls.append(_historical_crawls(start, known, earlier, network(start.web)))
        groups.append(Group(name, starts, crawls))
    report.figure(
        "figure-5",
        [curves_panel(group.name, mean_curves(group.crawls), group.starts) for group in groups],
        "Figure 5: strategies that know the PageRank of an earlier crawl, with OPIC and "
        "omniscient. The paper has two crawls of Greece, four months apart; 45 % of the pages "
        "were new. Here the earlier crawl is made from the web: pages are taken out by lot, such "
        "that what is left to reach has 55 % of the pages and, as near as can be, 72 % of the "
        "PageRank; its PageRank is that of the pages left. No link between pages left is changed.",
        title="Baeza-Yates et al. 2005, figure 5",
        columns=3,
    )
    report.table(
        "figure-5-history",
        ["web", "pages known", "their PageRank now", "mean relative error of the earlier PageRank"],
        [["paper", "55 %", "72 %", "78 % (Cho & Adams)"], *states],
        "The earlier crawls. The paper quotes an average relative error of 78 % after four months "
        "from Cho & Adams 2004; where ours is smaller, our history is better than real ones.",
    )
    strategies = [*PRINTED_HISTORICAL, "opic", "larger-sites-first", "omniscient"]
    printed = PRINTED_HISTORICAL | PRINTED
    names = [f"{group.name} ({len(group.crawls)})" for group in groups]
    for name, k, values in (
        ("average", 0, Group.averages),
        ("tau", 1, Group.taus),
    ):
        report.table(
            f"table-2-historical-{name}",
            ["strategy", "paper", *names],
            [
                [s, printed[s][k], *(mean_with_spread(values(g, s)) for g in groups)]
                for s in strategies
            ],
            f"Table 2, strategies with history: "
            f"{'average cumulative PageRank' if k == 0 else 'tau'}. The paper's historical rows "
            "are of one pair of crawls of Greece, its other rows means over four collections.",
        )
    _compare_historical(report, groups)


def _state(
    start: Start, known: NDArray[np.bool_], earlier: NDArray[np.float64]
) -> tuple[float, float, float]:
    """Shares of pages and PageRank that an earlier crawl knew, and how wrong its PageRank is."""
    ranks = start.web.ranks
    now, then = ranks[known] / ranks[known].sum(), earlier[known] / earlier[known].sum()
    return (
        float(known.sum() / start.n_pages),
        float(ranks[known].sum() / ranks[start.reachable].sum()),
        float(np.mean(np.abs(then - now) / now)),
    )


def _historical_crawls(
    start: Start,
    known: NDArray[np.bool_],
    earlier: NDArray[np.float64],
    network: Network | None,
) -> dict[str, Crawled]:
    """Crawl with the four rules for new pages, and without history."""
    named, scores = with_history(start, known, earlier)
    crawls = {
        name: named.crawl(
            make_ordering("historical-pagerank", {"scores": scores, "new": name.split(", ")[1]}),
            network,
        )
        for name in PRINTED_HISTORICAL
    }
    return crawls | start.crawls(("opic", "larger-sites-first", "omniscient"), network)


def _compare_historical(report: Report, groups: Sequence[Group]) -> None:
    """Hold the claims on strategies with history against the crawls."""
    zero, at_random, parent, knowing = PRINTED_HISTORICAL
    for name in (zero, at_random, parent):
        gains = {g.name: g.average(name) - g.average("opic") for g in groups}
        measured = "average less that of OPIC: " + ", ".join(
            f"{gain:+.3f} ({where})" for where, gain in gains.items()
        )
        outcome, why = judged(
            {where: 0 < gain <= 0.035 for where, gain in gains.items()},
            "a higher average, by at most 0.035",
        )
        report.finding(
            f"{name} improves OPIC but marginally, by 0.03 at most (table 2)",
            measured,
            outcome,
            why,
        )
    early = {g.name: g.at(at_random, 0.05) - g.at("opic", 0.05) for g in groups}
    outcome, why = judged({n: lead > 0 for n, lead in early.items()}, "more PageRank at 5 %")
    report.finding(
        "OPIC is bad at the beginning, history helps there (figure 5)",
        f"lead of {at_random} at 5 % of the pages: "
        + ", ".join(f"{lead:+.3f} ({n})" for n, lead in early.items()),
        outcome,
        why,
    )
    best = {g.name: g.best(g.tau, (zero, at_random, parent)) for g in groups}
    outcome, why = judged({n: name == at_random for n, name in best.items()}, "the highest tau")
    report.finding(
        "By tau, random values for new pages are best of zero, random and parent (table 2)",
        "best: " + ", ".join(f"{name.split(', ')[1]} ({n})" for n, name in best.items()),
        outcome,
        why,
    )
    gaps = {g.name: g.average("omniscient") - g.average(knowing) for g in groups}
    outcome, why = judged({n: abs(gap) < 0.03 for n, gap in gaps.items()}, "within 0.03")
    report.finding(
        "History with true values for new pages comes close to omniscient (figure 5)",
        "omniscient less it: " + ", ".join(f"{gap:+.3f} ({n})" for n, gap in gaps.items()),
        outcome,
        why,
    )


def _figure_6(report: Report, web: Web) -> None:
    """A crawl with many robots, against the clock."""
    start = Start(web, web.homes)
    fast = polite_network(web, robots=CRAWL_ROBOTS, real_crawl=True)
    whole = float(fast.sizes()[start.reachable].sum())
    links = {
        f"link such that all pages take {CRAWL_DAYS} days": with_bandwidth(
            fast, whole / (CRAWL_DAYS * DAY)
        ),
        "unlimited link": fast,
    }
    panels, rows, faster = [], [], {}
    for name, network in links.items():
        lines, days = {}, {}
        for strategy in ("breadth-first", "larger-sites-first"):
            crawl = timed_crawl(web.graph, start.seeds, make_ordering(strategy), network)
            seconds, rank, documents = cumulative_by_time(
                crawl.order, crawl.ended, web.ranks, start.reachable, start=0.0
            )
            at = np.linspace(0, len(seconds) - 1, 400).astype(int)
            for what, shares in (("PageRank", rank), ("documents", documents)):
                lines[f"{strategy}, {what}"] = np.column_stack((seconds[at] / DAY, shares[at]))
                days[strategy, what] = [
                    float(seconds[np.searchsorted(shares, x)]) / DAY for x in (0.5, 0.8, 0.95)
                ]
            rows.append(
                [name, strategy, *days[strategy, "PageRank"], *days[strategy, "documents"],
                 crawl.seconds / DAY]
            )  # fmt: skip
        panels.append(Panel(lines, name, "days", "share", y_percent=True))
        faster |= _faster(name, days)
    report.figure(
        "figure-6",
        panels,
        "Figure 6: PageRank and documents against time with breadth-first and larger sites "
        f"first. The paper's are two real crawls of Greece with r = 1000; here {CRAWL_ROBOTS} "
        f"robots crawl a country of {web.graph.n_pages:,} pages from all home pages, w = 5 s, and "
        "15 s for sites of which under 100 pages are known, k = 1.",
        title="Baeza-Yates et al. 2005, figure 6",
    )
    report.table(
        "figure-6",
        ["link", "strategy", *(f"days to {x} of the PageRank" for x in ("50 %", "80 %", "95 %")),
         *(f"to {x} of the documents" for x in ("50 %", "80 %", "95 %")), "in all"],
        rows,
        "Days by which shares were gathered.",
    )  # fmt: skip
    outcome, why = judged(
        {name: ratio < 0.99 for name, ratio in faster.items()},
        "at least 1 % fewer days to 50, 80 and 95 %, on average of the three ratios",
    )
    report.finding(
        "Larger sites first is faster than breadth-first in documents and in PageRank (figure 6)",
        "time against breadth-first: " + ", ".join(f"{x:.3f} ({n})" for n, x in faster.items()),
        outcome,
        why,
    )


def _faster(name: str, days: Mapping[tuple[str, str], Sequence[float]]) -> dict[str, float]:
    """Time of larger sites first against breadth-first, for PageRank and documents."""
    return {
        f"{what}, {name}": float(
            np.mean(np.divide(days["larger-sites-first", what], days["breadth-first", what]))
        )
        for what in ("PageRank", "documents")
    }
