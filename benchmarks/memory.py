"""Resident bytes per waiting page, in crawlprio's frontier and in Scrapy's default queue.

    python benchmarks/memory.py [--pages 100000]... [--sites 1000] [--folder FOLDER]

Each queue is filled in its own process, by default with 100,000 and 1,000,000 pages whose URLs have
about 57 characters. Garbage is collected first, and what the process had resident before is
subtracted. `peak` is the peak resident memory on the way, including arrays that are copied as they
grow.

`crawlprio` is a crawl with its store and OPIC, as in the bundled project, but without the engine.
Each visit has 20 links, 8 of them to new pages, and is journalled. `no store` is the same with
CRAWLPRIO_STORE = None and URLs in memory. `resumed` reopens the first one's store and replays it,
which restores page table, frontier and ordering in the seconds shown. `whole` is the whole
process's resident memory, with Python, Scrapy and Numba. Scrapy is its default queue over LIFO
memory queues, plus the fingerprints of its duplicate filter. `bare` requests have only a URL;
`depth` requests also have the meta that the depth middleware adds.

What it does not show: requests in flight, responses, and the parser. One page in eight is fetched
and does not wait. For such a page Scrapy would keep a fingerprint; crawlprio keeps as much as for a
waiting page, plus the visit's place in the crawl. A size is skipped if less than 1.3 times the
expected memory is free. It reads /proc, so it needs Linux.
"""

from __future__ import annotations

import argparse
import gc
import json
import resource
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from time import perf_counter
from types import SimpleNamespace
from typing import Any

N_LINKS, N_NEW = 20, 8
CONTENDERS = ("crawlprio", "resumed", "no store", "Scrapy, bare", "Scrapy, depth")
EXPECTED = {
    "crawlprio": 150,
    "resumed": 150,
    "no store": 400,
    "Scrapy, bare": 1_500,
    "Scrapy, depth": 2_000,
}
"""Bytes per page, to estimate whether the free memory suffices."""


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


def opened(folder: Path, with_store: bool) -> Any:
    """Open the recorder and the frontier of a crawl in a job directory, and resume it."""
    from scrapy.utils.test import get_crawler

    from crawlprio.graph import compiled
    from crawlprio.live.local_frontier import LocalFrontier
    from crawlprio.live.recorder import Recorder
    from crawlprio.live.requests import Identities
    from crawlprio.settings_table.config import CrawlConfig

    compiled.load()  # as CRAWLPRIO_COMPILE has it in the bundled project
    settings: dict[str, Any] = {"JOBDIR": str(folder), "CRAWLPRIO_STORE": None}
    settings["ORDERING"] = "opic"  # keeps least of a page; the default keeps some 170 bytes more
    if with_store:
        settings["CRAWLPRIO_STORE"] = "crawl.sqlite"
    crawler = get_crawler(settings_dict=settings)
    config = CrawlConfig.from_settings(crawler.settings)
    recorder = Recorder(config, Identities(crawler))
    frontier = LocalFrontier(config, recorder)
    recorder.open()
    return SimpleNamespace(frontier=frontier, recorder=recorder, close=recorder.close)


def fill_crawlprio(n_pages: int, n_sites: int, folder: Path, with_store: bool) -> object:
    """Crawl under OPIC until `n_pages` wait; return the objects to keep alive."""
    import numpy as np

    from crawlprio.frontier.protocol import PageVisit
    from crawlprio.items import LinkPairs

    crawl = opened(folder, with_store)
    recorder, frontier = crawl.recorder, crawl.frontier
    rng = np.random.default_rng(0)
    frontier.add_seeds([page_url(0, n_sites)])
    n_visits = 0
    while len(frontier) < n_pages:
        n_known = len(recorder.pages)
        known = rng.integers(0, n_known, N_LINKS - N_NEW).tolist()
        links = [page_url(page, n_sites) for page in [*known, *range(n_known, n_known + N_NEW)]]
        leased_page = frontier.next_page(0.0)
        assert leased_page is not None
        n_visits += 1
        frontier.observe(
            leased_page.lease, PageVisit(LinkPairs(leased_page.url, links, content_hash=n_visits))
        )
    return crawl


