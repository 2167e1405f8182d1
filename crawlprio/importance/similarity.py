"""Importance by text: how similar a page is to a query, IS(P, Q).

What a word is, is known to `crawlprio.topic`; nothing here knows files.
"""

from __future__ import annotations

from array import array
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from crawlprio.errors import ConfigError, GraphError
from crawlprio.importance.base import Floats, Importance, PageText, Repository, checked_option
from crawlprio.topic import Topic

IDF = ("log", "inverse", "none")
MEASURES = ("cosine", "inner")

Term = str | tuple[str, ...]
"""A word, or a phrase as its words."""


class Similarity(Importance):
    """The similarity of title and text to the words and phrases of a topic.

    Page and query are vectors with a weight for each term: how often it occurs, times its inverse
    document frequency (idf), which is estimated from the pages that were crawled. The similarity is
    their inner product, or that of the vectors at length 1, the cosine. A phrase of the topic is a
    term beside its words; in the query each term occurs once.

    Source: Cho, Garcia-Molina & Page, Efficient crawling through URL ordering, extended version,
    section 2 (after Salton, Automatic text processing, 1989). Departure: there the idf of a term is
    1 / its occurrences in the collection, here idf "inverse"; a page's length, by which the cosine
    divides, is then that of its words that occur nowhere else, so "log" is the default.

    Parameters
    ----------
    topic
        the query.
    idf
        "log" (the default): ln(pages with text / those with the term); "inverse": 1 / occurrences
        in all pages; "none": 1. Of terms that no page has, 0.
    measure
        "cosine" (the default) or "inner".
    title
        occurrences in the text that one in the title is worth, 0 or more; default 10, as in Cho et
        al.'s hot pages (once in the title or ten times in the body).

    Notes
    -----
    One pass over the texts; the cosine holds 16 bytes for each distinct term of each page. Texts
    are cut at 100,000 characters by the crawl store.
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
        if repository.texts is None:
            raise GraphError(
                f"{repository.name} has no texts, by which the importance {self.name} goes; give a "
                "crawl store."
            )
        cosine = self._measure == "cosine"
        counts = count_terms(repository.texts, self._topic, self._title, query_only=not cosine)
        n = repository.graph.n_pages
        idf = self._idf_of(counts)
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
            f"{repository.name} holds no page texts, for it was crawled without TOPIC: {self.name} "
            "goes by titles alone."
        ]

    def _idf_of(self, counts: TermCounts) -> Floats:
        """The idf of each term, 0 for one that no page has."""
        occurs = counts.in_all > 0
        idf = np.zeros(len(occurs))
        if self._idf == "none":
            idf[occurs] = 1.0
        elif self._idf == "inverse":
            idf[occurs] = 1.0 / counts.in_all[occurs]
        else:
            idf[occurs] = np.log(counts.n_pages / counts.n_pages_with[occurs])
        return idf


class TermCount(Similarity):
    """How often the words and phrases of a topic occur in the page, one in the title for ten.

    `Similarity` by inner product without idf: the one form that needs no other page, IS'(P) =
    IS(P). A page is hot, in Cho et al.'s experiments, where this is 10 or more.

    Parameters
    ----------
    topic, title
        as for `Similarity`.
    """

    name = "term-count"

    def __init__(self, topic: Topic, *, title: float = 10.0) -> None:
        super().__init__(topic, idf="none", measure="inner", title=title)


@dataclass(frozen=True, eq=False)
class TermCounts:
    """How often each term occurs in each page.

    Parameters
    ----------
    pages, terms, occurrences
        shape (n,): page, term and weighted number of occurrences, one entry for each term that a
        page has.
    in_all, n_pages_with
        shape (n_terms,): occurrences in all pages, unweighted, and pages that have the term.
    n_query
        terms below this are those of the query.
    n_pages
        pages that have any word.
    """

    pages: NDArray[np.int32]
    terms: NDArray[np.int32]
    occurrences: Floats
    in_all: Floats
    n_pages_with: NDArray[np.int64]
    n_query: int
    n_pages: int


def count_terms(
    texts: Iterable[PageText], topic: Topic, title: float, *, query_only: bool
) -> TermCounts:
    """Count the words of pages and the phrases of a topic; `query_only`: only those of the topic.

    An occurrence in the title counts as `title` occurrences, but for the totals. O(words).
    """
    phrases = [phrase for term in topic.terms if (phrase := tuple(topic.words(term)))]
    query = dict.fromkeys(phrases)
    longer = [phrase for phrase in query if len(phrase) > 1]
    ids: dict[Term, int] = {}
    for phrase in query:
        ids[phrase if len(phrase) > 1 else phrase[0]] = len(ids)
    n_query = len(ids)
    pages, terms, occurrences = array("i"), array("i"), array("d")
    totals: Counter[int] = Counter()
    n_pages = 0
    for page, *fields in texts:
        found: Counter[Term] = Counter()
        weighted: dict[Term, float] = {}
        for field, weight in zip(fields, (title, 1.0), strict=True):
            in_field = _terms_in(topic.words(field), longer)
            found.update(in_field)
            for term, times in in_field.items():
                weighted[term] = weighted.get(term, 0.0) + weight * times
        n_pages += bool(found)
        for term, times in found.items():
            term_id = ids.get(term, -1) if query_only else ids.setdefault(term, len(ids))
            if term_id < 0:
                continue
            pages.append(page)
            terms.append(term_id)
            occurrences.append(weighted[term])
            totals[term_id] += times
    in_all = np.zeros(len(ids))
    for term_id, times in totals.items():
        in_all[term_id] = times
    term_ids = np.array(terms, dtype=np.int32)
    return TermCounts(
        pages=np.array(pages, dtype=np.int32),
        terms=term_ids,
        occurrences=np.array(occurrences, dtype=np.float64),
        in_all=in_all,
        n_pages_with=np.bincount(term_ids, minlength=len(ids)),
        n_query=n_query,
        n_pages=n_pages,
    )


def _terms_in(words: list[str], phrases: list[tuple[str, ...]]) -> Counter[Term]:
    """Count the words of a text, and the places at which a phrase starts."""
    found: Counter[Term] = Counter(words)
    for phrase in phrases:
        if phrase[0] in found:
            length = len(phrase)
            times = sum(
                words[at] == phrase[0] and tuple(words[at : at + length]) == phrase
                for at in range(len(words) - length + 1)
            )
            if times:
                found[phrase] = times
    return found
