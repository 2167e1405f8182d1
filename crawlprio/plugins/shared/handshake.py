"""How a process joins a crawl in Redis: as a worker, or as the coordinator, which resumes it."""

from __future__ import annotations

import json
import logging
import os
import signal
import socket
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from functools import partial
from pathlib import Path
from time import monotonic, sleep, time
from typing import Any
from uuid import uuid4

from redis.exceptions import RedisError
from scrapy import Spider
from scrapy.settings import BaseSettings

from crawlprio.errors import ConfigError, CrawlprioError
from crawlprio.live.crawl_context import CrawlContext
from crawlprio.live.roles import COORDINATOR, FACTS, facts_of
from crawlprio.plugins.shared.collect import shared_store
from crawlprio.plugins.shared.connection import checked_client, client_of, when_available
from crawlprio.plugins.shared.coordinator import Coordinator, RemoteWorker
from crawlprio.plugins.shared.coordinator_scheduler import check_limits
from crawlprio.plugins.shared.messages import (
    OF_ONE_COORDINATOR,
    Schema,
    WorkerMessage,
    name_of_worker,
    number_of,
    worker_message,
)
from crawlprio.plugins.shared.redis_streams import START, Envelope, RedisStreams
from crawlprio.safe_files import real
from crawlprio.settings_table.config import read_setting
from crawlprio.spiders.site import SiteSpider
from crawlprio.store import Store
from crawlprio.store.files import StoreInUse, WriterLock

logger = logging.getLogger("crawlprio")

COORDINATOR_SECONDS = 10.0
"""Seconds of silence after which workers elect another coordinator, if leases last as long."""

_SHARED = (
    *("ORDERING", "ORDERING_OPTIONS", "TOPIC", "DOWNLOAD_DELAY", "DOWNLOAD_SLOTS"),
    *("CONCURRENT_REQUESTS_PER_DOMAIN", "CRAWLPRIO_LEASE_SECONDS", "CRAWLPRIO_MAX_SITES"),
    *("CRAWLPRIO_MAX_PAGES_PER_SITE", "CRAWLPRIO_MAX_PAGES_PER_DOMAIN"),
    *("CRAWLPRIO_MAX_PAGES_PER_PATTERN", "CRAWLPRIO_ROBOTS_UNREACHABLE", "ROBOTSTXT_OBEY"),
)
"""The settings that all processes of a crawl must share."""


@contextmanager
def joining(crawl: CrawlContext) -> Iterator[None]:
    """Refuse a crawl that cannot be joined."""
    try:
        yield
    except CrawlprioError as error:
        crawl.refuse(error)
    except RedisError as error:
        crawl.refuse(ConfigError(f"Redis cannot be used: {str(error).rstrip('.')}."))


class JoinedCrawl:
    """The crawl in Redis of this process, a worker or the coordinator.

    Once the coordinator is silent for `seconds`, another is elected. `streams` is for the thread of
    the crawl. `deletes`: if SCHEDULER_FLUSH_ON_START is set, delete the crawl first.
    """

    def __init__(self, crawl: CrawlContext, spider: Spider, *, deletes: bool = False) -> None:
        check_limits(crawl.config, "CRAWLPRIO_FRONTIER is 'redis'")
        self._asked_for, self._settings = crawl.asked_for, crawl.crawler.settings
        self.name = read_setting(self._settings, "CRAWLPRIO_REDIS_CRAWL") or spider.name
        self.lease_timeout = float(read_setting(self._settings, "CRAWLPRIO_LEASE_SECONDS"))
        self.seconds = min(self.lease_timeout, COORDINATOR_SECONDS)
        client = when_available(partial(checked_client, self._settings))
        self.streams = RedisStreams(client, self.name)
        if deletes and read_setting(self._settings, "SCHEDULER_FLUSH_ON_START"):
            self.streams.delete(self.seconds)
        crawl.share_seeds = lambda found: when_available(partial(self.streams.share_seeds, found))

    def open(self) -> RedisStreams:
        """Return the streams for another thread, with a connection of its own."""
        return RedisStreams(client_of(self._settings), self.name)

    @property
    def store(self) -> Path:
        return shared_store(self._asked_for, self.name)


