"""A stock CrawlSpider on real HTML pages, without and with crawlprio's add-on.

    python benchmarks/addon_pages.py [--folder FOLDER] [--pages N] [--rounds 3]

The pages come from Debian documentation packages (Python, SciPy, PostgreSQL, Django, SQLAlchemy,
SQLite: about 7,700 pages of 40 kB on average). They are read from `--folder`, or fetched with
`apt-get download` if it is not given. Any folder that contains one folder of HTML per site works.
Each site has a plain static server in its own process, on its own loopback address.

The spider follows every link and scrapes the title of every page. Scrapy's settings are the
defaults, except for logging. The only change is the line in ADDONS, plus the settings given with
`--contender`. Both contenders crawl all pages, in turn, and must scrape the same items.

The output shows pages per second from the first response to the last, by wall time and by the
crawling process's processor time, each also with the process's start and end, and its peak resident
memory. Each round gives a ratio; the median is printed. Before that, the benchmark prints how much
longer a one-page crawl takes with the add-on, with Numba's cache full and empty.

What it does not show: slow servers and networks, where the crawl waits and costs matter less, and
spiders that scrape more, which makes any difference smaller. The server takes a share of the
machine. If no pages are available, the benchmark says so and exits with 0.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread
from time import perf_counter, process_time
from typing import Any
from urllib.parse import quote, urljoin

PACKAGES = {
    "python3.11-doc": "usr/share/doc/python3.11/html",
    "python-scipy-doc": "usr/share/doc/python-scipy-doc/html",
    "postgresql-doc-15": "usr/share/doc/postgresql-doc-15/html",
    "python-django-doc": "usr/share/doc/python-django-doc/html",
    "python-sqlalchemy-doc": "usr/share/doc/python-sqlalchemy-doc/html",
    "sqlite3-doc": "usr/share/doc/sqlite3",
}
"""Debian documentation packages, each with the folder of its pages."""

ADDON = {"ADDONS": {"crawlprio.Addon": 500}}


@dataclass(frozen=True)
class Figures:
    """The cost of one crawl.

    Parameters
    ----------
    n_pages
        responses.
    n_items
        items scraped.
    seconds, cpu_seconds
        wall and processor time from the first response to the last.
    all_seconds, all_cpu_seconds
        the same for the whole process.
    peak_bytes
        peak resident memory of the process.
    """

    n_pages: int
    n_items: int
    seconds: float
    cpu_seconds: float
    all_seconds: float
    all_cpu_seconds: float
    peak_bytes: int


def unpack(folder: Path) -> str:
    """Download and unpack the packages into a folder; return the error, or an empty text."""
    for tool in ("apt-get", "dpkg-deb"):
        if shutil.which(tool) is None:
            return f"no {tool} here; give --folder with folders of HTML pages"
    for package, pages in PACKAGES.items():
        with tempfile.TemporaryDirectory() as temporary:
            line = ["apt-get", "download", package]
            done = subprocess.run(line, cwd=temporary, capture_output=True, text=True, check=False)
            found = list(Path(temporary).glob("*.deb"))
            if done.returncode or not found:
                return f"{package} cannot be downloaded: {done.stderr.strip().splitlines()[-1:]}"
            unpacked = Path(temporary, "unpacked")
            subprocess.run(["dpkg-deb", "-x", found[0], unpacked], check=True)
            shutil.copytree(unpacked / pages, folder / package, symlinks=True)
    return ""


class StaticPages(SimpleHTTPRequestHandler):
    """Serves the files of a folder over keep-alive connections; a folder is its index.html."""

    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True
    wbufsize = -1

    def log_message(self, format: str, *args: Any) -> None:
        pass

    def list_directory(self, path: Any) -> None:
        self.send_error(404)


class Server(ThreadingHTTPServer):
    """A server for one site that accepts all connections that a crawl opens at once."""

    request_queue_size = 128


def serve(folder: Path) -> None:
    """Serve each folder in a folder on its own loopback address, until standard input ends."""
    seeds = []
    for at, site in enumerate(sorted(path for path in folder.iterdir() if path.is_dir())):
        host = f"127.0.0.{at + 1}"
        server = Server((host, 0), partial(StaticPages, directory=str(site)))
        Thread(target=server.serve_forever, daemon=True).start()
        first = next(
            (site / name for name in ("index.html", "contents.html") if (site / name).exists()),
            next(iter(sorted(site.rglob("*.html"))), None),
        )
        if first is not None:
            path = quote(first.relative_to(site).as_posix())
            seeds.append(urljoin(f"http://{host}:{server.server_port}/", path))
    print(json.dumps(seeds), flush=True)
    sys.stdin.read()


@contextmanager
def serving(folder: Path) -> Iterator[list[str]]:
    """Serve a folder from a child process; yield the seeds."""
    line = [sys.executable, str(Path(__file__).resolve()), "--serve", str(folder)]
    with subprocess.Popen(line, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        try:
            assert process.stdout is not None
            yield json.loads(process.stdout.readline())
        finally:
            process.kill()


def crawl(seeds: Sequence[str], settings: dict[str, Any], n_pages: int) -> None:
    """Crawl once in this process; print the figures as a line of JSON."""
    from scrapy import signals
    from scrapy.crawler import AsyncCrawlerProcess
    from scrapy.http import HtmlResponse, Response
    from scrapy.linkextractors import LinkExtractor
    from scrapy.spiders import CrawlSpider, Rule

    times: list[tuple[float, float]] = []

    class Documentation(CrawlSpider):
        name = "documentation"
        start_urls = list(seeds)
        allowed_domains = [url.split("/")[2].partition(":")[0] for url in seeds]
        rules = [Rule(LinkExtractor(), callback="parse_page", follow=True)]

        def parse_page(self, response: Response) -> Iterator[dict[str, Any]]:
            if isinstance(response, HtmlResponse):
                yield {"url": response.url, "title": response.css("title::text").get()}

    def note_time() -> None:
        if len(times) < 2:
            times.append((perf_counter(), process_time()))
        else:
            times[1] = (perf_counter(), process_time())

    process = AsyncCrawlerProcess(
        {"LOG_LEVEL": "WARNING", "CLOSESPIDER_PAGECOUNT": n_pages, **settings}
    )
    crawler = process.create_crawler(Documentation)
    crawler.signals.connect(note_time, signal=signals.response_received)
    process.crawl(crawler)
    process.start()
    stats = crawler.stats
    assert stats is not None
    (started, cpu_started), (ended, cpu_ended) = times[0], times[-1]
    print(
        json.dumps(
            {
                "n_pages": stats.get_value("response_received_count"),
                "n_items": stats.get_value("item_scraped_count"),
                "seconds": ended - started,
                "cpu_seconds": cpu_ended - cpu_started,
            }
        )
    )


def run(
    seeds: Sequence[str], settings: dict[str, Any], n_pages: int, **environment: str
) -> Figures:
    """Crawl once in a new process, in an empty folder; exit if it fails."""
    line = [sys.executable, str(Path(__file__).resolve()), "--crawl", "--pages", str(n_pages)]
    with tempfile.TemporaryDirectory() as folder, tempfile.TemporaryFile("w+") as errors:
        started = perf_counter()
        process = subprocess.Popen(
            line,
            cwd=folder,
            env={**os.environ, **environment},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=errors,
        )
        assert process.stdin is not None
        assert process.stdout is not None
        process.stdin.write(json.dumps([seeds, settings]).encode())
        process.stdin.close()
        said = process.stdout.read().decode()
        _, status, used = os.wait4(process.pid, 0)
        process.returncode = os.waitstatus_to_exitcode(status)
        seconds = perf_counter() - started
        if process.returncode:
            errors.seek(0)
            sys.exit(f"The crawl failed:\n{errors.read()}")
    return Figures(
        **json.loads(said.splitlines()[-1]),
        all_seconds=seconds,
        all_cpu_seconds=used.ru_utime + used.ru_stime,
        peak_bytes=used.ru_maxrss * 1024,
    )


def show(label: str, runs: list[Figures], stock: list[Figures]) -> None:
    """Print the medians, and the medians of the ratios to stock."""

    def ratio(name: str) -> float:
        pairs = zip(runs, stock, strict=True)
        return statistics.median(
            own.n_pages / getattr(own, name) / (peer.n_pages / getattr(peer, name))
            for own, peer in pairs
        )

    peaks = [own.peak_bytes / 2**20 for own in runs]
    more = statistics.median(
        (own.peak_bytes - peer.peak_bytes) / 2**20 for own, peer in zip(runs, stock, strict=True)
    )
    print(
        f"{label:12} {statistics.median(own.n_pages / own.seconds for own in runs):6.1f} pages/s; "
        f"{ratio('seconds'):.2f} times stock, {ratio('cpu_seconds'):.2f} by processor time; whole "
        f"process {ratio('all_seconds'):.2f} and {ratio('all_cpu_seconds'):.2f}; "
        f"peak {statistics.median(peaks):.0f} MiB ({min(peaks):.0f} to {max(peaks):.0f}), "
        f"{more:+.0f}",
        flush=True,
    )


def show_start(seeds: Sequence[str], n_rounds: int) -> None:
    """Print the extra time of a one-page crawl with the add-on, with and without cached code."""
    for label, is_cold in (("warm", False), ("cold", True)):
        more: list[tuple[float, float, float]] = []
        for _ in range(n_rounds):
            with tempfile.TemporaryDirectory() as empty:
                cache = {"NUMBA_CACHE_DIR": empty} if is_cold else {}
                stock, ours = (run(seeds[:1], each, 1, **cache) for each in ({}, ADDON))
            more.append(
                (
                    ours.all_seconds - stock.all_seconds,
                    ours.all_cpu_seconds - stock.all_cpu_seconds,
                    (ours.peak_bytes - stock.peak_bytes) / 2**20,
                )
            )
        seconds, cpu_seconds, size = (statistics.median(each) for each in zip(*more, strict=True))
        print(
            f"start, {label}: {seconds:+.2f} s, {cpu_seconds:+.2f} s of processor time, "
            f"{size:+.0f} MiB",
            flush=True,
        )


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--folder", type=Path, help="holds a folder of HTML pages for each site")
    parser.add_argument("--pages", type=int, default=0, help="default: all")
    parser.add_argument("--rounds", type=int, default=3, help="default %(default)s")
    parser.add_argument(
        *("--contender", "-c"),
        action="append",
        default=[],
        help="more settings for the add-on, as JSON: one more contender",
    )
    parser.add_argument("--crawl", action="store_true", help=argparse.SUPPRESS)
    parser.add_argument("--serve", type=Path, help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.serve:
        serve(given.serve)
        return
    if given.crawl:
        seeds, settings = json.load(sys.stdin)
        crawl(seeds, settings, given.pages)
        return
    with tempfile.TemporaryDirectory() as temporary:
        folder = given.folder or Path(temporary)
        reason = "" if given.folder else unpack(folder)
        if reason:
            print(f"left out: {reason}")
            return
        contenders = {"stock": {}, "add-on": ADDON}
        contenders |= {more: {**ADDON, **json.loads(more)} for more in given.contender}
        with serving(folder) as seeds:
            print(f"{len(seeds)} sites, in turn, {given.rounds} rounds", flush=True)
            run(seeds, ADDON, 20)
            show_start(seeds, given.rounds)
            figures: dict[str, list[Figures]] = {label: [] for label in contenders}
            for _ in range(given.rounds):
                for label, settings in contenders.items():
                    figures[label].append(run(seeds, settings, given.pages))
        for label, runs in figures.items():
            show(label, runs, figures["stock"])
        counts = {label: (runs[0].n_pages, runs[0].n_items) for label, runs in figures.items()}
        print(f"answers and items: {counts}")
        if not given.pages and len({tuple(count) for count in counts.values()}) > 1:
            sys.exit("The contenders did not scrape the same.")


if __name__ == "__main__":
    main()
