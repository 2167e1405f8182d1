"""Networks with sizes, speeds and latencies drawn from distributions, for webs without records."""

from __future__ import annotations

from typing import Any

import numpy as np

from crawlprio.graph.linkgraph import LinkGraph
from crawlprio.simulator.network import Network

BODY_MU, BODY_SIGMA = 9.357, 1.318
TAIL_FROM, TAIL_ALPHA = 133_000.0, 1.1
"""Sizes of files on the Web in bytes: log-normal, and a Pareto tail. Source: Barford & Crovella,
Generating representative Web workloads for network and server performance evaluation, 1998."""


def drawn_network(
    graph: LinkGraph,
    *,
    seed: int = 0,
    median_latency: float = 0.2,
    latency_sigma: float = 0.7,
    median_speed: float = 50_000.0,
    speed_sigma: float = 1.0,
    largest_page: float = 2_000_000.0,
    **network: Any,
) -> Network:
    """Return a network with sizes, speeds and latencies drawn from stated distributions.

    Sizes are log-normal with mu 9.357 and sigma 1.318 (median 11.6 kB) below 133 kB, and Pareto
    with alpha 1.1 above: the values of Barford & Crovella (1998) for files on the Web. Their
    mean depends on the cut-off: at 2 MB it is about 21 kB, close to the 24 kB per page (57 GB
    in 2.4 million pages) of Castillo et al. 2004. Speeds and latencies of sites are log-normal;
    their medians and spreads are our choice, not measurements.

    `seed`: Seed of the generator; the same seed draws the same network. `median_latency` and
    `latency_sigma`: Seconds, and the standard deviation of their natural logarithm. `median_speed`
    and `speed_sigma`: Bytes/s, and the standard deviation of their natural logarithm.
    `largest_page`: Bytes at which the tail is cut off; above 133 kB. `network`: The other fields of
    the network.
    """
    random = np.random.default_rng(seed)
    sizes = random.lognormal(BODY_MU, BODY_SIGMA, graph.n_pages)
    tail = np.flatnonzero(sizes > TAIL_FROM)
    # Inverse distribution function of a Pareto tail truncated at the largest page.
    kept = 1.0 - (TAIL_FROM / largest_page) ** TAIL_ALPHA
    sizes[tail] = TAIL_FROM * (1.0 - kept * random.random(len(tail))) ** (-1.0 / TAIL_ALPHA)
    n_sites = graph.n_sites
    return Network(
        **network,
        latency=median_latency * random.lognormal(0.0, latency_sigma, n_sites),
        page_bytes=np.rint(sizes),
        site_speed=median_speed * random.lognormal(0.0, speed_sigma, n_sites),
    )
