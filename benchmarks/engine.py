"""Pages per second of the whole engine without a network: Scrapy as it comes, and crawlprio.

    python benchmarks/engine.py [--pages 3000] [--sites 100] [--rounds 3]

Both crawl the same endless made-up web, with a download handler that opens no connection. Stock is
Scrapy's own scheduler, queues and `LinkExtractor`, one request a link; crawlprio is the bundled
project with OPIC and the crawl store on, and with uvloop where it is installed. With many sites
take many pages too: a crawl that knows few of them shows little of what they cost.

What it does not show: sockets, DNS, TLS, servers that are slow, and pages as messy as real ones.
"""

from __future__ import annotations

from importlib.util import find_spec

from harness import options, our_crawl, run_in_turn, show, stock_crawl


def main() -> None:
    parser = options(__doc__, n_pages=3000)
    parser.add_argument("--sites", type=int, default=100, help="default %(default)s")
    given = parser.parse_args()
    print(f"{given.pages:,} pages on {given.sites:,} sites, in turn, {given.rounds} rounds")
    crawls = [stock_crawl(given.pages, given.sites), our_crawl(given.pages, given.sites)]
    if find_spec("uvloop"):
        crawls.append(
            our_crawl(given.pages, given.sites, "without uvloop", ASYNCIO_EVENT_LOOP=None)
        )
    show(run_in_turn(crawls, given.rounds))


if __name__ == "__main__":
    main()
