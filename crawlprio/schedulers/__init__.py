"""Schedulers and priority queues for Scrapy; the order itself is the core's."""

from crawlprio.schedulers.queues import (
    AnchorSimilarityQueue,
    BacklinkCountQueue,
    BatchPageRankQueue,
    BreadthFirstQueue,
    CombinedQueue,
    DepthFirstQueue,
    HistoricalPageRankQueue,
    LargerSitesFirstQueue,
    LocationQueue,
    OmniscientQueue,
    OpicQueue,
    OrderedQueue,
    PageRankQueue,
    PartialPageRankQueue,
    RandomQueue,
)
from crawlprio.schedulers.scheduler import Scheduler

__all__ = [
    "AnchorSimilarityQueue",
    "BacklinkCountQueue",
    "BatchPageRankQueue",
    "BreadthFirstQueue",
    "CombinedQueue",
    "DepthFirstQueue",
    "HistoricalPageRankQueue",
    "LargerSitesFirstQueue",
    "LocationQueue",
    "OmniscientQueue",
    "OpicQueue",
    "OrderedQueue",
    "PageRankQueue",
    "PartialPageRankQueue",
    "RandomQueue",
    "Scheduler",
]
