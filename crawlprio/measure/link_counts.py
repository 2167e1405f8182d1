"""Importance by links: link counts, and PageRank as the crawl-ordering papers define it.

`crawlprio.ranking.pagerank` computes PageRank.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from crawlprio.errors import ConfigError, GraphError
from crawlprio.measure.importance import Floats, Importance, Repository, checked_option
from crawlprio.ranking.pagerank import pagerank


class Backlinks(Importance):
    """The number of pages that link to the page, IB(P).

    Source: Cho, Garcia-Molina & Page, Efficient crawling through URL ordering, WWW7, 1998, section
    2. Several links from the same page count once, and self-links do not count, as in the ordering
    `backlink-count`. O(links).
    """

    def of(self, repository: Repository) -> Floats:
        graph = repository.graph
        return np.bincount(graph.indices, minlength=graph.n_pages).astype(np.float64)


class ForwardLinks(Importance):
    """The number of pages that the page links to, IF(P).

    Source: Cho, Garcia-Molina & Page, extended version, section 2: it identifies directory pages.
    O(pages).
    """

    of_content = True

    def of(self, repository: Repository) -> Floats:
        return np.diff(repository.graph.indptr).astype(np.float64)


class PageRankImportance(Importance):
    """PageRank with sum 1, the default metric by which crawls are judged.

    Teleport is uniform, and pages without links, including those not fetched, spread their rank
    over all pages. Source: Baeza-Yates, Castillo, Marin & Rodriguez, Crawling a country, WWW 2005,
    section 3. Cost and accuracy: `crawlprio.ranking.pagerank`.

    `damping`: probability of following a link, 0 <= damping < 1; default 0.85.
    """

    name = "pagerank"

    def __init__(self, damping: float = 0.85) -> None:
        self._damping = checked_option(self.name, "damping", damping, least=0, below=1)

    def of(self, repository: Repository) -> Floats:
        graph = repository.graph
        return pagerank(graph.indptr, graph.indices, damping=self._damping)


class ChoPageRank(PageRankImportance):
    """PageRank with sum n and damping 0.9, IR(P) = (1 - d) + d (IR(T1)/c1 + ... + IR(Tn)/cn).

    A page without backlinks has 1 - d plus its share of the rank that dangling pages spread over
    all pages. Source: Cho, Garcia-Molina & Page 1998, section 2. Their text calls d the probability
    of a jump; in their equation it is the probability of following a link.

    `damping`: d, 0 <= damping < 1; default 0.9.
    """

    name = "cho-pagerank"

    def __init__(self, damping: float = 0.9) -> None:
        super().__init__(damping)

    def of(self, repository: Repository) -> Floats:
        return super().of(repository) * repository.graph.n_pages


class RemotePageRank(PageRankImportance):
    """PageRank over links between sites only, with sum n.

    A link to a page of the same site is a self-endorsement. Source: Najork & Wiener, Breadth-first
    search crawling yields high-quality pages, WWW10, 2001, section 4. Pages without links to other
    sites count as dangling; most pages share the minimum value.

    `damping`: as for `PageRankImportance`.
    """

    name = "remote-pagerank"

    def of(self, repository: Repository) -> Floats:
        graph = repository.graph
        sources = np.repeat(np.arange(graph.n_pages), np.diff(graph.indptr))
        remote = graph.site[sources] != graph.site[graph.indices]
        if not remote.any():
            raise GraphError(
                f"{repository.name} has no links between sites, which remote-pagerank needs; "
                "choose another importance."
            )
        indptr = np.zeros(graph.n_pages + 1, dtype=np.int64)
        np.cumsum(np.bincount(sources[remote], minlength=graph.n_pages), out=indptr[1:])
        ranks = pagerank(indptr, graph.indices[remote], damping=self._damping)
        return ranks * graph.n_pages


class LocationMetric(Importance):
    """Importance by URL alone, IL(P): the key of the ordering `location` minus the smallest key.

    Keys may be negative, but an importance must not be. Subtracting the smallest key gives the
    least important page 0 and keeps differences and order. Source and options: `Location` in
    `crawlprio.orderings.location`.

    `slashes`, `tlds`, `words`: as for the ordering.
    """

    def __init__(
        self,
        slashes: float = 1.0,
        tlds: Mapping[str, float] | None = None,
        words: Mapping[str, float] | None = None,
    ) -> None:
        # Imported here because only this metric needs the orderings.
        from crawlprio.orderings.location import Location

        given: dict[str, Any] = {"slashes": slashes, "tlds": tlds, "words": words}
        try:
            self._rules = Location(**{name: x for name, x in given.items() if x is not None})
        except ConfigError as error:
            bad = str(error).removeprefix("ORDERING_OPTIONS of location: ")
            raise ConfigError(f"Options of importance location: {bad}") from None

    def of(self, repository: Repository) -> Floats:
        urls = repository.graph.urls
        if urls is None:
            raise GraphError(
                f"{repository.name} has no URLs, which the importance location needs; give a "
                "crawl store or a graph with URLs."
            )
        keys = np.fromiter(map(self._rules.score, urls), dtype=np.float64, count=len(urls))
        return keys - keys.min() if len(keys) else keys
