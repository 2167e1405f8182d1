"""Najork & Wiener 2001 beyond figures 1 and 2: figure 3, other orderings, and timed crawls."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from measures import mean_and_spread
from najork_crawls import (
    DAYS,
    EARLY_DAYS,
    HALFWAY,
    HOMES,
    MEANS_SHOWN,
    SINGLE,
    TOP_SHARE,
    TOPS,
    Watched,
    by_log_x,
    from_log_x,
)
from paper_crawls import Crawls
from report import Report
from verdicts import Case, GeneratorErrors, Margin, above
from webs import Web

from crawlprio.measure.crawl_models import pagerank_seen
from crawlprio.measure.crawl_order import (
    best_order,
    mean_importance_by_slice,
    mean_slice_of_top,
    overlap_of_top,
    reachable,
    scaled_to_mean_one,
    slices_by_fetch,
)
from crawlprio.measure.importance import importance_of
from crawlprio.orderings import make_ordering
from crawlprio.show.figures import Panel, Series
from crawlprio.simulator.timed import crawl_order

ORDERINGS = ("breadth-first", "backlink-count", "opic", "random")
_BREADTH_FIRST = {"breadth-first": lambda: make_ordering("breadth-first")}
ARCHIVE, ARCHIVE_DRAWS = "site by site", 20
"""The Internet Archive's crawl as the paper describes it, and how many draws are averaged."""
WEIGHTS: dict[str, tuple[str, dict[str, float]]] = {
    "all links alike": ("pagerank", {}),
    "a remote link as 4 local ones": ("weighted-pagerank", {"times": 4.0}),
    "80 % to remote links": ("weighted-pagerank", {"share": 0.8}),
    "remote links alone": ("remote-pagerank", {}),
}
"""The ways to divide a page's rank among its links that the paper's last section proposes."""
SMALL = 100_000
"""Largest web, in pages, on which the ordering by PageRank is shown."""


def add(
    report: Report,
    webs: Sequence[Web],
    recorded: Sequence[Web],
    watched: dict[str, list[Watched]],
    errors: GeneratorErrors,
) -> None:
    """Write figure 3 and what goes beyond the paper; the first web also has timed crawls."""
    report.heading("Were early pages ranked high because they were early?")
    _overlap(report, webs, watched)
    report.heading("Other orderings")
    _orderings(report, webs, errors)
    report.heading("Links within a site and between sites")
    _weights(report, recorded)
    report.heading("Against the clock")
    _clock(report, watched[webs[0].name])


def _overlap(report: Report, webs: Sequence[Web], watched: dict[str, list[Watched]]) -> None:
    """Write figure 3."""
    panels, rows = [], [("paper", "one page", "96 %", "76 %", "60 % to 80 %")]
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
            early = float((crawl.top(top) <= EARLY_DAYS).mean())
            agree = float(overlap_of_top(partial, whole, [top]).mean[0])
            from_20 = lines[crawl.label].mean[lines[crawl.label].x >= 20]
            span = f"{from_20.min():.0%} to {from_20.max():.0%}"
            rows.append((web.name, crawl.label, f"{early:.0%}", f"{agree:.0%}", span))
        panels.append(
            Panel(
                {label: line.points() for label, line in lines.items()},
                web.name, "N, pages of highest PageRank", "share of the top N in both",
                x_scale="log", y_percent=True, y_limits=(0.0, 1.0),
            )
        )  # fmt: skip
    report.figure(
        "overlap", panels,
        "Figure 3: overlap of two top-N lists by PageRank, one of the graph seen in the first 28 "
        "of 58 days and one of the graph seen by the whole crawl. In the paper it is 80 % at N = "
        "20 and stays between 60 and 80 %.",
        title="The best pages after 28 days and after 58 (Najork & Wiener 2001, figure 3)",
    )  # fmt: skip
    report.table(
        "overlap", ("web", "seeds", "fetched in 28 days", "in its top too", "overlap from N = 20"),
        rows,
        f"The paper's top million is the top {TOP_SHARE:.2%} of its pages. The table shows how "
        "many of these were fetched in the first 28 days, and how many are in the top list of "
        "the same size by the PageRank of those days.",
    )  # fmt: skip


