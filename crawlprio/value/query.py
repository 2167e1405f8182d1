"""The value model `query`: pages that match a query, or that are like example pages."""

from __future__ import annotations

import math
from collections import Counter
from pathlib import Path

from crawlprio.errors import ConfigError
from crawlprio.value.base import Page
from crawlprio.value.examples import read_examples
from crawlprio.web.texts import words_of

K1, B = 1.2, 0.75
"""The usual constants of BM25."""

TITLE = 5
"""How often a word of the title counts."""

MOST_TERMS = 50
"""Terms taken from example pages."""


class Query:
    """BM25 of a page and a query, divided by the most that any page could get.

    The number of pages, their mean length and the number that contain each term of the query are
    counted over the pages scored so far, so a page's value depends on those before it. All are
    counts, so a resumed crawl that scores the same pages again continues as if never interrupted.

    Source: Robertson & Zaragoza, The probabilistic relevance framework: BM25 and beyond, 2009,
    section 3; `idf` is ln(1 + (N - n + 0.5) / (n + 0.5)), which is never negative. Words of the
    title count five times. Words are case-folded and not stemmed.

    Parameters
    ----------
    query
        Words; or `@FILE` or `@FOLDER`, example pages as `crawlprio value train` reads them: the 50
        words with the largest sums of ln(1 + count) over the pages, weighted by these sums.
    """

    runs_in = "here"
    learns = True

    def __init__(self, query: str) -> None:
        if query.startswith("@"):
            self._weights = _terms_of(read_examples(Path(query[1:])))
        else:
            self._weights = dict.fromkeys(words_of(query), 1.0)
        if not self._weights:
            raise ConfigError(f"CRAWLPRIO_VALUE: the query {query!r} has no word; give some.")
        self._n_with = dict.fromkeys(self._weights, 0)
        self._n_pages = 0
        self._n_words = 0

    def score_page(self, page: Page) -> float:
        """Count a page, and return its value. O(words)."""
        words = words_of(page.text)
        counts = Counter(words)
        for word in words_of(page.title):
            counts[word] += TITLE
        self._n_pages += 1
        self._n_words += len(words)
        length = len(words) * self._n_pages / max(self._n_words, 1)
        found, most = 0.0, 0.0
        for term, weight in self._weights.items():
            count = counts[term]
            self._n_with[term] += count > 0
            n = self._n_with[term]
            idf = weight * math.log(1 + (self._n_pages - n + 0.5) / (n + 0.5))
            found += idf * count / (count + K1 * (1 - B + B * length)) if count else 0.0
            most += idf
        return min(found / most, 1.0)


def _terms_of(pages: list[Page]) -> dict[str, float]:
    """Return the terms that stand for example pages, with their weights."""
    sums: Counter[str] = Counter()
    for page in pages:
        for word, count in Counter(words_of(f"{page.title} {page.text}")).items():
            sums[word] += math.log1p(count)  # type: ignore[assignment]
    return dict(sorted(sums.items(), key=lambda item: (-item[1], item[0]))[:MOST_TERMS])
