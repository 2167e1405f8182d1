"""How a process joins a crawl in Redis, and what all processes of a crawl must agree on."""

from __future__ import annotations

import json
import os
import secrets
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from redis.exceptions import RedisError

from crawlprio.errors import ConfigError, CrawlprioError
from crawlprio.live.running import RunningCrawl
from crawlprio.live.workers import BRAIN_VARIABLE, brain_facts, brain_folder
from crawlprio.plugins.shared.brain_scheduler import check_limits
from crawlprio.plugins.shared.connection import (
    checked_client,
    client_of,
    is_cluster,
    when_available,
)
from crawlprio.plugins.shared.mailbox import Mailbox
from crawlprio.plugins.shared.post import Carrier
from crawlprio.plugins.shared.shards import FACTS, Shards, shards_from
from crawlprio.settings_table.config import read_setting
from crawlprio.spiders.site import SiteSpider
from crawlprio.store import Store

if TYPE_CHECKING:
    from scrapy import Spider
    from scrapy.settings import BaseSettings

BRAIN_SECONDS = 10.0
"""Seconds of silence after which workers elect another brain; no more than those of a hand."""

_OF_ONE_SHARD = {
    "CRAWLPRIO_STOP_AT_COVERAGE": "needs all links in one process",
    "CRAWLPRIO_REQUISITES": "fetches from sites of other shards",
}
"""Settings that need a single brain, and why."""

_SHARED = (
    *("ORDERING", "ORDERING_OPTIONS", "TOPIC", "DOWNLOAD_DELAY", "DOWNLOAD_SLOTS"),
    *("CONCURRENT_REQUESTS_PER_DOMAIN", "CRAWLPRIO_LEASE_SECONDS", "CRAWLPRIO_MAX_SITES"),
    *("CRAWLPRIO_MAX_PAGES_PER_SITE", "CRAWLPRIO_MAX_PAGES_PER_DOMAIN"),
    *("CRAWLPRIO_MAX_PAGES_PER_PATTERN", "CRAWLPRIO_ROBOTS_UNREACHABLE", "ROBOTSTXT_OBEY"),
)
"""The settings that all processes of a crawl must share."""


@contextmanager
def joining(crawl: RunningCrawl) -> Iterator[None]:
    """Refuse a crawl that cannot be joined."""
    try:
        yield
    except CrawlprioError as error:
        crawl.refuse(error)
    except RedisError as error:
        crawl.refuse(ConfigError(f"Redis cannot be used: {str(error).rstrip('.')}."))


