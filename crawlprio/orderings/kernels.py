"""Compiled rules that orderings are made of: the key of a new page, and what a visit does to keys.

The live crawl calls them once per visit, the simulator from its compiled loop; they know arrays
only.
"""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from crawlprio.compiled import njit

CONSTANT, RANDOM, STEP, PARENT_SHARE, RANDOM_OF_TABLE = 0, 1, 2, 3, 4
"""Rules for the key of a page when it is discovered."""

NOTHING, COUNT_BACKLINKS, SPREAD_CASH, SHARE_VALUE = 0, 1, 2, 3
"""Rules for what the links of a fetched page do to the keys of their targets."""


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


@njit(cache=True, plain=True)
def first_key(
    rule: int,
    constant: float,
    seed: int,
    table: NDArray[np.float64],
    page: int,
    step: int,
    parent_key: float,
    parent_share: float,
) -> float:
    """Key of a page when it is discovered, in visit number `step` (0: a seed).

    `RANDOM`: the page's clock starts at the time `-parent_key` and runs for an exponentially
    distributed time; the key is minus the time at which it ends. 1 - u is exact and above 0.
    """
    if rule == RANDOM:
        return parent_key + math.log(1.0 - uniform(seed, page))
    if rule == STEP:
        return float(step)
    if rule == PARENT_SHARE:
        return parent_share
    if rule == RANDOM_OF_TABLE:
        return float(table[int(uniform(seed, page) * len(table))])
    return constant


@njit(cache=True, plain=True)
def first_keys(
    rule: int,
    constant: float,
    seed: int,
    table: NDArray[np.float64],
    first: int,
    last: int,
    step: int,
    parent_key: float,
    parent_share: float,
    keys: NDArray[np.float64],
) -> None:
    """Write the keys of the pages first, ..., last - 1, all discovered in the same visit."""
    for page in range(first, last):
        keys[page] = first_key(rule, constant, seed, table, page, step, parent_key, parent_share)


@njit(cache=True, plain=True)
def share_of_link(rule: int, key: float, n_links: int) -> float:
    """What each target of a fetched page with this key gains; 0 where the rule changes nothing."""
    if n_links == 0 or rule == NOTHING:
        return 0.0
    if rule == COUNT_BACKLINKS:
        return 1.0
    return key / n_links


@njit(cache=True, plain=True)
def apply_evidence(
    rule: int,
    keys: NDArray[np.float64],
    page: int,
    targets: NDArray[np.int32],
    n_ranked: int,
) -> None:
    """Let the links of fetched page `page` change the keys of their targets.

    `SPREAD_CASH`: the page's key is split evenly and gone. `SHARE_VALUE`: targets from id
    `n_ranked` on gain the page's key divided by its number of links; the page keeps its own.
    """
    if page < 0:
        return
    share = share_of_link(rule, keys[page], len(targets))
    if share == 0.0:
        return
    if rule == SPREAD_CASH:
        keys[page] = 0.0
    for target in targets:
        if rule != SHARE_VALUE or target >= n_ranked:
            keys[target] += share
