"""Words and phrases in a text; independent of pages and queues."""

from functools import cache

import snowballstemmer


@cache
def words(text, stem=False):
    """Return the words of a text, its maximal runs of letters and digits, case-folded."""
    spaced = "".join(char if char.isalnum() else " " for char in text.casefold())
    found = spaced.split()
    if stem:
        found = snowballstemmer.stemmer("english").stemWords(found)
    return tuple(found)


@cache
def _occurrences(text, phrases, stem):
    """Return the number of places in the text at which one of the distinct phrases starts."""
    haystack = words(text, stem)
    count = 0
    for phrase in {words(phrase, stem) for phrase in phrases} - {()}:
        for start in range(len(haystack)):
            if haystack[start : start + len(phrase)] == phrase:
                count += 1
    return count


def occurrences(text, phrases, stem=False):
    """Return how often the phrases occur in a text, word by word, over all distinct phrases."""
    return _occurrences(text, tuple(phrases), stem)
