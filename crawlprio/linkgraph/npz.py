"""Link graphs in NumPy's .npz format, with the pages' URLs in a gzip file beside it.

Nothing here knows other formats.
"""

from __future__ import annotations

import gzip
import zipfile
import zlib
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from crawlprio.errors import GraphError
from crawlprio.linkgraph.graph import LinkGraph

BROKEN_FILE = (OSError, EOFError, ValueError, KeyError, zipfile.BadZipFile, zlib.error)
"""What NumPy and zipfile raise for a file cut short or altered."""


def read_npz(path: Path) -> LinkGraph:
    """Read `indptr`, `indices` and, where there is one, `site`; and the URLs, where there are any.

    Rows keep their order; self-links and duplicates are left out and counted in `n_dropped`.

    Raises
    ------
    GraphError
        When the file is cut short, lacks an array, or its arrays are not a graph.
    """
    arrays: dict[str, NDArray[Any]] = {}
    try:
        with np.load(path, allow_pickle=False) as archive:
            if not isinstance(archive, np.lib.npyio.NpzFile):
                raise GraphError(f"{path} is one array; an .npz with indptr and indices is needed.")
            found = archive.files
            for name in ("indptr", "indices", "site"):
                if name in found:
                    arrays[name] = archive[name]
    except BROKEN_FILE as error:
        raise GraphError(f"{path} cannot be read as .npz ({error}); write it anew.") from error
    for name in ("indptr", "indices"):
        if name not in arrays:
            listed = ", ".join(sorted(found)) or "nothing"
            raise GraphError(f"{path} holds {listed}; it must hold indptr and indices.")
    urls = read_urls(urls_path(path))
    try:
        return LinkGraph.cleaned(
            arrays["indptr"], arrays["indices"], site=arrays.get("site"), urls=urls
        )
    except GraphError as error:
        raise GraphError(f"{path}: {error}") from error


def write_npz(graph: LinkGraph, path: str | Path) -> None:
    """Write the graph to `path`, and its URLs, if it has any, to `NAME.urls.gz` beside it.

    The same graph always gives the same `.urls.gz`. Host names are not kept: site ids are.

    Raises
    ------
    GraphError
        When a URL holds a line break, or the file cannot be written.
    """
    path = Path(path)
    try:
        with path.open("wb") as file:
            np.savez_compressed(file, indptr=graph.indptr, indices=graph.indices, site=graph.site)
        if graph.urls is not None:
            text = "\n".join(graph.urls)
            if graph.n_pages and text.count("\n") != graph.n_pages - 1:
                raise GraphError(f"{path}: a URL holds a line break; URLs are kept one a line.")
            with urls_path(path).open("wb") as raw, gzip.GzipFile("", "wb", 6, raw, 0) as file:
                file.write(text.encode() + b"\n" * bool(graph.n_pages))
    except OSError as error:
        raise GraphError(f"{path} cannot be written: {error.strerror or error}.") from error


def urls_path(path: Path) -> Path:
    """Return where the URLs of a graph file lie: `NAME.urls.gz` beside `NAME.npz`."""
    return path.with_name(path.stem + ".urls.gz")


def read_urls(path: Path) -> list[str] | None:
    """Return the URLs of such a file, one a line, or None when there is no file."""
    if not path.exists():
        return None
    try:
        text = gzip.decompress(path.read_bytes()).decode()
    except (OSError, EOFError, zlib.error, UnicodeDecodeError) as error:
        raise GraphError(
            f"{path} cannot be read as gzipped UTF-8 text ({error}); write it anew or remove it."
        ) from error
    lines = text.split("\n")
    if lines[-1] == "":
        lines.pop()
    return [line.rstrip("\r") for line in lines]
