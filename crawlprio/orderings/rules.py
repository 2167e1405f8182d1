"""Compiled visit rules: how the visit of a page changes the keys of an ordering.

The live crawl calls the rule of its ordering for each visit, the simulator from its compiled loops,
so both compute the same keys. Each rule is defined next to its ordering; this module holds what
they share.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from crawlprio.graph.compiled import Layout, direct, load, njit
from crawlprio.graph.pages import PageIds


class NoState(NamedTuple):
    """What the state of any rule has: the other pages whose keys a visit changed.

    changed
        int32: output; pages other than the targets whose keys the rule changed.
    before
        float64: output; the keys that those pages had before.
    """

    changed: PageIds
    before: NDArray[np.float64]


NO_STATE = Layout(NoState, np.int32, np.float64)

VisitRule = Callable[..., int]
"""An `@njit(cache=True)` function of the visit and of what the ordering knows.

Its parameters are (keys, page, targets, first, last, again, numbers, sites, addresses):

keys
    float64 by page id, written by the rule. Finite; larger is sooner.
page
    The fetched page; -1 for the visit that introduces seeds.
targets
    int32, read only: the distinct pages it links to, without itself, in page order.
first, last
    Pages first, ..., last - 1 are new in this visit; the rule gives them their first keys. In a
    compiled loop all of them are targets; in a live crawl some may be pages that a spider asked
    for. A class that overrides `discover` or `observe` calls the rule twice per visit: for the
    first keys (`again`), then for the evidence (no new pages).
again
    The links are no new evidence because the page was fetched before: write first keys only.
numbers
    float64, owned by the ordering: the values of its options, and counts over the whole crawl.
sites
    int32 by page id, read only: its site. Empty unless the class `reads_sites`.
addresses
    The ordering's state, as the addresses that its `layout` reads.

The rule returns how many distinct pages it wrote into `changed`. Keys of pages below `first` may
change only in a class that sets `changes_known`.
"""


class RuleLoop:
    """A compiled loop whose first argument is a visit rule.

    The rule is called through its address, so the loop is compiled once for all rules, and a new
    ordering only compiles its rule. That requires explicit types of the arguments. References to
    arrays are not counted, which would take three quarters of the time; the loop retains none.
    """

    def __init__(self, function: Callable[..., Any]) -> None:
        self._function = function
        self._versions: dict[tuple[Any, ...], Any] = {}

    def of(self, rule: VisitRule, *arguments: Any) -> Callable[..., Any]:
        """Return the loop with this rule, compiled for further arguments of these types."""
        called = compile_rule(rule)
        from numba import typeof, types

        kinds = (types.FunctionType(_signature()), *map(typeof, arguments))
        if kinds not in self._versions:
            version = njit(cache=True, keeps_arrays=False)(self._function).dispatcher
            version.compile(kinds)
            version.disable_compile()
            self._versions[kinds] = version
        return partial(self._versions[kinds], called)


def compile_rule(rule: VisitRule) -> Callable[..., int]:
    """Return a rule compiled, or loaded from numba's cache, for live crawls and compiled loops."""
    load()
    dispatcher: Any = direct(rule)
    if dispatcher._can_compile:
        dispatcher.compile(_signature())
        dispatcher.disable_compile()
    return dispatcher  # type: ignore[no-any-return]


def _signature() -> Any:
    """Return the numba signature of all rules.

    Keys are contiguous in a live crawl, and a column of the page records in a compiled loop.
    """
    from numba import types

    page_ids = types.Array(types.int32, 1, "C", readonly=True)
    keys, numbers = (types.Array(types.float64, 1, layout) for layout in ("A", "C"))
    bounds = (types.int64, types.int64, types.boolean)
    addresses = types.Array(types.int64, 1, "C")
    return types.int64(keys, types.int64, page_ids, *bounds, numbers, page_ids, addresses)


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
