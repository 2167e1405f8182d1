"""Pages per second of the whole engine without a network: stock Scrapy and crawlprio.

    python benchmarks/engine.py [--pages 3000] [--sites 100] [--rounds 3]

All contenders crawl the same endless synthetic web, with a download handler that opens no
connection. Stock is Scrapy's own scheduler, queues and `LinkExtractor`, with one request per link.
The others are the bundled project, crawl store included: under its default ordering, under OPIC,
and, if uvloop is installed, under its default ordering without uvloop. With many sites, use many
pages too: a crawl that knows few sites shows little of what they cost.

What it does not show: sockets, DNS, TLS, slow servers, and pages as messy as real ones.
"""

from __future__ import annotations

from importlib.util import find_spec

from harness import options, our_crawl, run_in_turn, show, stock_crawl

from crawlprio.settings_table.table import SETTINGS


def main() -> None:
    parser = options(__doc__, n_pages=3000)
    parser.add_argument("--sites", type=int, default=100, help="default %(default)s")
    given = parser.parse_args()
    print(f"{given.pages:,} pages on {given.sites:,} sites, in turn, {given.rounds} rounds")
    default = str(SETTINGS["ORDERING"].default)
    crawls = [stock_crawl(given.pages, given.sites)] + [
        our_crawl(given.pages, given.sites, label, **settings)
        for label, settings in (
            (f"{default} (default)", {}),
            ("opic", {"ORDERING": "opic"}),
            (f"{default}, no uvloop", {"ASYNCIO_EVENT_LOOP": None}),
        )
        if find_spec("uvloop") or "ASYNCIO_EVENT_LOOP" not in settings
    ]
    show(run_in_turn(crawls, given.rounds))


if __name__ == "__main__":
    main()
