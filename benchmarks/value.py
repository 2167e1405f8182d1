"""How much value orderings find on real pages, by topics; run by hand, for docs/value.md.

    python benchmarks/value.py FOLDER [--warc FILE] [--web NAME] [--topic TERMS] [--starts N]

Builds crawl stores with texts in FOLDER, unless they are there: the documentation of scientific
Debian packages (`apt-get download`, `dpkg-deb`), each package a site with its first index as home
page, and, with --warc, a recorded crawl of www.ics.uci.edu. Then crawls each web in memory from
its home pages and from random pages that reach at least half of what these reach, under each
ordering, with `words:TERMS` as the value. No option of an ordering was chosen by these topics, nor
by the first web. The figures depend on the Debian release.
"""

from __future__ import annotations

import argparse
import os
import time
from collections import deque
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from urllib.parse import unquote, urlsplit

import numpy as np
from webs import Library

from crawlprio.demo.recordings import WarcWeb
from crawlprio.evaluation import reachable
from crawlprio.linkgraph import LinkGraph, read_graph
from crawlprio.orderings import make_ordering
from crawlprio.pages import PageTable, Visit
from crawlprio.simulator.pages import RecordedVisits
from crawlprio.simulator.value_runs import MARKS, ValueLab, page_values
from crawlprio.store import Store
from crawlprio.topic import HotQueue, Topic
from crawlprio.value.registry import make_model
from crawlprio.web.html import parse_page
from crawlprio.web.urls import host_of

PACKAGES = (
    *("python-scipy-doc", "python-sklearn-doc", "python-pandas-doc", "r-doc-html"),
    "python-astropy-doc",
)
TOPICS = {
    "science": ("regression", "matrix,linear algebra", "plot,figure", "time series"),
    "uci": (
        "cryptography,encryption",
        "database,query",
        "seminar",
        "parallel,distributed computing",
    ),
}
SYSTEMS = (
    *(("random", False), ("breadth-first", False), ("sibling-sampling", True)),
    *(("breadth-first", True), ("best-first", False), ("parent-quality", False)),
    *(("value", False), ("value", True), ("omniscient", False)),
)
"""Orderings, and whether the hot queue of the same words is in front of them."""

MOST_PAGES, LARGEST = 30_000, 500_000
"""Most pages of a web, and most bytes read of a page."""


class Packages:
    """Debian packages as sites: `http://PACKAGE.example/PATH`."""

    def __init__(self, folder: Path, packages: Sequence[str]) -> None:
        library = Library(folder)
        self._files: dict[str, str] = {}
        self.homes = []
        for package in packages:
            library.add(package)
            paths = sorted(library.sites[package].paths)
            for path in paths:
                self._files[library.resolve(path)] = f"http://{package}.example{path}"
            indexes = [path for path in paths if path.rpartition("/")[2].startswith("index.")]
            home = min(indexes or paths, key=lambda path: (path.count("/"), path))
            self.homes.append(self._files[library.resolve(home)])
        self._library = library
        self._paths = {url: path for path, url in self._files.items()}

    def page(self, url: str) -> str | None:
        """Return the URL of the page that a link means; None if there is none."""
        parts = urlsplit(url)
        if not parts.netloc.endswith(".example"):
            return None
        return self._files.get(self._library.resolve(os.path.normpath(unquote(parts.path))))

    def body(self, url: str) -> bytes:
        return (self._library.root / self._paths[url][1:]).read_bytes()[:LARGEST]


class Recording:
    """A WARC file."""

    def __init__(self, path: Path) -> None:
        self._web = WarcWeb(path)
        self.homes = [self.page("http://www.ics.uci.edu/") or self._web.url(0)]

    def page(self, url: str) -> str | None:
        page = self._web.page(url)
        return None if page is None else self._web.url(page)

    def body(self, url: str) -> bytes:
        page = self._web.page(url)
        return b"" if page is None else self._web.response(page).body


