"""Compiled rules: what the visit of a page does to the keys of the pages that an ordering ranks.

The live crawl calls the rule of its ordering for each visit, the simulator from its compiled loops,
so that both rank alike. Each rule stands beside its ordering; here is what they have in common.
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
"""What a rule keeps and reads besides keys and numbers: nothing, or arrays, of which the last three
are

sites
    int32 by page id: its site.
changed
    int32: where the rule writes the pages besides the targets whose keys it changed.
before
    float64: where it writes the keys that they had.
"""

VisitRule = Callable[..., int]
"""An `@njit(cache=True)` function of (keys, page, targets, first, last, again, numbers, *state).

keys
    float64 by page id: the rule writes them. Finite; larger is sooner.
page
    the fetched page; -1 for the visit that shows seeds.
targets
    int32: the pages it links to, distinct, without itself, in page order.
first, last
    Pages first, ..., last - 1 are new, shown by this visit; the rule gives them their first keys.
    In a compiled loop all of them are targets; in a live crawl some may be pages that a spider
    asked for. A class that overrides `discover` or `observe` calls the rule twice for each visit:
    for first keys (`again`), then for the evidence (none new).
again
    The links are no evidence, as the page was fetched before: write first keys and nothing else.
numbers
    float64, the ordering's own: what its options say, and counts over the whole crawl.
state
    The arrays of `State`, or nothing.

It returns how many pages it wrote into `changed`, none of them twice. Keys of pages below `first`
may change only in a class that sets `changes_known`.
"""


class RuleLoop:
    """A compiled loop that is given a visit rule and its state first; compiled once for all rules.

    The rule is called through its address, so that a new ordering compiles its rule alone. Numba
    has to be told the types of the other arguments for that: those of the first call, and again
    where a call brings others.
    """

    def __init__(self, function: Callable[..., Any]) -> None:
        self._function = function
        self._versions: dict[tuple[Any, ...], Any] = {}

    def __call__(self, rule: VisitRule, state: State, *arguments: Any) -> Any:
        called = compiled.dispatcher(rule)
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
        """The types of all arguments, as numba has them."""
        import numba

        numbers = numba.types.Array(numba.types.float64, 1, "A")
        called = numba.types.FunctionType(_signature(state, numbers))
        return (called, *map(numba.typeof, (state, *arguments)))


def compile_rule(rule: VisitRule, state: State) -> None:
    """Compile a rule, or load it from numba's cache, for a live crawl and for compiled loops.

    Parameters
    ----------
    state
        of the types that the rule gets; arrays may be empty.
    """
    from numba import types

    dispatcher = compiled.dispatcher(rule)
    dispatcher.compile(_signature(state, types.Array(types.float64, 1, "C")).args)
    # With what it returns, as where its address is taken: numba's cache tells these two apart.
    dispatcher.compile(_signature(state, types.Array(types.float64, 1, "A")))


def _signature(state: State, keys: Any) -> Any:
    """Numba's type of a rule that gets keys of this type."""
    from numba import typeof, types

    page_ids = types.Array(types.int32, 1, "C")
    numbers = types.Array(types.float64, 1, "C")
    bounds = (types.int64, types.int64)
    rest = map(typeof, state)
    return types.int64(keys, types.int64, page_ids, *bounds, types.boolean, numbers, *rest)


def _without_counting(function: Callable[..., Any], kinds: tuple[Any, ...]) -> Any:
    """Compile a loop that keeps no array; counting references takes three quarters of its time."""
    dispatcher = compiled.uncounted(function)
    dispatcher.compile(kinds)
    dispatcher.disable_compile()
    return dispatcher


@njit(cache=True, plain=True)
def uniform(seed: int, index: int) -> float:
    """Number `index` of the SplitMix64 sequence that starts at `seed`, as a float in [0, 1).

    Source: Steele, Lea & Flood, Fast splittable pseudorandom number generators, OOPSLA 2014.
    """
    x = np.uint64(seed) + np.uint64(index + 1) * np.uint64(0x9E3779B97F4A7C15)
    x = (x ^ (x >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    x = (x ^ (x >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    x ^= x >> np.uint64(31)
    return float(x >> np.uint64(11)) * 2.0**-53
