"""The network of a simulated crawl: robots, delays, page sizes, site speeds, latencies."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from crawlprio.errors import ConfigError
from crawlprio.frontier import Politeness
from crawlprio.graph.arrays import Floats
from crawlprio.graph.linkgraph import LinkGraph
from crawlprio.graph.pages import PageIds

Numbers = float | Sequence[float] | NDArray[Any]


@dataclass(frozen=True, eq=False)
class Network:
    """The cost of fetches in a simulated crawl; with the defaults they take no time.

    At most one connection is open to a site, as in the papers. A fetch takes the latency of its
    site if it opens a connection, followed by its transfer. All transfers in progress share the
    bandwidth of the crawler's link, but none is faster than its site: each gets the smaller of its
    site's speed and a common share, the largest at which the total does not exceed the bandwidth
    (max-min fairness).

    Parameters
    ----------
    robots
        Maximum number of fetches in flight (r); default 1.
    politeness
        The delay rules, as in a live crawl; default no delay. No site has rules of its own.
    pages_per_visit
        Pages fetched on one connection before the delay applies (k); default 1. A visit ends early
        if no page of the site is waiting when a fetch ends.
    bandwidth
        Bytes/s of the crawler's link, above 0; default None: unlimited.
    latency
        Seconds to open a connection: one number, or shape (n_sites,); default 0. As in Castillo et
        al. 2004 (section III), only the first page of a visit pays it.
    page_bytes
        Size of pages: one number, or shape (n_pages,); default 0.
    site_speed
        Maximum bytes/s that a site sends, above 0, inf for no limit: one number, or shape
        (n_sites,); default None: no limit.

    Raises
    ------
    ConfigError
        If a value is out of bounds, and from `check` if arrays do not fit a graph.

    Notes
    -----
    Source: Castillo, Marin, Rodriguez & Baeza-Yates, Scheduling algorithms for Web crawling, LA-WEB
    2004, sections III to V; Baeza-Yates, Castillo, Marin & Rodriguez, Crawling a country, WWW 2005,
    section 3.2: saturation follows from the current transfers, their speeds and the bandwidth of
    the link. Max-min fairness is our choice; the papers do not say how transfers share a link.
    """

    robots: int = 1
    politeness: Politeness = field(default_factory=Politeness)
    pages_per_visit: int = 1
    bandwidth: float | None = None
    latency: Numbers = 0.0
    page_bytes: Numbers = 0.0
    site_speed: Numbers | None = None

    def __post_init__(self) -> None:
        for name in ("robots", "pages_per_visit"):
            count = getattr(self, name)
            if isinstance(count, bool) or not isinstance(count, int | np.integer) or count < 1:
                raise ConfigError(f"{name} is {count!r}; give a whole number of 1 or more.")
        if self.bandwidth is not None:
            bandwidth = _checked("bandwidth", self.bandwidth, above_zero=True)
            if bandwidth.ndim or not math.isfinite(bandwidth):
                raise ConfigError(
                    f"bandwidth is {self.bandwidth}; give bytes/s above 0, or None for no limit."
                )
        for name, number in self.politeness.values().items():
            if number is not None:
                _checked(name, number)
        for name in ("latency", "page_bytes"):
            numbers = _checked(name, getattr(self, name))
            if not np.isfinite(numbers).all():
                raise ConfigError(f"{name} has an infinite value; give finite numbers.")
        if self.site_speed is not None:
            _checked("site_speed", self.site_speed, above_zero=True)

    def optimal_hours(self, pages: PageIds) -> float:
        """Return the hours that the link takes for some pages if it is always full, T*.

        Castillo et al., section III, equation 2. NaN if the link has no limit.
        """
        if self.bandwidth is None:
            return math.nan
        sizes = np.asarray(self.page_bytes, dtype=np.float64)
        n_bytes = sizes[pages].sum() if sizes.ndim else sizes * len(pages)
        return float(n_bytes) / self.bandwidth / 3600

    @property
    def takes_time(self) -> bool:
        """Whether the order can differ from order-only, or time passes at all."""
        polite = self.politeness
        return (
            self.robots > 1
            or self.pages_per_visit > 1
            or type(polite) is not Politeness
            or polite.values() != Politeness().values()
            or bool(np.any(np.asarray(self.latency) > 0))
            or (
                (self.bandwidth is not None or self.site_speed is not None)
                and bool(np.any(np.asarray(self.page_bytes) > 0))
            )
        )

    def check(self, graph: LinkGraph) -> None:
        """Raise `ConfigError` if an array does not have one value per page or site."""
        for name, items, n in (
            ("latency", "site", graph.n_sites),
            ("page_bytes", "page", graph.n_pages),
            ("site_speed", "site", graph.n_sites),
        ):
            shape = np.shape(getattr(self, name) if getattr(self, name) is not None else 0.0)
            if shape not in ((), (n,)):
                raise ConfigError(
                    f"{name} has shape {shape}; give one number, or one for each {items}, {n}."
                )

    def sizes(self) -> Floats:
        """Return `page_bytes` as float64, shape (n_pages,), or (1,) if it is a single number."""
        return np.atleast_1d(np.asarray(self.page_bytes, dtype=np.float64))

    def latencies(self, n_sites: int) -> Floats:
        """Return the latency of each site, float64, shape (n_sites,)."""
        return np.array(np.broadcast_to(np.asarray(self.latency, dtype=np.float64), n_sites))

    def speeds(self, n_sites: int) -> Floats:
        """Return the speed of each site, float64, shape (n_sites,); inf if unlimited."""
        speed = math.inf if self.site_speed is None else self.site_speed
        return np.array(np.broadcast_to(np.asarray(speed, dtype=np.float64), n_sites))

    def as_json(self) -> dict[str, Any]:
        """Return the parameters for JSON; arrays are summarised by their length and median."""
        return {
            "robots": int(self.robots),
            **self.politeness.values(),
            "pages_per_visit": int(self.pages_per_visit),
            "bandwidth": self.bandwidth,
            "latency": _in_short(self.latency),
            "page_bytes": _in_short(self.page_bytes),
            "site_speed": _in_short(self.site_speed),
        }

    @classmethod
    def from_store(cls, path: str | Path, **others: Any) -> Network:
        """Return a network with the sizes, speeds and latencies that a crawl store recorded.

        For each fetch the store has the duration and the number of bytes, but not the time to the
        first byte. The latency of a site is therefore estimated by its shortest fetch, and its
        speed by its bytes divided by the time that its fetches took beyond that. Fetched again one
        by one, the pages of a site then take the same total time. For a page fetched more than
        once, the last visit counts; fetches without a response do not count. Pages and sites that
        were not fetched get the median of the others. O(visits).
        """
        from crawlprio.store import Store

        with Store.open(path, readonly=True) as store:
            sites = store.load_pages().sites.copy()
            n_sites = int(sites.max()) + 1 if len(sites) else 0
            n_bytes = np.full(len(sites), np.nan)
            elapsed = np.full(len(sites), np.nan)
            for visit in store.visits():
                if 0 <= visit.page < len(sites) and visit.status:
                    n_bytes[visit.page] = max(visit.n_bytes, 0)
                    elapsed[visit.page] = max(visit.elapsed, 0.0)
        known = np.flatnonzero(~np.isnan(n_bytes))
        site, took = sites[known], elapsed[known]
        latency = np.full(n_sites, np.inf)
        np.minimum.at(latency, site, took)
        seconds = np.bincount(site, took - latency[site], n_sites)
        with np.errstate(divide="ignore", invalid="ignore"):
            speed = np.bincount(site, n_bytes[known], n_sites) / seconds
        speed[~(speed > 0)] = np.inf
        fetched = np.isfinite(latency)
        return cls(
            **others,
            latency=np.where(fetched, latency, _median(latency[fetched], 0.0)),
            page_bytes=np.where(np.isnan(n_bytes), _median(n_bytes[known], 0.0), n_bytes),
            site_speed=np.where(fetched, speed, _median(speed[fetched], np.inf)),
        )


def _checked(name: str, given: Any, *, above_zero: bool = False) -> Floats:
    """Return a number or a one-dimensional array as float64; raise ConfigError if invalid."""
    bound = "above 0" if above_zero else "of 0 or more"
    try:
        if np.asarray(given).dtype.kind not in "fiu":
            raise TypeError
        numbers = np.asarray(given, dtype=np.float64)
    except (TypeError, ValueError):
        raise ConfigError(f"{name} is {given!r}; give numbers {bound}.") from None
    if numbers.ndim > 1:
        raise ConfigError(
            f"{name} has {numbers.ndim} dimensions; give one number, or a one-dimensional array."
        )
    bad = ~(numbers > 0) if above_zero else ~(numbers >= 0)
    if bad.any():
        raise ConfigError(f"{name} is {numbers[bad].flat[0]:g}; give numbers {bound}.")
    return numbers


def _median(numbers: Floats, default: float) -> float:
    """Return the median, or a default if there are no numbers."""
    return float(np.median(numbers)) if len(numbers) else default


def _in_short(numbers: Any) -> Any:
    """Return a number as it is, or the length and median of an array."""
    if numbers is None or np.ndim(numbers) == 0:
        return None if numbers is None else float(numbers)
    array = np.asarray(numbers, dtype=np.float64)
    median = _median(array, 0.0)
    return {"values": len(array), "median": median if math.isfinite(median) else None}
