"""The longest time a live crawl blocks the event loop, under each ordering that computes a lot.

Crawls the demo web over HTTP on loopback, and measures how late a task that sleeps for a
millisecond is woken. What it does not show: webs of many millions of pages.

    python benchmarks/event_loop.py [--pages 5000] [--demo-pages 100000]
"""

from __future__ import annotations

import argparse
import asyncio
import json
import subprocess
import sys
import tempfile
from pathlib import Path
from time import perf_counter
from typing import Any

from scrapy import signals
from scrapy.crawler import AsyncCrawlerProcess
from scrapy.utils.project import get_project_settings

ORDERINGS: dict[str, dict[str, Any]] = {
    "opic": {},
    "pagerank": {},
    "partial-pagerank": {"every": 500},
    "batch-pagerank": {"every": 500},
}


class Lateness:
    """An extension that records how many seconds late a task is woken."""

    seconds: list[float] = []

    def __init__(self, crawler: Any) -> None:
        crawler.signals.connect(self._opened, signal=signals.engine_started)
        crawler.signals.connect(self._closed, signal=signals.spider_closed)

    @classmethod
    def from_crawler(cls, crawler: Any) -> Lateness:
        return cls(crawler)

    def _opened(self) -> None:
        self._task = asyncio.ensure_future(self._watch())

    def _closed(self) -> None:
        self._task.cancel()

    async def _watch(self) -> None:
        before = perf_counter()
        while True:
            await asyncio.sleep(0.001)
            now = perf_counter()
            self.seconds.append(now - before - 0.001)
            before = now


def crawl(name: str, n_pages: int, n_demo_pages: int) -> None:
    """Crawl once in this process; print the worst times in milliseconds."""
    settings = get_project_settings()
    settings.setmodule("crawlprio.settings", priority="project")
    settings.setdict(
        {
            "EXTENSIONS": {Lateness: 0},
            "ORDERING": name,
            "ORDERING_OPTIONS": ORDERINGS[name],
            "CLOSESPIDER_PAGECOUNT": n_pages,
            "DOWNLOAD_DELAY": 0,
            "CRAWLPRIO_DEMO_PAGES": n_demo_pages,
            "CRAWLPRIO_DEMO_SITES": 1000,
            "CRAWLPRIO_PLOT": None,
            "CRAWLPRIO_PRINT": False,
            "LOG_LEVEL": "WARNING",
        },
        priority="cmdline",
    )
    process = AsyncCrawlerProcess(settings)
    process.crawl("site")
    process.start()
    worst = sorted(Lateness.seconds, reverse=True)[:3]
    print(json.dumps([round(1000 * seconds, 1) for seconds in worst]))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--pages", type=int, default=5000)
    parser.add_argument("--demo-pages", type=int, default=100_000)
    parser.add_argument("--run", choices=ORDERINGS, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.run:
        crawl(options.run, options.pages, options.demo_pages)
        return
    for name in ORDERINGS:
        with tempfile.TemporaryDirectory() as folder:
            line = [str(Path(__file__).resolve()), "--run", name]
            line += ["--pages", str(options.pages), "--demo-pages", str(options.demo_pages)]
            done = subprocess.run(
                [sys.executable, *line], cwd=folder, capture_output=True, text=True, check=True
            )
        worst = ", ".join(map(str, json.loads(done.stdout.splitlines()[-1])))
        print(f"{name:20} the event loop was held for at most {worst} ms", flush=True)


if __name__ == "__main__":
    main()
