"""The scheduler and the priority queues for Scrapy; the core decides on the order.

Of the queues, which are for Scrapy's own scheduler, there is one class for each ordering.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, ClassVar

from scrapy import Request
from scrapy.crawler import Crawler
from scrapy.dupefilters import RFPDupeFilter
from scrapy.utils.misc import load_object

from crawlprio.live.crawl_context import CrawlContext
from crawlprio.orderings import ORDERINGS
from crawlprio.plugins import ADDED, load
from crawlprio.schedulers.scheduler import Scheduler
from crawlprio.settings_table.config import read_setting


class OrderedQueue:
    """A Scrapy priority queue that pops the most important request of the sites that are ready.

    Set a subclass as `SCHEDULER_PRIORITY_QUEUE`; this class itself uses the ordering that ORDERING
    names. The middlewares that read links and keep delays are added, as under `Scheduler`. With
    JOBDIR, requests wait in the crawl store. Beside crawlprio's own scheduler, a subclass sets the
    ordering, and nothing else.

    Notes
    -----
    Scrapy's scheduler makes two queues with JOBDIR. They are one here: the first opens the frontier
    and hands out its requests, the second only takes them. Duplicates are dropped by Scrapy's
    scheduler, and here once more: it knows neither pages that came as `LinkPairs` nor, after a
    kill, those of the run before.
    """

    ordering: ClassVar[str | None] = None

    def __init__(self, crawler: Crawler, key: str = "") -> None:
        self._crawl = CrawlContext.of(crawler)
        self._is_second = bool(key)
        dupefilter = load_object(read_setting(crawler.settings, "DUPEFILTER_CLASS"))
        self._drops_duplicates = dupefilter is RFPDupeFilter
        if not self._is_second:
            self._crawl.open_frontier(self._crawl.make_local_frontier)

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
        """Create the queue for Scrapy's scheduler, whose per-priority queues are not used."""
        return cls(crawler, key)

    def push(self, request: Request) -> None:
        """Queue a request. Without a store the second queue refuses it, and the first gets it."""
        dispatcher = self._crawl.dispatcher
        if dispatcher is None:
            return
        if self._is_second and not self._crawl.recorder.saves_requests:
            raise ValueError("CRAWLPRIO_STORE is None, so requests wait in memory")
        dispatcher.enqueue(request, repeats=request.dont_filter or not self._drops_duplicates)

    def pop(self) -> Request | None:
        """Return the request to fetch next, or None; the engine is woken when one is ready."""
        dispatcher = self._crawl.dispatcher
        return None if dispatcher is None or self._is_second else dispatcher.next_request()

    def close(self) -> list[int]:
        if self._crawl.dispatcher is not None:
            self._crawl.dispatcher.close()
        return []

    def __len__(self) -> int:
        dispatcher = self._crawl.dispatcher
        return 0 if dispatcher is None or self._is_second else len(dispatcher.frontier)


def _queue_class(name: str, title: str) -> type[OrderedQueue]:
    """Return the queue class of an ordering, given the name of the ordering's class."""
    claim = f"Priority queue for Scrapy's own scheduler, ordered by `{name}`."
    members = {"ordering": name, "__module__": __name__, "__doc__": claim}
    return type(f"{title}Queue", (OrderedQueue,), members)


QUEUES: dict[str, type[OrderedQueue]] = {
    name: _queue_class(name, title) for name, title in ORDERINGS.class_names().items()
}
"""The queue class of each ordering, by the ordering's name; each is a global of this module."""

__all__ = ["OrderedQueue", "Scheduler", *(cls.__name__ for cls in QUEUES.values())]

globals().update({cls.__name__: cls for cls in QUEUES.values()})


def __getattr__(name: str) -> Any:
    """Import the scheduler of a plugin when it is first asked for."""
    if name in ADDED["schedulers"]:
        return load("schedulers", name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
