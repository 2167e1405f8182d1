"""Cho, Garcia-Molina & Page, Efficient crawling through URL ordering, WWW7 1998.

Figures 3 to 7 of the extended version, among them graphs 1 to 3, on large webs. The limited buffer
is in `cho_buffer`, the small domain in `cho_small`, crawls on a topic are in `cho_topic`; it must
not know how a crawl is simulated or a curve computed.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import chain
from pathlib import Path

import cho_buffer
import cho_small
import cho_topic
import numpy as np
from cho_webs import (
    DAMPING,
    NEWEST_FIRST,
    RANK_NEWEST_FIRST,
    THREE,
    JudgedCrawls,
    beats,
    ideal_and_random,
    orderings,
    share_panel,
)
from crawls import HOLDS, RULE, area, areas, at, bands, mean_at, tally, verdict
from report import Report
from webs import Web, cnr, uci

from crawlprio.evaluation import (
    ModelCurve,
    depth_from_seeds,
)
from crawlprio.evaluation.figures import Panel, Series

THRESHOLDS = {3: "47 %", 10: "10 %", 100: "0.8 %"}
"""G for backlinks, and the share of the paper's pages that are hot."""
RANK_THRESHOLD = 13.0

CHOICES = (
    "The paper crawls 179,000 pages of stanford.edu from its home page. Here are two webs: "
    "{webs}. Each is crawled to the end from {n_seeds} seeds: a page known to lead far, and pages "
    "drawn by lot from which at least half as much is reached; curves are means, bands go from the "
    "least to the greatest. Fetches come one by one, without time. Backlinks count linking pages, "
    "not links; importances are those over the whole graph, the pages that the seed reaches are "
    f"'all pages'. PageRank has d = {DAMPING}; its ordering computes it after every page until "
    "1,000 links are seen and then ever more rarely (25 link updates are charged for each link "
    "seen, each fetch earns 25,000), with what parents would give to pages found since; what that "
    "changes is measured below. Pages with equal keys leave in order of discovery, on which the "
    "paper is silent. The thresholds G are the paper's own, for the shares of hot pages come out "
    "alike. 'random' is a crawler that takes waiting pages by lot; 'random, expected' is the "
    "paper's diagonal, which needs to know all pages. " + RULE
)


def run(shared: Path, output: Path, country_pages: int) -> None:
    """Write the section."""
    title = "Cho, Garcia-Molina & Page 1998: efficient crawling through URL ordering"
    report = Report(output, "cho", title)
    made = orderings(None, *THREE, "random", NEWEST_FIRST, RANK_NEWEST_FIRST)
    university = uci(shared)
    large = [
        JudgedCrawls(web.name, web.graph, [[seed] for seed in web.single_seeds], made)
        for web in (university, cnr(shared))
    ]
    webs = " and ".join(f"{crawls.name} with {crawls.n_reachable:,} pages" for crawls in large)
    report.text(CHOICES.format(webs=webs, n_seeds=len(large[0].seeds)))
    _thresholds(report, large)
    _models(report, large)
    _homes(report, university)
    _clusters(report, large)
    cho_buffer.add(report, large)
    cho_small.add(report, shared, large)
    cho_topic.add(report, shared)
    report.write()


