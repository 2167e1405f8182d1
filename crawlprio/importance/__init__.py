"""Importance I(P), by which a crawl is judged: one module per family of metrics."""

from crawlprio.importance.base import Importance, PageText, Repository
from crawlprio.importance.metrics import IMPORTANCES, importance_of, make_importance
from crawlprio.importance.opening import open_repository
from crawlprio.ranking.pagerank import pagerank, partial_pagerank, round_significant

__all__ = [
    "IMPORTANCES",
    "Importance",
    "PageText",
    "Repository",
    "importance_of",
    "make_importance",
    "open_repository",
    "pagerank",
    "partial_pagerank",
    "round_significant",
]
