"""Topics, and the hot queue that a topic puts in front of any ordering."""

from __future__ import annotations

import re
from collections import deque
from collections.abc import Callable, Sequence
from functools import partial
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from crawlprio.errors import ConfigError
from crawlprio.graph.arrays import checked_number
from crawlprio.graph.pages import PageIds, Visit

if TYPE_CHECKING:
    from crawlprio.orderings.base import Pages

_WORD = re.compile(r"[^\W_]+")

MAX_DISTANCE = 255
"""The largest `distance` of a hot queue: distances are stored in one byte each."""


class Topic:
    """Words and phrases that a crawl is about, matched by word and case-folded.

    `terms`: a list, or one comma-separated string. A term of several words matches them in a row.
    `stem`: Snowball language ("english") of the stemmer that reduces words before they are
    compared; None compares whole words.
    """

    def __init__(self, terms: str | Sequence[str], *, stem: str | None = None) -> None:
        self._stemmer = None
        if stem:
            import snowballstemmer

            if stem not in snowballstemmer.algorithms():
                raise ConfigError(
                    f"The topic's stemmer is {stem!r}; known stemmers: "
                    f"{', '.join(snowballstemmer.algorithms())}."
                )
            self._stemmer = snowballstemmer.stemmer(stem)
        if not isinstance(terms, str | Sequence) or isinstance(terms, bytes):
            raise ConfigError(f"TOPIC is {terms!r}; give comma-separated words or phrases.")
        self.terms = terms.split(",") if isinstance(terms, str) else [str(term) for term in terms]
        phrases = [tuple(self.words(term)) for term in self.terms]
        self._searches = [_search(phrase) for phrase in dict.fromkeys(filter(None, phrases))]
        if not self._searches:
            raise ConfigError(
                f"TOPIC is {terms!r}, which contains no word; give comma-separated words or "
                "phrases."
            )

    def words(self, text: str) -> list[str]:
        """Return the words of a text in the form in which they are compared."""
        words = _WORD.findall(text.casefold())
        return words if self._stemmer is None else self._stemmer.stemWords(words)

    def count(self, text: str) -> int:
        """Return how often the terms occur in a text. O(characters x terms)."""
        text = text.casefold() if self._stemmer is None else " ".join(self.words(text))
        return sum(len(search(text)) for search in self._searches)


def _search(phrase: tuple[str, ...]) -> Callable[[str], list[str]]:
    """Return a search for words in a row, each whole, in a case-folded text.

    It begins with the first word, as Python looks for plain text in a twentieth of the time that it
    takes to find all words.
    """
    first, *rest = map(re.escape, phrase)
    after = "".join(rf"[\W_]+{word}" for word in rest)
    return re.compile(rf"{first}(?<![^\W_]{first})(?={after}(?![^\W_]))").findall


class HotQueue:
    """Decides which pages go to the hot queue, which is served first under any ordering.

    A page is put into one of the two queues once, when it is discovered: into the hot queue if the
    anchor text or the URL of the link contains a topic word, or if it is fewer than `distance`
    links from a hot page. Seeds go to the other queue. A fetched page is hot if its title or body
    contains enough topic words.

    Source: Cho, Garcia-Molina & Page, Efficient crawling through URL ordering, WWW7, 1998, Fig. 4
    (`distance` 0) and Fig. 5 (`distance` 3); Algorithms 5.2 and 5.3 of the extended version. The
    loop condition there must read "or", not "and".

    `distance`: links from a hot page below which a page goes to the hot
    queue; default 3, at most 255; 0 looks at anchor text and URL only. `title` and `body`: number
    of topic words in the title (default 1) or body (default 10) that makes a page hot.

    With `distance`, the links of all fetched pages are kept, 4 bytes each, because a hot page found
    later may shorten distances. Each shortening costs one step, and a distance never grows.
    """

    def __init__(self, topic: Topic, *, distance: int = 3, title: int = 1, body: int = 10) -> None:
        number = partial(checked_number, "TOPIC_OPTIONS", whole=True)
        self.topic = topic
        self._distance = int(number("distance", distance, least=0, below=MAX_DISTANCE + 1))
        self._title = int(number("title", title, least=1))
        self._body = int(number("body", body, least=1))
        self._far = max(self._distance, 1)
        self._distances = bytearray()
        self._links: dict[int, PageIds] = {}
        self.n_hot = 0

    def is_hot(self, visit: Visit) -> bool:
        """Return whether a fetched page is about the topic."""
        return (
            self.topic.count(visit.title) >= self._title
            or self.topic.count(visit.text) >= self._body
        )

    def sort_in(self, visit: Visit, first: int, last: int, pages: Pages) -> NDArray[np.int32]:
        """Observe a visit; return 1 (hot) or 0 for each of its new pages first, ..., last - 1."""
        priority_classes = np.zeros(last - first, dtype=np.int32)
        distances = self._distances
        distances.extend(bytes([self._far]) * (last - len(distances)))
        if visit.page < 0:
            return priority_classes
        if self.is_hot(visit):
            self.n_hot += 1
            distances[visit.page] = 0
        next_distance = distances[visit.page] + 1
        for at, target in enumerate(visit.targets.tolist()):
            if next_distance < distances[target]:
                self._shorten(target, next_distance)
            if target >= first:
                anchor = visit.anchors[at] if visit.anchors else ""
                priority_classes[target - first] = (
                    distances[target] < self._distance
                    or self.topic.count(anchor) > 0
                    or self.topic.count(pages.url(target)) > 0
                )
        if self._distance:
            self._links[visit.page] = visit.targets
        return priority_classes

    def _shorten(self, page: int, distance: int) -> None:
        """Store a shorter distance, and propagate it along the links of fetched pages."""
        distances = self._distances
        distances[page] = distance
        reached = deque([page])
        while reached:
            source = reached.popleft()
            for target in self._links.get(source, ()):
                if distances[source] + 1 < distances[target]:
                    distances[target] = distances[source] + 1
                    reached.append(target)
