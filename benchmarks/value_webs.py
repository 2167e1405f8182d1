"""Real webs with texts, as crawl stores: Debian documentation, archived websites, a recorded crawl.

`value.py` builds them.
"""

from __future__ import annotations

import os
import time
from collections import deque
from collections.abc import Sequence
from pathlib import Path
from typing import Protocol
from urllib.parse import quote, unquote, urlsplit

import numpy as np
from archive_list import ARCHIVES, HOST
from archives import Tree, page_at, path_of
from webs import Library

from crawlprio.demo.recordings import WarcWeb
from crawlprio.graph.pages import PageTable, Visit
from crawlprio.store import Store
from crawlprio.web.html import parse_page
from crawlprio.web.urls import host_of

MOST_PAGES, LARGEST = 10_000, 500_000
"""Most pages of a web, and most bytes read of a page."""


class TextWeb(Protocol):
    """Pages with bodies, and the home pages from which a crawl of them starts."""

    homes: list[str]

    def page(self, url: str) -> str | None:
        """Return the URL of the page that a link means; None if there is none."""
        ...

    def body(self, url: str) -> bytes: ...


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
        parts = urlsplit(url)
        if not parts.netloc.endswith(".example"):
            return None
        return self._files.get(self._library.resolve(os.path.normpath(unquote(parts.path))))

    def body(self, url: str) -> bytes:
        return (self._library.root / self._paths[url][1:]).read_bytes()[:LARGEST]


class Repository:
    """An archived website of one site, as `archives.py` reads it."""

    def __init__(self, folder: Path, name: str) -> None:
        self._archive = archive = ARCHIVES[name]
        assert not archive.folders_are_sites
        self._tree = Tree(folder / "git" / archive.repository.replace("/", "+"), archive)
        self._paths: dict[str, str] = {}
        self.homes = [str(self.page(f"http://{HOST}/{home}")) for home in archive.homes]

    def page(self, url: str) -> str | None:
        address = path_of(url, self._archive)
        path = page_at(*address, self._tree.blobs) if address else ""
        if not path:
            return None
        found = f"http://{HOST}/{quote(path, errors='surrogateescape')}"
        self._paths[found] = path
        return found

    def body(self, url: str) -> bytes:
        return self._tree.read(self._paths[url])[:LARGEST]


class Recording:
    """A WARC file."""

    def __init__(self, path: Path, home: str) -> None:
        self._web = WarcWeb(path)
        self.homes = [self.page(home) or self._web.url(0)]

    def page(self, url: str) -> str | None:
        page = self._web.page(url)
        return None if page is None else self._web.url(page)

    def body(self, url: str) -> bytes:
        page = self._web.page(url)
        return b"" if page is None else self._web.response(page).body


def build(path: Path, web: TextWeb) -> None:
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
