"""The small domain of Cho, Garcia-Molina & Page 1998: single sites, ties, and key freshness.

Graphs 4 and 5, figures 8 to 10 of the extended version.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import chain
from pathlib import Path

import numpy as np
from cho_webs import (
    DAMPING,
    NEWEST_FIRST,
    RANK_NEWEST_FIRST,
    THREE,
    JudgedCrawls,
    bound_and_random,
    orderings,
    share_panel,
)
from numpy.typing import NDArray
from paper_crawls import area, areas, bands
from report import Report
from verdicts import above
from webs import STARTS, Web, hollins, uci

from crawlprio.graph.linkgraph import LinkGraph
from crawlprio.measure.crawl_models import ModelCurve, top_threshold
from crawlprio.measure.crawl_order import reachable
from crawlprio.orderings import make_ordering
from crawlprio.show.figures import Panel, Series

PAGES = 1_100
"""Number of pages of the paper's small domain, a research group's site."""
G_LINKS, G_RANK, G_LARGE = 5.0, 3.0, 100.0
MOST_BACKLINKS = 30
CANDIDATES = 20
"""Pages tried as the start of a site whose home page reaches little of it."""


def add(report: Report, shared: Path, large: Sequence[JudgedCrawls]) -> None:
    """Write the part about the small domain, and compare it with the crawls of large webs."""
    report.heading("The small domain")
    sites = cut_sites(uci(shared), STARTS)
    by_links = [site.p_st(site.backlinks, G_LINKS) for site in sites]
    by_rank = [site.p_st(site.ranks, _as_many(site)) for site in sites]
    nearest = min(range(len(sites)), key=lambda k: abs(sites[k].n_reachable - PAGES))
    _draw(report, sites, by_links, by_rank, nearest)
    _judge_size(report, sites, by_links, large)
    _choices(report, hollins(shared), sites)


def cut_sites(web: Web, n_starts: int = 1) -> list[JudgedCrawls]:
    """Return all sites of half to twice the paper's size, cut out of the web and crawled."""
    graph = web.graph
    sites = []
    for home in web.homes:
        pages = np.flatnonzero(graph.site == graph.site[home])
        if len(pages) < PAGES / 2:
            continue
        site = _cut_out(graph, pages)
        start = _start(site, int(np.searchsorted(pages, home)))
        n_reached = int(reachable(site, [start]).sum())
        if PAGES / 2 <= n_reached <= 2 * PAGES:
            name = web.name + f" site of {n_reached:,} pages"
            made = orderings(1, *THREE, "random", NEWEST_FIRST, RANK_NEWEST_FIRST)
            singles = Web(name, site, start).singles(n_starts)
            sites.append(JudgedCrawls(name, site, [[seed] for seed in singles], made))
    return sites


def _cut_out(graph: LinkGraph, pages: NDArray[np.int64]) -> LinkGraph:
    """Return the graph of some pages and the links among them."""
    place = np.full(graph.n_pages, -1, dtype=np.int32)
    place[pages] = np.arange(len(pages))
    rows = [place[graph.out_links(page)] for page in pages.tolist()]
    rows = [row[row >= 0] for row in rows]
    ends = np.concatenate(([0], np.cumsum([len(row) for row in rows])))
    urls = None if graph.urls is None else [graph.urls[page] for page in pages.tolist()]
    return LinkGraph(ends, np.concatenate(rows), graph.site[pages], urls, graph.hosts)


def _start(site: LinkGraph, home: int) -> int:
    """Return the home page, or if it reaches little, the well-linked page that reaches most."""
    candidates = [home, *np.argsort(-np.diff(site.indptr), kind="stable")[:CANDIDATES].tolist()]
    reached = [int(reachable(site, [page]).sum()) for page in candidates]
    return home if 2 * reached[0] >= max(reached) else candidates[int(np.argmax(reached))]


def _as_many(site: JudgedCrawls) -> float:
    """Return the PageRank threshold at which as many pages are hot as by backlinks."""
    share = site.share_hot(site.backlinks, G_LINKS)
    return top_threshold(site.ranks, share, site.reachable[0])


