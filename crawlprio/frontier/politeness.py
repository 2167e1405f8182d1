"""The delay rules of a crawl: how long a site rests after a fetch. Live and simulated alike."""

from __future__ import annotations

from collections import namedtuple
from dataclasses import dataclass, fields
from functools import cached_property
from typing import Any

from crawlprio.compiled import njit

BACK_OFF_STATUSES = frozenset({429, 503})
"""HTTP statuses by which a site asks for fewer fetches."""

NO_DELAY = float("nan")
"""Stands for a delay that nobody has set."""


ASKED_FOR = ("max_crawl_delay", "max_back_off")
"""Fields of `Politeness` that bound what sites ask for; the others make the pause of any site."""


@njit(cache=True)
def usual_pause(rules: Any, own_delay: float, crawl_delay: float, n_pages: int) -> float:
    """Return the seconds that a site rests after any fetch.

    Parameters
    ----------
    rules
        a `PauseRules`.
    own_delay
        seconds set for this site alone; NaN if none are.
    crawl_delay
        seconds of its Crawl-delay that are obeyed; 0 for none.
    n_pages
        pages of the site known so far.
    """
    pause = own_delay
    if own_delay != own_delay:
        pause = rules.delay
        if rules.small_site_delay == rules.small_site_delay and n_pages < rules.small_site_pages:
            pause = rules.small_site_delay
    return max(pause, crawl_delay)


@njit(cache=True)
def pause_for_fetch(rules: Any, elapsed: float, n_bytes: float) -> float:
    """Return the seconds that the last fetch of a site asks for, 0 for none.

    Parameters
    ----------
    rules
        a `PauseRules`.
    elapsed, n_bytes
        seconds that the fetch took, and length of its body.
    """
    pause = 0.0
    if rules.adaptive > 0.0:
        pause = max(pause, min(rules.adaptive * elapsed, rules.max_adaptive))
    if rules.site_bandwidth > 0.0:
        pause = max(pause, n_bytes / rules.site_bandwidth - elapsed)
    return pause


@dataclass(frozen=True)
class Politeness:
    """The pause between the end of one fetch on a site and the start of the next, at least.

    The longest of these holds: the site's own delay or else `delay` (`small_site_delay` for a small
    site); the Crawl-delay of its robots.txt; `adaptive` times the duration of the last fetch; what
    `site_bandwidth` leaves of the time for its bytes; what a site that answered 429 or 503 asked
    for, or else a delay that doubles with each such answer.
    What is known of single sites is in `SiteClock`.

    A rule is a field here, which a row of the settings table names, and a line in `usual_pause` or
    `pause_for_fetch`, which live crawls and simulations share.

    Parameters
    ----------
    delay
        seconds between accesses to a site (w); default 0.
    small_site_delay, small_site_pages
        seconds for sites with fewer than so many known pages; default None: as for others, and 100.
        Baeza-Yates et al. 2005, section 5.3, have 5 s, and 15 s for sites of under 100 pages.
    adaptive
        The pause is at least this many times the duration of the last fetch; default 0. Mercator
        (Heydon & Najork 1999; Najork & Wiener 2001) waits 10 times.
    max_adaptive
        seconds that `adaptive` asks for at most; default 60.
    site_bandwidth
        A fetch and its pause last at least as long as its body takes at so many bytes/s; default 0:
        no such rule. Heritrix has it (`maxPerHostBandwidthUsageKbSec`), from the end of the fetch.
    max_crawl_delay
        seconds that a robots.txt can ask for at most; default 300. 0: Crawl-delay is not obeyed.
    max_back_off
        seconds that Retry-After or repeated refusals can ask for at most; default 3600.
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
        """Return what makes a pause, for people."""
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
        """Return the numbers that make a pause by the name of their field."""
        return {name: getattr(self, name) for name in _OF_ALL_SITES}

    @cached_property
    def rules(self) -> tuple[float, ...]:
        """The numbers that make a pause, as a `PauseRules`; NaN for None."""
        numbers = self.values().values()
        return PauseRules(*(NO_DELAY if item is None else float(item) for item in numbers))

    def usual_pause(
        self, *, own_delay: float = NO_DELAY, crawl_delay: float = 0.0, n_pages: int = 0
    ) -> float:
        """Return the seconds that a site rests after any fetch; parameters as of `pause`."""
        return float(usual_pause.py_func(self.rules, own_delay, crawl_delay, n_pages))

    def pause_for_fetch(self, elapsed: float, n_bytes: float) -> float:
        """Return the seconds that the last fetch asks for; parameters as of `pause`."""
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

        Parameters
        ----------
        own_delay
            seconds that were set for this site alone; NaN (the default) if none were.
        crawl_delay
            seconds of Crawl-delay that are obeyed; 0 for none.
        elapsed, n_bytes
            seconds that the fetch took, and length of the body that it brought.
        n_pages
            pages of the site known so far.
        """
        return max(
            self.usual_pause(own_delay=own_delay, crawl_delay=crawl_delay, n_pages=n_pages),
            self.pause_for_fetch(elapsed, n_bytes),
        )

    def obeyed_crawl_delay(self, seconds: float) -> float:
        """Return how much of a Crawl-delay is obeyed, in seconds."""
        return min(max(seconds, 0.0), self.max_crawl_delay)

    def back_off(self, pause: float, n_refusals: int, retry_after: float | None) -> float:
        """Return the pause after a refusal (429, 503), in seconds.

        Parameters
        ----------
        pause
            seconds that the site would rest without it.
        n_refusals
            refusals in a row, this one included.
        retry_after
            seconds that the answer asked to wait; None if it did not say.
        """
        asked = max(pause, 1.0) * 2.0 ** min(n_refusals, 30)
        if retry_after is not None:
            asked = max(retry_after, 0.0)
        return max(pause, min(asked, self.max_back_off))

    def rest_of_delay(self, delay: float, since_end: float | None) -> float:
        """Return the seconds for which a resumed crawl starts no fetch on a site with this delay.

        Parameters
        ----------
        since_end
            seconds since the last run ended, by the wall clock; None if that is not known, as it
            was killed: a fetch may have ended this moment.
        """
        return delay - max(since_end or 0.0, 0.0)

    def rest_of_pause(self, pause: float, paused_until: float, now: float) -> float:
        """Return the seconds left of a pause that an earlier run of the crawl recorded.

        Never more than the pause had, or `max_back_off`, so that a wall clock that was set back
        stops no site for longer.

        Parameters
        ----------
        pause
            seconds that it was to last.
        paused_until, now
            Unix times: its end, and the present.
        """
        return max(min(paused_until - now, pause, self.max_back_off), 0.0)


_OF_ALL_SITES = [field.name for field in fields(Politeness) if field.name not in ASKED_FOR]

PauseRules = namedtuple("PauseRules", _OF_ALL_SITES)  # type: ignore[misc]
"""The fields of a `Politeness` that make the pause of any site, as floats, for compiled code."""
