"""The report on a crawl, or on two compared, as one HTML page with all it needs inside.

A crawl of one site is drawn by its sections, the first parts of the paths of its pages.
"""

from __future__ import annotations

import base64
import hashlib
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from importlib.metadata import version
from importlib.resources import files
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import numpy as np
from numpy.typing import NDArray

from crawlprio.graph.arrays import Floats
from crawlprio.graph.pages import NO_PAGE, PageIds
from crawlprio.measure.crawl_order import best_order, cumulative_pagerank, depth_from_seeds
from crawlprio.measure.importance import RecordedCrawl
from crawlprio.measure.link_audit import Audit, Faults, LastVisits
from crawlprio.measure.receipt_document import FROM_SEEDS, OF_ALL, receipt_of, rows, sentences
from crawlprio.measure.scores import Score, order_score
from crawlprio.measure.stored_crawl import FetchRate, StoredCrawl
from crawlprio.orderings import BASELINES, make_ordering
from crawlprio.plugins import load_all
from crawlprio.show.report_parts import (
    Cell,
    Chart,
    ReportSection,
    ReportTable,
    bars,
    cut,
    dots,
    lines,
    network,
    number,
    page,
    pages,
    text,
)
from crawlprio.simulator.timed import crawl_order
from crawlprio.store import Store


@dataclass(frozen=True, eq=False)
class ReportedCrawl:
    """One crawl.

    `repository`, `scores`, `order_name`: as `crawlprio score` has them; the first score is that of
    sites. `receipt` and `audit`: of the same store. If the crawl is running, they may be later than
    the scores. `paces`: by site. `delays`: Crawl-delay in seconds by host, where robots.txt asks
    for one.
    """

    repository: RecordedCrawl
    scores: Sequence[Score]
    order_name: str
    receipt: dict[str, Any]
    audit: Audit
    paces: dict[int, FetchRate]
    delays: dict[str, float]

    @classmethod
    def read(
        cls, repository: RecordedCrawl, scores: Sequence[Score], order_name: str
    ) -> ReportedCrawl:
        """Read what the scores leave out; raise `StoreError` if the store is damaged."""
        with Store.open(repository.name, readonly=True) as store, store.snapshot():
            last = LastVisits(repository.graph.n_pages)
            visits = store.visits(texts=False, anchors=False, titles=True)
            crawl = StoredCrawl.read(store, last.noting(visits))
            receipt = receipt_of(store, crawl)
            audit = Audit.of(store, repository.graph, last)
            states = store.site_states()
        return cls(
            repository,
            scores,
            text(order_name).text,
            receipt,
            audit,
            crawl.paces,
            {text(state.host).text: state.crawl_delay for state in states if state.crawl_delay},
        )

    @property
    def n_pages(self) -> int:
        return self.repository.graph.n_pages

    def host(self, site: int) -> str:
        """Return the host of a site, printable and cut."""
        hosts = self.repository.graph.hosts
        assert hosts is not None
        return text(hosts[site]).text

    @cached_property
    def is_got(self) -> NDArray[np.bool_]:
        """Whether the last visit fetched the page or a redirect: bool, shape (n_pages,)."""
        got: NDArray[np.bool_] = self.audit.visits.status > 0
        got[list(self.audit.visits.failed)] = False
        return got

    @cached_property
    def is_visited(self) -> NDArray[np.bool_]:
        """Mask of the pages that were requested: fetched or failed, but not refused."""
        visited: NDArray[np.bool_] = self.is_got.copy()
        visited[list(self.audit.visits.failed.keys() - self.audit.visits.refused)] = True
        return visited

    @cached_property
    def depths(self) -> NDArray[np.int32]:
        """Fewest links from a seed, -1 if there is no path: int32, shape (n_pages,)."""
        if not self.repository.seeds:
            return np.full(self.n_pages, -1, dtype=np.int32)
        return depth_from_seeds(self.repository.graph, self.repository.seeds)

    @cached_property
    def _simulated(self) -> dict[str, PageIds]:
        """Orders of other crawls of the recorded links, with as many fetches."""
        graph, seeds, order = self.repository.graph, self.repository.seeds, self.repository.order
        if not seeds or order is None:
            return {}
        return {
            name: crawl_order(graph, seeds, make_ordering(name), budget=len(order))
            for name in BASELINES
        }

    def curves(self, scored: Score) -> dict[str, list[list[float]]]:
        """Return the importance gathered by each order; the score must have one."""
        assert scored.order is not None
        assert scored.bound is not None
        curves = {f"{self.order_name} (this crawl)": scored.order.curve}
        for name, order in self._simulated.items():
            kept = order[scored.known[order]]
            gathered = cumulative_pagerank(kept, scored.values, scored.known)
            curves[name] = order_score(gathered, scored.n_known).curve
        return {**curves, "upper-bound": scored.bound.curve}