def values_of(settings: BaseSettings) -> dict[str, str]:
    """Return the settings that all processes of a crawl must share."""
    return {name: repr(read_setting(settings, name)) for name in _SHARED}


def scope_of(spider: Any) -> dict[str, Any]:
    """Return what distinguishes this crawl from others of the same name.

    For the spider `site`, its arguments; for others, whose workers may differ in start requests,
    Scrapy's `allowed_domains`.
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


class Election:
    """Makes this process the coordinator, under `name`, once no other one is.

    If a worker started it, the process ends at once instead of waiting. `before` is what the server
    knew of the crawl.
    """

    def __init__(self, crawl: CrawlContext, joined: JoinedCrawl) -> None:
        self._crawl, self._joined = crawl, joined
        facts, streams = facts_of(COORDINATOR), joined.streams
        self.is_of_worker = facts is not None
        if facts is not None and facts["crawl"] != joined.name:
            raise ConfigError(
                f"This process was started as the coordinator of {facts['crawl']!r}, and not of "
                f"{joined.name!r}; another worker starts that one."
            )
        self.name = (
            f"{facts['name'] if facts else uuid4().hex} {socket.gethostname()} {os.getpid()}"
        )
        if facts and facts.get("worker", os.getppid()) != os.getppid():
            os._exit(0)  # its worker has ended meanwhile, as the crawl may have
        has_warned = False
        while self._is_written_elsewhere() or not streams.claim(self.name, joined.seconds):
            if self.is_of_worker:
                os._exit(0)
            if not has_warned:
                has_warned = True
                logger.info("%s: another process is its coordinator; waiting.", joined.name)
            sleep(joined.seconds / 20)
        self.before = streams.facts()

    def _is_written_elsewhere(self) -> bool:
        """Return whether the server has lost all of a crawl that has a coordinator.

        That one, which writes to the store, restores it.
        """
        streams, path = self._joined.streams, self._joined.store
        is_unknown = not (streams.coordinator() or streams.facts())
        return is_unknown and path.exists() and _writer(path) is not None

    def find_store(self) -> None:
        """Check that the store of the crawl is here; wait until no other process writes to it."""
        path = self._crawl.config.store_path
        assert path is not None
        if self.before.get("id"):
            if not path.exists():
                raise self._elsewhere()
        elif path.exists() and read_setting(self._crawl.asked_for, "JOBDIR") is None:
            _move_aside(path.parent)
            path.parent.mkdir(mode=0o700)
        _wait_for(path, self.before.get("process", ""))

    def _elsewhere(self) -> ConfigError:
        name, folder, host = self._joined.name, *map(self.before.get, ("folder", "host"))
        return ConfigError(
            f"The crawl {name!r} in Redis has its pages in {folder} on {host}, and not in "
            f"{self._crawl.config.store_path} here; start a worker there, bring that folder here, "
            f"or delete the crawl with 'crawlprio frontier delete {name} --yes'."
        )

    def recovery(self, store: Store, coordinator: Coordinator) -> Recovery:
        """Return where the last coordinator was killed or ended, and register this one."""
        stored, crawl_id = json.loads(store.get_meta(FACTS) or "{}"), self.before.get("id", "")
        if crawl_id and stored.get("id") != crawl_id:
            raise self._elsewhere()
        recovery = Recovery(stored, crawl_id, coordinator)
        for name, fact in recovery.facts().items():
            store.set_meta(name, fact)
        self._joined.streams.put_facts(
            id=recovery.crawl_id,
            folder=str(real(store.path.parent)),
            host=socket.gethostname(),
            process=f"{_machine()} {os.getpid()}",
        )
        return recovery


class Recovery:
    """What the store keeps of messages, in the transaction of their effects, to resume from.

    `position` is the place of the last message that was carried out. All numbers of this
    coordinator are of its `epoch`. `known` are workers by name, greeted or not, and `scope` is what
    the first one was started for.
    """

    def __init__(self, stored: dict[str, Any], crawl_id: str, coordinator: Coordinator) -> None:
        resumed = stored if crawl_id else {}
        self.crawl_id = crawl_id or uuid4().hex
        # Whatever was lost, no two coordinators have the same number.
        self.epoch: int = max(stored.get("generation", 0) + 1, int(time()))
        self.position: str = resumed.get("position", START)
        self.scope: dict[str, Any] | None = resumed.get("scope")
        self.known: dict[str, RemoteWorker] = {}
        for name, n_read in resumed.get("read", {}).items():
            self.known[name] = worker = self.new_worker(name, n_read)
            worker.revoked_below = resumed.get("lost", {}).get(name, 0)
        self._deaths = coordinator.deaths
        self._deaths.update(stored.get("deaths", {}))
        coordinator.frontier.leases.number_from(self.epoch * OF_ONE_COORDINATOR)

    def new_worker(self, name: str, n_read: int = 0) -> RemoteWorker:
        return RemoteWorker(name, self.epoch * OF_ONE_COORDINATOR, n_read)

    def read(self, envelope: Envelope, schema: Schema) -> tuple[RemoteWorker, int, WorkerMessage]:
        """Return the worker, number and contents of a message; ValueError if it is invalid."""
        name, number = name_of_worker(envelope.worker), number_of(envelope.number)
        worker = self.known.get(name) or self.new_worker(name)
        try:
            message = worker_message(envelope.body, schema)
            kinds = [statement[0] for statement in message.statements]
            begins = kinds[:1] == ["hello"]
            if kinds and (begins != (number == 1) or "hello" in kinds[1:]):
                raise ValueError("hello: expected as the first statement of a worker")
        except ValueError:
            worker.n_skipped = number
            raise
        return worker, number, message

    def facts(self) -> Mapping[str, str]:
        known = self.known.values()
        facts = {
            "id": self.crawl_id,
            "generation": self.epoch,
            "position": self.position,
            "read": {worker.name: worker.n_read for worker in known if worker.is_greeted},
            "lost": {worker.name: worker.revoked_below for worker in known if worker.revoked_below},
            "scope": self.scope,
            "deaths": self._deaths,
        }
        return {FACTS: json.dumps(facts)}


def _move_aside(folder: Path) -> None:
    """Rename the folder of an earlier crawl to the next free numbered name."""
    number = 1
    while (name := folder.with_name(f"{folder.name}.{number}")).exists():
        number += 1
    folder.rename(name)
    logger.info("%s held an earlier crawl; it was renamed to %s.", folder, name)


def _machine() -> str:
    """Return a name of this machine, and on Linux of this container, that its processes share."""
    space = "/proc/self/ns/pid"
    return socket.gethostname() + (os.readlink(space) if os.path.exists(space) else "")


def _writer(path: Path) -> StoreInUse | None:
    """Return the error that names the process that writes to a store; None if there is none."""
    try:
        WriterLock(path).close()
    except StoreInUse as error:
        return error
    return None


def _wait_for(path: Path, before: str) -> None:
    """Wait until no process writes to a store; kill the previous coordinator if it hangs.

    It is on this machine and may be stopped; its time as the coordinator is over.
    """
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    has_warned, machine, until = False, _machine(), monotonic() + 1.0
    while (error := _writer(path)) is not None:
        is_before = error.pid != os.getpid() and before == f"{machine} {error.pid}"
        if error.pid and is_before and monotonic() > until:
            with suppress(ProcessLookupError):
                os.kill(error.pid, signal.SIGKILL)
        elif not has_warned:
            has_warned = True
            logger.warning("%s Waiting for its end.", error)
        sleep(0.1)
