"""Words and phrases in a text; independent of pages and queues."""

from collections.abc import Sequence
from functools import cache

import snowballstemmer  # type: ignore[import-untyped,unused-ignore]


@cache
def words(text: str, stem: bool = False) -> tuple[str, ...]:
    """Return the words of a text, its maximal runs of letters and digits, case-folded."""
    spaced = "".join(char if char.isalnum() else " " for char in text.casefold())
    found = spaced.split()
    if stem:
        found = snowballstemmer.stemmer("english").stemWords(found)
    return tuple(found)


@cache
def _occurrences(text: str, phrases: tuple[str, ...], stem: bool) -> int:
    """Return the number of places in the text at which one of the distinct phrases starts."""
    haystack = words(text, stem)
    count = 0
    for phrase in {words(phrase, stem) for phrase in phrases} - {()}:
        for start in range(len(haystack)):
            if haystack[start : start + len(phrase)] == phrase:
                count += 1
    return count


def occurrences(text: str, phrases: Sequence[str], stem: bool = False) -> int:
    """Return how often the phrases occur in a text, word by word, over all distinct phrases."""
    return _occurrences(text, tuple(phrases), stem)
