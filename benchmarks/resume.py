"""How long a large crawl takes to resume, from its saved state and by replaying its store.

    python benchmarks/resume.py make FOLDER [--visits 1000000]     record a crawl of a synthetic web
    python benchmarks/resume.py time FOLDER                        open it as a resumed crawl does

`make` crawls with the frontier of a live crawl but without Scrapy: each page has 20 links, three of
them to new pages. `time` prints the seconds until the first page could leave, and the processor
time in them, and saves the state again: remove crawl.sqlite-state to time a replay. What it does
not show: the start of Scrapy, and waiting requests, of which this crawl has none.
"""

from __future__ import annotations

import argparse
import json
import random
from pathlib import Path
from time import perf_counter, process_time, time

from scrapy.utils.test import get_crawler

from crawlprio.frontier.protocol import PageVisit
from crawlprio.items import LinkPairs
from crawlprio.live.local_frontier import LocalFrontier
from crawlprio.live.recorder import Recorder
from crawlprio.live.requests import Identities
from crawlprio.settings_table.config import CrawlConfig

N_SITES, NEW_LINKS, LINKS, AT_ONCE = 3_000, 3, 20, 16


def url_of(page: int) -> str:
    return f"https://site-{page % N_SITES}.test/section/{page % 97}/article-{page}.html"


def links_of(page: int, n_pages: int) -> list[str]:
    """Three pages that no other page shows first, and others, some of them popular."""
    random_numbers = random.Random(page)
    new = [NEW_LINKS * page + k for k in range(1, NEW_LINKS + 1)]
    others = [int(n_pages * random_numbers.random() ** 3) for _ in range(LINKS - NEW_LINKS)]
    return [url_of(target) for target in dict.fromkeys(new + others) if target != page]


def open_crawl(folder: Path, ordering: str) -> tuple[LocalFrontier, Recorder]:
    crawler = get_crawler(
        settings_dict={
            "ORDERING": ordering,
            "JOBDIR": str(folder),
            "CRAWLPRIO_STORE": "crawl.sqlite",
            "CONCURRENT_REQUESTS": 16,
            "DOWNLOAD_DELAY": 0,
        }
    )
    config = CrawlConfig.from_settings(crawler.settings)
    recorder = Recorder(config, Identities(crawler))
    frontier = LocalFrontier(config, recorder, call_soon=lambda work: None)
    recorder.open()
    return frontier, recorder


def make(folder: Path, ordering: str, n_visits: int) -> None:
    frontier, recorder = open_crawl(folder, ordering)
    frontier.add_seeds([url_of(0)])
    began = perf_counter()
    n_done = 0
    while n_done < n_visits:
        leased_pages = [
            leased_page for _ in range(AT_ONCE) if (leased_page := frontier.next_page(0.0))
        ]
        for leased_page in leased_pages:
            page = int(leased_page.url.rpartition("-")[2].removesuffix(".html"))
            pairs = LinkPairs(leased_page.url, links_of(page, NEW_LINKS * n_visits), status=200)
            pairs.content_hash = page
            visit = PageVisit(pairs, fetched_at=time(), elapsed=0.1)
            frontier.observe(leased_page.lease, visit)
        if n_done // 50_000 != (n_done + len(leased_pages)) // 50_000:
            print(f"{n_done:,} visits, {perf_counter() - began:.0f} s", flush=True)
        n_done += len(leased_pages)
    frontier.close()
    recorder.close()


def measure(folder: Path, ordering: str) -> None:
    began, worked = perf_counter(), process_time()
    frontier, recorder = open_crawl(folder, ordering)
    seconds = perf_counter() - began
    leased_page = frontier.next_page(0.0)
    assert leased_page is not None
    figures = {
        "from_state": (folder / "crawl.sqlite-state").exists(),
        "seconds": round(seconds, 2),
        "processor_seconds": round(process_time() - worked, 2),
        "visits": recorder.figures.n_fetched,
        "pages": len(recorder.pages),
        "next": leased_page.url,
    }
    frontier.put_back(leased_page.lease)
    print(json.dumps(figures), flush=True)
    frontier.close()
    recorder.close()
    print(f"closed after {perf_counter() - began - seconds:.1f} s")


if __name__ == "__main__":
    arguments = argparse.ArgumentParser(description=__doc__)
    arguments.add_argument("what", choices=["make", "time"])
    arguments.add_argument("folder", type=Path)
    arguments.add_argument("--visits", type=int, default=1_000_000)
    arguments.add_argument("--ordering", default="sibling-sampling")
    options = arguments.parse_args()
    if options.what == "make":
        make(options.folder, options.ordering, options.visits)
    else:
        measure(options.folder, options.ordering)
