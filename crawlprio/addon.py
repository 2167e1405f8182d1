"""The Scrapy add-on: one line in ADDONS is all that a project needs."""

from __future__ import annotations

from scrapy.settings import BaseSettings

from crawlprio.middlewares import LinksMiddleware, PolitenessMiddleware
from crawlprio.pipelines import LinkPairPipeline
from crawlprio.report import CrawlReport


class Addon:
    """Installs crawlprio in a project and overrides nothing that the project set itself.

    `ADDONS = {"crawlprio.Addon": 500}` brings the scheduler, both middlewares, the pipeline and the
    report. Retries and redirects keep their place in the order (their priority adjustments become 0)
    unless the project says otherwise.
    """

    def update_settings(self, settings: BaseSettings) -> None:
        """Called by Scrapy once the project's settings are read."""
        settings.set("SCHEDULER", "crawlprio.schedulers.Scheduler", "addon")
        settings.set("REDIRECT_PRIORITY_ADJUST", 0, "addon")
        settings.set("RETRY_PRIORITY_ADJUST", 0, "addon")
        add = settings.setdefault_in_component_priority_dict
        add("SPIDER_MIDDLEWARES", LinksMiddleware, 10)
        add("DOWNLOADER_MIDDLEWARES", PolitenessMiddleware, 990)
        add("ITEM_PIPELINES", LinkPairPipeline, 100)
        add("EXTENSIONS", CrawlReport, 100)
