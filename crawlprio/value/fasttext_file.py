"""The check of a fastText model file, before the library that reads it.

That library does not notice the end of a file: with a model cut short it allocates memory without
end, or divides by zero. The layout is that of fastText's versions 11 and 12, dense or quantized.
"""

from __future__ import annotations

import mmap
import struct
from pathlib import Path

MAGIC = 793_712_314
SUPERVISED = 3

_HEADER = struct.Struct("<2i12id3i2q")
"""Magic, version, 12 arguments (the 8th is the kind of model) and a last one; then numbers of
entries, words and labels, of tokens, and of pruned entries (-1: none were)."""

_AFTER_WORD = 10
"""Bytes of an entry from the NUL that ends its word: that, its count and its type."""


def labels_of(path: Path) -> list[str]:
    """Return the labels of a supervised model, without the prefix; check the file to its end.

    Raises
    ------
    OSError
        It cannot be read.
    ValueError
        It is not such a model, or cut short.
    """
    with path.open("rb") as file, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as data:
        return _checked(data)


def _checked(data: mmap.mmap) -> list[str]:
    """Return the labels in a file; raise ValueError for anything out of place."""
    if len(data) < _HEADER.size:
        raise ValueError("too short")
    magic, version, *rest = _HEADER.unpack_from(data)
    kind, n_entries, n_pruned = rest[7], rest[13], rest[-1]
    if magic != MAGIC or version not in (11, 12):
        raise ValueError("of another format")
    if kind != SUPERVISED:
        raise ValueError("not supervised, so it has no labels")
    at, labels = _HEADER.size, []
    for _ in range(n_entries):
        end = data.find(b"\0", at)
        if end < 0 or end + _AFTER_WORD > len(data):
            raise ValueError("cut short")
        if data[end + _AFTER_WORD - 1] == 1:
            labels.append(data[at:end].decode("utf-8", "replace").removeprefix("__label__"))
        at = end + _AFTER_WORD
    at += 8 * max(n_pruned, 0)
    at = _after_matrix(data, at)
    if _after_matrix(data, at) != len(data):
        raise ValueError("cut short, or longer than it says")
    return labels


def _after_matrix(data: mmap.mmap, at: int) -> int:
    """Return where a matrix ends: whether it is quantized, its shape, its numbers."""
    (is_quantized,) = _at(data, "?", at)
    if not is_quantized:
        n_rows, n_columns = _at(data, "2q", at + 1)
        return at + 17 + 4 * n_rows * n_columns
    has_norms, n_rows, _, n_codes = _at(data, "?2qi", at + 1)
    at = _after_quantizer(data, at + 22 + n_codes)
    return _after_quantizer(data, at + n_rows) if has_norms else at


def _after_quantizer(data: mmap.mmap, at: int) -> int:
    """Return where a product quantizer ends: four numbers, and 256 centroids of its dimension."""
    (n_dimensions, *_) = _at(data, "4i", at)
    return at + 16 + 4 * 256 * n_dimensions


def _at(data: mmap.mmap, kinds: str, at: int) -> tuple[int, ...]:
    """Return some numbers of a file, which must be there and not negative."""
    layout = struct.Struct(f"<{kinds}")
    if at + layout.size > len(data):
        raise ValueError("cut short")
    numbers = layout.unpack_from(data, at)
    if min(numbers) < 0:
        raise ValueError("of another format")
    return numbers
