"""The cost of a page with many sites, and how busy sites with different delays are kept.

    python benchmarks/sites.py [--sites 1000]... [--without-crawl | --without-calls]
                               [--slow 1] [--fast 0.1] [--seconds 10]

The first part times the frontier calls in a page's life, as sites go through their delays: `pop`
(next_page), `end` (end_fetch and release) and `push` (add), from Python, in microseconds. It prints
the median of 300 batches of 100 calls, and the mean if later calls pay for earlier ones. Pages are
pushed with new random keys, so that the same sites do not keep coming first; the clock is
simulated. One run has two waiting pages per site, another two million waiting pages whatever the
number of sites. The peer is Scrapy's default queue with two waiting requests per site, up to the
number of sites at which a pop takes over 5 ms.

The second part crawls 40 sites with a long delay and 40 with a short one, without a network and
with 16 fetches in flight. Each site has a home page that links to all its other pages. `whole`: a
site has as many pages as it can deliver in `--seconds`, and all are fetched. `budget`: sites have
ten times as many, and the crawl ends after as many pages as all sites can deliver in `--seconds`.
The ideal is exactly that time.

What it does not show: memory with more than two million waiting pages; responses that take time.
"""

from __future__ import annotations

import argparse
import statistics
from collections.abc import Callable, Sequence
from time import perf_counter
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import numpy as np
from harness import Crawl, common_settings, run
from scrapy import Request
from scrapy.core.downloader import Downloader
from scrapy.pqueues import DownloaderAwarePriorityQueue
from scrapy.squeues import LifoMemoryQueue
from scrapy.utils.httpobj import urlparse_cached
from scrapy.utils.test import get_crawler
from synthetic_web import Clock, html_response

from crawlprio.frontier import PageQueue
from crawlprio.graph.pages import NO_PAGE, PageIds, Visit
from crawlprio.orderings import make_ordering

if TYPE_CHECKING:
    from scrapy.crawler import Crawler
    from scrapy.http import Response

SITES = (1_000, 10_000, 100_000, 1_000_000)
N_WAITING = 2_000_000
N_CALLS, N_BATCHES = 100, 300
TOO_SLOW = 5e-3
N_EACH = 40
PORTAL = "http://portal.example/"


class ManyPages:
    """A page table without URLs: page p is on site p modulo the number of sites."""

    def __init__(self, n_pages: int, n_sites: int) -> None:
        self.n_sites = n_sites
        self.sites: PageIds = np.arange(n_pages, dtype=np.int32) % np.int32(n_sites)

    def __len__(self) -> int:
        return len(self.sites)

    def url(self, page: int) -> str:
        return f"http://site{self.sites[page]}.example/{page}"


def timed(call: Callable[[], object]) -> float:
    started = perf_counter()
    call()
    return (perf_counter() - started) / N_CALLS


def time_frontier(n_pages: int, n_sites: int) -> list[float]:
    """Return the median seconds of one pop, one end and one push, and the mean of a pop."""
    pages = ManyPages(n_pages, n_sites)
    frontier = PageQueue(make_ordering("random", {"seed": 1}), pages)
    frontier.observe(Visit(NO_PAGE, np.arange(n_pages, dtype=np.int32)))
    sites = pages.sites.tolist()
    leased: list[int] = []
    draw = np.random.default_rng(2)
    now = 0.0

    def pop() -> None:
        leased[:] = [frontier.next_page(now) for _ in range(N_CALLS)]

    def end() -> None:
        for page in leased:
            frontier.end_fetch(sites[page], now + 5.0)
            frontier.release(page)

    def push() -> None:
        for page in leased:
            frontier.add(page)

    # Sites leave their delay at the rate at which others enter it.
    step = 5.0 * 2 * N_CALLS / min(n_sites, 20_000)
    seconds = []
    for _ in range(N_BATCHES):
        now += step
        pop_and_end = timed(pop), timed(end)
        assert NO_PAGE not in leased
        frontier.ordering.keys[leased] = draw.random(N_CALLS)
        seconds.append((*pop_and_end, timed(push)))
    columns = list(zip(*seconds, strict=True))
    return [*map(statistics.median, columns), statistics.fmean(columns[0])]


def time_stock(n_sites: int) -> list[float]:
    """Return the seconds of one pop and one push of Scrapy's default queue."""
    crawler: Any = get_crawler()
    crawler.engine = SimpleNamespace(downloader=SimpleNamespace(slots={}, get_slot_key=_slot_key))
    queue = DownloaderAwarePriorityQueue(crawler, LifoMemoryQueue, "")
    for page in range(2 * n_sites):
        queue.push(Request(f"http://site{page % n_sites}.example/{page}"))
    pops, pushes = [], []
    for _ in range(20):
        started = perf_counter()
        request = queue.pop()
        middle = perf_counter()
        assert request is not None
        queue.push(request)
        pops.append(middle - started)
        pushes.append(perf_counter() - middle)
    return [statistics.median(pops), statistics.median(pushes)]


