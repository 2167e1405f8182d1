"""The URLs of many pages in two arrays and an index, instead of one Python string each."""

from __future__ import annotations

from array import array
from collections.abc import Iterable, Iterator, Sequence
from typing import overload

import numpy as np
from numpy.typing import NDArray

from crawlprio.graph.pages import NO_PAGE, PageIds

NEWLINE = 10
_DECODED_AT_ONCE = 10_000


class Urls(Sequence[str]):
    """An immutable sequence of URLs that takes the bytes of their UTF-8 plus 9 bytes each.

    The first search adds an index of 8 bytes per URL. Equal to any sequence of the same strings.
    Lone surrogates are preserved.

    The strings may be any; they are not parsed.
    """

    __slots__ = ("_index", "_offsets", "_text")

    def __init__(self, urls: Iterable[str]) -> None:
        self._text = bytearray()
        ends = array("q", [0])
        for url in urls:
            self._text += url.encode("utf-8", "surrogatepass")
            self._text.append(NEWLINE)
            ends.append(len(self._text))
        self._offsets: NDArray[np.int64] = np.frombuffer(ends, dtype=np.int64)
        self._index: tuple[PageIds, PageIds] | None = None

    @classmethod
    def from_lines(cls, text: bytearray) -> Urls:
        """Return the lines of a UTF-8 text, which is not copied and must not be changed later.

        Lines end in a line feed, which is optional on the last line. O(length of the text).
        """
        if text and text[-1] != NEWLINE:
            text.append(NEWLINE)
        urls = cls(())
        urls._text = text
        ends = np.flatnonzero(np.frombuffer(text, dtype=np.uint8) == NEWLINE)
        urls._offsets = np.concatenate(([0], ends + 1))
        return urls

    def lines(self) -> memoryview:
        """Return a view of the UTF-8 of all URLs, each followed by a line feed."""
        return memoryview(self._text)

    @property
    def n_lines(self) -> int:
        """Number of line feeds in `lines()`: more than the number of URLs if a URL has one."""
        return self._text.count(NEWLINE)

    def find(self, url: str) -> int:
        """Return the first index of exactly this URL, or `NO_PAGE`.

        O(log n), except for the first call, which hashes all URLs.
        """
        if self._index is None:
            hashes = np.fromiter(map(_short_hash, self), dtype=np.int32, count=len(self))
            order = np.argsort(hashes, kind="stable").astype(np.int32)
            self._index = hashes[order], order
        hashes, order = self._index
        wanted = np.int32(_short_hash(url))
        at = int(hashes.searchsorted(wanted))
        while at < len(hashes) and hashes[at] == wanted:
            page = int(order[at])
            if self[page] == url:
                return page
            at += 1
        return NO_PAGE

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
        return self._text[start:end].decode("utf-8", "surrogatepass")

    def __iter__(self) -> Iterator[str]:
        for first in range(0, len(self), _DECODED_AT_ONCE):
            ends = self._offsets[first : first + _DECODED_AT_ONCE + 1].tolist()
            text = self._text[ends[0] : ends[-1]]
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


def _short_hash(url: str) -> int:
    """Return 31 bits of Python's own hash, which nobody can aim at from outside."""
    return hash(url) & 0x7FFF_FFFF
