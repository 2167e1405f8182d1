"""The ordering by anchor text: what the links to a page say about it."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from crawlprio.errors import ConfigError
from crawlprio.orderings.base import Changed, Ordering
from crawlprio.pages import NO_PAGES, Visit
from crawlprio.topic import Topic


class AnchorSimilarity(Ordering):
    """Pages whose best link has the most words of a topic first.

    key = the largest number of occurrences of the words in the anchor text of any one link seen.

    Source: Cho, Garcia-Molina & Page, Efficient crawling through URL ordering, WWW7, 1998, section
    4: similarity of the anchor text, IS(A). Departure: a count instead of a cosine, so that it
    needs no document frequencies. O(words of the anchor texts) per visit.

    Parameters
    ----------
    words
        words and phrases, as a list or as a text with commas between them.
    stem
        Snowball stemmer to reduce words with ("english"); default None: whole words are compared.
    """

    needs_anchors = True

    def __init__(self, words: str | Sequence[str] | None = None, stem: str | None = None) -> None:
        if words is None:
            raise ConfigError(
                "ORDERING_OPTIONS of anchor-similarity: words is missing; give the words that "
                'anchor texts are searched for, such as {"words": "machine learning, statistics"}.'
            )
        if isinstance(words, bytes) or not isinstance(words, str | Sequence):
            raise ConfigError(
                f"ORDERING_OPTIONS of anchor-similarity: words is {words!r}; give a text or a list."
            )
        try:
            self.topic = Topic(words, stem=stem)
        except ConfigError as error:
            raise ConfigError(f"ORDERING_OPTIONS of anchor-similarity: {error}") from None

    def observe(self, visit: Visit) -> Changed:
        better = []
        for target, anchor in zip(visit.targets.tolist(), visit.anchors, strict=False):
            found = self.topic.count(anchor)
            if found > self.keys[target]:
                self.keys[target] = found
                better.append(target)
        return np.array(better, dtype=np.int32) if better else NO_PAGES
