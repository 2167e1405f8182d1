"""The value model `fasttext`: the probability of a label, after a check of the model file.

That library does not notice the end of a file: with a model cut short it allocates memory without
end, or divides by zero. The layout is that of fastText's versions 11 and 12, dense or quantized.
"""

from __future__ import annotations

import mmap
import struct
from importlib import import_module
from pathlib import Path

from crawlprio.errors import ConfigError
from crawlprio.extras import require
from crawlprio.plugins.value.model import Page

MAGIC = 793_712_314
SUPERVISED = 3
_LOSSES = range(1, 5)

_HEADER = struct.Struct("<2i12id3i2q")
"""Magic, version, 12 arguments (the 8th is the kind of model) and a last one; then numbers of
entries, words and labels, of tokens, and of pruned entries (-1: none were)."""

_PREFIX = "__label__"
_AFTER_WORD = 10
"""Bytes of an entry from the NUL that ends its word: that, its count and its type."""


def labels_of(data: mmap.mmap) -> list[str]:
    """Return the labels of a supervised model, without the prefix; check the file to its end.

    Raise ValueError if it is not such a model or cut short.
    """
    if len(data) < _HEADER.size:
        raise ValueError("too short")
    magic, version, *rest = _HEADER.unpack_from(data)
    word_ngrams, loss, kind, n_buckets, longest = rest[5], rest[6], rest[7], rest[8], rest[10]
    n_entries, n_pruned = rest[13], rest[-1]
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
            labels.append(data[at:end].decode().removeprefix(_PREFIX))
        at = end + _AFTER_WORD
    at += 8 * max(n_pruned, 0)
    dimension, n_words, n_labels = rest[0], rest[14], rest[15]
    at, *inputs = _after_matrix(data, at)
    end, *outputs = _after_matrix(data, at)
    if end != len(data):
        raise ValueError("cut short, or longer than it says")
    n_rows = n_words + (n_buckets if n_pruned < 0 else n_pruned)
    shapes = [n_entries, len(labels), inputs, outputs]
    # The library trusts these numbers, and reads and writes beyond its arrays if they disagree.
    if shapes != [n_words + n_labels, n_labels, [n_rows, dimension], [n_labels, dimension]]:
        raise ValueError("of numbers that disagree with each other")
    # It divides by the number of buckets to place what is no whole word.
    if loss not in _LOSSES or n_buckets < (word_ngrams > 1 or longest != 0):
        raise ValueError("of numbers that make no sense")
    return labels


def _after_matrix(data: mmap.mmap, at: int) -> tuple[int, int, int]:
    """Return where a matrix ends, and its shape; it may be quantized."""
    (is_quantized,) = _at(data, "?", at)
    if not is_quantized:
        n_rows, n_columns = _at(data, "2q", at + 1)
        return at + 17 + 4 * n_rows * n_columns, n_rows, n_columns
    has_norms, n_rows, n_columns, n_codes = _at(data, "?2qi", at + 1)
    at = _after_quantizer(data, at + 22 + n_codes)
    at = _after_quantizer(data, at + n_rows) if has_norms else at
    return at, n_rows, n_columns


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


class FastText:
    """The probability of a label of a supervised fastText model, `.bin` or `.ftz`.

    The model sees the text of a page, as one line, without its title. The argument is `FILE:LABEL`,
    the label with or without `__label__`.
    """

    runs_in = "here"

    def __init__(self, argument: str) -> None:
        file, _, label = argument.rpartition(":")
        label = label.removeprefix(_PREFIX)
        require("fasttext", "fasttext", "The value model fasttext")
        path = Path(file or label)
        try:
            with (
                path.open("rb") as model,
                mmap.mmap(model.fileno(), 0, access=mmap.ACCESS_READ) as data,
            ):
                labels = labels_of(data)
        except OSError as error:
            raise ConfigError(f"{path} cannot be read ({error.strerror}).") from None
        except ValueError as error:
            raise ConfigError(
                f"{path} is not a fastText model that tells labels ({error}); name one."
            ) from None
        if not file or label not in labels:
            known = ", ".join(labels[:20]) + (", ..." if len(labels) > 20 else "")
            raise ConfigError(
                f"CRAWLPRIO_VALUE is 'fasttext:{argument}'; give fasttext:FILE:LABEL with a label "
                f"of the model: {known}."
            )
        self._label = f"{_PREFIX}{label}"
        # Imported by name, so that type checkers do not need it.
        self._model = import_module("fasttext").load_model(file)

    def score_page(self, page: Page) -> float:
        """Return the value of a page. O(characters x labels)."""
        text = page.text.encode("utf-8", "replace").decode().replace("\n", " ")
        labels, probabilities = self._model.predict(text, k=-1)
        # A text without a word that the model knows may have no labels.
        value = dict(zip(labels, probabilities, strict=True)).get(self._label, 0.0)
        return min(float(value), 1.0)
