"""Castillo, Marin, Rodriguez & Baeza-Yates, Scheduling algorithms for Web crawling, LA-WEB 2004.

Figures 5 and 6, m and k. Batches are in `castillo_batches`, crawl times in `castillo_time`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import castillo_batches
import castillo_time
from castillo_webs import LENGTH, NAMES, NETWORK, middle_of
from measured import DELAY, Crawled, Start, curves_panel, polite_network, small_country
from paper_crawls import SAME, displaced
from report import Report
from verdicts import RULE, GeneratorErrors, above
from webs import hollins, uci

from crawlprio.orderings import make_ordering

ROBOTS = (1, 64, 256)
FEW_ROBOTS = (1, 16, 64)
"""For webs of fewer than 100 sites."""
LEAST_LEAD = 0.001
COUNTRY_SHARE, SMALL_SHARE = 5, 70
"""Divisors of the large country's size: for most crawls (210 PageRank computations), and for
varying m and k."""
BATCHES_OF = {"N/350": 350, "N/70": 70, "N/35": 35}
"""m = 10,000, 50,000 and 100,000 of 3.5 million pages."""
PAGES_A_CONNECTION = (1, 10, 100)


@dataclass(frozen=True, eq=False)
class Setting:
    """One web crawled in one way under all strategies."""

    name: str
    start: Start
    crawls: Mapping[str, Crawled]


def run(shared: Path, output: Path, country_pages: int) -> None:
    """Write the section."""
    report = Report(output, "castillo", "Castillo et al. 2004: Scheduling algorithms for crawling")
    errors = GeneratorErrors.read(output)
    web = small_country(shared, country_pages // COUNTRY_SHARE)
    start = Start(web, web.homes)
    network = polite_network(web)
    recorded = [Start(w, w.homes) for w in (uci(shared), hollins(shared))]
    report.text(
        f"Crawls of a synthetic country of {web.graph.n_pages:,} pages on {web.graph.n_sites:,} "
        "sites, and of the recorded webs uci-ics (88 sites) and hollins (4 sites), all from all "
        "home pages. The country has the proportions of the Chilean Web of April 2004 (3.5 "
        "million pages, 50,000 sites of at most 25,000 pages) at a fifth of its size. Each site "
        f"has one connection at a time, w = {DELAY:g} s pass between the end of a fetch and the "
        "next start on its site, and a connection fetches one page (k = 1) unless stated "
        "otherwise. Keys are updated after every page; Batch and Partial compute PageRank every "
        f"N / 35 pages (m = 100,000 in the paper). {NETWORK}. {RULE} Crawl times depend on the "
        "sizes of sites, which are the paper's, and on the drawn speeds. The generator's errors "
        "are about PageRank and do not affect them."
    )
    settings = _settings([start, *recorded])
    _figure_5(report, settings)
    several = [_robots(begun, settings) for begun in (start, *recorded)]
    _figure_6(report, several, errors)
    batches = {
        "Length": middle_of(several[0][LENGTH][ROBOTS[-1]].order, start.n_pages),
        "Batch": middle_of(settings[0].crawls["batch-pagerank"].order, start.n_pages),
    }
    of_recorded = {
        f"{kind}, uci-ics": middle_of(settings[1].crawls[name].order, recorded[0].n_pages)
        for kind, name in (("Length", LENGTH), ("Batch", "batch-pagerank"))
    }
    castillo_time.whole_crawls(report, start, several[0])
    del settings, several
    castillo_batches.add(report, shared, web.graph, batches, of_recorded, network)
    castillo_time.add(report, shared, start, network)
    _batch_sizes_and_connections(
        report, [Start(w, w.homes) for w in (small_country(shared, country_pages // SMALL_SHARE),)]
        + recorded[:1],
    )  # fmt: skip
    report.finding(
        "No difference between simulator and real crawler in cumulative PageRank (section V)",
        "no real country was crawled here, and a real crawl takes real time: see [both on a real "
        "web of 12 sites](../study.md#how-true-the-simulator-is)",
        [],
        "-",
    )
    report.write()


def _settings(starts: list[Start]) -> list[Setting]:
    """Crawl each web with drawn fetch times."""
    return [
        Setting(_short(begun), begun, begun.crawls(NAMES, polite_network(begun.web)))
        for begun in starts
    ]


def _short(start: Start) -> str:
    """Return the web's name as used in cases."""
    return "country" if start.web.is_synthetic else start.web.name


def _figure_5(report: Report, settings: list[Setting]) -> None:
    """Write cumulative PageRank of all strategies with one robot."""
    report.figure(
        "figure-5",
        [
            curves_panel(s.name, {n: c.points for n, c in s.crawls.items()}, [s.start])
            for s in settings
        ],
        "Figure 5: cumulative PageRank against pages, r = 1. In the paper, Length is above "
        "Batch, Partial and Depth, and Optimal is above all of them except at the end. Depth is "
        "breadth-first, Length larger-sites-first, Optimal omniscient. w = 15 s binds every "
        "strategy, as in the paper; its claims are judged on [every real web](every_web.md).",
        title="PageRank gathered, by ordering (Castillo et al. 2004, figure 5)",
        columns=3,
    )
    report.table(
        "figure-5",
        ["crawl", "strategy", "average cumulative PageRank", "tau", "at 10 %", "at 30 %", "at 50 %",
         "at 80 %"],
        [
            [s.name, f"{NAMES[name]} ({name})", c.average, c.tau,
             *(c.gathered_at(x) for x in (0.1, 0.3, 0.5, 0.8))]
            for s in settings
            for name, c in s.crawls.items()
        ],
        "Share of the PageRank gathered, r = 1. The paper prints no numbers.",
    )  # fmt: skip
    report.write()


