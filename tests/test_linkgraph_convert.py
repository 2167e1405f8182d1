"""Link graphs as NetworkX, igraph and SciPy objects, and back again."""

import sys

import igraph
import networkx
import numpy as np
import pytest
from linkgraphs import facts
from scipy import sparse

from crawlprio.errors import GraphError
from crawlprio.graph.convert import (
    from_igraph,
    from_networkx,
    from_scipy,
    to_igraph,
    to_networkx,
    to_scipy,
)
from crawlprio.graph.linkgraph import LinkGraph

WEB = LinkGraph(
    np.array([0, 2, 3, 3, 5]),
    np.array([2, 1, 0, 2, 0]),
    np.array([0, 0, 1, 2]),
    ["http://a/", "http://a/2", "http://b/", "http://c/"],
    ["a", "b", "c"],
)
PLAIN = LinkGraph(WEB.indptr, np.array([2, 1, 0, 2, 0]), np.array([1, 0, 0, 4]))


def igraph_pair():
    return to_igraph, from_igraph


@pytest.fixture(params=["networkx", "igraph"])
def there_and_back(request):
    return igraph_pair() if request.param == "igraph" else (to_networkx, from_networkx)


@pytest.mark.parametrize("graph", [WEB, PLAIN], ids=["with URLs", "plain"])
def test_a_graph_survives_a_round_trip_with_rows_sites_and_urls(graph, there_and_back):
    there, back = there_and_back
    assert facts(back(there(graph))) == facts(graph)


def test_networkx_nodes_are_pages_with_url_and_host():
    made = to_networkx(WEB)
    assert isinstance(made, networkx.DiGraph)
    assert list(made.nodes(data=True))[3] == (3, {"url": "http://c/", "site": "c"})
    assert list(made.edges) == [(0, 2), (0, 1), (1, 0), (3, 2), (3, 0)]
    assert list(to_networkx(PLAIN).nodes(data=True))[3] == (3, {"site": 4})


def test_igraph_vertices_are_pages_with_url_and_host():
    to_igraph, _ = igraph_pair()
    made = to_igraph(WEB)
    assert made.is_directed()
    assert made.vs[3].attributes() == {"url": "http://c/", "site": "c"}
    assert made.get_edgelist() == [(0, 2), (0, 1), (1, 0), (3, 2), (3, 0)]


def test_networkx_text_nodes_are_urls_on_their_hosts():
    given = networkx.MultiDiGraph()
    given.add_edges_from([("http://x:80/1", "http://y/"), ("http://y/", "http://X/2")] * 2)
    graph = from_networkx(given)
    assert facts(graph) == [
        [[1], [2], []],
        [0, 1, 0],
        ["http://x:80/1", "http://y/", "http://X/2"],
        ["x", "y"],
    ]


def test_igraph_names_are_urls_on_their_hosts():
    given = igraph.Graph.TupleList([("http://x/", "http://y/"), ("http://y/", "x")], directed=True)
    assert facts(from_igraph(given)) == [
        [[1], [2], []],
        [0, 1, 2],
        ["http://x/", "http://y/", "x"],
        ["x", "y", ""],
    ]


def test_undirected_graphs_are_refused():
    with pytest.raises(GraphError, match=r"undirected; give graph\.to_directed\(\)"):
        from_networkx(networkx.Graph([(0, 1)]))
    with pytest.raises(GraphError, match=r"undirected; give graph\.as_directed\(\)"):
        from_igraph(igraph.Graph([(0, 1)]))


@pytest.mark.parametrize(
    ("attributes", "complaint"),
    [
        ({"url": "http://a/"}, "node 'b' has no url but others have one"),
        ({"site": 3}, "node 'b' has no site but others have one"),
    ],
)
def test_an_attribute_of_only_some_nodes_is_refused(attributes, complaint):
    given = networkx.DiGraph([("a", "b")])
    given.nodes["a"].update(attributes)
    with pytest.raises(GraphError, match=f"^NetworkX graph: {complaint}"):
        from_networkx(given)


@pytest.mark.parametrize("site", [-1, 2**31, 0.5, None, float("nan")])
def test_a_site_that_is_neither_host_nor_id_is_refused(site):
    given = networkx.DiGraph()
    given.add_node("a", site=0)
    given.add_node("b", site=site)
    with pytest.raises(GraphError, match=r"node .b. has (the site|no site)"):
        from_networkx(given)


def test_a_missing_package_is_named(monkeypatch):
    for package, convert in (("networkx", to_networkx), ("igraph", to_igraph)):
        monkeypatch.setitem(sys.modules, package, None)
        with pytest.raises(GraphError, match=f"{package}, which is not installed; run `pip"):
            convert(WEB)


def test_a_scipy_matrix_has_a_one_per_link_and_shares_them():
    matrix = to_scipy(WEB)
    dense = np.zeros((4, 4), dtype=np.int8)
    for page in range(4):
        dense[page, WEB.out_links(page)] = 1
    assert matrix.toarray().tolist() == dense.tolist()
    assert np.shares_memory(matrix.indices, WEB.indices)


def test_a_scipy_matrix_of_any_form_becomes_a_graph():
    dense = np.array([[0, 2.5, 0], [0, 0, 0], [-1, 0, 7]])
    for form in (sparse.csr_array, sparse.csc_matrix, sparse.coo_array, sparse.lil_matrix):
        graph = from_scipy(form(dense), site=np.array([0, 1, 0]), urls=["a", "b", "c"])
        assert facts(graph) == [[[1], [], [0]], [0, 1, 0], ["a", "b", "c"], None]
        assert graph.n_dropped == 1
    assert facts(from_scipy(to_scipy(PLAIN), site=PLAIN.site)) == facts(PLAIN)


@pytest.mark.parametrize("matrix", [np.eye(2), sparse.csr_array((2, 3)), "text"])
def test_only_square_sparse_matrices_are_accepted(matrix):
    with pytest.raises(GraphError, match="it must be sparse and square"):
        from_scipy(matrix)
