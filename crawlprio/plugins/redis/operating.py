"""Inspecting, pausing, draining and resuming the crawls on a server."""

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
from crawlprio.plugins.redis.cluster import script_keys
from crawlprio.plugins.redis.connection import delete_crawl
from crawlprio.plugins.redis.failures import failure
from crawlprio.plugins.redis.scripts import Client, script
from crawlprio.plugins.redis.shards import crawl_of, shards_of
from crawlprio.plugins.shared import far_crawls
from crawlprio.plugins.shared.mailbox import Mailbox

RUNNING, PAUSED, DRAINING = "", "paused", "draining"
"""States of a crawl. Paused: no page is leased. Draining: no page is leased and workers end."""

_POLL_SECONDS = 1.0
"""Seconds between two polls of the crawl's state by a worker."""

_CONFIG = re.compile(r"crawlprio:\{(.*):0\}:config", re.DOTALL)

logger = logging.getLogger("crawlprio")


def crawls(client: Client) -> list[str]:
    """Return the names of the crawls on a server, sorted. O(keys of the server).

    Raises
    ------
    RedisFailure
        If the server cannot be read.
    """
    try:
        keys = [
            key.decode() for key in client.scan_iter(match="crawlprio:{*:0}:config", count=1000)
        ]
        with_brains = far_crawls.crawls(client)
    except RedisError as error:
        raise failure(error) from None
    own = [found[1] for found in map(_CONFIG.fullmatch, keys) if found]
    return sorted({*own, *with_brains})


def overview(client: Client, prefix: str, most: int = 10) -> dict[str, Any]:
    """Return the state of a crawl as reported by `show.lua`, with up to `most` rows per list.

    The reports of several shards are merged.

    Raises
    ------
    CrawlprioError
        If there is no such crawl, or the server cannot be read.
    """
    try:
        view = far_crawls.overview(Mailbox(client, crawl_of(prefix)), most)
    except RedisError as error:
        raise failure(error) from None
    if view is not None:
        return view
    _check(client, prefix)
    try:
        reports = [
            json.loads(client.eval(script("show").text, *script_keys(shard_prefix), "", 0, most))
            for shard_prefix in shards_of(client, prefix).prefixes
        ]
    except RedisError as error:
        raise failure(error) from None
    # Lua encodes an empty table as an object.
    for report in reports:
        for name in ("workers", "leases", "head", "next", "dead"):
            report[name] = list(report[name])
    return _merge(reports, most)


def _merge(reports: list[dict[str, Any]], most: int) -> dict[str, Any]:
    """Merge the reports of all shards."""
    merged = {**reports[0], "shards": len(reports)}
    if len(reports) == 1:
        return merged
    for name in ("sites", "delayed", "streamed"):
        merged[name] = sum(report[name] for report in reports)
    merged["counts"] = {
        name: sum(report["counts"][name] for report in reports) for name in reports[0]["counts"]
    }
    workers: dict[str, dict[str, Any]] = {}
    for report in reports:
        for worker in report["workers"]:
            # A worker has one session per shard, all under one name.
            known = workers.setdefault(worker["name"], {**worker, "leases": 0})
            known["leases"] += worker["leases"]
            known["since"] = min(known["since"], worker["since"])
            known["dead_at"] = min(known["dead_at"], worker["dead_at"])
    merged["workers"] = list(workers.values())
    order: dict[str, Callable[[dict[str, Any]], Any]] = {
        "leases": lambda lease: lease["since"],
        "head": lambda page: (-page["priority"], -page["hot"], -float(page["key"])),
        "next": lambda site: site["ready_at"],
    }
    for name, key in order.items():
        merged[name] = sorted((row for report in reports for row in report[name]), key=key)[:most]
    letters = sorted(
        (row for report in reports for row in report["dead"]), key=lambda letter: letter["at"]
    )
    merged["dead"] = letters[-most:]
    return merged


def set_state(client: Client, prefix: str, state: str) -> str:
    """Pause, drain or resume a crawl; return its previous state.

    Raises
    ------
    CrawlprioError
        If there is no such crawl, or the server cannot be read.
    """
    try:
        mailbox = Mailbox(client, crawl_of(prefix))
        if mailbox.facts():
            return far_crawls.set_state(mailbox, state)
    except RedisError as error:
        raise failure(error) from None
    _check(client, prefix)
    try:
        before = client.hget(f"{prefix}:config", "state") or b""
        # Workers poll the first shard, so set it last: by then no shard leases pages.
        for shard_prefix in reversed(shards_of(client, prefix).prefixes):
            client.hset(f"{shard_prefix}:config", "state", state)
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
        others = f"the crawls there are {', '.join(known)}" if known else "there are no crawls"
        raise CrawlprioError(f"There is no crawl {name!r} in Redis; {others}.")


def delete(client: Client, prefix: str, *, confirmed: bool) -> str:
    """Delete a crawl, with the visits that were not collected; return what was deleted.

    Raises
    ------
    CrawlprioError
        If there is no such crawl, it has workers, `confirmed` is False, or the server fails.
    """
    crawl = crawl_of(prefix)
    try:
        mailbox = Mailbox(client, crawl)
        if mailbox.facts():
            return far_crawls.delete(mailbox, crawl, confirmed=confirmed)
        if not client.exists(f"{prefix}:config") and client.exists(f"{prefix}:visits"):
            prefixes = shards_of(client, prefix).prefixes
            n_visits = sum(client.xlen(f"{each}:visits") for each in prefixes)
            what = f"{n_visits:,} visits"
        else:
            view = overview(client, prefix, 1)
            n_workers = sum(worker["dead_at"] >= view["now"] for worker in view["workers"])
            if n_workers:
                raise CrawlprioError(
                    f"The crawl {crawl!r} is running (workers: {n_workers}); delete it "
                    f"once 'crawlprio frontier drain {crawl}' has ended them."
                )
            pages, waiting = (int(view["counts"][name]) for name in ("pages", "waiting"))
            what = f"{pages:,} pages, {waiting:,} of them waiting, and {view['streamed']:,} visits"
        if not confirmed:
            raise CrawlprioError(
                f"The crawl {crawl!r} has {what} in Redis, which are lost unless collected "
                "(crawlprio links collect); add --yes to delete them."
            )
        delete_crawl(client, prefix)
    except RedisError as error:
        raise failure(error) from None
    return what


class DrainWatch:
    """Polls the state of a crawl and reports when it is to be drained.

    Parameters
    ----------
    client, prefix
        The server, and the crawl.
    on_drained
        Called once, in the crawl's thread.
    """

    def __init__(self, client: Client, prefix: str, on_drained: Callable[[], object]) -> None:
        self._client = client
        self._key = f"{prefix}:config"
        self._on_drained = on_drained
        self._is_closed = False
        self._state = RUNNING

    def start(self) -> None:
        self._later()

    def close(self) -> None:
        self._is_closed = True
        self._client.close()

    def _later(self) -> None:
        call_later(_POLL_SECONDS, lambda: deferred_from_coro(self._look()))

    async def _look(self) -> None:
        if self._is_closed:
            return
        try:
            found = await run_in_thread(lambda: self._client.hget(self._key, "state"))
            state = (found or b"").decode()
        except (RedisError, OSError, ValueError):
            state = self._state  # the frontier's sessions log the outage
        if self._is_closed:
            return
        if state != self._state:
            self._state = state
            logger.info("The crawl is %s.", state or "resumed")
            if state == DRAINING:
                self._on_drained()
                return
        self._later()