def _over_sites(curves: Sequence[dict[str, list[ModelCurve]]]) -> dict[str, list[ModelCurve]]:
    """Return the curves of all sites, by ordering."""
    names = (*THREE, "random")
    return {name: list(chain.from_iterable(c[name] for c in curves)) for name in names}


def _means(curves: dict[str, list[ModelCurve]]) -> dict[str, Series]:
    """Return the mean curves without bands, which would overlap."""
    return {name: Series(band.points) for name, band in bands(curves).items()}


def _draw(
    report: Report,
    sites: Sequence[JudgedCrawls],
    by_links: Sequence[dict[str, list[ModelCurve]]],
    by_rank: Sequence[dict[str, list[ModelCurve]]],
    nearest: int,
) -> None:
    """Draw graphs 4 and 5, figures 8 to 10."""
    one = sites[nearest]
    counts = np.minimum(one.backlinks[one.reachable[0]], MOST_BACKLINKS).astype(np.int64)
    histogram = np.column_stack((np.arange(MOST_BACKLINKS + 1), np.bincount(counts)))
    links = by_links[nearest]
    shown = {name: bands(links)[name] for name in (*THREE, "random")}
    several = f"{len(sites)} small sites"
    diagonal = {"random, expected": [(0.0, 0.0), (1.0, 1.0)]}
    panels = [
        share_panel(f"{one.name}: IB(P), G = 5", shown, bound_and_random(links["random"][0])),
        Panel(
            {"pages": Series(histogram, mark="bars")},
            f"Backlinks in that site ({MOST_BACKLINKS}: or more)", "backlinks", "pages",
        ),
        share_panel(f"{several}: IB(P), G = 5", _means(_over_sites(by_links)), diagonal),
        share_panel(f"{several}: IR(P), as many hot", _means(_over_sites(by_rank)), diagonal),
    ]  # fmt: skip
    report.figure(
        "small", panels,
        "Graphs 4 and 5, extended version figures 8 to 10: crawls of one group's site of "
        f"{PAGES:,} pages. In the paper, every ordering is at times below random for IB(P), and "
        "does better for IR(P). We use all sites of uci-ics on which half to twice as many pages "
        "can be reached within the site. The crawl starts at the home page; if that reaches less "
        "than half of what another page does, it starts at the well-linked page that reaches "
        f"most. Further crawls, {STARTS} in all, start at random pages that reach at least half "
        "as much. The first site shown is the nearest in size to the paper's. As many pages are "
        "hot by IR(P) as by IB(P), as in the paper, which used G = 3 for that. PageRank is "
        "computed after every page. Curves are means over sites and starts; the table below lists "
        "the sites.",
        title="Crawls of small sites (Cho et al. 1998, graphs 4 and 5)",
    )  # fmt: skip
    report.table(
        "small",
        (
            "pages", "links", "hot, IB >= 5", "would be hot, IR >= 3",
            "below 5 backlinks", "below 10",
            *(f"P_ST {importance}, {name}" for importance in ("IB", "IR") for name in THREE),
        ),
        [
            (
                site.n_reachable, site.graph.n_links,
                f"{site.share_hot(site.backlinks, G_LINKS):.0%}",
                f"{site.share_hot(site.ranks, G_RANK):.1%}",
                *(f"{1 - site.share_hot(site.backlinks, g):.0%}" for g in (G_LINKS, 10.0)),
                *(f"{area(curves[name]):.3f}" for curves in (links, ranks) for name in THREE),
            )
            for site, links, ranks in zip(sites, by_links, by_rank, strict=True)
        ],
        f"The small sites; the paper's had about {PAGES:,} pages, most of them with fewer than 5 "
        "backlinks. P_ST is the mean over all fetches; a random draw from all pages has 0.5.",
    )  # fmt: skip


