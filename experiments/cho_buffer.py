"""The limited buffer of Cho, Garcia-Molina & Page 1998, which the paper defines but never plots."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from cho_webs import DAMPING, DRAWS, THREE, JudgedCrawls, bound_and_random, share_panel
from paper_crawls import Mask, areas, bands, mean_at
from report import Report
from verdicts import Case, Margin

from crawlprio.graph.pages import PageIds
from crawlprio.measure.crawl_models import BacklinksSeen, ModelCurve, PageRankSeen, limited_buffer

BUFFERS = np.array([0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 1.0])
"""Buffer sizes, as shares of all pages."""
TOP = "top B"
RANK_THRESHOLD = 13.0


def add(report: Report, large: Sequence[JudgedCrawls]) -> None:
    """Write P_BC, which the paper defines but does not show."""
    report.heading("The limited buffer")
    panels, rows = [], []
    leads: dict[tuple[str, str], list[Case]] = {}
    for crawls in large:
        for label, estimate, importance, least in (
            ("IB", BacklinksSeen(crawls.graph), crawls.backlinks, 100.0),
            ("IR", PageRankSeen(crawls.graph, damping=DAMPING), crawls.ranks, RANK_THRESHOLD),
        ):
            for hot, threshold in ((TOP, None), (f"I >= {least:g}", least)):

                def measure(
                    order: PageIds,
                    reached: Mask,
                    estimate=estimate,
                    importance=importance,
                    threshold=threshold,
                ) -> ModelCurve:
                    return limited_buffer(
                        order, importance, BUFFERS, estimate,
                        threshold=threshold, reachable=reached,
                    )  # fmt: skip

                curves = crawls.curves(measure, *THREE, *DRAWS)
                panels.append(
                    share_panel(
                        f"{crawls.name}: {label}(P), {hot}",
                        bands({name: curves[name] for name in (*THREE, "random")}),
                        bound_and_random(curves["random"][0]),
                        "P_BC: share of buffer hot", "buffer, share of all pages",
                    )
                )  # fmt: skip
                best = np.max([areas(curves[name]) for name in THREE], axis=0)
                drawn = [area for name in DRAWS for area in areas(curves[name])]
                case = Margin(best.tolist(), drawn).case(crawls.name)
                leads.setdefault((label, hot), []).append(case)
                rows += [
                    (
                        label, hot, crawls.name, name,
                        *(f"{mean_at(curves[name], x):.2%}" for x in BUFFERS[[1, 4, 8]]),
                    )
                    for name in (*THREE, "random")
                ]  # fmt: skip
    report.figure(
        "buffer", panels,
        "Section 3 of the paper defines P_BC but shows no figure. P_BC is the share of a buffer "
        "of B pages that is hot once all pages have been fetched: among the B most important "
        "pages ('top B'), or with I(P) >= G. A full buffer drops the page with the lowest "
        "estimate: backlinks seen so far, or PageRank of the graph seen so far, computed 35 times "
        "per crawl. Of equal pages, the one fetched last is dropped first.",
        title="What a limited buffer keeps of a crawl of everything (Cho et al. 1998, section 3)",
        columns=2,
    )  # fmt: skip
    report.table(
        "buffer", ("importance", "hot", "web", "ordering", "B = 1 %", "10 %", "50 %"), rows,
        "P_BC, means over seeds. A dropped page does not come back, so an ordering that fetches "
        "important pages early, before there is evidence for them, loses some of them.",
    )  # fmt: skip
    for (label, hot), lead in leads.items():
        margins = [case.margin for case in lead]
        report.finding(
            "(not in the paper) With a limited buffer, the crawl order helps to keep the hot "
            f"pages, by {label}, {hot}",
            f"mean P_BC over {len(BUFFERS)} sizes of the best of the three orderings minus that "
            f"of random: {min(margins):+.3f} to {max(margins):+.3f}",
            lead,
            "it is larger than that of a random crawler",
            why="pages fetched early are judged, and dropped, before there is evidence for them",
            picture="buffer",
            name=f"buffer-{label.lower()}" + ("" if hot == TOP else "-threshold"),
        )