MAX_DEPTH = 20
"""Depth from which all pages share a bar."""

N_TIMES = 200
"""Points of the lines over time."""

N_BEST = 25
"""Pages listed as the most important."""

N_RELATED = 5
"""Pages that a finding of the audit shows on request."""

UNITS = ((86_400.0, "days"), (3_600.0, "hours"), (60.0, "minutes"), (1.0, "seconds"))

RECORDED = (
    "The lines breadth-first and random are simulated crawls of the recorded links, with as many "
    "fetches; what lies behind pages that this crawl did not fetch is unknown to them too. The "
    "upper-bound fetches the pages of the greatest importance first, as no crawl could. All "
    f"importance here is {OF_ALL} that are known; the receipt's is {FROM_SEEDS}."
)


def receipt(crawl: ReportedCrawl) -> ReportSection:
    """Return the section on what was requested, fetched, refused and missed."""
    said = sentences(crawl.receipt)
    values = [[text(name), _lines(value)] for name, value in rows(crawl.receipt)
              if value not in said]  # fmt: skip
    table = ReportTable("The receipt.", ["", ""], values)
    return ReportSection("receipt", "What the crawl fetched", said, (), (table,))


def coverage(crawl: ReportedCrawl) -> ReportSection:
    """Return the importance gathered as pages were fetched, for each importance with an order."""
    charts = [
        lines(
            f"coverage-{k}",
            f"Importance gathered, by {scored.importance}",
            crawl.curves(scored),
            ("share of known pages fetched", f"share of the importance {OF_ALL}"),
            (True, True),
        )
        for k, scored in enumerate(crawl.scores)
        if scored.order is not None
    ]
    return ReportSection(
        "coverage", "Coverage", [RECORDED] if charts else ["Nothing to draw."], charts
    )


def time(crawl: ReportedCrawl) -> ReportSection:
    """Return the chart of fetched and failed pages over time."""
    at, is_got = crawl.audit.visits.fetched_at, crawl.is_got
    charts = over_time({"fetched": at[is_got], "failed": at[crawl.is_visited & ~is_got]})
    return ReportSection(
        "time", "The crawl over time", () if charts else ["Nothing was fetched."], charts
    )


def over_time(times: Mapping[str, Floats], *, together: bool = True) -> list[Chart]:
    """Return the number of fetches by time, a line each, if there are any.

    `times`: Unix times of fetches. `together`: whether all count from the first of all, or each
    from its own first.
    """
    ended = {name: np.sort(values) for name, values in times.items() if len(values)}
    if not ended:
        return []
    begin = min(values[0] for values in ended.values())
    begins = {name: begin if together else values[0] for name, values in ended.items()}
    span = max(values[-1] - begins[name] for name, values in ended.items())
    size, unit = next((u for u in UNITS if span >= 2 * u[0]), UNITS[-1])
    series = {}
    for name, values in ended.items():
        counts = np.unique(np.linspace(1, len(values), min(len(values), N_TIMES)).astype(np.int64))
        series[name] = np.column_stack([(values[counts - 1] - begins[name]) / size, counts])
    return [lines("over-time", "Pages over time", series, (f"{unit} since the first", "pages"))]


