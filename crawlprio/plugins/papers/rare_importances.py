"""Importance metrics that few need: by centrality, by weighted links, and by similar text."""

from __future__ import annotations

from array import array
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from crawlprio.errors import ConfigError, GraphError
from crawlprio.graph.arrays import Floats
from crawlprio.graph.linkgraph import LinkGraph
from crawlprio.graph.topic import Topic
from crawlprio.measure.crawl_models import RENEWALS, Estimate, RenewedEstimate
from crawlprio.measure.importance import Importance, PageText, Repository, checked_option

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


IDF = ("log", "inverse", "none")
MEASURES = ("cosine", "inner")

Term = str | tuple[str, ...]
"""A word, or a phrase as its words."""


class Similarity(Importance):
    """The similarity of title and text to the words and phrases of a topic.

    Page and query are vectors with a weight per term: its number of occurrences times its inverse
    document frequency (idf), estimated from the crawled pages. The similarity is their inner
    product, or their cosine, the inner product after scaling to unit length. A phrase of the topic
    is a term in addition to its words; each term occurs once in the query. IS'(P), by which a
    crawl guesses the similarity, takes the idf of the pages fetched so far, and counts a term that
    none of them has as if it had occurred once.

    Source: Cho, Garcia-Molina & Page, Efficient crawling through URL ordering, extended version,
    section 2 (after Salton, Automatic text processing, 1989). Departures: there the idf of a term
    is 1 / its occurrences in the collection, which is idf "inverse" here. With it, the vector
    length that the cosine divides by is dominated by words that occur on no other page, so "log" is
    the default. The paper leaves open how IS' treats terms not seen, and how often idf is computed
    again (here: 35 times a crawl).

    `topic`: the query. `idf`: "log" (the default): ln(pages with text / pages with the term);
    "inverse": 1 / occurrences in all pages; "none": 1. Always 0 for terms that no page has.
    `measure`: "cosine" (the default) or "inner". `title`: weight of an occurrence in the title
    relative to one in the text, 0 or more; default 10, as for the hot pages of Cho et al. (once in
    the title or ten times in the body).

    One pass over the texts; the cosine takes 24 bytes per distinct term of each page. The crawl
    store truncates texts at 100,000 characters.
    """

    name = "similarity"
    of_content = True
    needs_topic = True

    def __init__(
        self, topic: Topic, *, idf: str = "log", measure: str = "cosine", title: float = 10.0
    ) -> None:
        for option, value, known in (("idf", idf, IDF), ("measure", measure, MEASURES)):
            if value not in known:
                raise ConfigError(
                    f"Options of importance {self.name}: {option} is {value!r}; give one of "
                    f"{', '.join(known)}."
                )
        self._topic = topic
        self._idf = idf
        self._measure = measure
        self._title = checked_option(self.name, "title", title, least=0)

    def of(self, repository: Repository) -> Floats:
        return self._similarity(self._counts(repository), repository.graph.n_pages)

    def estimate(self, repository: Repository, n_fetched: int) -> Estimate:
        counts, n = self._counts(repository), repository.graph.n_pages

        def seen(fetched: NDArray[np.int64]) -> Floats:
            known = np.zeros(n, dtype=np.bool_)
            known[fetched] = True
            return self._similarity(counts, n, known)

        return RenewedEstimate(seen, max(n_fetched // RENEWALS, 1))

    def _similarity(
        self, counts: TermCounts, n: int, known: NDArray[np.bool_] | None = None
    ) -> Floats:
        """Return the similarity of all pages, by the idf of all or of the known pages."""
        cosine = self._measure == "cosine"
        idf = self._idf_of(counts, known)
        weights = counts.occurrences * idf[counts.terms]
        asked = counts.terms < counts.n_query
        query = idf[: counts.n_query]
        products = weights[asked] * query[counts.terms[asked]]
        inner = np.bincount(counts.pages[asked], products, minlength=n).astype(np.float64)
        if not cosine:
            return inner
        lengths = np.sqrt(np.bincount(counts.pages, weights**2, minlength=n))
        lengths *= np.sqrt((query**2).sum())
        return np.divide(inner, lengths, out=np.zeros(n), where=lengths > 0)

    def remarks(self, repository: Repository) -> list[str]:
        texts = repository.texts
        if texts is None or any(page.text for page in texts):
            return []
        return [
            f"{repository.name} has no page texts because it was crawled without TOPIC: "
            f"{self.name} uses titles only."
        ]

    def _counts(self, repository: Repository) -> TermCounts:
        if repository.texts is None:
            raise GraphError(
                f"{repository.name} has no texts, which the importance {self.name} needs; give a "
                "crawl store."
            )
        query_only = self._measure != "cosine"
        return count_terms(repository.texts, self._topic, self._title, query_only=query_only)

    def _idf_of(self, counts: TermCounts, known: NDArray[np.bool_] | None) -> Floats:
        """Return the idf of each term in the known pages; in all, 0 for a term that none has."""
        in_all, n_with = counts.totals(known)
        n_pages = len(counts.worded)
        if known is not None:
            n_pages = max(int(known[counts.worded].sum()), 1)
            in_all, n_with = np.maximum(in_all, 1.0), np.maximum(n_with, 1)
        occurs = n_with > 0
        idf = np.zeros(len(occurs))
        if self._idf == "none":
            idf[occurs] = 1.0
        elif self._idf == "inverse":
            idf[occurs] = 1.0 / in_all[occurs]
        else:
            idf[occurs] = np.log(n_pages / n_with[occurs])
        return idf


class TermCount(Similarity):
    """Number of occurrences of a topic's words and phrases, where one in the title counts as ten.

    `Similarity` by inner product without idf: the only form that does not depend on other pages, so
    that IS'(P) = IS(P). In the experiments of Cho et al., a page is hot if this is 10 or more.

    `topic` and `title`: as for `Similarity`.
    """

    name = "term-count"

    def __init__(self, topic: Topic, *, title: float = 10.0) -> None:
        super().__init__(topic, idf="none", measure="inner", title=title)


@dataclass(frozen=True, eq=False)
class TermCounts:
    """The number of occurrences of each term in each page.

    `pages`, `terms`, `occurrences`, `unweighted`: shape (n,): page, term and number of occurrences,
    with and without the weight of the title, one entry per term of a page. `n_terms`: how many
    there are; those below `n_query` are of the query. `worded`: the pages that have any word.
    """

    pages: NDArray[np.int32]
    terms: NDArray[np.int32]
    occurrences: Floats
    unweighted: Floats
    n_terms: int
    n_query: int
    worded: NDArray[np.int32]

    def totals(self, known: NDArray[np.bool_] | None = None) -> tuple[Floats, NDArray[np.int64]]:
        """Return the occurrences of each term in the known pages, and how many of them have it."""
        kept = slice(None) if known is None else known[self.pages]
        terms = self.terms[kept]
        in_all = np.bincount(terms, self.unweighted[kept], self.n_terms).astype(np.float64)
        return in_all, np.bincount(terms, minlength=self.n_terms)


def count_terms(
    texts: Iterable[PageText], topic: Topic, title: float, *, query_only: bool
) -> TermCounts:
    """Count the words of pages and the phrases of a topic; `query_only`: only terms of the topic.

    An occurrence in the title counts as `title` occurrences, unless unweighted. O(words).
    """
    phrases = [phrase for term in topic.terms if (phrase := tuple(topic.words(term)))]
    query = dict.fromkeys(phrases)
    longer = [phrase for phrase in query if len(phrase) > 1]
    ids: dict[Term, int] = {}
    for phrase in query:
        ids[phrase if len(phrase) > 1 else phrase[0]] = len(ids)
    n_query = len(ids)
    pages, terms, occurrences, unweighted = array("i"), array("i"), array("d"), array("d")
    worded = array("i")
    for page, *fields in texts:
        found: Counter[Term] = Counter()
        weighted: dict[Term, float] = {}
        for field, weight in zip(fields, (title, 1.0), strict=True):
            in_field = _terms_in(topic.words(field), longer)
            found.update(in_field)
            for term, times in in_field.items():
                weighted[term] = weighted.get(term, 0.0) + weight * times
        if found:
            worded.append(page)
        for term, times in found.items():
            term_id = ids.get(term, -1) if query_only else ids.setdefault(term, len(ids))
            if term_id < 0:
                continue
            pages.append(page)
            terms.append(term_id)
            occurrences.append(weighted[term])
            unweighted.append(times)
    return TermCounts(
        pages=np.array(pages, dtype=np.int32),
        terms=np.array(terms, dtype=np.int32),
        occurrences=np.array(occurrences, dtype=np.float64),
        unweighted=np.array(unweighted, dtype=np.float64),
        n_terms=len(ids),
        n_query=n_query,
        worded=np.array(worded, dtype=np.int32),
    )


def _terms_in(words: list[str], phrases: list[tuple[str, ...]]) -> Counter[Term]:
    """Count the words of a text and the occurrences of the phrases."""
    found: Counter[Term] = Counter(words)
    for phrase in phrases:
        if phrase[0] in found:
            in_a_row = zip(*(words[at:] for at in range(len(phrase))), strict=False)
            found[phrase] += sum(each == phrase for each in in_a_row)
    return +found
