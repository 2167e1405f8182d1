"""The input of a simulation: a link graph, its seeds and, from a crawl store, its visits."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from crawlprio.errors import GraphError
from crawlprio.graph.linkgraph import LinkGraph
from crawlprio.graph.pages import NO_PAGE
from crawlprio.measure.crawl_order import reachable
from crawlprio.simulator.graph_pages import RecordedVisits
from crawlprio.store.graph_files import is_store, read_graph
from crawlprio.web.urls import normalise_url

CANDIDATES = 5
"""Number of pages tried as the default seed."""


@dataclass(frozen=True)
class Source:
    """A graph to crawl.

    `store_seeds`: the seeds of the crawl if the source is a crawl store.
    """

    path: Path
    graph: LinkGraph
    store_seeds: tuple[int, ...] | None = None

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
        return cls(path, graph, seeds)

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
