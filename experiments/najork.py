"""Najork & Wiener, Breadth-first search crawling yields high-quality pages, WWW10 2001.

Figures 1, 2 and 4; figure 3, other orderings and the clock are in `najork_beside`. It must not know
how a crawl is simulated or PageRank computed.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import najork_beside
import numpy as np
from crawls import RULE, tally, verdict
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
from webs import country, uci

from crawlprio.evaluation.figures import Panel

ByWeb = dict[str, list[Watched]]

CHOICES = (
    "The paper crawls 328 million pages in 58 days with Mercator, breadth-first from "
    "www.yahoo.com, with 500 threads, one connection to a site and a pause of ten times the last "
    "fetch, and judges pages by PageRank over all it saw. Here are {webs}. In order alone a day is "
    "a 58th of the fetches; against the clock it is a 58th of the time. Each web is crawled to the "
    "end from {n_seeds} single pages (one known to lead far, and pages drawn by lot from which at "
    "least half as much is reached; bands go from the least to the greatest) and from all home "
    "pages at once. As the paper's crawl left most of the web unseen, other crawls stop halfway, "
    "judged by PageRank of what they saw alone: in order alone, and, of the country, against the "
    "clock with the paper's politeness, with 500 robots and with as many for each site as the "
    "paper had, whose 500 met 7 million sites. There sizes of pages and latency and speed of sites "
    "are drawn, with medians of 12 kB, 0.2 s and 50 kB/s, which are our choice. PageRank has d = "
    "0.85 and a mean of 1 over the pages that count. The paper's numbers are quoted from memory: "
    "the text that we had of it had lost its digits. " + RULE
)


def run(shared: Path, output: Path, country_pages: int) -> None:
    """Write the section."""
    title = "Najork & Wiener 2001: breadth-first search crawling yields high-quality pages"
    report = Report(output, "najork", title)
    webs = [country(shared, country_pages), uci(shared)]
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
    _judge_quality(report, watched)
    _judge_top(report, watched)
    najork_beside.add(report, webs, watched)
    report.write()


def _by_day(report: Report, watched: ByWeb) -> None:
    """Figures 1 and 4."""
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
        "Figures 1 and 4: mean PageRank of the pages fetched on each day, above by all links, "
        "below by links between sites. In the paper it falls from 7.04 on day 1 to 2.07 on day 2 "
        "and 0.59 after four weeks, by links between sites from 12.1 to 1.8, and 0.6 on the last.",
        title="Breadth-first crawls day by day",
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
        "Figure 1 in numbers. The paper says 'after' the first, second and fourth week; here it is "
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
    """Figure 2."""
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
        "Figure 2: mean day on which the N pages of highest PageRank were fetched. In the paper it "
        "is 1 for the top 10, moves between 2 and 3 from 100 to 300, and then rises to the mean "
        "day of the whole crawl, 24.5 (here 29.5 in order alone, all days being alike).",
        title="When the best pages were fetched",
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
        "Figure 2 in numbers. The paper's top 100 is of 328 million pages: N counts for more on a "
        "smaller web.",
    )  # fmt: skip


def _judge_quality(report: Report, watched: ByWeb) -> None:
    """The claims about figures 1 and 4."""
    crawls = [crawl for of_web in watched.values() for crawl in of_web]
    ratios = [float(crawl.by_day.mean[0] / crawl.by_day.mean[1]) for crawl in crawls]
    steep = [ratio > 3.0 for ratio in ratios]
    report.finding(
        "Fig. 1: the mean PageRank of day 1 is more than three times that of day 2",
        f"{min(ratios):.2f} to {max(ratios):.2f} times; over three in {tally(steep)} crawls "
        f"({_by_kind(crawls, steep)}); on day 1 {_by_web(watched, lambda c: c.by_day.mean[0])}",
        verdict(steep),
        _polite(crawls, steep),
    )
    weeks = ((0, 1), (1, 7), (7, 14), (14, 28), (28, DAYS))
    means = [[float(np.nanmean(c.by_day.mean[a:b])) for a, b in weeks] for c in crawls]
    falling = [of_weeks == sorted(of_weeks, reverse=True) for of_weeks in means]
    best_first = [of_weeks[0] == max(of_weeks) for of_weeks in means]
    report.finding(
        "Fig. 1: quality falls as the crawl goes on: day 1, the rest of week 1, week 2, weeks 3 "
        "and 4, the rest",
        f"falls at each step in {tally(falling)} crawls ({_by_kind(crawls, falling)}); day 1 is "
        f"best in {tally(best_first)}",
        verdict(falling),
    )
    higher = [crawl.remote_by_day.mean[0] > crawl.by_day.mean[0] for crawl in crawls]
    steeper = [
        crawl.remote_by_day.mean[0] / crawl.remote_by_day.mean[1] > ratio
        for crawl, ratio in zip(crawls, ratios, strict=True)
    ]
    report.finding(
        "Fig. 4: by links between sites day 1 is better still, and the fall after it sharper",
        f"day 1 higher in {tally(higher)} crawls ({_by_kind(crawls, higher)}), "
        f"{_by_web(watched, lambda c: c.remote_by_day.mean[0])}; the ratio to day 2 larger in "
        f"{tally(steeper)}",
        verdict([a and b for a, b in zip(higher, steeper, strict=True)]),
    )


def _judge_top(report: Report, watched: ByWeb) -> None:
    """The claims about figure 2."""
    crawls = [crawl for of_web in watched.values() for crawl in of_web]
    found = [[int((crawl.top(n) == 1).sum()) for n in (10, 100)] for crawl in crawls]
    tens, hundreds = zip(*found, strict=True)
    met = [ten == 10 and hundred >= 91 for ten, hundred in found]
    report.finding(
        "Fig. 2: all of the top 10 pages and 91 of the top 100 are fetched on day 1",
        f"{min(tens)} to {max(tens)} of the top 10, {min(hundreds)} to {max(hundreds)} of the top "
        f"100; as in the paper in {tally(met)} crawls ({_by_kind(crawls, met)})",
        verdict(met),
        _polite(crawls, met),
    )
    rising = []
    for crawl in crawls:
        sizes = [n for n in (100, 1000, 10_000, 100_000, 1_000_000) if n < len(crawl.order)]
        days = crawl.day_of_top([*sizes, len(crawl.order)]).mean.tolist()
        rising.append(days == sorted(days))
    report.finding(
        "Fig. 2: from the top 400 on, the mean day rises with N to that of the whole crawl",
        f"rises with each power of ten from N = 100 in {tally(rising)} crawls",
        verdict(rising),
    )
    shares = {
        name: [
            float((crawl.top(len(crawl.order) // 100) <= DAYS // 10).mean())
            for crawl in of_web
            if crawl.label == SINGLE
        ]
        for name, of_web in watched.items()
    }
    report.finding(
        "Section 5: important pages are found early wherever the crawl starts",
        "share of the top 1 % found in the first tenth of the crawl, least and most over single "
        "seeds: " + "; ".join(f"{n} {min(s):.0%} to {max(s):.0%}" for n, s in shares.items())
        + "; taken to hold where they differ by less than 10 points",
        verdict([max(s) - min(s) < 0.1 for s in shares.values()]),
    )  # fmt: skip


def _by_web(watched: ByWeb, value: Callable[[Watched], float]) -> str:
    """The mean of a value over the crawls from one page, for each web, in words."""
    return "; ".join(
        f"{name} {np.mean([value(c) for c in crawls if c.label == SINGLE]):.2f}"
        for name, crawls in watched.items()
    )


def _polite(crawls: list[Watched], cases: list[bool]) -> str:
    """In how many of the crawls that are as polite as the paper's something holds, in words."""
    polite = [case for crawl, case in zip(crawls, cases, strict=True) if "robot" in crawl.label]
    return f"with the paper's politeness, against the clock, it holds in {tally(polite)}"


def _by_kind(crawls: list[Watched], cases: list[bool]) -> str:
    """In how many crawls of each kind something holds, in words."""
    kinds = dict.fromkeys(crawl.label for crawl in crawls)
    of_kind = {
        kind: [case for crawl, case in zip(crawls, cases, strict=True) if crawl.label == kind]
        for kind in kinds
    }
    return "; ".join(f"{kind}: {tally(held)}" for kind, held in of_kind.items())