class JoinedCrawl:
    """The crawl in Redis that a process takes part in, as a worker or as the brain of a shard.

    If the brain of a shard is silent for so many `seconds`, it gets another. The `shards` are as
    the first process of the crawl said; `mailboxes` are theirs, for the thread of the crawl.
    `deletes`: if SCHEDULER_FLUSH_ON_START is set, delete the crawl first.
    """

    def __init__(self, crawl: RunningCrawl, spider: Spider, *, deletes: bool = False) -> None:
        check_limits(crawl.config, "CRAWLPRIO_FRONTIER is 'redis'")
        self.asked_for, self._settings = crawl.asked_for, crawl.crawler.settings
        self.name = read_setting(self._settings, "CRAWLPRIO_REDIS_CRAWL") or spider.name
        self.term = float(read_setting(self._settings, "CRAWLPRIO_LEASE_SECONDS"))
        self.seconds = min(self.term, BRAIN_SECONDS)
        client = when_available(partial(checked_client, self._settings))
        first = Mailbox(client, self.name)
        if deletes and read_setting(self._settings, "SCHEDULER_FLUSH_ON_START"):
            for each in first.of_shards(max(int(first.facts().get("shards", 1)), 1)):
                each.delete(self.seconds)
        self.shards = when_available(partial(self._agree, first))
        self.mailboxes = first.of_shards(len(self.shards))
        crawl.share_seeds = lambda found: when_available(partial(first.share_seeds, found))

    def open(self, shard: int = 0) -> Mailbox:
        """Return the mailbox of a shard for another thread, with a connection of its own."""
        return Mailbox(client_of(self._settings), self.name, shard)

    def carriers(self, name: str, failed: Callable[[CrawlprioError], object]) -> list[Carrier]:
        """Return what carries a hand's mail to each shard: on one server, the same for all."""
        from twisted.internet import reactor

        call: Any = reactor.callFromThread
        n = len(self.shards) if is_cluster(self.mailboxes[0].client) else 1
        made = [Carrier(partial(self.open, shard), name, call, failed) for shard in range(n)]
        return made * (len(self.shards) // n)

    def store(self, shard: int, n: int | None = None) -> Path:
        """Return the store of a shard: of the only one, that in the folder of the crawl."""
        folder = Path(read_setting(self.asked_for, "JOBDIR") or brain_folder(self.name))
        name = read_setting(self.asked_for, "CRAWLPRIO_STORE") or "crawl.sqlite"
        return (folder if (n or len(self.shards)) == 1 else folder / str(shard)) / name

    def as_brain(self, shard: int, **facts: Any) -> dict[str, Any]:
        """Return how a process with this command line starts as the brain of a shard."""
        told = json.dumps({"crawl": self.name, "shard": shard, **facts})
        environment = {**os.environ, BRAIN_VARIABLE: told}
        return {"args": [sys.executable, *sys.orig_argv[1:]], "env": environment}

    def _agree(self, first: Mailbox) -> Shards:
        """Return the shards of the crawl, as its first process said; here is the first mailbox.

        A crawl that a job directory has, and the server has forgotten, keeps its own.
        """
        settings = self.asked_for
        n = read_setting(settings, "CRAWLPRIO_REDIS_SHARDS")
        _check(settings, n)
        by_domain = read_setting(settings, "CRAWLPRIO_MAX_PAGES_PER_DOMAIN") is not None
        found = first.facts()
        if n > 1 and not found.get("id"):
            if not found and "worker" in (brain_facts() or ()):
                os._exit(0)  # its worker knew of a crawl, which is over
            key = secrets.token_hex(16)
            if read_setting(settings, "JOBDIR") is not None:
                for path in filter(Path.exists, (self.store(shard, n) for shard in range(n))):
                    with Store.open(path, readonly=True) as store:
                        stored = json.loads(store.get_meta(FACTS) or "{}").get("shards", {})
                    key = stored.get("key", key)
            found = first.agree(Shards(n, key, by_domain=by_domain).facts())
        shards = shards_from(found)
        if len(shards) != n:
            raise ConfigError(
                f"CRAWLPRIO_REDIS_SHARDS is {n}, but the crawl {self.name!r} in Redis has "
                f"{len(shards)} shards; give all workers that number, or delete the crawl with "
                f"'crawlprio frontier delete {self.name} --yes'."
            )
        return shards


def _check(settings: BaseSettings, n_shards: int) -> None:
    """Refuse what a crawl of several shards cannot do."""
    because = f"CRAWLPRIO_REDIS_SHARDS is {n_shards}, and "
    max_pages = read_setting(settings, "CRAWLPRIO_MAX_PAGES")
    if n_shards > 1 and max_pages is not None and max_pages < n_shards:
        raise ConfigError(
            f"{because}CRAWLPRIO_MAX_PAGES is {max_pages}, of which each shard gets an equal part; "
            "set fewer shards, or more pages."
        )
    for name, why in _OF_ONE_SHARD.items():
        if n_shards > 1 and read_setting(settings, name) not in (None, False):
            raise ConfigError(f"{because}{name} is set, which {why}; leave out one of them.")


def values_of(settings: BaseSettings) -> dict[str, str]:
    """Return the settings that all processes of a crawl must share."""
    return {name: repr(read_setting(settings, name)) for name in _SHARED}


def scope_of(spider: Any) -> dict[str, Any]:
    """Return what distinguishes this crawl from others of the same name.

    That is the arguments of the spider `site`. Of other spiders, whose start requests may differ
    between workers on purpose, only Scrapy's `allowed_domains`.
    """
    if isinstance(spider, SiteSpider):
        return spider.arguments
    domains = getattr(spider, "allowed_domains", None)
    return {"allowed_domains": sorted(map(str, domains)) if isinstance(domains, list) else None}


def difference(
    crawl: str,
    values: Mapping[str, str],
    others: Mapping[str, str],
    scope: Mapping[str, Any],
    other_scope: Mapping[str, Any],
) -> str:
    """Return why a worker with other settings or another scope must not join; empty if it may."""
    for name, value in values.items():
        if others.get(name) != value:
            return (
                f"The crawl {crawl!r} in Redis was begun with {name} {value}, but this worker has "
                f"{others.get(name)}; give all workers the same settings, or set "
                "SCHEDULER_FLUSH_ON_START to begin a new crawl."
            )
    for name in dict.fromkeys([*scope, *other_scope]):
        if other_scope and scope.get(name) != other_scope.get(name):
            return (
                f"The crawl {crawl!r} in Redis was begun with {name} {_shown(scope.get(name))}, "
                f"but this worker has {_shown(other_scope.get(name))}; set CRAWLPRIO_REDIS_CRAWL "
                "to another name, or delete that crawl with 'crawlprio frontier delete "
                f"{crawl} --yes'."
            )
    return ""


def _shown(value: Any) -> str:
    text = ", ".join(value) if isinstance(value, list) else "none" if value is None else str(value)
    return text if len(text) <= 100 else f"{text[:100]}... ({len(text):,})"
