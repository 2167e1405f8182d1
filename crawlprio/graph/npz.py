"""Link graphs in NumPy's .npz format, with the pages' URLs in a gzip file beside it."""

from __future__ import annotations

import gzip
import re
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from crawlprio.errors import GraphError
from crawlprio.graph.linkgraph import LinkGraph
from crawlprio.graph.unpacking import BROKEN_GZIP, read_arrays, unpack_gzip
from crawlprio.graph.url_table import Urls
from crawlprio.outside.opening import open_file

if TYPE_CHECKING:
    from crawlprio.store.graph_files import Links

DEFLATED_BELOW = 64 * 2**20
"""Size of the arrays in bytes up to which `write_npz` deflates them by default."""

CHUNK = 2**20


def read_npz(path: Path, most: int | None = None) -> LinkGraph:
    """Read the arrays `indptr`, `indices` and, if present, `site`, and the file of URLs, if any.

    Row order is kept; self-links and duplicates are dropped and counted in `n_dropped`.

    `most`: maximum bytes to which each of the two files may unpack; by default `most_bytes`.

    Raises `GraphError` if the file is truncated, lacks an array, unpacks to more, or its arrays do
    not form a graph.
    """
    arrays, found = read_arrays(path, ("indptr", "indices", "site"), most)
    for name in ("indptr", "indices"):
        if name not in arrays:
            listed = ", ".join(sorted(found)) or "nothing"
            raise GraphError(f"{path} has {listed}; it must have indptr and indices.")
    urls = read_urls(urls_path(path), most)
    try:
        return LinkGraph.cleaned(
            arrays["indptr"], arrays["indices"], site=arrays.get("site"), urls=urls, in_place=True
        )
    except GraphError as error:
        raise GraphError(f"{path}: {error}") from error


def write_npz(graph: LinkGraph, path: str | Path, *, compressed: bool | None = None) -> None:
    """Write the graph to `path`, and its URLs, if any, to `NAME.urls.gz` beside it.

    The same graph always gives the same bytes. Site ids are written, but host names are not.

    `compressed`: whether to deflate the arrays, which takes most of the time; by default only if
    they are at most `DEFLATED_BELOW` bytes.

    Raises `GraphError` if a URL has a line break, or the file cannot be written.

    Takes no significant memory, except a copy of URLs that are not `Urls`.
    """
    path = Path(path)
    if compressed is None:
        n_bytes = graph.indptr.nbytes + graph.indices.nbytes + graph.site.nbytes
        compressed = n_bytes <= DEFLATED_BELOW
    try:
        with open_file(path, "wb") as file:
            save = np.savez_compressed if compressed else np.savez
            save(file, indptr=graph.indptr, indices=graph.indices, site=graph.site)
        if graph.urls is not None:
            urls = graph.urls if isinstance(graph.urls, Urls) else Urls(graph.urls)
            if urls.n_lines != len(urls):
                raise GraphError(f"{path}: a URL has a line break; URLs are stored one per line.")
            lines = urls.lines()
            with (
                open_file(urls_path(path), "wb") as raw,
                gzip.GzipFile("", "wb", 6, raw, 0) as file,
            ):
                for start in range(0, len(lines), CHUNK):
                    file.write(lines[start : start + CHUNK])
    except OSError as error:
        raise GraphError(f"{path} cannot be written: {error.strerror or error}.") from error


def write_links(links: Links, path: Path) -> None:
    """Write the graph of a store, with rows by page rather than by visit."""
    for _ in links.rows():
        pass
    write_npz(links.store.link_graph(), path)


def urls_path(path: Path) -> Path:
    """Return the path of the URLs of a graph file: `NAME.urls.gz` beside `NAME.npz`."""
    return path.with_name(path.stem + ".urls.gz")


def read_urls(path: Path, most: int | None = None) -> Urls | None:
    """Return the URLs in a gzipped file, one per line, or None if there is no file.

    `most` is the maximum number of bytes to which it may unpack.
    """
    if not path.exists():
        return None
    try:
        text = unpack_gzip(path, most, is_text=True)
    except (*BROKEN_GZIP, UnicodeDecodeError) as error:
        raise GraphError(
            f"{path} cannot be read as gzipped UTF-8 text ({error}); write it again or remove it."
        ) from error
    if b"\r" in text:
        text = bytearray(re.sub(rb"\r+(\n|$)", rb"\1", text))
    return Urls.from_lines(text)
