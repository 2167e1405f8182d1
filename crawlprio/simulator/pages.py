"""The pages of a link graph as a simulated crawl discovers them, and what a recorded one said.

Local ids count from 0 in order of discovery, as in a live crawl.
"""

from __future__ import annotations

import zlib
from collections.abc import Sequence
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from crawlprio.compiled import njit
from crawlprio.errors import GraphError
from crawlprio.linkgraph import LinkGraph
from crawlprio.pages import PageIds, Visit


class GraphPages:
    """The page table of a simulation: local ids in order of discovery <-> page ids of the graph.

    An ordering asks it what it asks of the page table of a live crawl. 12 bytes per page of the
    graph.

    Attributes
    ----------
    local_of
        int32, shape (graph.n_pages,): local id of each page of the graph, -1 before its discovery.
    graph_of
        int32, shape (graph.n_pages,): page of the graph for each local id known so far.
    n_known
        pages discovered so far.
    """

    def __init__(self, graph: LinkGraph) -> None:
        self.graph = graph
        self.local_of = np.full(graph.n_pages, -1, dtype=np.int32)
        self.graph_of = np.zeros(graph.n_pages, dtype=np.int32)
        self.n_known = 0
        self._sites = np.zeros(graph.n_pages, dtype=np.int32)

    def __len__(self) -> int:
        return self.n_known

    @property
    def n_sites(self) -> int:
        return self.graph.n_sites

    @property
    def sites(self) -> NDArray[np.int32]:
        """int32, shape (n_known,): the site of each page by local id. A view."""
        return self._sites[: self.n_known]

    @property
    def all_sites(self) -> NDArray[np.int32]:
        """int32, shape (graph.n_pages,): `sites`, with room for the pages still to be found."""
        return self._sites

    def graph_page(self, page: int) -> int:
        """Return the page of the graph that a local id means."""
        return int(self.graph_of[page])

    def url(self, page: int) -> str:
        """Return the URL of a page.

        Raises
        ------
        GraphError
            if the graph has no URLs.
        """
        if self.graph.urls is None:
            raise GraphError(
                "The graph has no URLs, which the ordering or topic reads; put them, one a line, "
                "in NAME.urls.gz beside NAME.npz, or choose another ordering."
            )
        return self.graph.urls[self.graph_page(page)]

    def discover(self, pages: PageIds) -> PageIds:
        """Return the local ids of pages of the graph; new ones get the next ids. O(pages)."""
        found, self.n_known = _discover(
            self.local_of, self.graph_of, self._sites, self.graph.site, pages, self.n_known
        )
        return np.asarray(found, dtype=np.int32)


class RecordedVisits:
    """What each page of a crawl store said in its last visit: anchor texts, title, text, status.

    They are held in memory, texts compressed.

    Parameters
    ----------
    path
        the crawl store.
    with_texts
        keep the text of pages, which only a topic reads.
    """

    def __init__(self, path: Path, *, with_texts: bool) -> None:
        self._path = path
        self._with_texts = with_texts
        self._visits: dict[int, Visit] | None = None
        self._texts: dict[int, bytes] = {}

    def load(self) -> None:
        """Read the store, if that has not been done; `visit` does it otherwise.

        Raises
        ------
        StoreError
            if the store cannot be read.
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
        """Return the visit of a page that has `row` as links, under its local ids.

        A page that the recorded crawl did not fetch says nothing: no links, status 0.
        """
        self.load()
        assert self._visits is not None
        visit = self._visits.get(graph_page)
        if visit is None:
            return Visit(page, targets, status=0)
        anchors: Sequence[str] = visit.anchors
        if anchors and len(anchors) != len(row):
            of_target = dict(zip(visit.targets.tolist(), anchors, strict=False))
            anchors = [of_target.get(target, "") for target in row.tolist()]
        text = zlib.decompress(self._texts[graph_page]).decode() if self._texts else ""
        return visit._replace(page=page, targets=targets, anchors=anchors, text=text)


@njit(cache=True)
def _discover(
    local_of: PageIds,
    graph_of: PageIds,
    sites: PageIds,
    graph_sites: PageIds,
    pages: PageIds,
    n_known: int,
) -> tuple[PageIds, int]:
    """Give new pages the next local ids; return the local ids of all, and how many are known."""
    found = np.empty(len(pages), dtype=np.int32)
    for at, page in enumerate(pages):
        if local_of[page] < 0:
            local_of[page] = n_known
            graph_of[n_known] = page
            sites[n_known] = graph_sites[page]
            n_known += 1
        found[at] = local_of[page]
    return found, n_known
