"""What an operator sees of the crawls on a server, and does to them."""

from __future__ import annotations

import json
import logging
import re
from collections.abc import Callable
from typing import Any

from redis.exceptions import RedisError
from scrapy.utils.asyncio import call_later, run_in_thread
from scrapy.utils.defer import deferred_from_coro

from crawlprio.errors import CrawlprioError
from crawlprio.redis.cluster import keys_of
from crawlprio.redis.scripts import Client, script
from crawlprio.redis.session import failure
from crawlprio.redis.shards import crawl_of, shards_of

RUNNING, PAUSED, DRAINING = "", "paused", "draining"
"""States of a crawl: pages leave; none leaves; none leaves and workers end."""

_WATCH = 1.0
"""Seconds between two looks of a worker at the state of its crawl."""

_CONFIG = re.compile(r"crawlprio:\{(.*):0\}:config", re.DOTALL)

logger = logging.getLogger("crawlprio")


def crawls(client: Client) -> list[str]:
    """Return the names of the crawls on a server, in alphabetical order. O(keys of the server).

    Raises
    ------
    RedisFailure
        if the server cannot be read.
    """
    try:
        keys = [
            key.decode() for key in client.scan_iter(match="crawlprio:{*:0}:config", count=1000)
        ]
    except RedisError as error:
        raise failure(error) from None
    return sorted(found[1] for found in map(_CONFIG.fullmatch, keys) if found)


def overview(client: Client, prefix: str, most: int = 10) -> dict[str, Any]:
    """Return how a crawl stands, as `show.lua` tells it, with up to `most` of each kind.

    Of several shards counts are added up, and the rest is put in order.

    Raises
    ------
    CrawlprioError
        if there is no such crawl, or the server cannot be read.
    """
    _check(client, prefix)
    try:
        shown = [
            json.loads(client.eval(script("show").text, *keys_of(one), "", 0, most))
            for one in shards_of(client, prefix).prefixes
        ]
    except RedisError as error:
        raise failure(error) from None
    # An empty table of Lua is an object of JSON.
    for one in shown:
        for name in ("workers", "leases", "head", "next", "dead"):
            one[name] = list(one[name])
    return _together(shown, most)


def _together(shown: list[dict[str, Any]], most: int) -> dict[str, Any]:
    """What is shown of a crawl by what is shown of its shards."""
    told = {**shown[0], "shards": len(shown)}
    if len(shown) == 1:
        return told
    for name in ("sites", "delayed", "streamed"):
        told[name] = sum(one[name] for one in shown)
    told["counts"] = {
        name: sum(one["counts"][name] for one in shown) for name in shown[0]["counts"]
    }
    workers: dict[str, dict[str, Any]] = {}
    for one in shown:
        for worker in one["workers"]:
            # A worker has a session in each shard, all of one name.
            known = workers.setdefault(worker["name"], {**worker, "leases": 0})
            known["leases"] += worker["leases"]
            known["since"] = min(known["since"], worker["since"])
            known["dead_at"] = min(known["dead_at"], worker["dead_at"])
    told["workers"] = list(workers.values())
    order: dict[str, Callable[[dict[str, Any]], Any]] = {
        "leases": lambda lease: lease["since"],
        "head": lambda page: (-page["priority"], -page["hot"], -float(page["key"])),
        "next": lambda site: site["ready_at"],
    }
    for name, key in order.items():
        told[name] = sorted((each for one in shown for each in one[name]), key=key)[:most]
    letters = sorted((each for one in shown for each in one["dead"]), key=lambda each: each["at"])
    told["dead"] = letters[-most:]
    return told


def set_state(client: Client, prefix: str, state: str) -> str:
    """Pause, drain or resume a crawl; return the state that it was in.

    Raises
    ------
    CrawlprioError
        as for `overview`.
    """
    _check(client, prefix)
    try:
        before = client.hget(f"{prefix}:config", "state") or b""
        # Workers read that of the first shard: by then no page leaves any of them.
        for one in reversed(shards_of(client, prefix).prefixes):
            client.hset(f"{one}:config", "state", state)
    except RedisError as error:
        raise failure(error) from None
    return str(before.decode())


def _check(client: Client, prefix: str) -> None:
    try:
        is_there = client.exists(f"{prefix}:config")
    except RedisError as error:
        raise failure(error) from None
    if not is_there:
        name = crawl_of(prefix)
        known = crawls(client)
        others = f"there are {', '.join(known)}" if known else "there is none at all"
        raise CrawlprioError(f"There is no crawl {name!r} in Redis; {others}.")


class DrainWatch:
    """Looks once in a while whether the crawl is to be drained, and says so then.

    Parameters
    ----------
    client, prefix
        of the server, and of the crawl.
    drained
        is called once, in the thread of the crawl.
    """

    def __init__(self, client: Client, prefix: str, drained: Callable[[], object]) -> None:
        self._client = client
        self._key = f"{prefix}:config"
        self._drained = drained
        self._is_closed = False
        self._state = RUNNING

    def start(self) -> None:
        self._later()

    def close(self) -> None:
        self._is_closed = True
        self._client.close()

    def _later(self) -> None:
        call_later(_WATCH, lambda: deferred_from_coro(self._look()))

    async def _look(self) -> None:
        if self._is_closed:
            return
        try:
            found = await run_in_thread(lambda: self._client.hget(self._key, "state"))
            state = (found or b"").decode()
        except (RedisError, OSError, ValueError):
            state = self._state  # the frontier says what there is to say
        if self._is_closed:
            return
        if state != self._state:
            self._state = state
            logger.info("The crawl is %s.", state or "resumed")
            if state == DRAINING:
                self._drained()
                return
        self._later()
