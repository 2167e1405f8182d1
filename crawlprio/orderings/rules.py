"""Compiled rules: what the visit of a page does to the keys of the pages that an ordering ranks.

The live crawl calls the rule of its ordering for each visit, the simulator from its compiled loops,
so that both rank alike. Each rule stands beside its ordering; here is what they have in common.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from typing import Any

import numpy as np
from numba import njit, typeof, types
from numpy.typing import NDArray

from crawlprio.pages import PageIds

Floats = NDArray[np.float64]

State = tuple[()] | tuple[Floats, Floats, PageIds, PageIds]
"""What a rule may keep and read besides keys and numbers, if its class sets `has_state`.

values
    float64, shape (pages, `n_values`): what the ordering keeps of each page, 0 at first.
site_values
    float64, shape (sites, `n_site_values`): what it keeps of each site, 0 at first.
sites
    int32 by page id: its site.
changed
    int32, room for `MOST_CHANGED` page ids.
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
    In a compiled loop all of them are targets. In a live crawl some may be pages that a spider
    asked for, and each visit comes in two calls: first keys (`again`), then evidence (none new).
again
    The links are no evidence, as the page was fetched before: write first keys and nothing else.
numbers
    float64, the ordering's own: what its options say, and counts over the whole crawl.
state
    The four arrays of `State`, or nothing.

It returns how many ids it wrote into `changed`: pages besides the targets whose keys it changed,
distinct. Keys of pages below `first` may change only in a class that sets `changes_known`.
"""

MOST_CHANGED = 1024
"""Pages besides its targets whose keys a visit may change, so that the work for it is bounded."""

_PAGE_IDS = types.Array(types.int32, 1, "C")
_VALUES = types.Array(types.float64, 2, "C")
_PLAIN = (
    types.Array(types.float64, 1, "A"),
    types.int64,
    _PAGE_IDS,
    types.int64,
    types.int64,
    types.boolean,
    types.Array(types.float64, 1, "C"),
)
_STATE = (_VALUES, _VALUES, _PAGE_IDS, _PAGE_IDS)


class RuleLoop:
    """A compiled loop that gets a visit rule and its state first; compiled once for all rules.

    The rule is called through its address, so that a new ordering compiles its rule alone. Numba
    then has to be told the types of the other arguments, which are those of the first call.
    """

    def __init__(self, function: Callable[..., Any]) -> None:
        self._function = function
        self._versions: list[Any] = []

    def __call__(self, rule: VisitRule, state: State, *arguments: Any) -> Any:
        for version in self._versions:
            with suppress(TypeError):  # it is for arguments of other types
                return version(rule, state, *arguments)
        called = types.int64(*_PLAIN, *(_STATE if state else ()))
        kinds = map(typeof, (state, *arguments))
        version = _without_counting(self._function, (types.FunctionType(called), *kinds))
        self._versions.append(version)
        return version(rule, state, *arguments)


def _without_counting(function: Callable[..., Any], signature: tuple[Any, ...]) -> Any:
    """Compile a loop that keeps no array, so that references to arrays need not be counted.

    Counting them, atomically, takes three quarters of its time. The option is numba's own and not
    documented; without it the loop does the same, slower.
    """
    try:
        return njit(signature, cache=True, _nrt=False)(function)
    except KeyError:
        return njit(signature, cache=True)(function)


@njit(cache=True)
def uniform(seed: int, index: int) -> float:
    """Number `index` of the SplitMix64 sequence that starts at `seed`, as a float in [0, 1).

    Source: Steele, Lea & Flood, Fast splittable pseudorandom number generators, OOPSLA 2014.
    """
    x = np.uint64(seed) + np.uint64(index + 1) * np.uint64(0x9E3779B97F4A7C15)
    x = (x ^ (x >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    x = (x ^ (x >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    x ^= x >> np.uint64(31)
    return float(x >> np.uint64(11)) * 2.0**-53
