"""Link graphs in memory, and their file formats."""

import gzip
import random

import numpy as np
import pytest
from linkgraphs import rows_of
from stores import record_visits, table, visit

from crawlprio.errors import GraphError
from crawlprio.graph.linkgraph import LinkGraph
from crawlprio.graph.npz import write_npz
from crawlprio.store.graph_files import read_graph

TRIANGLE = LinkGraph(np.array([0, 2, 3, 3]), np.array([2, 1, 0]))


def slow_cleaned(rows):
    """Rows without self-links and duplicates; the first of each stays, in order."""
    return [list(dict.fromkeys(t for t in row if t != page)) for page, row in enumerate(rows)]


def random_rows(seed, n_pages=40):
    print(f"seed {seed}")
    rng = random.Random(seed)
    return [[rng.randrange(n_pages) for _ in range(rng.randrange(12))] for _ in range(n_pages)]


def test_sites_are_counted_by_host_name_if_known():
    graph = LinkGraph(np.array([0, 0]), np.array([], dtype=int), np.array([1]), hosts=["a", "b"])
    assert graph.n_sites == 2


@pytest.mark.parametrize(
    ("indptr", "indices", "site", "complaint"),
    [
        ([], [], [], "indptr is empty"),
        ([0, 2, 1, 2], [0, 1], [], "indptr falls from 2 to 1 at page 1"),
        ([1, 2], [0, 0], [], "indptr runs from 1 to 2"),
        ([0, 3], [0, 0], [], "it must run from 0 to the number of links, 2"),
        ([0, 1, 1], [2], [], r"indices\[0\] is 2; give 0 or more, below 2"),
        ([0, 1, 1], [-1], [], r"indices\[0\] is -1"),
        ([0, 0, 0], [], [0], "site has 1 elements; it must have 2"),
        ([0, 0], [], [-1], r"site\[0\] is -1"),
        ([0.0, 1.0], [0], [], "indptr holds float64; it must hold integers"),
        ([[0, 1]], [0], [], "indptr has 2 dimensions"),
        ([0, 2**40], [0], [], "indptr runs from 0 to 1099511627776"),
    ],
)
def test_invalid_arrays_are_refused_with_the_position(indptr, indices, site, complaint):
    with pytest.raises(GraphError, match=complaint):
        LinkGraph(
            np.array(indptr) if indptr else np.empty(0, dtype=np.int64),
            np.array(indices, dtype=np.int64),
            np.array(site, dtype=np.int64),
        )


def test_there_must_be_one_url_per_page_and_one_host_per_site():
    with pytest.raises(GraphError, match="there are 1 URLs for 3 pages"):
        LinkGraph(TRIANGLE.indptr, TRIANGLE.indices, urls=["http://a/"])
    with pytest.raises(GraphError, match="there are 1 hosts but a page is on site 1"):
        LinkGraph(TRIANGLE.indptr, TRIANGLE.indices, np.array([0, 1, 0]), hosts=["a"])


def test_a_url_with_a_line_break_is_not_written(tmp_path):
    graph = LinkGraph(np.array([0, 0]), np.array([], dtype=int), urls=["http://a/\nb"])
    with pytest.raises(GraphError, match="a URL has a line break"):
        write_npz(graph, tmp_path / "web.npz")


def test_a_broken_npz_is_refused_in_one_sentence(tmp_path):
    path = tmp_path / "web.npz"
    write_npz(TRIANGLE, path)
    whole = path.read_bytes()
    for length in (0, 1, 20, len(whole) // 2, len(whole) - 1):
        path.write_bytes(whole[:length])
        with pytest.raises(GraphError, match=r"web\.npz cannot be read as \.npz"):
            read_graph(path)
    np.savez(path, indices=[0])
    with pytest.raises(GraphError, match="has indices; it must have indptr and indices"):
        read_graph(path)
    np.savez(path, indptr=[0, 1], indices=[5])
    with pytest.raises(GraphError, match=r"web\.npz: indices\[0\] is 5"):
        read_graph(path)
    np.savez(path, indptr=np.array([None, 1]), indices=[5])
    with pytest.raises(GraphError, match="cannot be read"):
        read_graph(path)


def test_a_url_file_must_fit_and_be_complete(tmp_path):
    write_npz(TRIANGLE, tmp_path / "web.npz")
    urls = tmp_path / "web.urls.gz"
    urls.write_bytes(gzip.compress(b"http://a/\nhttp://b/\n"))
    with pytest.raises(GraphError, match="there are 2 URLs for 3 pages"):
        read_graph(tmp_path / "web.npz")
    urls.write_bytes(urls.read_bytes()[:-4])
    with pytest.raises(GraphError, match=r"web\.urls\.gz cannot be read as gzipped"):
        read_graph(tmp_path / "web.npz")


@pytest.mark.parametrize("suffix", [".txt", ".txt.gz"])
def test_an_edge_list_may_have_comments_blanks_gaps_and_any_line_ends(tmp_path, suffix):
    text = b"# FromNodeId\tToNodeId\n\n0 1\r\n  3\t0  # home\r3 5\n \t\n#0 4\n0\t 3\n0 1\n3 3"
    text = text.replace(b"\r3", b"\r\n3")
    path = tmp_path / f"web{suffix}"
    path.write_bytes(gzip.compress(text) if suffix.endswith("gz") else text)
    graph = read_graph(path)
    assert rows_of(graph) == [[1, 3], [], [], [0, 5], [], []]
    assert graph.n_dropped == 2


@pytest.mark.parametrize("seed", range(3))
def test_an_edge_list_in_any_order_gives_rows_in_the_order_of_its_lines(tmp_path, seed):
    links = [(s, t) for s, row in enumerate(random_rows(seed)) for t in row]
    random.Random(seed).shuffle(links)
    (tmp_path / "web.txt").write_text("".join(f"{s} {t}\n" for s, t in links))
    rows = [[] for _ in range(1 + max(max(link) for link in links))]
    for source, target in links:
        rows[source].append(target)
    graph = read_graph(tmp_path / "web.txt")
    assert rows_of(graph) == slow_cleaned(rows)
    assert graph.n_dropped == len(links) - graph.n_links > 0


def test_a_crawl_store_is_a_graph_whatever_its_name(tmp_path):
    pages, shown = table("http://a/", "http://b/"), visit(0, 1, anchors=["b"])
    graph = read_graph(record_visits(tmp_path / "crawl", pages, shown))
    assert rows_of(graph) == [[1], []]
    assert graph.find("http://b/") == 1
    assert graph.site.tolist() == [0, 1]