def depth(crawl: ReportedCrawl) -> ReportSection:
    """Return the known pages by the fewest links from a seed."""
    depths = np.minimum(crawl.depths, MAX_DEPTH)
    most = int(depths.max(initial=0)) + 1
    counts = [
        np.bincount(depths[mask & (depths >= 0)], minlength=most)
        for mask in (crawl.is_got, ~crawl.is_got)
    ]
    names = [f"{n} or more" if n == MAX_DEPTH else str(n) for n in range(most)]
    series = {"fetched": counts[0].tolist(), "not fetched": counts[1].tolist()}
    chart = bars("depth", "Known pages by depth", names, series, ("links from a seed", "pages"))
    n_beyond = int((depths < 0).sum())
    pages = "1 page" if n_beyond == 1 else f"{n_beyond:,} pages"
    remark = [f"{pages} cannot be reached from a seed by recorded links."]
    return ReportSection("depth", "Depth", remark if n_beyond else (), [chart])


def outcomes(crawl: ReportedCrawl) -> ReportSection:
    """Return the statuses of fetched pages, and the causes of failures."""
    visits = crawl.audit.visits
    got = Counter(f"HTTP {status}" for status in visits.status[crawl.is_got].tolist())
    failed = Counter(visits.failed.values())
    counted = [(name, n, "fetched") for name, n in got.items()]
    counted += [(name, n, "failed") for name, n in failed.items()]
    counted.sort(key=lambda row: (-row[1], row[0]))
    table = cut(
        "Outcomes of the last visit of each page", ["outcome", "pages", ""],
        ([text(name), number(n), text(kind)] for name, n, kind in counted), len(counted),
    )  # fmt: skip
    return ReportSection("outcomes", "Statuses and failures", (), (), (table,))


def refusals(crawl: ReportedCrawl) -> ReportSection:
    """Return every refusal by rule and setting, with examples."""
    refused = crawl.receipt["refused"]
    if not refused:
        return ReportSection("refusals", "Refusals", ["No rule refused a link."])
    values = [
        [text(rule), number(of["links"]), text(of["setting"] or ""),
         pages(of["examples"], of["links"])]
        for rule, of in refused.items()
    ]  # fmt: skip
    table = ReportTable(
        "Links and pages that a rule refused.", ["rule", "refused", "setting", "examples"], values
    )
    return ReportSection("refusals", "Refusals", (), (), (table,))


def audit(crawl: ReportedCrawl) -> ReportSection:
    """Return broken links, redirects, duplicates and the like."""
    tables = []
    for findings in crawl.audit.findings:
        if not len(findings):
            continue
        related = findings.related_are
        rows = (_found(crawl, found, bool(related)) for found in findings)
        headings = ["page", "what", *([related] if related else [])]
        tables.append(cut(findings.says, headings, rows, len(findings)))
    clean = [f.says for f in crawl.audit.findings if not len(f)]
    remarks = list(crawl.audit.remarks)
    if clean:
        remarks.append(f"None found: {'; '.join(clean)}.")
    return ReportSection("audit", "Faults of the sites", remarks, (), tables)


def _found(crawl: ReportedCrawl, found: Faults, has_related: bool) -> list[Cell]:
    row = [page(found.url), text(found.detail)]
    if has_related:
        shown = crawl.audit.urls(found.related[:N_RELATED])
        row.append(pages([*shown], len(found.related)))
    return row


def top(crawl: ReportedCrawl) -> ReportSection:
    """Return the most important pages by each importance, and the best that were missed."""
    tables = [table for scored in crawl.scores for table in _top(crawl, scored)]
    return ReportSection("pages", "Most important pages", (), (), tables)


