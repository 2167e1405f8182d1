"""The clock of the sites of a crawl by their hosts, and how fetches wait for their turn."""

from __future__ import annotations

from collections.abc import Callable
from time import monotonic, time
from typing import Any

from scrapy.utils.asyncio import call_later
from scrapy.utils.defer import maybe_deferred_to_future
from twisted.internet.defer import Deferred

from crawlprio.errors import CrawlprioError
from crawlprio.frontier import PageQueue, SiteClock
from crawlprio.frontier.politeness import Learned
from crawlprio.frontier.protocol import FetchClock
from crawlprio.live.recorder import Recorder
from crawlprio.settings_table.config import NO_LIMIT, CrawlConfig

_BUSY_SECONDS, _READY_SECONDS = 0.5, 0.1


class AwaitedClock(FetchClock):
    """A clock that lets fetches wait for their site; whatever changes one calls `wake`."""

    def __init__(self) -> None:
        self._waiters: dict[str, list[Deferred[None]]] = {}

    async def turn(self, site: str, until: Callable[[], bool]) -> None:
        """Wait until a condition holds, under which a fetch may start on a site, or is given up.

        It is checked whenever a fetch on the site has ended, or is off, and when the site is next
        ready. Nobody tells that the crawl is paused or ends, so it is checked after half a second,
        too. Those who wait longest are first.
        """
        while not until():
            seconds = _BUSY_SECONDS
            if self.has_room(site):
                rest = self.next_start(site) - monotonic()
                seconds = min(rest, seconds) if rest > 0 else _READY_SECONDS
            waiter: Deferred[None] = Deferred()
            self._waiters.setdefault(site, []).append(waiter)
            timer = call_later(seconds, self.wake, site)
            try:
                await maybe_deferred_to_future(waiter)
            finally:
                timer.cancel()

    def wake(self, site: str) -> None:
        """Have all who wait for a site check it again, in their order."""
        for waiter in self._waiters.pop(site, ()):
            waiter.callback(None)


class HostClock(AwaitedClock):
    """The clock over a `SiteClock` in this process.

    The recorder assigns site ids and stores the state of sites; an error of the store goes to
    `failed`.
    """

    def __init__(
        self, sites: SiteClock, recorder: Recorder, failed: Callable[[CrawlprioError], object]
    ) -> None:
        super().__init__()
        self.sites = sites
        self.recorder = recorder
        self.failed = failed
        self._site = recorder.pages.site

    @classmethod
    def of_queue(
        cls,
        config: CrawlConfig,
        queue: PageQueue,
        recorder: Recorder,
        failed: Callable[[CrawlprioError], object],
    ) -> HostClock:
        """Return the clock of a queue, with the delays and limits of DOWNLOAD_SLOTS."""
        sites = SiteClock(config.politeness, queue, recorder.pages.site_size)
        for host, (delay, limit) in config.slots.items():
            sites.set_site(recorder.pages.site(host), delay=delay, limit=limit)
        return cls(sites, recorder, failed)

    def next_start(self, site: str) -> float:
        return self.sites.next_start(self._site(site))

    def has_room(self, site: str) -> bool:
        return self.sites.has_room(self._site(site))

    def hold(self, site: str, n_fetches: int = 1) -> None:
        self.sites.hold(self._site(site), n_fetches)

    def not_fetched(self, site: str) -> None:
        self.sites.not_fetched(self._site(site), monotonic())
        self.wake(site)

    def started(self, site: str, *, was_handed_out: bool) -> float:
        return self.sites.started(self._site(site), monotonic(), was_handed_out=was_handed_out)

    def ended(self, site: str, **fetch: Any) -> None:
        known = self._site(site)
        if self.sites.ended(known, monotonic(), **fetch):
            self._save(known)
        self.wake(site)

    def rest(self, site: str) -> None:
        """Start no fetch on a site for one delay from now."""
        known = self._site(site)
        self.sites.rest(known, monotonic() + self.sites.delay(known))

    def set_delay(self, site: str, seconds: float) -> None:
        self.sites.set_site(self._site(site), delay=seconds)

    def set_limit(self, site: str, n_fetches: int) -> None:
        self.sites.set_site(self._site(site), limit=n_fetches or NO_LIMIT)

    def obey_crawl_delay(self, site: str, seconds: float) -> float:
        known = self._site(site)
        before = self.sites.crawl_delay(known)
        obeyed = self.sites.obey_crawl_delay(known, seconds, monotonic())
        if obeyed != before:
            self._save(known)
        return obeyed

    def restore(self) -> None:
        """Restore the delays and pauses of the resumed crawl. O(sites)."""
        recorder, sites = self.recorder, self.sites
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
            self.recorder.save_site(site, self.sites.learned(site))
        except CrawlprioError as error:
            self.failed(error)
