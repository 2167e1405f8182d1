"""Scrapy's own tests of its engine, scheduler, retries and redirects pass with the add-on too.

`make upstream` runs the whole suite, and with parts of crawlprio as well. `docs/compatibility.md`
lists the expected differences.
"""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parent / "upstream"))

from suite import differing, is_ready, listed, run_tests, suite

SELECTION = (
    "tests/test_crawl.py",
    "tests/test_closespider.py",
    "tests/test_engine.py",
    "tests/test_engine_loop.py",
    "tests/test_engine_close_spider.py",
    "tests/test_extension_throttle.py",
    "tests/test_scheduler_base.py",
    "tests/test_downloadermiddleware_retry.py",
    "tests/test_downloadermiddleware_redirect.py",
    "tests/test_request_left.py",
    "tests/test_request_attribute_binding.py",
    "tests/test_request_cb_kwargs.py",
    "tests/test_signals.py",
    "tests/test_spidermiddleware_output_chain.py",
    "tests/test_spider_start.py",
)
"""Tests of crawls, the engine, AutoThrottle, the scheduler, retries and redirects."""


@pytest.mark.skipif(not is_ready(), reason="Scrapy's tests are not fetched: make upstream-tests")
def test_scrapys_own_tests_end_with_the_add_on_as_listed(tmp_path: Path) -> None:
    outcomes = run_tests(suite(), "addon", SELECTION, tmp_path / "ours.jsonl", n_processes=0)
    assert len(outcomes) > 250
    failed = [test for test, outcome in outcomes.items() if outcome == "failed"]
    unlisted = [test for test in failed if "addon" not in listed().get(test, ((),))[0]]
    if unlisted:
        # What also fails with Scrapy alone is not crawlprio's fault.
        plain = run_tests(suite(), "", unlisted, tmp_path / "plain.jsonl", n_processes=0)
        again = run_tests(suite(), "addon", unlisted, tmp_path / "again.jsonl", n_processes=0)
        unlisted = list(differing(plain, again))
    assert unlisted == []
