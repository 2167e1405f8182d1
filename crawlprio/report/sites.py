"""The sites of a crawl: by pages, delay and importance, and as a graph.

A crawl of one site is drawn by its sections, the first parts of the paths of its pages.
"""

from __future__ import annotations

from collections.abc import Sequence
from urllib.parse import urlsplit

import numpy as np
from numpy.typing import NDArray

from crawlprio.receipt.reading import Pace
from crawlprio.report.charts import dots, network
from crawlprio.report.crawled import ReportedCrawl
from crawlprio.report.parts import Cell, Chart, Section, cut, number, text

N_NODES, N_EDGES, N_NAMED = 40, 150, 10
"""Nodes and edges of the graph, and nodes whose name is written."""

N_DOTS = 2_000
"""Sites that are drawn as dots, those with most pages."""

Parts = NDArray[np.int32]


def sites(crawl: ReportedCrawl) -> Section:
    """Return the sites with their pages, delays and importance, and how they link."""
    graph = crawl.repository.graph
    n_sites = graph.n_sites
    known = np.bincount(graph.site, minlength=n_sites)
    got = np.bincount(graph.site[crawl.is_got], minlength=n_sites)
    values = crawl.scores[0].values
    total = float(values.sum()) or 1.0
    share = np.bincount(graph.site, weights=values, minlength=n_sites) / total
    by_share = np.lexsort((np.arange(n_sites), -share)).tolist()
    rows = (
        [
            text(crawl.host(site)), number(int(known[site])), number(int(got[site])),
            number(float(share[site]), ".2%"), *_pace(crawl, site),
        ]
        for site in by_share
    )  # fmt: skip
    headings = ["site", "known", "got", "importance", "Crawl-delay, s", "least gap, s", "fetch, s"]
    measure = crawl.scores[0].importance
    table = cut(f"Sites by {measure}", headings, rows, n_sites)
    drawn = np.lexsort((np.arange(n_sites), -known))[:N_DOTS].tolist()
    points = {
        "site": [crawl.host(site) for site in drawn],
        "x": known[drawn].tolist(),
        "y": share[drawn].tolist(),
        "pages": known[drawn].tolist(),
        "importance": share[drawn].tolist(),
    }
    charts: list[Chart] = []
    if n_sites > 1:
        tips = {"site": "", "pages": "{0,0}", "importance": "{0.00 %}"}
        axes = ("known pages", f"share of importance by {measure}")
        charts.append(dots("site-sizes", "Sites by pages and importance", points, axes, tips))
    labels, parts = _parts(crawl)
    charts += _graph(crawl, labels, parts)
    return Section("sites", "Sites", (), charts, (table,))


def _pace(crawl: ReportedCrawl, site: int) -> list[Cell]:
    pace = crawl.paces.get(site, Pace())
    mean = pace.seconds / pace.n_fetches if pace.n_fetches else None
    delay = crawl.delays.get(crawl.host(site))
    gap = pace.gap if pace.n_fetches > 1 else None
    return [number(seconds, ",.2f") for seconds in (delay, gap, mean)]


def _parts(crawl: ReportedCrawl) -> tuple[Sequence[str], Parts]:
    """Return the names of the nodes, and the node of every page."""
    graph = crawl.repository.graph
    if graph.n_sites > 1:
        return [crawl.host(site) for site in range(graph.n_sites)], graph.site
    places: dict[str, int] = {}
    assert graph.urls is not None
    parts = [places.setdefault(_folder(url), len(places)) for url in graph.urls]
    return list(places), np.array(parts, dtype=np.int32)


def _folder(url: str) -> str:
    """Return the first folder of the path of a URL."""
    try:
        path = urlsplit(url).path
    except ValueError:
        return "/"
    first, slash, _ = path.removeprefix("/").partition("/")
    return text(f"/{first}/").text if slash else "/"


def _graph(crawl: ReportedCrawl, labels: Sequence[str], parts: Parts) -> list[Chart]:
    """Return the picture of the largest nodes and the links between them, if there are any."""
    graph = crawl.repository.graph
    sizes = np.bincount(parts, minlength=len(labels))
    largest = np.lexsort((np.arange(len(labels)), -sizes))[:N_NODES]
    if len(largest) < 2:
        return []
    node = np.full(len(labels), -1, dtype=np.int64)
    node[largest] = np.arange(len(largest))
    sources = node[np.repeat(parts, np.diff(graph.indptr))]
    targets = node[parts[graph.indices]]
    between = (sources >= 0) & (targets >= 0) & (sources != targets)
    n = len(largest)
    pairs, counts = np.unique(sources[between] * n + targets[between], return_counts=True)
    order = np.lexsort((pairs, -counts))
    edges = [(int(pairs[k]) // n, int(pairs[k]) % n, int(counts[k])) for k in order[:N_EDGES]]
    if not edges:
        return []
    places = _layout(n, edges)
    what = "sites" if graph.n_sites > 1 else "sections of the site"
    few = f"The {n:,} largest {what}" if n < len(labels) else f"All {what}"
    names = [labels[site] for site in largest.tolist()]
    return [network("graph", few, names, places, sizes[largest].tolist(), edges, N_NAMED)]


def _layout(n_nodes: int, edges: Sequence[tuple[int, int, int]]) -> list[tuple[float, float]]:
    """Return the position of each node in the unit square, by the strongest edges alone.

    With all edges, a dense graph would be a ball. Nodes without edges are on the lower border.
    """
    import networkx

    graph = networkx.Graph()
    for a, b, count in edges:
        before = graph.get_edge_data(a, b, {"weight": 0.0})["weight"]
        graph.add_edge(a, b, weight=before + count)
    strongest = networkx.maximum_spanning_tree(graph)
    strongest.add_weighted_edges_from(edges[:n_nodes])
    found: dict[int, tuple[float, float]] = {}
    for part in networkx.connected_components(strongest):
        nodes = strongest.subgraph(sorted(part))
        if len(nodes) * 2 > len(strongest):
            found.update(networkx.kamada_kawai_layout(nodes, weight=None))
    others = [node for node in range(n_nodes) if node not in found]
    for place, node in enumerate(others):
        found[node] = (2.0 * (place + 1) / (len(others) + 1) - 1.0, -1.2)
    return [(float(found[node][0]), float(found[node][1])) for node in range(n_nodes)]
