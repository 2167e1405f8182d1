"""Links by page and by URL, in and out, all and between sites, compared with slow code."""

import random
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from linkgraphs import as_arrays

from crawlprio.errors import GraphError
from crawlprio.graph.convert import to_scipy
from crawlprio.graph.linkgraph import LinkGraph, Urls
from crawlprio.graph.pages import NO_PAGE
from crawlprio.store.graph_files import read_graph

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
