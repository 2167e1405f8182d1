"""The ordering by anchor text: how well the links to a page match a topic."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from crawlprio.errors import ConfigError
from crawlprio.graph.pages import NO_PAGES, Visit
from crawlprio.graph.topic import Topic
from crawlprio.orderings.base import Changed, KeyHistory, Ordering, Part


class AnchorSimilarity(Ordering):
    """Pages whose best anchor text has the most words of a topic first.

    key = the largest number of occurrences of the words in the anchor text of a single link.

    Source: Cho, Garcia-Molina & Page, Efficient crawling through URL ordering, WWW7, 1998, section
    4: similarity of the anchor text, IS(A). Departure: a count instead of a cosine, which needs no
    document frequencies. O(words of the anchor texts) per visit.

    Parameters
    ----------
    words
        Words and phrases, as a list or a comma-separated string.
    stem
        Snowball stemmer applied to words (such as "english"); default None: no stemming.
    """

    needs_anchors = True

    def __init__(self, words: str | Sequence[str] | None = None, stem: str | None = None) -> None:
        if words is None:
            raise ConfigError(
                "ORDERING_OPTIONS of anchor-similarity: words is missing; give the words to look "
                'for in anchor texts, such as {"words": "machine learning, statistics"}.'
            )
        if isinstance(words, bytes) or not isinstance(words, str | Sequence):
            raise ConfigError(
                f"ORDERING_OPTIONS of anchor-similarity: words is {words!r}; give a string or list."
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

    def explain_history(self, history: KeyHistory) -> Part:
        what, best = "words of the topic in the anchor text", history.last
        if not history.key or best is None:
            return Part(f"{what} of a link", history.key)
        return Part(f"{what} {best.anchor[:80]!r}", history.key, best.page)
