"""Site delays of the shared frontier, kept by the server's clock."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Mapping
from functools import partial
from time import monotonic

from crawlprio.frontier.politeness import BACK_OFF_STATUSES, Politeness
from crawlprio.plugins.redis.session import N_LEASES_OF_CALL, ServerAnswer

_POLL = 0.05
"""Seconds between two checks of a fetch that waits for permission."""


class RedisClock:
    """The `crawlprio.frontier.protocol.FetchClock` of a worker; `clock.lua` keeps the times.

    A leased page may be fetched at once: the server leases only pages of ready sites, and the lease
    holds the site until the fetch ends. A fetch without a lease (robots.txt, media) runs in place
    of a page that this worker has leased on the site, or asks the server for permission.

    Parameters
    ----------
    call
        Sends a call to the shard of a site: script, action, site, further arguments.
    is_alive
        Whether the shard of a site is sure to keep this worker's leases.
    politeness, limit, slots
        The delay rules; fetches at once on a site; both for individual sites.
    """

    def __init__(
        self,
        call: Callable[..., None],
        is_alive: Callable[[str], bool],
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
        self._is_alive = is_alive

    # Called by the frontier

    def leased(self, site: str) -> None:
        """Note that a page of a site was leased, which means that the site is ready."""
        self._n_leased[site] += 1
        self._ready_at.pop(site, None)

    def released(self, site: str) -> None:
        """Note that a page no longer holds its site, or has lost it."""
        self._n_leased[site] -= 1
        if not self._n_leased[site] and not self._n_fetching[site]:
            del self._n_leased[site]
            self._ready_at.pop(site, None)

    def lost(self, lease: int, has_site: Callable[[str], bool]) -> None:
        """Note that a permission was lost; `has_site`: whether a site is in the lease's shard."""
        for site, granted in self._granted.items():
            if lease in granted and has_site(site):
                granted.remove(lease)

    # FetchClock

    def next_start(self, site: str) -> float:
        now = monotonic()
        if not self._is_alive(site):
            return now + 1.0  # another worker may have the site
        if self._n_fetching[site] >= self._n_permitted(site):
            self._ask(site, now)
            return max(now, self._ask_at.get(site, 0.0)) + _POLL
        ready_at = self._ready_at.get(site, -math.inf)
        return ready_at if ready_at < math.inf else now + _POLL

    def has_room(self, site: str) -> bool:
        return True

    def may_send(self, site: str) -> bool:
        return self._is_alive(site) and self._n_fetching[site] <= self._n_permitted(site)

    def _n_permitted(self, site: str) -> int:
        return self._n_leased[site] + len(self._granted.get(site, ()))

    def hold(self, site: str, n_fetches: int = 1) -> None:
        self._n_wanted[site] += n_fetches
        self._release_unwanted(site)

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
        if self._limit_of(site) == 1:
            self._ready_at[site] = math.inf  # until the answer
        self._call(
            "clock",
            "ended",
            site,
            int(was_handed_out),
            repr(elapsed),
            int(status in BACK_OFF_STATUSES) if status else "",
            "" if retry_after is None else repr(retry_after),
            repr(self._politeness.pause_for_fetch(elapsed, n_bytes)),
            on_answer=partial(self._on_ended, site),
        )

    def set_delay(self, site: str, seconds: float) -> None:
        self._call("clock", "delay", site, 0, repr(seconds))

    def obey_crawl_delay(self, site: str, seconds: float) -> float:
        obeyed = self._politeness.obeyed_crawl_delay(seconds)
        self._call("clock", "crawl_delay", site, 0, repr(obeyed))
        return obeyed

    # Answers

    def _on_ended(self, site: str, answer: ServerAnswer) -> None:
        if site in self._ready_at:
            wait = float(answer.result[0]) - answer.status.server_now
            self._ready_at[site] = answer.status.received + wait

    def _ask(self, site: str, now: float) -> None:
        """Ask for permission for one fetch on a site, unless an answer is pending."""
        if self._n_asking[site] or now < self._ask_at.get(site, 0.0):
            return
        self._n_asking[site] += 1
        self._call("clock", "hold", site, 0, on_answer=partial(self._on_hold, site))

    def _on_hold(self, site: str, answer: ServerAnswer) -> None:
        self._n_asking[site] -= 1
        is_granted, ask_at = answer.result
        if int(is_granted):
            self._granted.setdefault(site, []).append(answer.seq * N_LEASES_OF_CALL)
            self._ready_at.pop(site, None)
            self._ask_at.pop(site, None)
            self._release_unwanted(site)
        else:
            self._ask_at[site] = answer.status.received + float(ask_at) - answer.status.server_now

    def _release_unwanted(self, site: str) -> None:
        """Return permissions that no fetch wants any more."""
        granted = self._granted.get(site, [])
        while len(granted) > self._n_wanted[site]:
            lease = granted.pop()
            self._call("clock", "unhold", site, 0, lease, ends=lease)
        if not granted:
            self._granted.pop(site, None)

    def _limit_of(self, site: str) -> int:
        _, limit = self._slots.get(site, (None, None))
        return self._limit if limit is None else limit
