"""The delay rules of a crawl, live or simulated: how long a site rests after a fetch."""

from __future__ import annotations

from collections import namedtuple
from dataclasses import dataclass, fields
from functools import cached_property
from typing import Any

from crawlprio.graph.compiled import njit

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
    the rest of the time that its bytes take at `site_bandwidth`; after a 429 or 503, the
    Retry-After, or else a delay that doubles with each such response.
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
        """Return the pause after a refusal (429, 503), in seconds.

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
