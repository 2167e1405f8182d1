"""Link graphs in NumPy's .npz format, with URLs in a gzip file beside it.

Packed files are read here with a limit on the size to which they may unpack.
"""

from __future__ import annotations

import codecs
import gzip
import math
import re
import tokenize
import zipfile
import zlib
from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from crawlprio.errors import GraphError
from crawlprio.graph.linkgraph import LinkGraph, Urls
from crawlprio.safe_files import is_missing, open_file

if TYPE_CHECKING:
    from crawlprio.store.graph_files import Links

GROWTH = 50
FREE_BYTES = 2**28
"""A file may unpack to `FREE_BYTES` or to `GROWTH` times its size, whichever is larger; texts
typically grow 5 times."""

CHUNK = 2**20
"""Bytes that are read or written at once."""


def most_bytes(path: Path, asked: int | None = None) -> int:
    """Return the maximum bytes to which a packed file may unpack: `asked`, or else the default."""
    return max(FREE_BYTES, GROWTH * path.stat().st_size) if asked is None else asked


def too_many(path: Path, most: int) -> GraphError:
    """Return the error for a file that unpacks to more."""
    return GraphError(
        f"{path} unpacks to more than {most} bytes, like a file made to fill memory; if you trust "
        "it, unpack it yourself or raise CRAWLPRIO_MAX_UNPACKED_BYTES."
    )


def unpack_gzip(path: Path, most: int | None = None, *, is_text: bool = False) -> bytearray:
    """Return the unpacked content of a gzip file, which must be UTF-8 if it `is_text`.

    GraphError if it unpacks to more than `most` bytes, by default `most_bytes`; `BROKEN_GZIP` or
    UnicodeDecodeError if it is truncated, corrupt or not text.
    """
    most = most_bytes(path, most)
    unpacked = bytearray()
    decoder = codecs.getincrementaldecoder("utf-8")()
    with open_file(path, "rb", follow=True) as raw, gzip.open(raw) as file:
        while chunk := file.read(CHUNK):
            if is_text:
                decoder.decode(chunk)
            unpacked += chunk
            if len(unpacked) > most:
                raise too_many(path, most)
    decoder.decode(b"", final=True)
    return unpacked


BROKEN_GZIP = (OSError, EOFError, zlib.error)
"""Exceptions raised for a truncated or corrupt gzip file."""

BROKEN_NPZ = (
    *(*BROKEN_GZIP, ValueError, KeyError, MemoryError, OverflowError, RuntimeError),
    zipfile.BadZipFile,
)
"""Exceptions that NumPy and zipfile raise for a truncated or corrupt file."""


def read_arrays(
    path: Path, names: Iterable[str], most: int | None = None
) -> tuple[dict[str, NDArray[Any]], list[str]]:
    """Return the arrays of these names that an .npz has, and the names of all that it has.

    GraphError if it is truncated or corrupt, or unpacks to more than `most` bytes.
    """
    try:
        with np.load(path, allow_pickle=False) as file:
            if not isinstance(file, np.lib.npyio.NpzFile):
                raise GraphError(f"{path} is one array; give an .npz, which has arrays by name.")
            _check_arrays(path, file, names, most)
            return {name: file[name] for name in names if name in file.files}, list(file.files)
    except BROKEN_NPZ as error:
        raise GraphError(f"{path} cannot be read as .npz ({error}); write it again.") from error


def _check_arrays(path: Path, npz: Any, names: Iterable[str], most: int | None) -> None:
    """Raise GraphError, before any is read, if the arrays of an .npz unpack to too much.

    NumPy allocates the size in an array's header, and zipfile trusts the size in its own
    directory and reads no further; so a header must not ask for more than the file holds.
    """
    most = most_bytes(path, most)
    members = {info.filename: info.file_size for info in npz.zip.infolist()}
    n_bytes = 0
    for name in names:
        if name not in npz.files:
            continue
        member = f"{name}.npy" if f"{name}.npy" in members else name
        n_bytes += members[member]
        if n_bytes > most:
            raise too_many(path, most)
        with npz.zip.open(member) as file:
            version = np.lib.format.read_magic(file)
            read = _HEADERS.get(version)
            if read is None:
                continue  # NumPy reports the error
            try:
                shape, _, kind = read(file)
            except (tokenize.TokenError, SyntaxError) as error:
                raise ValueError(f"the header of {name} is not one of an array") from error
        if math.prod(shape) * kind.itemsize > members[member]:
            raise GraphError(
                f"{path}: {name} declares shape {shape}, but the file has only "
                f"{members[member]} bytes of it; write it again."
            )


_HEADERS: dict[tuple[int, int], Any] = {
    (1, 0): np.lib.format.read_array_header_1_0,
    (2, 0): np.lib.format.read_array_header_2_0,
}

DEFLATED_BELOW = 64 * 2**20
"""Size of the arrays in bytes up to which `write_npz` deflates them by default."""


def read_npz(path: Path, most: int | None = None) -> LinkGraph:
    """Read the arrays `indptr`, `indices` and, if present, `site`, and the file of URLs, if any.

    Row order is kept; self-links and duplicates are dropped and counted in `n_dropped`. GraphError
    if the file is truncated, lacks an array, unpacks to more than `most` bytes, or its arrays do
    not form a graph.
    """
    arrays, found = read_arrays(path, ("indptr", "indices", "site", "format"), most)
    for name in ("indptr", "indices"):
        if name not in arrays:
            listed = ", ".join(sorted(found)) or "nothing"
            raise GraphError(f"{path} has {listed}; it must have indptr and indices.")
    # SciPy's: by columns, each link would be read backward.
    if "format" in arrays and arrays["format"].tobytes().replace(b"\0", b"") != b"csr":
        raise GraphError(f"{path} is a matrix of another format than csr; save its `tocsr()`.")
    urls = read_urls(urls_path(path), most)
    try:
        return LinkGraph.cleaned(
            arrays["indptr"], arrays["indices"], site=arrays.get("site"), urls=urls, in_place=True
        )
    except GraphError as error:
        raise GraphError(f"{path}: {error}") from error


def write_npz(graph: LinkGraph, path: str | Path, *, compressed: bool | None = None) -> None:
    """Write the graph to `path`, and its URLs, if any, to `NAME.urls.gz` beside it.

    The same graph always gives the same bytes. Site ids are written, but host names are not. Arrays
    of at most `DEFLATED_BELOW` bytes are deflated by default, which takes most of the time.
    GraphError if a URL has a line break, or the file cannot be written. Takes no significant
    memory, except a copy of URLs that are not `Urls`.
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
    """Return the URLs in a gzipped file, one per line, or None if there is no file."""
    if is_missing(path):
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
