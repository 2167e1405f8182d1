"""The scheduler and the priority queues for Scrapy; the core decides on the order."""

from typing import Any

from crawlprio.plugins import ADDED, load
from crawlprio.schedulers.queues import QUEUES, OrderedQueue
from crawlprio.schedulers.scheduler import Scheduler

__all__ = ["OrderedQueue", "Scheduler", *(cls.__name__ for cls in QUEUES.values())]

globals().update({cls.__name__: cls for cls in QUEUES.values()})


def __getattr__(name: str) -> Any:
    """Import the schedulers of plugins when they are first asked for."""
    if name in ADDED["schedulers"]:
        return load("schedulers", name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
