"""The rows that the frontier's compiled queue is made of, and the states that they may be in.

Nothing here knows how the queue works.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

UNKNOWN, WAITING, LEASED, DONE = 0, 1, 2, 3
NOWHERE, IN_READY, IN_DELAYED = 0, 1, 2
BY_BEST_PAGE, BY_WAITING_PAGES, BY_CALL = 0, 1, 2
NONE = -1

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
    ],
    align=True,
)
"""One page, 32 bytes. `prev` in the pairing heap: left sibling, or parent of a first child."""

SITE = np.dtype(
    [
        ("key", np.float64),
        ("ready_at", np.float64),
        ("delay", np.float64),
        ("head", np.int32),
        ("tier", np.int32),
        ("n_waiting", np.int32),
        ("n_leased", np.int32),
        ("limit", np.int32),
        ("position", np.int32),
        ("n_visited", np.int32),
        ("place", np.uint8),
    ],
    align=True,
)
"""One site. `delay` is w in seconds; `limit`: leases it may have; `n_visited`: in this visit."""

TOTALS = np.dtype(
    [
        ("n_ready", np.int64),
        ("n_delayed", np.int64),
        ("n_waiting", np.int64),
        ("n_leased", np.int64),
        ("site_rule", np.int64),
        ("pages_per_visit", np.int64),
        ("now", np.float64),
    ],
    align=True,
)

Records = NDArray[Any]
