"""Crawl times in Castillo et al. 2004: table I, figures 10 to 12, whole crawls."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
from batched import crawl_in_batches
from castillo_webs import LENGTH, NAMES
from measured import BATCHES, DELAY, Crawled, Start, with_bandwidth
from measures import SpeedUps, slices_by_time, speed_ups
from numpy.typing import NDArray
from paper_crawls import SAME, displaced
from report import Report
from verdicts import Case, GeneratorErrors, above, below
from webs import hollins, uci

from crawlprio.measure.crawl_order import (
    cumulative_by_time,
    depth_from_seeds,
    mean_importance_by_depth,
    mean_importance_by_slice,
    scaled_to_mean_one,
)
from crawlprio.orderings import make_ordering
from crawlprio.show.figures import Panel, Points, Series
from crawlprio.simulator.network import Network
from crawlprio.simulator.timed import TimedCrawl, timed_crawl

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


def add(report: Report, shared: Path, start: Start, network: Network) -> None:
    """Write table I and figures 10 to 12."""
    errors = GeneratorErrors.read(report.folder)
    _table_1(report, start, network)
    _figures_10_and_11(report, start, network, errors)
    _figure_12(report, shared, start)


def whole_crawls(report: Report, start: Start, crawls: Mapping[str, Mapping[int, Crawled]]) -> None:
    """Write how long whole crawls take, what bounds them, and when sites are exhausted."""
    largest = int(np.bincount(start.web.graph.site).max())
    report.table(
        "whole-crawls",
        ["strategy", "robots", "days", "days to 90 % of the pages", "speed-up", "speed-up to 90 %",
         "sites with pages left at half of the pages", "at 80 %"],
        [
            [NAMES[name], r, crawl.timed.seconds / DAY, _days_to(crawl.timed, 0.9),
             by_robots[1].timed.seconds / crawl.timed.seconds,
             _days_to(by_robots[1].timed, 0.9) / _days_to(crawl.timed, 0.9),
             *(f"{_left(start, crawl, x):.1%}" for x in (0.5, 0.8))]
            for name, by_robots in crawls.items()
            for r, crawl in by_robots.items()
        ],
        "Whole crawls with an unlimited link. However many robots there are, a site of "
        f"{largest:,} pages takes {largest:,} times w plus its fetches, over "
        f"{largest * DELAY / DAY:.1f} days. The largest site bounds the whole crawl; the link and "
        "the robots bound what comes before. In the paper's country, that is a site of 25,000 "
        "pages, and over 4.3 days.",
    )  # fmt: skip
    ahead = {
        f"country, r = {r}, {x:.0%} of the pages": _left(start, crawls[LENGTH][r], x)
        - _left(start, crawls["breadth-first"][r], x)
        for r in ROBOTS
        for x in (0.5, 0.8)
        if displaced(crawls[LENGTH][r].order, crawls["breadth-first"][r].order) >= SAME
    }
    report.finding(
        "Length avoids exhausting sites too early and keeps many sites active (conclusions)",
        "sites that still have pages to fetch, Length minus Depth: "
        + ", ".join(f"{100 * x:+.1f} points ({n})" for n, x in ahead.items()),
        above(ahead),
        "more sites have pages left",
        why="it fetches small sites last, so nearly all of them are left until the end",
        name="length-keeps-sites",
    )


def _left(start: Start, crawl: Crawled, share: float) -> float:
    """Return the share of sites with unfetched pages after this share of the pages is fetched."""
    site = start.web.graph.site
    rest = crawl.order[int(share * len(crawl.order)) :]
    return len(np.unique(site[rest])) / len(np.unique(site[crawl.order]))


def _days_to(crawl: TimedCrawl, share: float) -> float:
    """Return the days until this share of the pages is fetched."""
    return float(np.quantile(crawl.ended, share)) / DAY


def _rates(crawl: TimedCrawl, sizes: NDArray[np.float64]) -> tuple[float, float]:
    """Return the pages and the bytes per second that a crawl gets done, by the clock.

    The clock runs from the start of the first tenth of the fetches to that of the ninth, while all
    robots have pages. A fetch that was under way when it began or ended counts by its share within,
    because the slow ones would otherwise be missing from the crawls with many robots.
    """
    started = np.sort(crawl.started)
    first, last = (float(started[int(x * len(started))]) for x in (0.1, 0.9))
    inside = np.minimum(crawl.ended, last) - np.maximum(crawl.started, first)
    done = np.maximum(inside, 0.0) / (crawl.ended - crawl.started)
    seconds = last - first
    return float(done.sum()) / seconds, float((done * sizes[crawl.order]).sum()) / seconds


def _table_1(report: Report, start: Start, network: Network) -> None:
    """Write speed-ups by bandwidth and robots."""
    budget = max(start.n_pages // 5, 1000)
    runs, used = [], {}
    for bandwidth in BANDWIDTHS:
        crawls = {
            robots: timed_crawl(
                start.web.graph,
                start.seeds,
                start.ordering("breadth-first"),
                replace(with_bandwidth(network, bandwidth), robots=robots),
                budget=budget,
            )
            for robots in ROBOTS
        }
        for robots, crawl in crawls.items():
            a_second, n_bytes = _rates(crawl, network.sizes())
            runs.append((bandwidth, robots, budget, budget / a_second))
            used[bandwidth, robots] = n_bytes / bandwidth
    by_row = speed_ups(runs)
    by_first = speed_ups(runs, base=(BANDWIDTHS[0], 1))
    rows = []
    for bandwidth, printed in PRINTED_SPEED_UPS.items():
        k = int(np.flatnonzero(by_row.bandwidths == bandwidth)[0])
        rows.append(
            [f"{bandwidth:,.0f}", *(f"{x:g}" for x in printed),
             *(f"{x:.1f}" for x in by_row.speed_up[k]), *(f"{x:.3g}" for x in by_first.speed_up[k]),
             *(f"{used[bandwidth, r]:.1%}" for r in ROBOTS)]
        )  # fmt: skip
    report.table(
        "table-1",
        [
            "bandwidth, B/s",
            *(f"paper, r = {r}" for r in ROBOTS),
            *(f"here, r = {r}" for r in ROBOTS),
            *(f"against the best link, r = {r}" for r in ROBOTS),
            *(f"link used, r = {r}" for r in ROBOTS),
        ],
        rows,
        f"Table I: speed-ups by robots and bandwidth, for the first {budget:,} pages under Depth, "
        "which are nearly the same for any r. Speed is pages per second by the clock, from the "
        "start of the first tenth of the fetches to that of the ninth; fetches under way at "
        "either end count in part. 'Link used' is the bytes of that time, as a share of the "
        "bandwidth. Middle: relative to one "
        "robot with the same bandwidth. Then: relative to one robot with 20 MB/s. The paper "
        "gives neither unit nor baseline. Its column r = 1 grows as bandwidth falls, so it seems "
        "to be time, not speed. With 24 kB pages, a link of 20,000 B/s cannot carry 83 times "
        "what one robot fetches, unless a robot takes over 100 s per page.",
    )
    report.figure(
        "table-1",
        [_speed_panel(by_row, PRINTED_SPEED_UPS)],
        "Table I as a figure: speed-up relative to one robot with the same bandwidth, divided by "
        "the number of robots, so that a linear speed-up is 1; points are the paper's numbers.",
    )
    highest, lowest = by_row.speed_up[-1], by_row.speed_up[0]
    printed = dict(zip(ROBOTS[1:], PRINTED_SPEED_UPS[BANDWIDTHS[0]][1:], strict=True))
    off = {
        f"country, r = {r}": abs(highest[k + 1] / x - 1) for k, (r, x) in enumerate(printed.items())
    }
    report.finding(
        "With enough bandwidth more robots pay: 54.6 and 220.1 times (table I)",
        f"{highest[1]:.1f} and {highest[2]:.1f} times with 64 and 256 robots at 20 MB/s",
        below(off, 0.1),
        "within 10 % of what is printed",
        why=f"how many robots find a ready site depends on the sites: {start.web.graph.n_sites:,}",
        picture="table-1",
    )
    rows_of = zip(by_row.bandwidths, by_row.speed_up, strict=True)
    gain = {f"{bandwidth:,.0f} B/s": row[2] / row[1] for bandwidth, row in rows_of}
    report.finding(
        "Bandwidth saturation makes several robots pointless (table I)",
        "speed of 256 robots relative to 64: "
        + ", ".join(f"{x:.2f} at {b}" for b, x in gain.items()),
        above({"country": min(1.1 - lowest[2] / lowest[1], highest[2] / highest[1] - 2.0)}),
        "below 1.1 times on a saturated link, above 2 times otherwise",
        picture="table-1",
        name="saturation",
    )
    report.write()


def _speed_panel(found: SpeedUps, printed: dict[float, tuple[float, ...]]) -> Panel:
    """Draw speed-ups per robot by bandwidth, with a line for each r and the printed ones."""
    lines: dict[str, Any] = {}
    for k, r in enumerate(ROBOTS[1:], start=1):
        lines[f"r = {r}"] = Series(np.column_stack((found.bandwidths, found.speed_up[:, k] / r)))
        points = [(b, printed[b][k] / r) for b in sorted(printed)]
        lines[f"r = {r}, paper"] = Series(points, mark="points", like=f"r = {r}")
    ends = (float(found.bandwidths[0]), float(found.bandwidths[-1]))
    return Panel(
        lines,
        "Rate of each of r robots, against one robot alone (Castillo et al. 2004, table I)",
        "bandwidth of the link, bytes/s",
        "pages per second and robot, against r = 1",
        x_scale="log",
        y_scale="log",
        references={"linear speed-up": [(ends[0], 1.0), (ends[1], 1.0)]},
    )


def _figures_10_and_11(
    report: Report, start: Start, network: Network, errors: GeneratorErrors
) -> None:
    """Write a whole timed crawl, like the paper's real one."""
    ranks = start.web.ranks
    whole = float(network.sizes()[start.reachable].sum())
    slow = with_bandwidth(replace(network, robots=REAL_ROBOTS), whole / (CRAWL_DAYS * DAY))
    batch = max(start.n_pages // BATCHES, 1)
    crawls = {
        "link for 8 days": (slow, None),
        "link for 8 days, in batches": (slow, batch),
        "unlimited link": (replace(slow, bandwidth=None), None),
        "unlimited link, in batches": (replace(slow, bandwidth=None), batch),
    }
    by_time: dict[str, dict[str, Points]] = {}
    by_day: dict[str, list[tuple[float, float]]] = {}
    figures: dict[str, dict[Any, float]] = {}
    scaled = scaled_to_mean_one(ranks, start.reachable)
    for name, (link, size) in crawls.items():
        graph = start.web.graph
        if size is None:
            crawl = timed_crawl(graph, start.seeds, start.ordering(LENGTH), link)
            order, ended = crawl.order, crawl.ended
        else:
            order, ended = crawl_in_batches(
                graph, start.seeds, lambda: make_ordering(LENGTH), link, size
            )
        in_all = float(ended.max())
        seconds, rank, documents = cumulative_by_time(order, ended, ranks, start.reachable)
        at = np.linspace(0, len(seconds) - 1, 400).astype(int)
        by_time[name] = {
            "PageRank": np.column_stack((seconds, rank))[at] / (DAY, 1.0),
            "documents": np.column_stack((seconds, documents))[at] / (DAY, 1.0),
        }
        days = slices_by_time(ended, start=0.0)
        by_day[name] = mean_importance_by_slice(order, scaled, days).points()
        figures[name] = {
            x: float(rank[min(int(np.searchsorted(documents, x)), len(rank) - 1)])
            for x in (0.5, 0.8)
        }
        figures[name] |= {
            f"pages by day {day}": float((ended <= day * DAY).mean()) for day in (2, 4)
        }
        figures[name]["days"] = in_all / DAY
        figures[name]["wasted"] = (
            1 - whole / link.bandwidth / in_all if link.bandwidth else math.nan
        )
    # Markers alone for batches, which lie on the lines of the crawls without.
    drawn = {
        name: Series(points, mark="points" if name.endswith("batches") else "line")
        for name, points in by_day.items()
    }
    report.figure(
        "figures-10-11",
        [
            *(
                Panel(lines, f"Figure 10, {name}", "days", "share", y_percent=True)
                for name, lines in by_time.items()
            ),
            Panel(drawn, "Figure 11: mean PageRank by day", "day of the crawl",
                  "mean PageRank (all pages: 1)"),
        ],
        "Figures 10 and 11: documents and PageRank against days, and mean PageRank of the pages "
        f"of each day, in crawls with Length, r = {REAL_ROBOTS:,}, w = 15 s. 'link for 8 days': a "
        "link that carries all pages in that time. 'in batches': batches of N / 35 pages "
        "(100,000 in the paper), whose links are seen when the last page of the batch has "
        "arrived. The paper's real crawl had half of the pages and 80 % of the PageRank after "
        "day 2, and 80 % and over 95 % after day 4. Its daily mean fell steeply after very few "
        "days.",
        title="A crawl day by day (Castillo et al. 2004, figures 10 and 11)",
        own_legends=True,
        columns=2,
    )  # fmt: skip
    report.table(
        "figures-10-11",
        ["crawl", "PageRank at half of the pages", "PageRank at 80 % of the pages",
         "pages by day 2", "by day 4", "days", "bandwidth wasted against T*",
         "mean PageRank of day 1, against day 4", "and against the last day"],
        [
            ["paper, real crawl", "0.80", "over 0.95", 0.5, 0.8, 8, None, None, None],
            *(
                [name, f[0.5], f[0.8], f["pages by day 2"], f["pages by day 4"], f["days"],
                 None if math.isnan(f["wasted"]) else f["wasted"],
                 _mean_of(by_day[name], 1) / _mean_of(by_day[name], 4),
                 _mean_of(by_day[name], 1) / by_day[name][-1][1]]
                for name, f in figures.items()
            ),
        ],
        "Timed crawls with Length.",
    )  # fmt: skip
    report.finding(
        "Half of the pages hold about 80 % of the PageRank, 80 % of them over 95 % (figure 10)",
        "; ".join(f"{name}: {f[0.5]:.1%} and {f[0.8]:.1%}" for name, f in figures.items()),
        [
            Case(
                f"country, {name}, {x:.0%} of the pages",
                f[x] - least,
                errors.of("share", is_synthetic=True),
            )
            for name, f in figures.items()
            for x, least in ((0.5, 0.75), (0.8, 0.95))
        ],
        "at least 75 % (80 % to the nearest ten) and 95 %",
        picture="figures-10-11",
    )
    by_days = {
        f"country, {name}, day {day}": f[f"pages by day {day}"] - least
        for name, f in figures.items()
        for day, least in ((2, 0.5), (4, 0.8))
    }
    report.finding(
        "Half of the pages are fetched by the end of day 2, 80 % by the end of day 4 (figure 10)",
        "pages after 2 and 4 days: "
        + "; ".join(
            f"{f['pages by day 2']:.0%}, {f['pages by day 4']:.0%} ({n})"
            for n, f in figures.items()
        ),
        above(by_days, -0.05),
        "at most 5 points less",
        why="on a link that needs 8 days for all pages, a crawl is no faster than the link",
        picture="figures-10-11",
    )
    falls = {name: _mean_of(points, 1) / _mean_of(points, 4) for name, points in by_day.items()}
    report.finding(
        "Mean PageRank per day falls dramatically after very few days (figure 11)",
        "day 1 against day 4: " + ", ".join(f"{x:.2f} times ({n})" for n, x in falls.items()),
        above(
            {f"country, {n}": x for n, x in falls.items()},
            2.0,
            errors.of("day 1 by day 2", is_synthetic=True),
        ),
        "more than twice",
        picture="figures-10-11",
    )
    report.write()


def _mean_of(points: list[tuple[float, float]], day: int) -> float:
    """Return the mean of a day, or of the last day before it that has one."""
    return [mean for x, mean in points if x <= day][-1]


def _figure_12(report: Report, shared: Path, start: Start) -> None:
    """Write mean PageRank by depth."""
    recorded = [Start(web, web.homes) for web in (uci(shared), hollins(shared))]
    by_depth = {
        "country" if begun.web.is_synthetic else begun.web.name: means_by_depth(begun)
        for begun in (start, *recorded)
    }
    lines = {name: list(means.items()) for name, means in by_depth.items()}
    report.figure(
        "figure-12",
        [Panel(lines, "Mean PageRank of the pages at each depth (Castillo et al. 2004, figure 12)",
               "links from the nearest home page",
               "mean PageRank (all pages: 1)", y_scale="log")],
        "Figure 12: mean PageRank by depth, in links from the nearest home page, for depths with "
        "30 pages or more. In the paper it falls over the first levels and is flat after 3 or 4. "
        "Home pages are below the next level, because many have few or no in-links.",
    )  # fmt: skip
    with_homes = {name: means for name, means in by_depth.items() if 0 in means}
    shown = {
        name: ", ".join(f"{means[x]:.2f}" if x in means else "-" for x in range(7))
        for name, means in by_depth.items()
    }
    error = {name: math.inf if name == "country" else 0.0 for name in lines}
    report.finding(
        "PageRank and depth are inversely related in the first few levels (figure 12)",
        f"mean at depth 0, 1, 2, ... (-: under {FEWEST_AT_DEPTH} pages): "
        + "; ".join(f"{n}: {x}" for n, x in shown.items()),
        above(
            {n: min(p[1] - p[2], p[2] - p[3]) for n, p in by_depth.items()},
            0.0,
            error.__getitem__,
        ),
        "the mean falls from depth 1 to 2 and to 3",
        picture="figure-12",
    )
    report.finding(
        "3 to 4 clicks from the home page, the relation is very weak (figure 12)",
        "largest mean divided by smallest: "
        + "; ".join(
            f"{n}: {_spread(p, 1, 3):.2f} over depths 1 to 3, {_spread(p, 4, 7):.2f} over 4 to 7"
            for n, p in by_depth.items()
        ),
        above(
            {n: _spread(p, 1, 3) - _spread(p, 4, 7) for n, p in by_depth.items()},
            0.0,
            error.__getitem__,
        ),
        "means differ less over depths 4 to 7 than over depths 1 to 3",
        picture="figure-12",
    )
    report.finding(
        "Home pages have low PageRank on average, because many have few or no in-links (figure 12)",
        "mean at depth 0 and 1: "
        + "; ".join(f"{n}: {p[0]:.2f}, {p[1]:.2f}" for n, p in with_homes.items()),
        above({n: p[1] - p[0] for n, p in with_homes.items()}, 0.0, error.__getitem__),
        "lower than at depth 1",
        why="these webs know home pages from links alone, not from a domain registry",
        picture="figure-12",
    )


def means_by_depth(begun: Start) -> dict[int, float]:
    """Return the mean PageRank at each depth that has enough pages; the mean of all pages is 1."""
    means = mean_importance_by_depth(
        depth_from_seeds(begun.web.graph, begun.seeds),
        scaled_to_mean_one(begun.web.ranks, begun.reachable),
        begun.reachable,
    )
    many = means.n >= FEWEST_AT_DEPTH
    return dict(zip(map(int, means.x[many]), means.mean[many].tolist(), strict=True))


def _spread(by_depth: Mapping[int, float], first: int, last: int) -> float:
    """Return the largest mean of these depths divided by the smallest."""
    means = [mean for depth, mean in by_depth.items() if first <= depth <= last]
    return max(means) / min(means) if means else float("nan")
