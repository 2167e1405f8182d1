"""Importance metrics that few need: harmonic centrality, hubs, authorities, weighted PageRank."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from crawlprio.errors import GraphError
from crawlprio.graph.linkgraph import LinkGraph
from crawlprio.measure.importance import Floats, Importance, Repository, checked_option

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
        self._sample = int(checked_option("harmonic", "sample", sample, least=1, whole=True))
        self._seed = int(checked_option("harmonic", "seed", seed, least=0, whole=True))

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


TOLERANCE = 1e-12
"""L1 change per iteration at which it stops, for a vector that sums to 1."""

MAX_ITERATIONS = 100_000


class WeightedPageRank(Importance):
    """PageRank with different weights for links within a site and between sites; sums to n.

    A page's rank is divided among its links in proportion to their weights. This is a middle way
    between `pagerank`, which weights all links equally, and `remote-pagerank`, which ignores links
    within a site.

    Source: Najork & Wiener, Breadth-first search crawling yields high-quality pages, WWW10, 2001.
    Its last section proposes two ways to divide a page's weight, a fixed share for all its remote
    links together or a fixed ratio of a remote link to a local link, and tries neither. Pages
    without links spread their rank over all pages, as in `PageRank`.

    `times`: weight of a link between sites, relative to a link within a site; above 0, default 4.
    `share`: share of a page's rank that all its links between sites get together, if it has links
    of both kinds; 0 or more, below 1. None (the default): use `times`, which is otherwise ignored.
    `damping`: probability of following a link, 0 <= damping < 1; default 0.85.

    Power iteration until the L1 change, for a vector that sums to 1, is below 1e-12: about 170
    iterations of O(links) at the default damping. Memory: 24 bytes per link while it runs.
    """

    name = "weighted-pagerank"

    def __init__(
        self, times: float = 4.0, share: float | None = None, damping: float = 0.85
    ) -> None:
        self._times = checked_option(self.name, "times", times, above=0)
        self._share = (
            None if share is None else checked_option(self.name, "share", share, least=0, below=1)
        )
        self._damping = checked_option(self.name, "damping", damping, least=0, below=1)

    def of(self, repository: Repository) -> Floats:
        from scipy.sparse import csr_matrix

        graph = repository.graph
        n_pages = graph.n_pages
        if n_pages == 0:
            return np.zeros(0)
        follow = csr_matrix((self._weights(graph), graph.indices, graph.indptr), (n_pages, n_pages))
        back = follow.T.tocsr()
        dangling = np.diff(graph.indptr) == 0
        ranks = np.full(n_pages, 1.0 / n_pages)
        for _ in range(MAX_ITERATIONS):
            lost = ranks[dangling].sum() / n_pages
            after = self._damping * (back @ ranks + lost) + (1.0 - self._damping) / n_pages
            after /= after.sum()
            change = float(np.abs(after - ranks).sum())
            ranks = after
            if change < TOLERANCE:
                return np.asarray(ranks * n_pages)
        raise GraphError(
            f"{self.name} of {repository.name} did not converge in {MAX_ITERATIONS:,} iterations; "
            "choose a smaller damping."
        )

    def _weights(self, graph: LinkGraph) -> Floats:
        """Return the share of its source's rank that each link carries."""
        degree = np.diff(graph.indptr)
        sources = np.repeat(np.arange(graph.n_pages), degree)
        remote = graph.site[sources] != graph.site[graph.indices]
        if self._share is None:
            weights = np.where(remote, self._times, 1.0)
        else:
            n_remote = np.bincount(sources[remote], minlength=graph.n_pages)
            n_local = degree - n_remote
            # If a page has links of one kind only, they get all of its rank.
            of_remote = np.where(n_local == 0, 1.0, self._share)[sources]
            of_local = np.where(n_remote == 0, 1.0, 1.0 - self._share)[sources]
            weights = np.where(
                remote,
                of_remote / np.maximum(n_remote, 1)[sources],
                of_local / np.maximum(n_local, 1)[sources],
            )
        totals = np.bincount(sources, weights, minlength=graph.n_pages)
        return np.asarray(weights / totals[sources])
