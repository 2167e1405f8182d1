"""What the processes of a crawl know of each other where several fetch for one.

The one that has frontier and store, the brain, knows the hands as its `Workers`. Each hand has
`Crawl.tell_brain` instead, which takes statements of `crawlprio.plugins.shared.messages`. What
makes a process one or the other, and the settings in which it differs, is here too.
"""

from __future__ import annotations

import json
import os
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple, Protocol
from urllib.parse import quote

from crawlprio.errors import CrawlprioError, StoreError
from crawlprio.orderings.guard import OrderingError


class WorkersDied(CrawlprioError):
    """The processes that fetch cannot work."""


OF_THE_RUN = StoreError, OrderingError, WorkersDied
"""Errors of what happens in a crawl, and not of how it was asked for."""


class Shard(NamedTuple):
    """The part of a crawl that this process has, where several share it: some of the sites.

    `of` returns the number of the shard of a host; that of this process is `number`.
    """

    of: Callable[[str], int]
    number: int

    def is_foreign(self, host: str) -> bool:
        """Return whether a host is another shard's."""
        return self.of(host) != self.number


class LinksOut(NamedTuple):
    """The links of a page that one shard has fetched to pages of another.

    `url` and `depth` are those of the page, whose site had had so many visits (`site_visits`). It
    passes on `mass` (`Ordering.mass`) by its links: `targets` are URLs, each with its anchor text
    if there are `anchors`; `are_entries`: as in `PageVisit.links_are_entries`.
    """

    url: str
    depth: int
    mass: float
    site_visits: int
    targets: list[str]
    anchors: list[str]
    are_entries: bool


class Worker(Protocol):
    """A process that fetches: its name, its pages by lease, and its fetches by site."""

    @property
    def name(self) -> str: ...

    @property
    def leases(self) -> Mapping[int, object]: ...

    @property
    def fetching(self) -> Counter[str]: ...


class Workers(Protocol):
    """The processes that fetch for a crawl: `hands` are those that live.

    `on_fetch` is called with site, seconds and status of each fetch that has ended; status 0: no
    response.
    """

    on_fetch: Callable[[str, float, int], object]

    @property
    def hands(self) -> Iterable[Worker]: ...

    def flight(self) -> Iterable[tuple[str, float, str]]:
        """Yield the URL of each page that a worker has, for how many seconds, and its name."""


VARIABLE = "HAND_OF_CRAWL"
"""The environment variable in which a brain tells a process that it is a hand."""

_LIMITS = (
    "ERRORCOUNT",
    "ITEMCOUNT",
    "PAGECOUNT",
    "PAGECOUNT_NO_ITEM",
    "TIMEOUT",
    "TIMEOUT_NO_ITEM",
)


BRAIN_VARIABLE = "BRAIN_OF_CRAWL"
"""The environment variable in which a worker tells a process to be the brain of its crawl."""


@cache
def hand_facts() -> dict[str, Any] | None:
    """Return what the brain told this process when it started it; None if it is no hand."""
    told = os.environ.pop(VARIABLE, None)  # a crawl that this process starts is another one
    return None if told is None else dict(json.loads(told))


def hand_settings(facts: dict[str, Any]) -> dict[str, Any]:
    """Return the settings in which a hand differs from the brain, which keeps order and store.

    Those of the parts of a crawl are in `crawlprio.live.running`.
    """
    return {
        **{f"CLOSESPIDER_{limit}": 0 for limit in _LIMITS},
        "CONCURRENT_REQUESTS": facts["at_once"],
        "CONCURRENT_REQUESTS_PER_DOMAIN": facts["at_once"],
        "CRAWLPRIO_MAX_CONCURRENT_REQUESTS": None,
        "CRAWLPRIO_MAX_WAITING": None,
        "CRAWLPRIO_PLOT": None,
        "CRAWLPRIO_PRINT": False,
        "CRAWLPRIO_PROGRESS": False,
        "DOWNLOAD_DELAY": 0,
        "DOWNLOAD_SLOTS": {},
        "JOBDIR": None,
        "ROBOTSTXT_OBEY": False,
        "TELNETCONSOLE_ENABLED": False,
    }


@cache
def brain_facts() -> dict[str, Any] | None:
    """Return what a worker told this process when it started it as a brain; None if it is none."""
    told = os.environ.pop(BRAIN_VARIABLE, None)  # a crawl that this process starts is another one
    return None if told is None else dict(json.loads(told))


def brain_folder(crawl: str) -> Path:
    """Return the folder of a crawl in Redis whose JOBDIR is not set."""
    return Path("crawls") / (quote(crawl, safe=" ") or "crawl")


def far_brain_settings() -> dict[str, Any]:
    """Return the settings in which a brain differs from its hands, which have the spider."""
    return {
        **{f"CLOSESPIDER_{limit}": 0 for limit in _LIMITS},
        "FEEDS": {},
        "ITEM_PIPELINES": {},
        "TELNETCONSOLE_ENABLED": False,
    }


def shard_settings(n_shards: int, max_pages: int | None) -> dict[str, Any]:
    """Return the settings in which the brain of one of several shards differs.

    Each may get an equal part of the pages. What the crawl got is told once the stores are
    collected.
    """
    shard = (brain_facts() or {}).get("shard", 0)
    own = None if max_pages is None else (max_pages + n_shards - 1 - shard) // n_shards
    return {"CRAWLPRIO_MAX_PAGES": own, "CRAWLPRIO_PLOT": None, "CRAWLPRIO_RECEIPT": False}


def far_hand_settings() -> dict[str, Any]:
    """Return the settings in which a hand differs that hears its brain through Redis."""
    kept = ("CLOSESPIDER_", "CONCURRENT_", "CRAWLPRIO_MAX_CONCURRENT_REQUESTS", "TELNET")
    near = hand_settings({"at_once": 0})
    return {name: value for name, value in near.items() if not name.startswith(kept)}
