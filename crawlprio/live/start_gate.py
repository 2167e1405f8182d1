"""The gate for the requests of a spider's `start`, which may be endless."""

from __future__ import annotations

from scrapy import Request
from scrapy.utils.defer import maybe_deferred_to_future
from twisted.internet.defer import Deferred

MAX_WAITING = 10_000
"""Start requests that may wait at once; a longer `start()` continues as they are handed out."""


class StartGate:
    """Lets requests of `start` through while fewer than `MAX_WAITING` of them wait."""

    def __init__(self) -> None:
        self._let_through: set[Request] = set()
        self._waiting: set[str] = set()
        self._room: Deferred[None] | None = None
        self._is_closed = False

    async def wait(self, request: Request) -> None:
        """Return once a request may pass.

        Once the gate is closed, this waits until Scrapy cancels it: otherwise the engine would pull
        requests from an endless `start` without a pause.
        """
        while self._is_closed or len(self._waiting) >= MAX_WAITING:
            self._room = Deferred()
            await maybe_deferred_to_future(self._room)
        self._let_through.add(request)

    def __contains__(self, request: Request) -> bool:
        """Return whether a request has passed and is not queued yet."""
        return request in self._let_through

    def queue(self, request: Request, identity: str, *, is_kept: bool) -> None:
        """Count a request that has passed and now waits for its page, or was dropped."""
        self._let_through.discard(request)
        if is_kept:
            self._waiting.add(identity)

    def hand_out(self, identity: str) -> None:
        """Admit another request if one for this page was waiting."""
        self._waiting.discard(identity)
        if self._room is not None and len(self._waiting) < MAX_WAITING:
            room, self._room = self._room, None
            room.callback(None)

    def close(self) -> None:
        self._is_closed = True
