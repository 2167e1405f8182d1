"""Castillo, Marin, Rodriguez & Baeza-Yates, Scheduling algorithms for Web crawling, LA-WEB 2004.

It must not know how crawls are simulated or figures are drawn.
"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
from measured import (
    DELAY,
    Crawled,
    Start,
    curves_panel,
    judged,
    polite_network,
    small_country,
    with_bandwidth,
)
from numpy.typing import NDArray
from report import Report
from webs import uci

from crawlprio.evaluation import (
    SpeedUps,
    active_robots,
    cumulative_by_time,
    depth_from_seeds,
    fit_power_law,
    log_histogram,
    mean_importance_by_depth,
    mean_importance_by_slice,
    scaled_to_mean_one,
    sizes_falling,
    slices_by_time,
    speed_ups,
)
from crawlprio.evaluation.figures import Panel, Series, distribution_panel
from crawlprio.linkgraph import LinkGraph
from crawlprio.orderings import make_ordering
from crawlprio.simulator import Network, TimedCrawl, timed_crawl

LENGTH = "larger-sites-first"

NAMES = {
    "omniscient": "Optimal",
    LENGTH: "Length",
    "breadth-first": "Depth",
    "batch-pagerank": "Batch",
    "partial-pagerank": "Partial",
}
"""The paper's names of the strategies."""

ROBOTS = (1, 64, 256)
BANDWIDTHS = (20_000_000.0, 2_000_000.0, 200_000.0, 20_000.0, 2_000.0, 200.0)
PRINTED_SPEED_UPS = {
    20_000_000.0: (1.0, 54.6, 220.1),
    2_000_000.0: (1.0, 54.3, 204.3),
    200_000.0: (1.0, 43.0, 114.1),
    20_000.0: (1.0, 27.0, 83.3),
    2_000.0: (1.5, 3.8, 16.0),
    200.0: (6.3, 1.6, 3.0),
}
"""Table I of the paper."""

CRAWL_DAYS, DAY = 8, 86_400.0
REAL_ROBOTS = 1000
FEWEST_AT_DEPTH = 30
LEAST_LEAD = 0.001
BATCH_BANDWIDTHS = {
    "2 kB/s": 2e3,
    "20 kB/s": 2e4,
    "200 kB/s": 2e5,
    "2 MB/s": 2e6,
    "20 MB/s": 2e7,
}
BATCH_ROBOTS = 256

NETWORK = (
    "Sizes of pages are those of Barford & Crovella (mean some 21 kB; the paper's crawl had 24 "
    "kB); latencies and speeds of sites are drawn (log-normal, medians 0.2 s and 50 kB/s), since "
    "the paper's are not published"
)


def run(shared: Path, output: Path, country_pages: int) -> None:
    """Write the section."""
    report = Report(output, "castillo", "Castillo et al. 2004: Scheduling algorithms for crawling")
    web = small_country(shared, country_pages)
    start = Start(web, web.homes)
    network = polite_network(web)
    report.text(
        f"All crawls are of a made-up country of {web.graph.n_pages:,} pages on "
        f"{web.graph.n_sites:,} sites, in the proportions of the Chilean Web of April 2004 (3.5 "
        "million pages, 50,000 sites of at most 25,000 pages), from all home pages. One "
        f"connection to a site at a time, w = {DELAY:g} s from the end of a fetch to the next "
        "start on its site, one page a connection (k = 1) unless said otherwise. Keys are "
        "brought up to date after every page; Batch and Partial compute PageRank every "
        f"{start.n_pages // 35:,} pages (N / 35; m = 100,000 in the paper). {NETWORK}."
    )
    one_robot = _figure_5(report, start, network)
    several = _figure_6(report, start, network, one_robot)
    batches = {
        "Length": _middle_of(several[LENGTH][BATCH_ROBOTS].order),
        "Batch": _middle_of(one_robot["batch-pagerank"].order),
    }
    _whole_crawl_times(report, several)
    del one_robot, several
    _table_1(report, start, network)
    _figures_3_and_7(report, shared, web.graph, batches)
    _figures_8_and_9(report, web.graph, batches["Length"], network)
    _figures_10_and_11(report, start, network)
    _figure_12(report, shared, start)
    report.finding(
        "No difference between simulator and real crawler in cumulative PageRank (section V)",
        f"no real crawl of a country was made; {start.n_pages:,} simulated fetches",
        "not tested",
    )
    report.write()


