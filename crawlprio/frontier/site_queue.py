"""The two-level queue: waiting pages by site, each with a class and a key that others give it."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import numpy as np

from crawlprio.frontier import heaps, struct_layouts
from crawlprio.frontier.python_queue import PlainQueue
from crawlprio.frontier.struct_layouts import UNKNOWN, Records, upcoming
from crawlprio.graph.arrays import integers
from crawlprio.graph.compiled import Addresses
from crawlprio.orderings.base import Pages

_INTEGERS = (int, np.integer)


class QueueRecords:
    """The records of a queue, in arrays that double when they are full, and what works on them.

    Up to `plain_until` known pages that is plain Python, so that numba need not be loaded, and
    compiled code from then on; the order is the same. `totals` are first values of the record
    `TOTALS`. Memory: 32 bytes per known page and 104 per site.
    """

    def __init__(
        self,
        pages: Pages,
        limit: int,
        delay: float,
        plain_until: int,
        totals: Mapping[str, float],
    ) -> None:
        self.pages = pages
        self._limit = limit
        self._delay = delay
        self._totals = np.zeros(1, dtype=struct_layouts.TOTALS)
        self._totals["now"] = -math.inf
        for name, value in totals.items():
            self._totals[name] = value
        self._pages = np.zeros(1024, dtype=struct_layouts.PAGE)
        self._sites = struct_layouts.new_sites(64, limit, delay)
        self._heap = heaps.no_entries(64)
        self._n_pages = 0
        self._n_sites = 0
        self._plain_until = plain_until
        self._queue: Any = PlainQueue() if plain_until else None
        self._bind()

    @property
    def page_records(self) -> Records:
        """One record for each page of the table."""
        return self._pages[: self._n_pages]

    @property
    def site_records(self) -> Records:
        """One record for each site of the table."""
        return self._sites[: self._n_sites]

    @property
    def totals(self) -> Records:
        """The record of what is counted over all pages and sites."""
        return self._totals

    @property
    def addresses(self) -> Addresses:
        """The records as compiled code takes them."""
        addresses: Addresses = self._queue.addresses
        return addresses

    @property
    def is_plain(self) -> bool:
        """Whether the queue still runs in plain Python."""
        return isinstance(self._queue, PlainQueue)

    def compile(self) -> None:
        """Go on in compiled code, in the same order. O(n)."""
        if self.is_plain:
            self.build()

    def build(self) -> None:
        """Build compiled heaps from the records. O(n)."""
        self._queue = None
        self._bind()
        self._totals["n_ready"] = self._totals["n_delayed"] = self._totals["is_deferred"] = 0
        keys = self._pages["key"].copy()
        self._queue.rekey_all(len(self._pages), self._n_sites, keys)

    def _rebuild(self) -> None:
        """Build the heaps again from the records, keys included. O(pages)."""
        self._queue.rekey_all(len(self._pages), self._n_sites, np.empty(0))

    def _grow_for(self, site: int) -> None:
        """Make room for a site of the page table; raise GraphError if it is not in it."""
        if not (isinstance(site, _INTEGERS) and 0 <= site < self._n_sites):
            self.grow()
            integers("site", [site], below=self._n_sites)

    def _check(self, page: int) -> None:
        """Make room for a page of the page table; raise GraphError if it is not in it."""
        if not self._has(page):
            self.grow()
            if not self._has(page):  # the error is worth a hundred times what a good id costs
                integers("page", [page], below=self._n_pages)

    def _has(self, page: int) -> bool:
        return isinstance(page, _INTEGERS) and 0 <= page < self._n_pages

    def grow(self) -> None:
        """Make room for the pages and sites added to the page table since the last call."""
        n_pages, n_sites = len(self.pages), self.pages.n_sites
        if n_sites == self._n_sites and n_pages <= self._n_room:
            self._n_pages = n_pages
            return
        has_room = n_pages <= len(self._pages) and n_sites <= len(self._sites)
        if n_pages > len(self._pages):
            room = np.zeros(max(n_pages, 2 * len(self._pages)), dtype=struct_layouts.PAGE)
            room[: len(self._pages)] = self._pages
            self._pages = room
        if n_sites > len(self._sites):
            n_room = max(n_sites, 2 * len(self._sites))
            sites = struct_layouts.new_sites(n_room, self._limit, self._delay)
            sites[: len(self._sites)] = self._sites
            self._sites = sites
            n_delayed = int(self._totals["n_delayed"][0])
            self._heap = heaps.grown(self._heap, len(sites), n_delayed)
        self._n_pages = n_pages
        self._n_sites = n_sites
        if not has_room:
            self._bind()
        if self.is_plain and n_pages > self._plain_until:
            self.compile()

    def _bind(self) -> None:
        """Have the queue work on the arrays: the plain one, or else compiled functions."""
        pages, sites, totals = self._pages, self._sites, self._totals
        # Pages that the arrays have room for, while the queue stays plain.
        self._n_room = min(len(pages), self._plain_until) if self.is_plain else len(pages)
        self._states, self._priority_classes, self._lease_counts, self._observed = (
            struct_layouts.column(pages, name)
            for name in ("state", "priority_class", "n_leases", "observed")
        )
        self._limits, self._ready_times = (
            struct_layouts.column(sites, name) for name in ("limit", "ready_at")
        )
        self._n_waiting, self._n_leased, self._all_ready, self._all_delayed = (
            struct_layouts.column(totals, name)
            for name in ("n_waiting", "n_leased", "n_ready", "n_delayed")
        )
        arrays = struct_layouts.Queue(self._pages, self._sites, self._heap, self._totals)
        if self.is_plain:
            self._queue.bind(arrays)
        else:
            self._queue = heaps.bind(arrays)


class SiteQueue(QueueRecords):
    """Waiting pages by site: which site may be fetched from, and when, and its first page."""

    def __len__(self) -> int:
        """Return the number of waiting pages."""
        return int(self._n_waiting[0])

    @property
    def n_leased(self) -> int:
        return int(self._n_leased[0])

    @property
    def n_ready(self) -> int:
        """Sites of which a page can leave now."""
        return int(self._all_ready[0])

    @property
    def n_delayed(self) -> int:
        """Sites with waiting pages that are inside their delay."""
        return int(self._all_delayed[0])

    def upcoming(self, most: int) -> list[int]:
        """Return the pages that leave next, at most `most`, as if no site had to wait. O(pages)."""
        return upcoming(self.page_records, self.site_records, self._totals, most)

    def state(self, page: int) -> int:
        """Return `UNKNOWN`, `WAITING`, `LEASED` or `DONE`."""
        return int(self._states[page]) if page < len(self._pages) else UNKNOWN

    def n_leases(self, page: int) -> int:
        """Return the number of active leases of a page."""
        return int(self._lease_counts[page])

    def is_on_visit(self, site: int) -> bool:
        """Return whether a fetch started now on a site continues a visit of several pages."""
        return bool(self._sites["n_visited"][site] > 0)

    def ready_at(self) -> float:
        """Return when a page can leave: 0 if now, inf if none waits or all need a lease to end."""
        if self._all_ready[0]:
            return 0.0
        if self._all_delayed[0]:
            return float(self._queue.soonest())
        return math.inf

    def release(self, page: int) -> None:
        """End a lease: the page is done, and its site may lease another once its delay is over."""
        self._check(page)
        self._queue.release(page)

    def end_fetch(self, site: int, ready_at: float, *, ends_visit: bool = False) -> None:
        """Note that a fetch on a site ended; the next may start no sooner than `ready_at`.

        Within a visit of several pages (k > 1) the next may start at once; `ends_visit` ends the
        visit early.
        """
        self._grow_for(site)
        self._queue.end_fetch(site, ready_at, ends_visit)

    def hold(self, site: int, n_fetches: int = 1) -> None:
        """Count fetches that the frontier did not hand out (robots.txt, media) as leases of a site.

        A negative number ends them.
        """
        self._grow_for(site)
        self._sites["n_leased"][site] += n_fetches
        self._queue.place_site(site)

    def site_limit(self, site: int) -> int:
        """Return how many leases a site may have at once."""
        self._grow_for(site)
        return int(self._limits[site])

    def site_ready_at(self, site: int) -> float:
        """Return the time before which no fetch may start on a site; -inf if none was set."""
        self._grow_for(site)
        return float(self._ready_times[site])

    def set_ready_at(self, site: int, ready_at: float) -> None:
        """Set the time before which no fetch may start on a site."""
        self._grow_for(site)
        self._ready_times[site] = ready_at
        self._queue.place_site(site)

    def set_site(self, site: int, *, limit: int | None = None, delay: float | None = None) -> None:
        """Set the limit of leases, or the delay from start to start, of one site."""
        self._grow_for(site)
        if limit is not None:
            self._sites["limit"][site] = limit
        if delay is not None:
            self._sites["delay"][site] = delay
        self._queue.place_site(site)

    def count_turn(self, page: int) -> None:
        """Count a turn for the site of a page that an earlier run refetched. O(log n)."""
        self._check(page)
        share = int(self._totals["site_share"][0])
        if share:
            site, latest = int(self.pages.sites[page]), int(self._totals["turn"][0])
            turn = int(self._sites["turn"][site])
            if not self._sites["n_waiting"][site]:
                turn = max(turn, latest // share * share)
            self._totals["turn"] = max(latest, turn)
            self._sites["turn"][site] = turn + 1
            self._queue.place_site(site)

    def hold_none_back(self) -> None:
        """Hold no page back until the keys are next computed. O(pages)."""
        self._totals["held_below"] = -math.inf
        self._rebuild()

    def defer(self) -> bool:
        """Leave the heaps out until `build`, so that no page may leave; return False if it cannot.

        Orderings that rank sites need the heaps.
        """
        self.grow()
        if self.is_plain or self._totals["site_rule"][0] == struct_layouts.BY_CALL:
            return False
        self._totals["is_deferred"] = 1
        return True