def _top(crawl: ReportedCrawl, scored: Score) -> Iterator[ReportTable]:
    total = float(scored.values[scored.known].sum())
    if not total > 0.0:
        return
    audit = crawl.audit
    for mask, which, heading, of in (
        (scored.known, "", "title", audit.title),
        (
            *(scored.known & ~crawl.is_got, " that were not fetched,", "because"),
            lambda at: audit.visits.failed.get(at, "not fetched yet"),
        ),
    ):
        best = best_order(scored.values, mask)[:N_BEST].tolist()
        values = [
            [number(rank), number(float(scored.values[at]) / total, ".3%"), page(audit.url(at)),
             text(of(at))]
            for rank, at in enumerate(best, 1)
        ]  # fmt: skip
        if values:
            caption = f"The most important pages{which} by {scored.importance}."
            yield ReportTable(caption, ["rank", f"share {OF_ALL}", "page", heading], values)


def _lines(value: str) -> Cell:
    """Return a cell of several lines, all but the first shown on request."""
    first, *others = value.split("\n")
    return text(first)._replace(more=[page(line.strip()) for line in others])


N_NODES, N_EDGES, N_NAMED = 40, 150, 10
"""Nodes and edges of the graph, and nodes whose name is written."""

N_DOTS = 2_000
"""Sites that are drawn as dots, those with most pages."""

Parts = NDArray[np.int32]


def sites(crawl: ReportedCrawl) -> ReportSection:
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
    headings = ["site", "known", "fetched", "importance"]
    headings += ["Crawl-delay, s", "least gap, s", "fetch, s"]
    measure = crawl.scores[0].importance
    table = cut(f"Sites by {measure} {OF_ALL}", headings, rows, n_sites)
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
        axes = ("known pages", f"share of the importance {OF_ALL}, by {measure}")
        charts.append(dots("site-sizes", "Sites by pages and importance", points, axes, tips))
    labels, parts = _parts(crawl)
    charts += _graph(crawl, labels, parts)
    return ReportSection("sites", "Sites", (), charts, (table,))


def _pace(crawl: ReportedCrawl, site: int) -> list[Cell]:
    pace = crawl.paces.get(site, FetchRate())
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


Pages = NDArray[np.int64]

ALIKE = ("seeds", "missing", "more", "refused")
"""Rows of a receipt that are lists, which are not compared."""


