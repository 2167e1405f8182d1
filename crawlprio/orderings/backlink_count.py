"""Backlink count: pages that the most fetched pages link to first."""

from __future__ import annotations

from crawlprio.orderings import kernels
from crawlprio.orderings.base import CompiledOrdering


class BacklinkCount(CompiledOrdering):
    """Pages that the most fetched pages link to first.

    Source: Cho, Garcia-Molina & Page, Efficient crawling through URL ordering, WWW7, 1998, Fig. 2
    (2). O(1) per link and page, and a heap operation for each waiting target.
    """

    evidence_rule = kernels.COUNT_BACKLINKS
