"""A recorded crawl as its receipt needs it, and the names of the rules that limit crawls."""

from __future__ import annotations

import json
from array import array
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from crawlprio.graph.pages import NO_PAGE, Visit
from crawlprio.ranking.coverage_estimate import Fetches, folders_of
from crawlprio.store.outcomes import REFUSED, ROBOTS, UNREACHABLE, failure_of, has_links, is_refusal
from crawlprio.store.reader import StoreReader

SETTING_OF = {
    "site-budget": "CRAWLPRIO_MAX_PAGES_PER_SITE",
    "domain-budget": "CRAWLPRIO_MAX_PAGES_PER_DOMAIN",
    "pattern-budget": "CRAWLPRIO_MAX_PAGES_PER_PATTERN",
    "claim-budget": "a quarter of CRAWLPRIO_MAX_PAGES_PER_SITE, _DOMAIN and _PATTERN",
    "not-rendered": "CRAWLPRIO_RENDER",
    "sites": "CRAWLPRIO_MAX_SITES",
    "out-of-scope": "follow, allow, deny",
    "nofollow": "CRAWLPRIO_FOLLOW_NOFOLLOW",
    "depth": "DEPTH_LIMIT",
    "extension": "CRAWLPRIO_SKIP_EXTENSIONS",
    "too-deep": "CRAWLPRIO_MAX_STATIC_DEPTH, CRAWLPRIO_MAX_DYNAMIC_DEPTH",
    "cgi-bin": "CRAWLPRIO_HEURISTICS",
    "long-path": "CRAWLPRIO_MAX_PATH_SEGMENTS",
    "repeated-segments": "CRAWLPRIO_MAX_REPEATED_SEGMENTS",
    "parameters": "CRAWLPRIO_MAX_QUERY_PARAMETERS",
    "private-address": "CRAWLPRIO_PRIVATE_ADDRESSES, CRAWLPRIO_PRIVATE_NETWORKS",
    ROBOTS: "ROBOTSTXT_OBEY",
    UNREACHABLE: "CRAWLPRIO_ROBOTS_UNREACHABLE",
    REFUSED: "CRAWLPRIO_PRIVATE_ADDRESSES, CRAWLPRIO_PRIVATE_NETWORKS",
}
"""The setting, or argument of the spider, behind each rule; other rules have none."""

BUDGETS = ("site-budget", "domain-budget", "pattern-budget")
"""Rules that limit the pages of a site, a domain and a URL pattern."""

OF_PAGES = (ROBOTS, UNREACHABLE, REFUSED)
"""Rules that refuse pages when their turn comes. Such pages are part of the crawl's web, and count
as missing; a link that another rule refused leads out of it."""

UNRENDERED = "not-rendered"
"""The rule under which pages are counted that look as if made by script, and were not rendered."""

HASH_ROUTE = "hash-route"
"""The rule under which links are counted that differ from a page only after `#/`."""

RENDERED_KEY = "rendered"
"""The key of what a crawl rendered: `pages`, those that `gained`, and `failed/CAUSE`."""

LIMITS = (
    *("ROBOTSTXT_OBEY", "CRAWLPRIO_ROBOTS_UNREACHABLE", "DOWNLOAD_DELAY"),
    *("CONCURRENT_REQUESTS", "CRAWLPRIO_MAX_CONCURRENT_REQUESTS"),
    *("CONCURRENT_REQUESTS_PER_DOMAIN", "CRAWLPRIO_MAX_CRAWL_DELAY"),
    *("DOWNLOAD_TIMEOUT", "DOWNLOAD_MAXSIZE", "CRAWLPRIO_MAX_PAGES_PER_SITE"),
    *("CRAWLPRIO_MAX_PAGES_PER_DOMAIN", "CRAWLPRIO_MAX_PAGES_PER_PATTERN"),
    *("CRAWLPRIO_MAX_SITES", "CRAWLPRIO_MAX_WAITING", "CRAWLPRIO_STOP_AT_COVERAGE"),
    "CRAWLPRIO_MAX_PAGES",
    *("CRAWLPRIO_PRIVATE_ADDRESSES", "CRAWLPRIO_FOLLOW_NOFOLLOW", "CRAWLPRIO_HEURISTICS"),
    *("CRAWLPRIO_MAX_STATIC_DEPTH", "CRAWLPRIO_MAX_DYNAMIC_DEPTH", "DEPTH_LIMIT"),
    *("CRAWLPRIO_MAX_PATH_SEGMENTS", "CRAWLPRIO_MAX_REPEATED_SEGMENTS"),
    *("CRAWLPRIO_MAX_QUERY_PARAMETERS", "CRAWLPRIO_STRIP_SESSIONS", "USER_AGENT"),
)
"""Settings that limit what a crawl gets and how fast; each crawl keeps their values."""

SCRAPY_LIMITS = (
    "CLOSESPIDER_PAGECOUNT",
    "CLOSESPIDER_TIMEOUT",
    "CLOSESPIDER_ITEMCOUNT",
    "CLOSESPIDER_ERRORCOUNT",
)
"""The same of settings that crawlprio leaves to Scrapy."""

COVERED, ENOUGH_PAGES = "coverage_reached", "pages_reached"
"""Reasons to end a crawl that are not Scrapy's."""

ENDS = {
    ENOUGH_PAGES: "as many pages as asked for (CRAWLPRIO_MAX_PAGES, --pages)",
    COVERED: "as much importance as asked for (CRAWLPRIO_STOP_AT_COVERAGE)",
    "shutdown": "interrupted; fetches in flight ended",
    **{
        f"closespider_{what}": f"limit reached (CLOSESPIDER_{what.upper()})"
        for what in ("pagecount", "timeout", "itemcount", "errorcount", "timeout_no_item")
    },
}
"""Reasons to end a crawl in words; others speak for themselves."""