class ComparedCrawls:
    """Two crawls, A and B, whose pages are matched by URL.

    O(pages) time; 4 bytes a page of each on top of the two crawls.
    """

    def __init__(self, a: ReportedCrawl, b: ReportedCrawl) -> None:
        self.a, self.b = a, b
        self.at_b, self.at_a = _matched(a, b), _matched(b, a)
        self.only_a, self.only_b = _got_alone(a, b, self.at_b), _got_alone(b, a, self.at_a)

    @cached_property
    def both(self) -> tuple[Pages, Pages]:
        """The pages that both visited: of A, and the same of B."""
        in_a = np.flatnonzero((self.at_b != NO_PAGE) & self.a.is_visited)
        in_a = in_a[self.b.is_visited[self.at_b[in_a]]]
        return in_a, self.at_b[in_a].astype(np.int64)

    def changed(self, of: Callable[[Audit, int], object]) -> list[tuple[int, int]]:
        """Return the pages that both visited and of which something differs, in A and in B."""
        pairs = zip(*(pages.tolist() for pages in self.both), strict=True)
        return [(a, b) for a, b in pairs if of(self.a.audit, a) != of(self.b.audit, b)]

    @cached_property
    def outcomes(self) -> list[tuple[int, int]]:
        """Pages with another status, or cause of failure, in B."""
        return self.changed(Audit.outcome)

    @cached_property
    def titles(self) -> list[tuple[int, int]]:
        """Pages that both crawls fetched, and whose title differs in B."""
        is_got = self.a.is_got, self.b.is_got
        return [(a, b) for a, b in self.changed(Audit.title) if is_got[0][a] and is_got[1][b]]

    @cached_property
    def n_bodies(self) -> int:
        """How many pages that both visited have another body in B."""
        bodies = [
            crawl.audit.visits.body[pages]
            for crawl, pages in zip((self.a, self.b), self.both, strict=True)
        ]
        return int(((bodies[0] != bodies[1]) & (bodies[0] != 0) & (bodies[1] != 0)).sum())

    def sentences(self) -> list[str]:
        """Return how the two crawls differ."""
        return [
            f"Pages fetched by A alone: {len(self.only_a):,}; by B alone: {len(self.only_b):,}.",
            f"Pages visited by both: {len(self.both[0]):,}; of these, with another status: "
            f"{len(self.outcomes):,}, title: {len(self.titles):,}, body: {self.n_bodies:,}.",
        ]

    def sections(self) -> list[ReportSection]:
        return [self._summary(), self._found(), self._changes(), self._sites(), self._time()]

    def _summary(self) -> ReportSection:
        said = [_merged(crawl) for crawl in (self.a, self.b)]
        names = [name for name in said[0] | said[1] if name not in ALIKE]
        values = [[text(name), *(text(each.get(name, "-")) for each in said)] for name in names]
        table = ReportTable("The receipts of both.", ["what", "A", "B"], values)
        return ReportSection("both", "Both crawls", self.sentences(), (), (table,))

    def _found(self) -> ReportSection:
        tables = [
            _only(("A", self.a), ("B", self.b), self.only_a, self.at_b),
            _only(("B", self.b), ("A", self.a), self.only_b, self.at_a),
        ]
        return ReportSection("found", "Found by one of them", (), (), tables)

    def _changes(self) -> ReportSection:
        headings, a, b = ["page", "in A", "in B"], self.a.audit, self.b.audit
        tables = []
        for what, pairs, of in (
            ("status", self.outcomes, Audit.outcome),
            ("title", self.titles, Audit.title),
        ):
            changed = (
                [page(a.url(at)), text(of(a, at)), text(of(b, there))] for at, there in pairs
            )
            if pairs:
                tables.append(cut(f"Pages with another {what}", headings, changed, len(pairs)))
        remarks = () if tables else ["No status and no title changed."]
        return ReportSection("changes", "What changed", remarks, (), tables)

    def _sites(self) -> ReportSection:
        counts: dict[str, list[int]] = {}
        for place, crawl in enumerate((self.a, self.b)):
            graph = crawl.repository.graph
            got = np.bincount(graph.site[crawl.is_got], minlength=graph.n_sites)
            for site, n_got in enumerate(got.tolist()):
                counts.setdefault(crawl.host(site), [0, 0])[place] += n_got
        ordered = sorted(counts.items(), key=lambda one: (-abs(one[1][1] - one[1][0]), one[0]))
        values = (
            [text(host), number(a), number(b), number(b - a, "+,")] for host, (a, b) in ordered
        )
        headings = ["site", "fetched in A", "fetched in B", "difference"]
        table = cut("Sites by how much they differ", headings, values, len(ordered))
        return ReportSection("sites", "Sites", (), (), (table,))

    def _time(self) -> ReportSection:
        times = {
            letter: crawl.audit.visits.fetched_at[crawl.is_got]
            for letter, crawl in (("A", self.a), ("B", self.b))
        }
        return ReportSection("time", "Fetches over time", (), over_time(times, together=False))


def _matched(crawl: ReportedCrawl, other: ReportedCrawl) -> NDArray[np.int32]:
    """Return the page of another crawl with the URL of each page; `NO_PAGE` if it has none."""
    found = (other.repository.graph.find(crawl.audit.url(at)) for at in range(crawl.n_pages))
    return np.fromiter(found, dtype=np.int32, count=crawl.n_pages)


def _got_alone(crawl: ReportedCrawl, other: ReportedCrawl, places: NDArray[np.int32]) -> Pages:
    """Return the pages that only one crawl fetched, the most important first."""
    is_known = places != NO_PAGE
    is_alone = crawl.is_got.copy()
    is_alone[is_known] &= ~other.is_got[places[is_known]]
    found = np.flatnonzero(is_alone)
    return found[np.lexsort((found, -crawl.scores[0].values[found]))]


