"""Opens a link graph in any of the known forms, told apart by name and first bytes.

What a form looks like inside is the business of its own module.
"""

from __future__ import annotations

from pathlib import Path

from crawlprio.errors import GraphError
from crawlprio.linkgraph.graph import LinkGraph
from crawlprio.linkgraph.npz import read_npz

SQLITE_MAGIC = b"SQLite format 3\0"
EDGE_LIST_SUFFIXES = (".txt", ".txt.gz")


def read_graph(path: str | Path) -> LinkGraph:
    """Read a link graph: crawl store, `.npz`, edge list `.txt` or `.txt.gz`, WebGraph `.graph`.

    A file that begins as SQLite does is a crawl store, whatever its name. The order of links in a
    row is that of the file; self-links are left out, and of duplicates all but the first; how many
    is `n_dropped`.

    Parameters
    ----------
    path
        The file; for `NAME.npz` and `NAME.graph`, URLs are taken from `NAME.urls.gz` beside it, if
        there is one; `NAME.graph` needs `NAME.properties` beside it.

    Raises
    ------
    GraphError
        When there is no such file, its form is not known, or it is broken.
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
    name = path.name.lower()
    if magic == SQLITE_MAGIC:
        return _read_store(path)
    if name.endswith(".npz"):
        return read_npz(path)
    if name.endswith(EDGE_LIST_SUFFIXES):
        from crawlprio.linkgraph.edgelist import read_edge_list

        return read_edge_list(path)
    if name.endswith(".graph"):
        from crawlprio.linkgraph.webgraph import read_webgraph

        return read_webgraph(path)
    raise GraphError(
        f"{path} is not a graph of a known form; known are a crawl store (SQLite), .npz, "
        ".txt or .txt.gz (edge list) and .graph (WebGraph)."
    )


def _read_store(path: Path) -> LinkGraph:
    """Read the links that a crawl has recorded."""
    from crawlprio.store import Store

    with Store.open(path, readonly=True) as store:
        return store.link_graph()
