"""Instantaneous codes of natural numbers in a bit stream: unary, gamma, delta, zeta, nibble.

Bits are numbered from the most significant bit of the first byte.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from crawlprio.compiled import njit

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
