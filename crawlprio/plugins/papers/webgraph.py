"""Link graphs in the format of the WebGraph framework, and its instantaneous codes.

Bits are numbered from the most significant bit of the first byte.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from crawlprio.errors import GraphError
from crawlprio.graph.compiled import njit
from crawlprio.graph.linkgraph import MAX_PAGES, Indptr, LinkGraph
from crawlprio.graph.npz import read_urls, urls_path
from crawlprio.graph.pages import PageIds

Words = NDArray[np.uint64]

UNARY, GAMMA, DELTA, ZETA, NIBBLE = range(5)
CODE_NAMES = ("UNARY", "GAMMA", "DELTA", "ZETA", "NIBBLE")
"""Names in the properties of a WebGraph file; the index is the code."""

WORD_BITS = 64
TOO_LARGE = 1 << 40
"""Stands for any number of 2^40 or more, which must be invalid."""


def as_words(stream: bytes) -> Words:
    """Return the bytes as big-endian words, padded with two words of zeros."""
    padding = -len(stream) % 8 + 16
    return np.frombuffer(stream + bytes(padding), dtype=">u8").astype(np.uint64)


@njit(cache=True, nogil=True, inline="always")
def window(words: Words, position: int) -> Any:
    """Return the 64 bits from `position` on."""
    word = position >> 6
    shift = np.uint64(position & 63)
    bits = words[word] << shift
    if shift != np.uint64(0):
        bits |= words[word + 1] >> (np.uint64(WORD_BITS) - shift)
    return bits


@njit(cache=True, nogil=True)
def leading_zeros(bits: Any) -> int:
    """Count the zero bits before the first one bit; 64 if there is none."""
    if bits == np.uint64(0):
        return WORD_BITS
    n = 0
    for half in (32, 16, 8, 4, 2, 1):
        if bits >> np.uint64(WORD_BITS - half) == np.uint64(0):
            n += half
            bits <<= np.uint64(half)
    return n


@njit(cache=True, nogil=True)
def read_bits(words: Words, position: int, n_bits: int) -> int:
    """Return the number in the next `n_bits` bits, at most 62."""
    if n_bits == 0:
        return 0
    return int(np.int64(window(words, position) >> np.uint64(WORD_BITS - n_bits)))


@njit(cache=True, nogil=True)
def read_unary(words: Words, position: int) -> tuple[int, int]:
    """Return (zeros before the next one bit, position after it); `TOO_LARGE` at the end."""
    zeros = 0
    end = (len(words) - 2) * WORD_BITS
    while position < end:
        more = leading_zeros(window(words, position))
        zeros += more
        position += more
        if more < WORD_BITS:
            return zeros, position + 1
    return TOO_LARGE, end


@njit(cache=True, nogil=True)
def read_binary(words: Words, position: int, n_bits: int) -> tuple[int, int]:
    """Return (binary number 1 followed by the next `n_bits` bits, minus 1; position after it)."""
    if n_bits >= 40:
        return TOO_LARGE, position
    value = (1 << n_bits) | read_bits(words, position, n_bits)
    return value - 1, position + n_bits


@njit(cache=True, nogil=True)
def read_zeta(words: Words, position: int, k: int) -> tuple[int, int]:
    """Return (number in zeta_k code, position after it): unary class h, then minimal binary code.

    Source: Boldi & Vigna, The WebGraph framework II: codes for the World-Wide Web, DCC 2004.
    """
    h, position = read_unary(words, position)
    n_bits = h * k + k - 1
    if n_bits >= 40:
        return TOO_LARGE, position
    least = 1 << (h * k)
    short = read_bits(words, position, n_bits)
    position += n_bits
    if short < least:
        return short + least - 1, position
    return 2 * short + read_bits(words, position, 1) - 1, position + 1


@njit(cache=True, nogil=True)
def read_nibbles(words: Words, position: int) -> tuple[int, int]:
    """Return (number in groups of three bits, the last flagged by a one bit; position after it)."""
    value = 0
    while value < TOO_LARGE >> 3:
        group = read_bits(words, position, 4)
        position += 4
        value = 8 * value + (group & 7)
        if group & 8:
            return value, position
        if position >= (len(words) - 2) * WORD_BITS:
            break
    return TOO_LARGE, position


@njit(cache=True, nogil=True)
def read_number(words: Words, position: int, code: int, k: int) -> tuple[int, int]:
    """Return (the next number in the given code, position after it)."""
    if code == GAMMA:
        n_bits, position = read_unary(words, position)
        return read_binary(words, position, n_bits)
    if code == ZETA:
        return read_zeta(words, position, k)
    if code == UNARY:
        return read_unary(words, position)
    if code == DELTA:
        n_bits, position = read_unary(words, position)
        n_bits, position = read_binary(words, position, n_bits)
        return read_binary(words, position, n_bits)
    return read_nibbles(words, position)


COMPONENTS = {
    "OUTDEGREES": GAMMA,
    "REFERENCES": UNARY,
    "BLOCK_COUNT": GAMMA,
    "BLOCKS": GAMMA,
    "INTERVALS": GAMMA,
    "RESIDUALS": ZETA,
}
"""Components of a successor list, and the default code of each."""

LINKS_PER_BIT = 100
"""Maximum number of links per bit of a stream; real webs take 1 to 4 bits per link."""

MOST_INSERTED = 256
"""Maximum number of links of a row that is sorted by insertion, in quadratic time at worst."""

OUTDEGREES, REFERENCES, BLOCK_COUNT, BLOCKS, INTERVALS, RESIDUALS = range(6)


class CodedStream(NamedTuple):
    """The bits of a graph, the code of each component, and the parameter of zeta codes."""

    words: Words
    codes: NDArray[np.int64]
    zeta_k: int


def read_webgraph(path: Path, most: int | None = None) -> LinkGraph:
    """Read a graph of class BVGraph; rows are in ascending order of target, as in the format.

    Needs `NAME.properties` beside `NAME.graph`, but no `.offsets`. URLs are read from
    `NAME.urls.gz`, if present. Self-links, which the format allows, are dropped and counted. Golomb
    codes, little-endian streams and other graph classes are refused, with a GraphError.

    Source: Boldi & Vigna, The WebGraph framework I: compression techniques, WWW 2004.
    About 15 million links per second. Memory: the stream plus 4 bytes per link.
    """
    properties_path = path.with_suffix(".properties")
    properties = _read_properties(properties_path)
    n_pages = _number(properties_path, properties, "nodes", None, MAX_PAGES)
    n_links = _number(properties_path, properties, "arcs", None, n_pages * n_pages)
    window_size = _number(properties_path, properties, "windowsize", 7, MAX_PAGES)
    least_interval = _number(properties_path, properties, "minintervallength", 4, MAX_PAGES)
    zeta_k = _number(properties_path, properties, "zetak", 3, 30, least=1)
    codes = _codes(properties_path, properties.get("compressionflags", ""))
    try:
        stream = path.read_bytes()
    except OSError as error:
        raise GraphError(f"{path} cannot be read: {error.strerror or error}.") from error
    if 8 * len(stream) < n_pages:
        raise GraphError(
            f"{path} has {len(stream)} bytes, too few for {n_pages} pages; it is truncated."
        )
    if n_links > LINKS_PER_BIT * 8 * len(stream):
        raise GraphError(
            f"{path} has {len(stream)} bytes, too few for the {n_links} links stated in "
            f"{properties_path.name}; it is truncated."
        )
    indptr, indices, broken_page = _decode(
        CodedStream(as_words(stream), codes, zeta_k), 8 * len(stream), n_pages, n_links,
        window_size, least_interval,
    )  # fmt: skip
    if broken_page >= 0:
        raise GraphError(
            f"{path}: the links of page {broken_page} of {n_pages} are invalid; the file is "
            f"truncated or {properties_path.name} belongs to another graph."
        )
    if indptr[-1] != n_links:
        raise GraphError(
            f"{path} has {indptr[-1]} links, but {properties_path.name} states {n_links}."
        )
    return LinkGraph.cleaned(indptr, indices, urls=read_urls(urls_path(path), most), in_place=True)


def _read_properties(path: Path) -> dict[str, str]:
    """Read `key=value` lines; raise GraphError for an unsupported kind of graph."""
    try:
        text = path.read_text("latin-1")
    except OSError as error:
        raise GraphError(
            f"{path} cannot be read ({error.strerror or error}); put it beside the .graph file."
        ) from error
    properties = {}
    for line in text.splitlines():
        key, equals, value = line.strip().partition("=")
        if equals and not key.startswith(("#", "!")):
            properties[key.strip()] = value.strip()
    graph_class = properties.get("graphclass", "BVGraph")
    if graph_class.rsplit(".", 1)[-1] != "BVGraph":
        raise GraphError(
            f"{path}: graphclass is {graph_class}; only BVGraph is supported, so convert it."
        )
    endianness = properties.get("endianness", "big")
    if endianness != "big":
        raise GraphError(f"{path}: endianness is {endianness}; only big is supported.")
    return properties


def _number(
    path: Path, properties: dict[str, str], key: str, default: int | None, most: int, least: int = 0
) -> int:
    """Return a numeric property; raise GraphError unless it is from `least` to `most`."""
    text = properties.get(key, "" if default is None else str(default))
    # Converting many digits takes quadratic time, and Python refuses it.
    is_number = text.isascii() and text.isdigit() and len(text) < 30
    if not is_number or not least <= int(text) <= most:
        raise GraphError(
            f"{path}: {key} is {text[:40]!r}; it must be a whole number from {least} to {most}."
        )
    return int(text)


def _codes(path: Path, flags: str) -> NDArray[np.int64]:
    """Return the code of each of `COMPONENTS` under the given compression flags."""
    codes = dict(COMPONENTS)
    for flag in flags.replace("|", " ").split():
        component, _, code = flag.rpartition("_")
        if component not in codes or code not in CODE_NAMES:
            raise GraphError(
                f"{path}: compressionflags has {flag}; known are the codes "
                f"{', '.join(CODE_NAMES)} for {', '.join(COMPONENTS)}."
            )
        codes[component] = CODE_NAMES.index(code)
    return np.array(list(codes.values()), dtype=np.int64)


@njit(cache=True, nogil=True)
def _number_at(stream: CodedStream, position: int, component: int) -> tuple[int, int]:
    """Return (the next number of a component, position after it)."""
    return read_number(stream.words, position, stream.codes[component], stream.zeta_k)


@njit(cache=True, nogil=True)
def _decode(
    stream: CodedStream,
    n_bits: int,
    n_pages: int,
    n_links: int,
    window_size: int,
    least_interval: int,
) -> tuple[Indptr, PageIds, int]:
    """Return (indptr, indices, -1), or the first page with an invalid list instead of -1."""
    indptr = np.zeros(n_pages + 1, dtype=np.int64)
    indices = np.empty(n_links, dtype=np.int32)
    position = 0
    for page in range(n_pages):
        degree, position = _number_at(stream, position, OUTDEGREES)
        first = indptr[page]
        if degree > n_pages or first + degree > n_links:
            return indptr, indices, page
        indptr[page + 1] = first + degree
        if degree == 0:
            continue
        # The parts of a list, each ascending: the copied one, then intervals, then residuals.
        row = indices[first : first + degree]
        n_copied = 0
        if window_size > 0:
            back, position = _number_at(stream, position, REFERENCES)
            if back > min(page, window_size):
                return indptr, indices, page
            if back > 0:
                other = indices[indptr[page - back] : indptr[page - back + 1]]
                n_copied, position = _copy_blocks(stream, position, other, row)
                if n_copied < 0:
                    return indptr, indices, page
        n_known = n_copied
        if n_copied < degree and least_interval > 0:
            n_intervals, position = _number_at(stream, position, INTERVALS)
            n_extra, position = _read_intervals(
                stream, position, page, n_intervals, least_interval, n_pages, row[n_copied:]
            )
            if n_extra < 0:
                return indptr, indices, page
            n_known += n_extra
        if n_known < degree:
            position = _read_residuals(stream, position, page, n_pages, row[n_known:])
            if position < 0 or position > n_bits:
                return indptr, indices, page
        _sort(row, n_copied)
    if position > n_bits:
        return indptr, indices, n_pages - 1
    return indptr, indices, -1


@njit(cache=True, nogil=True)
def _copy_blocks(
    stream: CodedStream, position: int, row: PageIds, copied: PageIds
) -> tuple[int, int]:
    """Copy shared blocks of `row`; return (number copied, position), or -1 if too many or invalid.

    Copied and skipped blocks alternate; the entries after the last block are one more block.
    """
    n_blocks, position = _number_at(stream, position, BLOCK_COUNT)
    n_copied = 0
    at = 0
    if n_blocks > len(row) + 1:
        return -1, position
    for block in range(n_blocks + 1):
        if block == n_blocks:
            length = len(row) - at
        else:
            length, position = _number_at(stream, position, BLOCKS)
            length += block > 0
        if at + length > len(row):
            return -1, position
        if block % 2 == 0:
            if n_copied + length > len(copied):
                return -1, position
            copied[n_copied : n_copied + length] = row[at : at + length]
            n_copied += length
        at += length
    return n_copied, position


@njit(cache=True, nogil=True)
def _read_intervals(
    stream: CodedStream,
    position: int,
    page: int,
    n_intervals: int,
    least_interval: int,
    n_pages: int,
    extra: PageIds,
) -> tuple[int, int]:
    """Expand the runs of consecutive targets; return (targets or -1 if invalid, position)."""
    n_extra = 0
    following = 0
    for interval in range(n_intervals):
        gap, position = _number_at(stream, position, INTERVALS)
        length, position = _number_at(stream, position, INTERVALS)
        length += least_interval
        left = page + _signed(gap) if interval == 0 else following + gap
        if left < 0 or left + length > n_pages or n_extra + length > len(extra):
            return -1, position
        for target in range(left, left + length):
            extra[n_extra] = target
            n_extra += 1
        # Intervals are never adjacent: they would be merged into one.
        following = left + length + 1
    return n_extra, position


@njit(cache=True, nogil=True)
def _read_residuals(
    stream: CodedStream, position: int, page: int, n_pages: int, residuals: PageIds
) -> int:
    """Fill `residuals`, ascending; return the position after them, or -1 if one is invalid."""
    target = -1
    for k in range(len(residuals)):
        gap, position = _number_at(stream, position, RESIDUALS)
        target = page + _signed(gap) if k == 0 else target + gap + 1
        if target < 0 or target >= n_pages:
            return -1
        residuals[k] = target
    return position


@njit(cache=True, nogil=True)
def _signed(number: int) -> int:
    """Map 0, 1, 2, 3, ... to 0, -1, 1, -2, ..."""
    return -((number + 1) >> 1) if number & 1 else number >> 1


@njit(cache=True, nogil=True)
def _sort(row: PageIds, n_sorted: int) -> None:
    """Sort a row whose first entries are sorted: by insertion, which is faster for short rows."""
    if len(row) > MOST_INSERTED:
        row.sort()
        return
    for k in range(max(n_sorted, 1), len(row)):
        target = row[k]
        while k > 0 and row[k - 1] > target:
            row[k] = row[k - 1]
            k -= 1
        row[k] = target
