"""Link graphs in memory, and their file formats."""

import gzip
import random
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from linkgraphs import as_arrays, rows_of
from stores import record_visits, table, visit

from crawlprio.errors import GraphError
from crawlprio.graph.convert import to_scipy
from crawlprio.graph.linkgraph import LinkGraph, Urls
from crawlprio.graph.npz import write_npz
from crawlprio.graph.pages import NO_PAGE
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
    np.savez(path, indptr=[0, 1, 1], indices=[1], format=b"csc")  # SciPy's, by columns
    with pytest.raises(GraphError, match="another format than csr"):
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


SEEDS = range(4)


def random_web(seed, n_pages=60):
    """A graph, and the same as lists: rows and site of each page."""
    print(f"seed {seed}")
    rng = random.Random(seed)
    others = [[page for page in range(n_pages) if page != own] for own in range(n_pages)]
    rows = [rng.sample(rest, rng.choice([0, 1, 3, 8])) for rest in others]
    site = [rng.randrange(5) for _ in range(n_pages)]
    urls = [f"http://site{site[page]}/{page}" for page in range(n_pages)]
    return LinkGraph(*as_arrays(rows), np.array(site), urls), rows, site


def sources(rows, page):
    return [source for source, row in enumerate(rows) if page in row]


@pytest.mark.parametrize("seed", SEEDS)
def test_links_are_available_in_both_directions_and_between_sites_only(seed):
    graph, rows, site = random_web(seed)
    for page in range(graph.n_pages):
        back = sources(rows, page)
        assert graph.out_links(page).tolist() == rows[page]
        assert graph.in_links(page).tolist() == back
        assert graph.out_links(page, between_sites=True).tolist() == [
            target for target in rows[page] if site[target] != site[page]
        ]
        assert graph.in_links(page, between_sites=True).tolist() == [
            source for source in back if site[source] != site[page]
        ]


@pytest.mark.parametrize("seed", SEEDS)
def test_the_graph_between_sites_has_all_pages_and_no_link_inside_a_site(seed):
    graph, rows, site = random_web(seed)
    between = graph.between_sites()
    assert [between.out_links(page).tolist() for page in range(graph.n_pages)] == [
        [target for target in row if site[target] != site[page]] for page, row in enumerate(rows)
    ]
    assert (between.site.tolist(), between.urls) == (site, graph.urls)


@pytest.mark.parametrize("page", [-1, 60])
def test_a_page_outside_the_graph_is_named(page):
    graph, _, _ = random_web(0)
    for ask in (graph.out_links, graph.in_links):
        with pytest.raises(GraphError, match=f"there is no page {page}; page ids are 0 to 59"):
            ask(page)


@settings(deadline=None)
@given(st.lists(st.text(max_size=6)), st.text(max_size=6))
def test_urls_in_bytes_are_found_and_listed_as_in_a_list(texts, other):
    urls = Urls(texts)
    assert len(urls) == len(texts)
    assert list(urls) == [urls[place] for place in range(len(texts))] == texts
    assert urls == texts
    assert urls != [*texts, "x"]
    assert urls[1:-1] == texts[1:-1]
    assert [urls.find(text) for text in texts] == [texts.index(text) for text in texts]
    assert urls.find(other) == (texts.index(other) if other in texts else NO_PAGE)
    assert (other in urls) == (other in texts)


def test_many_urls_with_a_common_prefix_are_told_apart():
    texts = [f"http://host.example/path/{number:b}" for number in range(20_000)]
    urls = Urls(texts)
    assert [urls.find(text) for text in texts] == list(range(20_000))
    assert [urls.find(text + "0" * 20) for text in texts[:100]] == [NO_PAGE] * 100
    assert list(urls) == texts


def test_urls_can_be_indexed_from_the_end_and_not_beyond_the_ends():
    urls = Urls(["a", "ü", "\udcff"])
    assert [urls[-1], urls[-2], urls[np.int32(0)]] == ["\udcff", "ü", "a"]
    for place in (3, -4):
        with pytest.raises(IndexError, match=f"there are 3 URLs, and none at index {place}"):
            urls[place]


UCI_ICS = Path(__file__).parents[2] / "shared" / "data" / "uci-ics.npz"


@pytest.mark.skipif(not UCI_ICS.exists(), reason="the recorded graph is not here")
def test_a_recorded_graph_takes_5_bytes_per_link_and_direction():
    graph = read_graph(UCI_ICS)
    expected = to_scipy(graph).T.tocsr()
    expected.sort_indices()
    assert graph.transposed[0].tolist() == expected.indptr.tolist()
    assert graph.transposed[1].tolist() == expected.indices.tolist()
    assert [graph.find(url) for url in graph.urls or ()] == list(range(graph.n_pages))
    for indptr, pages in ((graph.indptr, graph.indices), graph.transposed):
        assert (indptr.nbytes + pages.nbytes) / graph.n_links < 5
