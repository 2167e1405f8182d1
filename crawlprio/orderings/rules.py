"""Compiled visit rules: how the visit of a page changes the keys of an ordering.

The live crawl calls the rule of its ordering for each visit, the simulator from its compiled loops,
so both compute the same keys. Each rule is defined next to its ordering; this module holds what
they share.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from crawlprio import compiled
from crawlprio.compiled import njit

Floats = NDArray[np.float64]

State = tuple[Any, ...]
"""A rule's state besides keys and numbers: nothing, or arrays, of which the last three are

sites
    int32 by page id: its site.
changed
    int32: output; pages other than the targets whose keys the rule changed.
before
    float64: output; the keys that those pages had before.
"""

VisitRule = Callable[..., int]
"""An `@njit(cache=True)` function of (keys, page, targets, first, last, again, numbers, *state).

keys
    float64 by page id, written by the rule. Finite; larger is sooner.
page
    The fetched page; -1 for the visit that introduces seeds.
targets
    int32: the distinct pages it links to, without itself, in page order.
first, last
    Pages first, ..., last - 1 are new in this visit; the rule gives them their first keys. In a
    compiled loop all of them are targets; in a live crawl some may be pages that a spider asked
    for. A class that overrides `discover` or `observe` calls the rule twice per visit: for the
    first keys (`again`), then for the evidence (no new pages).
again
    The links are no new evidence because the page was fetched before: write first keys only.
numbers
    float64, owned by the ordering: the values of its options, and counts over the whole crawl.
state
    The arrays of `State`, or nothing.

The rule returns how many distinct pages it wrote into `changed`. Keys of pages below `first` may
change only in a class that sets `changes_known`.
"""


class RuleLoop:
    """A compiled loop whose first arguments are a visit rule and its state.

    The rule is called through its address, so the loop is compiled once for all rules, and a new
    ordering only compiles its rule. That requires explicit argument types: the loop is compiled for
    the types of its first call, and again when a call has other types.
    """

    def __init__(self, function: Callable[..., Any]) -> None:
        self._function = function
        self._versions: dict[tuple[Any, ...], Any] = {}

    def __call__(self, rule: VisitRule, state: State, *arguments: Any) -> Any:
        called = compiled.direct(rule)
        kinds: tuple[Any, ...] | None = None
        for known, version in self._versions.items():
            try:
                return version(called, state, *arguments)
            except TypeError:
                kinds = kinds or self._kinds(state, arguments)
                if kinds == known:
                    raise
        kinds = kinds or self._kinds(state, arguments)
        self._versions[kinds] = version = _without_counting(self._function, kinds)
        return version(called, state, *arguments)

    @staticmethod
    def _kinds(state: State, arguments: tuple[Any, ...]) -> tuple[Any, ...]:
        """The numba types of all arguments."""
        import numba

        numbers = numba.types.Array(numba.types.float64, 1, "A")
        called = numba.types.FunctionType(_signature(state, numbers))
        return (called, *map(numba.typeof, (state, *arguments)))


def compile_rule(rule: VisitRule, state: State) -> None:
    """Compile a rule, or load it from numba's cache, for a live crawl and for compiled loops.

    Parameters
    ----------
    state
        Arrays of the types that the rule gets; they may be empty.
    """
    from numba import types

    compiled.load()
    dispatcher: Any = compiled.direct(rule)
    dispatcher.compile(_signature(state, types.Array(types.float64, 1, "C")).args)
    # Taking the address uses a signature with a return type, which numba caches separately.
    dispatcher.compile(_signature(state, types.Array(types.float64, 1, "A")))


def _signature(state: State, keys: Any) -> Any:
    """Return the numba signature of a rule whose keys have this type."""
    from numba import typeof, types

    page_ids = types.Array(types.int32, 1, "C")
    numbers = types.Array(types.float64, 1, "C")
    bounds = (types.int64, types.int64)
    rest = map(typeof, state)
    return types.int64(keys, types.int64, page_ids, *bounds, types.boolean, numbers, *rest)


def _without_counting(function: Callable[..., Any], kinds: tuple[Any, ...]) -> Any:
    """Compile a loop without reference counting, which would take three quarters of its time.

    Safe because the loop retains no array.
    """
    dispatcher = njit(cache=True, keeps_arrays=False)(function).dispatcher
    dispatcher.compile(kinds)
    dispatcher.disable_compile()
    return dispatcher


@njit(cache=True, plain=True)
def uniform(seed: int, index: int) -> float:
    """Return number `index` of the SplitMix64 sequence from `seed`, as a float in [0, 1).

    Source: Steele, Lea & Flood, Fast splittable pseudorandom number generators, OOPSLA 2014.
    """
    x = np.uint64(seed) + np.uint64(index + 1) * np.uint64(0x9E3779B97F4A7C15)
    x = (x ^ (x >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    x = (x ^ (x >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    x ^= x >> np.uint64(31)
    return float(x >> np.uint64(11)) * 2.0**-53
