"""Strategies with the PageRank of an earlier crawl (Baeza-Yates et al. 2005, figure 5).

Judged on true pairs of states of the same web, see `true_history`.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from statistics import fmean

import numpy as np
from baeza_webs import PRINTED, PRINTED_HISTORICAL
from measured import Crawled, Start, curves_panel, mean_curves, mean_with_spread
from report import Report
from true_history import Pair, pairs
from verdicts import RULE, Margin

from crawlprio.orderings import make_ordering

WITHOUT = ("opic", "sibling-sampling", "omniscient")
"""Strategies without history."""

Measure = Callable[["Crawls"], Margin]


@dataclass(frozen=True, eq=False)
class Crawls:
    """The crawls of the later state of a pair, by strategy, one from each start."""

    pair: Pair
    by_name: dict[str, list[Crawled]]

    @classmethod
    def of(cls, pair: Pair) -> Crawls:
        """Crawl with each of the four rules for new pages, and without history."""
        return cls(
            pair,
            {name: [_crawl(pair, start, name) for start in pair.starts] for name in STRATEGIES},
        )

    def averages(self, name: str) -> list[float]:
        return [crawl.average for crawl in self.by_name[name]]

    def taus(self, name: str) -> list[float]:
        return [crawl.tau for crawl in self.by_name[name]]

    def early(self, name: str) -> list[float]:
        """Return the share of the PageRank at 5 % of the pages."""
        return [crawl.gathered_at(0.05) for crawl in self.by_name[name]]


STRATEGIES = (*PRINTED_HISTORICAL, *WITHOUT)
ZERO, AT_RANDOM, PARENT, KNOWING = PRINTED_HISTORICAL


def _crawl(pair: Pair, start: Start, name: str) -> Crawled:
    """Crawl by order alone; on one site politeness changes nothing but the clock."""
    if name in WITHOUT:
        return start.crawl(name)
    options = {"scores": pair.scores, "new": name.split(", ")[1]}
    return start.crawl(make_ordering("historical-pagerank", options))


def run(shared: Path, output: Path, webs: Path) -> None:
    """Write the section."""
    title = "Baeza-Yates et al. 2005: crawling with history"
    report = Report(output, "baeza_history", title)
    found = [Crawls.of(pair) for pair in pairs(webs)]
    report.text(
        "Strategies that know the PageRank of an earlier crawl, compared with OPIC and omniscient, "
        "figure 5 and table 2. The paper has two crawls of Greece, four months apart; 45 % of the "
        f"pages were new. We have {len(found)} pairs of successive states of "
        f"{len({c.pair.web for c in found})} webs of documentation, from Debian packages: pages "
        "appear, move and die as they really did between releases. A page is known if the earlier "
        "state had one at the same path, and PageRank is that of the earlier state. Crawls go by "
        "order alone, from the home page and random pages. Pairs of one web are crawls of one "
        f"web. {RULE}"
    )
    report.figure(
        "figure-5",
        [curves_panel(c.pair.name, mean_curves(_by_start(c)), c.pair.starts) for c in found],
        "Figure 5: cumulative PageRank against pages with and without history.",
        title="PageRank gathered with an earlier crawl at hand (Baeza-Yates et al. 2005, figure 5)",
        columns=3,
    )
    report.table(
        "pairs",
        ["pair", "pages", "pages known", "their PageRank now", "earlier pages that are gone",
         "mean relative error of the earlier PageRank"],
        [["paper", 3_300_000, "55 %", "72 %", None, "78 % (Cho & Adams)"],
         *([c.pair.name, *c.pair.changes()] for c in found)],
        "The pairs. The paper quotes an average relative error of 78 % after four months from Cho "
        "& Adams 2004. Where ours is smaller, our history is better than the paper's.",
    )  # fmt: skip
    for name, k, values in (("average", 0, Crawls.averages), ("tau", 1, Crawls.taus)):
        report.table(
            name,
            ["strategy", "paper", *(c.pair.name for c in found)],
            [[s, PRINTED_HISTORICAL.get(s, PRINTED.get(s, (None, None)))[k],
              *(mean_with_spread(values(c, s)) for c in found)] for s in STRATEGIES],
            f"Table 2: {'average cumulative PageRank' if k == 0 else 'tau'}, mean ± sample "
            "standard deviation over the starts.",
        )  # fmt: skip
    for text, rule, measure, name in _claims():
        cases = [measure(c).case(c.pair.name) for c in found]
        margins = ", ".join(f"{case.margin:+.3f} ({case.name})" for case in cases)
        report.finding(text, f"margins: {margins}", cases, rule, picture="figure-5", name=name)
    report.write()


def _by_start(crawls: Crawls) -> list[dict[str, Crawled]]:
    """Return the crawls from each start, by strategy."""
    return [
        {name: of_name[k] for name, of_name in crawls.by_name.items()}
        for k in range(len(crawls.pair.starts))
    ]


def _claims() -> list[tuple[str, str, Measure, str]]:
    """Return each claim, its rule, the two sides, and its name."""
    claims: list[tuple[str, str, Measure, str]] = []
    for rule in (ZERO, AT_RANDOM, PARENT):
        claims += [
            (
                f"{rule} improves OPIC (table 2)",
                "the higher average",
                lambda c, n=rule: Margin(c.averages(n), c.averages("opic")),
                f"{rule.replace(', ', '-')}-over-opic",
            ),
            (
                f"{rule} improves OPIC by no more than 0.03 (table 2)",
                "an average higher by less than 0.035",
                lambda c, n=rule: _less_than(0.035, np.subtract(c.averages(n), c.averages("opic"))),
                "",
            ),
        ]
    return [
        *claims,
        (
            "OPIC is bad at the beginning, and history helps there (figure 5)",
            f"{AT_RANDOM} has more PageRank at 5 % of the pages",
            lambda c: Margin(c.early(AT_RANDOM), c.early("opic")),
            "history-early",
        ),
        (
            "By tau, random values for new pages are the best of zero, random and parent (table 2)",
            "the highest tau",
            lambda c: Margin(c.taus(AT_RANDOM), max(c.taus(ZERO), c.taus(PARENT), key=fmean)),
            "",
        ),
        (
            "History with true values for new pages comes close to omniscient (figure 5)",
            "averages within 0.03",
            lambda c: _less_than(
                0.03, np.abs(np.subtract(c.averages("omniscient"), c.averages(KNOWING)))
            ),
            "",
        ),
    ]


def _less_than(most: float, values: np.ndarray) -> Margin:
    return Margin([most] * len(values), values.tolist())
