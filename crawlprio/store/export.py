"""Exports the links of a crawl store to files that other programs read."""

from __future__ import annotations

import csv
import gzip
import json
import os
import re
import tempfile
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from xml.sax.saxutils import escape

from crawlprio.errors import GraphError, StoreError
from crawlprio.linkgraph import SEEDS, write_npz
from crawlprio.linkgraph.tables import as_text
from crawlprio.pages import PageTable
from crawlprio.store.store import Store

Row = tuple[int, list[int], list[str]]
Track = Callable[[Iterator[Row]], Iterable[Row]]

_NOT_IN_XML = re.compile("[\x00-\x08\x0b\x0c\x0e-\x1f\ufffe\uffff]")

_BATCH = 100_000
"""Links in one row group of a Parquet file."""


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
    suffix = next((s for s in _WRITERS if path.name.lower().endswith(s)), None)
    if suffix is None:
        known = ", ".join(_WRITERS)
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
                counts = _Counts(store, track, for_spreadsheets=for_spreadsheets)
                _WRITERS[suffix](counts, unfinished)
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
    return Exported(names, store.n_pages, counts.n_visited, counts.n_links)


class _Counts:
    """The rows of a store, counted as they are read."""

    def __init__(self, store: Store, track: Track, *, for_spreadsheets: bool) -> None:
        self.store = store
        self.for_spreadsheets = for_spreadsheets
        self.n_visited = self.n_links = 0
        self._track = track

    def rows(self) -> Iterator[Row]:
        for row in self._track(self.store.link_rows()):
            self.n_visited += 1
            self.n_links += len(row[1])
            yield row

    def links(self, pages: PageTable) -> Iterator[tuple[str, str, str]]:
        """Yield source URL, target URL and anchor text of each link."""
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


def _write_csv(counts: _Counts, path: Path) -> None:
    """Write a header and one record per link, as in RFC 4180."""
    with path.open("w", encoding="utf-8", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(("source", "target", "anchor"))
        links: Iterable[Iterable[str]] = counts.links(counts.store.load_pages())
        if counts.for_spreadsheets:
            links = (map(as_text, link) for link in links)
        writer.writerows(links)


def _write_jsonl(counts: _Counts, path: Path) -> None:
    """Write one object per link, one per line."""
    encode = json.JSONEncoder(ensure_ascii=False).encode
    with path.open("w", encoding="utf-8", newline="\n") as file:
        for source, target, anchor in counts.links(counts.store.load_pages()):
            file.write(encode({"source": source, "target": target, "anchor": anchor}) + "\n")


def _write_parquet(counts: _Counts, path: Path) -> None:
    """Write three columns of strings, in row groups."""
    try:
        # Imported by name so that type checkers do not need it.
        pyarrow, parquet = import_module("pyarrow"), import_module("pyarrow.parquet")
    except ImportError:
        raise StoreError(
            f"{path.name}: .parquet needs pyarrow, which is not installed; "
            "run `pip install pyarrow`, or choose .csv."
        ) from None
    names = ("source", "target", "anchor")
    schema = pyarrow.schema([(name, pyarrow.string()) for name in names])
    with parquet.ParquetWriter(path, schema) as writer:
        batch: list[tuple[str, str, str]] = []

        def flush() -> None:
            columns = [list(column) for column in zip(*batch, strict=True)] or [[], [], []]
            writer.write_table(pyarrow.table(columns, schema=schema))
            batch.clear()

        for link in counts.links(counts.store.load_pages()):
            batch.append(link)
            if len(batch) == _BATCH:
                flush()
        flush()


def _write_npz(counts: _Counts, path: Path) -> None:
    """Write the arrays, and the URLs in a file beside them."""
    for _ in counts.rows():
        pass
    write_npz(counts.store.link_graph(), path)


def _write_graphml(counts: _Counts, path: Path) -> None:
    """Write a directed graph whose nodes are page ids."""
    pages = counts.store.load_pages()
    with path.open("w", encoding="utf-8", newline="\n") as file:
        file.write(
            '<?xml version="1.0" encoding="UTF-8"?>\n'
            '<graphml xmlns="http://graphml.graphdrawing.org/xmlns">\n'
            '<key id="url" for="node" attr.name="url" attr.type="string"/>\n'
            '<key id="site" for="node" attr.name="site" attr.type="string"/>\n'
            '<key id="anchor" for="edge" attr.name="anchor" attr.type="string"/>\n'
            '<graph edgedefault="directed">\n'
        )
        for page, site in enumerate(pages.sites.tolist()):
            url, host = _xml(pages.url(page)), _xml(pages.host(site))
            file.write(
                f'<node id="{page}"><data key="url">{url}</data>'
                f'<data key="site">{host}</data></node>\n'
            )
        for page, targets, anchors in counts.rows():
            for target, anchor in zip(targets, anchors or [""] * len(targets), strict=True):
                text = f'<data key="anchor">{_xml(anchor)}</data>' if anchor else ""
                file.write(f'<edge source="{page}" target="{target}">{text}</edge>\n')
        file.write("</graph>\n</graphml>\n")


def _write_edge_list(counts: _Counts, path: Path) -> None:
    """Write the format of SNAP's data sets, which crawlprio and others read."""
    with _gzipped(path) as file:
        n_pages = counts.store.n_pages
        file.write(f"# Directed graph: links of a crawl of {n_pages} pages\n".encode())
        file.write(b"# FromNodeId\tToNodeId\n")
        for page, targets, _ in counts.rows():
            file.write("".join([f"{page}\t{target}\n" for target in targets]).encode())


def _xml(text: str) -> str:
    """Return text for an XML element, without the characters that XML 1.0 cannot hold."""
    return escape(_NOT_IN_XML.sub("\ufffd", text), {"\r": "&#13;"})


@contextmanager
def _gzipped(path: Path) -> Iterator[gzip.GzipFile]:
    """Open a gzip file that is byte-identical for identical content."""
    with path.open("wb") as raw, gzip.GzipFile("", "wb", 6, raw, 0) as file:
        yield file


_WRITERS: dict[str, Callable[[_Counts, Path], None]] = {
    ".csv": _write_csv,
    ".jsonl": _write_jsonl,
    ".parquet": _write_parquet,
    ".npz": _write_npz,
    ".graphml": _write_graphml,
    ".txt.gz": _write_edge_list,
}
