"""Arrays that grow as a crawl does."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray


def with_room(array: NDArray[Any], n: int, fill: int = 0) -> NDArray[Any]:
    """Return an array, or a longer copy with `fill` behind it, of at least n elements.

    A copy has at least twice the length, so that growing one by one is O(1) each.
    """
    if n <= len(array):
        return array
    room = np.full(max(n, 2 * len(array), 64), fill, dtype=array.dtype)
    room[: len(array)] = array
    return room
