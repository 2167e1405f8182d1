"""What a crawl gathered when, how busy its robots were, and distributions, on small examples."""

import random

import networkx as nx
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from linkgraphs import as_arrays, graph_of
from measures import slices_by_time, speed_ups
from oracles import evaluation as oracle

from crawlprio.errors import ConfigError, GraphError
from crawlprio.graph.linkgraph import LinkGraph
from crawlprio.measure.crawl_order import (
    active_robots,
    best_order,
    cumulative_by_time,
    cumulative_pagerank,
    curve,
    depth_from_seeds,
    kendall_tau,
    mean_importance_by_depth,
    mean_importance_by_slice,
    mean_slice_of_top,
    overlap_of_top,
    reachable,
    scaled_to_mean_one,
    slices_by_fetch,
)
from crawlprio.plugins.papers.distributions import fit_power_law, log_histogram

IMPORTANCE = np.array([5.0, 1.0, 3.0, 3.0, 2.0])
ORDER = [4, 2, 0, 1, 3]

times = st.lists(
    st.tuples(st.integers(0, 12), st.integers(0, 5)).map(lambda p: (float(p[0]), float(sum(p)))),
    min_size=1,
    max_size=20,
)


def test_slices_by_fetch_are_of_equal_length():
    assert slices_by_fetch(6, 3).tolist() == [1, 1, 2, 2, 3, 3]
    assert slices_by_fetch(5, 2).tolist() == [1, 1, 1, 2, 2]
    assert slices_by_fetch(0, 2).tolist() == []
    sizes = np.bincount(slices_by_fetch(1003, 28))[1:]
    assert sorted(set(sizes.tolist())) == [35, 36]
    assert len(sizes) == 28


def test_days_are_counted_from_the_first_fetch_or_a_given_start():
    ended = [10.0, 86_409.0, 86_410.0, 200_000.0]
    assert slices_by_time(ended).tolist() == [1, 1, 2, 3]
    assert slices_by_time(ended, start=0.0).tolist() == [1, 2, 2, 3]
    assert slices_by_time([3.0, 1.0, 2.5], seconds=0.5).tolist() == [5, 1, 4]


def test_a_slices_mean_is_over_its_pages_and_an_empty_slice_has_none():
    found = mean_importance_by_slice(ORDER, IMPORTANCE, np.array([1, 1, 3, 3, 3]))
    assert found.x.tolist() == [1, 2, 3]
    assert found.n.tolist() == [2, 0, 3]
    assert found.mean[[0, 2]].tolist() == [2.5, 3.0]
    assert np.isnan(found.mean[1])
    assert found.points() == [(1.0, 2.5), (3.0, 3.0)]


def test_scaled_importance_has_mean_one_over_the_pages_that_count():
    mask = np.array([True, False, True, False, False])
    assert scaled_to_mean_one(IMPORTANCE).mean() == pytest.approx(1.0)
    assert scaled_to_mean_one(IMPORTANCE, mask).tolist() == [1.25, 0.25, 0.75, 0.75, 0.5]
    assert scaled_to_mean_one(np.array([np.nan, 2.0, 6.0]))[1:].tolist() == [0.5, 1.5]


@pytest.mark.parametrize("seed", range(6))
def test_tops_of_tied_pages_are_means_over_all_choices(seed):
    rng = random.Random(seed)
    first = {p: float(rng.randrange(4)) for p in range(9)}
    second = {p: first[p] if rng.random() < 0.5 else float(rng.randrange(4)) for p in first}
    order = rng.sample(range(9), 9)
    days = sorted(rng.randrange(1, 5) for _ in range(9))
    a, b = (np.array([v[p] for p in range(9)]) for v in (first, second))
    tops = list(range(1, 10))
    found = mean_slice_of_top(order, a, np.array(days), tops)
    expected = [oracle.mean_over_choices(first, n, lambda p: days[order.index(p)]) for n in tops]
    assert found.mean == pytest.approx(expected)
    expected = [oracle.overlap_over_choices(first, second, n) for n in tops]
    assert overlap_of_top(a, b, tops).mean == pytest.approx(expected)


