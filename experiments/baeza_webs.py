"""The paper's numbers of Baeza-Yates et al. 2005, and groups of crawls of the same kind."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from measured import STRATEGIES, Crawled, Start, polite_network

BEYOND = ("sibling-sampling",)
"""This project's own orderings: they appear in tables, not in claims."""

PRINTED = {
    "random": (None, None),
    "backlink-count": ("0.50 ± 0.01", 0.0157),
    "partial-pagerank": ("0.52 ± 0.01", 0.0236),
    "breadth-first": ("0.64 ± 0.04", 0.1293),
    "batch-pagerank": ("0.63 ± 0.03", 0.1961),
    "opic": ("0.67 ± 0.03", 0.2229),
    "larger-sites-first": ("0.67 ± 0.01", 0.2498),
    "omniscient": ("0.74 ± 0.04", 0.6504),
    "sibling-sampling": (None, None),
}
PRINTED_HISTORICAL = {
    "historical-pagerank, zero": ("0.68", 0.3573),
    "historical-pagerank, random": ("0.70", 0.3689),
    "historical-pagerank, parent": ("0.70", 0.3520),
    "historical-pagerank, omniscient": ("0.77", 0.6385),
}
"""Table 2 of the paper: average cumulative PageRank and Kendall's tau."""


@dataclass(frozen=True, eq=False)
class Group:
    """Crawls of the same kind, whose figures are averaged."""

    name: str
    starts: list[Start]
    crawls: list[dict[str, Crawled]]

    @classmethod
    def of(cls, name: str, starts: list[Start]) -> Group:
        """Crawl from all starts under all strategies, and under `BEYOND`."""
        names = (*STRATEGIES, *BEYOND)
        return cls(name, starts, [s.crawls(names, polite_network(s.web)) for s in starts])

    def averages(self, strategy: str) -> list[float]:
        return [crawls[strategy].average for crawls in self.crawls]

    def taus(self, strategy: str) -> list[float]:
        return [crawls[strategy].tau for crawls in self.crawls]

    def at(self, strategy: str, share: float) -> float:
        """Return the share of PageRank at this share of the pages, as a mean over the crawls."""
        return float(np.mean([crawls[strategy].gathered_at(share) for crawls in self.crawls]))
