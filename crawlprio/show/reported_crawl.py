"""All that a report says of one crawl, read from its store."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from crawlprio.graph.pages import PageIds
from crawlprio.measure.crawl_order import cumulative_pagerank, depth_from_seeds
from crawlprio.measure.link_audit import Audit, LastVisits
from crawlprio.measure.receipt_document import receipt_of
from crawlprio.measure.repositories import RecordedCrawl
from crawlprio.measure.scores import Score, order_score
from crawlprio.measure.stored_crawl import Pace, StoredCrawl
from crawlprio.orderings import make_ordering
from crawlprio.show.report_parts import text
from crawlprio.simulator.timed import crawl_order
from crawlprio.store import Store

SIMULATED = ("breadth-first", "random")
"""Orderings whose crawl of the recorded links is simulated beside the real one."""


@dataclass(frozen=True, eq=False)
class ReportedCrawl:
    """One crawl.

    `repository`, `scores`, `order_name`: as `crawlprio score` has them; the first score is that of
    sites. `receipt` and `audit`: of the same store. If the crawl is running, they may be later than
    the scores. `seeds`: pages that it started from. `paces`: by site. `delays`: Crawl-delay in
    seconds by host, where robots.txt asks for one.
    """

    repository: RecordedCrawl
    scores: Sequence[Score]
    order_name: str
    receipt: dict[str, Any]
    audit: Audit
    seeds: list[int]
    paces: dict[int, Pace]
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
        n_pages = repository.graph.n_pages
        return cls(
            repository,
            scores,
            text(order_name).text,
            receipt,
            audit,
            [seed for seed in crawl.seeds if seed < n_pages],
            crawl.paces,
            {text(state.host).text: state.crawl_delay for state in states if state.crawl_delay},
        )

    @property
    def n_pages(self) -> int:
        return self.repository.graph.n_pages

    def url(self, page: int) -> str:
        urls = self.repository.graph.urls
        assert urls is not None
        return urls[page]

    def title(self, page: int) -> str:
        visits = self.audit.visits
        return visits.titles[int(visits.title[page])]

    def outcome(self, page: int) -> str:
        """Return what the last visit of a page got, in words."""
        return self.audit.outcome(page)

    def host(self, site: int) -> str:
        """Return the host of a site, printable and cut."""
        hosts = self.repository.graph.hosts
        assert hosts is not None
        return text(hosts[site]).text

    @cached_property
    def is_got(self) -> NDArray[np.bool_]:
        """Pages that were got, redirects included, at their last visit: bool, shape (n_pages,)."""
        got: NDArray[np.bool_] = self.audit.visits.status > 0
        got[list(self.audit.visits.failed)] = False
        return got

    @cached_property
    def is_visited(self) -> NDArray[np.bool_]:
        """Pages that were got or failed, without those that were refused."""
        visited: NDArray[np.bool_] = self.is_got.copy()
        visited[list(self.audit.visits.failed.keys() - self.audit.visits.refused)] = True
        return visited

    @cached_property
    def depths(self) -> NDArray[np.int32]:
        """Fewest links from a seed, -1 if there is no path: int32, shape (n_pages,)."""
        if not self.seeds:
            return np.full(self.n_pages, -1, dtype=np.int32)
        return depth_from_seeds(self.repository.graph, np.array(self.seeds, dtype=np.int32))

    @cached_property
    def _simulated(self) -> dict[str, PageIds]:
        """Orders of other crawls of the recorded links, with as many fetches."""
        if not self.seeds or self.repository.order is None:
            return {}
        budget = len(self.repository.order)
        return {
            name: crawl_order(self.repository.graph, self.seeds, make_ordering(name), budget=budget)
            for name in SIMULATED
        }

    def curves(self, scored: Score) -> dict[str, list[list[float]]]:
        """Return the importance gathered by each order; the score must have one."""
        assert scored.order is not None
        assert scored.bound is not None
        curves = {f"this crawl ({self.order_name})": scored.order.curve}
        for name, order in self._simulated.items():
            kept = order[scored.known[order]]
            gathered = cumulative_pagerank(kept, scored.values, scored.known)
            curves[name] = order_score(gathered, scored.n_known).curve
        return {**curves, "best possible": scored.bound.curve}
