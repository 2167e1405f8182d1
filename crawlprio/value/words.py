"""The value model `words`: pages in which the terms of a topic occur."""

from __future__ import annotations

from crawlprio.topic import Topic
from crawlprio.value.base import Page


class Words:
    """Pages whose title has a term of the topic, or whose text has ten of them, are worth 1.

    Fewer occurrences in the text count a tenth each. A page is worth 1 exactly if the hot queue of
    the same `TOPIC` would call it hot (Cho, Garcia-Molina & Page 1998, section 4.2).

    Parameters
    ----------
    terms
        Comma-separated words and phrases.
    """

    runs_in = "here"

    def __init__(self, terms: str) -> None:
        self._topic = Topic(terms)

    def score_page(self, page: Page) -> float:
        """Return the value of a page. O(words x phrases)."""
        if self._topic.count(page.title):
            return 1.0
        return min(self._topic.count(page.text) / 10, 1.0)
