"""Scrapy's own tests of its engine, scheduler, retries and redirects pass with crawlprio too.

`make upstream` runs the whole suite, and with a priority queue as well. `docs/compatibility.md`
lists the expected differences.
"""

import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parent / "upstream"))

from suite import differing, is_ready, listed, run_tests, suite

SELECTION = (
    *("tests/test_crawl.py", "tests/test_closespider.py", "tests/test_engine.py"),
    *("tests/test_engine_loop.py", "tests/test_engine_close_spider.py"),
    *("tests/test_extension_throttle.py", "tests/test_scheduler_base.py"),
    *("tests/test_downloadermiddleware_retry.py", "tests/test_downloadermiddleware_redirect.py"),
    *("tests/test_request_left.py", "tests/test_request_attribute_binding.py"),
    *("tests/test_request_cb_kwargs.py", "tests/test_signals.py"),
    *("tests/test_spidermiddleware_output_chain.py", "tests/test_spider_start.py"),
)
"""Tests of crawls, the engine, AutoThrottle, the scheduler, retries and redirects."""

GIVES_UP_EARLY = "tests/test_engine.py::TestEngine::test_short_timeout"
"""Gives a process that fetches from the internet 15 seconds, which a busy machine exceeds."""

N_TRIES = 3
"""How often a test may fail that a busy machine makes fail."""

_needs_suite = pytest.mark.skipif(
    not is_ready(), reason="Scrapy's tests are not fetched: make upstream-tests"
)


def failing(part, tests, folder, allowed=frozenset()):
    """Return the tests that fail with a part of crawlprio at each try, and pass with Scrapy alone.

    Those of `allowed` may fail.
    """
    outcomes = run_tests(suite(), part, tests, folder / "ours.jsonl", n_processes=0)
    assert len(outcomes) > 250
    failed = {test for test, outcome in outcomes.items() if outcome == "failed"}
    unlisted = sorted(failed - allowed)
    for again in range(N_TRIES - 1):
        if not unlisted:
            return []
        # What also fails with Scrapy alone is not crawlprio's fault.
        plain, ours = (
            run_tests(suite(), name, unlisted, folder / f"{name}{again}.jsonl", n_processes=0)
            for name in ("", part)
        )
        unlisted = list(differing(plain, ours))
    print((folder / f"{part}{again}.log").read_text()[-20_000:])
    return unlisted


@_needs_suite
@pytest.mark.parametrize("part", ["addon", "scheduler"])
def test_scrapys_own_tests_end_with_the_add_on_or_the_scheduler_as_listed(part, tmp_path):
    known = {test for test, found in listed().items() if part in found.parts}
    assert failing(part, SELECTION, tmp_path, known | {GIVES_UP_EARLY}) == []


@_needs_suite
def test_scrapys_own_tests_of_its_http_handler_pass_with_ours(tmp_path):
    tests = ["tests/test_downloader_handler_twisted_http11.py"]
    assert failing("handler", tests, tmp_path) == []
