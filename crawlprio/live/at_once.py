"""How many fetches may be in flight."""

from __future__ import annotations

import math

from crawlprio.web.scope import registered_domain


class AtOnce:
    """The number of fetches that may be in flight: more as a crawl reaches more of the web.

    It begins with `least` and grows to `most`: one for each registered domain fetched from. So a
    crawl of one site or owner stays small, and one of many sites is limited by their delays and the
    machine instead of by a number. With 1,000 sites, a delay of a second and answers after .3 s, 16
    in flight fetch 53 pages/s and 100 in flight 330, where the delays allow 770.

    Parameters
    ----------
    least
        CONCURRENT_REQUESTS; 0: no limit.
    most
        CRAWLPRIO_MAX_CONCURRENT_REQUESTS; None: it does not grow.

    Attributes
    ----------
    now
        the number.

    Notes
    -----
    Cost: 2.5 µs per page until `most` is reached, then nothing.
    """

    def __init__(self, least: int, most: int | None) -> None:
        self.now: float = least or math.inf
        self._most = most or 0
        self._domains: set[str] = set()

    @property
    def most(self) -> int:
        """The number that it may reach; 0: no limit."""
        return 0 if self.now == math.inf else max(int(self.now), self._most)

    def fetch_from(self, host: str) -> None:
        """Count the registered domain of a page that leaves."""
        if self.now < self._most:
            self._domains.add(registered_domain(host))
            self.now = max(self.now, len(self._domains))
