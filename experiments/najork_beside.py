"""Beside figures 1 and 2 of Najork & Wiener 2001: figure 3, other orderings, and the clock.

It must not know how a crawl is simulated or PageRank computed.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from crawls import Crawls, tally, verdict
from najork_crawls import (
    DAYS,
    HALFWAY,
    HOMES,
    MEANS_SHOWN,
    SINGLE,
    TOPS,
    Watched,
    by_log_x,
    from_log_x,
)
from report import Report
from webs import Web

from crawlprio.evaluation import (
    best_order,
    mean_importance_by_slice,
    mean_slice_of_top,
    overlap_of_top,
    pagerank_seen,
    scaled_to_mean_one,
    slices_by_fetch,
)
from crawlprio.evaluation.figures import Panel, Series, mean_and_spread
from crawlprio.orderings import make_ordering

EARLY_DAYS = 28
TOP_SHARE = 1 / 328
"""The paper's top million of 328 million pages."""
ORDERINGS = ("breadth-first", "backlink-count", "opic", "random")
SMALL = 100_000
"""Pages up to which the ordering by PageRank is shown."""


def add(report: Report, webs: Sequence[Web], watched: dict[str, list[Watched]]) -> None:
    """Write figure 3 and what goes beyond the paper; the first web was crawled in time too."""
    report.heading("Were early pages ranked high because they were early?")
    _overlap(report, webs, watched)
    report.heading("Other orderings")
    _orderings(report, webs)
    report.heading("Against the clock")
    _clock(report, watched[webs[0].name])


def _overlap(report: Report, webs: Sequence[Web], watched: dict[str, list[Watched]]) -> None:
    """Figure 3."""
    panels, rows = [], [("paper", "one page", "96 %", "76 %", "60 % to 80 %")]
    early, agree, ranges = [], [], []
    for web in webs:
        lines = {}
        chosen = {crawl.label: crawl for crawl in reversed(watched[web.name])}
        for crawl in (chosen[SINGLE], chosen[HOMES]):
            order, n = crawl.order, len(crawl.order)
            n_early = int((crawl.days <= EARLY_DAYS).sum())
            partial = pagerank_seen(web.graph, order[:n_early])
            whole = pagerank_seen(web.graph, order)
            lines[crawl.label] = overlap_of_top(partial, whole, TOPS)
            top = max(round(TOP_SHARE * n), 1)
            early.append(float((crawl.top(top) <= EARLY_DAYS).mean()))
            agree.append(float(overlap_of_top(partial, whole, [top]).mean[0]))
            from_20 = lines[crawl.label].mean[lines[crawl.label].x >= 20]
            ranges.append((float(from_20.min()), float(from_20.max())))
            rows.append(
                (
                    web.name, crawl.label, f"{early[-1]:.0%}", f"{agree[-1]:.0%}",
                    f"{ranges[-1][0]:.0%} to {ranges[-1][1]:.0%}",
                )
            )  # fmt: skip
        panels.append(
            Panel(
                {label: line.points() for label, line in lines.items()},
                web.name, "N, pages of highest PageRank", "share of the top N in both",
                x_scale="log", y_percent=True, y_limits=(0.0, 1.0),
            )
        )  # fmt: skip
    report.figure(
        "overlap", panels,
        "Figure 3: overlap of the top N by PageRank of what the first 28 of 58 days saw and of "
        "what the whole crawl saw, both by their own links. In the paper it is 80 % at N = 20 and "
        "stays between 60 and 80 %.",
        title="The best pages after 28 days and after 58",
    )  # fmt: skip
    report.table(
        "overlap", ("web", "seeds", "fetched in 28 days", "in its top too", "overlap from N = 20"),
        rows,
        f"The paper's top million is the top {TOP_SHARE:.2%} of its pages: how many of these were "
        "fetched in the first 28 days, and are among as many by the PageRank of these days.",
    )  # fmt: skip
    kept = [a >= 0.9 and b >= 0.6 for a, b in zip(early, agree, strict=True)]
    report.finding(
        "Fig. 3: of the top million 96 % are fetched in the first 28 days, and 76 % are in the top "
        "million by then",
        f"top {TOP_SHARE:.1%}: {min(early):.0%} to {max(early):.0%} fetched, {min(agree):.0%} to "
        f"{max(agree):.0%} in its top; at least 90 % and 60 % in {tally(kept)} crawls",
        verdict(kept),
    )
    wide = [low >= 0.55 for low, _ in ranges]
    report.finding(
        "Fig. 3: the overlap stays at 60 to 80 % for all N from 20 on, so that breadth-first is "
        "fairly immune to self-endorsement",
        f"least {min(r[0] for r in ranges):.0%}, greatest {max(r[1] for r in ranges):.0%}; never "
        f"below 55 % in {tally(wide)} crawls",
        verdict(wide),
    )


