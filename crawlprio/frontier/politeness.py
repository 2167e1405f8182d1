"""The delay rules of a crawl, live or simulated, the clock of each site, and shares of domains.

A site is in one of two regimes. With one fetch at a time, its delay runs from the end of a fetch to
the next start, as in the papers; with several, it runs from start to start, as in Scrapy. Only this
module and `heaps.pop` distinguish the two.

A registered domain never holds all fetches while pages of others wait.
"""

from __future__ import annotations

import math
from collections import deque, namedtuple
from collections.abc import Callable
from dataclasses import dataclass, fields
from functools import cached_property
from typing import Any

from crawlprio.frontier.page_queue import PageQueue
from crawlprio.graph.compiled import njit
from crawlprio.graph.pages import NO_PAGE, PageTable
from crawlprio.store.crawl_state import SiteState

BACK_OFF_STATUSES = frozenset({429, 503})
"""HTTP statuses with which a site asks for fewer fetches."""

NO_DELAY = float("nan")
"""Marks a delay that is not set."""

CAPS = ("max_crawl_delay", "max_back_off")
"""Fields of `Politeness` that cap what sites ask for; the others determine every site's pause."""


@njit(cache=True)
def usual_pause(rules: Any, own_delay: float, crawl_delay: float, n_pages: int) -> float:
    """Return the seconds that a site rests after every fetch.

    `rules` are `PauseRules`, `own_delay` that set for this site alone, in seconds (NaN if not set),
    `crawl_delay` its Crawl-delay as applied (0 if none), and `n_pages` its known pages.
    """
    pause = own_delay
    if own_delay != own_delay:
        pause = rules.delay
        if rules.small_site_delay == rules.small_site_delay and n_pages < rules.small_site_pages:
            pause = rules.small_site_delay
    return max(pause, crawl_delay)


@njit(cache=True)
def pause_for_fetch(rules: Any, elapsed: float, n_bytes: float) -> float:
    """Return the pause that the last fetch of a site calls for, in seconds; 0 if none.

    `rules` are `PauseRules`; the fetch took `elapsed` seconds, its body has `n_bytes`.
    """
    pause = 0.0
    if rules.adaptive > 0.0:
        pause = max(pause, min(rules.adaptive * elapsed, rules.max_adaptive))
    if rules.site_bandwidth > 0.0:
        pause = max(pause, n_bytes / rules.site_bandwidth - elapsed)
    return pause


