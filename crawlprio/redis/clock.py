"""When sites may be fetched from, by the clock of the server that all workers share."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Mapping
from functools import partial
from time import monotonic

from crawlprio.frontier.politeness import BACK_OFF_STATUSES, NO_DELAY, Politeness
from crawlprio.redis.session import N_LEASES_OF_CALL, Answer

_POLL = 0.05
"""Seconds between two looks of a fetch that waits for leave."""


class RedisClock:
    """`crawlprio.frontier.protocol.FetchClock` of a worker; the times are kept by `clock.lua`.

    A page that is leased may be fetched at once: its lease says that its site is ready, and holds
    the site until the fetch ends. A fetch without one (robots.txt, media) takes the place of a page
    that this worker has leased on the site, or asks the server.

    Parameters
    ----------
    call
        passes a call to the session of the shard of a site: script, what is told, the site, and so
        on.
    alive_until
        returns the monotonic time at which the server that has a site takes this worker for dead.
    politeness, limit, slots
        the delay rules, fetches at once on a site, and both for single sites.
    """

    def __init__(
        self,
        call: Callable[..., None],
        alive_until: Callable[[str], float],
        politeness: Politeness,
        limit: int,
        slots: Mapping[str, tuple[float | None, int | None]],
    ) -> None:
        self._call = call
        self._politeness = politeness
        self._limit = limit
        self._slots = slots
        self._n_leased: Counter[str] = Counter()
        self._n_fetching: Counter[str] = Counter()
        self._granted: dict[str, list[int]] = {}
        self._n_wanted: Counter[str] = Counter()
        self._n_asking: Counter[str] = Counter()
        self._ask_at: dict[str, float] = {}
        self._ready_at: dict[str, float] = {}
        self._ended_at: dict[str, float] = {}
        self._crawl_delays: dict[str, float] = {}
        self._alive_until = alive_until

    # What the frontier tells

    def leased(self, site: str) -> None:
        """Note that a page of a site is leased: the site is ready."""
        self._n_leased[site] += 1
        self._ready_at.pop(site, None)

    def released(self, site: str) -> None:
        """Note that a page holds its site no more."""
        self._n_leased[site] -= 1
        if not self._n_leased[site] and not self._n_fetching[site]:
            del self._n_leased[site]
            self._ready_at.pop(site, None)

    # FetchClock

    def next_start(self, site: str) -> float:
        now = monotonic()
        if now >= self._alive_until(site):
            return now + 1.0  # another worker may have the site by now
        if self._n_fetching[site] >= self._n_leased[site] + len(self._granted.get(site, ())):
            self._ask(site, now)
            return max(now, self._ask_at.get(site, 0.0)) + _POLL
        ready_at = self._ready_at.get(site, -math.inf)
        return ready_at if ready_at < math.inf else now + _POLL

    def has_room(self, site: str) -> bool:
        return True

    def hold(self, site: str, n_fetches: int = 1) -> None:
        self._n_wanted[site] += n_fetches
        self._give_up_rest(site)

    def not_fetched(self, site: str) -> None:
        if self._limit_of(site) > 1:
            self._call("clock", "not_fetched", site, 1)

    def started(self, site: str, *, was_handed_out: bool) -> float:
        self._n_fetching[site] += 1
        if self._limit_of(site) > 1:
            self._call("clock", "started", site, int(was_handed_out))
            return math.inf
        return monotonic() - self._ended_at.get(site, -math.inf)

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
        self._n_fetching[site] -= 1
        self._ended_at[site] = monotonic()
        own_delay, _ = self._slots.get(site, (None, None))
        usual = self._politeness.usual_pause(
            own_delay=NO_DELAY if own_delay is None else own_delay,
            crawl_delay=self._crawl_delays.get(site, 0.0),
        )
        for_fetch = self._politeness.pause_for_fetch(elapsed, n_bytes)
        pause = max(usual, for_fetch)
        if self._limit_of(site) == 1 and (pause or status in BACK_OFF_STATUSES):
            self._ready_at[site] = math.inf
        self._call(
            "clock",
            "ended",
            site,
            int(was_handed_out),
            repr(elapsed),
            status,
            "" if retry_after is None else repr(retry_after),
            repr(for_fetch),
            answered=partial(self._has_ended, site),
        )

    def obey_crawl_delay(self, site: str, seconds: float) -> float:
        obeyed = self._politeness.obeyed_crawl_delay(seconds)
        self._crawl_delays[site] = obeyed
        self._call("clock", "crawl_delay", site, 0, repr(obeyed))
        return obeyed

    # Answers

    def _has_ended(self, site: str, answer: Answer) -> None:
        if site in self._ready_at:
            wait = float(answer.result[0]) - answer.status.server_now
            self._ready_at[site] = answer.status.received + wait

    def _ask(self, site: str, now: float) -> None:
        """Ask for leave to fetch once on a site, unless that was asked already."""
        if self._n_asking[site] or now < self._ask_at.get(site, 0.0):
            return
        self._n_asking[site] += 1
        self._call("clock", "hold", site, 0, answered=partial(self._asked, site))

    def _asked(self, site: str, answer: Answer) -> None:
        self._n_asking[site] -= 1
        is_granted, ask_at = answer.result
        if int(is_granted):
            self._granted.setdefault(site, []).append(answer.seq)
            self._ready_at.pop(site, None)
            self._ask_at.pop(site, None)
            self._give_up_rest(site)
        else:
            self._ask_at[site] = answer.status.received + float(ask_at) - answer.status.server_now

    def _give_up_rest(self, site: str) -> None:
        """Give up leave that no fetch wants any more."""
        granted = self._granted.get(site, [])
        while len(granted) > self._n_wanted[site]:
            seq = granted.pop()
            self._call("clock", "unhold", site, 0, seq, ends=seq * N_LEASES_OF_CALL)
        if not granted:
            self._granted.pop(site, None)

    def _limit_of(self, site: str) -> int:
        _, limit = self._slots.get(site, (None, None))
        return self._limit if limit is None else limit
