"""What a simulation crawls: a graph as a page table, its seeds and, from a store, its visits.

Local ids count from 0 in order of discovery, as in a live crawl.
"""

from __future__ import annotations

import zlib
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from crawlprio.errors import GraphError
from crawlprio.graph.compiled import dispatcher_of, load, njit
from crawlprio.graph.linkgraph import LinkGraph
from crawlprio.graph.pages import NO_PAGE, PageIds, Visit
from crawlprio.measure.crawl_order import reachable
from crawlprio.store.graph_files import is_store, read_graph
from crawlprio.web.urls import normalise_url


class GraphPages:
    """The page table of a simulation: local ids in order of discovery <-> page ids of the graph.

    Orderings use it like the page table of a live crawl. Memory: 12 bytes per page of the graph.
    `local_of` has the local id of each page of the graph, -1 before its discovery; `graph_of` the
    page of each of the `n_known` local ids; `all_sites` is `sites` with room for all pages.
    """

    def __init__(self, graph: LinkGraph) -> None:
        self.graph = graph
        self.local_of = np.full(graph.n_pages, -1, dtype=np.int32)
        self.graph_of = np.zeros(graph.n_pages, dtype=np.int32)
        self.n_known = 0
        load()
        self._discover = dispatcher_of(_discover)
        self.all_sites = np.zeros(graph.n_pages, dtype=np.int32)

    def __len__(self) -> int:
        return self.n_known

    @property
    def n_sites(self) -> int:
        return self.graph.n_sites

    @property
    def sites(self) -> NDArray[np.int32]:
        """int32, shape (n_known,): the site of each page by local id. A view."""
        return self.all_sites[: self.n_known]

    def graph_page(self, page: int) -> int:
        """Return the page of the graph for a local id."""
        return int(self.graph_of[page])

    def url(self, page: int) -> str:
        """Return the URL of a page.

        Raises `GraphError` if the graph has no URLs.
        """
        if self.graph.urls is None:
            raise GraphError(
                "The graph has no URLs, which the ordering or topic needs; put them, one per line, "
                "in NAME.urls.gz beside NAME.npz, or choose another ordering."
            )
        return self.graph.urls[self.graph_page(page)]

    def discover(self, pages: PageIds) -> PageIds:
        """Return the local ids of pages of the graph; new ones get the next ids. O(pages)."""
        found, self.n_known = self._discover(
            self.local_of, self.graph_of, self.all_sites, self.graph.site, pages, self.n_known
        )
        return np.asarray(found, dtype=np.int32)


class RecordedVisits:
    """The last visit of each page in a crawl store: anchor texts, title, text and status.

    The visits are held in memory, with compressed texts, which only a topic needs. `values`:
    float64, by page of the graph: replace the recorded values if set.
    """

    values: NDArray[np.float64] | None = None

    def __init__(self, path: Path, *, with_texts: bool) -> None:
        self._path = path
        self._with_texts = with_texts
        self._visits: dict[int, Visit] | None = None
        self._texts: dict[int, bytes] = {}

    def load(self) -> None:
        """Read the store unless it has been read; `visit` calls this if needed.

        Raises `StoreError` if it cannot be read.
        """
        if self._visits is not None:
            return
        from crawlprio.store import Store

        visits: dict[int, Visit] = {}
        with Store.open(self._path, readonly=True) as store:
            for visit in store.visits():
                if visit.page < 0:
                    continue
                visits[visit.page] = visit._replace(text="", outside=())
                if self._with_texts:
                    self._texts[visit.page] = zlib.compress(visit.text.encode(), 1)
        self._visits = visits

    def visit(self, graph_page: int, row: PageIds, page: int, targets: PageIds) -> Visit:
        """Return the recorded visit of a page whose links are `row`, in local ids.

        A page that the recorded crawl did not fetch has status 0 and no text.
        """
        self.load()
        assert self._visits is not None
        visit = self._visits.get(graph_page)
        if visit is None:
            return Visit(page, targets, status=0)
        anchors: Sequence[str] = visit.anchors
        if anchors and len(anchors) != len(row):
            anchor_of = dict(zip(visit.targets.tolist(), anchors, strict=False))
            anchors = [anchor_of.get(target, "") for target in row.tolist()]
        text = zlib.decompress(self._texts[graph_page]).decode() if self._texts else ""
        extras = visit.extras
        if self.values is not None and 200 <= visit.status < 300:
            extras = {**extras, "page_values": (float(self.values[graph_page]),)}
        return visit._replace(page=page, targets=targets, anchors=anchors, text=text, extras=extras)