def _robots(start: Start, settings: Sequence[Setting]) -> dict[str, dict[int, Crawled]]:
    """Crawl under the three strategies of figure 6 with more robots than figure 5's one."""
    network = polite_network(start.web)
    robots = ROBOTS if start.web.graph.n_sites >= 100 else FEW_ROBOTS
    alone = next(setting for setting in settings if setting.start is start)
    return {
        name: {
            r: alone.crawls[name] if r == 1 else start.crawl(name, replace(network, robots=r))
            for r in robots
        }
        for name in (LENGTH, "breadth-first", "omniscient")
    }


def _figure_6(
    report: Report, several: list[dict[str, dict[int, Crawled]]], errors: GeneratorErrors
) -> None:
    """Write cumulative PageRank as robots increase."""
    webs = ("country", "uci-ics", "hollins")
    report.figure(
        "figure-6",
        [
            curves_panel(
                f"{NAMES[name]}: {web}",
                {f"{name}, r = {r}": crawl.points for r, crawl in crawls[name].items()},
                [],
            )
            for web, crawls in zip(webs[:2], several[:2], strict=True)
            for name in crawls
        ],
        "Figure 6: cumulative PageRank against pages, with increasing numbers of robots. In the "
        "paper, Length changes little and Depth improves. The link is unlimited, w = 15 s.",
        title="PageRank gathered by 1 to 256 robots (Castillo et al. 2004, figure 6)",
        columns=3,
    )
    report.table(
        "figure-6",
        ["web", "strategy", "r = 1", "16", "64", "256", "range"],
        [
            [web, NAMES[name], *(c[r].average if r in c else None for r in (1, 16, 64, 256)),
             _range(c)]
            for web, crawls in zip(webs, several, strict=True)
            for name, c in crawls.items()
        ],
        "Average cumulative PageRank by number of robots.",
    )  # fmt: skip
    by_web = {
        web: crawls
        for web, crawls in zip(webs, several, strict=True)
        if any(displaced(c[1].order, c[max(c)].order) >= SAME for c in crawls.values())
    }
    error = {w: errors.of("lead", is_synthetic=w == "country") for w in webs}
    steadier = {w: _range(c["breadth-first"]) - _range(c[LENGTH]) for w, c in by_web.items()}
    report.finding(
        "Length is more stable than Depth as robots increase (figure 6)",
        "range of the average over the numbers of robots, Length and Depth: "
        + "; ".join(
            f"{_range(c[LENGTH]):.4f}, {_range(c['breadth-first']):.4f} ({w})"
            for w, c in by_web.items()
        ),
        above(steadier, 0.0, error.__getitem__),
        "the smaller range",
        picture="figure-6",
    )
    for name in ("breadth-first", LENGTH):
        gains = {w: c[name][max(c[name])].average - c[name][1].average for w, c in by_web.items()}
        report.finding(
            f"{NAMES[name]} improves as the number of robots increases (figure 6)",
            "change of the average from one robot to the most: "
            + ", ".join(f"{x:+.4f} ({w})" for w, x in gains.items()),
            above(gains, 0.0, error.__getitem__),
            "a higher average",
            why="the paper's sentence can refer to either strategy",
            picture="figure-6",
        )
    report.write()


def _range(crawls: Mapping[int, Crawled]) -> float:
    """Return the largest average minus the smallest."""
    averages = [crawl.average for crawl in crawls.values()]
    return max(averages) - min(averages)


def _batch_sizes_and_connections(report: Report, starts: list[Start]) -> None:
    """Write how m (pages between PageRanks) and k (pages per connection) affect quality."""
    rows: list[list[str | float]] = []
    for start in starts:
        network = polite_network(start.web)
        for name in ("batch-pagerank", "partial-pagerank"):
            averages = [
                start.crawl(make_ordering(name, {"every": max(start.n_pages // m, 1)}), network)
                for m in BATCHES_OF.values()
            ]
            rows.append([_short(start), NAMES[name], *(c.average for c in averages)])
    report.table(
        "m",
        ["web", "strategy", *(f"m = {words}" for words in BATCHES_OF)],
        rows,
        "Average cumulative PageRank by m, the number of pages fetched between computations of "
        "PageRank. The paper ran m = 10,000, 50,000 and 100,000 of 3.5 million pages but does "
        "not show the results separately. w = 15 s, r = 1; the country is of "
        f"{starts[0].web.graph.n_pages:,} pages.",
    )
    report.table(
        "k",
        ["web", "strategy", *(f"k = {k}" for k in PAGES_A_CONNECTION)],
        [
            [_short(start), NAMES[name],
             *(start.crawl(name, replace(polite_network(start.web), robots=64, pages_per_visit=k))
               .average for k in PAGES_A_CONNECTION)]
            for start in starts
            for name in (LENGTH, "breadth-first")
        ],
        "Average cumulative PageRank by k, the number of pages fetched per connection (section "
        "IV.B asks for its effect on quality but does not show it). w = 15 s, r = 64.",
    )  # fmt: skip
