"""What an ordering has learned, as arrays, if its rule alone learns."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import DTypeLike, NDArray

from crawlprio.orderings.base import CompiledOrdering

_BLOCK = 4096


def learned_arrays(ordering: CompiledOrdering) -> dict[str, NDArray[Any]]:
    """Return all that an ordering has learned."""
    state = ordering.state._asdict()
    sizes = [ordering._n_links, *ordering._room, *map(len, state.values())]
    learned = {f"state.{name}": _without_room(array) for name, array in state.items()}
    known = {"keys": ordering.keys[: ordering.n_pages], "numbers": ordering.numbers}
    return learned | known | {"sizes": np.array(sizes)}


def restore_learned(
    ordering: CompiledOrdering, take: Callable[[str, DTypeLike], NDArray[Any]]
) -> None:
    """Replace all that an open ordering has learned by such arrays, given by name."""
    ordering.keys = take("keys", np.float64)
    ordering.n_pages = len(ordering.keys)
    ordering.numbers = take("numbers", np.float64)
    sizes = take("sizes", np.int64).tolist()
    ordering._n_links, ordering._room = sizes[0], tuple(sizes[1:5])
    learned = {}
    for (name, empty), size in zip(ordering.state._asdict().items(), sizes[5:], strict=True):
        learned[name] = np.zeros(size, dtype=empty.dtype)
        known = take(f"state.{name}", empty.dtype)
        learned[name][: len(known)] = known
    ordering._set_state(ordering.state._replace(**learned))


def _without_room(array: NDArray[Any]) -> NDArray[Any]:
    """Return an array without the zeros at its end, which are room for more."""
    end, content = len(array), array.view(np.uint8)
    while end and not content[max(end - _BLOCK, 0) * array.itemsize : end * array.itemsize].any():
        end = max(end - _BLOCK, 0)
    return array[:end]