def _orderings(report: Report, webs: Sequence[Web], errors: GeneratorErrors) -> None:
    """Write what the paper discusses but does not measure: crawls other than breadth-first."""
    by_day, by_top, rows = [], [], []
    uniform: list[Case] = []
    seen: list[float] = []
    for web in webs:
        names = (*ORDERINGS, *(["pagerank"] if web.graph.n_pages <= SMALL else []))
        made = {name: (lambda name=name: make_ordering(name)) for name in names}
        crawls = Crawls(web.name, web.graph, [[seed] for seed in web.single_seeds], made)
        scaled = [scaled_to_mean_one(web.ranks, reached) for reached in crawls.reachable]
        daily, tops = {}, {}
        for name, orders in crawls.orders.items():
            runs = [
                (order, importance, slices_by_fetch(len(order), DAYS))
                for order, importance in zip(orders, scaled, strict=True)
            ]
            means = [mean_importance_by_slice(*run) for run in runs]
            top = [by_log_x(mean_slice_of_top(*run, TOPS).points()) for run in runs]
            daily[name] = mean_and_spread([mean.points() for mean in means], DAYS, "range")
            tops[name] = from_log_x(mean_and_spread(top, DAYS, "range"))
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
        archive = _archive(web)
        error = errors.of("mean PageRank of day 1", is_synthetic=web.is_synthetic)
        bias = archive[:, 0] - 1.0
        away = (np.sign(bias.mean()) * bias).tolist()
        uniform.append(Margin([0.5], away).case(web.name.split(" of ")[0], least=error))
        mean = archive.mean(axis=0)
        seen.append(float(mean[0]))
        rows.append((web.name, ARCHIVE, *(float(mean[d - 1]) for d in (1, 2, 7, 28)), None, None))
        daily[ARCHIVE] = Series(np.column_stack((np.arange(1, DAYS + 1), mean)))
        by_day.append(_day_panel(web.name, daily, _best(web, crawls, scaled)))
        by_top.append(
            Panel(
                tops, web.name, "N, pages of highest PageRank", "mean day of their fetch",
                x_scale="log",
            )
        )  # fmt: skip
    report.figure(
        "orderings", [*by_day, *by_top],
        "The paper's figures 1 and 2 for other orderings, which it discusses but does not "
        "measure. Crawls start from single pages and run by order alone; keys are updated after "
        "every page, and 'pagerank' runs at its default cadence, on the small web only. 'site by "
        "site' is the Internet Archive's crawl: starting from all home pages, random sites are "
        f"exhausted one after another; it is the mean of {ARCHIVE_DRAWS} such crawls. "
        "'upper-bound' takes pages by descending PageRank.",
        title="Breadth-first beside other orderings (Najork & Wiener 2001, section 5)",
    )  # fmt: skip
    report.table(
        "orderings",
        ("web", "ordering", "day 1", "day 2", "day 7", "day 28", "mean day, top 100", "top 10,000"),
        rows,
        "Mean PageRank by day, and mean day of the best pages; means over single seeds.",
    )
    report.finding(
        "Section 5: an archive's crawl, site by site, has no bias towards good pages",
        f"mean PageRank of day 1 (mean of all pages: 1): {min(seen):.2f} to {max(seen):.2f}",
        uniform,
        "the mean of day 1 is within 0.5 of the overall mean",
        picture="orderings",
    )


