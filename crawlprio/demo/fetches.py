"""The log of the loopback server: totals by site, and one line of JSON per request."""

from __future__ import annotations

import json
import time
from dataclasses import dataclass
from typing import Any, TextIO

CONTROL_HOST = "control.crawlprio.test"
"""Host of the server's own pages: `/summary` (fetches so far) and `/web` (the web it serves)."""


@dataclass(slots=True)
class SiteFetches:
    """Totals of the fetches on one site; times are seconds of `time.monotonic`."""

    n_requests: int = 0
    in_flight: int = 0
    most_at_once: int = 0
    last_end: float | None = None
    smallest_gap: float | None = None

    def start(self, now: float) -> None:
        """Count the start of a fetch; its gap is 0 if another is in flight."""
        self.n_requests += 1
        self.in_flight += 1
        self.most_at_once = max(self.most_at_once, self.in_flight)
        if self.in_flight > 1:
            self.smallest_gap = 0.0
        elif self.last_end is not None:
            gap = now - self.last_end
            if self.smallest_gap is None or gap < self.smallest_gap:
                self.smallest_gap = gap

    def end(self, now: float) -> None:
        """Count the end of a fetch."""
        self.in_flight -= 1
        self.last_end = now


class FetchLog:
    """A log of requests: totals by site in memory, and each request as a line in a file.

    A line is `{"host", "url", "start", "end", "status", "bytes"}`, with the times by
    `time.monotonic` at which the request arrived and the answer was written; status 0 means that
    the client hung up first. Requests to the control host are not fetches and are not logged.
    """

    def __init__(self, file: TextIO | None = None) -> None:
        self._file = file
        self._sites: dict[str, SiteFetches] = {}
        self.n_requests = 0

    def start(self, host: str) -> float:
        """Count a request on a host and return the time."""
        fetches = self._sites.get(host)
        if fetches is None:
            fetches = self._sites[host] = SiteFetches()
        now = time.monotonic()
        self.n_requests += 1
        fetches.start(now)
        return now

    def end(self, host: str, url: str, start: float, status: int, n_bytes: int) -> None:
        """Log a request that was answered, or aborted by the client."""
        now = time.monotonic()
        self._sites[host].end(now)
        if self._file is not None:
            line = {"host": host, "url": url, "start": start, "end": now}
            self._file.write(json.dumps({**line, "status": status, "bytes": n_bytes}) + "\n")

    def summary(self) -> dict[str, Any]:
        """Return the totals, as the control page `/summary` shows them.

        `smallest_gap` is in seconds from the end of a fetch on the site to the start of the next, 0
        if two overlapped, and None if there was only one fetch.
        """
        return {
            "requests": self.n_requests,
            "sites": {
                host: {
                    "requests": fetches.n_requests,
                    "smallest_gap": fetches.smallest_gap,
                    "most_at_once": fetches.most_at_once,
                }
                for host, fetches in self._sites.items()
            },
        }