def fill_stock(n_pages: int, n_sites: int, with_depth: bool) -> object:
    """Queue requests in Scrapy's default queue; return the objects to keep alive."""
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


def fill(contender: str, n_pages: int, n_sites: int, folder: Path) -> dict[str, float]:
    """Measure one contender in this process."""

    def build(n: int, inside: Path) -> object:
        if contender == "resumed":
            return opened(inside, True)
        if contender.startswith("Scrapy"):
            return fill_stock(n, n_sites, contender.endswith("depth"))
        return fill_crawlprio(n, n_sites, inside, contender == "crawlprio")

    if contender != "resumed":
        with tempfile.TemporaryDirectory(dir=folder) as inside:
            build(1000, Path(inside))
    else:
        with tempfile.TemporaryDirectory(dir=folder) as inside:
            fill_crawlprio(1000, n_sites, Path(inside), True)
    gc.collect()
    before = resident_bytes()
    started = perf_counter()
    kept = build(n_pages, folder)
    seconds = perf_counter() - started
    gc.collect()
    after = resident_bytes()
    n_waiting = len(getattr(kept, "frontier", range(n_pages)))
    assert n_waiting >= n_pages
    if hasattr(kept, "close"):
        kept.close()
    peak = max(after, resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024)
    return {
        "resident": (after - before) / n_pages,
        "peak": (peak - before) / n_pages,
        "whole": after,
        "whole_peak": peak,
        "seconds": seconds,
    }


def measure(contender: str, n_pages: int, n_sites: int, folder: Path) -> dict[str, float] | None:
    """Measure one contender in a process of its own; None if there is too little memory."""
    if 1.3 * EXPECTED[contender] * n_pages > free_bytes():
        return None
    line = ["--fill", contender, f"--pages={n_pages}", f"--sites={n_sites}", f"--folder={folder}"]
    done = subprocess.run(
        [sys.executable, __file__, *line], capture_output=True, text=True, check=False
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
    parser.add_argument("--folder", type=Path, help="where stores are written for the time")
    parser.add_argument("--only", choices=CONTENDERS, action="append", help="default all")
    parser.add_argument("--fill", choices=CONTENDERS, help=argparse.SUPPRESS)
    given = parser.parse_args()
    sizes = given.pages or [100_000, 1_000_000]
    if given.fill:
        print(json.dumps(fill(given.fill, sizes[0], given.sites, given.folder)))
        return
    print(f"URLs of {len(page_url(0, given.sites))} characters, {given.sites:,} sites")
    for n_pages in sizes:
        with tempfile.TemporaryDirectory(dir=given.folder) as folder:
            compare(given.only or CONTENDERS, n_pages, given.sites, Path(folder))


def compare(contenders: Sequence[str], n_pages: int, n_sites: int, folder: Path) -> None:
    """Print what the contenders need for this number of pages."""
    ours = None
    for contender in contenders:
        measured = measure(contender, n_pages, n_sites, folder)
        if measured is None:
            print(f"{n_pages:11,} pages  {contender:14} left out: too little memory is free")
            continue
        ours = ours or measured["resident"]
        print(
            f"{n_pages:11,} pages  {contender:14} {measured['resident']:7,.0f} bytes a page, "
            f"peak {measured['peak']:7,.0f}; whole {measured['whole'] / 2**20:6,.0f} MiB, peak "
            f"{measured['whole_peak'] / 2**20:6,.0f}; {measured['seconds']:6.1f} s; "
            f"{measured['resident'] / ours:5.2f} times crawlprio",
            flush=True,
        )


if __name__ == "__main__":
    main()
