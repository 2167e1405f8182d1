"""The bound on the importance that is fetched: never too high, and close to what can be known."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from crawls import ONE_AT_A_TIME, crawl_demo_web
from hypothesis import given
from hypothesis import strategies as st
from oracles.coverage import least_coverage, trusted_pagerank

from crawlprio.demo.web import DemoWeb
from crawlprio.ranking.coverage import Coverage
from crawlprio.store import Store


@st.composite
def crawls(draw: st.DrawFn) -> tuple[dict[int, list[int]], list[int], list[int], int]:
    """A web, the order in which its pages are fetched, its seeds, and how many come late."""
    n_pages = draw(st.integers(1, 12))
    pages = range(n_pages)
    links = {
        page: [other for other in draw(st.lists(st.sampled_from(pages), unique=True)) if other != page]
        for page in pages
    }
    order = draw(st.permutations(pages))[: draw(st.integers(1, n_pages))]
    seeds = draw(st.lists(st.sampled_from(pages), min_size=1, unique=True))
    return links, order, seeds, draw(st.integers(0, len(seeds) - 1))


@given(crawls())
def test_the_bound_is_what_is_certain_and_never_more_than_the_truth(
    crawl: tuple[dict[int, list[int]], list[int], list[int], int],
) -> None:
    links, order, seeds, n_late = crawl
    coverage = Coverage()
    coverage.add_seeds(seeds[n_late:])
    for page in order:
        coverage.observe(page, np.array(links[page], dtype=np.int32))
    coverage.add_seeds(seeds[:n_late])
    ranks = trusted_pagerank(links, seeds)
    certain = least_coverage(links, order, seeds)
    assert certain <= sum(ranks[page] for page in order) + 1e-12
    assert coverage.bound <= certain + 1e-12
    coverage.settle(1e-12)
    assert coverage.bound == pytest.approx(certain, abs=1e-9)


def test_all_pages_fetched_are_all_importance() -> None:
    coverage = Coverage()
    assert coverage.bound == 0
    coverage.add_seeds([0])
    for page, targets in enumerate([[1, 2], [0], []]):
        coverage.observe(page, np.array(targets, dtype=np.int32))
    coverage.settle(1e-12)
    assert coverage.bound == pytest.approx(1)


def test_a_page_fetched_again_counts_once() -> None:
    once, twice = Coverage(), Coverage()
    for coverage in (once, twice):
        coverage.add_seeds([0])
        coverage.observe(0, np.array([1, 2], dtype=np.int32))
    twice.observe(0, np.array([3], dtype=np.int32))
    assert once.bound == twice.bound == pytest.approx(0.15)


def test_a_long_crawl_stays_close_to_what_is_certain() -> None:
    web = DemoWeb(n_pages=2000, n_sites=20, seed=3)
    graph = web.graph
    coverage = Coverage()
    coverage.add_seeds([0])
    for page in range(graph.n_pages):
        coverage.observe(page, graph.targets(page))
    before = coverage.bound
    coverage.settle()
    assert before <= coverage.bound
    assert before == pytest.approx(coverage.bound, abs=0.02)
