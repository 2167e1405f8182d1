"""The crawl models of Cho et al., compared with their definitions worked out page by page."""

import random

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from linkgraphs import as_arrays
from oracles import evaluation as oracle

from crawlprio.errors import ConfigError, GraphError
from crawlprio.graph.linkgraph import LinkGraph
from crawlprio.measure.crawl_models import (
    BacklinksSeen,
    ModelCurve,
    PageRankSeen,
    RenewedEstimate,
    crawl_and_stop,
    crawl_and_stop_with_threshold,
    crawl_into_buffers,
    limited_buffer,
    pagerank_seen,
    top_threshold,
)
from crawlprio.ranking.pagerank import pagerank

IMPORTANCE = np.array([5.0, 1.0, 3.0, 3.0, 2.0])
ORDER = [4, 2, 0, 1, 3]


def graph_of(rows):
    return LinkGraph(*as_arrays([rows[page] for page in sorted(rows)]))


def random_web(rng, n):
    """Rows without self-links or duplicates; some pages have many more links than others."""
    rows = {}
    for page in range(n):
        targets = [min(rng.randrange(n), rng.randrange(n)) for _ in range(rng.randrange(6))]
        rows[page] = list(dict.fromkeys(t for t in targets if t != page))
    return rows


def as_dict(values, mask=None):
    return {p: float(v) for p, v in enumerate(values) if mask is None or mask[p]}


@pytest.mark.parametrize("seed", range(8))
def test_both_models_match_the_paper_on_random_crawls(seed):
    rng = random.Random(seed)
    importance = np.array([float(rng.randrange(rng.choice([3, 50]))) for _ in range(40)])
    mask = np.array([rng.random() < 0.7 for _ in range(40)])
    order = [int(p) for p in np.flatnonzero(mask)]
    rng.shuffle(order)
    order = order[: rng.randrange(1, len(order) + 1)]
    truth = as_dict(importance, mask)
    found = crawl_and_stop(order, importance, mask)
    assert found.performance == pytest.approx(
        [float(x) for x in oracle.crawl_and_stop(order, truth)]
    )
    bounds = [oracle.kth_highest(truth, k) for k in range(1, len(order) + 1)]
    assert found.random == pytest.approx([float(oracle.hot_share(truth, b)) for b in bounds])
    for threshold in sorted(set(truth.values())):
        found = crawl_and_stop_with_threshold(order, importance, threshold, mask)
        expected = oracle.crawl_and_stop_with_threshold(order, truth, threshold)
        assert found.performance == pytest.approx([float(x) for x in expected])


@pytest.mark.parametrize("seed", range(12))
def test_a_buffer_kept_by_backlinks_matches_the_slow_crawl(seed):
    rng = random.Random(seed)
    rows = random_web(rng, 40)
    order = rng.sample(range(40), rng.choice([25, 40]))
    capacities = [1, 2, 7, 20, 40]
    estimate = oracle.backlinks_seen(rows)
    expected = [oracle.buffer_after(order, size, estimate) for size in capacities]
    kept = crawl_into_buffers(np.array(order), 40, capacities, BacklinksSeen(graph_of(rows)))
    assert [k.tolist() for k in kept] == expected


@pytest.mark.parametrize(("seed", "every"), [(0, 1), (1, 3), (2, 7), (3, 30), (4, 100), (5, 2)])
def test_a_buffer_kept_by_pagerank_matches_the_slow_crawl(seed, every):
    rng = random.Random(seed)
    rows = random_web(rng, 24)
    order = rng.sample(range(24), 24)
    capacities = [2, 5, 12]
    estimate = oracle.pagerank_every(rows, every, 0.9)
    expected = [oracle.buffer_after(order, size, estimate) for size in capacities]
    found = PageRankSeen(graph_of(rows), every, damping=0.9)
    kept = crawl_into_buffers(np.array(order), 24, capacities, found)
    assert [k.tolist() for k in kept] == expected