@dataclass(frozen=True)
class Politeness:
    """The rules for the minimum pause between the end of a fetch on a site and the next start.

    The longest of these applies: the site's own delay, or else `delay` (`small_site_delay` for a
    small site); the Crawl-delay in its robots.txt; `adaptive` times the duration of the last fetch;
    the rest of the time that its bytes take at `site_bandwidth`; the Retry-After of a redirect or
    an error; after a 429 or 503 without one, a delay that doubles with each such response.
    The state of individual sites is in `SiteClock`.

    Each rule is a field here, which a row of the settings table names, and a line in `usual_pause`
    or `pause_for_fetch`, which live crawls and simulations share.

    Parameters
    ----------
    delay
        Seconds between accesses to a site (w); default 0.
    small_site_delay, small_site_pages
        Delay in seconds for sites with fewer than this many known pages; default None (same as for
        other sites) and 100. Baeza-Yates et al. 2005, section 5.3, use 5 s, and 15 s for sites of
        fewer than 100 pages.
    adaptive
        The pause is at least this many times the duration of the last fetch; default 0. Mercator
        (Heydon & Najork 1999; Najork & Wiener 2001) uses 10.
    max_adaptive
        Cap on the pause that `adaptive` calls for, in seconds; default 60. Departure: Mercator has
        none.
    site_bandwidth
        A fetch and its pause together last at least as long as its body takes at this many bytes/s;
        default 0: no such rule. Heritrix has the same rule (`maxPerHostBandwidthUsageKbSec`), but
        counts from the end of the fetch.
    max_crawl_delay
        Cap on a Crawl-delay, in seconds; default 300. 0: Crawl-delay is ignored.
    max_back_off
        Cap on the pause after Retry-After or repeated refusals, in seconds; default 3600.
    """

    delay: float = 0.0
    small_site_delay: float | None = None
    small_site_pages: int = 100
    adaptive: float = 0.0
    max_adaptive: float = 60.0
    site_bandwidth: float = 0.0
    max_crawl_delay: float = 300.0
    max_back_off: float = 3600.0

    @property
    def follows_fetches(self) -> bool:
        """Whether the pause depends on the last fetch."""
        return self.adaptive > 0 or self.site_bandwidth > 0

    def in_words(self) -> list[str]:
        """Return a readable description of the rules, one string per rule in force."""
        small = self.small_site_delay
        words = [
            f"delay {self.delay:g} s"
            + ("" if small is None else f" ({small:g} s under {self.small_site_pages} pages)")
        ]
        if self.adaptive:
            words.append(f"at least {self.adaptive:g} times the last fetch")
        if self.site_bandwidth:
            words.append(f"at most {self.site_bandwidth:,.0f} bytes/s from a site")
        return words

    def values(self) -> dict[str, float | None]:
        """Return the values that determine a pause, keyed by field name."""
        return {name: getattr(self, name) for name in _OF_ALL_SITES}

    @cached_property
    def rules(self) -> tuple[float, ...]:
        """The values that determine a pause, as a `PauseRules`; NaN for None."""
        numbers = self.values().values()
        return PauseRules(*(NO_DELAY if item is None else float(item) for item in numbers))

    def usual_pause(
        self, *, own_delay: float = NO_DELAY, crawl_delay: float = 0.0, n_pages: int = 0
    ) -> float:
        """Return the seconds that a site rests after every fetch; parameters as for `pause`."""
        return float(usual_pause.py_func(self.rules, own_delay, crawl_delay, n_pages))

    def pause_for_fetch(self, elapsed: float, n_bytes: float) -> float:
        """Return the pause that the last fetch calls for, in seconds; parameters as for `pause`."""
        return float(pause_for_fetch.py_func(self.rules, elapsed, n_bytes))

    def pause(
        self,
        *,
        own_delay: float = NO_DELAY,
        crawl_delay: float = 0.0,
        elapsed: float = 0.0,
        n_bytes: float = 0.0,
        n_pages: int = 0,
    ) -> float:
        """Return the seconds from the end of a fetch to the earliest next start on its site.

        The arguments are those of `usual_pause` and `pause_for_fetch`.
        """
        return max(
            self.usual_pause(own_delay=own_delay, crawl_delay=crawl_delay, n_pages=n_pages),
            self.pause_for_fetch(elapsed, n_bytes),
        )

    def obeyed_crawl_delay(self, seconds: float) -> float:
        """Return a Crawl-delay limited to `max_crawl_delay`, in seconds."""
        return min(max(seconds, 0.0), self.max_crawl_delay)

    def back_off(self, pause: float, n_refusals: int, retry_after: float | None) -> float:
        """Return the pause after a refusal (429, 503), or a Retry-After, in seconds.

        Without the refusal the site would rest `pause` seconds. `n_refusals` came in a row, this
        one included. `retry_after` are the seconds that the response asked to wait, if it did.
        """
        asked = max(pause, 1.0) * 2.0 ** min(n_refusals, 30)
        if retry_after is not None:
            asked = max(retry_after, 0.0)
        return max(pause, min(asked, self.max_back_off))

    def rest_of_delay(self, delay: float, since_end: float | None) -> float:
        """Return how long a resumed crawl starts no fetch on a site with this delay, in seconds.

        The last run ended `since_end` seconds ago, by the wall clock; None if that is unknown
        because it was killed, in which case a fetch may have ended just now.
        """
        return delay - max(since_end or 0.0, 0.0)

    def rest_of_pause(self, pause: float, paused_until: float, now: float) -> float:
        """Return the seconds left of a pause that an earlier run of the crawl recorded.

        Never more than the pause itself or `max_back_off`, so that setting the wall clock back
        does not block a site for longer. `paused_until` and `now` are Unix times.
        """
        return max(min(paused_until - now, pause, self.max_back_off), 0.0)


_OF_ALL_SITES = [field.name for field in fields(Politeness) if field.name not in CAPS]

PauseRules = namedtuple("PauseRules", _OF_ALL_SITES)  # type: ignore[misc]
"""The fields of a `Politeness` that determine every site's pause, as floats for compiled code."""


@dataclass(slots=True)
class _Site:
    """A site by its id, fetched from or with its own settings. Times are monotonic."""

    id: int
    own_delay: float = NO_DELAY
    crawl_delay: float | None = None
    started_at: float = -math.inf
    ended_at: float = -math.inf
    paused_until: float = -math.inf
    pause: float = 0.0
    n_refusals: int = 0
    refused_at: float = -math.inf
    n_fetching: int = 0
    n_unstarted: int = 0


