"""The Scrapy add-on: one line in ADDONS is all that a project needs."""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING

from scrapy.downloadermiddlewares.httpcompression import HttpCompressionMiddleware
from scrapy.downloadermiddlewares.robotstxt import RobotsTxtMiddleware
from scrapy.settings import BaseSettings
from scrapy.utils.misc import load_object

from crawlprio.errors import ConfigError
from crawlprio.graph.compiled import set_log_level
from crawlprio.live.crawl_context import MIDDLEWARES, CrawlContext, without_parts_elsewhere
from crawlprio.live.crawl_report import CrawlReport
from crawlprio.live.roles import (
    COORDINATOR,
    WORKER,
    coordinator_folder,
    facts_of,
    remote_coordinator_settings,
    remote_worker_settings,
    worker_settings,
)
from crawlprio.middlewares import BoundedCompression, RobotsMiddleware
from crawlprio.pipelines import LinkPairPipeline
from crawlprio.plugins import ADDED, load, path_of
from crawlprio.settings_table.config import (
    invalid_stock_settings,
    lacks_contact,
    names_component,
    read_setting,
    require_extras,
    robot_of,
    scheduler_of,
    sets_concurrency,
    stock_default,
    use_download_handler,
    user_agent,
)

if TYPE_CHECKING:
    from scrapy.crawler import Crawler

_AGENT = "USER_AGENT"
_LOCAL = "crawlprio.schedulers.Scheduler"

_HTTP = "crawlprio.live.http_handler.HttpHandler"


