"""RankMass: the pages that receive the most mass from the seeds come first."""

from __future__ import annotations

from typing import ClassVar

import numpy as np

from crawlprio.graph.compiled import Addresses, njit
from crawlprio.graph.pages import PageIds
from crawlprio.orderings.base import (
    CompiledOrdering,
    KeyHistory,
    Keys,
    Part,
    checked_number,
    made_of,
)


@njit(cache=True)
def pass_mass(
    keys: Keys, page: int, targets: PageIds, first: int, last: int, again: bool,
    numbers: Keys, sites: PageIds, addresses: Addresses,
) -> int:  # fmt: skip
    """A seed has mass 1; a fetched page passes its mass on, damped, in equal shares.

    `numbers`: damping.
    """
    mass = 1.0 if page < 0 else 0.0
    for new in range(first, last):
        keys[new] = mass
    if again or len(targets) == 0:
        return 0
    share = numbers[0] * keys[page] / len(targets)
    for target in targets:
        keys[target] += share
    return 0


class RankMass(CompiledOrdering):
    """Pages with the most mass first; all mass comes from the seeds.

    Each seed has mass 1, any other page none. A fetched page passes `damping` times its mass to its
    distinct links in equal shares. Mass is therefore a lower bound, up to scale, on PageRank
    personalised to the seeds: the trust that they pass on. Ties are broken by order of discovery. A
    crawl from good home pages gains the most.

    Source: Cho & Schonfeld, RankMass crawler: a crawler with high personalized PageRank coverage
    guarantee, VLDB 2007. Departure: a page passes its mass on once, when it is fetched; mass that
    reaches it later stays there. In the paper, a page can be taken from the queue again to pass
    that on, any number of times. O(1) per link, like OPIC.

    Parameters
    ----------
    damping
        Share of its mass that a page passes on; default 0.85, 0 or more, below 1.

    Notes
    -----
    Mass falls with each link followed. About 300 links from the seeds, at ten links per page, it
    underflows to 0, and from there on pages leave in order of discovery.
    """

    rule = pass_mass
    changes_known: ClassVar[bool] = True

    def __init__(self, damping: float = 0.85) -> None:
        self._damping = checked_number("rankmass", "damping", damping, least=0, below=1)

    def first_numbers(self) -> Keys:
        return np.array([self._damping])

    def explain_history(self, history: KeyHistory) -> Part:
        parts = [Part("the mass of a seed", 1.0)] if history.found.page < 0 else []
        for giver, mass, n_links, _ in history.links:
            share = self._damping * mass / n_links
            parts.append(
                Part(f"{self._damping:g} of its mass, over {n_links:,} links", share, giver)
            )
        return made_of("mass", parts)
