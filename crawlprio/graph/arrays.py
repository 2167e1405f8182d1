"""The types of arrays, and the checks of those, and of numbers, that callers give.

Compiled code reads and writes only what passed here.
"""

from __future__ import annotations

import functools
import inspect
import math
from collections.abc import Callable
from typing import Any, ParamSpec, TypeVar

import numpy as np
from numpy.typing import NDArray

from crawlprio.errors import ConfigError, GraphError

Floats = NDArray[np.float64]
Longs = NDArray[np.int64]
Ints = NDArray[np.int32]
Flags = NDArray[np.bool_]

P = ParamSpec("P")
R = TypeVar("R")


def integers(
    name: str,
    values: Any,
    dtype: type[np.signedinteger[Any]] = np.int64,
    *,
    length: int | None = None,
    below: int | None = None,
) -> NDArray[Any]:
    """Return a contiguous one-dimensional array of this type; raise GraphError if impossible.

    `length`: number of elements it must have; default: any. `below`: bound on ids: each must be 0
    or more and below this; default: any integer.
    """
    array = _one_dimensional(name, values, length, dtype)
    if array.dtype.kind not in "iu":
        raise GraphError(f"{name} holds {array.dtype}; it must hold integers.")
    if array.size:
        least, most = int(array.min()), int(array.max())
        if below is not None and not 0 <= least <= most < below:
            k = int(np.argmax((array < 0) | (array >= below)))
            raise GraphError(f"{name}[{k}] is {array[k]}; give 0 or more, below {below}.")
        bounds = np.iinfo(dtype)
        if least < bounds.min or most > bounds.max:
            raise GraphError(
                f"{name} holds values from {least} to {most}; they must fit {np.dtype(dtype)}."
            )
    return np.ascontiguousarray(array, dtype=dtype)


def numbers(name: str, values: Any, *, length: int | None = None) -> NDArray[np.float64]:
    """Return a contiguous one-dimensional float64 array; raise GraphError if impossible."""
    array = _one_dimensional(name, values, length, np.float64)
    if array.dtype.kind not in "fiub":
        raise GraphError(f"{name} holds {array.dtype}; it must hold numbers.")
    return np.ascontiguousarray(array, dtype=np.float64)


def mask(name: str, values: Any) -> NDArray[np.bool_]:
    """Return a contiguous one-dimensional array of bool; raise GraphError if impossible."""
    array = _one_dimensional(name, values, None, np.bool_)
    if array.dtype.kind != "b":
        raise GraphError(f"{name} holds {array.dtype}; it must hold True or False.")
    return np.ascontiguousarray(array, dtype=np.bool_)


def takes(
    **kinds: Callable[[str, Any], NDArray[Any]],
) -> Callable[[Callable[P, R]], Callable[P, R]]:
    """Check arguments by name, with `integers`, `numbers` or `mask`, before a function runs.

    An argument that is None is left as it is. Arguments checked with `numbers` or `mask` have one
    element per page, so they must be of one length.
    """

    def decorate(function: Callable[P, R]) -> Callable[P, R]:
        signature = inspect.signature(function)

        @functools.wraps(function)
        def checked(*args: P.args, **kwargs: P.kwargs) -> R:
            bound = signature.bind(*args, **kwargs)
            per_page: tuple[str, int] | None = None
            for name, kind in kinds.items():
                if bound.arguments.get(name) is None:
                    continue
                bound.arguments[name] = array = kind(name, bound.arguments[name])
                if kind is not integers:
                    first, length = per_page = per_page or (name, len(array))
                    if len(array) != length:
                        raise GraphError(
                            f"{first} has {length} elements and {name} has {len(array)}; both must "
                            "have one per page."
                        )
            return function(*bound.args, **bound.kwargs)

        return checked

    return decorate


def checked_number(
    of: str,
    option: str,
    value: Any,
    *,
    least: float | None = None,
    above: float | None = None,
    below: float | None = None,
    whole: bool = False,
) -> float:
    """Return an option of `of` as a number; raise ConfigError, which names both, if invalid."""
    kind = "a whole number" if whole else "a number"
    bound = "" if least is None else f" of {least:g} or more"
    bound += "" if above is None else f" above {above:g}"
    bound += "" if below is None else f", below {below:.16g}"
    try:
        number = math.nan if isinstance(value, bool) else float(value)
    except (TypeError, ValueError, OverflowError):
        number = math.nan
    if (
        not math.isfinite(number)
        or (whole and number != int(number))
        or (least is not None and number < least)
        or (above is not None and number <= above)
        or (below is not None and number >= below)
    ):
        raise ConfigError(f"{of}: {option} is {value!r}; give {kind}{bound}.")
    return number


def flat(name: str, values: Any) -> NDArray[Any]:
    """Return the elements of an array of any shape; raise GraphError if it is not an array."""
    try:
        return np.ravel(values)
    except (TypeError, ValueError) as error:
        raise GraphError(f"{name} is not an array ({error}); give one of numbers.") from None


def _one_dimensional(
    name: str, values: Any, length: int | None, when_empty: type[np.generic]
) -> NDArray[Any]:
    """Return an array of one dimension; an empty one, whose type says nothing, of a given type."""
    flat(name, values)
    array = np.asarray(values)
    if array.ndim != 1:
        raise GraphError(f"{name} has {array.ndim} dimensions; it must have one.")
    if length is not None and len(array) != length:
        raise GraphError(f"{name} has {len(array)} elements; it must have {length}.")
    return array if array.size else np.empty(0, when_empty)
