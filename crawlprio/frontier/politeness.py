"""When a site may be fetched from again: the delay rules, the same for live and simulated crawls.

It knows site ids and seconds; it has no clock and opens no connection.
"""

from __future__ import annotations

from dataclasses import dataclass, field

BACK_OFF_STATUSES = frozenset({429, 503})
"""HTTP statuses by which a site asks for fewer fetches."""


@dataclass
class Politeness:
    """The pause between the end of one fetch on a site and the start of the next, at least.

    The longest of these holds: the site's own delay or else `delay` (`small_site_delay` for a small
    site); the Crawl-delay of its robots.txt; `adaptive` times the duration of the last fetch; what
    a site that answered 429 or 503 asked for, or else a delay that doubles with each such answer.

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
    max_crawl_delay: float = 300.0
    max_back_off: float = 3600.0
    _own_delays: dict[int, float] = field(default_factory=dict, init=False)
    _crawl_delays: dict[int, float] = field(default_factory=dict, init=False)
    _refusals: dict[int, int] = field(default_factory=dict, init=False)

    def set_delay(self, site: int, seconds: float) -> None:
        """Give one site its own delay, instead of `delay`."""
        self._own_delays[site] = seconds

    def set_crawl_delay(self, site: int, seconds: float) -> float:
        """Note the Crawl-delay of a site; return the seconds that will be obeyed."""
        obeyed = min(max(seconds, 0.0), self.max_crawl_delay)
        self._crawl_delays[site] = obeyed
        return obeyed

    def crawl_delay(self, site: int) -> float | None:
        """Return the Crawl-delay of a site that is obeyed, in seconds; None if it has none."""
        return self._crawl_delays.get(site)

    def refusals(self, site: int) -> int:
        """Return how many answers in a row were refusals (429, 503)."""
        return self._refusals.get(site, 0)

    def go_on(self, site: int, crawl_delay: float | None, refusals: int) -> None:
        """Know of a site what an earlier run of the crawl had learnt, within today's bounds."""
        if crawl_delay is not None and self.max_crawl_delay:
            self.set_crawl_delay(site, crawl_delay)
        if refusals > 0:
            self._refusals[site] = refusals

    def rest_of_pause(self, pause: float, paused_until: float, now: float) -> float:
        """Return the seconds that are left of a pause which an earlier run of the crawl kept.

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

    def rest_of_delay(self, site: int, n_pages: int, since_end: float | None) -> float:
        """Return the seconds for which a resumed crawl starts no fetch on a site.

        Parameters
        ----------
        n_pages
            pages of the site known.
        since_end
            seconds since the last run ended, by the wall clock; None if that is not known, as it
            was killed: a fetch may have ended this moment.
        """
        return self.site_delay(site, n_pages) - max(since_end or 0.0, 0.0)

    def site_delay(self, site: int, n_pages: int) -> float:
        """Return the delay of a site of which `n_pages` pages are known, in seconds."""
        delay = self._own_delays.get(site)
        if delay is None:
            delay = self.delay
            if self.small_site_delay is not None and n_pages < self.small_site_pages:
                delay = self.small_site_delay
        return max(delay, self._crawl_delays.get(site, 0.0))

    def pause(
        self,
        site: int,
        *,
        elapsed: float = 0.0,
        status: int = 200,
        retry_after: float | None = None,
        n_pages: int = 0,
    ) -> float:
        """Return the seconds from the end of a fetch to the earliest next start on its site.

        Parameters
        ----------
        elapsed
            seconds that the fetch took.
        status
            HTTP status; 0 when no answer came.
        retry_after
            seconds that the answer asked to wait; None if it did not.
        n_pages
            pages of the site known so far.
        """
        pause = self.site_delay(site, n_pages)
        if self.adaptive:
            pause = max(pause, min(self.adaptive * elapsed, self.max_adaptive))
        if status in BACK_OFF_STATUSES:
            refusals = self._refusals[site] = self._refusals.get(site, 0) + 1
            asked = max(pause, 1.0) * 2.0 ** min(refusals, 30)
            if retry_after is not None:
                asked = max(retry_after, 0.0)
            pause = max(pause, min(asked, self.max_back_off))
        elif status:
            self._refusals.pop(site, None)
        return pause
