"""What the records of a queue say of its pages and sites."""

from __future__ import annotations

import math
from typing import Any

from crawlprio.frontier.buffer import LimitedBuffer
from crawlprio.frontier.records import UNKNOWN, Entries, Records
from crawlprio.frontier.upcoming import upcoming


class QueueFigures:
    """Reads the records of a queue; `PageQueue` keeps them."""

    _pages: Records
    _sites: Records
    _totals: Records
    _n_pages: int
    _n_sites: int
    _queue: Any
    _heap: Entries
    _buffer: LimitedBuffer | None

    def __len__(self) -> int:
        """Return the number of waiting pages."""
        return int(self._totals["n_waiting"][0])

    @property
    def n_leased(self) -> int:
        return int(self._totals["n_leased"][0])

    @property
    def n_sites_waiting(self) -> int:
        """Sites with a page that can be handed out now or when their delay ends."""
        return int(self._totals["n_ready"][0] + self._totals["n_delayed"][0])

    @property
    def page_records(self) -> Records:
        """One record for each page of the table, to read only."""
        return self._pages[: self._n_pages]

    @property
    def site_records(self) -> Records:
        """One record for each site of the table, to read only."""
        return self._sites[: self._n_sites]

    def upcoming(self, most: int) -> list[int]:
        """Return the pages that leave next, at most `most`, as if no site had to wait. O(pages)."""
        return upcoming(self.page_records, self.site_records, self._totals, most)

    def state(self, page: int) -> int:
        """Return `UNKNOWN`, `WAITING`, `LEASED` or `DONE`."""
        return int(self._pages["state"][page]) if page < len(self._pages) else UNKNOWN

    def n_leases(self, page: int) -> int:
        """Return the number of active leases of a page."""
        return int(self._pages["n_leases"][page])

    def is_on_visit(self, site: int) -> bool:
        """Return whether a fetch started now on a site continues a visit of several pages."""
        return bool(self._sites["n_visited"][site] > 0)

    def ready_at(self) -> float:
        """Return when a page can leave: 0 if now, inf if none waits or all need a lease to end."""
        if self._totals["n_ready"][0]:
            return 0.0
        if self._totals["n_delayed"][0]:
            return float(self._queue.soonest(self._heap))
        return math.inf

    @property
    def n_dropped(self) -> int:
        """Pages that were dropped for lack of room and have not come back."""
        return 0 if self._buffer is None else self._buffer.n_dropped
