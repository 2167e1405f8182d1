"""How good a crawl order was: the shares of importance it had gathered, when, and plots of them.

Nothing here knows orderings, frontiers or how importance is computed. Plots are in `plots`, which
is not imported here because matplotlib takes its time.
"""

from crawlprio.evaluation.crawl_order import (
    average_cumulative_pagerank,
    best_order,
    cumulative_pagerank,
    curve,
    kendall_tau,
    reachable,
)

__all__ = [
    "average_cumulative_pagerank",
    "best_order",
    "cumulative_pagerank",
    "curve",
    "kendall_tau",
    "reachable",
]
