"""Checks of the arrays that callers give: compiled code reads and writes only what passed here."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from crawlprio.errors import GraphError


def integers(
    name: str,
    values: Any,
    dtype: type[np.signedinteger[Any]] = np.int64,
    *,
    length: int | None = None,
    below: int | None = None,
) -> NDArray[Any]:
    """Return a contiguous one-dimensional array of this type; raise GraphError if impossible.

    Parameters
    ----------
    length
        Number of elements it must have; default: any.
    below
        Bound on ids: each must be 0 or more and below this; default: any integer.
    """
    array = _one_dimensional(name, values, length)
    if array.dtype.kind not in "iu" and array.size:
        raise GraphError(f"{name} holds {array.dtype}; it must hold integers.")
    if array.size:
        least, most = int(array.min()), int(array.max())
        if below is not None and not 0 <= least <= most < below:
            raise GraphError(f"{name} holds ids from {least} to {most}; give 0 to {below - 1}.")
        bounds = np.iinfo(dtype)
        if least < bounds.min or most > bounds.max:
            raise GraphError(
                f"{name} holds values from {least} to {most}; they must fit {np.dtype(dtype)}."
            )
    return np.ascontiguousarray(array, dtype=dtype)


def numbers(name: str, values: Any, *, length: int | None = None) -> NDArray[np.float64]:
    """Return a contiguous one-dimensional float64 array; raise GraphError if impossible."""
    array = _one_dimensional(name, values, length)
    if array.dtype.kind not in "fiub" and array.size:
        raise GraphError(f"{name} holds {array.dtype}; it must hold numbers.")
    return np.ascontiguousarray(array, dtype=np.float64)


def _one_dimensional(name: str, values: Any, length: int | None) -> NDArray[Any]:
    try:
        array = np.asarray(values)
    except (TypeError, ValueError) as error:
        raise GraphError(f"{name} is no array ({error}); give one dimension of numbers.") from None
    if array.ndim != 1:
        raise GraphError(f"{name} has {array.ndim} dimensions; it must have one.")
    if length is not None and len(array) != length:
        raise GraphError(f"{name} has {len(array)} elements; it must have {length}.")
    return array
