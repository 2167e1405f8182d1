"""Lists of findings of one kind, as arrays of pages."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

Pages = NDArray[np.int32]
NONE: Pages = np.zeros(0, dtype=np.int32)


class Finding(NamedTuple):
    """One fault.

    Parameters
    ----------
    url
        The page that has it.
    detail
        A status, a number of bytes, a title: what `Findings.says` announces.
    related
        Page ids: those that link to it, the hops of a chain, further pages of its group.
    """

    url: str
    detail: str
    related: Pages


@dataclass(frozen=True, eq=False)
class Findings:
    """The findings of one kind, the worst first; iterating makes one at a time.

    Parameters
    ----------
    kind
        Its name, for programs.
    says
        What each of them is, for people.
    related_are
        What its related pages are; empty: it has none.
    length
        How many there are.
    url, detail
        Those of the finding at a place.
    starts, related
        The related pages of the finding at place k are `related[starts[k] : starts[k + 1]]`.
    """

    kind: str
    says: str
    related_are: str
    length: int
    url: Callable[[int], str]
    detail: Callable[[int], str]
    starts: NDArray[np.int64] | None = None
    related: Pages | None = None

    def __len__(self) -> int:
        return self.length

    def __iter__(self) -> Iterator[Finding]:
        return self.first(self.length)

    def first(self, n_findings: int) -> Iterator[Finding]:
        """Yield the first findings."""
        for place in range(min(n_findings, self.length)):
            related = NONE
            if self.starts is not None and self.related is not None:
                related = self.related[self.starts[place] : self.starts[place + 1]]
            yield Finding(self.url(place), self.detail(place), related)


class Groups(NamedTuple):
    """Groups of pages, the largest first; a group's own order, and ties, are by page id.

    Parameters
    ----------
    heads
        The first page of each group.
    starts, rest
        Its other pages, as in `Findings`.
    """

    heads: Pages
    starts: NDArray[np.int64]
    rest: Pages

    @classmethod
    def of(cls, keys: NDArray[np.int64], pages: Pages, least: int = 2) -> Groups:
        """Group pages by key, leaving out groups of fewer than `least`. O(pages log pages)."""
        order = np.lexsort((pages, keys))
        keys, pages = keys[order], pages[order]
        is_first = np.ones(len(keys), dtype=np.bool_)
        is_first[1:] = keys[1:] != keys[:-1]
        begins = np.flatnonzero(is_first)
        sizes = np.diff(np.append(begins, len(keys)))
        kept = sizes >= least
        begins, sizes = begins[kept], sizes[kept]
        by_size = np.lexsort((pages[begins], -sizes))
        begins, sizes = begins[by_size], sizes[by_size]
        return cls(pages[begins], *joined(pages, begins + 1, sizes - 1))


def joined(
    pages: Pages, begins: NDArray[np.int64], sizes: NDArray[np.int64]
) -> tuple[NDArray[np.int64], Pages]:
    """Return where ranges of an array start when they are concatenated, and that."""
    starts = np.concatenate([[0], np.cumsum(sizes)]).astype(np.int64)
    at = np.arange(starts[-1]) + np.repeat(begins - starts[:-1], sizes)
    return starts, pages[at]


def lists(rows: Sequence[Sequence[int]]) -> tuple[NDArray[np.int64], Pages]:
    """Return where lists of pages start when they are concatenated, and that."""
    starts = np.cumsum([0, *map(len, rows)], dtype=np.int64)
    return starts, np.array([page for row in rows for page in row], dtype=np.int32)