def _judge_size(
    report: Report,
    sites: Sequence[JudgedCrawls],
    by_links: Sequence[dict[str, list[ModelCurve]]],
    large: Sequence[JudgedCrawls],
) -> None:
    """Compare small domains with large webs."""
    names = [site.name for site in sites]
    of_large = [crawls.p_st(crawls.backlinks, G_LARGE) for crawls in large]
    poorer = {
        name: min(
            area(whole[ordering]) - area(links[ordering])
            for ordering in THREE
            for whole in of_large
        )
        for name, links in zip(names, by_links, strict=True)
    }
    report.finding(
        "Section 5.3: crawls of the small domain perform worse than those of the large one (IB)",
        "mean P_ST of the large webs (G = 100) minus that of a site (G = 5), smallest over "
        f"orderings and webs: {min(poorer.values()):+.3f} to {max(poorer.values()):+.3f}",
        above(poorer),
        "worse than on either large web under each of the three orderings",
        picture="small",
    )


def _choices(report: Report, web: Web, sites: Sequence[JudgedCrawls]) -> None:
    """Write what the paper leaves open: ties, and how often PageRank is computed."""
    report.heading("Ties, and how often PageRank is computed")
    n_pages = web.graph.n_pages
    cadences = {"1": 1, "N/350": n_pages // 350, "N/35": n_pages // 35}
    made = {
        f"pagerank, every {label}": (
            lambda every=every: make_ordering("pagerank", {"every": every, "damping": DAMPING})
        )
        for label, every in cadences.items()
    }
    made["pagerank, default"] = lambda: make_ordering("pagerank", {"damping": DAMPING})
    made |= orderings(1, RANK_NEWEST_FIRST, "backlink-count", NEWEST_FIRST)
    crawls = JudgedCrawls(web.name, web.graph, [[seed] for seed in web.single_seeds], made)
    measured = {
        "IB": crawls.p_st(crawls.backlinks, _threshold(crawls.backlinks, crawls)),
        "IR": crawls.p_st(crawls.ranks, _threshold(crawls.ranks, crawls)),
    }
    every_page = crawls.orders["pagerank, every 1"]
    rows = [
        (
            name, f"{area(measured['IB'][name]):.3f}", f"{area(measured['IR'][name]):.3f}",
            float(np.mean([_places_apart(a, b) for a, b in zip(orders, every_page, strict=True)])),
        )
        for name, orders in crawls.orders.items()
    ]  # fmt: skip
    report.table(
        "choices",
        ("ordering", "P_ST by IB", "P_ST by IR", "mean displacement against every 1 (%)"),
        rows,
        f"{web.name}, {crawls.n_reachable:,} pages, {len(crawls.seeds)} seeds: mean P_ST over all "
        "fetches when the top 1 % is hot, and how far a page moves in the crawl, in percent of "
        "its length, compared with PageRank after every page. 'newest first' breaks ties the "
        "other way.",
    )
    default, exact = (area(measured["IR"][f"pagerank, {x}"]) for x in ("default", "every 1"))
    report.text(
        "Compared with PageRank after every page, the default cadence changes mean P_ST (IR) "
        f"from {exact:.3f} to {default:.3f}. On the small sites above, PageRank is computed after "
        "every page."
    )
    pairs = [
        (areas(curves["backlink-count"])[0], areas(curves[NEWEST_FIRST])[0])
        for curves in (site.p_st(site.backlinks, G_LINKS) for site in sites)
    ]
    report.text(
        "On the small sites, backlink count has a mean P_ST (G = 5) of "
        f"{np.mean([a for a, _ in pairs]):.3f} with the oldest of equal pages first and "
        f"{np.mean([b for _, b in pairs]):.3f} with the newest first."
    )


def _threshold(importance: np.ndarray, crawls: JudgedCrawls) -> float:
    """Return the value that a hundredth of the pages reach or exceed."""
    return float(np.quantile(importance[crawls.reachable[0]], 0.99))


def _places_apart(one: np.ndarray, other: np.ndarray) -> float:
    """Return the mean distance between a page's places in two orders, in percent of the crawl."""
    place = np.empty(max(one.max(), other.max()) + 1)
    place[one] = np.arange(len(one))
    return float(np.abs(place[other] - np.arange(len(other))).mean() / len(one) * 100)