def _slot_key(request: Request) -> str:
    """Return a request's slot, as in Scrapy's downloader."""
    return request.meta.get(Downloader.DOWNLOAD_SLOT) or urlparse_cached(request).hostname or ""


def show_calls(all_sites: Sequence[int]) -> None:
    """Print the cost of the calls, and how it grows."""
    totals: dict[str, list[float]] = {"2 pages a site": [], f"{N_WAITING:,} pages": []}
    time_frontier(2_000, 1_000)
    stock_is_slow = False
    for n_sites in all_sites:
        for label, row in totals.items():
            n_pages = N_WAITING if label != "2 pages a site" else 2 * n_sites
            if n_pages < 2 * n_sites:
                continue
            pop, end, push, mean = (1e6 * seconds for seconds in time_frontier(n_pages, n_sites))
            row.append(pop)
            print(
                f"{n_sites:9,} sites  crawlprio, {label:15}  pop {pop:6.2f} µs (mean {mean:6.2f}), "
                f"end {end:5.2f} µs, push {push:5.2f} µs",
                flush=True,
            )
        if not stock_is_slow:
            pop, push = time_stock(n_sites)
            stock_is_slow = pop > TOO_SLOW
            print(
                f"{n_sites:9,} sites  Scrapy, 2 pages a site        pop {1e6 * pop:8,.0f} µs, "
                f"push {1e6 * push:5.1f} µs",
                flush=True,
            )
    for label, row in totals.items():
        print(f"crawlprio, {label}: dearest pop / cheapest pop = {max(row) / min(row):.2f}")


class DelayedSites:
    """A download handler that generates a portal, the home pages of its sites, and their pages."""

    lazy = False

    def __init__(self, crawler: Crawler) -> None:
        self._n_pages: dict[str, int] = crawler.settings.getdict("BENCHMARK_PAGES")

    @classmethod
    def from_crawler(cls, crawler: Crawler) -> DelayedSites:
        return cls(crawler)

    async def download_request(self, request: Request) -> Response:
        Clock.tick()
        urls: list[str] = []
        if request.url == PORTAL:
            urls = [f"http://{host}/" for host in self._n_pages]
        elif request.url.endswith("/"):
            host = urlparse_cached(request).hostname or ""
            urls = [f"{request.url}{page}.html" for page in range(1, self._n_pages[host])]
        links = "".join(f'<a href="{url}">Page</a> ' for url in urls)
        body = f"<!doctype html><html><body><p>Links</p>{links}</body></html>"
        return html_response(request, body.encode())

    async def close(self) -> None:
        return None


def show_crawl(slow: float, fast: float, seconds: float, whole: bool) -> None:
    """Print how long a crawl of sites with two delays takes, and the ideal."""
    delays = {
        f"{name}{at:02}.example": delay
        for at in range(N_EACH)
        for name, delay in (("slow", slow), ("fast", fast))
    }
    given = {host: 1 + round(seconds / delay) for host, delay in delays.items()}
    n_wanted = 1 + sum(given.values())
    settings = {
        **common_settings(0),
        "DOWNLOAD_HANDLERS": {"http": "sites.DelayedSites"},
        "BENCHMARK_PAGES": {host: n if whole else 10 * n for host, n in given.items()},
        "DOWNLOAD_DELAY_JITTER": 0,
        "DOWNLOAD_SLOTS": {
            host: {"delay": delay, "concurrency": 1} for host, delay in delays.items()
        },
    }
    print(
        f"{'whole' if whole else 'budget'}: {n_wanted:,} pages, {N_EACH} sites at {slow:g} s and "
        f"{N_EACH} at {fast:g} s, 16 in flight: ideal {seconds:.1f} s"
    )
    seeds = {"seeds": PORTAL}
    for crawl in (
        Crawl("crawlprio", "site", n_wanted, settings, {**seeds, "follow": "web"}, is_bundled=True),
        Crawl("stock", "synthetic_web.FollowSpider", n_wanted, settings, seeds),
    ):
        took = run(crawl).seconds
        print(f"{crawl.label:10} {took:7.1f} s, {took / seconds:5.2f} times ideal", flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--sites", type=int, action="append", help="default 1,000 to 1,000,000")
    parser.add_argument("--without-calls", action="store_true")
    parser.add_argument("--without-crawl", action="store_true")
    parser.add_argument("--slow", type=float, default=1.0, help="seconds, default %(default)s")
    parser.add_argument("--fast", type=float, default=0.1, help="seconds, default %(default)s")
    parser.add_argument("--seconds", type=float, default=10.0, help="default %(default)s")
    given = parser.parse_args()
    if not given.without_calls:
        show_calls(given.sites or SITES)
    if not given.without_crawl:
        for whole in (True, False):
            show_crawl(given.slow, given.fast, given.seconds, whole)


if __name__ == "__main__":
    main()
