"""Compiled functions that do not count references to arrays."""

import os
import shutil
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from threading import Barrier

import numba
import numpy as np
import pytest
from numba.core.cpu import CPUTargetOptions

from crawlprio.graph import compiled
from crawlprio.graph.compiled import njit
from crawlprio.orderings.base import compile_rule

PACKAGE = Path(compiled.__file__).parents[1]


def add_halves(into, numbers):
    """Add the second half of the numbers to the first; takes a slice."""
    half = numbers[len(numbers) // 2 :]
    for at in range(len(half)):
        into[at] += half[at]
    return float(into[0])


def check(function):
    into = np.array([1.0, 2.0])
    assert function(into, np.array([0.0, 0.0, 10.0, 20.0])) == 11.0
    assert into.tolist() == [11.0, 22.0]


def test_a_function_that_keeps_no_array_behaves_as_in_python():
    check(add_halves)
    compiled.load()
    function = njit(keeps_arrays=False)(add_halves)
    check(function)
    assert function.targetoptions["_nrt"] is False


def test_references_are_counted_where_numba_must_count_them(monkeypatch):
    """The option is undocumented; without it, Numba refuses to compile a function that uses it."""
    compiled.load()
    owner = next(cls for cls in CPUTargetOptions.__mro__ if "_nrt" in vars(cls))
    monkeypatch.delattr(owner, "_nrt")
    with pytest.raises(KeyError, match="_nrt"):
        check(numba.njit(_nrt=False)(add_halves))
    function = njit(keeps_arrays=False)(add_halves)
    check(function)
    assert "_nrt" not in function.targetoptions


@njit(cache=True)
def first(numbers):
    return float(numbers[0])


@njit(cache=True)
def twice_the_first(numbers):
    return 2.0 * first(numbers)


def test_compiled_functions_call_each_other_by_name():
    """Numba sees the stand-in of a function as the function's dispatcher."""
    assert twice_the_first(np.array([3.0])) == 6.0
    twice = twice_the_first
    assert twice.dispatcher.signatures


def test_bounds_checks_see_functions_that_an_earlier_run_cached_without(monkeypatch):
    def at(numbers, place):
        return float(numbers[place])

    unchecked = njit(cache=True)(at)
    assert unchecked(np.zeros(1), 0) == 0.0
    monkeypatch.setattr(numba.config, "BOUNDSCHECK", 1)
    checked = njit(cache=True)(at)
    with pytest.raises(IndexError):
        checked(np.zeros(1), 5)


IMPORTING = """
import sys

class Finder:
    @staticmethod
    def find_spec(name, path=None, target=None):
        if name == "numba":
            "a".encode("cp1251")

sys.meta_path.insert(0, Finder)
from crawlprio.graph import compiled
compiled.load()
"""


def test_codecs_are_found_while_numba_is_imported():
    """A crawl imports it in a thread; Python gives `__import__` of a codec by named arguments."""
    subprocess.run([sys.executable, "-c", IMPORTING], check=True, timeout=120)


def test_a_rule_is_compiled_once_for_two_crawls_that_need_it_at_the_same_time():
    def keeps_keys(keys, first, page_ids, n_new, n_known, repeats, numbers, changed, state):
        return 0

    compiled.load()
    rule, both = njit()(keeps_keys), Barrier(2)

    def compile_with_the_other(_):
        both.wait()
        return compile_rule(rule)

    with ThreadPoolExecutor(2) as pool:
        first, second = pool.map(compile_with_the_other, range(2))
    assert first is second


def test_compiled_code_is_loaded_without_scipy_and_may_still_call_it():
    code = """if True:
        import sys
        import numpy as np
        from crawlprio.graph.compiled import load, njit

        @njit()
        def correlations(rows):
            return np.corrcoef(rows)

        load()
        assert "scipy.linalg" not in sys.modules
        rows = np.array([[1.0, 2.0, 4.0], [3.0, 1.0, 2.0]])
        assert np.allclose(correlations(rows), np.corrcoef(rows))
    """
    subprocess.run([sys.executable, "-c", code], check=True)


def test_compiled_code_is_not_used_after_a_change_of_a_function_that_it_calls(tmp_path):
    """Numba compares only the file of the function itself, as after `git pull` in a clone."""
    shutil.copytree(PACKAGE, tmp_path / "crawlprio", ignore=shutil.ignore_patterns("__pycache__"))
    ranking = tmp_path / "crawlprio" / "ranking"
    (ranking / "outer.py").write_text(
        "from crawlprio.graph.compiled import njit\nfrom crawlprio.ranking.inner import inner\n\n"
        "@njit(cache=True)\ndef outer():\n    return inner()\n"
    )
    code = """if True:
        from crawlprio.graph.compiled import load
        from crawlprio.ranking.outer import outer
        load()
        print(outer())
    """
    for number in ("1", "2"):
        (ranking / "inner.py").write_text(
            "from crawlprio.graph.compiled import njit\n\n"
            f"@njit(cache=True)\ndef inner():\n    return {number}\n"
        )
        line = [sys.executable, "-P", "-c", code]
        # Python's own cache misses a change of as many bytes within the same second.
        changed = {"PYTHONPATH": str(tmp_path), "PYTHONDONTWRITEBYTECODE": "1"}
        environment = os.environ | changed
        environment.pop("NUMBA_CACHE_DIR", None)
        run = subprocess.run(line, env=environment, capture_output=True, text=True, check=True)
        assert run.stdout.split() == [number]
