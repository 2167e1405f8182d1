"""Cho, Garcia-Molina & Page, Efficient crawling through URL ordering, WWW7 1998.

Figures 3 to 7 of the extended version, including graphs 1 to 3, on large webs. The limited buffer
is in `cho_buffer` and the small domain in `cho_small`. Crawls on a topic and other metrics are a
separate section, `cho_topics`.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import cho_buffer
import cho_small
import numpy as np
from cho_buffer import RANK_THRESHOLD
from cho_webs import (
    DAMPING,
    DRAWS,
    NEWEST_FIRST,
    RANK_NEWEST_FIRST,
    THREE,
    JudgedCrawls,
    bound_and_random,
    orderings,
    share_panel,
)
from paper_crawls import area, bands, mean_at
from report import Report
from verdicts import RULE
from webs import Web, cnr, uci

from crawlprio.measure.crawl_order import depth_from_seeds
from crawlprio.show.figures import Panel, Series

THRESHOLDS = {3: "47 %", 10: "10 %", 100: "0.8 %"}
"""G for backlinks, and the share of pages that are hot in the paper."""

CHOICES = (
    "The paper crawls 179,000 pages of stanford.edu from its home page. We use two webs: "
    "{webs}. Each is crawled to the end from {n_seeds} seeds: one page known to reach most "
    "of the web, and random pages that reach at least half as much. Curves are means; bands show "
    "the range from least to greatest. Fetches happen one at a time, without a clock. Backlinks "
    "count linking pages, not links. Importance is computed on the whole graph; 'all pages' are "
    f"those that the seed reaches. PageRank has d = {DAMPING}. Its ordering recomputes it after "
    "every page until 1,000 links are seen, and then less and less often (each link seen is "
    "charged 25 link updates, each fetch earns 25,000). In between, pages found since are given "
    "what their parents would pass on. The effect of this is measured below. Pages with equal "
    "keys leave in order of discovery. The paper's pseudo-code appends new URLs to the queue, "
    "sorts it and takes the first, which is the same rule if the sort is stable. 'newest first' "
    "breaks ties the other way; the text supports it least. The thresholds G are the paper's "
    "own, because the shares of hot pages come out similar. 'random' picks each next page "
    "uniformly from those waiting; the claims on the buffer use two draws from each seed. 'random, "
    "expected' is the paper's diagonal, which requires knowing all pages. " + RULE
)


def run(shared: Path, output: Path, country_pages: int) -> None:
    """Write the section."""
    title = "Cho, Garcia-Molina & Page 1998: efficient crawling through URL ordering"
    report = Report(output, "cho", title)
    made = orderings(None, *THREE, *DRAWS, NEWEST_FIRST, RANK_NEWEST_FIRST)
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
    report.write()


def _thresholds(report: Report, large: Sequence[JudgedCrawls]) -> None:
    """Write figure 3: backlink ordering, judged by backlinks, for three thresholds."""
    report.heading("Backlink ordering for three thresholds")
    panels, rows = [], []
    for crawls in large:
        curves = {
            g: crawls.p_st(crawls.backlinks, g)["backlink-count"] for g in map(float, THRESHOLDS)
        }
        references = {
            f"upper-bound, G = {g:g}": Series(of_seeds[0].points("ideal"), like=f"G = {g:g}")
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
    report.figure(
        "thresholds", panels,
        "Extended version, figure 3: share of the hot pages fetched under backlink ordering. A "
        "page is hot if it has G or more backlinks. The paper shows one crawl, in which half of "
        "the hot pages (G = 100) are fetched after 20 % of the crawl.",
        title="Hot pages fetched in backlink order; hot: G links to it (Cho et al. 1998)",
    )  # fmt: skip
    report.table(
        "thresholds",
        ("web", "G", "hot in the paper", "hot here", "P_ST at 10 %", "20 %", "50 %", "80 %"),
        rows,
        "Extended version, figure 3, in numbers: means over seeds. The paper gives 50 % for G = "
        "100 at 20 %.",
    )


def _models(report: Report, large: Sequence[JudgedCrawls]) -> None:
    """Write figures 4, 6 and 7: three orderings, two models and two kinds of importance."""
    report.heading("Three orderings, two models, two importances")
    measured = {
        "IB": [crawls.p_st(crawls.backlinks, 100.0) for crawls in large],
        "P_CS": [crawls.p_cs(crawls.untied_backlinks) for crawls in large],
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
            references = bound_and_random(curves["backlink-count"][0])
            ylabel = "share of them that are hot" if model == "P_CS" else "share of hot pages"
            panels.append(share_panel(f"{crawls.name}: {title}", bands(shown), references, ylabel))
    report.figure(
        "models", panels,
        "Top: graph 1, extended version figure 4. In the paper, PageRank is ahead of backlink "
        "count and breadth-first. Middle: graph 2, figure 6. After K fetches, the K pages with "
        "the most backlinks are hot; PageRank leads again. Bottom: graph 3, figure 7. Hot is "
        "defined by PageRank; PageRank leads, and the others perform alike. In P_CS, of the pages "
        "with as many backlinks as the Kth, those that are hot are drawn. The paper's 'no "
        "ordering' is the diagonal; 'random' draws from the pages that a crawler knows.",
        title="Hot pages fetched, by ordering (Cho et al. 1998, graphs 1 to 3)",
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


def _homes(report: Report, web: Web) -> None:
    """Write the same for crawls from all home pages at once."""
    crawls = JudgedCrawls(web.name, web.graph, [web.homes], orderings())
    measured = (
        crawls.p_st(crawls.backlinks, 100.0),
        crawls.p_cs(crawls.untied_backlinks),
        crawls.p_st(crawls.ranks, RANK_THRESHOLD),
    )
    report.table(
        "homes",
        ("ordering", "P_ST, IB, G = 100", "P_CS, IB", "P_ST, IR, G = 13"),
        [(name, *(f"{area(curves[name]):.3f}" for curves in measured)) for name in measured[0]],
        f"The other protocol: {web.name} from the home pages of its {len(web.homes)} sites at "
        "once, mean performance over all fetches.",
    )


def _clusters(report: Report, large: Sequence[JudgedCrawls]) -> None:
    """Test the paper's explanation: backlink order goes deep into clusters."""
    rows = []
    for crawls in large:
        depths = [depth_from_seeds(crawls.graph, seeds) for seeds in crawls.seeds]
        means = {
            name: [float(d[o[: len(o) // 10]].mean()) for d, o in zip(depths, orders, strict=True)]
            for name, orders in crawls.orders.items()
            if name != DRAWS[1]
        }
        rows += [
            (crawls.name, name, min(values), float(np.mean(values)), max(values))
            for name, values in means.items()
        ]
    report.table(
        "depth", ("web", "ordering", "least", "mean", "greatest"), rows,
        "Distance from the seed, in links, of the first tenth of the fetches, over seeds.",
    )  # fmt: skip
