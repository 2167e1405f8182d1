"""A table from 64-bit hashes to small numbers: compiled open addressing once it is large."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import count, repeat

import numpy as np
from numpy.typing import NDArray

from crawlprio.graph import compiled
from crawlprio.graph.compiled import njit

Hashes = NDArray[np.int64]
Values = NDArray[np.int32]

EMPTY = -1

_GOLDEN = np.uint64(0x9E3779B97F4A7C15)
"""2**64 / golden ratio, odd: spreads hashes that differ in few bits (D. E. Knuth, The Art of
Computer Programming 3, 6.4)."""


class HashTable:
    """Maps 64-bit hashes to numbers, in 16 to 32 bytes of memory per entry.

    Two arrays, 12 bytes per slot, are at most three quarters full, and double when they would be
    fuller. Linear probing starts at the same relative position whatever the length of the table, so
    that growing reads and writes the arrays from front to back. Up to `plain_until` entries, a
    dictionary is used instead (some 110 bytes per entry).
    """

    def __init__(self, plain_until: int | None = None) -> None:
        self._plain_until = compiled.plain_until() if plain_until is None else plain_until
        self._few: dict[int, int] | None = {} if self._plain_until else None
        self._hashes = np.empty(1024, dtype=np.int64)
        self._values = np.full(1024, EMPTY, dtype=np.int32)
        self._n = 0

    def __len__(self) -> int:
        return self._n

    def entries(self) -> tuple[Hashes, Values]:
        if self._few is not None:
            return (
                np.array(list(self._few), dtype=np.int64),
                np.array(list(self._few.values()), dtype=np.int32),
            )
        is_full = self._values != EMPTY
        return self._hashes[is_full], self._values[is_full]

    def load(self, hashes: Hashes, values: Values) -> None:
        """Add what `entries` returned to an empty table."""
        self._make_room(len(hashes))
        if self._few is not None:
            self._few = dict(zip(hashes.tolist(), values.tolist(), strict=True))
        else:
            _add_entries(self._hashes, self._values, hashes, values)
        self._n = len(hashes)

    def find(self, hashed: int) -> int:
        """Return the number of a hash, or -1. O(1)."""
        if self._few is not None:
            return self._few.get(hashed, EMPTY)
        return int(_find(self._hashes, self._values, hashed))

    def find_all(self, hashes: Iterable[int]) -> list[int]:
        """Return the number of each hash, or -1; one compiled call for all of them."""
        if self._few is not None:
            return list(map(self._few.get, hashes, repeat(EMPTY)))
        wanted = np.fromiter(hashes, dtype=np.int64)
        if self._n:
            _find_all(self._hashes, self._values, wanted)
        else:
            wanted.fill(EMPTY)
        numbers: list[int] = wanted.tolist()
        return numbers

    def add(self, hashed: int, value: int) -> bool:
        """Add a number, 0 or more; return False, and change nothing, if the hash is present."""
        self._make_room(1)
        if self._few is not None:
            is_new = hashed not in self._few
            if is_new:
                self._few[hashed] = value
                self._n += 1
            return is_new
        is_new = bool(_add(self._hashes, self._values, hashed, value))
        self._n += is_new
        return is_new

    def add_run(self, hashes: Sequence[int] | Hashes, first: int) -> list[int]:
        """Add first, first + 1, ... under these hashes.

        Return the positions of those that were already present, which are left unchanged.
        """
        new = np.asarray(hashes, dtype=np.int64)
        self._make_room(len(new))
        if self._few is not None:
            found = list(map(self._few.setdefault, new.tolist(), count(first)))
            self._n = len(self._few)
            return [at for at, value in enumerate(found) if value != first + at]
        taken: list[int] = _add_run(self._hashes, self._values, new, first).tolist()
        self._n += len(new) - len(taken)
        return taken

    def _make_room(self, n_more: int) -> None:
        few = self._few
        if few is not None:
            if self._n + n_more <= self._plain_until:
                return
            self._few, self._n = None, 0
            for hashed, value in few.items():
                self.add(hashed, value)
        n_slots = len(self._values)
        while 4 * (self._n + n_more) > 3 * n_slots:
            n_slots *= 2
        if n_slots > len(self._values):
            hashes = np.empty(n_slots, dtype=np.int64)
            values = np.full(n_slots, EMPTY, dtype=np.int32)
            _move(self._hashes, self._values, hashes, values)
            self._hashes, self._values = hashes, values


@njit(cache=True)
def _slot(hashes: Hashes, values: Values, hashed: int) -> int:
    """Return the slot of a hash, or the empty slot where it belongs."""
    mask = len(values) - 1
    # The upper 32 bits, scaled to the length.
    upper = (np.uint64(hashed) * _GOLDEN) >> np.uint64(32)
    at = np.int64((upper * np.uint64(len(values))) >> np.uint64(32))
    while values[at] != EMPTY and hashes[at] != hashed:
        at = (at + 1) & mask
    return int(at)


@njit(cache=True)
def _find(hashes: Hashes, values: Values, hashed: int) -> int:
    return int(values[_slot(hashes, values, hashed)])


@njit(cache=True)
def _find_all(hashes: Hashes, values: Values, wanted: Hashes) -> None:
    """Replace hashes by their numbers in place: a new array would cost more than the lookup."""
    for at in range(len(wanted)):
        wanted[at] = values[_slot(hashes, values, wanted[at])]


@njit(cache=True)
def _add(hashes: Hashes, values: Values, hashed: int, value: int) -> bool:
    at = _slot(hashes, values, hashed)
    if values[at] != EMPTY:
        return False
    hashes[at] = hashed
    values[at] = value
    return True


@njit(cache=True)
def _add_run(hashes: Hashes, values: Values, new: Hashes, first: int) -> NDArray[np.int64]:
    taken = np.empty(len(new), dtype=np.int64)
    n_taken = 0
    for at in range(len(new)):
        if not _add(hashes, values, new[at], first + at):
            taken[n_taken] = at
            n_taken += 1
    return taken[:n_taken].copy()


@njit(cache=True)
def _add_entries(hashes: Hashes, values: Values, new: Hashes, numbers: Values) -> None:
    for at in range(len(new)):
        _add(hashes, values, new[at], numbers[at])


@njit(cache=True)
def _move(hashes: Hashes, values: Values, to_hashes: Hashes, to_values: Values) -> None:
    """Add all of one table to another, starting at an empty slot so that no run is split."""
    n_slots = len(values)
    start = 0
    while values[start] != EMPTY:
        start += 1
    for step in range(n_slots):
        at = (start + step) % n_slots
        if values[at] != EMPTY:
            _add(to_hashes, to_values, hashes[at], values[at])
