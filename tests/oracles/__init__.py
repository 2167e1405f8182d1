"""Slow, obvious crawls, by which the fast orderings are judged.

They must not know `crawlprio`: an oracle shares no code with what it judges.
"""

from .base import Ordering, splitmix
from .crawler import Topic, crawl, crawling, drawn_from_a_list
from .orderings import ORDERINGS
from .rank import pagerank, partial_pagerank, rounded, true_pagerank
from .text import occurrences, words
from .web import Record, Web

__all__ = [
    "ORDERINGS",
    "Ordering",
    "Record",
    "Topic",
    "Web",
    "crawl",
    "crawling",
    "drawn_from_a_list",
    "occurrences",
    "pagerank",
    "partial_pagerank",
    "rounded",
    "splitmix",
    "true_pagerank",
    "words",
]