def _thresholds(report: Report, large: Sequence[JudgedCrawls]) -> None:
    """Figure 3: backlink ordering, judged by backlinks, for three thresholds."""
    report.heading("Backlink ordering for three thresholds")
    panels, rows = [], []
    rising, rates = [], []
    for crawls in large:
        curves = {
            g: crawls.p_st(crawls.backlinks, g)["backlink-count"] for g in map(float, THRESHOLDS)
        }
        references = {
            f"ideal, G = {g:g}": Series(of_seeds[0].points("ideal"), like=f"G = {g:g}")
            for g, of_seeds in curves.items()
        }
        references["random, expected"] = [(0.0, 0.0), (1.0, 1.0)]
        named = {f"G = {g:g}": of_seeds for g, of_seeds in curves.items()}
        panels.append(share_panel(crawls.name, bands(named), references))
        for (g, of_seeds), papers in zip(curves.items(), THRESHOLDS.values(), strict=True):
            rows.append(
                (
                    crawls.name, f"{g:g}", papers, f"{crawls.share_hot(crawls.backlinks, g):.2%}",
                    *(f"{mean_at(of_seeds, x):.0%}" for x in (0.1, 0.2, 0.5, 0.8)),
                )
            )  # fmt: skip
        for k in range(len(crawls.seeds)):
            found = [at(of_seeds[k], 0.2) for of_seeds in curves.values()]
            rising.append(found == sorted(found))
            rates.append((1.0 - at(curves[100.0][k], 0.8)) / 0.2)
    report.figure(
        "thresholds", panels,
        "Long version, figure 3: share of the hot pages fetched under backlink ordering, hot being "
        "pages with G or more backlinks. The paper shows one crawl, and for G = 100 half of the "
        "hot pages after 20 % of the crawl.",
        title="P_ST of backlink ordering, I(P) = IB(P)",
    )  # fmt: skip
    report.table(
        "thresholds",
        ("web", "G", "hot in the paper", "hot here", "P_ST at 10 %", "20 %", "50 %", "80 %"),
        rows,
        "Long version, figure 3, in numbers: means over seeds. The paper gives 50 % for G = 100 at "
        "20 %.",
    )
    half = [at(c, 0.2) for w in large for c in w.p_st(w.backlinks, 100.0)["backlink-count"]]
    report.finding(
        "Fig. 3: the more backlinks make a page hot, the sooner hot pages are found; half of them "
        "(G = 100) after 20 % of the crawl",
        f"P_ST at 20 % rises with G in {tally(rising)} crawls; for G = 100 it is "
        f"{min(half):.0%} to {max(half):.0%}",
        verdict(rising),
    )
    slow = [0.5 <= rate <= 2.0 for rate in rates]
    report.finding(
        "Fig. 3: beyond 80 % of the crawl hot pages (G = 100) come at about the rate of a random "
        "crawler",
        f"{min(rates):.2f} to {max(rates):.2f} times that rate; within a factor of 2 in "
        f"{tally(slow)} crawls",
        verdict(slow),
        f"{0.2 * min(rates):.0%} to {0.2 * max(rates):.0%} of the hot pages are left by then",
    )


def _models(report: Report, large: Sequence[JudgedCrawls]) -> None:
    """Figures 4, 6 and 7: three orderings under two models and two importances."""
    report.heading("Three orderings, two models, two importances")
    measured = {
        "IB": [crawls.p_st(crawls.backlinks, 100.0) for crawls in large],
        "P_CS": [crawls.p_cs(crawls.backlinks) for crawls in large],
        "IR": [crawls.p_st(crawls.ranks, RANK_THRESHOLD) for crawls in large],
    }
    titles = {
        "IB": "P_ST, I(P) = IB(P), G = 100",
        "P_CS": "P_CS, I(P) = IB(P)",
        "IR": "P_ST, I(P) = IR(P), G = 13",
    }
    panels: list[Panel] = []
    for model, title in titles.items():
        for crawls, curves in zip(large, measured[model], strict=True):
            shown = {name: curves[name] for name in (*THREE, "random")}
            references = ideal_and_random(curves["backlink-count"][0])
            ylabel = "share of them that are hot" if model == "P_CS" else "share of hot pages"
            panels.append(share_panel(f"{crawls.name}: {title}", bands(shown), references, ylabel))
    report.figure(
        "models", panels,
        "Above: graph 1, long version figure 4; the paper has PageRank ahead of backlink count and "
        "breadth-first. Middle: graph 2, figure 6, hot being the K pages of most backlinks when K "
        "are fetched; again PageRank leads. Below: graph 3, figure 7, hot by PageRank; PageRank "
        "leads, the others are alike. P_CS of pages without many backlinks counts ties as hot, "
        "which lifts the random line.",
        title="The orderings of Cho et al. on two webs",
    )  # fmt: skip
    rows = [
        (
            titles[model], crawls.name, name, f"{area(curves[name]):.3f}",
            *(f"{mean_at(curves[name], x):.0%}" for x in (0.1, 0.2, 0.5)),
        )
        for model in titles
        for crawls, curves in zip(large, measured[model], strict=True)
        for name in (*THREE, NEWEST_FIRST, RANK_NEWEST_FIRST, "random")
    ]  # fmt: skip
    hot = ", ".join(
        f"{crawls.name} {crawls.share_hot(crawls.ranks, RANK_THRESHOLD):.2%}" for crawls in large
    )
    report.table(
        "models", ("model", "web", "ordering", "mean over all fetches", "10 %", "20 %", "50 %"),
        rows,
        f"Graphs 1 to 3 in numbers, means over seeds. Hot by IR(P) >= 13: {hot}; in the paper 1 %. "
        "The paper prints curves only. 'newest first' breaks ties the other way.",
    )  # fmt: skip
    _judge_models(report, measured)


