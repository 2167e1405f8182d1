"""The bound on fetched importance: never too high, and close to what can be known."""

import json

import numpy as np
import pytest
from crawls import ADDON, ONE_AT_A_TIME, Answer, crawl_demo_web, run_spider
from crawls import page as answer
from graphs import crawls
from hypothesis import given, settings
from hypothesis import strategies as st
from oracles.coverage import least_coverage, trusted_pagerank

from crawlprio.demo.web import DemoWeb
from crawlprio.errors import GraphError
from crawlprio.ranking.coverage import Coverage
from crawlprio.spiders.site import SiteSpider
from crawlprio.store import Store


@settings(deadline=None)
@given(crawls(), st.integers(0, 11))
def test_the_bound_is_the_certain_share_and_never_exceeds_the_truth(crawl, n_late):
    links, order, seeds = crawl
    n_late = min(n_late, len(seeds) - 1)
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


@settings(deadline=None)
@given(crawls(), st.data())
def test_failed_pages_end_paths_and_hold_nothing_that_was_fetched(crawl, data):
    """A page that fails, and is got later, counts like one that was got at once."""
    links, order, seeds = crawl
    failed = data.draw(st.sets(st.sampled_from(order)))
    got_later = data.draw(st.sets(st.sampled_from(sorted(failed)))) if failed else set()
    coverage = Coverage()
    coverage.add_seeds(seeds)
    for page in order:
        targets = np.array([] if page in failed else links[page], dtype=np.int32)
        coverage.observe(page, targets, is_got=page not in failed)
    for page in got_later:
        coverage.observe(page, np.array(links[page], dtype=np.int32))
    coverage.settle(1e-12)
    lost = failed - got_later
    answered = {page: [] if page in lost else row for page, row in links.items()}
    got = [page for page in order if page not in lost]
    certain = least_coverage(answered, order, seeds, counted=got)
    assert coverage.bound == pytest.approx(certain, abs=1e-9)


@pytest.mark.parametrize("bad", [-1, -(10**6), 2**31 - 1, 2**40, 0.5, None, [1]])
def test_ids_that_are_no_page_are_refused_and_change_nothing(bad):
    """They used to be written outside the arrays, even with NUMBA_BOUNDSCHECK set."""
    coverage = Coverage()
    coverage.add_seeds([0])
    coverage.observe(0, np.array([1], dtype=np.int32))
    before = coverage.bound
    for call in (
        lambda: coverage.add_seeds([2, bad]),
        lambda: coverage.observe(bad, np.array([1], dtype=np.int32)),
        lambda: coverage.observe(1, [2, bad]),
    ):
        with pytest.raises(GraphError, match=r"page|targets"):
            call()
    assert coverage.bound == before


@pytest.mark.parametrize("dtype", ["i4,i4", "f8", "c16", "m8[s]", "U1"])
def test_an_empty_array_of_any_type_holds_no_pages(dtype):
    """NumPy's own TypeError came out for an empty array of records."""
    coverage = Coverage()
    coverage.add_seeds(np.empty(0, dtype))
    coverage.observe(0, np.empty(0, dtype))
    assert coverage.bound == 0


def test_a_refetched_page_counts_once():
    once, twice = Coverage(), Coverage()
    for coverage in (once, twice):
        coverage.add_seeds([0])
        coverage.observe(0, np.array([1, 2], dtype=np.int32))
    twice.observe(0, np.array([3], dtype=np.int32))
    assert once.bound == twice.bound == pytest.approx(0.15)


def test_a_long_crawl_stays_close_to_the_certain_share():
    web = DemoWeb(n_pages=2000, n_sites=20, seed=3)
    coverage = Coverage()
    coverage.add_seeds([0])
    for page in range(len(web.indptr) - 1):
        coverage.observe(page, web.indices[web.indptr[page] : web.indptr[page + 1]])
    before = coverage.bound
    coverage.settle()
    assert before <= coverage.bound
    assert before == pytest.approx(coverage.bound, abs=0.03)


def links_of(web):
    """Return the link graph of a demo web, with a row for each page."""
    rows = np.split(web.indices, web.indptr[1:-1])
    return {page: row.tolist() for page, row in enumerate(rows)}


def fetched_pages(store, web):
    """Return the pages of a demo web that a crawl fetched."""
    page_of = {web.url(page): page for page in range(len(web.indptr) - 1)}
    with Store.open(store) as opened:
        visits = list(opened.visits())
        urls = opened.stored_pages().urls([visit.page for visit in visits if visit.page >= 0])
    return [page_of[url] for url in dict.fromkeys(urls) if url in page_of]


