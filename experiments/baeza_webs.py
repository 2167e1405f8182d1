"""The paper's numbers of Baeza-Yates et al. 2005, and groups of crawls of the same kind."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
from measured import DELAY, STRATEGIES, Crawled, Start, polite_network
from paper_crawls import SAME, displaced
from webs import Web

from crawlprio.frontier import Politeness
from crawlprio.simulator import Network

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
    def of(cls, name: str, starts: list[Start], network: Callable[[Web], Network | None]) -> Group:
        """Crawl from all starts under all strategies, and under `BEYOND`."""
        names = (*STRATEGIES, *BEYOND)
        return cls(name, starts, [s.crawls(names, network(s.web)) for s in starts])

    @property
    def is_synthetic(self) -> bool:
        return self.starts[0].web.is_synthetic

    def tells_length(self) -> bool:
        """Whether larger sites first differs from breadth-first here; it needs known sites."""
        return any(
            displaced(c["larger-sites-first"].order, c["breadth-first"].order) >= SAME
            for c in self.crawls
        )

    def averages(self, strategy: str) -> list[float]:
        return [crawls[strategy].average for crawls in self.crawls]

    def average(self, strategy: str) -> float:
        """Return the average cumulative PageRank, as a mean over the crawls."""
        return float(np.mean(self.averages(strategy)))

    def taus(self, strategy: str) -> list[float]:
        return [crawls[strategy].tau for crawls in self.crawls]

    def tau(self, strategy: str) -> float:
        """Return Kendall's tau, as a mean over the crawls."""
        return float(np.mean(self.taus(strategy)))

    def at(self, strategy: str, share: float) -> float:
        """Return the share of PageRank at this share of the pages, as a mean over the crawls."""
        return float(np.mean([crawls[strategy].gathered_at(share) for crawls in self.crawls]))

    def lead(self, strategy: str, other: str) -> float:
        """Return the largest lead over another strategy after half of the pages."""
        shares = np.linspace(0.5, 0.995, 100)
        return max(self.at(strategy, share) - self.at(other, share) for share in shares)

    def best(self, measure: Callable[[str], float], among: Sequence[str]) -> str:
        """Return the strategy with the largest measure."""
        return max(among, key=measure)


def drawn(web: Web) -> Network:
    """Return a network with w = 15 s and fetches that take time."""
    return polite_network(web)


def rounds(web: Web) -> Network:
    """Return a network with w = 15 s and fetches that take no time."""
    return Network(politeness=Politeness(DELAY))


def no_delay(web: Web) -> None:
    """Order alone."""
    return None