def _orderings(report: Report, webs: Sequence[Web]) -> None:
    """What the paper leaves out: other orderings beside breadth-first."""
    by_day, by_top, rows = [], [], []
    better: dict[str, list[bool]] = {name: [] for name in ORDERINGS[1:]}
    for web in webs:
        names = (*ORDERINGS, *(["pagerank"] if web.graph.n_pages <= SMALL else []))
        made = {name: (lambda name=name: make_ordering(name)) for name in names}
        crawls = Crawls(web.name, web.graph, [[seed] for seed in web.single_seeds], made)
        scaled = [scaled_to_mean_one(web.ranks, reached) for reached in crawls.reachable]
        first_days, daily, tops = {}, {}, {}
        for name, orders in crawls.orders.items():
            runs = [
                (order, importance, slices_by_fetch(len(order), DAYS))
                for order, importance in zip(orders, scaled, strict=True)
            ]
            means = [mean_importance_by_slice(*run) for run in runs]
            top = [by_log_x(mean_slice_of_top(*run, TOPS).points()) for run in runs]
            daily[name] = mean_and_spread([mean.points() for mean in means], DAYS, "range")
            tops[name] = from_log_x(mean_and_spread(top, DAYS, "range"))
            first_days[name] = [float(mean.mean[0]) for mean in means]
            rows.append(
                (
                    web.name, name,
                    *(float(np.mean([m.mean[day - 1] for m in means])) for day in (1, 2, 7, 28)),
                    *(
                        float(np.mean([mean_slice_of_top(*run, [n]).mean[0] for run in runs]))
                        for n in (100, 10_000)
                    ),
                )
            )  # fmt: skip
        for name, cases in better.items():
            pairs = zip(first_days[name], first_days["breadth-first"], strict=True)
            cases += [a > b for a, b in pairs]
        by_day.append(_day_panel(web.name, daily, _ideal(web, crawls, scaled)))
        by_top.append(
            Panel(
                tops, web.name, "N, pages of highest PageRank", "mean day of their fetch",
                x_scale="log",
            )
        )  # fmt: skip
    report.figure(
        "orderings", [*by_day, *by_top],
        "The paper's figures 1 and 2 for other orderings, which it does not compare: crawls from "
        "single pages in order alone, keys brought up to date after every page; 'pagerank' at its "
        "default cadence, on the small web alone. 'ideal' takes pages by falling PageRank.",
        title="Breadth-first beside other orderings",
    )  # fmt: skip
    report.table(
        "orderings",
        ("web", "ordering", "day 1", "day 2", "day 7", "day 28", "mean day, top 100", "top 10,000"),
        rows,
        "Mean PageRank by day, and mean day of the best pages; means over single seeds.",
    )
    report.finding(
        "Section 5 (after Cho et al.): orderings by links steer to better pages than breadth-first",
        "mean PageRank of day 1 above that of breadth-first: "
        + ", ".join(f"{name} in {tally(cases)} crawls" for name, cases in better.items()),
        verdict([*better["backlink-count"], *better["opic"]]),
    )


def _ideal(web: Web, crawls: Crawls, scaled: Sequence[np.ndarray]) -> Series:
    """The mean PageRank by day of pages taken by falling PageRank, for the first seed."""
    order = best_order(web.ranks, crawls.reachable[0])
    days = slices_by_fetch(len(order), DAYS)
    return Series(mean_importance_by_slice(order, scaled[0], days).points())


def _day_panel(title: str, series: dict[str, Series], ideal: Series) -> Panel:
    """A panel of mean PageRank by day."""
    return Panel(
        series, title, f"day of the crawl, of {DAYS}", "mean PageRank (mean of all: 1)",
        y_scale="log", y_limits=MEANS_SHOWN, references={"ideal": ideal},
    )  # fmt: skip


def _clock(report: Report, crawls: Sequence[Watched]) -> None:
    """Mercator's politeness: many robots, one connection a site, pauses of ten fetches."""
    compared = [crawl for crawl in crawls if crawl.label.startswith(HALFWAY)]
    a_day = {
        crawl.label: np.column_stack(
            (np.arange(1, DAYS + 1), np.bincount(crawl.days, minlength=DAYS + 1)[1:])
        )
        for crawl in compared
    }
    panels = [
        Panel(a_day, "fetches", f"day of the crawl, of {DAYS}", "pages fetched", y_scale="log"),
        Panel(
            {crawl.label: crawl.day_of_top(TOPS).points() for crawl in compared},
            "best pages", "N, pages of highest PageRank", "mean day of their fetch", x_scale="log",
        ),
    ]  # fmt: skip
    report.figure(
        "clock", panels,
        "Crawls of half of the country, in order alone and against the clock; mean PageRank by day "
        "is above. With 500 robots the rate falls as soon as robots find no ready site; the "
        "paper's fell less, which gave a mean day of 24.5.",
        title="Mercator's politeness",
    )  # fmt: skip
    report.table(
        "clock",
        ("crawl", "mean day of all", "pages per site in the first tenth", "top 100 on day 1"),
        [
            (
                crawl.label, float(crawl.days.mean()), crawl.pages_per_site_early,
                f"{int((crawl.top(100) == 1).sum())}",
            )
            for crawl in compared
        ],
        "What politeness changes. In the paper the mean day is 24.5, and 91 of the top 100 are "
        "fetched on day 1.",
    )  # fmt: skip
    alone, *timed = compared
    wider = [crawl.pages_per_site_early < alone.pages_per_site_early for crawl in timed]
    report.finding(
        "Section 4: thanks to its politeness the crawl is not biased towards a few sites",
        f"pages for each site in the first tenth of the fetches: {alone.pages_per_site_early:.1f} "
        "in order alone, " + ", ".join(f"{c.pages_per_site_early:.1f} ({c.label})" for c in timed),
        verdict(wider),
    )
