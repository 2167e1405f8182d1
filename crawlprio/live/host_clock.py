"""The site clock as the Scrapy layer uses it: by host name, in real time, kept across restarts."""

from __future__ import annotations

from collections.abc import Callable
from time import monotonic, time

from crawlprio.errors import CrawlprioError
from crawlprio.frontier import SiteClock
from crawlprio.frontier.site_clock import Learned
from crawlprio.live.recorder import Recorder


class HostClock:
    """A `crawlprio.frontier.protocol.FetchClock` over a `SiteClock` in this process.

    The recorder assigns site ids and stores the state of sites; an error of the store goes to
    `failed`.
    """

    def __init__(
        self, sites: SiteClock, recorder: Recorder, failed: Callable[[CrawlprioError], object]
    ) -> None:
        self.sites = sites
        self._recorder = recorder
        self._failed = failed
        self._site = recorder.pages.site

    def next_start(self, site: str) -> float:
        return self.sites.next_start(self._site(site))

    def has_room(self, site: str) -> bool:
        return self.sites.has_room(self._site(site))

    def may_send(self, site: str) -> bool:
        return True

    def hold(self, site: str, n_fetches: int = 1) -> None:
        self.sites.hold(self._site(site), n_fetches)

    def not_fetched(self, site: str) -> None:
        self.sites.not_fetched(self._site(site), monotonic())

    def started(self, site: str, *, was_handed_out: bool) -> float:
        return self.sites.started(self._site(site), monotonic(), was_handed_out=was_handed_out)

    def ended(
        self,
        site: str,
        *,
        was_handed_out: bool,
        elapsed: float,
        status: int,
        retry_after: float | None,
        n_bytes: int = 0,
    ) -> None:
        known = self._site(site)
        is_new = self.sites.ended(
            known,
            monotonic(),
            was_handed_out=was_handed_out,
            elapsed=elapsed,
            n_bytes=n_bytes,
            status=status,
            retry_after=retry_after,
        )
        if is_new:
            self._save(known)

    def rest(self, site: str) -> None:
        """Start no fetch on a site for one delay from now."""
        known = self._site(site)
        self.sites.rest(known, monotonic() + self.sites.delay(known))

    def set_delay(self, site: str, seconds: float) -> None:
        self.sites.set_site(self._site(site), delay=seconds)

    def obey_crawl_delay(self, site: str, seconds: float) -> float:
        known = self._site(site)
        before = self.sites.crawl_delay(known)
        obeyed = self.sites.obey_crawl_delay(known, seconds, monotonic())
        if obeyed != before:
            self._save(known)
        return obeyed

    def restore(self) -> None:
        """Restore the delays and pauses of the resumed crawl. O(sites)."""
        recorder, sites = self._recorder, self.sites
        assert recorder.store is not None
        now, since = monotonic(), time()
        politeness = sites.politeness
        pauses: dict[int, float] = {}
        for state in recorder.store.site_states():
            site = self._site(state.host)
            sites.restore(site, Learned(state.crawl_delay, state.refusals, state.pause))
            rest = politeness.rest_of_pause(state.pause, state.paused_until, since)
            pauses[site] = max(rest, pauses.get(site, 0.0))
        if politeness.follows_fetches:
            for site, fetched_at, elapsed, n_bytes in recorder.store.last_fetches():
                pause = politeness.pause_for_fetch(elapsed, n_bytes)
                rest = politeness.rest_of_pause(pause, fetched_at + pause, since)
                pauses[site] = max(rest, pauses.get(site, 0.0))
        end = recorder.previous_end
        since_end = None if end is None else since - end
        for site in range(recorder.pages.n_sites):
            rest = max(
                politeness.rest_of_delay(sites.delay(site), since_end), pauses.get(site, 0.0)
            )
            if rest > 0:
                sites.rest(site, now + rest)

    def _save(self, site: int) -> None:
        try:
            self._recorder.save_site(site, self.sites.learned(site))
        except CrawlprioError as error:
            self._failed(error)
