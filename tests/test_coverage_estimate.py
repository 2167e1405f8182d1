"""The coverage estimate: between the bound and 1, equal to its oracle, and true on known webs."""

import numpy as np
import pytest
from graphs import crawls
from hypothesis import given, settings
from hypothesis import strategies as st
from linkgraphs import as_arrays
from oracles.coverage import least_coverage, trusted_pagerank
from oracles.likely import estimated_share

from crawlprio.graph.synthetic import synthetic_web
from crawlprio.orderings import make_ordering
from crawlprio.ranking.coverage_estimate import (
    ERRORS,
    OPENED,
    Estimates,
    Fetches,
    folders_of,
    interval,
    likely_coverage,
)
from crawlprio.simulator.timed import crawl_order


def fetches(links, order, seeds, folders=None):
    return Fetches(
        len(links),
        np.array(seeds, dtype=np.int32),
        np.array(order, dtype=np.int32),
        *as_arrays([links[page] for page in order]),
        None if folders is None else np.array(folders, dtype=np.int32),
    )


@settings(deadline=None)
@given(crawls())
def test_what_is_certain_is_the_bound_and_the_interval_lies_above_it(crawl):
    links, order, seeds = crawl
    found = likely_coverage(fetches(*crawl))
    ranks = trusted_pagerank(links, seeds)
    assert found.at_least == pytest.approx(least_coverage(links, order, seeds), abs=1e-6)
    assert found.at_least <= sum(ranks[page] for page in order) + 1e-12
    assert 0 <= found.at_least <= found.low <= found.likely <= found.high <= 1


@settings(deadline=None)
@given(crawls(), st.data())
def test_the_estimates_are_those_of_webs_whose_unfetched_pages_are_one(crawl, data):
    """Pages of folders that were not opened are a place of no return, or of return at once."""
    links, order, _ = crawl
    n_folders = len(links) if len(order) < OPENED else 1
    folders = data.draw(
        st.lists(st.integers(0, n_folders - 1), min_size=len(links), max_size=len(links))
    )
    found = likely_coverage(fetches(*crawl, folders))
    if found.estimates is None:
        return
    strange = {
        page
        for page in links
        if page not in order and sum(folders[page] == folders[other] for other in order) < OPENED
    }
    # Mass that still moves when the computation ends is missing.
    lower, higher = (estimated_share(*crawl, strange, returns=returns) for returns in (False, True))
    assert found.estimates.lower == pytest.approx(lower, abs=1e-5)
    assert found.estimates.higher == pytest.approx(higher, abs=1e-5)
    assert found.shares[order].sum() == pytest.approx(found.likely, abs=1e-9)
    assert found.shares.sum() <= 1 + 1e-9


def test_everything_fetched_means_all_of_it_for_certain():
    web = {0: [1, 2], 1: [0], 2: []}
    found = likely_coverage(fetches(web, [0, 2, 1], [0]))
    assert (found.at_least, found.low, found.likely, found.high) == (1, 1, 1, 1)
    ranks = trusted_pagerank(web, [0])
    assert found.shares == pytest.approx([ranks[page] for page in range(3)], abs=1e-6)


def test_nothing_fetched_means_anything_is_possible():
    found = likely_coverage(fetches({0: [1], 1: []}, [], [0]))
    assert (found.at_least, found.low, found.high) == (0, 0, 1)


def linked(pages):
    """Pages that each link to the first of them, the next, and three others of them."""
    n, first = len(pages), pages[0]
    offsets = {
        page: {0, page - first + 1, *((page - first) * k for k in (3, 7, 11))} for page in pages
    }
    return {
        page: sorted({first + offset % n for offset in offsets[page]} - {page}) for page in pages
    }


def test_the_interval_knows_that_a_language_was_never_opened():
    """The front page links to three manuals, which link only within; one of them was fetched."""
    manuals = [range(1 + 60 * n, 61 + 60 * n) for n in range(3)]
    web = {0: [manual[0] for manual in manuals]}
    for manual in manuals:
        web |= linked(manual)
    order = [0, *manuals[0]]
    truth = sum(trusted_pagerank(web, [0])[page] for page in order)
    urls = [
        "http://a.test/",
        *(f"http://a.test/{(page - 1) // 60}/{page}" for page in range(1, 181)),
    ]
    blind, found = (
        likely_coverage(fetches(web, order, [0], folders))
        for folders in (None, folders_of(urls).tolist())
    )
    assert blind.low > truth
    assert found.low <= truth <= found.high


def test_a_seed_that_waits_on_an_opened_site_is_like_other_waiting_pages():
    """It counted as if nobody could come back from it: .17 was said for .75."""
    web = linked(range(60))
    order = list(range(30))
    truth = sum(trusted_pagerank(web, [0, 45])[page] for page in order)
    found = likely_coverage(fetches(web, order, [0, 45]))
    assert found.estimates.lower == pytest.approx(found.estimates.higher)
    assert found.low <= truth <= found.high


def test_a_seed_that_waits_on_another_site_may_hold_half_of_everything():
    web = linked(range(30)) | linked(range(30, 60))
    order = list(range(30))
    found = likely_coverage(fetches(web, order, [0, 30], [page // 30 for page in range(60)]))
    assert found.estimates.lower == pytest.approx(0.5, abs=1e-4)
    assert found.low <= 0.5 <= found.high


def test_folders_are_of_a_host_and_without_the_query():
    urls = ["http://a.test/x/1", "http://a.test/x/?q=/y/", "http://a.test/x", "http://b.test/x/1"]
    x, asked, home, other = folders_of(urls).tolist()
    assert x == asked
    assert len({x, home, other}) == 3


def test_the_interval_is_wider_where_less_is_certain_and_estimates_differ():
    def width(bound, lower, higher):
        low, _, high = interval(Estimates(bound, lower, higher))
        return high - low

    widths = [width(bound, (1 + bound) / 2, (1 + bound) / 2) for bound in (0.2, 0.5, 0.9)]
    assert widths == sorted(widths, reverse=True)
    assert width(0.2, 0.3, 0.7) > widths[0]
    assert ERRORS[0] < 0 < ERRORS[1]


def test_the_interval_holds_in_nine_of_ten_crawls_of_a_synthetic_web():
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
                found = likely_coverage(fetches(web, crawled, [0], graph.site.tolist()))
                inside.append(found.low <= whole.shares[crawled].sum() <= found.high)
    assert sum(inside) >= 0.9 * len(inside)