def _merged(crawl: ReportedCrawl) -> dict[str, str]:
    """Return the rows of a receipt, those of the same name as one."""
    merged: dict[str, str] = {}
    for name, value in rows(crawl.receipt):
        merged[name] = f"{merged[name]}; {value}" if name in merged else value
    return merged


def _only(
    one: tuple[str, ReportedCrawl],
    another: tuple[str, ReportedCrawl],
    found: Pages,
    places: NDArray[np.int32],
) -> ReportTable:
    """Return the table of pages that one crawl alone fetched; `places` are ranks in the other."""
    (letter, crawl), (letter_of_other, other) = one, another

    def elsewhere(at: int) -> str:
        return "unknown" if places[at] == NO_PAGE else other.audit.outcome(int(places[at]))

    values = (
        [page(crawl.audit.url(at)), text(crawl.audit.title(at)), text(elsewhere(at))]
        for at in found.tolist()
    )
    caption = f"Pages that {letter} fetched and {letter_of_other} did not, the most important first"
    return cut(caption, ["page", "title", f"in {letter_of_other}"], values, len(found))


NEEDED = ("bokeh", "jinja2", "networkx")
"""Packages of the extra `report`."""

POLICY = (
    "default-src 'none'; script-src {scripts}; style-src 'unsafe-inline'; img-src data:; "
    "base-uri 'none'; form-action 'none'"
)
"""The content security policy of the page: nothing is requested, and only its own scripts run."""


def report_of(crawl: ReportedCrawl) -> str:
    """Return the report of a crawl, as HTML."""
    got = crawl.receipt["got"]
    seeds = crawl.receipt["asked"]["seeds"]
    start = text(seeds[0]).text if seeds else Path(crawl.repository.name).name
    more = len(seeds) - 1
    title = f"Crawl of {start}" + (f" and {more:,} more" if more > 0 else "")
    when = f"{got['begin']} to {got['end']}" if got["begin"] else "nothing fetched"
    return html_page(
        title,
        f"{text(crawl.repository.name).text}: {got['pages']:,} pages fetched, "
        f"{got['known']:,} known, {when}",
        [part for make in (*SECTIONS, *load_all("report sections")) if (part := make(crawl))],
    )


SECTIONS = (receipt, coverage, top, sites, time, depth, outcomes, audit, refusals)
"""What makes each section of a report, in order; those of plugins come last."""


def comparison_of(crawls: ComparedCrawls) -> str:
    """Return the report of two crawls, as HTML."""
    names = [text(crawl.repository.name).text for crawl in (crawls.a, crawls.b)]
    return html_page("Two crawls", f"A is {names[0]}, and B is {names[1]}.", crawls.sections())


def html_page(title: str, subtitle: str, parts: Sequence[ReportSection]) -> str:
    """Return a page of sections, as HTML; whatever they hold is escaped."""
    from bokeh.resources import Resources
    from jinja2 import Environment, StrictUndefined
    from markupsafe import Markup

    own = files("crawlprio.show") / "page"
    template, css, script = (
        (own / f"report.{suffix}").read_text("utf-8") for suffix in ("html.jinja", "css", "js")
    )
    library = Resources(mode="inline", components=["bokeh"]).js_raw[0]
    environment = Environment(autoescape=True, undefined=StrictUndefined)
    # In Bokeh's JSON a definition comes before what refers to it.
    environment.policies["json.dumps_kwargs"] = {"sort_keys": False}
    charts = [chart for section in parts for chart in section.charts]
    return environment.from_string(template).render(
        title=title,
        subtitle=subtitle,
        sections=parts,
        figures={chart.name: chart.figure for chart in charts},
        policy=POLICY.format(scripts=" ".join(_hash(each) for each in (library, script))),
        css=Markup(css),
        library=Markup(library),
        script=Markup(script),
        made=f"Made by crawlprio {version('crawlprio')}. Charts: Bokeh {version('bokeh')}.",
    )


def _hash(script: str) -> str:
    """Return the hash by which a policy allows a script."""
    digest = base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()
    return f"'sha256-{digest}'"