def _homes(report: Report, web: Web) -> None:
    """The same from all home pages at once."""
    crawls = JudgedCrawls(web.name, web.graph, [web.homes], orderings())
    measured = (
        crawls.p_st(crawls.backlinks, 100.0),
        crawls.p_cs(crawls.backlinks),
        crawls.p_st(crawls.ranks, RANK_THRESHOLD),
    )
    report.table(
        "homes",
        ("ordering", "P_ST, IB, G = 100", "P_CS, IB", "P_ST, IR, G = 13"),
        [(name, *(f"{area(curves[name]):.3f}" for curves in measured)) for name in measured[0]],
        f"The other protocol: {web.name} from the home pages of its {len(web.homes)} sites at "
        "once, mean performance over all fetches.",
    )


def _judge_models(report: Report, measured: dict[str, list[dict[str, list[ModelCurve]]]]) -> None:
    """The claims about figures 4, 6 and 7."""

    def cases(model: str, one: str, other: str) -> list[bool]:
        """In which crawls one ordering has the larger mean performance."""
        compared = (beats(areas(c[one]), areas(c[other])) for c in measured[model])
        return list(chain.from_iterable(compared))

    def mean(model: str, name: str) -> str:
        """The mean performance on each web."""
        return " and ".join(f"{area(curves[name]):.3f}" for curves in measured[model])

    newest = cases("IB", RANK_NEWEST_FIRST, NEWEST_FIRST)
    ties = (
        "of pages with equally many backlinks ours takes the oldest; with the newest first under "
        f"both orderings backlink count has {mean('IB', NEWEST_FIRST)}, PageRank "
        f"{mean('IB', RANK_NEWEST_FIRST)}, and PageRank is ahead in {tally(newest)} crawls"
        + (": the claim hangs on how ties are broken" if np.mean(newest) >= HOLDS else "")
    )
    ahead = cases("IB", "pagerank", "backlink-count")
    report.finding(
        "Graph 1: PageRank order beats backlink order even where importance is backlinks, from any "
        "starting point",
        f"mean P_ST (G = 100) larger in {tally(ahead)} crawls: PageRank {mean('IB', 'pagerank')}, "
        f"backlink count {mean('IB', 'backlink-count')} on the two webs",
        verdict(ahead),
        "" if np.mean(ahead) >= HOLDS else ties,
    )
    best = [
        a and b
        for a, b in zip(
            cases("P_CS", "pagerank", "backlink-count"),
            cases("P_CS", "pagerank", "breadth-first"),
            strict=True,
        )
    ]
    report.finding(
        "Graph 2: under Crawl & Stop the results are the same, PageRank is best",
        f"mean P_CS largest in {tally(best)} crawls: "
        + ", ".join(f"{name} {mean('P_CS', name)}" for name in THREE),
        verdict(best),
        "" if np.mean(best) >= HOLDS
        else f"as for graph 1; with the newest first backlink count has "
        f"{mean('P_CS', NEWEST_FIRST)}",
    )  # fmt: skip
    best = [
        a and b
        for a, b in zip(
            cases("IR", "pagerank", "backlink-count"),
            cases("IR", "pagerank", "breadth-first"),
            strict=True,
        )
    ]
    report.finding(
        "Graph 3: judged by PageRank, PageRank order is best",
        f"mean P_ST (G = 13) largest in {tally(best)} crawls: "
        + ", ".join(f"{name} {mean('IR', name)}" for name in THREE),
        verdict(best),
    )
    gains = [
        r - b
        for curves_r, curves_b in zip(measured["IR"], measured["IB"], strict=True)
        for r, b in zip(_gain(curves_r), _gain(curves_b), strict=True)
    ]
    more = [gain > 0.0 for gain in gains]
    report.finding(
        "Graph 3: PageRank order is even more effective for IR than for IB",
        f"its lead on backlink order changes by {min(gains):+.3f} to {max(gains):+.3f}; upwards in "
        f"{tally(more)} crawls",
        verdict(more),
    )
    apart = [
        abs(a - b)
        for curves in measured["IR"]
        for a, b in zip(
            areas(curves["backlink-count"]), areas(curves["breadth-first"]), strict=True
        )
    ]
    alike = [difference < 0.05 for difference in apart]
    report.finding(
        "Fig. 7: backlink count and breadth-first perform alike when judged by PageRank",
        f"their mean P_ST differs by {min(apart):.3f} to {max(apart):.3f}; below 0.05 in "
        f"{tally(alike)} crawls",
        verdict(alike),
    )
    good = cases("IB", "pagerank", "random") + cases("IR", "pagerank", "random")
    report.finding(
        "A good ordering finds hot pages much sooner than none",
        f"PageRank beats the random crawler in {tally(good)} crawls (mean P_ST, IB: "
        f"{mean('IB', 'pagerank')} against {mean('IB', 'random')}; a draw from all pages has 0.5)",
        verdict(good),
    )