def build(path: Path, web: Packages | Recording) -> None:
    """Write a store of a breadth-first crawl of a web, with the texts of its pages."""
    with Store.create(path) as store:
        table, ids = PageTable(), dict[str, int]()

        def page_of(url: str, depth: int) -> int:
            if url not in ids:
                ids[url] = table.add(url, url, table.site(host_of(url)), depth)
                waiting.append(ids[url])
            return ids[url]

        waiting: deque[int] = deque()
        store.record_pages(table, [page_of(url, 0) for url in web.homes])
        while waiting:
            page = waiting.popleft()
            url = table.url(page)
            body = web.body(url)
            parsed = parse_page(body, url, want_text=True, without_navigation=True)
            anchors: dict[int, str] = {}
            for link, anchor in zip(parsed.urls, parsed.anchors, strict=True):
                target = web.page(link)
                if target in (None, url) or (target not in ids and len(ids) >= MOST_PAGES):
                    continue
                anchors.setdefault(page_of(str(target), int(table.depths[page]) + 1), anchor)
            targets = np.array(list(anchors), dtype=np.int32)
            visit = Visit(page, targets, list(anchors.values()), title=parsed.title)
            store.record(visit._replace(text=parsed.text, n_bytes=len(body)), table, commits=False)
            if page % 500 == 0:
                store.commit()
        store.end_run(time.time())


def starts_of(graph: LinkGraph, seeds: list[int], n: int) -> list[list[int]]:
    """Return the seeds, and random pages with three links or more that reach half as much."""
    starts, draw = [seeds], np.random.default_rng(5)
    n_reached, n_links = reachable(graph, seeds).sum(), np.diff(graph.indptr)
    for _ in range(200):
        page = int(draw.integers(graph.n_pages)) if len(starts) < n else -1
        if page >= 0 and n_links[page] >= 3 and reachable(graph, [page]).sum() > n_reached / 2:
            starts.append([page])
    return starts


def measure(store: Path, topics: Sequence[str], n_starts: int) -> dict[str, list[np.ndarray]]:
    """Return the recall at `MARKS` of each system on each topic, mean over the starts."""
    graph = read_graph(store)
    with Store.open(store, readonly=True) as opened:
        starts = starts_of(graph, opened.seeds(), n_starts)
    found: dict[str, list[np.ndarray]] = {}
    for topic in topics:
        values = page_values(store, graph, make_model(f"words:{topic}"))
        lab = ValueLab(graph, RecordedVisits(store, with_texts=True), values, starts)
        for name, is_behind in SYSTEMS:
            queue: Callable[[], HotQueue | None] = lambda: None  # noqa: E731
            if is_behind:
                queue = partial(HotQueue, Topic(topic))
            recall = lab.run(name, partial(make_ordering, name), queue).recall.mean(axis=0)
            title = f"{name}{' behind the hot queue' if is_behind else ''}"
            found.setdefault(title, []).append(recall)
            print(f"{store.stem}, {topic}, {title}: {recall.round(3).tolist()}", flush=True)
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("folder", type=Path)
    parser.add_argument("--warc", type=Path, help="the recorded crawl")
    parser.add_argument("--web", choices=TOPICS, help="only this one")
    parser.add_argument("--topic", help="only this one")
    parser.add_argument("--starts", type=int, default=3)
    options = parser.parse_args()
    options.folder.mkdir(parents=True, exist_ok=True)
    every: dict[str, list[np.ndarray]] = {}
    for name, topics in TOPICS.items():
        if options.web not in (None, name) or (name == "uci" and options.warc is None):
            continue
        store = options.folder / f"{name}.sqlite"
        if not store.exists():
            is_recorded = name == "uci"
            build(
                store,
                Recording(options.warc) if is_recorded else Packages(options.folder, PACKAGES),
            )
        chosen = [topic for topic in topics if options.topic in (None, topic)]
        for title, rows in measure(store, chosen, options.starts).items():
            every.setdefault(title, []).extend(rows)
    print(f"mean and worst over the topics after {', '.join(f'{mark:.0%}' for mark in MARKS)}:")
    for title, rows in every.items():
        table = np.array(rows)
        print(f"  {title}: {table.mean(axis=0).round(3)} {table.min(axis=0).round(3)}")


if __name__ == "__main__":
    main()
