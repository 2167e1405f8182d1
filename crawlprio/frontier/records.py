"""The records of the frontier's queue, and the states of a page."""

from __future__ import annotations

from typing import Any

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
"""One page, 32 bytes. `prev` in the pairing heap: left sibling, or parent of a first child; `rank`
tells how many equals were melded into it when the page was a child of the root. A page that waits
may be leased too, up to `MAX_LEASES` times, where it is to be fetched more than once."""

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
"""One site, 64 bytes. `delay` is w in seconds; `turn`: pages it has given, and missed while none
of it waited; `limit`: leases it may have; `n_visited`: in this visit; `position`: row of its
entry, or `NOWHERE`. `tier` and `key` are kept while it has one."""

TIER, ROUND, KEY, TIE, SITE_ID = 0, 1, 2, 3, 4
"""Columns of the heaps of sites, a row of five float64 for each: larger tier first, then smaller
round, then larger key, then smaller tie.

The tier of a ready site has `ON_VISIT` added during a visit, and its tie is its first page. Of a
delayed one the tier is 0, the key minus the time at which it is ready, the tie its number."""

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
    ],
    align=True,
)
"""The whole queue. `site_share`: pages of a site in a round, 0 where sites take no turns; `turn`:
the latest of any site."""

Records = NDArray[Any]
Entries = NDArray[np.float64]


@njit(cache=True, inline="always")
def wide(number: int) -> int:
    """Return a field of a record, or a constant, as the one type of integer that kernels pass on.

    For each combination of types a kernel would be compiled once more.
    """
    return np.int64(number)  # type: ignore[return-value]