def _figure_5(report: Report, start: Start, network: Network) -> dict[str, Crawled]:
    """Cumulative PageRank of all strategies with one robot."""
    crawls = start.crawls(NAMES, network)
    rounds = _curves_and_averages(start, Network(politeness=network.politeness))
    order_alone = _curves_and_averages(start, None)
    report.figure(
        "figure-5",
        [
            curves_panel("w = 15 s", {n: c.points for n, c in crawls.items()}, [start]),
            curves_panel(
                "w = 15 s, fetches take no time", {n: c for n, (c, _) in rounds.items()}, [start]
            ),
            curves_panel("no delay", {n: c for n, (c, _) in order_alone.items()}, [start]),
        ],
        "Figure 5: cumulative PageRank against pages, r = 1. The paper's shows Length above Batch, "
        "Partial and Depth, and Optimal above all but for the end. Depth is breadth-first, Length "
        "larger-sites-first, Optimal omniscient. What politeness decides: in the middle fetches "
        "take no time, so that every site with waiting pages is fetched from once in 15 s; right, "
        "order alone. Batch and Partial are left out there.",
        title="Castillo et al. 2004, figure 5",
        columns=3,
    )
    report.table(
        "figure-5",
        ["strategy", "average cumulative PageRank", "tau", "at 10 %", "at 30 %", "at 50 %",
         "at 80 %", "average, fetches taking no time", "average, no delay"],
        [
            [f"{NAMES[name]} ({name})", c.average, c.tau,
             *(c.gathered_at(x) for x in (0.1, 0.3, 0.5, 0.8)),
             *(other[name][1] if name in other else None for other in (rounds, order_alone))]
            for name, c in crawls.items()
        ],
        "Share of the PageRank gathered, r = 1, w = 15 s. The paper prints no numbers.",
    )  # fmt: skip
    length, best = crawls[LENGTH], crawls["omniscient"]
    others = ("breadth-first", "batch-pagerank", "partial-pagerank")
    verdict, why = judged(
        {NAMES[n]: length.average > crawls[n].average for n in others}
        | {"Depth, fetches taking no time": rounds[LENGTH][1] > rounds["breadth-first"][1]},
        "a higher average cumulative PageRank",
    )
    report.finding(
        "Length is more efficient than Depth, Batch and Partial (figure 5)",
        f"averages: Length {length.average:.3f}; "
        + ", ".join(f"{NAMES[n]} {crawls[n].average:.3f}" for n in others)
        + f"; fetches taking no time: Length {rounds[LENGTH][1]:.3f}, "
        f"Depth {rounds['breadth-first'][1]:.3f}",
        verdict,
        why,
    )
    lead = {n: _lead(crawls[n], best) for n in NAMES if n != "omniscient"}
    winner = max(lead, key=lambda name: lead[name])
    report.finding(
        "Optimal is too greedy: late in the crawl other strategies surpass it (figure 5)",
        f"largest lead over Optimal after half of the pages: {lead[winner]:+.4f} ({NAMES[winner]})",
        "reproduced" if lead[winner] > LEAST_LEAD else "not reproduced",
        "rule: some strategy leads by more than 0.001 of the PageRank after half of the pages",
    )
    return crawls


def _curves_and_averages(
    start: Start, network: Network | None
) -> dict[str, tuple[NDArray[np.float64], float]]:
    """Curve and average of the strategies that compute no PageRank; the crawls are let go."""
    found = {}
    for name in ("omniscient", LENGTH, "breadth-first"):
        crawl = start.crawl(name, network)
        found[name] = crawl.points, crawl.average
    return found


