"""How long a site waits for the callback of its last page before its next page leaves."""

from __future__ import annotations

from collections.abc import Callable

from scrapy.utils.asyncio import CallLaterResult, call_later

from crawlprio.live.leases import Lease

TICK = 0.01
"""Seconds between two checks of the callbacks that sites wait for."""

PATIENCE = 10
"""Ticks that a site waits for a callback that yields nothing more. Ticks pass only while the event
loop is free, so a callback that computes for a second is waited for, one that awaits is not."""

MAX_PATIENCE = 10 * PATIENCE
"""Ticks that a site waits for a callback that keeps yielding."""


class Patience:
    """Lets sites wait for callbacks, so that the next choice knows the links of the last page.

    No callback that awaits something is waited for longer than `PATIENCE`, and none is waited for
    at all while callbacks are slower than that.

    Parameters
    ----------
    release
        frees the site of a lease, if it still waits.
    on_freed
        called after callbacks that took too long have freed their sites.
    """

    def __init__(self, release: Callable[[Lease], object], on_freed: Callable[[], object]) -> None:
        self._release = release
        self._on_freed = on_freed
        self._running: dict[Lease, None] = {}
        self._is_patient = True
        self._ticks = 0
        self._ticker: CallLaterResult | None = None

    def begin(self, lease: Lease) -> None:
        """Wait for the callback of a lease, which begins now, unless callbacks are slow."""
        lease.answered_at = lease.progressed_at = self._ticks
        self._running[lease] = None
        if self._ticker is None:
            self._ticker = call_later(TICK, self._tick)
        if not self._is_patient:
            self._release(lease)

    def prolong(self, lease: Lease) -> None:
        """Wait `PATIENCE` from now: the callback has yielded, or its output was consumed."""
        lease.progressed_at = self._ticks

    def end(self, lease: Lease) -> None:
        """Stop waiting for a callback that has ended, and judge the next ones by it."""
        if lease in self._running:
            del self._running[lease]
            if lease.pairs is not None:
                self._is_patient = not self._is_slow(lease)

    def close(self) -> None:
        if self._ticker is not None:
            self._ticker.cancel()

    def _tick(self) -> None:
        """Free all sites that wait once one of the callbacks takes too long."""
        self._ticker = call_later(TICK, self._tick) if self._running else None
        self._ticks += 1
        waited_for = [lease for lease in self._running if lease.holds_site]
        if any(map(self._is_slow, waited_for)):
            self._is_patient = False
            for lease in waited_for:
                self._release(lease)
            self._on_freed()

    def _is_slow(self, lease: Lease) -> bool:
        return (
            self._ticks - lease.progressed_at >= PATIENCE
            or self._ticks - lease.answered_at >= MAX_PATIENCE
        )
