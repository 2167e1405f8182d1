"""Importance metrics beyond the crawl-ordering papers: harmonic centrality, hubs, authorities."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from crawlprio.errors import ConfigError
from crawlprio.graph.linkgraph import LinkGraph
from crawlprio.measure.importance import Floats, Importance, Repository

if TYPE_CHECKING:
    from scipy.sparse import csr_matrix

EXACT_WORK = 300_000_000
"""Maximum pages times links for exact harmonic centrality: a few seconds of work."""

DISTANCES_AT_ONCE = 4_000_000
"""Distances held in memory at a time, 8 bytes each."""


class Harmonic(Importance):
    """Harmonic centrality: the sum of 1 / distance over all other pages that lead to a page.

    Source: Boldi & Vigna, Axioms for centrality, Internet Mathematics 2014. Exact if pages x links
    is at most 300 million. Above that, it is estimated from the distances from `sample` random
    pages, scaled by pages / sample (Eppstein & Wang, Fast approximation of centrality, J. Graph
    Algorithms and Applications 2004, adapted to harmonic sums). The estimate is unbiased and
    accurate for pages reached from many others; a page that no sampled page reaches has 0.

    `sample`: pages from which distances are measured on a large graph; 1 or more, default 1000.
    With as many as the graph has, the result is exact. `seed`: seed of the sample; 0 or more,
    default 0.

    O(sample x (links + pages log pages)), with all pages as the sample if exact.
    """

    def __init__(self, sample: int = 1000, seed: int = 0) -> None:
        for option, value, least in (("sample", sample, 1), ("seed", seed, 0)):
            if not isinstance(value, int) or isinstance(value, bool) or value < least:
                raise ConfigError(
                    f"Options of importance harmonic: {option} is {value!r}; give a whole number "
                    f"of {least} or more."
                )
        self._sample = sample
        self._seed = seed

    def of(self, repository: Repository) -> Floats:
        from scipy.sparse.csgraph import dijkstra

        graph = repository.graph
        n = graph.n_pages
        if n == 0:
            return np.zeros(0)
        sources = np.arange(n)
        if not self.is_exact(graph):
            sources = np.random.default_rng(self._seed).choice(n, self._sample, replace=False)
            sources.sort()
        matrix = _matrix(graph)
        total = np.zeros(n, dtype=np.float64)
        at_once = max(DISTANCES_AT_ONCE // n, 1)
        for first in range(0, len(sources), at_once):
            starts = sources[first : first + at_once]
            distances = dijkstra(matrix, directed=True, indices=starts, unweighted=True)
            distances[np.arange(len(starts)), starts] = np.inf
            total += (1.0 / distances).sum(axis=0)
        return total * (n / len(sources))

    def is_exact(self, graph: LinkGraph) -> bool:
        """Return whether distances are measured from all pages rather than a sample."""
        return self._sample >= graph.n_pages or graph.n_pages * graph.n_links <= EXACT_WORK

    def remarks(self, repository: Repository) -> list[str]:
        if self.is_exact(repository.graph):
            return []
        return [f"harmonic is estimated from the distances from {self._sample:,} pages."]


class Authorities(Importance):
    """Kleinberg's authority score, scaled to sum 1: a page is good if good hubs link to it.

    The principal right singular vector of the link matrix, iterated from a vector of ones. Source:
    Kleinberg, Authoritative sources in a hyperlinked environment, J. ACM 1999. It is dominated by
    the densest community of the graph, so most pages get next to nothing. Without links all are 0.
    """

    def of(self, repository: Repository) -> Floats:
        return _principal(repository.graph, hubs=False)


class Hubs(Importance):
    """Kleinberg's hub score, scaled to sum 1: a page is good if it links to good authorities.

    The principal left singular vector of the link matrix; see `Authorities`.
    """

    of_content = True

    def of(self, repository: Repository) -> Floats:
        return _principal(repository.graph, hubs=True)


def _matrix(graph: LinkGraph) -> csr_matrix:
    """Return the adjacency matrix: entry (i, j) is 1 if page i links to page j."""
    from scipy.sparse import csr_matrix

    ones = np.ones(graph.n_links, dtype=np.float64)
    shape = (graph.n_pages, graph.n_pages)
    return csr_matrix((ones, graph.indices, graph.indptr), shape=shape)


def _principal(graph: LinkGraph, *, hubs: bool) -> Floats:
    """Return the principal singular vector of one side, scaled to sum 1."""
    from scipy.sparse.linalg import svds

    n = graph.n_pages
    if graph.n_links == 0:
        return np.zeros(n)
    # Start from ones: the iterates stay non-negative, so the result is the limit of Kleinberg's
    # iteration even if the principal singular vector is not unique.
    left, _, right = svds(_matrix(graph), k=1, v0=np.ones(n), solver="arpack")
    vector = np.abs(left[:, 0] if hubs else right[0])
    vector[vector < 1e-13 * vector.max()] = 0.0
    return np.asarray(vector / vector.sum(), dtype=np.float64)
