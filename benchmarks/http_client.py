"""Crawls of real pages with Scrapy's HTTP client and with crawlprio's own, in turn.

    python benchmarks/http_client.py [--folder FOLDER] [--pages 1500] [--rounds 5]

The pages and the server are those of `real_pages.py`; all crawls have the same order. `Scrapy's` is
the bundled project with CRAWLPRIO_LENIENT_HTTP off, `again` the same once more, which shows the
noise. Figures are processor time a page from the 100th page on, when all code is loaded, and
ratios of it, round by round; a ratio below 1 is less time.

What it does not show: TLS, slow servers, and crawls of many hosts, where connections are seldom
used again.
"""

from __future__ import annotations

import statistics
import tempfile
from dataclasses import replace
from pathlib import Path

from harness import options, run_in_turn
from real_pages import Site, crawls, serve, sites_of
from synthetic_web import Clock

N_BEFORE = 100


class Late(Site):
    """The bundled spider, whose first pages are not counted."""

    n_seen = 0

    @staticmethod
    def tick() -> None:
        Late.n_seen += 1
        if Late.n_seen == N_BEFORE:
            Clock.n_wanted -= N_BEFORE - 1
        if Late.n_seen >= N_BEFORE:
            Clock.tick()


def main() -> None:
    parser = options(__doc__, n_pages=1500, n_rounds=5)
    parser.add_argument("--folder", type=Path, help="holds a folder of HTML pages for each site")
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as temporary:
        sites = sites_of(given.folder, Path(temporary))
        if not sites:
            return
        served = {host: (root, ()) for host, root in sites.items()}
        with serve(Path(temporary, "nginx"), served, charset="") as server:
            own = replace(
                crawls(server, sites, given.pages)["crawlprio"], spider="http_client.Late"
            )
            stock = {**own.settings, "CRAWLPRIO_LENIENT_HTTP": False}
            # No limit of a site ends a crawl, or the two would fetch different pages.
            every = [
                replace(
                    own, label=label, settings={**settings, "CRAWLPRIO_MAX_PAGES_PER_SITE": None}
                )
                for label, settings in (
                    ("Scrapy's", stock),
                    ("own", own.settings),
                    ("again", stock),
                )
            ]
            figures = run_in_turn(every, given.rounds, warm_up=False)
        base = figures["Scrapy's"]
        for label, runs in figures.items():
            us = [1e6 * each.cpu_seconds / (each.n_pages - N_BEFORE) for each in runs]
            ratios = [a.cpu_seconds / b.cpu_seconds for a, b in zip(runs, base, strict=True)]
            print(
                f"{label:9} {statistics.median(us):6,.0f} us a page of {runs[0].n_pages:,}; "
                f"{statistics.median(ratios):.3f} ({' '.join(f'{each:.2f}' for each in ratios)})",
                flush=True,
            )


if __name__ == "__main__":
    main()
