"""The robots.txt of sites, each read by one worker for all."""

from __future__ import annotations

import json
from collections.abc import Callable
from time import time
from typing import Any

from scrapy.utils.asyncio import call_later
from scrapy.utils.defer import maybe_deferred_to_future
from twisted.internet.defer import Deferred

from crawlprio.errors import CrawlprioError
from crawlprio.plugins.redis.scripts import Argument
from crawlprio.plugins.redis.session import ServerAnswer
from crawlprio.web.robots_txt import RobotsTxt
from crawlprio.web.urls import host_of

_POLL = 0.1
"""Seconds between two questions while another worker reads a file."""


class SharedRobots:
    """A `crawlprio.frontier.protocol.SharedFiles`; `robots.lua` keeps the files.

    Parameters
    ----------
    call
        Sends a call to the shard of a site: script, action, site, further arguments.
    """

    def __init__(self, call: Callable[..., None]) -> None:
        self._call = call
        self._asking: set[Deferred[ServerAnswer]] = set()

    async def find(self, netloc: str) -> RobotsTxt | None:
        while True:
            answered: Deferred[ServerAnswer] = Deferred()
            self._asking.add(answered)
            self._tell("find", netloc, on_answer=self._answer(answered))
            state, packed, age = (await maybe_deferred_to_future(answered)).result
            if int(state) and not packed:
                return None
            if int(state):
                head, _, file = packed.partition(b"\n")
                lasts, cause, agent = json.loads(head)
                return RobotsTxt(file, time() - float(age), lasts, cause, agent)
            polled: Deferred[None] = Deferred()
            call_later(_POLL, polled.callback, None)
            await maybe_deferred_to_future(polled)

    def keep(self, netloc: str, file: RobotsTxt) -> None:
        head = json.dumps([file.lasts, file.cause, file.agent]).encode()
        self._tell("keep", netloc, head + b"\n" + file.packed, repr(file.lasts))

    def give_up(self, error: CrawlprioError) -> bool:
        """Pass an error to those who wait for an answer; return whether there were any."""
        waiting, self._asking = self._asking, set()
        for answered in waiting:
            answered.errback(error)
        return bool(waiting)

    def _tell(self, action: str, netloc: str, *rest: Argument, **how: Any) -> None:
        self._call("robots", action, host_of(f"http://{netloc}/"), netloc, *rest, **how)

    def _answer(self, answered: Deferred[ServerAnswer]) -> Callable[[ServerAnswer], None]:
        def pass_on(answer: ServerAnswer) -> None:
            if answered in self._asking:
                self._asking.remove(answered)
                answered.callback(answer)

        return pass_on