class SiteClock:
    """Says when a fetch may start on a site, given the fetches so far.

    Sites are hosts; the queue knows them by their ids in `pages`, and hands out no page of one
    before its time or beyond its limit. `now` returns the time on the clock of the queue. If other
    processes fetch too, `is_held` returns whether one of them may be fetching from a site. Every
    call costs O(log sites). Memory: 160 bytes for each site that was fetched from.
    """

    def __init__(
        self, politeness: Politeness, queue: PageQueue, pages: PageTable, now: Callable[[], float]
    ) -> None:
        self.politeness = politeness
        self.is_held: Callable[[str], bool] = lambda site: False
        self._queue = queue
        self._pages = pages
        self._now = now
        self._sites: dict[str, _Site] = {}

    def set_site(self, site: str, *, delay: float | None = None, limit: int | None = None) -> None:
        """Set the delay, in seconds, or the limit of concurrent fetches of one site."""
        known = self._of(site)
        if delay is not None:
            known.own_delay = delay
        self._queue.set_site(known.id, delay=self.delay(site), limit=limit)
        if self._queue.site_limit(known.id) > 1:
            self._delay_until(known, self.next_start(site))
        else:
            self._delay_until(known, known.ended_at + self.delay(site))

    def delay(self, site: str) -> float:
        """Return the seconds that a site rests after every fetch."""
        known = self._of(site)
        return self.politeness.usual_pause(
            own_delay=known.own_delay,
            crawl_delay=known.crawl_delay or 0.0,
            n_pages=self._pages.site_size(known.id),
        )

    def obey_crawl_delay(self, site: str, seconds: float) -> float:
        """Obey the Crawl-delay of a site from now on; return the delay applied, in seconds."""
        known = self._of(site)
        before, known.crawl_delay = known.crawl_delay, self.politeness.obeyed_crawl_delay(seconds)
        delay = self.delay(site)
        self._queue.set_site(known.id, delay=delay)
        since = known.ended_at if known.ended_at > -math.inf else self._now()
        self._delay_until(known, since + delay)
        if known.crawl_delay != before:
            self._has_learned(site)
        return known.crawl_delay

    def next_start(self, site: str) -> float:
        """Return the time before which no fetch may start on a site; -inf if there is none.

        With several fetches at once, the queue's own time advances when it hands out a page, so
        the time here is computed from the last start instead.
        """
        known = self._of(site)
        if self._queue.site_limit(known.id) == 1:
            return self._queue.site_ready_at(known.id)
        return max(known.started_at + self.delay(site), known.paused_until)

    def has_room(self, site: str) -> bool:
        """Return whether a site has fewer fetches in flight than its limit, and is not held."""
        return self._has_room_for(self._of(site), 0) and not self.is_held(site)

    def is_ready(self, site: str, *, counts_unstarted: bool = False) -> bool:
        """Return whether a fetch may start on a site now, as far as this process fetches.

        With `counts_unstarted`, also what was handed out has ended, or leaves room for more.
        """
        known = self._of(site)
        has_room = self._has_room_for(known, known.n_unstarted if counts_unstarted else 0)
        return has_room and self.next_start(site) <= self._now()

    def hold(self, site: str, n_fetches: int = 1) -> None:
        """Count a fetch that the queue did not hand out against its site; -1 ends it."""
        self._queue.hold(self._of(site).id, n_fetches)

    def handed_out(self, site: str) -> None:
        """Note that the queue handed out a page whose fetch has not started yet.

        With several fetches at once the next page of the site leaves after its delay, which depends
        on how many pages it has by now.
        """
        known = self._of(site)
        known.n_unstarted += 1
        if self.politeness.small_site_delay is not None and self._queue.site_limit(known.id) > 1:
            self._queue.set_ready_at(known.id, self._now() + self.delay(site))

    def not_fetched(self, site: str) -> None:
        """Note that a page that was handed out will not be fetched, so its site need not rest.

        For example, a cache answered the request, or a middleware dropped it.
        """
        known = self._of(site)
        known.n_unstarted -= 1
        if known.n_unstarted == 0 and self._queue.site_limit(known.id) > 1:
            self._queue.set_ready_at(known.id, self.next_start(site))

    def started(self, site: str, *, was_handed_out: bool) -> float:
        """Note that a fetch starts; return the seconds since the last one on the site ended.

        The gap is inf for the first fetch, and if the site may have several at once.
        """
        known, now = self._of(site), self._now()
        known.n_fetching += 1
        known.n_unstarted -= was_handed_out
        known.started_at = now
        if self._queue.site_limit(known.id) == 1:
            return now - known.ended_at
        self._delay_until(known, self.next_start(site))
        return math.inf

    def ended(
        self,
        site: str,
        *,
        was_handed_out: bool,
        elapsed: float,
        status: int,
        retry_after: float | None = None,
        n_bytes: int = 0,
    ) -> None:
        """Note that a fetch ended, and start the delay.

        The fetch took `elapsed` seconds; its `status` is 0 if no response came; `retry_after` are
        the seconds that the response asked to wait, if it did. A redirect or an error may ask.
        """
        known, now = self._of(site), self._now()
        known.ended_at = now
        known.n_fetching -= 1
        usual = self.delay(site)
        pause = max(usual, self.politeness.pause_for_fetch(elapsed, n_bytes))
        is_refusal = status in BACK_OFF_STATUSES
        # RFC 9110, section 10.2.3; answers with a page are no reason to wait.
        asks = is_refusal or (retry_after is not None and status >= 300)
        is_new = asks or (bool(status) and (known.n_refusals > 0 or known.pause > 0))
        if is_refusal:
            # Fetches already in flight when the site first refused count as the same refusal.
            if now - elapsed >= known.refused_at:
                known.n_refusals += 1
                known.refused_at = now
        elif status:
            known.n_refusals = 0
        if asks:
            pause = self.politeness.back_off(pause, known.n_refusals, retry_after)
        if is_new:
            known.pause = pause if asks else 0.0
        if self._queue.site_limit(known.id) == 1:
            ends_visit = asks or not was_handed_out
            self._queue.end_fetch(known.id, now + pause, ends_visit=ends_visit)
        elif pause > usual:
            known.paused_until = max(known.paused_until, now + pause)
            self._delay_until(known, known.paused_until)
        if is_new:
            self._has_learned(site)

    def learned(self, site: str) -> SiteState:
        """Return what a later run should know about a site, without the end of its pause."""
        known = self._of(site)
        return SiteState(site, known.crawl_delay, known.n_refusals, known.pause)

    def _has_learned(self, site: str) -> None:
        """Called when `learned` has changed; does nothing."""

    def relearn(self, state: SiteState) -> None:
        """Restore what an earlier run learned about a site, within the current limits."""
        known = self._of(state.host)
        if state.crawl_delay is not None and self.politeness.max_crawl_delay:
            known.crawl_delay = self.politeness.obeyed_crawl_delay(state.crawl_delay)
        known.n_refusals = max(state.refusals, 0)
        self._queue.set_site(known.id, delay=self.delay(state.host))

    def rest(self, site: str, seconds: float | None = None) -> None:
        """Start no fetch on a site for some seconds from now; by default for one delay."""
        known = self._of(site)
        until = self._now() + (self.delay(site) if seconds is None else seconds)
        known.paused_until = max(known.paused_until, until)
        self._delay_until(known, until)

    def _has_room_for(self, known: _Site, n_more: int) -> bool:
        return known.n_fetching + n_more < self._queue.site_limit(known.id)

    def _delay_until(self, known: _Site, until: float) -> None:
        self._queue.set_ready_at(known.id, max(until, self._queue.site_ready_at(known.id)))

    def _of(self, site: str) -> _Site:
        known = self._sites.get(site)
        if known is None:
            known = self._sites[site] = _Site(self._pages.site(site))
        return known


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
    by one as its fetches end. `domain_of` returns the number of the registered domain of a site,
    which is not 0; it is asked twice a page.

    Cost: 0.9 µs of processor time per page; O(log n) for each site held back.
    Once in `LATELY` seconds, a domain that is alone has all its ready sites held back and returned,
    to find out.
    """

    def __init__(self, queue: PageQueue, most: int, domain_of: Callable[[int], int]) -> None:
        self._queue = queue
        self._most = most
        self._domain_of = domain_of
        self._in_flight: dict[int, int] = {}
        self._suspended: dict[int, deque[int]] = {}
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
            domain = self._domain_of(site)
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
        domain = self._domain_of(site)
        self._in_flight[domain] = self._in_flight.get(domain, 0) + 1

    def ended(self, site: int) -> None:
        """Note that a page of a site that was handed out is no longer in flight."""
        domain = self._domain_of(site)
        n = self._in_flight[domain] = self._in_flight[domain] - 1
        if not n:
            del self._in_flight[domain]
        if not self._suspended:
            return
        suspended = self._suspended.get(domain)
        if suspended and not n:
            self._return_sites(domain)
        elif suspended and n < self._most:
            self._queue.hold(suspended.popleft(), -_HELD)
            if not suspended:
                del self._suspended[domain]

    def _find_alone(self, now: float) -> bool:
        """Let a domain fetch alone if no other had a page lately; return whether there is one."""
        latest = self._latest
        domain = latest if latest in self._suspended else next(iter(self._suspended), 0)
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
        self._suspended.setdefault(domain, deque()).append(site)

    def _return_sites(self, domain: int) -> None:
        """Release all sites of a domain that were held back."""
        for site in self._suspended.pop(domain, ()):
            self._queue.hold(site, -_HELD)