@pytest.mark.parametrize("every", [1, 4, 50])
def test_an_estimate_is_recomputed_every_so_many_fetches(every):
    order = random.Random(every).sample(range(30), 30)

    def belief(n_fetched, page):
        """An estimate that rises and falls arbitrarily, also below 0."""
        return float((7 * page + 5 * n_fetched * (page % 4 + 1)) % 11 - 6)

    def renew(fetched):
        assert fetched.tolist() == order[: len(fetched)]
        return np.array([belief(len(fetched), p) for p in range(30)])

    def stale(fetched, page):
        return belief((len(fetched) - 1) // every * every, page)

    sizes = [3, 11, 30]
    kept = crawl_into_buffers(np.array(order), 30, sizes, RenewedEstimate(renew, every))
    assert [k.tolist() for k in kept] == [oracle.buffer_after(order, b, stale) for b in sizes]


def test_an_estimate_is_asked_for_once_the_buffer_is_full():
    asked = []

    def renew(fetched):
        asked.append(len(fetched))
        return np.zeros(10)

    crawl_into_buffers(np.arange(10), 10, [7, 4], RenewedEstimate(renew, 2))
    assert asked == [0, 0, 4, 6, 8]


@given(st.permutations(range(9)), st.lists(st.integers(0, 4), min_size=9, max_size=9))
def test_a_buffer_kept_by_true_importance_is_ideal_in_any_order(order, i):
    importance = np.array(i, dtype=np.float64)
    shares = [0.1, 0.4, 0.7, 1.0]
    for threshold in (None, 2.0):
        found = limited_buffer(order, importance, shares, importance, threshold=threshold)
        assert found.performance == pytest.approx(found.ideal)


def test_pagerank_seen_by_a_whole_crawl_is_pagerank_up_to_scale():
    rows = random_web(random.Random(8), 60)
    graph = graph_of(rows)
    seen = pagerank_seen(graph, np.arange(60))
    whole = pagerank(graph.indptr, graph.indices)
    assert seen / seen.sum() == pytest.approx(whole, rel=1e-6)
    part = pagerank_seen(graph, np.arange(5), damping=0.9)
    expected = oracle.cho_pagerank(rows, list(range(5)), 0.9)
    assert np.flatnonzero(~np.isnan(part)).tolist() == sorted(expected)
    assert part[sorted(expected)] == pytest.approx([expected[p] for p in sorted(expected)])


def test_the_threshold_of_a_share_is_the_importance_of_its_last_page():
    assert top_threshold(IMPORTANCE, 0.2) == 5.0
    assert top_threshold(IMPORTANCE, 0.4) == 3.0
    assert top_threshold(IMPORTANCE, 1.0) == 1.0
    assert top_threshold(IMPORTANCE, 0.001) == 5.0
    assert top_threshold(IMPORTANCE, 0.3, np.array([False, True, True, False, True])) == 3.0


def test_points_are_thinned_but_keep_both_ends():
    order = np.arange(1000)
    curve = crawl_and_stop_with_threshold(order, np.ones(1000), 1.0)
    points = curve.points("ideal", 11)
    assert len(points) == 11
    assert (points[0], points[-1]) == ((0.001, 0.001), (1.0, 1.0))
    nothing = np.empty(0)
    assert ModelCurve(nothing, nothing, nothing, nothing, np.empty(0, np.int64)).points() == []


def test_invalid_arguments_are_refused_in_one_sentence():
    with pytest.raises(GraphError, match="no page has importance 6 or more"):
        crawl_and_stop_with_threshold(ORDER, IMPORTANCE, 6.0)
    with pytest.raises(GraphError, match="the order has page 0 more than once"):
        crawl_and_stop([0, 0], IMPORTANCE)
    with pytest.raises(GraphError, match="the importance of page 1 is NaN"):
        crawl_and_stop([0], np.array([1.0, np.nan]))
    with pytest.raises(ConfigError, match=r"a buffer is 1\.5 of all pages"):
        limited_buffer(ORDER, IMPORTANCE, [0.5, 1.5], IMPORTANCE)
    with pytest.raises(GraphError, match="the estimates are for 4 pages, the importance for 5"):
        limited_buffer(ORDER, IMPORTANCE, [0.5], IMPORTANCE[:4])
    with pytest.raises(GraphError, match="the estimate of page 0 is NaN"):
        limited_buffer(ORDER, IMPORTANCE, [0.5], np.full(5, np.nan))
    with pytest.raises(ConfigError, match="every is 0"):
        limited_buffer(ORDER, IMPORTANCE, [0.5], RenewedEstimate(lambda _: IMPORTANCE, 0))
    with pytest.raises(ConfigError, match="share is 0 of 5 pages"):
        top_threshold(IMPORTANCE, 0.0)
