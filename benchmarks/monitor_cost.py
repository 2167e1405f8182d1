"""An extension that times what the live view does in a crawl; `monitor.py` turns it on.

Each function of the live view is called through a clock of the processor time of its thread, so
that what else runs on the machine does not count. What the clock itself takes inside is measured
with an empty function, and taken off. Not counted are what the crawl does to call these functions,
some 0.1 microseconds each, and what a thread that estimates takes from the caches of the other.
"""

from __future__ import annotations

import functools
import json
from collections.abc import Callable
from pathlib import Path
from time import process_time, thread_time
from typing import Any

from scrapy.crawler import Crawler
from synthetic_web import Clock
from twisted.internet.abstract import FileDescriptor
from twisted.internet.tcp import Connection

from crawlprio.live import coverage_so_far
from crawlprio.plugins.watch.monitor import LinkNotes, Monitor, SiteTallies

PARTS: dict[str, list[tuple[Any, str]]] = {
    "notes": [
        (SiteTallies, "fetch_started"),
        (SiteTallies, "fetch_answered"),
        (SiteTallies, "fetch_ended"),
        (LinkNotes, "note"),
    ],
    "documents": [(Monitor, "_show")],
    # Without a network, the crawl itself has none.
    "sockets": [(FileDescriptor, "doWrite"), (Connection, "doRead")],
    "estimates": [(coverage_so_far, "_timed_coverage")],
}
N_EMPTY_CALLS = 100_000


class Costs:
    """Writes the seconds of each part, and of the whole crawl, to BENCHMARK_COSTS, a file."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._seconds = dict.fromkeys([*PARTS, "clock"], 0.0)
        self._n_calls = dict.fromkeys([*PARTS, "clock"], 0)
        empty = self._timed("clock", lambda: None)
        for _ in range(N_EMPTY_CALLS):
            empty()
        for part, functions in PARTS.items():
            for owner, name in functions:
                setattr(owner, name, self._timed(part, getattr(owner, name)))
        Clock.on_end = self._write

    @classmethod
    def from_crawler(cls, crawler: Crawler) -> Costs:
        return cls(Path(crawler.settings["BENCHMARK_COSTS"]))

    def _timed(self, part: str, function: Callable[..., Any]) -> Callable[..., Any]:
        seconds, n_calls = self._seconds, self._n_calls

        @functools.wraps(function)
        def timed(*arguments: Any) -> Any:
            begun = thread_time()
            try:
                return function(*arguments)
            finally:
                seconds[part] += thread_time() - begun
                n_calls[part] += 1

        return timed

    def _write(self) -> None:
        of_clock = self._seconds["clock"] / N_EMPTY_CALLS
        costs = {part: self._seconds[part] - of_clock * self._n_calls[part] for part in PARTS}
        costs["crawl"] = process_time() - Clock.cpu_started
        self._path.write_text(json.dumps(costs))