class Addon:
    """Installs crawlprio in a project and overrides nothing that the project set itself.

    `ADDONS = {"crawlprio.Addon": 500}` installs the scheduler, the downloader, the middlewares, the
    pipeline, the report, and versions of two of Scrapy's middlewares: for robots.txt, which lets no
    page through unchecked, and for compression, which fails pages that cannot be read. Retries and
    redirects keep their place in the order (their priority adjustments become 0) unless the project
    sets them. Nothing else changes: stats, items, garbage collection and all other settings stay
    the project's own.
    """

    def __init__(self, crawler: Crawler) -> None:
        self._crawler = crawler

    @classmethod
    def from_crawler(cls, crawler: Crawler) -> Addon:
        return cls(crawler)

    def update_settings(self, settings: BaseSettings) -> None:
        """Called by Scrapy once the project's settings are read."""
        # At DEBUG, Scrapy's default level, these libraries log every step. The last makes records
        # below DEBUG for nobody, as Scrapy leaves the root logger open.
        set_log_level("numba", "llvmlite", "matplotlib", "rich", "charset_normalizer")
        if scheduler_of(settings) in ("crawlprio.schedulers.RedisScheduler", _path("redis worker")):
            # In a process that is the coordinator, another one takes its place.
            settings.set("CRAWLPRIO_FRONTIER", "redis", "cmdline")
            settings.set("SCHEDULER", self._scheduler(settings), "cmdline")
        settings.set("SCHEDULER", self._scheduler(settings), "addon")
        settings.set("DOWNLOADER", "crawlprio.live.downloader.Downloader", "addon")
        settings.set("REDIRECT_PRIORITY_ADJUST", 0, "addon")
        settings.set("RETRY_PRIORITY_ADJUST", 0, "addon")
        _name_contact(settings)
        with suppress(ConfigError):  # refused below
            if read_setting(settings, "CRAWLPRIO_LENIENT_HTTP"):
                use_download_handler(settings, _HTTP)
            if sets_concurrency(settings):
                settings.set("CRAWLPRIO_MAX_CONCURRENT_REQUESTS", None, "cmdline")
        for name, value in self._of_role(settings).items():
            settings.set(name, value, "cmdline")
        add = settings.setdefault_in_component_priority_dict
        _replace(settings, RobotsTxtMiddleware, RobotsMiddleware)
        _replace(settings, HttpCompressionMiddleware, BoundedCompression)
        for name, orders in MIDDLEWARES.items():
            for path, order in orders.items():
                add(name, load_object(path), order)
        add("ITEM_PIPELINES", LinkPairPipeline, 100)
        add("EXTENSIONS", CrawlReport, 100)
        if role := _role_of(settings):
            for name, path, order in getattr(load("roles", role), "middlewares", ()):
                add(name, load_object(path), order)
        for name, error in invalid_stock_settings(settings):
            CrawlContext.of(self._crawler).refuse(error)
            # This lets Scrapy create its components, and the crawl end cleanly.
            settings.set(name, stock_default(name), "cmdline")

    def _scheduler(self, settings: BaseSettings) -> str:
        """Return the scheduler of this process, which may be one of several of the crawl."""
        with suppress(ConfigError):  # refused later
            if read_setting(settings, "CRAWLPRIO_WORKERS") is not None:
                return _path("coordinator" if facts_of(WORKER) is None else "worker")
        if self._frontier(settings) != "redis":
            return _LOCAL
        is_coordinator = facts_of(COORDINATOR) is not None
        with suppress(ConfigError):  # refused later
            is_coordinator = (
                is_coordinator or read_setting(settings, "CRAWLPRIO_COORDINATOR") == "only"
            )
        return _path("redis coordinator" if is_coordinator else "redis worker")

    def _of_role(self, settings: BaseSettings) -> dict[str, object]:
        """Return the settings of a process that is one of several of a crawl."""
        facts, role = facts_of(WORKER), _role_of(settings)
        shares = facts is not None or role.startswith("redis ")
        if shares:
            CrawlContext.of(self._crawler).asked_for = settings.copy()
        if facts is not None:
            return worker_settings(facts) | without_parts_elsewhere(settings, "is_in_workers")
        if not shares:
            return {}
        if role == "redis worker":
            return remote_worker_settings() | without_parts_elsewhere(settings, "is_in_workers")
        own = remote_coordinator_settings()
        with suppress(ConfigError):  # refused later
            spider = getattr(self._crawler.spidercls, "name", None)
            crawl = read_setting(settings, "CRAWLPRIO_REDIS_CRAWL") or spider or "crawl"
            folder = read_setting(settings, "JOBDIR")
            if folder is None:
                folder = coordinator_folder(crawl)
                own["JOBDIR"] = str(folder)
            if read_setting(settings, "CRAWLPRIO_STORE") is None:
                own["CRAWLPRIO_STORE"] = "crawl.sqlite"
        return own

    def _frontier(self, settings: BaseSettings) -> str:
        """Return CRAWLPRIO_FRONTIER; what cannot be had is refused when the crawl starts."""
        try:
            require_extras(settings)
            return str(read_setting(settings, "CRAWLPRIO_FRONTIER"))
        except ConfigError as error:
            CrawlContext.of(self._crawler).refuse(error)
            return "local"


def _path(role: str) -> str:
    """Return the import path of the scheduler of a role."""
    return path_of("roles", role)


def _role_of(settings: BaseSettings) -> str:
    """Return the role whose scheduler is set: empty in a crawl of one process."""
    return next((role for role in ADDED["roles"] if _path(role) == scheduler_of(settings)), "")


def _name_contact(settings: BaseSettings) -> None:
    """Name CRAWLPRIO_CONTACT in the bundled project's user agent, unless that names another."""
    with suppress(ConfigError):  # refused when the crawl starts
        contact, agent = (read_setting(settings, name) for name in ("CRAWLPRIO_CONTACT", _AGENT))
        if contact is not None and lacks_contact(str(agent)):
            named = user_agent(None, contact, str(agent))
            settings.set(_AGENT, named, "project")
            settings.set("ROBOTSTXT_USER_AGENT", robot_of(named), "addon")


def _replace(settings: BaseSettings, stock: type, ours: type) -> None:
    """Replace a downloader middleware of Scrapy by ours, if the project uses it."""
    with suppress(KeyError):
        settings.replace_in_component_priority_dict("DOWNLOADER_MIDDLEWARES", stock, ours)
        return
    if not names_component(settings, "DOWNLOADER_MIDDLEWARES", stock):
        settings.replace_in_component_priority_dict("DOWNLOADER_MIDDLEWARES_BASE", stock, ours)
