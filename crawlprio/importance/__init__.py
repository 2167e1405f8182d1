"""Importance I(P), by which a crawl is judged: one module per metric.

Nothing here knows orderings, crawls or files.
"""

from crawlprio.importance.pagerank import pagerank, partial_pagerank, round_significant

__all__ = ["pagerank", "partial_pagerank", "round_significant"]
