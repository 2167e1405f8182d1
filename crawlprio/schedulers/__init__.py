"""The scheduler and the priority queues for Scrapy; the core decides on the order."""

from typing import TYPE_CHECKING

from crawlprio.schedulers.queues import QUEUES, OrderedQueue
from crawlprio.schedulers.scheduler import Scheduler

__all__ = ["OrderedQueue", "Scheduler", *(cls.__name__ for cls in QUEUES.values())]

globals().update({cls.__name__: cls for cls in QUEUES.values()})

if TYPE_CHECKING:

    def __getattr__(name: str) -> type[OrderedQueue]: ...
