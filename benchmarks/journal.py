"""The cost of the crawl store: the engine without a network, with and without a store, in turn.

    python benchmarks/journal.py [--pages 5000] [--rounds 5]

What it does not show: a slow disk. The folder for temporary files determines the disk.
"""

from __future__ import annotations

from harness import options, our_crawl, run_in_turn, show


def main() -> None:
    given = options(__doc__, n_pages=5000, n_rounds=5).parse_args()
    print(f"{given.pages:,} pages on 100 sites, in turn, {given.rounds} rounds")
    crawls = [
        our_crawl(given.pages, 100, "without store", CRAWLPRIO_STORE=None),
        our_crawl(given.pages, 100, "with store"),
    ]
    show(run_in_turn(crawls, given.rounds))


if __name__ == "__main__":
    main()
