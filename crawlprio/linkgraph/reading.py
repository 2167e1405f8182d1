"""Opens a link graph in any of the known forms, told apart by name and first bytes.

What a form looks like inside is the business of its own module.
"""

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
"""By the ending of a name, the module of this package that reads the file, and its function."""

_PACKED = (".npz", ".txt", ".txt.gz", ".graph")


def read_graph(path: str | Path, most_bytes: int | None = None) -> LinkGraph:
    """Read a link graph from a crawl store or a file of any form that `scrapy links export` writes.

    The ending of the name is the form: `.npz`; `.txt` or `.txt.gz`, an edge list of ids; `.csv`,
    `.jsonl` and `.parquet`, tables of links by id or URL; `.graphml`; and `.graph`, which the
    WebGraph framework writes. A file that begins as SQLite does is a crawl store, whatever its
    name.

    The order of links in a row is that of the file; self-links are left out, and of duplicates all
    but the first; how many is `n_dropped`. Files that list links, not pages, do not have the pages
    that no link names. In tables of URLs pages are numbered in the order first named.

    Parameters
    ----------
    path
        The file; for `NAME.npz` and `NAME.graph`, URLs are taken from `NAME.urls.gz` beside it, if
        there is one; `NAME.graph` needs `NAME.properties` beside it.
    most_bytes
        Bytes that a packed file may unpack to; by default 256 MB, or 50 times its size.

    Raises
    ------
    GraphError
        When there is no such file, its form is not known, it is broken, it unpacks to more, or for
        `.parquet` pyarrow is not installed.
    StoreError
        When it is a crawl store that cannot be read.
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
            # Imported where needed: most programs read one form.
            found = import_module(f"crawlprio.linkgraph.{module}")
            read: Callable[..., LinkGraph] = getattr(found, function)
            return read(path, most_bytes) if suffix in _PACKED else read(path)
    raise GraphError(
        f"{path} is not a graph of a known form; known are a crawl store (SQLite), .npz, "
        ".txt or .txt.gz (edge list), .csv, .jsonl, .parquet, .graphml and .graph (WebGraph)."
    )


def _read_store(path: Path) -> LinkGraph:
    """Read the links that a crawl has recorded."""
    from crawlprio.store import Store

    with Store.open(path, readonly=True) as store:
        return store.link_graph()