def _lead(crawl: Crawled, best: Crawled) -> float:
    """The largest lead over the best after half of the pages."""
    late = np.linspace(0.5, 0.999, 500)
    return max(crawl.gathered_at(share) - best.gathered_at(share) for share in late)


def _figure_6(
    report: Report, start: Start, network: Network, one_robot: dict[str, Crawled]
) -> dict[str, dict[int, Crawled]]:
    """Cumulative PageRank with 1, 64 and 256 robots."""
    strategies = (LENGTH, "breadth-first", "omniscient")
    crawls = {
        name: {
            r: one_robot[name] if r == 1 else start.crawl(name, replace(network, robots=r))
            for r in ROBOTS
        }
        for name in strategies
    }
    report.figure(
        "figure-6",
        [
            curves_panel(
                NAMES[name],
                {f"{name}, r = {r}": crawl.points for r, crawl in crawls[name].items()},
                [start],
            )
            for name in strategies
        ],
        "Figure 6: cumulative PageRank against pages with 1, 64 and 256 robots. The paper's shows "
        "that Length changes little and Depth improves. The link is unlimited, w = 15 s.",
        title="Castillo et al. 2004, figure 6",
        columns=3,
    )
    report.table(
        "figure-6",
        ["strategy", *(f"r = {r}" for r in ROBOTS), "range"],
        [
            [NAMES[name], *(crawls[name][r].average for r in ROBOTS), _range(crawls[name])]
            for name in strategies
        ],
        "Average cumulative PageRank by number of robots.",
    )
    length, depth = crawls[LENGTH], crawls["breadth-first"]
    lead = {f"r = {r}": _lead(length[r], crawls["omniscient"][r]) for r in ROBOTS}
    verdict, why = judged(
        {name: most > LEAST_LEAD for name, most in lead.items()},
        "a lead of more than 0.001 of the PageRank after half of the pages",
    )
    report.finding(
        "Late in the crawl Length surpasses Optimal, which has few sites left (figures 5 and 6)",
        "largest lead of Length after half of the pages: "
        + ", ".join(f"{most:+.4f} ({name})" for name, most in lead.items()),
        verdict,
        why,
    )
    report.finding(
        "Length is more stable than Depth as robots increase (figure 6)",
        f"range of the average over r = 1, 64, 256: Length {_range(length):.4f}, "
        f"Depth {_range(depth):.4f}",
        "reproduced" if _range(length) < _range(depth) else "not reproduced",
        "rule: the smaller range",
    )
    report.finding(
        "Depth improves as the number of robots increases (figure 6)",
        f"average {depth[1].average:.4f} with one robot, {depth[64].average:.4f} with 64, "
        f"{depth[256].average:.4f} with 256",
        "reproduced" if depth[256].average > depth[1].average else "not reproduced",
        "rule: a higher average with 256 robots than with one",
    )
    report.write()
    return crawls


def _range(crawls: dict[int, Crawled]) -> float:
    """Largest less least average."""
    averages = [crawl.average for crawl in crawls.values()]
    return max(averages) - min(averages)


def _whole_crawl_times(report: Report, crawls: dict[str, dict[int, Crawled]]) -> None:
    """How long whole crawls take, and what bounds that."""
    report.table(
        "whole-crawls",
        ["strategy", "robots", "days", "days to 90 % of the pages", "speed-up", "speed-up to 90 %"],
        [
            [NAMES[name], r, crawl.timed.seconds / DAY, _days_to(crawl.timed, 0.9),
             by_robots[1].timed.seconds / crawl.timed.seconds,
             _days_to(by_robots[1].timed, 0.9) / _days_to(crawl.timed, 0.9)]
            for name, by_robots in crawls.items()
            for r, crawl in by_robots.items()
        ],
        "Whole crawls with an unlimited link. However many robots there are, a site of 25,000 "
        "pages takes 25,000 times w and its fetches, over 4.3 days: w bounds the whole crawl, the "
        "link and the robots what comes before.",
    )  # fmt: skip
    slow = {name: by_robots[256].timed.seconds for name, by_robots in crawls.items()}
    quick = min(slow.values())
    length, depth = slow[LENGTH] / DAY, slow["breadth-first"] / DAY
    report.finding(
        "Length avoids exhausting sites too early and keeps many active (conclusions)",
        f"a whole crawl with 256 robots takes {length:.2f} days, and {depth:.2f} with Depth",
        "reproduced" if length < 0.99 * depth else "not reproduced",
        "rule: the whole crawl is at least 1 % shorter"
        + ("; the largest site bounds all strategies alike" if quick > 0.99 * depth * DAY else ""),
    )