@njit(cache=True)
def _discover(
    local_of: PageIds,
    graph_of: PageIds,
    sites: PageIds,
    graph_sites: PageIds,
    pages: PageIds,
    n_known: int,
) -> tuple[PageIds, int]:
    """Give new pages the next local ids; return the local ids of all pages, and the new count."""
    found = np.empty(len(pages), dtype=np.int32)
    for at, page in enumerate(pages):
        if local_of[page] < 0:
            local_of[page] = n_known
            graph_of[n_known] = page
            sites[n_known] = graph_sites[page]
            n_known += 1
        found[at] = local_of[page]
    return found, n_known


CANDIDATES = 5
"""Number of pages tried as the default seed."""


@dataclass(frozen=True)
class Source:
    """A graph to crawl.

    `store_seeds`: the seeds of the crawl if the source is a crawl store; `n_not_got` is then the
    number of pages that the crawl did not get.
    """

    path: Path
    graph: LinkGraph
    store_seeds: tuple[int, ...] | None = None
    n_not_got: int = 0

    @classmethod
    def open(cls, path: str | Path, most_bytes: int | None = None) -> Source:
        """Read a graph or a crawl store, as `read_graph` does.

        Raises `GraphError` or `StoreError` if it cannot be read or has no pages.
        """
        path = Path(path)
        graph = read_graph(path, most_bytes)
        if graph.n_pages == 0:
            raise GraphError(f"{path} has no pages; there is nothing to crawl.")
        if not is_store(path):
            return cls(path, graph)
        from crawlprio.store import Store

        with Store.open(path, readonly=True) as store:
            seeds = tuple(seed for seed in store.seeds() if seed < graph.n_pages)
            got = np.zeros(graph.n_pages, dtype=np.bool_)
            for page, status in store.statuses():
                if 0 <= page < graph.n_pages:
                    got[page] = 200 <= status < 400
        return cls(path, graph, seeds, int(np.count_nonzero(~got)))

    @property
    def remark(self) -> str:
        """What a reader of simulated crawls needs to know of a crawl that did not get all pages."""
        if not self.n_not_got:
            return ""
        return (
            f"{self.n_not_got:,} of these pages were not fetched, so they have no links here: "
            "nobody knows what lies behind them."
        )

    @property
    def is_store(self) -> bool:
        return self.store_seeds is not None

    def default_seeds(self) -> list[int]:
        """Return the seeds of a crawl store, or else one page from which many can be reached.

        The candidates are page 0 and the `CANDIDATES` - 1 pages with the most links; the one that
        reaches the most pages is chosen, the first of them on a tie. O(links).
        """
        if self.store_seeds:
            return list(self.store_seeds)
        graph = self.graph
        most_links = np.argsort(-np.diff(graph.indptr), kind="stable")[: CANDIDATES - 1]
        candidates = dict.fromkeys([0, *most_links.tolist()])
        return [max(candidates, key=lambda page: int(reachable(graph, [page]).sum()))]

    def find_seeds(self, given: Sequence[str]) -> list[int]:
        """Return the pages for the given page ids or URLs, in the same order.

        Raises `GraphError` if one is not a page of the graph.
        """
        graph = self.graph
        seeds = []
        for seed in given:
            page = NO_PAGE
            if seed.isascii() and seed.isdigit() and len(seed) < 12:
                page = int(seed) if int(seed) < graph.n_pages else NO_PAGE
            elif graph.urls is not None:
                page = graph.find(seed)
                if page == NO_PAGE:
                    page = graph.find(normalise_url(seed) or seed)
            elif ":" in seed:
                raise GraphError(
                    f"seed {seed} is a URL, but {self.path} has no URLs; give a page id from 0 to "
                    f"{graph.n_pages - 1}."
                )
            if page == NO_PAGE:
                known = "or a URL of the graph" if graph.urls is not None else "as it has no URLs"
                raise GraphError(
                    f"seed {seed} is not a page of {self.path}; give a page id from 0 to "
                    f"{graph.n_pages - 1}, {known}."
                )
            seeds.append(page)
        return seeds

    def recorded(self, *, with_texts: bool) -> RecordedVisits | None:
        """Return the recorded visits of a crawl store, or None for a graph."""
        return RecordedVisits(self.path, with_texts=with_texts) if self.is_store else None
