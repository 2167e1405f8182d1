"""The URLs of many pages in two arrays and a hash table, instead of one Python string each."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Any, overload

import numpy as np
from numpy.typing import NDArray

from crawlprio.graph.compiled import njit
from crawlprio.graph.pages import NO_PAGE, PageIds

Text = NDArray[np.uint8]
Offsets = NDArray[np.int64]

NEWLINE = 10
_DECODED_AT_ONCE = 10_000


class Urls(Sequence[str]):
    """An immutable sequence of URLs that takes the bytes of their UTF-8 plus 9 bytes each.

    The first search adds a table of 8 bytes per URL. Equal to any sequence of the same strings.
    Lone surrogates are preserved.

    The strings may be any; they are not parsed.
    """

    __slots__ = ("_offsets", "_slots", "_text")

    def __init__(self, urls: Iterable[str]) -> None:
        text = bytearray()
        ends = [0]
        for url in urls:
            text += url.encode("utf-8", "surrogatepass")
            text.append(NEWLINE)
            ends.append(len(text))
        self._text: Text = np.frombuffer(text, dtype=np.uint8)
        self._offsets: Offsets = np.array(ends, dtype=np.int64)
        self._slots: PageIds | None = None

    @classmethod
    def from_lines(cls, text: bytearray) -> Urls:
        """Return the lines of a UTF-8 text, which is not copied and must not be changed later.

        Lines end in a line feed, which is optional on the last line. O(length of the text).
        """
        if text and text[-1] != NEWLINE:
            text.append(NEWLINE)
        urls = cls(())
        urls._text = np.frombuffer(text, dtype=np.uint8)
        urls._offsets = _line_starts(urls._text)
        return urls

    def lines(self) -> memoryview:
        """Return a view of the UTF-8 of all URLs, each followed by a line feed."""
        return self._text.data

    @property
    def n_lines(self) -> int:
        """Number of line feeds in `lines()`: more than the number of URLs if a URL has one."""
        return int(_count(self._text, NEWLINE))

    @property
    def nbytes(self) -> int:
        """Bytes of memory held, including the search table once it exists."""
        slots = 0 if self._slots is None else self._slots.nbytes
        return self._text.nbytes + self._offsets.nbytes + slots

    def find(self, url: str) -> int:
        """Return the first index of exactly this URL, or `NO_PAGE`.

        O(1), except for the first call, which hashes all URLs.
        """
        if self._slots is None:
            self._slots = _hash_table(self._text, self._offsets)
        key = np.frombuffer(url.encode("utf-8", "surrogatepass"), dtype=np.uint8)
        return int(_find(self._text, self._offsets, self._slots, key))

    def __len__(self) -> int:
        return len(self._offsets) - 1

    @overload
    def __getitem__(self, index: int) -> str: ...

    @overload
    def __getitem__(self, index: slice) -> list[str]: ...

    def __getitem__(self, index: int | slice) -> str | list[str]:
        if isinstance(index, slice):
            return [self[page] for page in range(*index.indices(len(self)))]
        page = int(index)
        if page < 0:
            page += len(self)
        if not 0 <= page < len(self):
            raise IndexError(f"there are {len(self)} URLs, and none at index {index}")
        start, end = self._offsets[page], self._offsets[page + 1] - 1
        return self._text[start:end].tobytes().decode("utf-8", "surrogatepass")

    def __iter__(self) -> Iterator[str]:
        for first in range(0, len(self), _DECODED_AT_ONCE):
            ends = self._offsets[first : first + _DECODED_AT_ONCE + 1].tolist()
            text = self._text[ends[0] : ends[-1]].tobytes()
            start = 0
            for end in ends[1:]:
                end -= ends[0]
                yield text[start : end - 1].decode("utf-8", "surrogatepass")
                start = end

    def __contains__(self, url: object) -> bool:
        return isinstance(url, str) and self.find(url) != NO_PAGE

    def __eq__(self, other: object) -> bool:
        if isinstance(other, str) or not isinstance(other, Sequence):
            return NotImplemented
        return len(self) == len(other) and all(
            one == another for one, another in zip(self, other, strict=True)
        )

    __hash__ = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        return f"<Urls: {len(self)}>"


@njit(cache=True, nogil=True)
def _count(text: Text, byte: int) -> int:
    """Count the occurrences of a byte."""
    count = 0
    for k in range(len(text)):
        count += text[k] == byte
    return count


@njit(cache=True, nogil=True)
def _line_starts(text: Text) -> Offsets:
    """Return the start of each line, and the end of the last."""
    n_lines = 0
    for k in range(len(text)):
        n_lines += text[k] == NEWLINE
    starts = np.zeros(n_lines + 1, dtype=np.int64)
    line = 0
    for k in range(len(text)):
        if text[k] == NEWLINE:
            line += 1
            starts[line] = k + 1
    return starts


@njit(cache=True, nogil=True)
def _slot(key: Text, n_slots: int) -> Any:
    """Return the slot of a table of `n_slots` at which the search for a key begins.

    FNV-1a with the MurmurHash3 finaliser; the upper half of the bits is scaled to the table.
    """
    bits = np.uint64(0xCBF29CE484222325)
    for k in range(len(key)):
        bits = (bits ^ np.uint64(key[k])) * np.uint64(0x100000001B3)
    bits = (bits ^ (bits >> np.uint64(33))) * np.uint64(0xFF51AFD7ED558CCD)
    bits = (bits ^ (bits >> np.uint64(33))) * np.uint64(0xC4CEB9FE1A85EC53)
    return np.int64(((bits >> np.uint64(32)) * np.uint64(n_slots)) >> np.uint64(32))


@njit(cache=True, nogil=True)
def _same(one: Text, other: Text) -> bool:
    """Compare from the end, where URLs of the same site differ."""
    if len(one) != len(other):
        return False
    k = len(one) - 1
    while k >= 0 and one[k] == other[k]:
        k -= 1
    return k < 0


@njit(cache=True, nogil=True)
def _hash_table(text: Text, offsets: Offsets) -> PageIds:
    """Return a hash table of indices, half full; for equal URLs it holds the first."""
    n = len(offsets) - 1
    n_slots = 2 * n + 1
    slots = np.full(n_slots, NO_PAGE, dtype=np.int32)
    for page in range(n):
        key = text[offsets[page] : offsets[page + 1] - 1]
        slot = _slot(key, n_slots)
        while slots[slot] != NO_PAGE:
            other = slots[slot]
            if _same(text[offsets[other] : offsets[other + 1] - 1], key):
                break
            slot = slot + 1 if slot + 1 < n_slots else 0
        else:
            slots[slot] = page
    return slots


@njit(cache=True, nogil=True)
def _find(text: Text, offsets: Offsets, slots: PageIds, key: Text) -> int:
    """Return the index of a key, or `NO_PAGE`."""
    slot = _slot(key, len(slots))
    while slots[slot] != NO_PAGE:
        page = slots[slot]
        if _same(text[offsets[page] : offsets[page + 1] - 1], key):
            return int(page)
        slot = slot + 1 if slot + 1 < len(slots) else 0
    return NO_PAGE