SCRAPYS_ORDER = "Scrapy's own order"
"""What a store names in place of an ordering, if Scrapy's own scheduler ordered its fetches."""

SETTINGS_KEY, ENDED_KEY, CERTIFICATE_KEY = "settings", "ended_because", "certificate"
"""Keys in `meta`: the values of these settings in the last run, why that ended, and what random
walks proved of the share that was fetched."""


def rendered_counts(store: StoreReader) -> dict[str, int]:
    """Return what a crawl rendered, as counts by name; empty if it rendered nothing."""
    counts = recorded_object(store, RENDERED_KEY).items()
    return {name: n for name, n in counts if isinstance(n, int) and n >= 0}


def recorded_object(store: StoreReader, key: str) -> dict[str, Any]:
    """Return a JSON object in `meta`; empty if there is none."""
    try:
        found = json.loads(store.get_meta(key, "{}"))
    except (ValueError, RecursionError):
        return {}
    return found if isinstance(found, dict) else {}


def number_of(limits: Mapping[str, Any], name: str, default: float) -> float:
    """Return a limit that is a number; the default for any other value."""
    value = limits.get(name, default)
    return float(value) if isinstance(value, int | float) and 0 <= value < 1e9 else default


FEWEST_GAPS = 5
"""Gaps on a site from which its pace is known."""


@dataclass
class FetchRate:
    """How fast a site was fetched from.

    `n_fetches` and `seconds`: fetches that ended, and how long they took together. `gap`: shortest
    time from the end of a fetch to the start of the next. `ended_at`: end of the last fetch.
    """

    n_fetches: int = 0
    seconds: float = 0.0
    gap: float = 0.0
    ended_at: float = 0.0

    def add(self, visit: Visit) -> None:
        gap = max(0.0, visit.fetched_at - visit.elapsed - self.ended_at)
        self.gap = gap if self.n_fetches <= 1 else min(gap, self.gap)
        self.n_fetches += 1
        self.seconds += visit.elapsed
        self.ended_at = visit.fetched_at

    @property
    def seconds_a_page(self) -> float:
        """Seconds from page to page that the site was seen to need; 0 if it is not known."""
        if self.n_fetches <= FEWEST_GAPS:
            return 0.0
        return self.gap + self.seconds / self.n_fetches


@dataclass
class StoredCrawl:
    """The outcome of a crawl, by page, each as its current version is.

    `sites` and `hosts`: the site of every page, and the host of every site. `folders`: the folder
    of every page. `is_got`: bool, shape (n_pages,): the pages got; `statuses`: how many of them, by
    status. `failures`: pages not got, in the order of their visits, with the cause. `has_links`:
    whether a page got, redirects aside, has a link that the crawl may follow. `looks`: what pages
    without links look like: `empty`, `redirected`, `other`. `n_bytes`, `begin`, `end`: length of
    all bodies, start of the first fetch and end of the last one; 0 without fetches.
    """

    sites: NDArray[np.int32]
    hosts: list[str]
    seeds: list[int]
    folders: NDArray[np.int32]
    statuses: Counter[int] = field(default_factory=Counter)
    failures: dict[int, str] = field(default_factory=dict)
    paces: dict[int, FetchRate] = field(default_factory=dict)
    has_links: bool = False
    looks: set[str] = field(default_factory=set)
    n_bytes: int = 0
    n_links: int = 0
    begin: float = 0.0
    end: float = 0.0

    def __post_init__(self) -> None:
        self.is_got = np.zeros(len(self.sites), dtype=np.bool_)
        self._order = array("i")
        self._ends = array("q", [0])
        self._links = array("i")

    @classmethod
    def read(cls, store: StoreReader, visits: Iterable[Visit] | None = None) -> StoredCrawl:
        """Read a crawl; raise `StoreError` if its store is damaged. O(pages + links).

        `visits` are those of `StoreReader.visits`, if they are read for another purpose as well.
        """
        crawl = cls(*store.page_sites(), store.seeds(), folders_of(store.page_urls()))
        for visit in store.visits(texts=False, anchors=False) if visits is None else visits:
            if visit.page != NO_PAGE:
                crawl._add(visit)
        return crawl

    @property
    def n_got(self) -> int:
        """Pages that were fetched successfully."""
        return self.statuses.total()

    @cached_property
    def fetches(self) -> Fetches:
        """The pages that need no further fetch, successful or failed, with their links."""
        order, ends = np.array(self._order, np.int32), np.array(self._ends, np.int64)
        links = np.frombuffer(self._links, np.int32)
        seeds = np.array(self.seeds, dtype=np.int32)
        return Fetches(len(self.sites), seeds, order, ends, links, self.folders)

    def _add(self, visit: Visit) -> None:
        page = visit.page
        cause = failure_of(visit)
        if cause:
            self.failures[page] = cause
        else:
            self.is_got[page] = True
            self.statuses[visit.status] += 1
            if visit.status >= 300:
                self.looks.add("redirected")
            elif has_links(visit):
                self.has_links = True
            else:
                self.looks.add("other" if visit.n_bytes else "empty")
        self._order.append(page)
        self._links.frombytes(np.ascontiguousarray(visit.targets, dtype=np.int32).tobytes())
        self._ends.append(len(self._links))
        self.n_links += len(visit.targets)
        self.n_bytes += visit.n_bytes
        if not is_refusal(visit.status, visit.error):
            begin = visit.fetched_at - visit.elapsed
            self.begin = min(self.begin or begin, begin)
            self.end = max(self.end, visit.fetched_at)
            self.paces.setdefault(int(self.sites[page]), FetchRate()).add(visit)
