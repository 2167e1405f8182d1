"""Najork & Wiener, Breadth-first search crawling yields high-quality pages, WWW10 2001.

Figures 1, 2 and 4; figure 3, other orderings and the clock are in `najork_beside`.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import najork_beside
from najork_crawls import (
    DAYS,
    HALFWAY,
    MEANS_SHOWN,
    SINGLE,
    TOPS,
    Watched,
    by_log_x,
    from_log_x,
    lines,
    watch,
    watch_clock,
)
from report import Report
from verdicts import RULE, GeneratorErrors
from webs import country, hollins, uci

from crawlprio.show.figures import Panel

COUNTRY_SHARE = 5
"""Divisor of the large country's size; that part of it is crawled."""

ByWeb = dict[str, list[Watched]]

CHOICES = (
    "The paper crawls 328 million pages in 58 days with Mercator, breadth-first from "
    "www.yahoo.com. Mercator uses 500 threads, one connection per site and a pause of ten times "
    "the last fetch. The paper judges pages by PageRank over everything it saw. We use {webs}. A "
    "day is a 58th of the fetches in crawls by order alone, and a 58th of the time in crawls "
    "with a clock. Each web is crawled to the end, from {n_seeds} single pages and from all home "
    "pages at once. The single pages are one known to reach most of the web and random pages "
    "that reach at least half as much; bands show the range from least to greatest. The paper's "
    "crawl left most of the web unseen. So other crawls stop halfway and are judged by PageRank "
    "of what they saw alone: by order alone and, for the country, with a clock and the paper's "
    "politeness. The latter run once with 500 robots and once with as many per site as in the "
    "paper, whose 500 met 7 million sites. The pause has no maximum here, as in the paper; live "
    "crawls cap it at 60 s (`CRAWLPRIO_MAX_ADAPTIVE_DELAY`). With a clock, page sizes and the "
    "latency and speed of sites are drawn, with medians of 12 kB, 0.2 s and 50 kB/s (our "
    "choice). PageRank has d = "
    "0.85 and a mean of 1 over the pages that count. The paper's numbers are quoted from memory, "
    "because our copy of its text had lost its digits. " + RULE
)


def run(shared: Path, output: Path, country_pages: int) -> None:
    """Write the section."""
    title = "Najork & Wiener 2001: breadth-first search crawling yields high-quality pages"
    report = Report(output, "najork", title)
    webs = [country(shared, country_pages // COUNTRY_SHARE), uci(shared)]
    watched = {web.name: watch(web) for web in webs}
    of_country = watched[webs[0].name]
    halfway = next(crawl for crawl in of_country if crawl.label == HALFWAY)
    of_country += watch_clock(webs[0], len(halfway.order))
    sizes = " and ".join(
        f"{web.name} ({len(watched[web.name][0].order):,} reached from the first seed, "
        f"{web.graph.n_sites:,} sites)"
        for web in webs
    )
    report.text(CHOICES.format(webs=sizes, n_seeds=len(webs[0].single_seeds)))
    report.heading("Breadth-first")
    _by_day(report, watched)
    _top(report, watched)
    errors = GeneratorErrors.read(output)
    najork_beside.add(report, webs, [webs[1], hollins(shared)], watched, errors)
    report.write()


def _by_day(report: Report, watched: ByWeb) -> None:
    """Write figures 1 and 4."""
    kinds: dict[str, Callable[[Watched], list[tuple[float, float]]]] = {
        "all links": lambda crawl: crawl.by_day.points(),
        "links between sites": lambda crawl: crawl.remote_by_day.points(),
    }
    panels = [
        Panel(
            lines(crawls, points), f"{name}: {kind}", f"day of the crawl, of {DAYS}",
            "mean PageRank (mean of all: 1)", y_scale="log", y_limits=MEANS_SHOWN,
        )
        for kind, points in kinds.items()
        for name, crawls in watched.items()
    ]  # fmt: skip
    report.figure(
        "by-day", panels,
        "Figures 1 and 4: mean PageRank of the pages fetched on each day, by all links (top) and "
        "by links between sites (bottom). In the paper it falls from 7.04 on day 1 to 2.07 on "
        "day 2 and 0.59 after four weeks; by links between sites, from 12.1 to 1.8, and to 0.6 "
        "on the last day.",
        title="Breadth-first crawls day by day (Najork & Wiener 2001, figures 1 and 4)",
    )  # fmt: skip
    paper = {1: 7.04, 2: 2.07, 7: 1.08, 14: 0.84, 28: 0.59, DAYS: None}
    rows = [
        (name, crawl.label, *(float(crawl.by_day.mean[day - 1]) for day in paper))
        for name, crawls in watched.items()
        for crawl in crawls
    ]
    report.table(
        "by-day", ("web", "seeds", *(f"day {day}" for day in paper)),
        [("paper", SINGLE, *paper.values()), *rows],
        "Figure 1 in numbers. The paper says 'after' the first, second and fourth week; we take "
        "the last day of each.",
    )  # fmt: skip
    remote = {1: 12.1, 2: 1.8, 4: 1.0, DAYS: 0.6}
    rows = [
        (name, crawl.label, *(float(crawl.remote_by_day.mean[day - 1]) for day in remote))
        for name, crawls in watched.items()
        for crawl in crawls
    ]
    report.table(
        "remote-by-day", ("web", "seeds", *(f"day {day}" for day in remote)),
        [("paper", SINGLE, *remote.values()), *rows],
        "Figure 4 in numbers: PageRank by links between sites.",
    )  # fmt: skip


def _top(report: Report, watched: ByWeb) -> None:
    """Write figure 2."""
    panels = []
    for name, crawls in watched.items():
        drawn = lines(crawls, lambda crawl: by_log_x(crawl.day_of_top(TOPS).points()))
        panels.append(
            Panel(
                {label: from_log_x(line) for label, line in drawn.items()}, name,
                "N, pages of highest PageRank", "mean day of their fetch", x_scale="log",
            )
        )  # fmt: skip
    report.figure(
        "top", panels,
        "Figure 2: mean day on which the N pages with the highest PageRank were fetched. In the "
        "paper it is 1 for the top 10, moves between 2 and 3 from 100 to 300, and then rises to "
        "the mean day of the whole crawl, 24.5 (here 29.5 by order alone, because all days are "
        "equal).",
        title="When the best pages were fetched (Najork & Wiener 2001, figure 2)",
    )  # fmt: skip
    sizes = (10, 100, 1000, 10_000)
    rows = [
        (
            name, crawl.label, *(f"{int((crawl.top(n) == 1).sum())}" for n in (10, 100)),
            *(float(mean) for mean in crawl.day_of_top([*sizes, len(crawl.order)]).mean),
        )
        for name, crawls in watched.items()
        for crawl in crawls
    ]  # fmt: skip
    report.table(
        "top",
        (
            "web", "seeds", "top 10 on day 1", "top 100 on day 1",
            *(f"mean day, top {n:,}" for n in sizes), "all",
        ),
        [("paper", SINGLE, "10", "91", 1.0, None, None, None, 24.5), *rows],
        "Figure 2 in numbers. The paper's top 100 is out of 328 million pages; the same N is a "
        "larger share of a smaller web.",
    )  # fmt: skip
