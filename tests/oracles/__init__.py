"""Slow, obvious crawls that the fast orderings are checked against.

An oracle imports nothing from `crawlprio`, so it shares no code with what it checks.
"""

from . import combined, fixed, link_based, scout, siblings
from .base import ORDERINGS, Ordering, splitmix
from .crawler import Topic, crawl, crawling, drawn_from_a_list
from .rank import pagerank, partial_pagerank, rounded, true_pagerank
from .text import occurrences, words
from .web import Record, Web

__all__ = [
    "ORDERINGS",
    "Ordering",
    "Record",
    "Topic",
    "Web",
    "combined",
    "crawl",
    "crawling",
    "drawn_from_a_list",
    "fixed",
    "link_based",
    "occurrences",
    "pagerank",
    "partial_pagerank",
    "rounded",
    "scout",
    "siblings",
    "splitmix",
    "true_pagerank",
    "words",
]
