"""The coverage estimate: between the bound and 1, equal to its oracle, and true on known webs."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from oracles.coverage import least_coverage, trusted_pagerank
from oracles.likely import estimated_share

from crawlprio.linkgraph.synthetic import synthetic_web
from crawlprio.orderings import make_ordering
from crawlprio.ranking.calibration import BEYOND, CLASSES, CONFIDENCE
from crawlprio.ranking.likely import Fetches, interval, likely_coverage
from crawlprio.simulator import crawl_order

Web = dict[int, list[int]]


@st.composite
def crawls(draw: st.DrawFn) -> tuple[Web, list[int], list[int]]:
    """A web, the order in which some of its pages were fetched, and its seeds."""
    n_pages = draw(st.integers(1, 12))
    pages = range(n_pages)
    links = {
        page: [
            other for other in draw(st.lists(st.sampled_from(pages), unique=True)) if other != page
        ]
        for page in pages
    }
    order = draw(st.permutations(pages))[: draw(st.integers(1, n_pages))]
    seeds = draw(st.lists(st.sampled_from(pages), min_size=1, unique=True))
    return links, order, seeds


def fetches(links: Web, order: list[int], seeds: list[int]) -> Fetches:
    return Fetches(
        len(links),
        np.array(seeds, dtype=np.int32),
        np.array(order, dtype=np.int32),
        np.cumsum([0, *(len(links[page]) for page in order)]).astype(np.int64),
        np.array([target for page in order for target in links[page]], dtype=np.int32),
    )


@settings(deadline=None)
@given(crawls())
def test_what_is_certain_is_the_bound_and_the_interval_lies_above_it(
    crawl: tuple[Web, list[int], list[int]],
) -> None:
    links, order, seeds = crawl
    found = likely_coverage(fetches(*crawl))
    ranks = trusted_pagerank(links, seeds)
    assert found.at_least == pytest.approx(least_coverage(links, order, seeds), abs=1e-6)
    assert found.at_least <= sum(ranks[page] for page in order) + 1e-12
    assert 0 <= found.at_least <= found.low <= found.likely <= found.high <= 1


@settings(deadline=None)
@given(crawls())
def test_the_estimate_is_that_of_a_web_whose_unfetched_pages_are_one(
    crawl: tuple[Web, list[int], list[int]],
) -> None:
    found = likely_coverage(fetches(*crawl))
    # Mass that still moves when the computation ends is missing.
    assert found.likely == pytest.approx(estimated_share(*crawl), abs=1e-5)
    order = crawl[1]
    assert found.shares[order].sum() == pytest.approx(found.likely, abs=1e-9)
    assert found.shares.sum() <= 1 + 1e-9


def test_everything_fetched_means_all_of_it_for_certain() -> None:
    web = {0: [1, 2], 1: [0], 2: []}
    found = likely_coverage(fetches(web, [0, 2, 1], [0]))
    assert (found.at_least, found.low, found.likely, found.high) == (1, 1, 1, 1)
    ranks = trusted_pagerank(web, [0])
    assert found.shares == pytest.approx([ranks[page] for page in range(3)], abs=1e-6)


def test_nothing_fetched_means_anything_is_possible() -> None:
    found = likely_coverage(fetches({0: [1], 1: []}, [], [0]))
    assert (found.at_least, found.low, found.high) == (0, 0, 1)


def test_a_seed_that_waits_counts_as_missing_with_all_that_it_leads_to() -> None:
    """Its site may link to nothing that was fetched."""
    found = likely_coverage(fetches({0: [2], 1: [], 2: [0]}, [0, 2], [0, 1]))
    assert found.likely == pytest.approx(0.5, abs=1e-6)


def test_the_interval_is_wider_where_less_is_certain() -> None:
    widths = [high - low for low, _, high in (interval(b, (1 + b) / 2) for b in (0.2, 0.5, 0.9))]
    assert widths == sorted(widths, reverse=True)
    assert 2 * BEYOND < 1 - CONFIDENCE
    assert [most for most, *_ in CLASSES] == [0.3, 0.6, 1.0]


def test_the_interval_holds_in_nine_of_ten_crawls_of_a_synthetic_web() -> None:
    """Of a kind that the calibration did not see: other sizes, other seeds."""
    inside = []
    for draw in (7, 8):
        graph = synthetic_web(4_000, 12, links_per_page=9.0, seed=draw)
        web = {page: graph.out_links(page).tolist() for page in range(graph.n_pages)}
        whole = likely_coverage(fetches(web, list(web), [0]))
        for ordering in ("sibling-sampling", "breadth-first", "opic"):
            order = np.asarray(crawl_order(graph, [0], make_ordering(ordering))).tolist()
            for share in (0.05, 0.1, 0.3, 0.6):
                crawled = order[: int(share * len(order))]
                found = likely_coverage(fetches(web, crawled, [0]))
                inside.append(found.low <= whole.shares[crawled].sum() <= found.high)
    assert sum(inside) >= 0.9 * len(inside)
