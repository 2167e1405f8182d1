"""Arrays that grow with a crawl."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray


def with_room(array: NDArray[Any], n: int, fill: int = 0) -> NDArray[Any]:
    """Return the array if it has at least n elements, or else a longer copy padded with `fill`.

    A copy is at least twice as long, so that growing by one element is amortised O(1).
    """
    if n <= len(array):
        return array
    # Memory from `zeros` is taken when it is first written to.
    room = np.zeros(max(n, 2 * len(array), 64), dtype=array.dtype)
    room[: len(array)] = array
    if fill:
        room[len(array) :] = fill
    return room
