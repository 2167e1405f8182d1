"""What all crawls after Castillo et al. 2004 have in common: names, the network, a batch."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

LENGTH = "larger-sites-first"

NAMES = {
    "omniscient": "Optimal",
    LENGTH: "Length",
    "breadth-first": "Depth",
    "batch-pagerank": "Batch",
    "partial-pagerank": "Partial",
}
"""The paper's names of the strategies."""

NETWORK = (
    "Sizes of pages are those of Barford & Crovella (mean some 21 kB; the paper's crawl had 24 "
    "kB); latencies and speeds of sites are drawn (log-normal, medians 0.2 s and 50 kB/s), since "
    "the paper's are not published"
)


def middle_of(order: NDArray[np.int32]) -> NDArray[np.int32]:
    """Return a batch of N / 35 pages from the middle of a crawl."""
    size = max(len(order) // 35, 1)
    return order[len(order) // 2 :][:size]
