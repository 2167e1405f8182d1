"""Priority queues for those who keep Scrapy's own scheduler.

The order is the frontier's here too.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any, ClassVar

from scrapy import Request

from crawlprio.live.crawl import Crawl
from crawlprio.live.dispatch import Dispatcher

if TYPE_CHECKING:
    from scrapy.crawler import Crawler


class OrderedQueue:
    """A Scrapy priority queue: the most important request of the sites that are ready leaves first.

    Set a subclass as `SCHEDULER_PRIORITY_QUEUE`; this class itself takes the ordering that ORDERING
    names. Requests wait in memory, with JOBDIR too: nothing that waits survives the process.

    Notes
    -----
    Scrapy's scheduler drops duplicates before they come here, so a queue sees only the first link
    to each page. Without `crawlprio.middlewares.LinksMiddleware`, which sees them all, every
    ordering that counts links falls back to order of discovery. Nor are requests for pages that
    wait already merged, and seeds enter one at a time.
    """

    ordering: ClassVar[str | None] = None

    def __init__(self, crawler: Crawler, key: str = "") -> None:
        self._in_memory = not key
        self._dispatcher: Dispatcher | None = None
        if self._in_memory:
            crawl = Crawl.of(crawler)
            crawl.open_frontier(self.ordering, needs_links=False)
            self._dispatcher = crawl.dispatcher

    @classmethod
    def from_crawler(
        cls,
        crawler: Crawler,
        downstream_queue_cls: type[Any],
        key: str,
        startprios: Iterable[int] = (),
        *,
        start_queue_cls: type[Any] | None = None,
    ) -> OrderedQueue:
        """Called by Scrapy's scheduler, whose queues for single priorities are not used."""
        return cls(crawler, key)

    def push(self, request: Request) -> None:
        """Queue a request. The disk queue refuses, and Scrapy then takes the one in memory."""
        if not self._in_memory:
            raise ValueError("crawlprio's priority queues keep requests in memory")
        if self._dispatcher is not None:
            self._dispatcher.enqueue(request, repeats=True)

    def pop(self) -> Request | None:
        """Return the request to fetch next, or None; the engine is woken when one is ready."""
        return None if self._dispatcher is None else self._dispatcher.next_request()

    def close(self) -> list[int]:
        if self._dispatcher is not None:
            self._dispatcher.close()
        return []

    def __len__(self) -> int:
        return 0 if self._dispatcher is None else self._dispatcher.n_waiting


class RandomQueue(OrderedQueue):
    """Requests in random order."""

    ordering = "random"


class BreadthFirstQueue(OrderedQueue):
    """Requests in the order in which they came."""

    ordering = "breadth-first"


class DepthFirstQueue(OrderedQueue):
    """Links of the page fetched last first."""

    ordering = "depth-first"


class BacklinkCountQueue(OrderedQueue):
    """Pages that the most fetched pages link to first."""

    ordering = "backlink-count"


class PageRankQueue(OrderedQueue):
    """Pages with the highest PageRank among the pages seen so far first."""

    ordering = "pagerank"


class BatchPageRankQueue(OrderedQueue):
    """Batches of the pages with the highest PageRank when the batch was formed."""

    ordering = "batch-pagerank"


class PartialPageRankQueue(OrderedQueue):
    """As by PageRank recomputed now and then; pages found in between enter at once."""

    ordering = "partial-pagerank"


class OpicQueue(OrderedQueue):
    """Pages with the most cash first."""

    ordering = "opic"


class LargerSitesFirstQueue(OrderedQueue):
    """The site with the most waiting pages first."""

    ordering = "larger-sites-first"


class HistoricalPageRankQueue(OrderedQueue):
    """Pages with the highest PageRank in an earlier crawl first."""

    ordering = "historical-pagerank"


class OmniscientQueue(OrderedQueue):
    """Pages with the highest true PageRank first, where the whole graph is known."""

    ordering = "omniscient"


class LocationQueue(OrderedQueue):
    """Pages whose URL looks important first."""

    ordering = "location"


class AnchorSimilarityQueue(OrderedQueue):
    """Pages whose anchor texts are most about the topic first."""

    ordering = "anchor-similarity"


class CombinedQueue(OrderedQueue):
    """A weighted sum of other orderings."""

    ordering = "combined"