def test_mean_importance_by_depth_leaves_out_pages_of_unknown_depth():
    depth = np.array([0, 1, -1, 3, 1])
    found = mean_importance_by_depth(depth, IMPORTANCE)
    assert found.n.tolist() == [1, 2, 0, 1]
    assert found.points() == [(0.0, 5.0), (1.0, 1.5), (3.0, 3.0)]
    fetched = np.array([True, True, True, False, False])
    assert mean_importance_by_depth(depth, IMPORTANCE, fetched).points() == [(0.0, 5.0), (1.0, 1.0)]


@pytest.mark.parametrize("seed", range(3))
def test_depth_is_the_shortest_distance_from_any_seed(seed):
    rng = random.Random(seed)
    rows = {p: rng.sample(range(60), rng.randrange(3)) for p in range(60)}
    seeds = [rng.randrange(60), 5, 5]
    graph = LinkGraph(*as_arrays([*rows.values()]))
    expected = oracle.depths(rows, seeds)
    assert depth_from_seeds(graph, seeds).tolist() == [expected.get(p, -1) for p in range(60)]


def test_shares_by_time_follow_the_clock_and_not_the_given_order():
    seconds, importance, pages = cumulative_by_time(
        [0, 1, 3], [30.0, 10.0, 20.0], np.array([4.0, 1.0, 2.0, 3.0])
    )
    assert seconds.tolist() == [10.0, 20.0, 30.0]
    assert importance == pytest.approx([0.1, 0.4, 0.8])
    assert pages.tolist() == [0.25, 0.5, 0.75]


@given(times)
def test_active_robots_are_those_between_start_and_end(fetches):
    started, ended = (list(t) for t in zip(*fetches, strict=True))
    at, active = active_robots(started, ended)
    first = min(started)
    assert active.tolist() == [oracle.active_at(started, ended, first + t) for t in at]
    assert active[-1] == 0
    middles, means = active_robots(started, ended, 7)
    total = sum(e - s for s, e in fetches)
    span = max(ended) - first
    assert means.sum() * span / 7 == pytest.approx(total)
    assert len(middles) == 7


def test_speed_ups_are_relative_to_the_fewest_robots_of_the_same_bandwidth_or_one_crawl():
    crawls = [(200.0, 64, 100, 20.0), (100.0, 1, 100, 100.0), (200.0, 1, 100, 50.0)]
    found = speed_ups(crawls)
    assert (found.bandwidths.tolist(), found.robots.tolist()) == ([100.0, 200.0], [1, 64])
    assert found.pages_per_second[1].tolist() == [2.0, 5.0]
    assert np.isnan(found.pages_per_second[0, 1])
    assert found.speed_up[:, 0].tolist() == [1.0, 1.0]
    assert found.speed_up[1, 1] == 2.5
    assert speed_ups(crawls, base=(100.0, 1)).speed_up[1].tolist() == [2.0, 5.0]


def test_small_counts_have_a_bin_each_and_large_ones_share():
    counts = np.array([0, 0, 1, 1, 1, 2, 9, 10, 12, 100])
    found = log_histogram(counts)
    # Edges 1, 2, 3, 4, 5, 6, 8, 10, 13, ... 79, 100, 126.
    assert found.first.tolist() == [1, 2, 8, 10, 100]
    assert found.last.tolist() == [1, 2, 9, 12, 125]
    assert found.n.tolist() == [3, 1, 1, 2, 1]
    assert found.per_count == pytest.approx([3, 1, 1 / 2, 2 / 3, 1 / 26])
    assert found.centre == pytest.approx([1, 2, 72**0.5, 120**0.5, 12500**0.5])


