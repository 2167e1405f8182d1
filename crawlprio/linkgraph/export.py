"""Exports the links of a crawl store to files that other programs read."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

from crawlprio.errors import GraphError, StoreError
from crawlprio.linkgraph.formats import FORMATS, SEEDS, WRITTEN, suffix_of
from crawlprio.pages import PageTable
from crawlprio.store import Store

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
    everything is written, and left alone on failure. Memory holds the page table and the links of
    one page at a time; for `.npz`, all links as ids.

    Parameters
    ----------
    store
        A crawl may be writing to it: the export is a snapshot.
    track
        Takes the rows, one per visited page, and returns them unchanged: a progress bar.
    for_spreadsheets
        In `.csv`, put an apostrophe before texts that a spreadsheet would take for formulas;
        `read_graph` does not remove them again.

    Raises
    ------
    StoreError
        The extension is unknown, pyarrow is missing for `.parquet`, the file cannot be written, or
        the store is damaged.
    """
    path = Path(path)
    suffix = suffix_of(path)
    if suffix not in WRITTEN:
        known = ", ".join(WRITTEN)
        raise StoreError(f"{path}: the extension names the format and must be one of {known}.")
    if path.exists() and path.samefile(store.path):
        raise StoreError(f"{path}: this is the crawl store itself; name another file.")
    if not path.parent.is_dir():
        raise StoreError(f"{path}: there is no folder {path.parent}; create it first.")
    if path.is_dir():
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
    """The links of a store, as a format writes them, counted as they are read.

    Attributes
    ----------
    store, for_spreadsheets
        As for `export_links`.
    """

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
        path.with_name(f"{path.name[: -len(suffix)]}{SEEDS}").write_text(text, encoding="utf-8")
