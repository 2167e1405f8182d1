"""Waiting without blocking, under any reactor and without one."""

from __future__ import annotations

from scrapy.utils.asyncio import call_later
from scrapy.utils.defer import maybe_deferred_to_future
from twisted.internet.defer import Deferred


async def sleep(seconds: float) -> None:
    """Return after some seconds; after 0, once the event loop has had a turn."""
    over: Deferred[None] = Deferred()
    call_later(seconds, over.callback, None)
    await maybe_deferred_to_future(over)
