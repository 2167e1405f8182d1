"""Synthetic webs: their exact promises, and statistics like those of real webs."""

from pathlib import Path

import numpy as np
import pytest
from examples import examples
from hypothesis import given, settings
from hypothesis import strategies as st

from crawlprio.errors import GraphError
from crawlprio.graph import synthetic as models
from crawlprio.graph.linkgraph import LinkGraph
from crawlprio.graph.synthetic import home_pages, synthetic_web, twin
from crawlprio.measure.crawl_order import reachable
from crawlprio.plugins.papers.distributions import fit_power_law
from crawlprio.ranking.pagerank import pagerank
from crawlprio.store.graph_files import read_graph

REAL = Path(__file__).parents[2] / "shared" / "data"


@pytest.fixture(scope="module")
def web():
    return synthetic_web(200_000, 3_000, seed=7)


def share_between(graph):
    sources = np.repeat(graph.site, np.diff(graph.indptr))
    return float((sources != graph.site[graph.indices]).mean())


def same(one, other):
    return (
        np.array_equal(one.indptr, other.indptr)
        and np.array_equal(one.indices, other.indices)
        and np.array_equal(one.site, other.site)
    )


@given(
    sizes=st.lists(st.integers(1, 40), min_size=1, max_size=12),
    links_per_page=st.floats(2, 30),
    share=st.floats(0, 0.9),
    dangling=st.floats(0, 0.9),
    seed=st.integers(0, 2**31),
)
@settings(deadline=None, max_examples=examples(60))
def test_rows_are_distinct_and_no_page_links_to_itself(
    sizes, links_per_page, share, dangling, seed
):
    web = synthetic_web(
        sum(sizes),
        len(sizes),
        links_per_page=links_per_page,
        share_between_sites=share,
        dangling=dangling,
        max_pages_per_site=40,
        seed=seed,
    )
    assert web.n_pages == sum(sizes)
    assert web.n_sites == len(sizes)
    for page in range(web.n_pages):
        row = web.out_links(page).tolist()
        assert len(set(row)) == len(row)
        assert page not in row


@given(st.integers(1, 200), st.integers(1, 20), st.integers(0, 1000))
@settings(deadline=None, max_examples=examples(40))
def test_every_page_is_reachable_from_the_home_page_of_its_site(n_pages, n_sites, seed):
    web = synthetic_web(max(n_pages, n_sites), n_sites, links_per_page=2.0, seed=seed)
    for home in home_pages(web).tolist():
        on_site = web.site == web.site[home]
        kept = on_site[np.repeat(np.arange(web.n_pages), np.diff(web.indptr))]
        inner = kept & on_site[web.indices]
        counts = np.concatenate(([0], np.cumsum(inner)))
        alone = LinkGraph(counts[web.indptr], web.indices[inner], web.site)
        assert reachable(alone, [home]).tolist() == on_site.tolist()


def test_the_same_arguments_give_the_same_web_and_another_seed_another():
    one = synthetic_web(20_000, 300, seed=3)
    assert same(one, synthetic_web(20_000, 300, seed=3))
    assert not same(one, synthetic_web(20_000, 300, seed=4))
    assert same(twin(one, 5), twin(one, 5))
    assert not same(twin(one, 5), twin(one, 6))