def zipf(exponent, n, minimum, seed):
    """Return counts of a discrete power law, by inverting its cumulative shares over a table."""
    x = np.arange(minimum, 2_000_000, dtype=np.float64)
    shares = np.cumsum(x**-exponent)
    drawn = np.random.default_rng(seed).random(n) * shares[-1]
    return (minimum + np.searchsorted(shares, drawn)).astype(np.int64)


@pytest.mark.parametrize(("exponent", "minimum"), [(2.1, 1), (2.5, 4), (3.2, 10)])
def test_maximum_likelihood_finds_the_exponent_of_a_power_law(exponent, minimum):
    counts = zipf(exponent, 20_000, minimum, seed=1)
    law = fit_power_law(counts, minimum=minimum)
    assert abs(law.exponent - exponent) < 4 * law.standard_error
    # Clauset et al., eq. 3.6, for large minima: (exponent - 1) / sqrt(n), smaller for small ones.
    assert 0.3 < law.standard_error / ((exponent - 1) / 20_000**0.5) < 1.2
    assert law.distance < 0.02


def test_invalid_arguments_are_refused_in_one_sentence():
    with pytest.raises(ConfigError, match="n_slices is 0"):
        slices_by_fetch(5, 0)
    with pytest.raises(ConfigError, match="seconds is 0"):
        slices_by_time([1.0], 0.0)
    with pytest.raises(ConfigError, match="a fetch ended at 1, before the start at 2"):
        slices_by_time([1.0], start=2.0)
    with pytest.raises(GraphError, match="slices has 2 elements for 5 fetches"):
        mean_importance_by_slice(ORDER, IMPORTANCE, np.array([1, 2]))
    with pytest.raises(GraphError, match="a fetch is in slice 0; slices are counted from 1"):
        mean_importance_by_slice([0], IMPORTANCE, np.array([0]))
    with pytest.raises(ConfigError, match="tops has 0; sizes"):
        mean_slice_of_top(ORDER, IMPORTANCE, slices_by_fetch(5, 5), [0])
    with pytest.raises(GraphError, match=r"fetch 0 ended at 1, before it started at 2"):
        active_robots([2.0], [1.0])
    with pytest.raises(GraphError, match=r"ended\[1\] is nan; times must be finite"):
        active_robots([0.0, 0.0], [1.0, float("nan")])
    with pytest.raises(ConfigError, match="a crawl of 5 pages took 0 s"):
        speed_ups([(1.0, 1, 5, 0.0)])
    with pytest.raises(ConfigError, match="two crawls have bandwidth 1 and 1 robots"):
        speed_ups([(1.0, 1, 5, 1.0), (1.0, 1, 6, 1.0)])
    with pytest.raises(GraphError, match="a count is -1"):
        log_histogram(np.array([-1]))
    with pytest.raises(GraphError, match="a power law needs 50 counts"):
        fit_power_law(np.arange(10))


RANKS = np.array([0.4, 0.1, 0.2, 0.3])
NOT_PAGE_1 = np.array([True, False, True, True])


def slow_tau_b(x, y):
    """Kendall's tau-b over all pairs."""
    agree = ties_x = ties_y = pairs = 0
    for i in range(len(x)):
        for j in range(i):
            a, b = np.sign(x[i] - x[j]), np.sign(y[i] - y[j])
            agree += a * b
            ties_x += a == 0
            ties_y += b == 0
            pairs += 1
    return float(agree / np.sqrt((pairs - ties_x) * (pairs - ties_y)))


def test_the_best_order_descends_by_importance_and_then_ascends_by_id():
    assert best_order(np.array([0.2, 0.3, 0.2, 0.3])).tolist() == [1, 3, 0, 2]
    assert best_order(RANKS, NOT_PAGE_1).tolist() == [0, 3, 2]


