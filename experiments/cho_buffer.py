"""The limited buffer of Cho, Garcia-Molina & Page 1998, which the paper defines but never plots."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from cho_webs import DAMPING, THREE, JudgedCrawls, ideal_and_random, share_panel
from paper_crawls import Mask, bands, mean_at
from report import Report
from verdicts import above

from crawlprio.evaluation import BacklinksSeen, ModelCurve, PageRankSeen, limited_buffer
from crawlprio.pages import PageIds

BUFFERS = np.array([0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 1.0])
"""Buffer sizes, as shares of all pages."""


def add(report: Report, large: Sequence[JudgedCrawls]) -> None:
    """Write P_BC, which the paper defines but does not show."""
    report.heading("The limited buffer")
    panels, rows = [], []
    names = (*THREE, "random")
    leads: dict[tuple[str, str], dict[str, float]] = {}
    for crawls in large:
        for label, estimate, importance in (
            ("IB", BacklinksSeen(crawls.graph), crawls.backlinks),
            ("IR", PageRankSeen(crawls.graph, damping=DAMPING), crawls.ranks),
        ):

            def measure(
                order: PageIds, reached: Mask, estimate=estimate, importance=importance
            ) -> ModelCurve:
                return limited_buffer(order, importance, BUFFERS, estimate, reachable=reached)

            measured = crawls.curves(measure)
            curves = {name: measured[name] for name in names}
            panels.append(
                share_panel(
                    f"{crawls.name}: I(P) = {label}(P), kept by {label}'", bands(curves),
                    ideal_and_random(curves["random"][0]),
                    "P_BC: share of buffer hot", "buffer, share of all pages",
                )
            )  # fmt: skip
            for name in THREE:
                lead = [
                    float(np.mean(a.performance - b.performance))
                    for a, b in zip(curves[name], curves["random"], strict=True)
                ]
                leads.setdefault((label, name), {}).update(crawls.cases(lead, name, "random"))
            rows += [
                (
                    label, crawls.name, name,
                    *(f"{mean_at(curves[name], x):.1%}" for x in BUFFERS[[1, 4, 8]]),
                )
                for name in names
            ]  # fmt: skip
    report.figure(
        "buffer", panels,
        "Section 3 of the paper defines P_BC but shows no figure. P_BC is the share of a buffer "
        "of B pages that is among the B most important pages once all pages have been fetched. A "
        "full buffer drops the page with the lowest estimate: backlinks seen so far, or PageRank "
        "of the graph seen so far, computed 35 times per crawl. Of equal pages, the one fetched "
        "last is dropped first.",
        title="Limited buffer: what is kept of a crawl of everything",
    )  # fmt: skip
    report.table(
        "buffer", ("importance", "web", "ordering", "B = 1 %", "10 %", "50 %"), rows,
        "P_BC, means over seeds. A dropped page does not come back, so an ordering that fetches "
        "important pages early, before there is evidence for them, loses some of them.",
    )  # fmt: skip
    for (label, name), lead in leads.items():
        report.finding(
            f"(not in the paper) With a limited buffer, {name} keeps more of the hot pages than a "
            f"random crawler, by {label}",
            f"mean P_BC over {len(BUFFERS)} sizes, minus that of random: "
            f"{min(lead.values()):+.3f} to {max(lead.values()):+.3f}",
            above(lead),
            "the larger mean P_BC",
            why="pages fetched early are judged, and dropped, before there is evidence for them",
            picture="buffer",
            name=f"buffer-{name}-{label.lower()}",
        )
