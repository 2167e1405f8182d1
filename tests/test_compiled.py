"""Compiled functions that do not count references to arrays."""

import subprocess
import sys

import numba
import numpy as np
import pytest
from numba.core.cpu import CPUTargetOptions

from crawlprio.graph import compiled
from crawlprio.graph.compiled import njit


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
