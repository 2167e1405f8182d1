"""The Scrapy add-on: one line in ADDONS is all that a project needs."""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

from scrapy.downloadermiddlewares.robotstxt import RobotsTxtMiddleware
from scrapy.settings import BaseSettings
from scrapy.utils.misc import load_object

from crawlprio.errors import ConfigError
from crawlprio.graph.compiled import quieten
from crawlprio.live.progress import CrawlReport
from crawlprio.live.running import IN_WORKERS, RunningCrawl, without_parts
from crawlprio.live.workers import (
    brain_facts,
    brain_folder,
    far_brain_settings,
    far_hand_settings,
    hand_facts,
    hand_settings,
    shard_settings,
)
from crawlprio.middlewares import (
    LinksMiddleware,
    PolitenessMiddleware,
    RefusalMiddleware,
    RobotsMiddleware,
    SigningMiddleware,
    YieldedLinksMiddleware,
)
from crawlprio.pipelines import LinkPairPipeline
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
    user_agent,
)

if TYPE_CHECKING:
    from scrapy.crawler import Crawler


_AGENT = "USER_AGENT"
_LOCAL = "crawlprio.schedulers.Scheduler"

_BRAIN = "crawlprio.plugins.shared.brain_scheduler.BrainScheduler"
_HAND = "crawlprio.plugins.shared.hand_scheduler.NearHandScheduler"
"""With CRAWLPRIO_WORKERS: the scheduler of the process that has the frontier, and of the others."""

_FAR_BRAIN = "crawlprio.plugins.shared.redis_brain.RedisBrainScheduler"
_FAR_HAND = "crawlprio.plugins.shared.redis_hand.RedisHandScheduler"
"""The same with CRAWLPRIO_FRONTIER `redis`, where they hear each other through Redis."""

_NO_START = "crawlprio.plugins.shared.redis_brain.NoStart"
_PERMISSION = "crawlprio.plugins.shared.redis_hand.BrainPermission"

_SHARED = ("crawlprio.schedulers.RedisScheduler", _FAR_HAND)
"""Names of the scheduler by which a project asks for a frontier in Redis."""


class Addon:
    """Installs crawlprio in a project and overrides nothing that the project set itself.

    `ADDONS = {"crawlprio.Addon": 500}` installs the scheduler, the downloader, the middlewares, the
    pipeline, the report, and a version of Scrapy's robots.txt middleware that lets no page through
    unchecked. Retries and redirects
    keep their place in the order (their priority adjustments become 0) unless the project sets
    them. Nothing else changes: stats, items, garbage collection and all other settings stay the
    project's own.
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
        quieten("numba", "llvmlite", "matplotlib", "rich", "charset_normalizer")
        if scheduler_of(settings) in _SHARED:  # in another process, another one takes its place
            settings.set("CRAWLPRIO_FRONTIER", "redis", "cmdline")
            settings.set("SCHEDULER", self._scheduler(settings), "cmdline")
        settings.set("SCHEDULER", self._scheduler(settings), "addon")
        settings.set("DOWNLOADER", "crawlprio.live.downloader.Downloader", "addon")
        settings.set("REDIRECT_PRIORITY_ADJUST", 0, "addon")
        settings.set("RETRY_PRIORITY_ADJUST", 0, "addon")
        _name_contact(settings)
        with suppress(ConfigError):  # refused below
            if sets_concurrency(settings):
                settings.set("CRAWLPRIO_MAX_CONCURRENT_REQUESTS", None, "cmdline")
        for name, value in self._of_role(settings).items():
            settings.set(name, value, "cmdline")
        add = settings.setdefault_in_component_priority_dict
        _replace(settings, RobotsTxtMiddleware, RobotsMiddleware)
        add("SPIDER_MIDDLEWARES", LinksMiddleware, 10)
        add("SPIDER_MIDDLEWARES", YieldedLinksMiddleware, 100_000)
        add("DOWNLOADER_MIDDLEWARES", RefusalMiddleware, 985)
        add("DOWNLOADER_MIDDLEWARES", SigningMiddleware, 987)
        add("DOWNLOADER_MIDDLEWARES", PolitenessMiddleware, 990)
        add("ITEM_PIPELINES", LinkPairPipeline, 100)
        add("EXTENSIONS", CrawlReport, 100)
        if scheduler_of(settings) == _FAR_BRAIN:
            add("SPIDER_MIDDLEWARES", load_object(_NO_START), 0)
        if scheduler_of(settings) == _FAR_HAND:
            add("DOWNLOADER_MIDDLEWARES", load_object(_PERMISSION), 100)
        for name, error in invalid_stock_settings(settings):
            RunningCrawl.of(self._crawler).refuse(error)
            # This lets Scrapy create its components, and the crawl end cleanly.
            settings.set(name, stock_default(name), "cmdline")

    def _scheduler(self, settings: BaseSettings) -> str:
        """Return the scheduler of this process, which may be one of several of the crawl."""
        with suppress(ConfigError):  # refused later
            if read_setting(settings, "CRAWLPRIO_WORKERS") is not None:
                return _BRAIN if hand_facts() is None else _HAND
        if self._frontier(settings) == "local":
            return _LOCAL
        is_brain = brain_facts() is not None
        with suppress(ConfigError):  # refused later
            is_brain = is_brain or read_setting(settings, "CRAWLPRIO_BRAIN") == "only"
        return _FAR_BRAIN if is_brain else _FAR_HAND

    def _of_role(self, settings: BaseSettings) -> dict[str, object]:
        """Return the settings of a process that is one of several of a crawl."""
        facts = hand_facts()
        if facts is not None:
            return hand_settings(facts) | without_parts(*IN_WORKERS)
        if scheduler_of(settings) not in (_FAR_HAND, _FAR_BRAIN):
            return {}
        RunningCrawl.of(self._crawler).asked_for = settings.copy()
        if scheduler_of(settings) == _FAR_HAND:
            return far_hand_settings() | without_parts(*IN_WORKERS)
        own = far_brain_settings()
        with suppress(ConfigError):  # refused later
            spider = getattr(self._crawler.spidercls, "name", None)
            crawl = read_setting(settings, "CRAWLPRIO_REDIS_CRAWL") or spider or "crawl"
            folder = read_setting(settings, "JOBDIR")
            if folder is None:
                folder = brain_folder(crawl)
                own["JOBDIR"] = str(folder)
            if read_setting(settings, "CRAWLPRIO_STORE") is None:
                own["CRAWLPRIO_STORE"] = "crawl.sqlite"
            n_shards = read_setting(settings, "CRAWLPRIO_REDIS_SHARDS")
            if n_shards > 1:
                shard = str((brain_facts() or {}).get("shard", 0))
                own["JOBDIR"] = str(Path(folder, shard))
                own |= shard_settings(n_shards, read_setting(settings, "CRAWLPRIO_MAX_PAGES"))
        return own

    def _frontier(self, settings: BaseSettings) -> str:
        """Return CRAWLPRIO_FRONTIER; what cannot be had is refused when the crawl starts."""
        try:
            require_extras(settings)
            return str(read_setting(settings, "CRAWLPRIO_FRONTIER"))
        except ConfigError as error:
            RunningCrawl.of(self._crawler).refuse(error)
            return "local"


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
