"""The scheduler and the priority queues for Scrapy; the core decides on the order.

Of the queues, which are for Scrapy's own scheduler, there is one class for each ordering.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any, ClassVar

from scrapy import Request

from crawlprio.live.dispatch import Dispatcher
from crawlprio.live.running import RunningCrawl
from crawlprio.orderings import ORDERINGS
from crawlprio.plugins import ADDED, load
from crawlprio.schedulers.scheduler import Scheduler

if TYPE_CHECKING:
    from scrapy.crawler import Crawler


class OrderedQueue:
    """A Scrapy priority queue that pops the most important request of the sites that are ready.

    Set a subclass as `SCHEDULER_PRIORITY_QUEUE`; this class itself uses the ordering that ORDERING
    names. Requests wait in memory, even with JOBDIR, and are lost when the process ends.

    Notes
    -----
    Scrapy's scheduler drops duplicates before they reach the queue, so it sees only the first link
    to each page. Without `crawlprio.middlewares.LinksMiddleware`, which sees all links, every
    ordering that counts links falls back to order of discovery. Requests for pages that are already
    waiting are not merged, and seeds enter one at a time.
    """

    ordering: ClassVar[str | None] = None

    def __init__(self, crawler: Crawler, key: str = "") -> None:
        self._in_memory = not key
        self._dispatcher: Dispatcher | None = None
        if self._in_memory:
            crawl = RunningCrawl.of(crawler)
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
        """Create the queue for Scrapy's scheduler, whose per-priority queues are not used."""
        return cls(crawler, key)

    def push(self, request: Request) -> None:
        """Queue a request. The disk queue refuses it, and Scrapy then uses the memory queue."""
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
    """Import the schedulers of plugins when they are first asked for."""
    if name in ADDED["schedulers"]:
        return load("schedulers", name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
