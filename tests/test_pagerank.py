"""PageRank compared with a worked example, the oracle, and NetworkX."""

import random

import networkx as nx
import numpy as np
import oracles
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from linkgraphs import as_arrays, rows_of

from crawlprio.errors import GraphError
from crawlprio.graph.synthetic import synthetic_web
from crawlprio.ranking.pagerank import pagerank, partial_pagerank, round_significant


def random_rows(seed, n_pages, most_links, p_dangling=0.3):
    """Rows with dangling pages and pages that share a template's links."""
    print(f"seed {seed}")
    rng = random.Random(seed)
    rows = []
    for page in range(n_pages):
        if rng.random() < p_dangling:
            rows.append([])
        elif rows and rng.random() < 0.3:
            rows.append([t for t in rng.choice(rows) if t != page])
        else:
            n_links = rng.randint(1, most_links)
            rows.append([t for t in rng.sample(range(n_pages), n_links) if t != page])
    return rows


def by_oracle(rows, damping=0.85):
    """Return the ranks of the pages with these rows by the oracle, which shares no code."""
    return list(oracles.pagerank(dict(enumerate(rows)), damping).values())


def test_three_pages_have_the_ranks_worked_out_by_hand():
    # 0 -> 1, 2; 1 -> 2; 2 -> 0, with d = 1/2: x = 1/6 + x2/2, y = 1/6 + x/4, z = 1/6 + x/4 + y/2.
    # Substituting: z = 1/4 + 3x/8, so x = 7/24 + 3x/16: x = 14/39, y = 10/39, z = 15/39.
    ranks = pagerank(np.array([0, 2, 3, 4]), np.array([1, 2, 2, 0]), damping=0.5)
    assert ranks == pytest.approx([14 / 39, 10 / 39, 15 / 39], abs=1e-10)


def test_dangling_pages_spread_their_rank_over_all_pages():
    # 0 -> 1, d = 1/2: x = 1/4 + y/4, y = x + x/2 with x + y = 1: x = 2/5, y = 3/5.
    assert pagerank(np.array([0, 1, 1]), np.array([1]), damping=0.5) == pytest.approx(
        [2 / 5, 3 / 5], abs=1e-15
    )


@pytest.mark.parametrize("seed", range(3))
def test_ranks_equal_those_of_networkx(seed):
    rows = random_rows(seed, n_pages=400, most_links=9)
    graph = nx.DiGraph()
    graph.add_nodes_from(range(400))
    graph.add_edges_from((s, t) for s, row in enumerate(rows) for t in row)
    expected = nx.pagerank(graph, tol=1e-16, max_iter=2000)
    ranks = pagerank(*as_arrays(rows))
    assert np.abs(ranks - np.array([expected[p] for p in range(400)])).max() < 1e-11


def test_cycles_of_any_length_converge_although_over_relaxation_diverges_on_some():
    rows = []
    for length in (2, 3, 5, 8, 50, 301):
        first = len(rows)
        rows += [[first + (i + 1) % length] for i in range(length)]
        rows += [[first], [first + 1, first]]
    for damping in (0.85, 0.99):
        ranks = pagerank(*as_arrays(rows), damping=damping)
        assert np.abs(by_oracle(rows, damping) - ranks).sum() < 1e-10


def test_no_pages_have_no_ranks_and_one_page_has_all():
    assert pagerank(np.array([0]), np.array([], dtype=np.int32)).tolist() == []
    assert pagerank(np.array([0, 0]), np.array([], dtype=np.int32)).tolist() == [1.0]


@pytest.mark.parametrize(
    ("options", "complaint"),
    [
        ({"damping": 1.0}, "damping is 1; it must be at least 0 and below 1"),
        ({"damping": float("nan")}, "damping is nan"),
        ({"tolerance": 0.0}, "tolerance is 0; it must be above 0"),
    ],
)
def test_options_out_of_bounds_are_refused(options, complaint):
    with pytest.raises(GraphError, match=complaint):
        pagerank(np.array([0, 2, 3, 4]), np.array([1, 2, 2, 0]), **options)


def test_ranks_that_do_not_converge_are_refused(monkeypatch):
    monkeypatch.setattr("crawlprio.ranking.pagerank.MOST_SWEEPS", 2)
    with pytest.raises(GraphError, match="did not converge to 1e-10 in 2 sweeps"):
        pagerank(np.array([0, 2, 3, 4]), np.array([1, 2, 2, 0]))


def test_a_partial_crawl_is_the_graph_of_the_fetched_rows():
    rows = random_rows(9, n_pages=200, most_links=6)
    fetched = list(range(0, 200, 3))
    random.Random(1).shuffle(fetched)
    row_start = np.zeros(200, dtype=np.int64)
    row_length = np.zeros(200, dtype=np.int32)
    indices = np.full(5000, -1, dtype=np.int32)
    room = 0
    for page in fetched:
        row_start[page], row_length[page] = room, len(rows[page])
        indices[room : room + len(rows[page])] = rows[page]
        room += len(rows[page]) + 2
    seen = [row if page in fetched else [] for page, row in enumerate(rows)]
    ranks = partial_pagerank(row_start, row_length, indices)
    assert ranks == pytest.approx(by_oracle(seen), rel=1e-10)


@given(st.lists(st.floats(1e-200, 1e200), min_size=2, max_size=30))
@settings(deadline=None)
def test_rounding_keeps_the_order_and_errs_by_half_a_digit(values):
    array = np.sort(np.array(values))
    rounded = round_significant(array)
    assert np.all(np.diff(rounded) >= 0)
    assert np.all(np.abs(rounded / array - 1) <= 0.5000001e-7)


def test_a_long_chain_does_not_exhaust_the_stack():
    n = 200_000
    rows_end = np.arange(n + 1, dtype=np.int64)
    ring = np.roll(np.arange(n, dtype=np.int32), -1)
    assert pagerank(rows_end, ring) == pytest.approx(np.full(n, 1 / n), rel=1e-9)


def test_ranks_of_a_synthetic_web_are_those_of_the_oracle_and_are_the_same_each_run():
    web = synthetic_web(20_000, 300, seed=5)
    ranks = pagerank(web.indptr, web.indices)
    assert ranks.tolist() == pagerank(web.indptr, web.indices).tolist()
    assert np.abs(by_oracle(rows_of(web)) - ranks).sum() < 1e-9
