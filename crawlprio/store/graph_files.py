"""Link graphs in files: a reader for every format, and the export of a store's links.

A format is one module, which reads it and, where `export_links` offers it, writes it, and one row
of `FORMATS`.
"""

from __future__ import annotations

import os
import tempfile
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from functools import cached_property
from importlib import import_module
from pathlib import Path
from typing import Any, NamedTuple

from crawlprio.errors import GraphError, StoreError
from crawlprio.graph.linkgraph import LinkGraph
from crawlprio.graph.pages import PageTable
from crawlprio.plugins import ADDED, load
from crawlprio.safe_files import is_missing, open_file, real
from crawlprio.store import Store
from crawlprio.store.files import store_error

SQLITE_MAGIC = b"SQLite format 3\0"

SEEDS = ".seeds.txt"
"""Suffix of the file with the seeds of a crawl, beside the file with its links."""


class Format(NamedTuple):
    """A format: its module in `crawlprio.graph`, and what a file of it holds when written.

    A format that a plugin adds has no module here, and is read by what `load` imports.

    `read` takes the path and the maximum size to which a packed file may unpack, and returns a
    `LinkGraph`. `write` takes the `Links` of a store and the path; "" for a format that is only
    read. The modules are imported on demand: most programs read one format.
    """

    module: str
    read: str
    write: str = ""
    holds: str = ""

    def function(self, name: str) -> Any:
        if not self.module:
            return load("formats", name)
        return getattr(import_module(f"crawlprio.graph.{self.module}"), name)


FORMATS = {
    ".csv": Format("link_tables", "read_csv", "write_csv", "URLs and anchor text of each link"),
    ".jsonl": Format("link_tables", "read_jsonl", "write_jsonl", "the same"),
    ".parquet": Format("link_tables", "read_parquet", "write_parquet", "the same"),
    ".npz": Format("npz", "read_npz", "write_links", "arrays; URLs in NAME.urls.gz beside it"),
    ".graphml": Format("graphml", "read_graphml", "write_graphml", "pages, links, anchor texts"),
    ".txt.gz": Format("link_tables", "read_edge_list", "write_edge_list", "page ids"),
    ".txt": Format("link_tables", "read_edge_list"),
    **{suffix: Format("", suffix) for suffix in ADDED["formats"]},
}
"""The formats by suffix of the file name."""

WRITTEN = {suffix: found.holds for suffix, found in FORMATS.items() if found.write}
"""What a file of each format that `export_links` writes holds."""

GRAPH_FORMS = f"a crawl store (SQLite) or a link graph: {', '.join(FORMATS)}"
"""The kinds of file that `read_graph` reads, for messages."""


def suffix_of(path: Path) -> str:
    """Return the suffix in `FORMATS` that a file name ends in, or an empty string."""
    return next((suffix for suffix in FORMATS if path.name.lower().endswith(suffix)), "")


def read_graph(path: str | Path, most_bytes: int | None = None) -> LinkGraph:
    """Read a link graph from a crawl store, or a file in any format of `crawlprio links export`.

    The suffix gives the format: `.npz`; `.txt` or `.txt.gz`, an edge list of ids; `.csv`, `.jsonl`
    and `.parquet`, tables of links by id or URL; `.graphml`; and `.graph`, as written by the
    WebGraph framework. A file with the SQLite magic bytes is a crawl store, whatever its name.

    Links in a row are in file order. Self-links and all but the first of duplicates are dropped and
    counted in `n_dropped`. A file that lists links rather than pages has no pages without links. In
    tables of URLs, pages are numbered in the order of their first occurrence.

    Parameters
    ----------
    path
        The file; for `NAME.npz` and `NAME.graph`, URLs are read from `NAME.urls.gz` beside it, if
        present; `NAME.graph` needs `NAME.properties` beside it.
    most_bytes
        Maximum size to which a packed file may unpack; by default 256 MB or 50 times its size,
        whichever is larger.

    Raises
    ------
    GraphError
        If there is no such file, its format is unknown, it is broken or unpacks to more, or it is
        `.parquet` and pyarrow is not installed.
    StoreError
        If it is a crawl store that cannot be read.
    """
    path = Path(path)
    try:
        is_crawl_store = is_store(path)
    except FileNotFoundError:
        raise GraphError(f"{path}: there is no such file; give a graph or a crawl store.") from None
    except (OSError, ValueError) as error:
        raise GraphError(str(store_error(path, error))) from error
    if is_crawl_store:
        with Store.open(path, readonly=True) as store:
            return store.link_graph()
    suffix = suffix_of(path)
    if not suffix:
        raise GraphError(f"{path} is not a graph in a known format; give {GRAPH_FORMS}.")
    found = FORMATS[suffix]
    graph: LinkGraph = found.function(found.read)(path, most_bytes)
    return graph


