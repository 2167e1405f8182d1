"""The orderings by what is written: by location, from URLs alone, and by anchor text."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from types import MappingProxyType
from urllib.parse import urlsplit

import numpy as np

from crawlprio.errors import ConfigError
from crawlprio.graph.pages import NO_PAGES, Visit
from crawlprio.graph.topic import Topic
from crawlprio.orderings.base import (
    Changed,
    KeyHistory,
    Ordering,
    Part,
    checked_number,
    checked_switch,
    checked_weights,
    made_of,
)

_WORD = re.compile(r"[^\W_]+")
_TLDS: Mapping[str, float] = MappingProxyType({"com": 1.0})
_WORDS: Mapping[str, float] = MappingProxyType({"home": 1.0})


class Location(Ordering):
    """Pages whose URL looks important first: few slashes, a good top-level domain, key words.

    key = - `slashes` x (slashes in the path after the first) + weight of the top-level domain
    + sum of the weights of the words that occur in the URL (case-folded).

    Source: Cho, Garcia-Molina & Page 1998, section 2 (location metric IL): ".com", "home" and fewer
    slashes are its examples; the weights are ours. Departure: there, "home" counts wherever a URL
    contains the string; here, by default, as a whole word.

    Parameters
    ----------
    slashes
        Penalty per slash; default 1.
    tlds
        Top-level domain -> weight; default ``{"com": 1.0}``.
    words
        Word -> weight; default ``{"home": 1.0}``.
    whole_words
        Default True: a word that is part of a longer one does not count. False: it counts wherever
        the URL contains it, as in the paper.
    """

    def __init__(
        self,
        slashes: float = 1.0,
        tlds: Mapping[str, float] = _TLDS,
        words: Mapping[str, float] = _WORDS,
        whole_words: bool = True,
    ) -> None:
        self._slashes = checked_number("location", "slashes", slashes)
        self._tlds = checked_weights("location", "tlds", tlds)
        self._words = checked_weights("location", "words", words)
        self._whole = checked_switch("location", "whole_words", whole_words)

    def score(self, url: str) -> float:
        """Return the key of a page with this URL."""
        slashes, tld, words = self._amounts(*self._read(url))
        return slashes + tld + words

    def _read(self, url: str) -> tuple[int, str, list[str]]:
        """Return what counts of a URL: slashes after the first, top-level domain, known words."""
        parts = urlsplit(url)
        n_slashes = max(parts.path.count("/") - 1, 0)
        tld = (parts.hostname or "").rpartition(".")[2]
        text = url.casefold()
        found = set(_WORD.findall(text)) if self._whole else text
        return n_slashes, tld, [word for word in self._words if word in found]

    def _amounts(self, n_slashes: int, tld: str, words: list[str]) -> tuple[float, float, float]:
        """Return how much each of them counts."""
        of_words = float(sum(self._words[word] for word in words))
        return -self._slashes * n_slashes, self._tlds.get(tld, 0.0), of_words

    def explain(self, page: int) -> Part:
        n_slashes, tld, words = found = self._read(self.pages.url(page))
        what = (
            f"{n_slashes} slashes after the first",
            f"top-level domain {tld or 'none'}",
            f"words: {', '.join(words) or 'none that counts'}",
        )
        return made_of("its URL", map(Part, what, self._amounts(*found)))

    def discover(self, first: int, last: int, visit: Visit) -> None:
        for page in range(first, last):
            self.keys[page] = self.score(self.pages.url(page))


class AnchorSimilarity(Ordering):
    """Pages whose best anchor text has the most words of a topic first.

    key = the largest number of occurrences of the words in the anchor text of a single link.

    Source: Cho, Garcia-Molina & Page, Efficient crawling through URL ordering, extended version,
    section 4: similarity of the anchor text, IS(A, Q). Departure: a count instead of a cosine,
    which needs no document frequencies. O(words of the anchor texts) per visit.

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
        try:
            self.topic = Topic(words, stem=stem)
        except ConfigError as error:
            reason = str(error).replace("TOPIC is", "words is", 1)
            raise ConfigError(f"ORDERING_OPTIONS of anchor-similarity: {reason}") from None

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
