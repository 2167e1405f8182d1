"""Evaluation of crawl orders: the importance gathered over the crawl, and plots of it.

Plots are in `plots` and `figures`, which are not imported here because matplotlib is slow to load.
"""

from crawlprio.evaluation.active_robots import active_robots
from crawlprio.evaluation.crawl_in_time import (
    Means,
    cumulative_by_time,
    mean_importance_by_slice,
    mean_slice_of_top,
    scaled_to_mean_one,
    slices_by_fetch,
)
from crawlprio.evaluation.crawl_models import (
    ModelCurve,
    crawl_and_stop,
    crawl_and_stop_with_threshold,
    limited_buffer,
    top_threshold,
)
from crawlprio.evaluation.crawl_order import (
    average_cumulative_pagerank,
    best_order,
    cumulative_pagerank,
    curve,
    depth_from_seeds,
    kendall_tau,
    reachable,
)
from crawlprio.evaluation.estimates import (
    BacklinksSeen,
    PageRankSeen,
    RenewedEstimate,
    pagerank_seen,
)

__all__ = [
    "BacklinksSeen",
    "Means",
    "ModelCurve",
    "PageRankSeen",
    "RenewedEstimate",
    "active_robots",
    "average_cumulative_pagerank",
    "best_order",
    "crawl_and_stop",
    "crawl_and_stop_with_threshold",
    "cumulative_by_time",
    "cumulative_pagerank",
    "curve",
    "depth_from_seeds",
    "kendall_tau",
    "limited_buffer",
    "mean_importance_by_slice",
    "mean_slice_of_top",
    "pagerank_seen",
    "reachable",
    "scaled_to_mean_one",
    "slices_by_fetch",
    "top_threshold",
]
