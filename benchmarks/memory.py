"""Resident bytes for each page that waits, in crawlprio's frontier and in Scrapy's default queue.

    python benchmarks/memory.py [--pages 100000]... [--sites 1000]

Each is filled in a process of its own: with 100,000 and 1,000,000 pages by default, whose URLs have
57 characters or so. What the process has resident before is taken off, what garbage collection can
free is freed first. `peak` is the most it had resident on the way, which counts arrays that are
copied as they grow.

crawlprio is page table, frontier and OPIC, as the bundled project has them: discovered in visits of
20 links. Scrapy is its default queue over LIFO memory queues and the fingerprints of its duplicate
filter; `bare` requests have a URL only, `depth` also the meta that its depth middleware gives to
each.

What it does not show: the crawl store's cache (2 MB), requests in flight, and pages already
fetched, of which Scrapy keeps a fingerprint and crawlprio as much as of waiting ones. A size for
which less than 1.3 times the memory expected is free is left out. It reads /proc, and so needs
Linux.
"""

from __future__ import annotations

import argparse
import gc
import json
import resource
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

N_LINKS = 20
CONTENDERS = ("crawlprio", "Scrapy, bare", "Scrapy, depth")
EXPECTED = {"crawlprio": 400, "Scrapy, bare": 1_500, "Scrapy, depth": 2_000}
"""Bytes a page, to see whether the memory that is free will do."""


def page_url(page: int, n_sites: int) -> str:
    return f"https://www.site{page % n_sites:04}.example/section/page-{page:09}.html"


def resident_bytes() -> int:
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return pages * resource.getpagesize()


def free_bytes() -> int:
    for line in Path("/proc/meminfo").read_text().splitlines():
        if line.startswith("MemAvailable:"):
            return int(line.split()[1]) * 1024
    return 0


def fill_crawlprio(n_pages: int, n_sites: int) -> object:
    """Let pages wait in a frontier under OPIC; return what must be kept."""
    import numpy as np

    from crawlprio.extraction import host_of
    from crawlprio.frontier import Frontier
    from crawlprio.orderings import make_ordering
    from crawlprio.pages import NO_PAGE, PageTable, Visit

    pages = PageTable()
    frontier = Frontier(make_ordering("opic"), pages)
    source = NO_PAGE
    for first in range(0, n_pages, N_LINKS):
        last = min(first + N_LINKS, n_pages)
        for page in range(first, last):
            url = page_url(page, n_sites)
            pages.add(url, url, pages.site(host_of(url)), 1)
        frontier.observe(Visit(source, np.arange(first, last, dtype=np.int32)))
        # One page is fetched, and discovers the rest; it does not wait, and counts for nothing.
        if source == NO_PAGE:
            source = frontier.next_page(0.0)
            frontier.release(source)
    assert len(frontier) == n_pages - 1
    return pages, frontier


def fill_stock(n_pages: int, n_sites: int, with_depth: bool) -> object:
    """Let requests wait in Scrapy's default queue; return what must be kept."""
    from scrapy import Request
    from scrapy.dupefilters import RFPDupeFilter
    from scrapy.pqueues import DownloaderAwarePriorityQueue
    from scrapy.squeues import LifoMemoryQueue
    from scrapy.utils.httpobj import urlparse_cached
    from scrapy.utils.test import get_crawler

    crawler: Any = get_crawler()
    downloader = SimpleNamespace(
        slots={}, get_slot_key=lambda request: urlparse_cached(request).hostname or ""
    )
    crawler.engine = SimpleNamespace(downloader=downloader)
    queue = DownloaderAwarePriorityQueue(crawler, LifoMemoryQueue, "")
    seen = RFPDupeFilter()
    for page in range(n_pages):
        request = Request(page_url(page, n_sites))
        if with_depth:
            request.meta["depth"] = 1
        if not seen.request_seen(request):
            queue.push(request)
    assert len(queue) == n_pages
    return crawler, queue, seen


def fill(contender: str, n_pages: int, n_sites: int) -> dict[str, float]:
    """Measure one contender in this process."""

    def build(n: int) -> object:
        if contender == "crawlprio":
            return fill_crawlprio(n, n_sites)
        return fill_stock(n, n_sites, contender.endswith("depth"))

    build(1000)
    gc.collect()
    before = resident_bytes()
    kept = build(n_pages)
    gc.collect()
    after = resident_bytes()
    assert kept is not None
    peak = max(after, resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024)
    return {"resident": (after - before) / n_pages, "peak": (peak - before) / n_pages}


def measure(contender: str, n_pages: int, n_sites: int) -> dict[str, float] | None:
    """Measure one contender in a process of its own; None if there is too little memory."""
    if 1.3 * EXPECTED[contender] * n_pages > free_bytes():
        return None
    done = subprocess.run(
        [sys.executable, __file__, "--fill", contender, f"--pages={n_pages}", f"--sites={n_sites}"],
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode:
        sys.exit(done.stderr)
    measured: dict[str, float] = json.loads(done.stdout)
    return measured


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--pages", type=int, action="append", help="default 100,000 and 1,000,000")
    parser.add_argument("--sites", type=int, default=1000, help="default %(default)s")
    parser.add_argument("--fill", choices=CONTENDERS, help=argparse.SUPPRESS)
    given = parser.parse_args()
    sizes = given.pages or [100_000, 1_000_000]
    if given.fill:
        print(json.dumps(fill(given.fill, sizes[0], given.sites)))
        return
    print(f"URLs of {len(page_url(0, given.sites))} characters, {given.sites:,} sites")
    for n_pages in sizes:
        ours = None
        for contender in CONTENDERS:
            measured = measure(contender, n_pages, given.sites)
            if measured is None:
                print(f"{n_pages:11,} pages  {contender:14} left out: too little memory is free")
                continue
            ours = ours or measured["resident"]
            print(
                f"{n_pages:11,} pages  {contender:14} {measured['resident']:7,.0f} bytes a page, "
                f"peak {measured['peak']:7,.0f}; "
                f"{measured['resident'] / ours:5.2f} times crawlprio",
                flush=True,
            )


if __name__ == "__main__":
    main()
