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
    margins_by_day,
    watch,
    watch_clock,
)
from report import Report
from verdicts import RULE, Case, GeneratorErrors
from webs import Web, country, hollins, uci

from crawlprio.evaluation.figures import Panel

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
    "paper, whose 500 met 7 million sites. With a clock, page sizes and the latency and speed of "
    "sites are drawn, with medians of 12 kB, 0.2 s and 50 kB/s (our choice). PageRank has d = "
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
    claims = Claims(report, webs, watched, errors)
    claims.on_quality()
    claims.on_top_pages()
    claims.on_overlap()
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
        "Figure 2 in numbers. The paper's top 100 is out of 328 million pages; the same N is a "
        "larger share of a smaller web.",
    )  # fmt: skip


class Claims:
    """Judges the claims about breadth-first crawls by all crawls of all webs."""

    def __init__(
        self, report: Report, webs: list[Web], watched: ByWeb, errors: GeneratorErrors
    ) -> None:
        self._report, self._errors = report, errors
        self._found: list[tuple[str, bool, dict[str, float]]] = []
        for web in webs:
            n_of_kind: dict[str, int] = {}
            for crawl in watched[web.name]:
                n_of_kind[crawl.label] = n_of_kind.get(crawl.label, 0) + 1
                number = f" {n_of_kind[crawl.label]}" if n_of_kind[crawl.label] > 1 else ""
                kind = f"{web.name.split(' of ')[0]}, {crawl.label}{number}"
                self._found.append((kind, web.is_synthetic, margins_by_day(web, crawl)))

    def cases(self, measure: str, least: float, only: str = "") -> list[Case]:
        """Return a case for each crawl; the claim holds if the measure reaches the bound."""
        return [
            Case(
                name,
                found[measure] - least + 1e-12,
                self._errors.of(measure, is_synthetic=is_synthetic),
            )
            for name, is_synthetic, found in self._found
            if only in name
        ]

    def both(self, *wanted: tuple[str, float], only: str = "") -> list[Case]:
        """Return a case for each crawl; the case fails if any of several measures does.

        The measure nearest to undecided represents the case: of those that fail, or else of all.
        """
        cases = []
        for several in zip(*(self.cases(m, x, only) for m, x in wanted), strict=True):
            failed = [case for case in several if not case.holds and case.decides]
            open_ = [case for case in several if not case.decides]
            cases.append((failed or open_ or list(several))[0])
        return cases

    def span(self, measure: str, form: str = ".2f") -> str:
        """Return the least and the greatest value for each kind of web, in words."""
        words = []
        for is_synthetic, name in ((True, "country"), (False, "recorded")):
            values = [found[measure] for _, m, found in self._found if m is is_synthetic]
            words.append(f"{min(values):{form}} to {max(values):{form}} ({name})")
        return ", ".join(words)

    def on_quality(self) -> None:
        """Write figures 1 and 4."""
        self._report.finding(
            "Fig. 1: the mean PageRank of day 1 is more than three times that of day 2",
            self.span("day 1 by day 2") + " times",
            self.cases("day 1 by day 2", 3.0),
            "the ratio is 3 or more",
            picture="by-day",
        )
        self._report.finding(
            "Fig. 1: the pages of day 1 are the best of the crawl, with about 7 times the mean",
            self.span("mean PageRank of day 1"),
            self.cases("mean PageRank of day 1", 5.0),
            "the mean PageRank of day 1 is 5 or more",
            picture="by-day",
            name="breadth-first-early",
        )
        self._report.finding(
            "Fig. 1: quality falls as the crawl goes on: day 1, the rest of week 1, week 2, "
            "weeks 3 and 4, the rest",
            "smallest fall from one of these to the next: "
            + self.span("least fall from stretch to stretch"),
            self.cases("least fall from stretch to stretch", 0.0),
            "the mean falls at each step",
            picture="by-day",
        )
        self._report.finding(
            "Fig. 4: by links between sites, day 1 is even better, and the fall after it is "
            "sharper",
            "difference on day 1: " + self.span("day 1, remote less all links")
            + "; in the ratio to day 2: " + self.span("day 1 by day 2, remote less all links"),
            self.both(
                ("day 1, remote less all links", 0.0),
                ("day 1 by day 2, remote less all links", 0.0),
            ),
            "both are larger than by all links",
            picture="by-day",
        )  # fmt: skip

    def on_top_pages(self) -> None:
        """Write figure 2."""
        self._report.finding(
            "Fig. 2: all of the top 10 pages and 91 of the top 100 are fetched on day 1",
            "of the top 10: " + self.span("top 10 on day 1", ".0f")
            + "; of the top 100: " + self.span("top 100 on day 1", ".0f"),
            self.both(("top 10 on day 1", 10.0), ("top 100 on day 1", 91.0)),
            "10 and at least 91",
            why="N pages are a much larger share of these webs than of 328 million pages",
            picture="top",
        )  # fmt: skip
        self._report.finding(
            "Fig. 2: beyond the top 400, the mean day rises with N to that of the whole crawl",
            "smallest rise of the mean day from one power of ten to the next: "
            + self.span("least rise of the mean day with N"),
            self.cases("least rise of the mean day with N", 0.0),
            "it rises with each power of ten from N = 100",
            picture="top",
        )
        self._report.finding(
            "Section 5: important pages are found early wherever the crawl starts",
            "share of the top 1 % found in the first tenth of the crawl: "
            + self.span("top 1 % in the first tenth", ".0%"),
            self.cases("top 1 % in the first tenth", 0.3),
            "at least three times as many as in a random tenth, from every start",
            picture="top",
            name="breadth-first-finds-top",
        )

    def on_overlap(self) -> None:
        """Write figure 3."""
        self._report.finding(
            "Fig. 3: of the top million pages, 96 % are fetched in the first 28 days, and 76 % "
            "are in the top million by then",
            "of the same share of the pages: " + self.span("top 0.3 % fetched in 28 days", ".0%")
            + " fetched, " + self.span("overlap of the top 0.3 %", ".0%") + " in its top",
            self.both(
                ("top 0.3 % fetched in 28 days", 0.91), ("overlap of the top 0.3 %", 0.71),
                only="one page",
            ),
            "at most 5 points less",
            picture="overlap",
        )  # fmt: skip
        self._report.finding(
            "Fig. 3: the overlap stays at 60 to 80 % for all N from 20, so breadth-first is "
            "fairly immune to self-endorsement",
            "smallest overlap: " + self.span("least overlap from N = 20", ".0%"),
            self.cases("least overlap from N = 20", 0.6),
            "never below 60 %",
            picture="overlap",
        )
