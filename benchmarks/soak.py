"""A crawl of a web of which a third is hostile: memory, disk, silence, and honest pages fetched.

    python benchmarks/soak.py [--fetches 200000] [--ordering NAME] [--novelty KIND] [--json FILE]

The bundled project crawls the synthetic web of `hostile_web.py` twice, each time in a new process,
with the crawl store on and without delays: once as it is, and once with all hostile sites
answering 404. The benchmark compares the honest pages fetched and their order (Kendall's tau).

What it does not show: sockets, DNS and TLS, and servers that send slowly. Silence is the processor
time of the event loop's thread between two of its turns, which a busy machine does not lengthen.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import resource
import subprocess
import sys
import tempfile
from pathlib import Path
from threading import Event, Thread
from typing import Any

from crawlprio.settings_table.table import SETTINGS

FOLDER = Path(__file__).resolve().parent
HONEST_SHARE = 0.3
"""Honest pages as a share of the hostile crawl's fetches."""


def crawl(
    n_fetches: int, n_pages: int, ordering: str, novelty: str | None, *, is_quiet: bool
) -> dict[str, Any]:
    """Crawl once, in this process and folder, and return the figures."""
    from hostile_web import N_HONEST, SEEDS, HostileWeb, Silence
    from scrapy import signals
    from scrapy.crawler import AsyncCrawlerProcess
    from scrapy.settings import Settings

    settings = Settings()
    settings.setmodule("crawlprio.settings", priority="project")
    settings.setdict(
        {
            "DOWNLOAD_HANDLERS": dict.fromkeys(("http", "https"), "hostile_web.HostileWeb"),
            "HOSTILE_WEB_PAGES": n_pages,
            "HOSTILE_WEB_QUIET": is_quiet,
            "ORDERING": ordering,
            "CRAWLPRIO_NOVELTY": novelty,
            "DOWNLOAD_DELAY": 0,
            "RETRY_ENABLED": False,
            "CLOSESPIDER_PAGECOUNT": n_fetches,
            "CRAWLPRIO_PRINT": False,
            "CRAWLPRIO_PLOT": None,
            "LOG_LEVEL": "ERROR",
            "STATS_DUMP": False,
            "TELNETCONSOLE_ENABLED": False,
        },
        priority="cmdline",
    )
    process = AsyncCrawlerProcess(settings)
    crawler = process.create_crawler("site")
    ended = Event()
    disk = [0]

    def watch_disk() -> None:
        while not ended.wait(0.5):
            disk[0] = max(disk[0], sum(f.stat().st_size for f in Path().glob("crawl.sqlite*")))

    async def tick() -> None:
        while not ended.is_set():
            Silence.tick()
            await asyncio.sleep(0.01)

    tasks = []
    crawler.signals.connect(
        lambda: tasks.append(asyncio.ensure_future(tick())), signals.spider_opened, weak=False
    )
    crawler.signals.connect(lambda: ended.set(), signals.spider_closed, weak=False)
    watcher = Thread(target=watch_disk, daemon=True)
    watcher.start()
    process.crawl(crawler, seeds=",".join(SEEDS), follow="web")
    process.start()
    ended.set()
    watcher.join()
    assert crawler.stats is not None
    stats = crawler.stats.get_stats()
    return {
        "order": HostileWeb.order,
        "n_honest": N_HONEST * n_pages,
        "n_hostile": HostileWeb.n_hostile,
        "peak_mb": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024,
        "disk_mb": disk[0] / 1e6,
        "longest_cpu": Silence.longest_cpu,
        "longest_wall": Silence.longest_wall,
        "n_long": Silence.n_long,
        "seconds": stats.get("elapsed_time_seconds"),
        "reason": stats.get("finish_reason"),
        "errors": stats.get("log_count/ERROR", 0),
        "pages_known": stats.get("crawlprio/pages_known"),
        "sites_known": stats.get("crawlprio/sites_known"),
        "refused": {
            name.split("/", 1)[1]: count
            for name, count in sorted(stats.items())
            if name.startswith(("crawlprio/refused/", "crawlprio/cut/"))
        },
    }


def in_child(
    n_fetches: int, n_pages: int, ordering: str, novelty: str | None, *, is_quiet: bool
) -> dict[str, Any]:
    """Crawl in a new process, in an empty folder; exit if it fails."""
    with tempfile.TemporaryDirectory() as folder:
        done = subprocess.run(
            [
                sys.executable,
                __file__,
                "--child",
                json.dumps([n_fetches, n_pages, ordering, novelty, is_quiet]),
            ],
            cwd=folder,
            env={
                **os.environ,
                "PYTHONPATH": os.pathsep.join([str(FOLDER), *_path()]),
            },
            capture_output=True,
            text=True,
            check=False,
        )
        if done.returncode:
            sys.exit(done.stderr)
        figures: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
        return figures


def _path() -> list[str]:
    return [part for part in os.environ.get("PYTHONPATH", "").split(os.pathsep) if part]


def tau(order: list[str], other: list[str]) -> float:
    """Return Kendall's tau of the pages that are in both orders."""
    from scipy.stats import kendalltau

    place = {page: at for at, page in enumerate(other)}
    pairs = [(at, place[page]) for at, page in enumerate(order) if page in place]
    return float(kendalltau([a for a, _ in pairs], [b for _, b in pairs]).statistic)


def show(name: str, found: dict[str, Any]) -> None:
    """Print the figures of one crawl."""
    distinct = len(set(found["order"]))
    print(
        f"{name}: {distinct:,} of {found['n_honest']:,} honest pages, {found['n_hostile']:,} other "
        f"fetches, {found['seconds']:.0f} s ({found['reason']}, {found['errors']} errors); "
        f"{found['pages_known']:,} pages of {found['sites_known']:,} sites known; "
        f"{found['peak_mb']:.0f} MB of memory, {found['disk_mb']:.0f} MB on disk; longest silence "
        f"{found['longest_cpu']:.2f} s of processor time ({found['longest_wall']:.2f} s by the "
        f"clock), {found['n_long']} above 0.25 s\n  {found['refused']}",
        flush=True,
    )


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--fetches", type=int, default=200_000, help="default %(default)s")
    parser.add_argument(
        "--ordering", default=SETTINGS["ORDERING"].default, help="default %(default)s"
    )
    parser.add_argument("--novelty", choices=["exact", "near"], help="default: none")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write the figures, orders too")
    parser.add_argument("--child", help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.child:
        n_fetches, n_pages, ordering, novelty, is_quiet = json.loads(given.child)
        print(json.dumps(crawl(n_fetches, n_pages, ordering, novelty, is_quiet=is_quiet)))
        return
    from hostile_web import N_HONEST

    n_pages = max(1, int(HONEST_SHARE * given.fetches / N_HONEST))
    hostile = in_child(given.fetches, n_pages, given.ordering, given.novelty, is_quiet=False)
    show("with hostile sites", hostile)
    quiet = in_child(given.fetches, n_pages, given.ordering, given.novelty, is_quiet=True)
    show("without", quiet)
    first = list(dict.fromkeys(hostile["order"]))
    second = list(dict.fromkeys(quiet["order"]))
    print(
        f"honest pages fetched: {len(first):,} and {len(second):,}, "
        f"{len(set(first) & set(second)):,} in both; order: tau {tau(first, second):.3f}"
    )
    if given.json:
        given.json.write_text(json.dumps({"hostile": hostile, "quiet": quiet}), encoding="utf-8")


if __name__ == "__main__":
    main()
