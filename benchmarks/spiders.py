"""Custom spiders that yield a request per link, without and with crawlprio's add-on.

    python benchmarks/spiders.py [--pages 2000] [--sites 100] [--rounds 3]

The engine runs without a network, with OPIC and the crawl store on. `follow` yields the requests
itself, `rules` is a `CrawlSpider` with one rule, and `starts` has start URLs only. The only change
to the spiders and their settings is the line in ADDONS.

What it does not show: spiders that scrape more than links, which makes any difference smaller.
"""

from __future__ import annotations

from dataclasses import replace

from harness import options, run_in_turn, show, stock_crawl, with_addon


def main() -> None:
    parser = options(__doc__, n_pages=2000)
    parser.add_argument("--sites", type=int, default=100, help="default %(default)s")
    given = parser.parse_args()
    print(f"{given.pages:,} pages on {given.sites:,} sites, in turn, {given.rounds} rounds")
    for spider in ("FollowSpider", "RulesSpider", "StartsSpider"):
        label = spider.removesuffix("Spider").lower()
        stock = stock_crawl(given.pages, given.sites, f"synthetic_web.{spider}")
        stock = replace(stock, label=label)
        show(run_in_turn([stock, with_addon(stock, f"{label} with add-on")], given.rounds))


if __name__ == "__main__":
    main()
