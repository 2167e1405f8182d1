"""How the key of a page came about, in parts that add up to it exactly."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, NamedTuple

import numpy as np

from crawlprio.pages import NO_PAGE


class Part(NamedTuple):
    """A part of a key, or a whole key.

    Parameters
    ----------
    what
        What it is for, in words.
    amount
        How much it is. If it has parts: exactly their amounts, added in turn, times `factor`.
    page
        The page that it is from; `NO_PAGE` if none is.
    factor
        By which the sum of its parts is multiplied.
    parts
        What it is made of.
    """

    what: str
    amount: float
    page: int = NO_PAGE
    factor: float = 1.0
    parts: tuple[Part, ...] = ()

    def adds_up(self) -> bool:
        """Return whether each amount is that of its parts, to the last bit."""
        if not self.parts:
            return True
        is_sum = self.amount == _sum(self.parts) * self.factor
        return is_sum and all(part.adds_up() for part in self.parts)


def made_of(what: str, parts: Iterable[Part], *, factor: float = 1.0, page: int = NO_PAGE) -> Part:
    """Return the part that consists of others."""
    made = tuple(parts)
    return Part(what, _sum(made) * factor, page, factor, made)


def _sum(parts: Iterable[Part]) -> float:
    amount = 0.0
    for part in parts:
        amount += part.amount
    return amount


class Gift(NamedTuple):
    """A visit that concerned a page: by which page, with which key before, and how many links."""

    page: int
    key: float
    n_links: int


class Watch:
    """What a visit rule does to one page, noted at each call.

    Parameters
    ----------
    page
        The page.
    noted
        Called after each call of the rule once the page is known.

    Attributes
    ----------
    found
        The visit that discovered the page; of `NO_PAGE` if it is a seed or was asked for.
    first_key
        The page's key after the call that discovered it.
    first_numbers
        The rule's own numbers before that call.
    gifts
        The visits that count as evidence for it, in turn.
    """

    def __init__(self, page: int, noted: Callable[[], object]) -> None:
        self.page = page
        self.found = Gift(NO_PAGE, 0.0, 0)
        self.first_key = 0.0
        self.first_numbers: tuple[float, ...] = ()
        self.gifts: list[Gift] = []
        self._noted = noted

    def around(self, rule: Callable[..., int]) -> Callable[..., int]:
        """Return a visit rule that does the same, and notes what it does to the page."""

        def watched(
            keys: Any,
            page: int,
            targets: Any,
            first: int,
            last: int,
            again: bool,
            numbers: Any,
            *others: Any,
        ) -> int:
            of = self.page
            is_new = first <= of < last
            is_gift = not again and page >= 0 and np.count_nonzero(targets == of) > 0
            if is_new or is_gift:
                gift = Gift(page, float(keys[page]) if page >= 0 else 0.0, len(targets))
                if is_gift:
                    self.gifts.append(gift)
                if is_new:
                    self.found, self.first_numbers = gift, tuple(numbers[:4].tolist())
            n_changed = rule(keys, page, targets, first, last, again, numbers, *others)
            if is_new:
                self.first_key = float(keys[of])
            if of < last:
                self._noted()
            return n_changed

        return watched