STOPS = {**ONE_AT_A_TIME, "ORDERING": "rankmass", "CRAWLPRIO_STOP_AT_COVERAGE": 0.3}


def test_a_crawl_stops_once_enough_is_covered_and_its_figure_holds(tmp_path):
    crawl = crawl_demo_web(tmp_path, STOPS)
    assert crawl.exit_status == 0
    assert "coverage_reached" in crawl.stderr
    web = DemoWeb(n_pages=300, n_sites=8, seed=1)
    fetched, links = fetched_pages(crawl.store, web), links_of(web)
    assert least_coverage(links, fetched, [0]) >= 0.3
    assert least_coverage(links, fetched[:-1], [0]) < 0.3
    ranks = trusted_pagerank(links, [0])
    assert sum(ranks[page] for page in fetched) >= 0.3


def test_the_share_that_stops_a_crawl_is_the_share_in_its_receipt(tmp_path):
    """A third of the pages fail, which ended the crawl too early by one definition of two."""
    pages = {f"/{n}": answer(*(f"/{7 * n + k}" for k in range(1, 8))) for n in range(60)}
    pages |= {f"/{n}": Answer(status=404) for n in range(2, 60, 3)}
    stops = {**ADDON, **STOPS, "CRAWLPRIO_STORE": tmp_path / "crawl.sqlite", "DOWNLOAD_DELAY": 0}
    run = run_spider(SiteSpider, stops, site=pages, seeds="http://a.test/0")
    assert run.reason == "coverage_reached"
    share = json.loads((tmp_path / "receipt.json").read_text())["coverage"]["at_least"]
    assert share == run.stats["crawlprio/coverage_at_least"]
    assert 0.3 <= share < 0.4


def test_a_page_without_links_has_no_share_to_stop_at(tmp_path):
    stops = {**ADDON, **STOPS, "CRAWLPRIO_STORE": tmp_path / "crawl.sqlite", "DOWNLOAD_DELAY": 0}
    run = run_spider(SiteSpider, stops, site={"/": answer()}, seeds="http://a.test/")
    assert run.reason == "finished"
    assert "crawlprio/coverage_at_least" not in run.stats
    assert "no share can be stated" in run.stats["crawlprio/receipt"]


def test_a_crawl_in_parts_stops_where_a_single_run_would(tmp_path):
    whole, parts = tmp_path / "whole", tmp_path / "parts"
    whole.mkdir()
    parts.mkdir()
    at_once = crawl_demo_web(whole, STOPS)
    web = DemoWeb(n_pages=300, n_sites=8, seed=1)
    # Run once more when enough is covered already; then nothing is fetched.
    for more in ({"CLOSESPIDER_PAGECOUNT": 4}, {}, {}):
        last = crawl_demo_web(parts, {**STOPS, "JOBDIR": "job", **more})
        assert last.exit_status == 0
    assert "coverage_reached" in last.stderr
    assert fetched_pages(parts / "job" / "crawl.sqlite", web) == fetched_pages(at_once.store, web)


def test_a_crawl_stops_once_enough_is_likely(tmp_path):
    slow = {"DOWNLOAD_DELAY": 0.08, "CRAWLPRIO_STOP_AT_COVERAGE": "likely:0.88"}
    crawl = crawl_demo_web(tmp_path, {**ONE_AT_A_TIME, **slow}, pages=600)
    assert crawl.exit_status == 0, crawl.stderr
    assert "coverage_reached" in crawl.stderr
    receipt = json.loads((tmp_path / "receipt.json").read_text())
    assert receipt["coverage"]["likely"] > 0.85
    assert receipt["got"]["waiting"] > 50


@pytest.mark.parametrize("share", [0, 1.5, -1, "most", "likely:2", "sure:0.5", "likely:0.3"])
def test_an_invalid_share_is_refused_and_an_estimate_needs_a_store(share):
    settings = {"CRAWLPRIO_STOP_AT_COVERAGE": share, "CRAWLPRIO_STORE": None}
    run = run_spider(SiteSpider, {**ADDON, **settings}, site={}, seeds="http://a.test/")
    (sentence,) = run.messages()
    bound = "a number above 0 and at most 1" if share != "likely:0.3" else "an estimate"
    assert sentence.startswith(f"CRAWLPRIO_STOP_AT_COVERAGE is {share!r}")
    assert bound in sentence
