"""Link graphs of the package, made of plain rows of links and of the oracle's webs."""

import numpy as np

from crawlprio.errors import CrawlprioError
from crawlprio.graph.linkgraph import LinkGraph
from crawlprio.store.graph_files import read_graph


def as_arrays(rows):
    """Return `indptr` and `indices` of the pages whose links are given, in order."""
    indptr = np.cumsum([0, *map(len, rows)]).astype(np.int64)
    return indptr, np.array([target for row in rows for target in row], dtype=np.int32)


def graph_of(rows, site=None):
    """Return a graph of these rows, without duplicate links and links of pages to themselves."""
    return LinkGraph.cleaned(*as_arrays(rows), site=None if site is None else np.array(site))


def rows_of_web(web):
    """Return the links of each page of a web whose pages are numbered from 0."""
    return [web.links.get(page, []) for page in range(max(web.pages) + 1)]


def graph_of_web(web, **fields):
    """Return the graph of a web whose pages are numbered from 0, with its sites."""
    rows = rows_of_web(web)
    site = np.array([web.site.get(page, 0) for page in range(len(rows))])
    return LinkGraph.cleaned(*as_arrays(rows), site=site, **fields)


def rows_of(graph):
    """Return the links of each page of a graph."""
    return [graph.out_links(page).tolist() for page in range(graph.n_pages)]


def facts(graph):
    """Return everything in a graph as lists."""
    urls = None if graph.urls is None else list(graph.urls)
    hosts = None if graph.hosts is None else list(graph.hosts)
    return [rows_of(graph), graph.site.tolist(), urls, hosts]


def refusal_of(path, most_bytes=None):
    """Return the error for a file that cannot be read as a graph; of others, an empty text."""
    try:
        read_graph(path, most_bytes)
    except CrawlprioError as error:
        return str(error)
    return ""