def test_degrees_site_sizes_and_pagerank_follow_power_laws(web):
    in_degrees = np.bincount(web.indices, minlength=web.n_pages)
    in_degree = fit_power_law(in_degrees)
    assert 2.0 < in_degree.exponent < 2.4
    assert in_degree.distance < 0.02
    assert in_degree.n_tail > 1_000
    assert in_degrees.max() > 2_000
    out_degree = fit_power_law(np.diff(web.indptr))
    assert 2.4 < out_degree.exponent < 3.6
    sizes = fit_power_law(np.bincount(web.site))
    assert 1.65 < sizes.exponent < 1.85
    ranks = pagerank(web.indptr, web.indices)
    rank = fit_power_law(np.floor(10 * web.n_pages * ranks).astype(np.int64))
    assert 1.9 < rank.exponent < 2.5
    shares = np.cumsum(np.sort(ranks)[::-1])
    assert 0.35 < shares[web.n_pages // 20] < 0.6
    assert 0.6 < shares[3 * web.n_pages // 10] < 0.85


def test_no_site_has_more_pages_than_allowed_and_the_first_are_home_pages():
    web = synthetic_web(60_000, 500, max_pages_per_site=400)
    sizes = np.bincount(web.site)
    assert sizes.max() == 400
    assert sizes.min() >= 1
    assert home_pages(web).tolist() == (np.cumsum(sizes) - sizes).tolist()
    assert np.all(np.diff(web.indptr)[home_pages(web)] > 0)


def test_sites_link_along_the_links_of_their_hosts():
    # Hosts 1 and 3 have the most links: 3 <-> 1, 3 -> 4, 1 -> 0. Host 2 is left out.
    hosts = LinkGraph(np.array([0, 0, 2, 2, 5, 5]), np.array([3, 0, 1, 4, 0]))
    web = synthetic_web(4_000, 4, hosts=hosts, seed=1)
    sizes = np.bincount(web.site)
    by_size = np.argsort(-sizes, kind="stable").tolist()
    site_of = dict(zip([3, 1, 0, 4], by_size, strict=True))
    allowed = {(3, 1), (3, 4), (3, 0), (1, 3), (1, 0), (0, 1), (0, 3), (4, 3)}
    sources = np.repeat(web.site, np.diff(web.indptr))
    pairs = set(zip(sources.tolist(), web.site[web.indices].tolist(), strict=True))
    found = {pair for pair in pairs if pair[0] != pair[1]}
    assert sorted(found) == sorted((site_of[a], site_of[b]) for a, b in allowed)


def test_a_twin_has_the_sizes_links_and_shares_of_its_original(web):
    other = twin(web, seed=1)
    assert np.bincount(other.site).tolist() == np.bincount(web.site).tolist()
    assert other.n_links == pytest.approx(web.n_links, rel=0.03)
    assert share_between(other) == pytest.approx(share_between(web), abs=0.02)
    assert (np.diff(other.indptr) == 0).mean() == pytest.approx(
        float((np.diff(web.indptr) == 0).mean()), abs=0.02
    )


@pytest.mark.skipif(not (REAL / "uci-ics.npz").exists(), reason="needs the graph of a real crawl")
def test_crawls_of_the_twin_of_a_real_web_gather_pagerank_like_crawls_of_it():
    from crawlprio.measure.crawl_order import cumulative_pagerank
    from crawlprio.orderings import make_ordering
    from crawlprio.simulator.timed import crawl_order

    real = read_graph(REAL / "uci-ics.npz")
    curves = {}
    for graph in (real, twin(real, seed=0)):
        ranks = pagerank(graph.indptr, graph.indices)
        largest = int(np.argmax(np.bincount(graph.site)))
        seed = real.find("http://www.ics.uci.edu/") if graph is real else home_pages(graph)[largest]
        is_reached = reachable(graph, [seed])
        for name in ("breadth-first", "backlink-count", "opic", "random", "omniscient"):
            order = crawl_order(graph, [seed], make_ordering(name, {}), truth=ranks)
            shares = cumulative_pagerank(order, ranks, is_reached)
            places = (np.linspace(0.01, 1, 100) * len(shares)).astype(int) - 1
            curves.setdefault(name, []).append(shares[places])
    for name, (of_real, of_twin) in curves.items():
        assert np.abs(of_real - of_twin).max() < 0.25, name


@pytest.mark.parametrize(
    ("arguments", "complaint"),
    [
        ({"n_pages": 5, "n_sites": 6}, "a web of 5 pages on 6 sites is impossible"),
        ({"n_pages": 5, "n_sites": 0}, "a web of 5 pages on 0 sites is impossible"),
        ({"n_pages": 90, "n_sites": 2, "max_pages_per_site": 40}, "90 pages do not fit 2 sites"),
        ({"n_pages": 9, "n_sites": 2, "links_per_page": 1.5}, "links_per_page is 1.5"),
        ({"n_pages": 9, "n_sites": 2, "share_between_sites": 1.0}, "share_between_sites is 1"),
        ({"n_pages": 9, "n_sites": 2, "dangling": 1.0}, "dangling is 1"),
        ({"n_pages": 9, "n_sites": 2, "seed": -1}, "seed is -1"),
    ],
)
def test_an_impossible_web_is_refused(arguments, complaint):
    with pytest.raises(GraphError, match=complaint):
        synthetic_web(**arguments)


def test_the_trial_on_some_sites_predicts_the_links_of_all(monkeypatch):
    monkeypatch.setattr(models, "TRIAL_PAGES", 10_000)
    sampled = synthetic_web(100_000, 4_000)
    assert sampled.n_links == pytest.approx(1_000_000, rel=0.1)
