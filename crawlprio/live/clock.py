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


class HostClock(SiteClock, AwaitedClock):
    """The clock of the sites of a queue in this process, whose state is kept in the crawl store.

    Sites have the delays and limits of DOWNLOAD_SLOTS. An error of the store goes to `failed`.
    """

    def __init__(
        self,
        config: CrawlConfig,
        queue: PageQueue,
        recorder: Recorder,
        failed: Callable[[CrawlprioError], object],
    ) -> None:
        SiteClock.__init__(self, config.politeness, queue, recorder.pages, monotonic)
        AwaitedClock.__init__(self)
        self._recorder = recorder
        self._failed = failed
        for host, (delay, limit) in config.slots.items():
            self.set_site(host, delay=delay, limit=limit)

    def not_fetched(self, site: str) -> None:
        super().not_fetched(site)
        self.wake(site)

    def ended(self, site: str, **fetch: Any) -> None:
        super().ended(site, **fetch)
        self.wake(site)

    def set_delay(self, site: str, seconds: float) -> None:
        self.set_site(site, delay=seconds)

    def set_limit(self, site: str, n_fetches: int) -> None:
        self.set_site(site, limit=n_fetches or NO_LIMIT)

    def restore(self) -> None:
        """Restore the delays and pauses of the resumed crawl. O(sites)."""
        recorder, pages, politeness = self._recorder, self._recorder.pages, self.politeness
        assert recorder.store is not None
        since = time()
        pauses: dict[str, float] = {}
        for state in recorder.store.site_states():
            self.relearn(state)
            rest = politeness.rest_of_pause(state.pause, state.paused_until, since)
            pauses[state.host] = rest
        if politeness.follows_fetches:
            for site, fetched_at, elapsed, n_bytes in recorder.store.last_fetches():
                host, pause = pages.host(site), politeness.pause_for_fetch(elapsed, n_bytes)
                rest = politeness.rest_of_pause(pause, fetched_at + pause, since)
                pauses[host] = max(rest, pauses.get(host, 0.0))
        end = recorder.previous_end
        since_end = None if end is None else since - end
        for host in map(pages.host, range(pages.n_sites)):
            rest = politeness.rest_of_delay(self.delay(host), since_end)
            rest = max(rest, pauses.get(host, 0.0))
            if rest > 0:
                self.rest(host, rest)

    def _has_learned(self, site: str) -> None:
        try:
            self._recorder.save_site(self.learned(site))
        except CrawlprioError as error:
            self._failed(error)
