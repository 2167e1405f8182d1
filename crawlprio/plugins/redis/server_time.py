"""What a worker knows of the server's time, by a clock of its own."""

from __future__ import annotations

import logging
import time
from typing import NamedTuple

logger = logging.getLogger("crawlprio")

_LOGGED_STEP = 1.0
"""Seconds by which the server's clock must be set to be worth a line in the log."""


def boot_time() -> float:
    """Return the seconds of a monotonic clock that also runs while the machine is suspended."""
    return time.clock_gettime(time.CLOCK_BOOTTIME) if _HAS_BOOT_TIME else time.monotonic()


_HAS_BOOT_TIME = hasattr(time, "CLOCK_BOOTTIME")


class _Answer(NamedTuple):
    now: float
    offset: float
    sent_at: float
    received_at: float


class ServerTime:
    """Measures the time between two answers of the server, for `keep_time` in `leases.lua`."""

    def __init__(self) -> None:
        self._last: _Answer | None = None

    def measured(self, sent_at: float) -> str:
        """Return the last answer's time, and at least and at most how many seconds ago it was.

        `sent_at`: `boot_time()` of the call that says so. Empty before the first answer.
        """
        last = self._last
        if last is None:
            return ""
        return f"{last.now!r} {sent_at - last.received_at!r} {sent_at - last.sent_at!r}"

    def answered(self, now: float, offset: float, sent_at: float) -> None:
        """Note an answer that just arrived; log it if the server's clock was set before it."""
        last, self._last = self._last, _Answer(now, offset, sent_at, boot_time())
        if last is None:
            return
        passed = (now - offset) - (last.now - last.offset)
        least, most = sent_at - last.received_at, self._last.received_at - last.sent_at
        step = passed - min(max(passed, least), most)
        if abs(step) >= _LOGGED_STEP:
            logger.warning(
                "The clock of the Redis server was set %s by %.1f s; delays and leases go on as "
                "before.",
                "forward" if step > 0 else "back",
                abs(step),
            )

    def forget(self) -> None:
        """Measure nothing until the next answer."""
        self._last = None
