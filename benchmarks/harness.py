"""Compares crawls: runs them in turn, each in its own process and folder, and prints ratios.

Wall time is how long a crawl takes. Processor time is what it costs, and is steadier on a busy
machine. Both run from the first response to the last one required, so importing, compiling and the
final report do not count; the work that a response causes does.
"""

from __future__ import annotations

import argparse
import json
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any

from synthetic_web import SEED_PAGE, page_url

FOLDER = Path(__file__).resolve().parent
N_WARM_UP = 100


@dataclass(frozen=True)
class Crawl:
    """One crawl.

    Parameters
    ----------
    label
        its name in the table.
    spider
        a spider's name in the bundled project, or its import path.
    n_pages
        responses to wait for.
    settings, arguments
        Scrapy settings and spider arguments that JSON can hold.
    is_bundled
        whether to start from the settings of crawlprio's bundled project.
    """

    label: str
    spider: str
    n_pages: int
    settings: dict[str, Any]
    arguments: dict[str, Any] = field(default_factory=dict)
    is_bundled: bool = False


@dataclass(frozen=True)
class Figures:
    """The cost of one crawl.

    Parameters
    ----------
    n_pages
        responses in that time.
    seconds, cpu_seconds
        wall and processor time (all threads) from the first response to the last.
    n_enqueued
        pages enqueued in the whole crawl, by Scrapy's stats.
    peak_bytes
        peak resident memory of the process.
    """

    n_pages: int
    seconds: float
    cpu_seconds: float
    n_enqueued: int
    peak_bytes: int

    @property
    def rate(self) -> float:
        """Pages per second of wall time."""
        return (self.n_pages - 1) / self.seconds

    @property
    def cpu_rate(self) -> float:
        """Pages per second of processor time."""
        return (self.n_pages - 1) / self.cpu_seconds


def common_settings(n_sites: int) -> dict[str, Any]:
    """Return the settings of every contender: no delay, no robots.txt, no log line per page."""
    return {
        "DOWNLOAD_HANDLERS": {"http": "synthetic_web.NoNetwork"},
        "BENCHMARK_SITES": n_sites,
        "ROBOTSTXT_OBEY": False,
        "DOWNLOAD_DELAY": 0,
        "CONCURRENT_REQUESTS": 16,
        "CONCURRENT_REQUESTS_PER_DOMAIN": 8,
        "LOG_LEVEL": "WARNING",
        "STATS_DUMP": False,
        "TELNETCONSOLE_ENABLED": False,
    }


def stock_crawl(n_pages: int, n_sites: int, spider: str = "synthetic_web.FollowSpider") -> Crawl:
    """Return a crawl of the synthetic web by stock Scrapy."""
    seeds = {"seeds": page_url(SEED_PAGE, n_sites)}
    return Crawl("stock", spider, n_pages, common_settings(n_sites), seeds)


def our_crawl(n_pages: int, n_sites: int, label: str = "crawlprio", **settings: Any) -> Crawl:
    """Return a crawl of the synthetic web by the bundled project, with its store."""
    arguments = {"seeds": page_url(SEED_PAGE, n_sites), "follow": "web"}
    return Crawl(
        label, "site", n_pages, {**common_settings(n_sites), **settings}, arguments, is_bundled=True
    )


def with_addon(crawl: Crawl, label: str) -> Crawl:
    """Return the same crawl by the same spider with crawlprio's add-on."""
    addons = {"ADDONS": {"crawlprio.Addon": 500}}
    return replace(crawl, label=label, settings={**crawl.settings, **addons})


def run(crawl: Crawl, time_limit: float = 600.0) -> Figures:
    """Crawl once in a new process, in an empty folder; exit if it fails."""
    with tempfile.TemporaryDirectory() as folder:
        done = subprocess.run(
            [sys.executable, str(FOLDER / "child.py")],
            input=json.dumps(asdict(crawl)),
            cwd=folder,
            capture_output=True,
            text=True,
            check=False,
            timeout=time_limit,
        )
    if done.returncode:
        sys.exit(f"{crawl.label} failed:\n{done.stderr}")
    return Figures(**json.loads(done.stdout.splitlines()[-1]))


def run_in_turn(
    crawls: Sequence[Crawl], n_rounds: int, *, warm_up: bool = True
) -> dict[str, list[Figures]]:
    """Run all crawls `n_rounds` times, each after a short crawl that is not counted."""
    if warm_up:
        for crawl in crawls:
            run(replace(crawl, n_pages=min(N_WARM_UP, crawl.n_pages)))
    rounds = [[run(crawl) for crawl in crawls] for _ in range(n_rounds)]
    return {crawl.label: [row[at] for row in rounds] for at, crawl in enumerate(crawls)}


def show(figures: dict[str, list[Figures]], base: str | None = None) -> None:
    """Print pages per second and, round by round, the median of the ratios to the base."""
    base = base or next(iter(figures))
    width = max(map(len, figures))
    for label, runs in figures.items():
        rates = [run.rate for run in runs]
        against = figures[base]
        enqueued = statistics.median(run.n_enqueued / run.n_pages for run in runs)
        wall = statistics.median(a.rate / b.rate for a, b in zip(runs, against, strict=True))
        cpu = statistics.median(a.cpu_rate / b.cpu_rate for a, b in zip(runs, against, strict=True))
        print(
            f"{label:{width}} {statistics.median(rates):7,.0f} pages/s "
            f"({min(rates):,.0f} to {max(rates):,.0f}), {wall:5.2f} times {base}; "
            f"{cpu:5.2f} by processor time; {enqueued:.1f} enqueued a page",
            flush=True,
        )


def options(doc: str | None, *, n_pages: int, n_rounds: int = 3) -> argparse.ArgumentParser:
    """Return a parser with the options of every crawl benchmark."""
    parser = argparse.ArgumentParser(
        description=doc, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--pages", type=int, default=n_pages, help="default %(default)s")
    parser.add_argument("--rounds", type=int, default=n_rounds, help="default %(default)s")
    return parser
