"""Opens a link graph in any supported format, recognised by file name and magic bytes."""

from __future__ import annotations

from collections.abc import Callable
from importlib import import_module
from pathlib import Path

from crawlprio.errors import GraphError
from crawlprio.linkgraph.graph import LinkGraph

SQLITE_MAGIC = b"SQLite format 3\0"

READERS = {
    ".npz": ("npz", "read_npz"),
    ".txt": ("edgelist", "read_edge_list"),
    ".txt.gz": ("edgelist", "read_edge_list"),
    ".graph": ("webgraph", "read_webgraph"),
    ".csv": ("tables", "read_csv"),
    ".jsonl": ("tables", "read_jsonl"),
    ".parquet": ("parquet", "read_parquet"),
    ".graphml": ("graphml", "read_graphml"),
}
"""For each file name suffix, the module of this package that reads it, and the function."""

_PACKED = (".npz", ".txt", ".txt.gz", ".graph")


def read_graph(path: str | Path, most_bytes: int | None = None) -> LinkGraph:
    """Read a link graph from a crawl store, or a file in any format of `scrapy links export`.

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
        with path.open("rb") as file:
            magic = file.read(len(SQLITE_MAGIC))
    except FileNotFoundError:
        raise GraphError(f"{path}: there is no such file; give a graph or a crawl store.") from None
    except OSError as error:
        raise GraphError(f"{path} cannot be read: {error.strerror or error}.") from error
    if magic == SQLITE_MAGIC:
        return _read_store(path)
    for suffix, (module, function) in READERS.items():
        if path.name.lower().endswith(suffix):
            # Imported on demand: most programs read one format.
            found = import_module(f"crawlprio.linkgraph.{module}")
            read: Callable[..., LinkGraph] = getattr(found, function)
            return read(path, most_bytes) if suffix in _PACKED else read(path)
    raise GraphError(
        f"{path} is not a graph in a known format; known are a crawl store (SQLite), .npz, "
        ".txt or .txt.gz (edge list), .csv, .jsonl, .parquet, .graphml and .graph (WebGraph)."
    )


def _read_store(path: Path) -> LinkGraph:
    """Read the link graph recorded in a crawl store."""
    from crawlprio.store import Store

    with Store.open(path, readonly=True) as store:
        return store.link_graph()