def _days_to(crawl: TimedCrawl, share: float) -> float:
    """Days until this share of the pages has been fetched."""
    return float(np.quantile(crawl.ended, share)) / DAY


def _table_1(report: Report, start: Start, network: Network) -> None:
    """Speed-ups by bandwidth and robots."""
    budget = max(start.n_pages // 35, 1000)
    runs = []
    for bandwidth in BANDWIDTHS:
        for robots in ROBOTS:
            crawl = timed_crawl(
                start.web.graph,
                start.seeds,
                start.ordering("breadth-first"),
                replace(with_bandwidth(network, bandwidth), robots=robots),
                budget=budget,
            )
            # The last fetches are of the slowest sites and would decide all.
            n = int(0.9 * crawl.fetched)
            runs.append((bandwidth, robots, n, float(np.sort(crawl.ended)[n - 1])))
    by_row = speed_ups(runs)
    by_first = speed_ups(runs, base=(BANDWIDTHS[0], 1))
    rows = []
    for bandwidth, printed in PRINTED_SPEED_UPS.items():
        k = int(np.flatnonzero(by_row.bandwidths == bandwidth)[0])
        rows.append(
            [f"{bandwidth:,.0f}", *(f"{x:g}" for x in printed),
             *(f"{x:.1f}" for x in by_row.speed_up[k]), *(f"{x:.3g}" for x in by_first.speed_up[k])]
        )  # fmt: skip
    report.table(
        "table-1",
        [
            "bandwidth, B/s",
            *(f"paper, r = {r}" for r in ROBOTS),
            *(f"here, r = {r}" for r in ROBOTS),
            *(f"against the best link, r = {r}" for r in ROBOTS),
        ],
        rows,
        f"Table I: speed-ups by robots and bandwidth, of the first {budget:,} pages under Depth, "
        "which are nearly the same for any r, to the end of 90 % of the fetches. Middle: against "
        "one robot with the same bandwidth; right: against one robot with 20 MB/s. The paper "
        "gives no unit, no base; its column r = 1 grows as bandwidth falls, so it seems to be "
        "time, not speed. With 24 kB pages no link of 20,000 B/s carries 83 times what one robot "
        "fetches, unless robots fetch a page in over 100 s.",
    )
    report.figure(
        "table-1",
        [_speed_panel(by_row, PRINTED_SPEED_UPS)],
        "Table I as a figure: speed-up against one robot with the same bandwidth; points are the "
        "paper's numbers.",
    )
    highest, lowest = by_row.speed_up[-1], by_row.speed_up[0]
    report.finding(
        "With enough bandwidth more robots pay: 54.6 and 220.1 times (table I)",
        f"{highest[1]:.1f} and {highest[2]:.1f} times with 64 and 256 robots at 20 MB/s",
        "reproduced" if highest[1] > 0.75 * 64 and highest[2] > 0.75 * 256
        else "partly reproduced" if highest[2] > 0.5 * 256 else "not reproduced",
        "rule: at least three quarters of r for both; partly: half of r for 256",
    )  # fmt: skip
    rows_of = zip(by_row.bandwidths, by_row.speed_up, strict=True)
    gain = {f"{bandwidth:,.0f} B/s": row[2] / row[1] for bandwidth, row in rows_of}
    saturated = lowest[2] / lowest[1]
    report.finding(
        "Bandwidth saturation makes several robots pointless (table I)",
        "256 robots are as many times faster than 64: "
        + ", ".join(f"{x:.2f} at {b}" for b, x in gain.items()),
        "reproduced" if saturated < 1.1 and highest[2] / highest[1] > 2 else "not reproduced",
        "rule: below 1.1 times at 200 B/s, above 2 times at 20 MB/s",
    )
    report.write()


def _speed_panel(found: SpeedUps, printed: dict[float, tuple[float, ...]]) -> Panel:
    """Speed-ups by robots, a line for each bandwidth, with the printed ones as points."""
    names = {b: f"{b:,.0f} B/s" for b in sorted(printed, reverse=True)}
    rows = {float(b): row for b, row in zip(found.bandwidths, found.speed_up, strict=True)}
    lines: dict[str, Any] = {
        name: Series(np.column_stack((found.robots, rows[b]))) for b, name in names.items()
    }
    for b, name in names.items():
        points = np.column_stack((ROBOTS, printed[b]))
        lines[f"{name}, paper"] = Series(points, mark="points", like=name)
    return Panel(
        lines,
        "Speed-up by robots",
        "robots r",
        "pages per second, against r = 1",
        x_scale="log",
        y_scale="log",
        references={"ideal": [(1.0, 1.0), (256.0, 256.0)]},
    )


def _middle_of(order: NDArray[np.int32]) -> NDArray[np.int32]:
    """A batch of N / 35 pages from the middle of a crawl."""
    size = max(len(order) // 35, 1)
    return order[len(order) // 2 :][:size]


def _figures_3_and_7(
    report: Report, shared: Path, graph: LinkGraph, batches: dict[str, NDArray[np.int32]]
) -> None:
    """Sizes of sites in the whole web and in batches."""
    real = uci(shared).graph
    sizes = {
        "country": np.bincount(graph.site),
        "uci-ics": np.bincount(real.site),
        **{f"batch of {name}": np.bincount(graph.site[batch]) for name, batch in batches.items()},
    }
    ranked = {name: sizes_falling(np.repeat(np.arange(len(n)), n)) for name, n in sizes.items()}
    law = fit_power_law(sizes["country"][sizes["country"] > 0])
    shares = {
        name: Series(
            np.column_stack((np.arange(1, len(n) + 1) / len(n), np.cumsum(n) / n.sum()))[
                np.unique(np.geomspace(1, len(n), 400).astype(int) - 1)
            ]
        )
        for name, n in ranked.items()
    }
    rank_curves = {
        name: np.column_stack((np.arange(1, len(n) + 1), n))[
            np.unique(np.geomspace(1, len(n), 400).astype(int) - 1)
        ]
        for name, n in ranked.items()
    }
    report.figure(
        "figures-3-7",
        [
            distribution_panel(
                {"country": log_histogram(sizes["country"])},
                title="Sites by size (figure 3)",
                xlabel="pages of a site",
                ylabel="sites of that size",
                fits={"country": law},
            ),
            Panel(rank_curves, "Pages by rank of the site (3, 7)", "rank of the site",
                  "pages", x_scale="log", y_scale="log"),
            Panel(shares, "Pages on the largest sites (3, 7)", "share of sites, largest first",
                  "share of pages", x_percent=True, y_percent=True,
                  references={"random: alike": [(0.0, 0.0), (1.0, 1.0)]}),
        ],
        "Figures 3 and 7: distribution of pages to sites, of the whole Web and of a typical batch. "
        "The paper's shows that few sites hold most pages of either. The country's sizes are made "
        "so; uci-ics (88 sites) is a real crawl. Batches are N / 35 consecutive "
        "fetches from the middle of a crawl: of Length with 256 robots, of Batch with one.",
        title="Castillo et al. 2004, figures 3 and 7",
        columns=3,
    )  # fmt: skip
    held = {name: _sites_for_half(n) for name, n in ranked.items()}
    report.table(
        "figure-7",
        ["pages of", "pages", "sites", "share on the largest site", "sites that hold half"],
        [
            [name, int(n.sum()), len(n), float(n[0] / n.sum()), f"{held[name]:.2%}"]
            for name, n in ranked.items()
        ],
        "Pages and sites.",
    )
    verdict, why = judged(
        {name: share < 0.1 for name, share in held.items() if "batch" in name},
        "half of the pages of a batch are on less than a tenth of its sites",
    )
    report.finding(
        "Most pages of a typical batch are on a reduced number of sites (figure 7)",
        "half of the pages are on "
        + ", ".join(f"{x:.1%} of the sites ({name})" for name, x in held.items()),
        verdict,
        why,
    )


def _sites_for_half(sizes: NDArray[np.int64]) -> float:
    """The share of sites, largest first, that holds half of the pages."""
    return float(np.searchsorted(np.cumsum(sizes), sizes.sum() / 2) + 1) / len(sizes)


def _figures_8_and_9(
    report: Report, graph: LinkGraph, batch: NDArray[np.int32], network: Network
) -> None:
    """Robots at work while a batch is fetched, one page a connection and up to 100."""
    sites, site = np.unique(graph.site[batch], return_inverse=True)
    alone = LinkGraph(np.zeros(len(batch) + 1, np.int64), np.empty(0, np.int32), site)
    fetches = replace(
        network,
        robots=BATCH_ROBOTS,
        page_bytes=network.sizes()[batch],
        latency=network.latencies(graph.n_sites)[sites],
        site_speed=network.speeds(graph.n_sites)[sites],
    )
    crawls = {
        (k, name): _crawl_of_batch(alone, replace(fetches, pages_per_visit=k, bandwidth=bandwidth))
        for k in (1, 100)
        for name, bandwidth in BATCH_BANDWIDTHS.items()
    }
    report.figure(
        "figures-8-9",
        [
            Panel(
                {name: _active(crawls[k, name]) for name in BATCH_BANDWIDTHS},
                f"k = {k} (figure {figure})",
                "share of the batch's retrieval time",
                "robots at work",
                x_percent=True,
                y_limits=(0.0, 1.05 * BATCH_ROBOTS),
            )
            for k, figure in ((1, 8), (100, 9))
        ],
        f"Figures 8 and 9: robots at work while a batch of {len(batch):,} pages on {len(sites):,} "
        f"sites is fetched by {BATCH_ROBOTS} robots with w = 15 s, at one page a connection and at "
        "up to 100. The paper's curves are for 'small (2K) and large (20K) bandwidth', without "
        "unit or r, and most robots are idle most of the time; with k = 100 more are at work. A "
        "robot waiting for its share of a saturated link is at work here.",
        title="Castillo et al. 2004, figures 8 and 9",
    )
    report.table(
        "figures-8-9",
        ["bandwidth", "hours, k = 1", "hours, k = 100", "robots at work on average, k = 1",
         "k = 100", "share of the time with most robots idle, k = 1", "k = 100"],
        [
            [name, *(crawls[k, name].seconds / 3600 for k in (1, 100)),
             *(_mean_active(crawls[k, name]) for k in (1, 100)),
             *(_idle_time(crawls[k, name]) for k in (1, 100))]
            for name in BATCH_BANDWIDTHS
        ],
        "The same in numbers. Most robots idle: fewer than half of them at work.",
    )  # fmt: skip
    idle = {name: _idle_time(crawls[1, name]) for name in BATCH_BANDWIDTHS}
    verdict, why = judged(
        {name: share > 0.5 for name, share in idle.items()},
        "more than half of the time; where the link is saturated all robots wait for it",
    )
    report.finding(
        "In a batch most robots are idle most of the time, at small and large bandwidth (figure 8)",
        "share of the time with fewer than half of the robots at work: "
        + ", ".join(f"{x:.0%} at {name}" for name, x in idle.items()),
        verdict,
        why,
    )
    faster = {
        name: crawls[1, name].seconds / crawls[100, name].seconds for name in BATCH_BANDWIDTHS
    }
    verdict, why = judged(
        {name: x > 1.5 for name, x in faster.items()},
        "the batch takes less than two thirds of the time",
    )
    report.finding(
        "Up to 100 pages a connection (k = 100) amortise w and use the robots better (figure 9)",
        "times faster than k = 1: " + ", ".join(f"{x:.1f} at {n}" for n, x in faster.items()),
        verdict,
        why,
    )
    report.write()


def _crawl_of_batch(batch: LinkGraph, network: Network) -> TimedCrawl:
    """Fetch a batch, all of whose pages wait from the start, larger sites first."""
    pages = list(range(batch.n_pages))
    return timed_crawl(batch, pages, make_ordering(LENGTH), network)


def _active(crawl: TimedCrawl) -> Series:
    """Robots at work by share of the time."""
    seconds, active = active_robots(crawl.started, crawl.ended, 100)
    return Series(np.column_stack((seconds / crawl.seconds, active)))


def _mean_active(crawl: TimedCrawl) -> float:
    """Robots at work on average over the time."""
    return float((crawl.ended - crawl.started).sum()) / crawl.seconds


def _idle_time(crawl: TimedCrawl) -> float:
    """The share of the time with fewer than half of the robots at work."""
    seconds, active = active_robots(crawl.started, crawl.ended)
    lasting = np.diff(seconds)
    return float(lasting[active[:-1] < BATCH_ROBOTS / 2].sum() / seconds[-1])


def _figures_10_and_11(report: Report, start: Start, network: Network) -> None:
    """A whole crawl against the clock, as the real one of the paper."""
    ranks = start.web.ranks
    whole = float(network.sizes()[start.reachable].sum())
    slow = with_bandwidth(replace(network, robots=REAL_ROBOTS), whole / (CRAWL_DAYS * DAY))
    crawls = {
        "link such that all pages take 8 days": slow,
        "unlimited link": replace(slow, bandwidth=None),
    }
    by_time, by_day, figures = {}, {}, {}
    scaled = scaled_to_mean_one(ranks, start.reachable)
    for name, link in crawls.items():
        crawl = timed_crawl(start.web.graph, start.seeds, start.ordering(LENGTH), link)
        seconds, rank, documents = cumulative_by_time(
            crawl.order, crawl.ended, ranks, start.reachable, start=0.0
        )
        at = np.linspace(0, len(seconds) - 1, 400).astype(int)
        by_time[name] = {
            "PageRank": np.column_stack((seconds, rank))[at] / (DAY, 1.0),
            "documents": np.column_stack((seconds, documents))[at] / (DAY, 1.0),
        }
        days = slices_by_time(crawl.ended, start=0.0)
        by_day[name] = mean_importance_by_slice(crawl.order, scaled, days).points()
        figures[name] = {
            x: float(rank[min(int(np.searchsorted(documents, x)), len(rank) - 1)])
            for x in (0.5, 0.8)
        } | {"days": crawl.seconds / DAY}
    report.figure(
        "figures-10-11",
        [
            *(
                Panel(lines, f"Figure 10, {name}", "days", "share", y_percent=True)
                for name, lines in by_time.items()
            ),
            Panel(by_day, "Figure 11: mean PageRank by day", "day of the crawl",
                  "mean PageRank (all pages: 1)"),
        ],
        f"Figures 10 and 11: documents and PageRank against days, and mean PageRank of the pages "
        f"of each day, of a crawl with Length, r = {REAL_ROBOTS}, w = 15 s. The paper's real crawl "
        "had half of the pages and 80 % of the PageRank after day 2, 80 % and over 95 % after day "
        "4, and a mean that fell steeply after very few days.",
        title="Castillo et al. 2004, figures 10 and 11",
        columns=3,
    )  # fmt: skip
    report.table(
        "figures-10-11",
        ["crawl", "PageRank at half of the pages", "PageRank at 80 % of the pages", "days",
         "mean PageRank of day 1, against day 4", "and against the last day"],
        [
            ["paper, real crawl", "0.80", "over 0.95", 8, None, None],
            *(
                [name, f[0.5], f[0.8], f["days"],
                 _mean_of(by_day[name], 1) / _mean_of(by_day[name], 4),
                 _mean_of(by_day[name], 1) / by_day[name][-1][1]]
                for name, f in figures.items()
            ),
        ],
        "A crawl in time with Length.",
    )  # fmt: skip
    verdict, why = judged(
        {
            f"{name}, {x:.0%}": abs(f[x] - printed) < 0.05
            for name, f in figures.items()
            for x, printed in ((0.5, 0.8), (0.8, 0.95))
        },
        "within 5 points",
    )
    report.finding(
        "Half of the pages bring some 80 % of the PageRank, 80 % of them over 95 % (figure 10)",
        "; ".join(f"{name}: {f[0.5]:.1%} and {f[0.8]:.1%}" for name, f in figures.items()),
        verdict,
        why,
    )
    falls = {name: _mean_of(points, 1) / _mean_of(points, 4) for name, points in by_day.items()}
    verdict, why = judged({name: ratio > 2 for name, ratio in falls.items()}, "more than twice")
    report.finding(
        "Mean PageRank by day falls dramatically after very few days (figure 11)",
        "day 1 against day 4: " + ", ".join(f"{x:.2f} times ({n})" for n, x in falls.items()),
        verdict,
        why,
    )
    report.write()


def _mean_of(points: list[tuple[float, float]], day: int) -> float:
    """The mean of a day, or of the last one before it."""
    return [mean for x, mean in points if x <= day][-1]


def _figure_12(report: Report, shared: Path, start: Start) -> None:
    """Mean PageRank by depth."""
    real = uci(shared)
    lines = {}
    for name, begun in ((start.web.name, start), ("uci-ics", Start(real, real.homes))):
        graph = begun.web.graph
        depth = depth_from_seeds(graph, begun.seeds)
        means = mean_importance_by_depth(
            depth, scaled_to_mean_one(begun.web.ranks, begun.reachable), begun.reachable
        )
        many = means.n >= FEWEST_AT_DEPTH
        lines[name] = list(zip(means.x[many].tolist(), means.mean[many].tolist(), strict=True))
    report.figure(
        "figure-12",
        [Panel(lines, "Mean PageRank by depth", "links from the nearest home page",
               "mean PageRank (all pages: 1)", y_scale="log")],
        "Figure 12: mean PageRank by depth, in links from the nearest home page; depths of 30 "
        "pages and more. The paper's falls over the first levels and is flat after 3 or 4; home "
        "pages are below the next level, as many have few or no in-links.",
    )  # fmt: skip
    shown = {name: ", ".join(f"{y:.2f}" for _, y in points[:7]) for name, points in lines.items()}
    verdict, why = judged(
        {name: points[1][1] > points[2][1] > points[3][1] for name, points in lines.items()},
        "the mean falls from depth 1 to 2 and to 3",
    )
    report.finding(
        "PageRank and depth are inversely related in the first few levels (figure 12)",
        "mean at depth 0, 1, 2, ...: " + "; ".join(f"{n}: {x}" for n, x in shown.items()),
        verdict,
        why,
    )
    flat = {name: _spread(points[1:4]) > _spread(points[4:8]) for name, points in lines.items()}
    verdict, why = judged(flat, "means differ less over depths 4 to 7 than over 1 to 3")
    report.finding(
        "3 to 4 clicks from the home page the relation is very low (figure 12)",
        "largest by least mean: "
        + "; ".join(
            f"{n}: {_spread(p[1:4]):.2f} over depths 1 to 3, {_spread(p[4:8]):.2f} over 4 to 7"
            for n, p in lines.items()
        ),
        verdict,
        why,
    )
    verdict, why = judged(
        {name: points[0][1] < points[1][1] for name, points in lines.items()},
        "lower than at depth 1; here sites link to home pages, and none is only registered",
    )
    report.finding(
        "Home pages have low PageRank on average, many having few or no in-links (figure 12)",
        "mean at depth 0 and 1: "
        + "; ".join(f"{n}: {p[0][1]:.2f}, {p[1][1]:.2f}" for n, p in lines.items()),
        verdict,
        why,
    )


def _spread(points: list[tuple[float, float]]) -> float:
    """Largest by least mean."""
    means = [mean for _, mean in points]
    return max(means) / min(means) if means else float("nan")
