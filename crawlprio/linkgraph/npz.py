"""Link graphs in NumPy's .npz format, with the pages' URLs in a gzip file beside it.

Nothing here knows other formats.
"""

from __future__ import annotations

import gzip
import re
import zipfile
import zlib
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from crawlprio.errors import GraphError
from crawlprio.linkgraph.graph import LinkGraph
from crawlprio.linkgraph.unpacking import BROKEN_GZIP, check_arrays, unpack_gzip
from crawlprio.linkgraph.urls import Urls

BROKEN_FILE = (
    OSError,
    EOFError,
    ValueError,
    KeyError,
    MemoryError,
    OverflowError,
    RuntimeError,
    zipfile.BadZipFile,
    zlib.error,
)
"""What NumPy and zipfile raise for a file cut short or altered."""

DEFLATED_BELOW = 64 * 2**20
"""Bytes of arrays up to which `write_npz` deflates them, unless told."""

CHUNK = 2**20


def read_npz(path: Path, most: int | None = None) -> LinkGraph:
    """Read `indptr`, `indices` and, where there is one, `site`; and the URLs, where there are any.

    Rows keep their order; self-links and duplicates are left out and counted in `n_dropped`.

    Parameters
    ----------
    most
        bytes that the file, and that of the URLs, may unpack to; by default `most_bytes`.

    Raises
    ------
    GraphError
        When the file is cut short, lacks an array, its arrays are not a graph, or it unpacks to
        more.
    """
    arrays: dict[str, NDArray[Any]] = {}
    try:
        with np.load(path, allow_pickle=False) as archive:
            if not isinstance(archive, np.lib.npyio.NpzFile):
                raise GraphError(f"{path} is one array; an .npz with indptr and indices is needed.")
            found = archive.files
            check_arrays(path, archive, ("indptr", "indices", "site"), most)
            for name in ("indptr", "indices", "site"):
                if name in found:
                    arrays[name] = archive[name]
    except BROKEN_FILE as error:
        raise GraphError(f"{path} cannot be read as .npz ({error}); write it again.") from error
    for name in ("indptr", "indices"):
        if name not in arrays:
            listed = ", ".join(sorted(found)) or "nothing"
            raise GraphError(f"{path} holds {listed}; it must hold indptr and indices.")
    urls = read_urls(urls_path(path), most)
    try:
        return LinkGraph.cleaned(
            arrays["indptr"], arrays["indices"], site=arrays.get("site"), urls=urls, in_place=True
        )
    except GraphError as error:
        raise GraphError(f"{path}: {error}") from error


def write_npz(graph: LinkGraph, path: str | Path, *, compressed: bool | None = None) -> None:
    """Write the graph to `path`, and its URLs, if it has any, to `NAME.urls.gz` beside it.

    The same graph always gives the same bytes. Host names are not kept: site ids are.

    Parameters
    ----------
    compressed
        Whether arrays are deflated, which takes most of the time of writing; unless said, those of
        up to `DEFLATED_BELOW` bytes are.

    Raises
    ------
    GraphError
        When a URL holds a line break, or the file cannot be written.

    Notes
    -----
    Needs no memory to speak of beside the graph, but a copy of URLs that are not `Urls`.
    """
    path = Path(path)
    if compressed is None:
        n_bytes = graph.indptr.nbytes + graph.indices.nbytes + graph.site.nbytes
        compressed = n_bytes <= DEFLATED_BELOW
    try:
        with path.open("wb") as file:
            save = np.savez_compressed if compressed else np.savez
            save(file, indptr=graph.indptr, indices=graph.indices, site=graph.site)
        if graph.urls is not None:
            urls = graph.urls if isinstance(graph.urls, Urls) else Urls(graph.urls)
            if urls.n_lines != len(urls):
                raise GraphError(f"{path}: a URL holds a line break; URLs are kept one a line.")
            lines = urls.lines()
            with urls_path(path).open("wb") as raw, gzip.GzipFile("", "wb", 6, raw, 0) as file:
                for start in range(0, len(lines), CHUNK):
                    file.write(lines[start : start + CHUNK])
    except OSError as error:
        raise GraphError(f"{path} cannot be written: {error.strerror or error}.") from error


def urls_path(path: Path) -> Path:
    """Return where the URLs of a graph file lie: `NAME.urls.gz` beside `NAME.npz`."""
    return path.with_name(path.stem + ".urls.gz")


def read_urls(path: Path, most: int | None = None) -> Urls | None:
    """Return the URLs of such a file, one a line, or None when there is no file.

    `most` is how many bytes it may unpack to.
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
