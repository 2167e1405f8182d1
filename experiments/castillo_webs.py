"""What all crawls modelled on Castillo et al. 2004 share: names, the network, a batch."""

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
    "Page sizes follow Barford & Crovella (mean about 21 kB; the paper's crawl had 24 kB); "
    "latencies and speeds of sites are drawn (log-normal, medians 0.2 s and 50 kB/s), because "
    "the paper's are not published"
)


def middle_of(order: NDArray[np.int32], n_pages: int) -> NDArray[np.int32]:
    """Return a batch of N / 35 pages from the middle of a crawl of N pages."""
    return order[n_pages // 2 :][: max(n_pages // 35, 1)]