@pytest.mark.parametrize("seed", range(3))
def test_tau_on_few_pages_is_over_all_pairs(seed):
    rng = random.Random(seed)
    ranks = np.array([rng.choice([0.1, 0.2, 0.3, rng.random()]) for _ in range(60)])
    mask = np.array([rng.random() < 0.7 for _ in range(60)])
    order = [page for page in range(60) if mask[page]]
    rng.shuffle(order)
    order = order[: len(order) // 2 + 5]
    earliness = [60 - order.index(p) if p in order else 0 for p in range(60) if mask[p]]
    expected = slow_tau_b(earliness, ranks[mask].tolist())
    assert kendall_tau(order, ranks, reachable=mask) == pytest.approx(expected)


def test_tau_on_a_sample_is_seeded_and_close_to_that_of_all_pages():
    rng = np.random.default_rng(3)
    ranks = rng.random(20_000)
    order = np.argsort(-ranks + 0.3 * rng.standard_normal(20_000))
    whole = kendall_tau(order, ranks, sample=20_000)
    sampled = kendall_tau(order, ranks)
    assert sampled == kendall_tau(order, ranks)
    assert sampled != kendall_tau(order, ranks, seed=1)
    assert sampled == pytest.approx(whole, abs=0.03)


def test_tau_is_not_a_number_if_all_pages_tie():
    assert np.isnan(kendall_tau([0, 1], np.ones(2)))
    assert np.isnan(kendall_tau([0], np.ones(1)))


@pytest.mark.parametrize("seed", range(3))
def test_reachable_pages_agree_with_networkx(seed):
    rng = random.Random(seed)
    rows = [rng.sample(range(80), rng.randrange(3)) for _ in range(80)]
    web = nx.DiGraph([(s, t) for s, row in enumerate(rows) for t in row])
    web.add_nodes_from(range(80))
    seeds = [rng.randrange(80), rng.randrange(80), 5, 5]
    expected = set(seeds).union(*(nx.descendants(web, seed) for seed in seeds))
    found = reachable(graph_of(rows), seeds)
    assert np.flatnonzero(found).tolist() == sorted(expected)


def test_seeds_must_be_pages():
    graph = graph_of([[1], []])
    with pytest.raises(GraphError, match="there are no seeds"):
        reachable(graph, [])
    with pytest.raises(GraphError, match=r"seeds\[1\] is 2; give 0 or more, below 2"):
        reachable(graph, [0, 2])
    with pytest.raises(GraphError, match=r"seeds\[0\] is -1"):
        reachable(graph, [-1])


def test_a_curve_starts_at_zero_and_ends_at_the_last_fetch():
    assert curve(np.array([0.5, 1.0])) == [[0.0, 0.0], [0.5, 0.5], [1.0, 1.0]]
    assert curve(np.array([0.5, 0.6]), n_pages=4) == [[0.0, 0.0], [0.25, 0.5], [0.5, 0.6]]
    assert curve(np.array([])) == [[0.0, 0.0]]


@pytest.mark.parametrize(
    ("order", "mask", "complaint"),
    [
        ([0, 4], None, r"order\[1\] is 4; give 0 or more, below 4"),
        ([0, -1], None, r"order\[1\] is -1"),
        ([0, 2, 3, 2], None, "the order has page 2 more than once"),
        ([0, 1], NOT_PAGE_1, "the order has page 1, which is not reachable"),
        ([0], np.array([True]), "ranks has 4 elements and reachable has 1"),
    ],
)
def test_an_impossible_order_is_refused(order, mask, complaint):
    with pytest.raises(GraphError, match=complaint):
        cumulative_pagerank(order, RANKS, mask)
    with pytest.raises(GraphError, match=complaint):
        kendall_tau(order, RANKS, reachable=mask)


def test_importance_that_is_zero_everywhere_is_refused():
    with pytest.raises(GraphError, match="the importance of all reachable pages is 0"):
        cumulative_pagerank([0], np.zeros(2))
