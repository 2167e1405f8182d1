"""Strategies with the PageRank of an earlier crawl (Baeza-Yates et al. 2005, figure 5)."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence

import numpy as np
from baeza_webs import PRINTED, PRINTED_HISTORICAL, Group, drawn, no_delay
from measured import (
    Crawled,
    Start,
    curves_panel,
    earlier_state,
    mean_curves,
    mean_with_spread,
    with_history,
)
from numpy.typing import NDArray
from report import Report
from verdicts import Case, GeneratorErrors
from webs import Web

from crawlprio.orderings import make_ordering
from crawlprio.simulator import Network

MODELS = {"pages change": 1.0, "pages and links change": 0.5}
"""Models of change, by the share of links between old pages that existed before."""

WITHOUT = ("opic", "larger-sites-first", "omniscient")
"""Strategies without history."""


def add(report: Report, countries: list[Web], recorded: list[Web], errors: GeneratorErrors) -> None:
    """Strategies with the PageRank of an earlier crawl."""
    ics, _, italian = recorded
    kinds: list[tuple[str, list[Start], Callable[[Web], Network | None]]] = [
        ("countries, home pages, w = 15 s", [Start(w, w.homes) for w in countries], drawn),
        ("uci-ics, home pages, w = 15 s", [Start(ics, ics.homes)], drawn),
        ("cnr-2000, one page, order alone", [Start(italian, [italian.start])], no_delay),
    ]
    by_model: dict[str, list[Group]] = {model: [] for model in MODELS}
    states = []
    for name, starts, network in kinds:
        plain = [s.crawls(WITHOUT, network(s.web)) for s in starts]
        for model, links_left in MODELS.items():
            crawls = []
            for start, without in zip(starts, plain, strict=True):
                known, earlier = earlier_state(start, links_left=links_left)
                states.append([f"{start.web.name}, {model}", *_state(start, known, earlier)])
                crawls.append(
                    _historical_crawls(start, known, earlier, network(start.web)) | without
                )
            by_model[model].append(Group(name, starts, crawls))
    groups = [
        Group(f"{g.name}; {model}", g.starts, g.crawls)
        for model, of_model in by_model.items()
        for g in of_model
    ]
    report.figure(
        "figure-5",
        [curves_panel(group.name, mean_curves(group.crawls), group.starts) for group in groups],
        "Figure 5: strategies that know the PageRank of an earlier crawl, compared with OPIC and "
        "omniscient. The paper has two crawls of Greece, four months apart; 45 % of the pages "
        "were new. Here the earlier crawl is derived from the web. Pages are removed at random "
        "so that what remains reachable has 55 % of the pages and, as nearly as possible, 72 % "
        "of the PageRank. The earlier PageRank is computed on the remaining pages. In the upper "
        "panels all links between remaining pages are kept; in the lower ones a random half of "
        "these links is removed.",
        title="Baeza-Yates et al. 2005, figure 5",
        columns=3,
    )
    report.table(
        "figure-5-history",
        ["web", "pages known", "their PageRank now", "mean relative error of the earlier PageRank"],
        [["paper", "55 %", "72 %", "78 % (Cho & Adams)"], *states],
        "The earlier crawls. The paper quotes an average relative error of 78 % after four "
        "months from Cho & Adams 2004. Where ours is smaller, our history is better than a real "
        "one.",
    )
    strategies = [*PRINTED_HISTORICAL, *WITHOUT]
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
            "Table 2, strategies with history: "
            f"{'average cumulative PageRank' if k == 0 else 'tau'}. The paper's historical rows "
            "are from one pair of crawls of Greece; its other rows are means over four "
            "collections.",
        )
    _compare_historical(report, by_model, errors)


def _state(
    start: Start, known: NDArray[np.bool_], earlier: NDArray[np.float64]
) -> tuple[float, float, float]:
    """Return the shares of pages and PageRank an earlier crawl knew, and its PageRank's error."""
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
    """Crawl with each of the four rules for new pages."""
    named, scores = with_history(start, known, earlier)
    return {
        name: named.crawl(
            make_ordering("historical-pagerank", {"scores": scores, "new": name.split(", ")[1]}),
            network,
        )
        for name in PRINTED_HISTORICAL
    }


def _compare_historical(
    report: Report, by_model: Mapping[str, Sequence[Group]], errors: GeneratorErrors
) -> None:
    """Judge the claims about strategies with history by the crawls."""
    zero, at_random, parent, knowing = PRINTED_HISTORICAL
    rows = list(zip(*by_model.values(), strict=True))

    def claim(
        text: str,
        measure: Callable[[Group], float],
        margin: Callable[[float], float],
        rule: str,
        words: str,
        of: str = "lead",
        name: str = "",
    ) -> None:
        """Judge by one number per group, over both models of change."""
        cases = []
        for models in rows:
            margins = [margin(measure(group)) for group in models]
            error = errors.of(of, is_synthetic=models[0].is_synthetic)
            if min(margins) <= 0.0 < max(margins):
                error = math.inf
            cases.append(Case(models[0].name, min(margins, key=abs), error))
        values = "; ".join(
            f"{', '.join(f'{measure(group):+.3f}' for group in models)} ({models[0].name})"
            for models in rows
        )
        report.finding(
            text, f"{words}, by both models of change: {values}", cases, rule,
            why="two models of change generate the earlier crawl; a case decides only if both "
                "agree",
            picture="figure-5", name=name,
        )  # fmt: skip

    for rule_name in (zero, at_random, parent):
        claim(
            f"{rule_name} improves OPIC (table 2)",
            lambda g, n=rule_name: g.average(n) - g.average("opic"),
            lambda gain: gain,
            "the higher average",
            "average minus that of OPIC",
            name=f"{rule_name.replace(', ', '-')}-over-opic",
        )
        claim(
            f"{rule_name} improves OPIC by no more than 0.03 (table 2)",
            lambda g, n=rule_name: g.average(n) - g.average("opic"),
            lambda gain: 0.035 - gain,
            "an average higher by less than 0.035",
            "average minus that of OPIC",
        )
    claim(
        "OPIC is bad at the beginning, and history helps there (figure 5)",
        lambda g: g.at(at_random, 0.05) - g.at("opic", 0.05),
        lambda lead: lead,
        "more PageRank at 5 % of the pages",
        f"lead of {at_random}",
        of="lead at a share",
        name="history-early",
    )
    claim(
        "By tau, random values for new pages are the best of zero, random and parent (table 2)",
        lambda g: g.tau(at_random) - max(g.tau(zero), g.tau(parent)),
        lambda lead: lead,
        "the highest tau",
        "tau of random minus the better of the others",
        of="tau lead",
    )
    claim(
        "History with true values for new pages comes close to omniscient (figure 5)",
        lambda g: abs(g.average("omniscient") - g.average(knowing)),
        lambda gap: 0.03 - gap,
        "averages within 0.03",
        "difference between the averages",
    )
