"""The cost of each ordering relative to breadth-first: the engine without a network, in turn.

    python benchmarks/orderings.py [--pages 5000] [--rounds 3] [--ordering NAME[:EVERY]]...

The crawl store is on. PageRank is computed in a background thread, so it looks cheaper by wall time
than by processor time, which counts all threads.

What it does not show: larger crawls, in which each computation of PageRank takes longer.
"""

from __future__ import annotations

from harness import Crawl, options, our_crawl, run_in_turn, show

ORDERINGS = (
    "opic",
    "backlink-count",
    "larger-sites-first",
    "partial-pagerank:1000",
    "batch-pagerank:1000",
    "pagerank:1000",
    "pagerank",
)


def crawl_by(ordering: str, n_pages: int) -> Crawl:
    """Return the crawl by an ordering, `name` or `name:every`."""
    name, _, every = ordering.partition(":")
    chosen = {"every": int(every)} if every else {}
    return our_crawl(n_pages, 100, ordering, ORDERING=name, ORDERING_OPTIONS=chosen)


def main() -> None:
    parser = options(__doc__, n_pages=5000)
    parser.add_argument("--ordering", action="append", help=f"default {', '.join(ORDERINGS)}")
    given = parser.parse_args()
    print(f"{given.pages:,} pages on 100 sites, in turn, {given.rounds} rounds")
    names = ["breadth-first", *(given.ordering or ORDERINGS)]
    show(run_in_turn([crawl_by(name, given.pages) for name in names], given.rounds))


if __name__ == "__main__":
    main()
