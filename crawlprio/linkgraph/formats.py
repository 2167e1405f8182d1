"""The file formats of link graphs, by suffix, and the reader that picks one.

A format is one module, which reads it and, where `export_links` offers it, writes it, and one row
of `FORMATS`.
"""

from __future__ import annotations

from importlib import import_module
from pathlib import Path
from typing import Any, NamedTuple

from crawlprio.errors import GraphError
from crawlprio.graph import LinkGraph

SQLITE_MAGIC = b"SQLite format 3\0"

SEEDS = ".seeds.txt"
"""Suffix of the file with the seeds of a crawl, beside the file with its links."""


class Format(NamedTuple):
    """A format: its module in this package, and what a file of it holds when written.

    `read` takes the path and the maximum size to which a packed file may unpack, and returns a
    `LinkGraph`. `write` takes the `Links` of a store and the path; "" for a format that is only
    read. The modules are imported on demand: most programs read one format.
    """

    module: str
    read: str
    write: str = ""
    holds: str = ""

    def function(self, name: str) -> Any:
        return getattr(import_module(f"crawlprio.linkgraph.{self.module}"), name)


FORMATS = {
    ".csv": Format("tables", "read_csv", "write_csv", "URLs and anchor text of each link"),
    ".jsonl": Format("tables", "read_jsonl", "write_jsonl", "the same"),
    ".parquet": Format("parquet", "read_parquet", "write_parquet", "the same"),
    ".npz": Format("npz", "read_npz", "write_links", "arrays; URLs in NAME.urls.gz beside it"),
    ".graphml": Format("graphml", "read_graphml", "write_graphml", "pages, links, anchor texts"),
    ".txt.gz": Format("edgelist", "read_edge_list", "write_edge_list", "page ids"),
    ".txt": Format("edgelist", "read_edge_list"),
    ".graph": Format("webgraph", "read_webgraph"),
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
    except OSError as error:
        raise GraphError(f"{path} cannot be read: {error.strerror or error}.") from error
    if is_crawl_store:
        from crawlprio.store import Store

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
    with path.open("rb") as file:
        return file.read(len(SQLITE_MAGIC)) == SQLITE_MAGIC
