"""What limits a polite crawl: the delays of sites, the fetches in flight, or the machine.

    python benchmarks/clock.py [--sites N]... [--in-flight R]... [--delay 1] [--latency 0.3]
                               [--seconds 15]

The bundled project crawls N sites without a network: each answer takes the latency, half of it to
twice as much, and the delay of a site applies from the end of a fetch. Every page links to five
more pages of its site and to the home pages of two others. All sites are seeds, so that none has
to be found first. With R = 0, the number in flight is left to the project.

A row has the pages per second, and the two bounds: `delays` is N sites / (delay + mean latency),
`in flight` is R / mean latency. `of bound` is the share of the lower one. `busy` is the processor
time of the process per second, `memory` its peak. Where the machine is busy for most of the time,
it is the limit, and more in flight only makes answers wait.

What it does not show: a network, parsing of real pages (`real_pages.py`), or sites that are slow
when asked often.
"""

from __future__ import annotations

import argparse
import asyncio
import tempfile
from pathlib import Path
from zlib import crc32

from harness import Crawl, common_settings, run
from scrapy import Request
from scrapy.crawler import Crawler
from scrapy.http import Response
from scrapy.utils.httpobj import urlparse_cached
from synthetic_web import Clock, html_response

SITES = (10, 1_000, 50_000)
IN_FLIGHT = (16, 64, 256, 1_000, 0)
MOST_PAGES = 6_000
SPREAD = 0.5, 1.5
"""Shortest and longest latency, as multiples of the mean."""


class SlowSites:
    """A download handler whose answers take their time."""

    lazy = False

    def __init__(self, n_sites: int, latency: float) -> None:
        self._n_sites = n_sites
        self._latency = latency

    @classmethod
    def from_crawler(cls, crawler: Crawler) -> SlowSites:
        settings = crawler.settings
        return cls(settings.getint("BENCHMARK_SITES"), settings.getfloat("BENCHMARK_LATENCY"))

    async def download_request(self, request: Request) -> Response:
        least, most = SPREAD
        chance = crc32(request.url.encode()) / 2**32
        await asyncio.sleep(self._latency * (least + chance * (most - least)))
        Clock.tick()
        parsed = urlparse_cached(request)
        page = int(parsed.path[1:] or 0)
        site = int(str(parsed.hostname).partition(".")[0][4:])
        links = [f"/{5 * page + further}" for further in range(1, 6)]
        links += [url_of((site * 31 + further * 7 + page) % self._n_sites) for further in (1, 2)]
        shown = "".join(f'<a href="{link}">Page</a> ' for link in links)
        return html_response(request, f"<!doctype html><body><p>Links {shown}".encode())

    async def close(self) -> None:
        return None


def url_of(site: int) -> str:
    """Return the URL of the home page of a site."""
    return f"http://site{site}.example/"


def show(n_sites: int, in_flight: int, delay: float, latency: float, seconds: float) -> None:
    """Crawl for about some seconds, and print a row."""
    by_delays = n_sites / (delay + latency)
    by_flights = (in_flight or min(max(16, n_sites), 100)) / latency
    bound = min(by_delays, by_flights)
    settings = {
        **common_settings(n_sites),
        "DOWNLOAD_HANDLERS": {"http": "clock.SlowSites"},
        "BENCHMARK_LATENCY": latency,
        "DOWNLOAD_DELAY": delay,
        "CONCURRENT_REQUESTS_PER_DOMAIN": 1,
    }
    del settings["CONCURRENT_REQUESTS"]
    settings |= {"CONCURRENT_REQUESTS": in_flight} if in_flight else {}
    with tempfile.NamedTemporaryFile("w", suffix=".txt") as seeds:
        seeds.write("".join(f"{url_of(site)}\n" for site in range(n_sites)))
        seeds.flush()
        n_pages = min(round(bound * seconds), MOST_PAGES)
        arguments = {"seeds": f"@{Path(seeds.name)}"}
        done = run(Crawl("crawlprio", "site", n_pages, settings, arguments, is_bundled=True))
    print(
        f"{n_sites:7,} {in_flight or 'project':>9} {by_delays:9,.0f} {by_flights:9,.0f} "
        f"{done.rate:9,.1f} {done.rate / bound:9.0%} {done.cpu_seconds / done.seconds:6.0%} "
        f"{done.peak_bytes / 2**20:8,.0f} {n_pages:7,}",
        flush=True,
    )


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--sites", type=int, action="append", help="default 10, 1,000, 50,000")
    parser.add_argument("--in-flight", type=int, action="append", help="default 16 to 1,000, 0")
    parser.add_argument("--delay", type=float, default=1.0, help="seconds, default %(default)s")
    parser.add_argument("--latency", type=float, default=0.3, help="seconds, default %(default)s")
    parser.add_argument("--seconds", type=float, default=15.0, help="default %(default)s")
    given = parser.parse_args()
    print(f"delay {given.delay:g} s, mean latency {given.latency:g} s; pages per second")
    print("  sites in flight    delays in flight   reached  of bound   busy  MiB peak   pages")
    for n_sites in given.sites or SITES:
        for in_flight in given.in_flight or IN_FLIGHT:
            show(n_sites, in_flight, given.delay, given.latency, given.seconds)


if __name__ == "__main__":
    main()
