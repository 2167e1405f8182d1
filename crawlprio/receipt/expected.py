"""What fetching more pages would bring, and how long it would take under the delays."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from crawlprio.receipt.reading import Pace, StoredCrawl
from crawlprio.store.site_states import SiteState

STEPS = (100, 1_000, 10_000)
"""Numbers of further pages."""


def expected(
    crawl: StoredCrawl,
    shares: NDArray[np.float64],
    limits: Mapping[str, Any],
    states: Iterable[SiteState],
) -> list[dict[str, Any]]:
    """Return for each of `STEPS` the share of importance to expect, and the seconds it takes.

    `limits` are the settings of the crawl, as its store has them.

    The pages are the best that wait; of what they lead to nothing is known. Sites are fetched from
    side by side, each at the pace seen so far, or at its delay if that is longer. Where fewer pages
    wait, the last entry has as many as there are.
    """
    is_waiting = ~crawl.is_got
    is_waiting[list(crawl.failures)] = False
    waiting = np.flatnonzero(is_waiting)
    by_share = waiting[np.lexsort((waiting, -shares[waiting]))]
    delays = {state.host: state.crawl_delay or 0.0 for state in states}
    steps = [n for n in STEPS if n < len(waiting)]
    if len(waiting) and len(steps) < len(STEPS):
        steps.append(len(waiting))
    return [
        {
            "pages": n,
            "share": round(float(shares[by_share[:n]].sum()), 4),
            "seconds": round(
                seconds_needed(crawl.paces, crawl.hosts, crawl.sites[by_share[:n]], limits, delays)
            ),
        }
        for n in steps
    ]


def seconds_needed(
    paces: Mapping[int, Pace],
    hosts: Sequence[str],
    sites: NDArray[np.int32],
    limits: Mapping[str, Any],
    delays: Mapping[str, float],
) -> float:
    """Return how long it takes to fetch pages, each given by its site.

    Parameters
    ----------
    paces, hosts
        By site, the fetches so far and the host.
    limits
        The settings of the crawl.
    delays
        The Crawl-delay of hosts that have one.
    """
    n_fetches = sum(pace.n_fetches for pace in paces.values())
    usual = sum(pace.seconds for pace in paces.values()) / max(n_fetches, 1)
    delay = _number(limits, "DOWNLOAD_DELAY", 0.0)
    at_once = _number(limits, "CONCURRENT_REQUESTS_PER_DOMAIN", 1.0)
    in_all = _number(limits, "CONCURRENT_REQUESTS", 16.0)
    most = _number(limits, "CRAWLPRIO_MAX_CONCURRENT_REQUESTS", in_all)
    in_all = max(in_all, min(len(np.unique(sites)), most)) if in_all else 0.0
    longest = 0.0
    for site, n in zip(*np.unique(sites, return_counts=True), strict=True):
        pace = paces.get(int(site), Pace())
        fetch = pace.seconds / pace.n_fetches if pace.n_fetches else usual
        pause = max(delay, delays.get(hosts[int(site)], 0.0))
        if at_once == 1.0:
            a_page = max(pause + fetch, pace.seconds_a_page)
        else:  # with several fetches at once, the delay is from start to start
            a_page = max(pause, fetch / at_once if at_once else 0.0)
        longest = max(longest, int(n) * a_page)
    return max(longest, len(sites) * usual / in_all if in_all else 0.0)


def _number(limits: Mapping[str, Any], name: str, default: float) -> float:
    """Return a limit that is a number; the default for any other value."""
    value = limits.get(name, default)
    return float(value) if isinstance(value, int | float) and 0 <= value < 1e9 else default
