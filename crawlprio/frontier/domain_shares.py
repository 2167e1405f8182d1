"""The rule that one registered domain never holds all fetches while pages of others wait."""

from __future__ import annotations

import math
from array import array
from collections import deque
from collections.abc import Callable

from crawlprio.frontier.page_queue import PageQueue
from crawlprio.graph.pages import NO_PAGE

LATELY = 60.0
"""Seconds for which a domain counts as waiting after a page of it was handed out, because its sites
may be inside their delays."""

_HELD = 2**30


class DomainShares:
    """Hands out the pages of a queue; limits the fetches in flight of one registered domain.

    A domain with `most` fetches in flight gets no more while pages of other domains are ready, or
    left less than `LATELY` seconds ago. So slow sites of one owner never take all fetches, however
    many they are. While nobody else waits there is no limit, and the order is that of the queue.

    The sites of a domain at its limit are held back as they come first in the queue, and return one
    by one as its fetches end. `domain_of` returns the number of the registered domain of a site, 32
    bits and not 0.

    Cost: 0.9 µs of processor time per page and 4 bytes per site; O(log n) for each site held back.
    Once in `LATELY` seconds, a domain that is alone has all its ready sites held back and returned,
    to find out.
    """

    def __init__(self, queue: PageQueue, most: int, domain_of: Callable[[int], int]) -> None:
        self._queue = queue
        self._most = most
        self._domain_of = domain_of
        self._domains = array("I")  # by site, 0 until needed
        self._in_flight: dict[int, int] = {}
        self._held_back: dict[int, deque[int]] = {}
        self._latest, self._latest_left_at = 0, -math.inf
        self._other_left_at = -math.inf
        self._alone, self._alone_until = 0, -math.inf

    def next_page(self, now: float) -> int:
        """Lease the next page to fetch, or return `NO_PAGE`, as `PageQueue.next_page`."""
        queue, in_flight = self._queue, self._in_flight
        while True:
            page = queue.next_page(now)
            if page == NO_PAGE:
                if self._find_alone(now):
                    continue
                return NO_PAGE
            site = int(queue.pages.sites[page])
            domain = self._domain(site)
            n = in_flight.get(domain, 0)
            if n < self._most or (domain == self._alone and now < self._alone_until):
                break
            self._hold_back(domain, site, page, now)
        in_flight[domain] = n + 1
        if domain != self._latest:
            self._other_left_at, self._latest = self._latest_left_at, domain
        if domain != self._alone:
            self._alone = 0
        self._latest_left_at = now
        return page

    def limit(self, most: int) -> None:
        """Change how many fetches a domain may have in flight."""
        self._most = most

    def began(self, site: int) -> None:
        """Note that a page of a site is in flight that was not handed out here."""
        domain = self._domain(site)
        self._in_flight[domain] = self._in_flight.get(domain, 0) + 1

    def ended(self, site: int) -> None:
        """Note that a page of a site that was handed out is no longer in flight."""
        domain = self._domain(site)
        n = self._in_flight[domain] = self._in_flight[domain] - 1
        if not n:
            del self._in_flight[domain]
        if not self._held_back:
            return
        held_back = self._held_back.get(domain)
        if held_back and not n:
            self._return_sites(domain)
        elif held_back and n < self._most:
            self._queue.hold(held_back.popleft(), -_HELD)
            if not held_back:
                del self._held_back[domain]

    def _domain(self, site: int) -> int:
        domains = self._domains
        if site >= len(domains):
            domains.frombytes(bytes(4 * (site + 4_096 - len(domains))))
        domain = domains[site]
        if not domain:
            domain = domains[site] = self._domain_of(site)
        return domain

    def _find_alone(self, now: float) -> bool:
        """Return the sites of a domain that were held back for nobody, if there is one."""
        latest = self._latest
        domain = latest if latest in self._held_back else next(iter(self._held_back), 0)
        left_at = self._other_left_at if domain == latest else self._latest_left_at
        if not domain or now - left_at < LATELY:
            return False
        self._alone, self._alone_until = domain, now + LATELY
        self._return_sites(domain)
        return True

    def _hold_back(self, domain: int, site: int, page: int, now: float) -> None:
        """Return a page to the queue, and let no page of its site leave."""
        queue = self._queue
        queue.take_back(page, now)
        queue.hold(site, _HELD)
        self._held_back.setdefault(domain, deque()).append(site)

    def _return_sites(self, domain: int) -> None:
        """Release all sites of a domain that were held back."""
        for site in self._held_back.pop(domain, ()):
            self._queue.hold(site, -_HELD)
