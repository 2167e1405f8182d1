"""Measures of crawl orders, on examples small enough to work out by hand."""

import random

import networkx as nx
import numpy as np
import pytest
from linkgraphs import graph_of

from crawlprio.errors import GraphError
from crawlprio.measure.crawl_order import (
    best_order,
    cumulative_pagerank,
    curve,
    kendall_tau,
    reachable,
)

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


def test_tau_is_one_when_important_pages_come_first_and_minus_one_when_last():
    best = best_order(RANKS)
    assert kendall_tau(best, RANKS) == pytest.approx(1.0)
    assert kendall_tau(best[::-1], RANKS) == pytest.approx(-1.0)
    # Of the six pairs of 0, 3, 1, 2 only (1, 2) is reversed: (5 - 1) / 6.
    assert kendall_tau([0, 3, 1, 2], RANKS) == pytest.approx(4 / 6)


@pytest.mark.parametrize("seed", range(3))
def test_tau_on_few_pages_is_over_all_pairs(seed):
    print(f"seed {seed}")
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
    print(f"seed {seed}")
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
