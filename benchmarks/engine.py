"""Pages per second of the whole engine without a network: Scrapy as it comes, and crawlprio.

Both crawl the same endless made-up web: 20 links a page, 7 of them new, from a download handler that
opens no connection. Stock is Scrapy's own scheduler and queues with `LinkExtractor`, one request per
link; crawlprio is the bundled project with OPIC and the crawl store on. They run in turn, each in a
process of its own; the figure is pages fetched in the time from the first answer to the last.

    python benchmarks/engine.py [--pages 3000] [--sites 100] [--rounds 3] [--addon]

What it does not show: sockets, DNS, TLS, servers that are slow, and pages as messy as real ones.
"""

from __future__ import annotations

import argparse
import json
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path
from time import perf_counter
from typing import Any

from scrapy import Request, Spider
from scrapy.crawler import AsyncCrawlerProcess
from scrapy.http import HtmlResponse, Response
from scrapy.linkextractors import LinkExtractor
from scrapy.utils.project import get_project_settings

N_LINKS, N_NEW = 20, 7
TEXT = "<p>" + "The quick brown fox jumps over the lazy dog. " * 20 + "</p>"


class Clock:
    """When the first and the last answer were made, and how many."""

    n_pages = 0
    first = last = 0.0


def page_url(page: int, n_sites: int) -> str:
    return f"http://site{page * 2654435761 % n_sites}.example/pages/{page}.html"


def page_body(page: int, n_sites: int) -> bytes:
    links = [page * N_NEW + 1 + at for at in range(N_NEW)]
    links += [(page * 7919 + at * 104729) % (page * N_NEW + 1) for at in range(N_LINKS - N_NEW)]
    anchors = "".join(
        f'<li><a href="{page_url(link, n_sites)}">Page number {link}</a></li>' for link in links
    )
    return (
        f"<!doctype html><html><head><title>Page {page}</title></head><body><h1>Page {page}</h1>"
        f"{TEXT}<ul>{anchors}</ul></body></html>"
    ).encode()


class NoNetwork:
    """A download handler that makes the page it is asked for."""

    lazy = False

    def __init__(self, crawler: Any) -> None:
        self._n_sites = crawler.settings.getint("BENCHMARK_SITES")

    @classmethod
    def from_crawler(cls, crawler: Any) -> NoNetwork:
        return cls(crawler)

    async def download_request(self, request: Request) -> Response:
        now = perf_counter()
        if not Clock.n_pages:
            Clock.first = now
        Clock.n_pages += 1
        Clock.last = now
        page = int(request.url.rpartition("/")[2].removesuffix(".html"))
        return HtmlResponse(
            request.url,
            body=page_body(page, self._n_sites),
            headers={"Content-Type": "text/html; charset=utf-8"},
            encoding="utf-8",
            request=request,
        )

    async def close(self) -> None:
        return None


class StockSpider(Spider):
    """What a spider that follows all links looks like without crawlprio."""

    name = "stock"
    extractor = LinkExtractor()

    async def start(self) -> Any:
        yield Request(self.seed)

    def parse(self, response: Response) -> Any:
        for link in self.extractor.extract_links(response):
            yield Request(link.url)


def run(which: str, n_pages: int, n_sites: int) -> None:
    """Crawl once in this process; print the figures as JSON."""
    seed = page_url(0, n_sites)
    common = {
        "DOWNLOAD_HANDLERS": {"http": NoNetwork},
        "BENCHMARK_SITES": n_sites,
        "CLOSESPIDER_PAGECOUNT": n_pages,
        "ROBOTSTXT_OBEY": False,
        "DOWNLOAD_DELAY": 0,
        "CONCURRENT_REQUESTS": 16,
        "LOG_LEVEL": "WARNING",
        "STATS_DUMP": False,
        "TELNETCONSOLE_ENABLED": False,
    }
    if which == "crawlprio":
        settings = get_project_settings()
        settings.setmodule("crawlprio.settings", priority="project")
        settings.setdict({**common, "CONCURRENT_REQUESTS_PER_DOMAIN": 8}, priority="cmdline")
        process = AsyncCrawlerProcess(settings)
        process.crawl("site", seeds=seed, follow="web")
    else:
        settings = get_project_settings()
        settings.setdict(common, priority="cmdline")
        if which == "addon":
            settings.set("ADDONS", {"crawlprio.Addon": 500})
        process = AsyncCrawlerProcess(settings)
        process.crawl(StockSpider, seed=seed)
    process.start()
    seconds = Clock.last - Clock.first
    print(json.dumps({"pages": Clock.n_pages, "seconds": seconds}))


def measure(which: str, n_pages: int, n_sites: int) -> float:
    """Pages per second of one crawl in a process of its own."""
    with tempfile.TemporaryDirectory() as folder:
        done = subprocess.run(
            [sys.executable, str(Path(__file__).resolve()), "--run", which]
            + ["--pages", str(n_pages), "--sites", str(n_sites)],
            cwd=folder,
            capture_output=True,
            text=True,
            check=False,
        )
    if done.returncode:
        sys.exit(done.stderr)
    figures = json.loads(done.stdout.splitlines()[-1])
    return float(figures["pages"] / figures["seconds"])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--pages", type=int, default=3000)
    parser.add_argument("--sites", type=int, default=100)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--addon", action="store_true", help="the stock spider with the add-on too")
    parser.add_argument("--run", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.run:
        run(options.run, options.pages, options.sites)
        return
    contenders = ["stock", "crawlprio"] + (["addon"] if options.addon else [])
    rates: dict[str, list[float]] = {name: [] for name in contenders}
    for _ in range(options.rounds):
        for name in contenders:
            rates[name].append(measure(name, options.pages, options.sites))
    for name in contenders:
        ratios = [ours / stock for ours, stock in zip(rates[name], rates["stock"], strict=True)]
        print(
            f"{name:10} {statistics.median(rates[name]):8.0f} pages/s "
            f"(from {min(rates[name]):.0f} to {max(rates[name]):.0f}), "
            f"{statistics.median(ratios):.2f} times stock"
        )


if __name__ == "__main__":
    main()
