"""The roles of processes in a crawl with several: one coordinator, and workers.

The coordinator has frontier and store, and the workers as its `WorkerPool`. A worker sends it
statements of `crawlprio.plugins.shared.messages` with `CrawlContext.tell_coordinator`. Variables of
the environment give a process its role.
"""

from __future__ import annotations

import json
import os
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from functools import cache
from typing import Any, Protocol

from crawlprio.errors import CrawlprioError, StoreError
from crawlprio.orderings.ordering_validation import OrderingError


class WorkersDied(CrawlprioError):
    """Workers cannot be kept alive, or cannot continue."""


OF_THE_RUN = StoreError | OrderingError | WorkersDied
"""Errors of a running crawl, as opposed to errors in its settings."""


class WorkerView(Protocol):
    """A process that fetches: its name, its pages by lease, and its fetches by site."""

    @property
    def name(self) -> str: ...

    @property
    def leases(self) -> Mapping[int, object]: ...

    @property
    def fetching(self) -> Counter[str]: ...


class WorkerPool(Protocol):
    """The live `workers` of a crawl.

    `on_fetch` is called with site, seconds and status of each fetch that has ended; status 0: no
    response.
    """

    on_fetch: Callable[[str, float, int], object]

    @property
    def workers(self) -> Iterable[WorkerView]: ...

    def flight(self) -> Iterable[tuple[str, float, str]]:
        """Yield the URL of each page that a worker has, for how many seconds, and its name."""


WORKER = "WORKER_OF_CRAWL"
"""The environment variable by which a coordinator makes a process its worker."""

COORDINATOR = "COORDINATOR_OF_CRAWL"
"""The environment variable by which a worker makes a process the coordinator of its crawl."""

FACTS = "mailbox"
"""The fact in a store that holds the id of its crawl in Redis, and the messages carried out."""


@cache
def facts_of(role: str) -> dict[str, Any] | None:
    """Return the facts with which this process was made a `WORKER` or `COORDINATOR`, or None."""
    facts = os.environ.pop(role, None)  # a crawl that this process starts is another one
    return None if facts is None else dict(json.loads(facts))