def _archive(web: Web) -> np.ndarray:
    """Return mean PageRank by draw and day of crawls that exhaust random sites one after another.

    This is an idealisation: the crawler knows all home pages, and crawls each site breadth-first.
    The paper's archive takes 64 of millions of sites at a time; here a thousandth, at least 1.
    """
    order = crawl_order(web.graph, web.homes, make_ordering("breadth-first"))
    ranks = scaled_to_mean_one(web.ranks, reachable(web.graph, web.homes))
    slices = slices_by_fetch(len(order), DAYS)
    rng = np.random.default_rng(2001)
    at_a_time = max(web.graph.n_sites // 1000, 1)
    drawn = []
    for _ in range(ARCHIVE_DRAWS):
        turn = rng.permutation(web.graph.n_sites) // at_a_time
        by_turn = order[np.argsort(turn[web.graph.site[order]], kind="stable")]
        drawn.append(mean_importance_by_slice(by_turn, ranks, slices).mean)
    return np.array(drawn)


def _best(web: Web, crawls: Crawls, scaled: Sequence[np.ndarray]) -> Series:
    """Return the mean PageRank by day of pages in descending PageRank, for the first seed."""
    order = best_order(web.ranks, crawls.reachable[0])
    days = slices_by_fetch(len(order), DAYS)
    return Series(mean_importance_by_slice(order, scaled[0], days).points())


def _day_panel(title: str, series: dict[str, Series], best: Series) -> Panel:
    """Return a panel of mean PageRank by day."""
    return Panel(
        series, title, f"day of the crawl, of {DAYS}", "mean PageRank (mean of all: 1)",
        y_scale="log", y_limits=MEANS_SHOWN, references={"upper-bound": best},
    )  # fmt: skip


def _weights(report: Report, webs: Sequence[Web]) -> None:
    """Write PageRank with heavier links between sites, which the paper leaves to future work."""
    rows, good = [], {}
    for web in webs:
        crawls = Crawls(web.name, web.graph, [[s] for s in web.single_seeds], _BREADTH_FIRST)
        orders = crawls.orders["breadth-first"]
        least = np.full(len(orders), np.inf)
        plain = importance_of(web.graph)
        for words, (name, options) in WEIGHTS.items():
            ranks = importance_of(web.graph, name, options=options)
            means = [
                mean_importance_by_slice(
                    order, scaled_to_mean_one(ranks, reached), slices_by_fetch(len(order), DAYS)
                ).mean
                for order, reached in zip(orders, crawls.reachable, strict=True)
            ]
            least = np.minimum(least, [mean[0] for mean in means])
            reached = crawls.reachable[0]
            rows.append(
                (
                    web.name, words,
                    *(float(np.mean([mean[day - 1] for mean in means])) for day in (1, 2, 7, 28)),
                    f"{_top_in_common(plain, ranks, reached):.0%}",
                )
            )  # fmt: skip
        good |= crawls.cases((least - 3.0).tolist())
    report.table(
        "weights",
        ("web", "weight", "day 1", "day 2", "day 7", "day 28", "of the top 1 % by all links"),
        rows,
        "The paper's last section proposes to weight links between sites (remote links) more "
        "than links within a site, either by a fixed share of a page's rank or by a fixed ratio. "
        "Its examples, 80 % and four times, are quoted from memory. The table shows mean "
        "PageRank by day of breadth-first crawls, as means over single seeds, and how much of "
        "the top 1 % by all links is also in the top 1 % by each weighting. Recorded webs only: "
        "synthetic webs cannot show the difference (see the generator's errors).",
    )
    report.finding(
        "(not in the paper) However local and remote links are weighted, a breadth-first crawl "
        "begins with good pages",
        f"smallest mean PageRank of day 1 over {len(WEIGHTS)} weightings: "
        + ", ".join(f"{3.0 + margin:.2f} ({name})" for name, margin in good.items()),
        above(good),
        "day 1 has three times the mean under each weighting",
        name="weights",
    )


def _top_in_common(one: np.ndarray, other: np.ndarray, reached: np.ndarray) -> float:
    """Return the share of the top hundredth by one importance that is in the top by another."""
    n = max(int(reached.sum()) // 100, 1)
    pages = np.flatnonzero(reached)
    tops = [pages[np.argsort(-ranks[pages], kind="stable")[:n]] for ranks in (one, other)]
    return len(np.intersect1d(*tops)) / n


def _clock(report: Report, crawls: Sequence[Watched]) -> None:
    """Write Mercator's politeness: many robots, one connection per site, pauses of ten fetches."""
    compared = [crawl for crawl in crawls if crawl.label.startswith(HALFWAY)]
    a_day = {
        crawl.label: np.column_stack(
            (np.arange(1, DAYS + 1), np.bincount(crawl.days, minlength=DAYS + 1)[1:])
        )
        for crawl in compared
    }
    panels = [
        Panel(
            a_day, "Pages fetched each day", f"day of the crawl, of {DAYS}", "pages fetched",
            y_scale="log",
        ),
        Panel(
            {crawl.label: crawl.day_of_top(TOPS).points() for crawl in compared},
            "When the best pages were fetched", "N, pages of highest PageRank",
            "mean day of their fetch", x_scale="log",
        ),
    ]  # fmt: skip
    report.figure(
        "clock", panels,
        "Crawls of half of the country, by order alone and with a clock; mean PageRank by day is "
        "shown above. With 500 robots the rate falls as soon as robots find no ready site. The "
        "paper's rate fell less, which gave a mean day of 24.5.",
        title="With Mercator's politeness, and without (Najork & Wiener 2001, section 4)",
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
    wider = {
        f"country, {c.label}": alone.pages_per_site_early / c.pages_per_site_early for c in timed
    }
    report.finding(
        "Section 4: thanks to its politeness the crawl is not biased towards a few sites",
        f"pages per site in the first tenth of the fetches: {alone.pages_per_site_early:.1f} by "
        "order alone, " + ", ".join(f"{c.pages_per_site_early:.1f} ({c.label})" for c in timed),
        above(wider, 1.0),
        "fewer than by order alone; this depends on the sizes of sites, which are those of a "
        "real crawl",
        picture="clock",
    )
