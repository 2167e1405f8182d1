"""The Scrapy add-on: one line in ADDONS is all that a project needs."""

from __future__ import annotations

from contextlib import suppress

from scrapy.crawler import Crawler
from scrapy.downloadermiddlewares.httpcompression import HttpCompressionMiddleware
from scrapy.downloadermiddlewares.robotstxt import RobotsTxtMiddleware
from scrapy.settings import BaseSettings
from scrapy.utils.misc import load_object

from crawlprio.errors import ConfigError
from crawlprio.graph.compiled import set_log_level
from crawlprio.live.crawl_context import MIDDLEWARES, CrawlContext
from crawlprio.live.crawl_report import CrawlReport
from crawlprio.middlewares import BoundedCompression, RobotsMiddleware
from crawlprio.pipelines import LinkPairPipeline
from crawlprio.plugins import load_all
from crawlprio.settings_table.config import (
    invalid_stock_settings,
    lacks_contact,
    names_component,
    read_setting,
    robot_of,
    sets_concurrency,
    stock_default,
    use_download_handler,
    user_agent,
)

_AGENT = "USER_AGENT"
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
        settings.set("SCHEDULER", "crawlprio.schedulers.Scheduler", "addon")
        settings.set("DOWNLOADER", "crawlprio.live.downloader.Downloader", "addon")
        settings.set("REDIRECT_PRIORITY_ADJUST", 0, "addon")
        settings.set("RETRY_PRIORITY_ADJUST", 0, "addon")
        _name_contact(settings)
        with suppress(ConfigError):  # refused below
            if read_setting(settings, "CRAWLPRIO_LENIENT_HTTP"):
                use_download_handler(settings, _HTTP)
            if sets_concurrency(settings):
                settings.set("CRAWLPRIO_MAX_CONCURRENT_REQUESTS", None, "cmdline")
        for adjust in load_all("add-ons"):
            adjust(self._crawler, settings)
        add = settings.setdefault_in_component_priority_dict
        _replace(settings, RobotsTxtMiddleware, RobotsMiddleware)
        _replace(settings, HttpCompressionMiddleware, BoundedCompression)
        for name, orders in MIDDLEWARES.items():
            for path, order in orders.items():
                add(name, load_object(path), order)
        add("ITEM_PIPELINES", LinkPairPipeline, 100)
        add("EXTENSIONS", CrawlReport, 100)
        for name, error in invalid_stock_settings(settings):
            CrawlContext.of(self._crawler).refuse(error)
            # This lets Scrapy create its components, and the crawl end cleanly.
            settings.set(name, stock_default(name), "cmdline")


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
    for name in ("DOWNLOADER_MIDDLEWARES", "DOWNLOADER_MIDDLEWARES_BASE"):
        with suppress(KeyError):
            settings.replace_in_component_priority_dict(name, stock, ours)
        if names_component(settings, name, stock):  # the project disables it
            return
