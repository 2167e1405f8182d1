"""Conversion of link graphs to and from NetworkX, igraph and SciPy.

NetworkX and igraph are optional and imported on demand.
"""

from __future__ import annotations

from array import array
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from crawlprio.errors import GraphError
from crawlprio.extras import imported
from crawlprio.graph.linkgraph import MAX_PAGES, LinkGraph, gathered_rows, named_graph

if TYPE_CHECKING:
    from scipy.sparse import csr_array


def to_networkx(graph: LinkGraph) -> Any:
    """Return a `networkx.DiGraph` whose nodes are page ids, with edges in page order.

    Nodes have the attributes `site`, the host if known or else the site id, and `url`, if known.
    GraphError if NetworkX is not installed.
    """
    networkx = imported("networkx", "to_networkx", error=GraphError)
    made = networkx.DiGraph()
    made.add_nodes_from(range(graph.n_pages))
    for name, values in _attributes(graph).items():
        networkx.set_node_attributes(made, dict(enumerate(values)), name)
    sources, targets = _ends(graph)
    made.add_edges_from(zip(sources.tolist(), targets.tolist(), strict=True))
    return made


def from_networkx(graph: Any) -> LinkGraph:
    """Return the link graph of a directed NetworkX graph; page i is its i-th node.

    URLs and sites are the node attributes `url` and `site`; either all nodes have one or none.
    Without `url`, nodes that are strings other than numbers are used as URLs; without `site`, the
    site of a page is the host of its URL. A string as `site` is a host, a number a site id.
    GraphError if the graph is undirected, or its attributes are invalid.
    """
    if not graph.is_directed():
        raise GraphError("The NetworkX graph is undirected; give graph.to_directed().")
    nodes = list(graph)
    place = {node: page for page, node in enumerate(nodes)}
    indptr = np.zeros(len(nodes) + 1, dtype=np.int64)
    flat = array("i")
    for page, row in enumerate(graph.adj.values()):
        flat.extend([place[target] for target in row])
        indptr[page + 1] = len(flat)
    facts = [graph.nodes[node] for node in nodes]
    return named_graph(
        "NetworkX graph",
        indptr,
        np.array(flat, dtype=np.int32),
        nodes,
        [fact.get("url") for fact in facts],
        [fact.get("site") for fact in facts],
    )


def to_igraph(graph: LinkGraph) -> Any:
    """Return a directed `igraph.Graph` whose vertices are page ids, with edges in page order.

    Vertices have the attributes of `to_networkx`. GraphError if igraph is not installed.
    """
    igraph = imported("igraph", "to_igraph", error=GraphError)
    edges = np.stack(_ends(graph), axis=1)
    made = igraph.Graph(n=graph.n_pages, edges=edges, directed=True)
    for name, values in _attributes(graph).items():
        made.vs[name] = values
    return made


def from_igraph(graph: Any) -> LinkGraph:
    """Return the link graph of a directed igraph graph; page i is vertex i, rows by edge id.

    As `from_networkx`; without the attribute `url`, `name` is used, unless the names are numbers.
    """
    if not graph.is_directed():
        raise GraphError("The igraph graph is undirected; give graph.as_directed().")
    n_pages = graph.vcount()
    ends = np.array(graph.get_edgelist(), dtype=np.int32).reshape(-1, 2)
    sources, targets = np.ascontiguousarray(ends.T)
    rows = gathered_rows(sources, targets, n_pages)
    known = {name: graph.vs[name] for name in graph.vs.attributes()}
    none = [None] * n_pages
    return named_graph(
        "igraph graph",
        *rows,
        known.get("name", range(n_pages)),
        known.get("url", none),
        known.get("site", none),
    )


def to_scipy(graph: LinkGraph) -> csr_array[np.int8, tuple[int, int]]:
    """Return the adjacency matrix, int8: entry (i, j) is 1 if page i links to page j.

    Rows stay in page order, so indices are not sorted. With fewer than 2^31 links, they are shared
    with the graph rather than copied.
    """
    from scipy.sparse import csr_array

    ones = np.ones(graph.n_links, dtype=np.int8)
    size = (graph.n_pages, graph.n_pages)
    # SciPy copies the links unless both arrays have the same type.
    indptr = graph.indptr.astype(np.int32) if graph.n_links <= MAX_PAGES else graph.indptr
    return csr_array((ones, graph.indices, indptr), shape=size)


def from_scipy(
    matrix: Any,
    *,
    site: NDArray[Any] | None = None,
    urls: Sequence[str] | None = None,
    hosts: Sequence[str] | None = None,
) -> LinkGraph:
    """Return the link graph of a square sparse matrix or array: a link for each non-zero entry.

    For a matrix in compressed sparse row form, the stored order of each row is kept. GraphError if
    the matrix is not sparse and square.
    """
    from scipy.sparse import issparse

    shape: tuple[int, ...] = getattr(matrix, "shape", ())
    is_sparse: bool = issparse(matrix)
    if not is_sparse or len(shape) != 2 or shape[0] != shape[1]:
        raise GraphError(
            f"The matrix is {'' if is_sparse else 'not sparse, '}of shape {shape}; "
            "it must be sparse and square."
        )
    rows = matrix.tocsr()
    if (rows.data == 0).any():
        rows = rows.copy()
        rows.eliminate_zeros()
    return LinkGraph.cleaned(rows.indptr, rows.indices, site=site, urls=urls, hosts=hosts)


def _ends(graph: LinkGraph) -> tuple[NDArray[np.int32], NDArray[np.int32]]:
    """Return the source and the target of each link."""
    pages = np.arange(graph.n_pages, dtype=np.int32)
    return np.repeat(pages, np.diff(graph.indptr)), graph.indices


def _attributes(graph: LinkGraph) -> dict[str, list[Any]]:
    """Return the site of each page, and its URL if known, as node attributes."""
    sites = graph.site.tolist()
    hosts = graph.hosts
    found = {"site": sites if hosts is None else [hosts[site] for site in sites]}
    return found if graph.urls is None else found | {"url": list(graph.urls)}
