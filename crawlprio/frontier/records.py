"""The records of the frontier's queue and the states of a page."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from crawlprio.compiled import njit

UNKNOWN, WAITING, LEASED, DONE = 0, 1, 2, 3
READY, DELAYED = 0, -1
NOWHERE = 2**31 - 1
ON_VISIT = 2**32
BY_BEST_PAGE, BY_WAITING_PAGES, BY_CALL = 0, 1, 2
NONE = -1
MAX_LEASES = 255

PAGE = np.dtype(
    [
        ("key", np.float64),
        ("child", np.int32),
        ("next", np.int32),
        ("prev", np.int32),
        ("tier", np.int32),
        ("site", np.int32),
        ("state", np.uint8),
        ("observed", np.uint8),
        ("rank", np.uint8),
        ("n_leases", np.uint8),
    ],
    align=True,
)
"""One page, 32 bytes. In the pairing heap, `prev` is the left sibling, or the parent of a first
child; `rank` counts the children of equal rank that were melded into the page while it was a child
of the root. A waiting page may also be leased, up to `MAX_LEASES` times, if it is to be fetched
more than once."""

SITE = np.dtype(
    [
        ("key", np.float64),
        ("ready_at", np.float64),
        ("delay", np.float64),
        ("turn", np.int64),
        ("head", np.int32),
        ("tier", np.int32),
        ("n_waiting", np.int32),
        ("n_leased", np.int32),
        ("limit", np.int32),
        ("position", np.int32),
        ("n_visited", np.int32),
    ],
    align=True,
)
"""One site, 64 bytes. `delay`: w, in seconds. `turn`: turns it has taken, or missed while no page
of it was waiting. `limit`: leases it may have at once. `n_visited`: pages fetched in the current
visit. `position`: row of its heap entry, or `NOWHERE`; `tier` and `key` are valid while it has
one."""

TIER, ROUND, KEY, TIE, SITE_ID = 0, 1, 2, 3, 4
"""Columns of the site heaps, one row of five float64 per site: larger tier first, then smaller
round, then larger key, then smaller tie.

For a ready site, the tier has `ON_VISIT` added during a visit and the tie is its first page. For a
delayed site, the tier is 0, the key is minus the time at which it becomes ready, and the tie is its
id."""

TOTALS = np.dtype(
    [
        ("n_ready", np.int64),
        ("n_delayed", np.int64),
        ("n_waiting", np.int64),
        ("n_leased", np.int64),
        ("site_rule", np.int64),
        ("pages_per_visit", np.int64),
        ("site_share", np.int64),
        ("turn", np.int64),
        ("now", np.float64),
        ("held_below", np.float64),
    ],
    align=True,
)
"""Totals over the queue. `site_share`: pages of a site per round, or 0 if sites take no turns.
`turn`: the latest turn of any site. `held_below`: pages with a smaller key are held back."""

Records = NDArray[Any]
Entries = NDArray[np.float64]


class Queue(NamedTuple):
    """The arrays of a queue, the first arguments of all its functions.

    They are four arguments because numba takes twice as long to unbox a NamedTuple of them: 0.7
    microseconds more in each call from Python, of which there are four or more per page.
    """

    pages: Records
    sites: Records
    heap: Entries
    totals: Records


def new_sites(n: int, limit: int, delay: float) -> Records:
    """Return records of sites without pages, with a limit of leases and a delay in seconds."""
    sites = np.zeros(n, dtype=SITE)
    sites["head"] = NONE
    sites["position"] = NOWHERE
    sites["limit"] = limit
    sites["delay"] = delay
    sites["ready_at"] = -np.inf
    return sites


@njit(cache=True, inline="always")
def wide(number: int) -> int:
    """Return a record field or constant as int64, the one integer type that kernels pass around.

    Without it, numba would compile a kernel again for each combination of integer types.
    """
    return np.int64(number)  # type: ignore[return-value]


def all_are_held(pages: Records, sites: Records, totals: Records) -> bool:
    """Return whether pages wait and all of them are held back. O(sites)."""
    held_below = totals["held_below"][0]
    if held_below == -np.inf:
        return False
    heads = pages[sites["head"][sites["head"] >= 0]]
    return bool(len(heads) and ((heads["key"] < held_below) & (heads["tier"] <= 0)).all())
