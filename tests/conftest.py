"""Shared fixtures, and the mark of modules that are slow because they run other processes."""

import inspect
import os
import re
from collections import Counter
from functools import cache
from pathlib import Path

import pytest

# Threads of BLAS for matrices of 150 rows wait for each other, a hundred times as long as they
# compute when other processes keep the processors busy. Set before anything loads NumPy.
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

from redis_servers import redis_cluster, redis_server, shared_cluster, shared_server

pytest.register_assert_rewrite("crawlprio.testing")

__all__ = ["redis_cluster", "redis_server", "shared_cluster", "shared_server"]


@pytest.fixture
def path(tmp_path):
    """Where the store of a test is, or will be."""
    return tmp_path / "crawl.sqlite"


_SLOW = frozenset(("crawls", "redis_servers", "suite", "subprocess", "multiprocessing"))
"""Modules whose users run a crawl, a server or another process."""

_LONGEST = (
    *("test_workers", "test_redis_faults", "test_certified_webs", "test_redis_coordinator"),
    *("test_docs_code", "test_upstream_selection", "test_live_order", "test_html_splitter"),
    *("test_faults", "test_random_spiders"),
    *("test_foreign_folders", "test_container", "test_without_plugins", "test_kills"),
)
"""The modules that take longest, half a minute and more of one process."""

_LONG = frozenset(
    (
        *("test_upstream_selection", "test_container", "test_foreign_folders"),
        *("test_without_plugins", "test_render_memory"),
    )
)
"""The modules that run in `make test-long` alone: other people's tests, whole installations."""

_IMPORT = re.compile(r"^(?:from|import) (\w+)", re.MULTILINE)


def pytest_ignore_collect(collection_path, config):
    """Do not even import the slow modules for `make check`."""
    if collection_path.suffix == ".py" and config.option.markexpr == "not slow":
        return _reaches(collection_path, _SLOW) or None
    return None


@pytest.hookimpl(tryfirst=True)  # before -m chooses
def pytest_collection_modifyitems(items):
    """Mark as `slow` the tests of modules that import, even indirectly, one of `_SLOW`.

    Those of `_LONG` are marked as `long`; those that try more examples in a long run, as `sampled`.
    Of the cases of a test that is marked as `sampled(n)`, all but n, evenly chosen, are `long`.

    Their modules run first, `_LONGEST` before others and then those with the fewest tests: a module
    with two tests that kill crawls takes minutes, and started last it would keep one process busy
    and the others idle.
    """
    n_tests = Counter(item.path for item in items)
    n_cases = Counter(map(_function, items))
    n_seen = Counter()
    rank = {f"{name}.py": number for number, name in enumerate(_LONGEST)}
    for item in items:
        if _reaches(item.path, _SLOW):
            item.add_marker("slow")
        name, sampled = _function(item), item.get_closest_marker("sampled")
        n_short = sampled.args[0] if sampled and sampled.args else n_cases[name]
        if item.path.stem in _LONG or n_seen[name] * n_short % n_cases[name] >= n_short:
            item.add_marker("long")
        n_seen[name] += 1
        if "examples(" in inspect.getsource(item.function):
            item.add_marker("sampled")
    items.sort(
        key=lambda item: (
            not _reaches(item.path, _SLOW),
            rank.get(item.path.name, len(rank)),
            n_tests[item.path],
        )
    )


def _function(item):
    """Return the name of the test that an item is a case of."""
    return item.nodeid.partition("[")[0]


@cache
def _reaches(file, wanted):
    """Return whether a module of the tests imports one of some modules, even indirectly."""
    names = set(_IMPORT.findall(file.read_text()))
    if names & wanted:
        return True
    tests = Path(__file__).parent
    files = [tests / folder / f"{name}.py" for name in sorted(names) for folder in ("", "kit")]
    return any(_reaches(other, wanted) for other in files if other.exists())
