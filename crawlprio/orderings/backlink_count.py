"""Backlink count: the pages with the most links from fetched pages come first."""

from __future__ import annotations

from typing import ClassVar

from crawlprio.compiled import njit
from crawlprio.compiled.layout import Addresses
from crawlprio.orderings.base import CompiledOrdering, Keys
from crawlprio.orderings.explaining import Part, made_of
from crawlprio.pages import PageIds


@njit(cache=True, plain=True)
def count_links(
    keys: Keys,
    page: int,
    targets: PageIds,
    first: int,
    last: int,
    again: bool,
    numbers: Keys,
    sites: PageIds,
    addresses: Addresses,
) -> int:
    """A page's key is the number of fetched pages that link to it."""
    for new in range(first, last):
        keys[new] = 0.0
    if not again:
        for target in targets:
            keys[target] += 1.0
    return 0


class BacklinkCount(CompiledOrdering):
    """Pages with the most links from fetched pages first.

    Source: Cho, Garcia-Molina & Page, Efficient crawling through URL ordering, WWW7, 1998, Fig. 2
    (2). O(1) per link and page, and a heap operation for each waiting target.
    """

    rule = count_links
    changes_known: ClassVar[bool] = True

    def explain(self, page: int) -> Part:
        if self._watched is None:
            return super().explain(page)
        links = (Part("a link", 1.0, gift.page) for gift in self._watched.gifts)
        return made_of("links from fetched pages", links)