def is_store(path: Path) -> bool:
    """Whether the file is a crawl store, or another SQLite database; OSError if unreadable."""
    with open_file(path, "rb", follow=True) as file:
        start: bytes = file.read(len(SQLITE_MAGIC))
    return start == SQLITE_MAGIC


Row = tuple[int, list[int], list[str]]
Track = Callable[[Iterator[Row]], Iterable[Row]]


@dataclass(frozen=True, slots=True)
class Exported:
    """What was written: `files`, the requested one first; and counts of pages and links."""

    files: tuple[Path, ...]
    n_pages: int
    n_visited: int
    n_links: int


def export_links(
    store: Store, path: str | Path, track: Track = iter, *, for_spreadsheets: bool = False
) -> Exported:
    """Write the links of the store to `path`, in the format that its extension names.

    `.csv`, `.jsonl`, `.parquet`: source URL, target URL and anchor text of each link. `.graphml`:
    pages with URL and site, links with anchor text. `.npz`: `indptr`, `indices`, `site`, with the
    URLs in `NAME.urls.gz` beside it. `.txt.gz`: page ids, two per line, under a `#` header.
    `NAME.seeds.txt` beside each has the seeds of the crawl. `read_graph` reads `.graphml` and
    `.npz` as the same graph, including pages without links, and the others as the same links.

    A page visited more than once has the links of its last visit. Sources come in the order of
    those visits (in `.npz`: of pages), their links in page order. `path` is replaced once
    everything is written, and left alone on failure. A crawl may be writing to the store: the
    export is a snapshot. Memory holds the page table and the links of one page at a time; for
    `.npz`, all links as ids.

    `track` takes the rows, one per visited page, and returns them unchanged: a progress bar.
    `for_spreadsheets`: in `.csv`, put an apostrophe before texts that a spreadsheet would take for
    formulas; `read_graph` does not remove them again.
    """
    path = Path(path)
    suffix = suffix_of(path)
    if suffix not in WRITTEN:
        known = ", ".join(WRITTEN)
        raise StoreError(f"{path}: the extension names the format and must be one of {known}.")
    if real(path) == real(store.path):
        raise StoreError(f"{path}: this is the crawl store itself; name another file.")
    if is_missing(path.parent):
        raise StoreError(f"{path}: there is no folder {path.parent}; create it first.")
    if os.path.isdir(path):
        raise StoreError(f"{path}: this is a folder; name a file.")
    try:
        with tempfile.TemporaryDirectory(prefix=".links-", dir=path.parent) as folder:
            unfinished = Path(folder, path.name)
            with store.snapshot():
                links = Links(store, track, for_spreadsheets=for_spreadsheets)
                FORMATS[suffix].function(FORMATS[suffix].write)(links, unfinished)
                _write_seeds(store, unfinished, suffix)
            # The requested file comes last: once it is there, so are the files beside it.
            files = sorted(Path(folder).iterdir(), key=lambda file: (file == unfinished, file.name))
            for file in files:
                os.replace(file, path.with_name(file.name))
    except GraphError as error:
        raise StoreError(str(error).replace(str(unfinished), str(path))) from None
    except OSError as error:
        raise StoreError(f"{path} cannot be written: {error.strerror or error}.") from error
    names = tuple(path.with_name(file.name) for file in reversed(files))
    return Exported(names, store.n_pages, links.n_visited, links.n_links)


class Links:
    """The links of a store, as a format writes them, counted as they are read."""

    def __init__(self, store: Store, track: Track, *, for_spreadsheets: bool) -> None:
        self.store = store
        self.for_spreadsheets = for_spreadsheets
        self.n_visited = self.n_links = 0
        self._track = track

    @cached_property
    def pages(self) -> PageTable:
        """URL and site of each page."""
        return self.store.load_pages()

    def rows(self) -> Iterator[Row]:
        """Yield each visited page with its targets and their anchor texts, or no anchor texts."""
        for row in self._track(self.store.link_rows()):
            self.n_visited += 1
            self.n_links += len(row[1])
            yield row

    def named(self) -> Iterator[tuple[str, str, str]]:
        """Yield source URL, target URL and anchor text of each link."""
        pages = self.pages
        for page, targets, anchors in self.rows():
            source = pages.url(page)
            for url, anchor in zip(
                pages.urls(targets), anchors or [""] * len(targets), strict=True
            ):
                yield source, url, anchor


def _write_seeds(store: Store, path: Path, suffix: str) -> None:
    """Write the seeds of the crawl, one per line: URLs, or page ids where links are only ids."""
    seeds = store.seeds()
    if seeds:
        lines = seeds if suffix == ".txt.gz" else [url for url, _ in store.read_urls(seeds)]
        text = "".join(f"{line}\n" for line in lines)
        seeds_path = path.with_name(f"{path.name[: -len(suffix)]}{SEEDS}")
        with open_file(seeds_path, "w", encoding="utf-8") as file:
            file.write(text)
