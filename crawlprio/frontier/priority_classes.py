"""Priority classes: what a page's request, its topic and what it repeats say of its turn."""

from __future__ import annotations

import sys
from bisect import bisect_left
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from crawlprio.frontier.struct_layouts import Records
from crawlprio.graph.pages import NO_PAGES, Visit
from crawlprio.graph.topic import HotQueue
from crawlprio.orderings.base import Pages

DEMOTED = 2
"""How much smaller the priority class of a page that is demoted is: one step of its request's
priority.
"""

FIRST = sys.float_info.max
"""The priority of pages that come before all others: those in flight when the crawl was killed."""

_LARGE, _TOP = 2**28, 2**30 - 1


class Demotion(Protocol):
    """Puts off waiting pages, such as likely repeats of others, by what visits taught it."""

    def is_demoted(self, page: int) -> bool:
        """Return whether a page is demoted now."""

    def puts_off(self, page: int, pages: Pages) -> bool:
        """Judge a page that is about to leave; return whether it is demoted from now on."""

    def observe(self, visit: Visit, pages: Pages) -> list[int]:
        """Learn from a visit; return the pages that are no longer demoted."""

    def figures(self) -> dict[str, int | str]:
        """Return rows for the report on the crawl, by what they say."""


class LargePriorities:
    """Numbers request priorities from 2**28 on, of any size, in order: priority classes have 32
    bits.

    A priority gets its number when it first occurs, between those of its neighbours. Timestamps in
    seconds over a year get consecutive numbers; where none is left, `spread` gives all others.
    """

    def __init__(self) -> None:
        self._sizes: list[int] = []
        self._numbers: list[int] = []

    def number(self, size: int) -> int:
        """Return the number of a priority, or 0 if none is left between its neighbours."""
        sizes, numbers, n = self._sizes, self._numbers, len(self._sizes)
        at = bisect_left(sizes, size)
        if at < n and sizes[at] == size:
            return numbers[at]
        low = numbers[at - 1] if at else _LARGE - 1
        room = (numbers[at] if at < n else _TOP) - low - 1
        if not room:
            return 0
        if not n:
            step = room // 2
        elif at == n:
            step = min(size - sizes[-1], room // (n + 8))
        elif at == 0:
            step = room + 1 - min(sizes[0] - size, room // (n + 8))
        else:
            step = (room + 1) * (size - sizes[at - 1]) // (sizes[at] - sizes[at - 1])
        sizes.insert(at, size)
        numbers.insert(at, low + min(max(step, 1), room))
        return numbers[at]

    def size(self, number: int) -> int:
        """Return the priority that has a number."""
        return self._sizes[bisect_left(self._numbers, number)]

    def spread(self) -> dict[int, int]:
        """Number all evenly, with room at both ends; return the new number of each old one."""
        before, width = self._numbers, (_TOP - _LARGE) // 2
        self._numbers = [
            _LARGE + width // 2 + nth * width // len(before) for nth in range(len(before))
        ]
        return dict(zip(before, self._numbers, strict=True))


class PriorityClasses:
    """The priority class of a page: twice its request's priority, and 1 more if it is hot.

    It is `DEMOTED` smaller while the page is demoted.
    """

    def __init__(self, hot_queue: HotQueue | None, demotion: Demotion | None) -> None:
        self._hot_queue = hot_queue
        self._demotion = demotion
        self._large = LargePriorities(), LargePriorities()

    def is_demoted(self, page: int) -> bool:
        """Return whether a page is demoted now."""
        return self._demotion is not None and self._demotion.is_demoted(page)

    def of_new(self, visit: Visit, first: int, n_pages: int, pages: Pages) -> NDArray[np.int32]:
        """Return what a visit adds to the classes of the pages first, ..., n_pages - 1."""
        if self._hot_queue:
            return self._hot_queue.sort_in(visit, first, n_pages, pages)
        return np.zeros(n_pages - first, dtype=np.int32) if n_pages > first else NO_PAGES

    def of(self, priority: float) -> int | None:
        """Return the class of a request priority of a page that is not hot. O(log n).

        None if no class is left between those of its neighbours, until `spread` is called.
        """
        if abs(priority) < _LARGE:
            return 2 * int(priority)
        if priority == FIRST:
            return 2 * _TOP
        sign, large = (-1 if priority < 0 else 1), self._large[priority < 0]
        number = large.number(abs(int(priority)))
        return 2 * sign * number if number else None

    def rank(self, page: int, priority_class: int) -> tuple[float, bool]:
        """Return the request priority of a page of a class, and whether it is hot."""
        number, hot = divmod(self._usual(page, priority_class), 2)
        if number == _TOP:
            return FIRST, bool(hot)
        if abs(number) < _LARGE:
            return number, bool(hot)
        sign = -1 if number < 0 else 1
        return sign * self._large[number < 0].size(abs(number)), bool(hot)

    def spread(self, priority: float, priority_classes: Records) -> None:
        """Renumber all large priorities of this sign, in the classes of pages too. O(pages)."""
        sign = -1 if priority < 0 else 1
        numbers = self._large[priority < 0].spread()
        for page in np.flatnonzero(sign * priority_classes >= 2 * (_LARGE - 1)).tolist():
            before = sign * (self._usual(page, int(priority_classes[page])) // 2)
            priority_classes[page] += 2 * sign * (numbers.get(before, before) - before)

    def _usual(self, page: int, priority_class: int) -> int:
        """Return the class that a page has while it is not demoted."""
        return priority_class + (DEMOTED if self.is_demoted(page) else 0)
