"""Crawls of real pages behind nginx: Scrapy's CrawlSpider, the add-on with it, and crawlprio.

    python benchmarks/real_pages.py [--folder FOLDER] [--pages 2000] [--rounds 5] [--profile LABEL]

The pages are Debian documentation packages (Python, SciPy, PostgreSQL, Django, SQLAlchemy, SQLite:
about 7,700 pages of 40 kB on average). They are read from `--folder`, or fetched with `apt-get
download` if it is not given. Any folder that contains one folder of HTML per site works. Debian's
nginx serves each site on its own loopback address, compressed, and declares no charset.

`stock` is a CrawlSpider that follows every link and scrapes the title of every page; `add-on` is
the same spider with one line in ADDONS. `crawlprio` is the bundled project with its store, under
the default ordering and under OPIC; it records links and titles. All crawl in turn, with 16 in
flight, no delay and no robots.txt. Ratios are those of `engine.py`, from the first response to the
last. Before that, the benchmark prints how much longer a crawl of two pages takes with the add-on,
with Numba's cache full and empty.

With `--profile LABEL` one of the crawls is sampled instead (see `profiled.py`).

What it does not show: slow servers and networks, where a crawl waits and costs matter less, and
spiders that scrape more. The crawls fetch different pages, as each has its order; with `--pages 0`
all of them. The server takes a share of the machine. Without nginx or the pages, the benchmark says
so and exits with 0.
"""

from __future__ import annotations

import os
import shutil
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from time import perf_counter
from typing import Any, Self
from urllib.parse import quote, urlsplit

from harness import Crawl, common_settings, options, run, run_in_turn, show, with_addon
from profiled import profile_apart
from scrapy import signals
from scrapy.crawler import Crawler
from scrapy.http import HtmlResponse, Response
from scrapy.linkextractors import LinkExtractor
from scrapy.spiders import CrawlSpider, Rule
from synthetic_web import Clock

from crawlprio.spiders.site import SiteSpider

sys.path.extend(str(Path(__file__).resolve().parents[1] / "tests" / name) for name in ("", "kit"))

from nginx_sites import NGINX, Server, serve

PACKAGES = {
    "python3.11-doc": "usr/share/doc/python3.11/html",
    "python-scipy-doc": "usr/share/doc/python-scipy-doc/html",
    "postgresql-doc-15": "usr/share/doc/postgresql-doc-15/html",
    "python-django-doc": "usr/share/doc/python-django-doc/html",
    "python-sqlalchemy-doc": "usr/share/doc/python-sqlalchemy-doc/html",
    "sqlite3-doc": "usr/share/doc/sqlite3",
}
"""Debian documentation packages, each with the folder of its pages."""


class Ticking:
    """Makes a spider count its responses by the clock of the benchmarks."""

    @classmethod
    def from_crawler(cls, crawler: Crawler, *args: Any, **kwargs: Any) -> Self:
        crawler.signals.connect(cls.tick, signal=signals.response_received)
        made: Self = super().from_crawler(crawler, *args, **kwargs)  # type: ignore[misc]
        return made

    @staticmethod
    def tick() -> None:
        Clock.tick()


class Documentation(Ticking, CrawlSpider):
    """Follows every link and scrapes titles."""

    name = "documentation"
    rules = (Rule(LinkExtractor(), callback="parse_page", follow=True),)

    def __init__(self, seeds: str) -> None:
        super().__init__()
        self.start_urls = seeds.split(",")
        self.allowed_domains = [str(urlsplit(url).hostname) for url in self.start_urls]

    def parse_page(self, response: Response) -> Iterator[dict[str, Any]]:
        if isinstance(response, HtmlResponse):
            yield {"url": response.url, "title": response.css("title::text").get()}


class Site(Ticking, SiteSpider):
    """The bundled spider."""


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


def first_page(site: Path) -> str:
    """Return the path of the page of a site at which a crawl starts."""
    names = ("index.html", "contents.html", *sorted(p.name for p in site.glob("*.html")))
    return quote(next(name for name in names if (site / name).is_file()))


def crawls(server: Server, sites: Mapping[str, Path], n_pages: int) -> dict[str, Crawl]:
    """Return the contenders, by label."""
    settings = {
        name: value
        for name, value in common_settings(0).items()
        if name not in ("DOWNLOAD_HANDLERS", "BENCHMARK_SITES")
    }
    seeds = {"seeds": ",".join(server.url(host, f"/{first_page(sites[host])}") for host in sites)}
    stock = Crawl("stock", "real_pages.Documentation", n_pages, settings, seeds)
    ours = Crawl("crawlprio", "real_pages.Site", n_pages, settings, seeds, is_bundled=True)
    opic = replace(ours, label="crawlprio, opic", settings={**settings, "ORDERING": "opic"})
    return {crawl.label: crawl for crawl in (stock, with_addon(stock, "add-on"), ours, opic)}


def show_start(stock: Crawl, addon: Crawl, n_rounds: int) -> None:
    """Print the extra time of a short crawl with the add-on, with and without cached code."""
    for label, is_cold in (("warm", False), ("cold", True)):
        more = []
        for _ in range(n_rounds):
            seconds = []
            for crawl in (stock, addon):
                with tempfile.TemporaryDirectory() as empty:
                    if is_cold:
                        os.environ["NUMBA_CACHE_DIR"] = empty
                    started = perf_counter()
                    run(replace(crawl, n_pages=2))
                    seconds.append(perf_counter() - started)
                    os.environ.pop("NUMBA_CACHE_DIR", None)
            more.append(seconds[1] - seconds[0])
        print(f"start, {label}: {statistics.median(more):+.2f} s with the add-on", flush=True)


def sites_of(folder: Path | None, temporary: Path) -> dict[str, Path]:
    """Return the folder of HTML pages of each site, by address; say so if there can be none."""
    pages = folder or temporary / "pages"
    reason = "nginx is not installed" if NGINX is None else "" if folder else unpack(pages)
    if reason:
        print(f"left out: {reason}")
        return {}
    roots = sorted(path for path in pages.resolve().iterdir() if path.is_dir())
    return {f"127.0.1.{at + 1}": root for at, root in enumerate(roots)}


def main() -> None:
    parser = options(__doc__, n_pages=2000, n_rounds=5)
    parser.add_argument("--folder", type=Path, help="holds a folder of HTML pages for each site")
    parser.add_argument("--profile", metavar="LABEL", help="'stock', 'add-on', 'crawlprio', ...")
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as temporary:
        sites = sites_of(given.folder, Path(temporary))
        if not sites:
            return
        served = {host: (root, ()) for host, root in sites.items()}
        with serve(Path(temporary, "nginx"), served, charset="") as server:
            contenders = crawls(server, sites, given.pages)
            if given.profile:
                profile_apart(contenders[given.profile])
                return
            print(f"{len(sites)} sites, in turn, {given.rounds} rounds", flush=True)
            show_start(contenders["stock"], contenders["add-on"], 3)
            show(run_in_turn(list(contenders.values()), given.rounds))


if __name__ == "__main__":
    main()