def _gain(curves: dict[str, list[ModelCurve]]) -> list[float]:
    """How far PageRank order is ahead of backlink order in each crawl."""
    pairs = zip(areas(curves["pagerank"]), areas(curves["backlink-count"]), strict=True)
    return [a - b for a, b in pairs]


def _clusters(report: Report, large: Sequence[JudgedCrawls]) -> None:
    """The paper's explanation: backlink order goes deep into clusters."""
    rows, deeper = [], {name: [] for name in ("backlink-count", NEWEST_FIRST)}
    for crawls in large:
        depths = [depth_from_seeds(crawls.graph, seeds) for seeds in crawls.seeds]
        means = {
            name: [float(d[o[: len(o) // 10]].mean()) for d, o in zip(depths, orders, strict=True)]
            for name, orders in crawls.orders.items()
        }
        rows += [
            (crawls.name, name, min(values), float(np.mean(values)), max(values))
            for name, values in means.items()
        ]
        for name, cases in deeper.items():
            cases += beats(means[name], means["pagerank"])
    report.table(
        "depth", ("web", "ordering", "least", "mean", "greatest"), rows,
        "How far from the seed, in links, the first tenth of the fetches lies; over seeds.",
    )  # fmt: skip
    report.finding(
        "Section 5.2: backlink order often behaves like depth-first, PageRank order mixes breadth "
        "and depth",
        f"the first tenth of the fetches lies deeper under backlink order in "
        f"{tally(deeper['backlink-count'])} crawls, with ties the newest first in "
        f"{tally(deeper[NEWEST_FIRST])}",
        verdict(deeper["backlink-count"]),
        "with ties in order of discovery backlink order is breadth-first among equals"
        if np.mean(deeper["backlink-count"]) < np.mean(deeper[NEWEST_FIRST]) else "",
    )  # fmt: skip
