"""The role of a process in a crawl with several: its scheduler, settings and middlewares."""

from __future__ import annotations

from contextlib import suppress
from typing import Any

from scrapy.crawler import Crawler
from scrapy.settings import BaseSettings
from scrapy.utils.misc import load_object

from crawlprio.errors import ConfigError
from crawlprio.live.crawl_context import CrawlContext, without_parts_elsewhere
from crawlprio.live.roles import COORDINATOR, WORKER, facts_of
from crawlprio.plugins.shared.collect import coordinator_folder
from crawlprio.settings_table.config import read_setting, require_extras, scheduler_of

_SCHEDULERS = {
    "": "crawlprio.schedulers.Scheduler",
    "coordinator": f"{__package__}.coordinator_scheduler.CoordinatorScheduler",
    "worker": f"{__package__}.worker_scheduler.LocalWorkerScheduler",
    "redis coordinator": f"{__package__}.redis_coordinator.RedisCoordinatorScheduler",
    "redis worker": f"{__package__}.redis_worker.RedisWorkerScheduler",
}

_NO_LIMITS = {
    f"CLOSESPIDER_{limit}": 0
    for limit in (
        *("ERRORCOUNT", "ITEMCOUNT", "PAGECOUNT"),
        *("PAGECOUNT_NO_ITEM", "TIMEOUT", "TIMEOUT_NO_ITEM"),
    )
}

_OF_WORKERS: dict[str, Any] = {
    "CRAWLPRIO_MAX_WAITING": None,
    "CRAWLPRIO_PLOT": None,
    "CRAWLPRIO_PRINT": False,
    "CRAWLPRIO_PROGRESS": False,
    "DOWNLOAD_DELAY": 0,
    "DOWNLOAD_SLOTS": {},
    "JOBDIR": None,
    "ROBOTSTXT_OBEY": False,
}
"""The settings in which all workers differ from their coordinator, besides those of parts."""


def take_role(crawler: Crawler, settings: BaseSettings) -> None:
    """Set the scheduler of this process, and what its role changes in the settings.

    A project's own scheduler stays, and gives no role.
    """
    named = "crawlprio.schedulers.RedisScheduler", _SCHEDULERS["redis worker"]
    is_named = scheduler_of(settings) in named
    if is_named:  # in a process that is the coordinator, another one takes its place
        settings.set("CRAWLPRIO_FRONTIER", "redis", "cmdline")
    asked = _SCHEDULERS[_role(crawler, settings)]
    settings.set("SCHEDULER", asked, "cmdline" if is_named else "addon")
    roles = {path: role for role, path in _SCHEDULERS.items()}
    role = roles.get(scheduler_of(settings), "")
    if facts_of(WORKER) is not None or role.startswith("redis "):
        CrawlContext.of(crawler).asked_for = settings.copy()
        for name, value in _settings_of(role, crawler, settings).items():
            settings.set(name, value, "cmdline")
    if role:
        for name, path, order in getattr(load_object(_SCHEDULERS[role]), "middlewares", ()):
            settings.setdefault_in_component_priority_dict(name, load_object(path), order)


def fork_workers(settings: BaseSettings) -> None:
    """Fork the workers of this machine if this process is to be their coordinator."""
    n_workers = read_setting(settings, "CRAWLPRIO_WORKERS")
    if n_workers is not None and facts_of(WORKER) is None:
        from crawlprio.live.compiling import load_scan
        from crawlprio.plugins.shared.socket_transport import fork_each

        if read_setting(settings, "CRAWLPRIO_COMPILE"):
            load_scan()  # which each worker would
        fork_each(n_workers)


def _role(crawler: Crawler, settings: BaseSettings) -> str:
    """Return the role that the settings ask for; empty in a crawl of one process."""
    with suppress(ConfigError):  # refused later
        if read_setting(settings, "CRAWLPRIO_WORKERS") is not None:
            return "coordinator" if facts_of(WORKER) is None else "worker"
    try:
        require_extras(settings)
        if read_setting(settings, "CRAWLPRIO_FRONTIER") != "redis":
            return ""
    except ConfigError as error:
        CrawlContext.of(crawler).refuse(error)
        return ""
    is_coordinator = facts_of(COORDINATOR) is not None
    with suppress(ConfigError):  # refused later
        is_coordinator |= read_setting(settings, "CRAWLPRIO_COORDINATOR") == "only"
    return "redis coordinator" if is_coordinator else "redis worker"


def _settings_of(role: str, crawler: Crawler, settings: BaseSettings) -> dict[str, Any]:
    """Return the settings that a worker, or a coordinator that workers elect, differs in."""
    facts = facts_of(WORKER)
    if facts is not None:
        return {
            **_OF_WORKERS,
            **_NO_LIMITS,
            **without_parts_elsewhere(settings, "is_in_workers"),
            "CONCURRENT_REQUESTS": facts["at_once"],
            "CONCURRENT_REQUESTS_PER_DOMAIN": facts["at_once"],
            "CRAWLPRIO_MAX_CONCURRENT_REQUESTS": None,
            "TELNETCONSOLE_ENABLED": False,
        }
    if role == "redis worker":
        return _OF_WORKERS | without_parts_elsewhere(settings, "is_in_workers")
    own = {**_NO_LIMITS, "FEEDS": {}, "ITEM_PIPELINES": {}, "TELNETCONSOLE_ENABLED": False}
    with suppress(ConfigError):  # refused later
        spider = getattr(crawler.spidercls, "name", None)
        crawl = read_setting(settings, "CRAWLPRIO_REDIS_CRAWL") or spider or "crawl"
        if read_setting(settings, "JOBDIR") is None:
            own["JOBDIR"] = str(coordinator_folder(crawl))
        if read_setting(settings, "CRAWLPRIO_STORE") is None:
            own["CRAWLPRIO_STORE"] = "crawl.sqlite"
    return own
