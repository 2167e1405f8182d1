"""FICA: the page nearest to the seeds comes first, by a distance based on out-degrees."""

from __future__ import annotations

import math
from typing import ClassVar

import numpy as np

from crawlprio.graph.compiled import Addresses, njit
from crawlprio.graph.pages import PageIds
from crawlprio.orderings.base import (
    CompiledOrdering,
    KeyHistory,
    Keys,
    LinkingVisit,
    Part,
    checked_number,
    made_of,
)


@njit(cache=True, plain=True)
def shorten(
    keys: Keys, page: int, targets: PageIds, first: int, last: int, again: bool,
    numbers: Keys, sites: PageIds, addresses: Addresses,
) -> int:  # fmt: skip
    """A page's key is minus its smallest distance along the links of fetched pages.

    `numbers`: the discount; the length of a link in addition to the logarithm.
    """
    if page < 0:
        keys[first:last] = 0.0
        return 0
    n_links = max(len(targets), 1)
    key = -(numbers[0] * -keys[page] + math.log(n_links) + numbers[1])
    keys[first:last] = key
    if not again:
        for target in targets:
            keys[target] = max(keys[target], key)
    return 0


class Fica(CompiledOrdering):
    """Pages nearest to the seeds first, where a link is longer the more links its page has.

    A seed's distance is 0. A fetched page with n distinct links and distance D places them at
    distance `discount` * D + ln n + `link`; a page's distance is the smallest over all links to it.
    Pages that a random surfer is unlikely to reach are far away: without the discount, the distance
    is minus the logarithm of the probability of a path.

    Source: Zareh Bidoki, Yazdani & Ghodsnia, FICA: a novel intelligent crawling algorithm based on
    reinforcement learning, Web Intelligence and Agent Systems 7, 2009. Departure: there, a page's
    distance moves towards a new value at a learning rate that falls over the crawl; here it is set
    to the minimum at once. O(1) per link, like OPIC.

    Parameters
    ----------
    discount
        Share of a page's distance that its links inherit; default 0.9, 0 or more, below 1.
    link
        Length of each link in addition to the logarithm; default 0, 0 or more. With 0, the link of
        a page that has only one costs nothing, so a chain of such pages, such as a calendar, is
        followed before other pages at the same distance; 0.1 prevents that.
    """

    rule = shorten
    changes_known: ClassVar[bool] = True

    def __init__(self, discount: float = 0.9, link: float = 0.0) -> None:
        self._discount = checked_number("fica", "discount", discount, least=0, below=1)
        self._link = checked_number("fica", "link", link, least=0)

    def first_numbers(self) -> Keys:
        return np.array([self._discount, self._link])

    def mass(self, page: int, share: float) -> float:
        return float(self.keys[page]) + math.log(share) / max(self._discount, 0.1)

    def credit(self, page: int, mass: float, depth: int, site_visits: int) -> None:
        self.keys[page] = mass

    def explain_history(self, history: KeyHistory) -> Part:
        if history.found.page < 0:
            return Part("a seed, at distance 0", 0.0)
        given = map(self._by_link, (history.found, *history.links))
        return max(given, key=lambda part: part.amount)

    def _by_link(self, link: LinkingVisit) -> Part:
        """Return the key that one link gives."""
        n_links = max(link.n_links, 1)
        inherited = -(self._discount * -link.key)
        parts = (
            Part(f"minus {self._discount:g} of its distance", inherited, link.page),
            Part(f"minus ln {n_links:,}, for its links", -math.log(n_links), link.page),
            Part("minus the length of a link", -self._link),
        )
        return made_of("minus the distance from the seeds", parts)
