"""The ordering `value-and-importance`: expected value, raised by the mass that links bring."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from crawlprio.orderings.base import Changed, Keys, Pages
from crawlprio.orderings.explaining import Part, made_of
from crawlprio.orderings.options import checked_number
from crawlprio.orderings.rankmass import RankMass
from crawlprio.orderings.value import Value
from crawlprio.pages import PageIds, Visit

LEAST_MASS = 1e-12
"""Pages with less mass count as if they had this much."""


class ValueAndImportance(Value):
    """Pages with the largest expected value first, raised by the mass that reaches them.

    The key is that of `value` plus `importance` * ln(mass), where the mass is that of `rankmass`:
    the logarithm of odds * mass ** `importance`. Between two pages of equal expected value, the one
    with more mass is first.

    Ours; the sources are those of `Value` and `RankMass`. The weight was chosen on the topics that
    `benchmarks/value.py` sets apart for that.

    Parameters
    ----------
    importance
        Weight of the logarithm of the mass; default 0.2. With 0 the order is that of `value`.
    explore, strength, every
        As in `Value`.

    Notes
    -----
    The cost of `Value`, and 8 bytes per page more. The mass is that of the time at which the key
    was brought up to date.
    """

    option_owner = "value-and-importance"

    def __init__(
        self,
        importance: float = 0.2,
        explore: float = 0.3,
        strength: float = 20.0,
        every: float = 0.005,
    ) -> None:
        super().__init__(explore, strength, every)
        self._importance = checked_number(self.option_owner, "importance", importance, least=0)
        self._mass = RankMass()

    def compile(self) -> None:
        super().compile()
        self._mass.compile()

    def open(self, pages: Pages, truth: Callable[[int], float] | None = None) -> None:
        super().open(pages, truth)
        self._mass.open(pages)

    def learn(self, visit: Visit, n_pages: int, *, again: bool = False) -> Changed:
        self._mass.learn(visit, n_pages, again=again)
        return super().learn(visit, n_pages, again=again)

    def _score_pages(self, pages: PageIds) -> None:
        super()._score_pages(pages)
        self.keys[pages] += self._logarithms(pages) * self._importance

    def _parts(self, page: int) -> list[Part]:
        logarithm = Part("the logarithm of its mass", float(self._logarithms([page])[0]))
        return [*super()._parts(page), made_of("importance", (logarithm,), factor=self._importance)]

    def _logarithms(self, pages: PageIds | list[int]) -> Keys:
        """Return the logarithms of the masses of pages."""
        return np.log(np.maximum(self._mass.keys[pages], LEAST_MASS))
