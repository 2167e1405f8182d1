"""The item pipeline that records link pairs."""

from __future__ import annotations

from typing import Any

from scrapy.crawler import Crawler

from crawlprio.frontier.protocol import PageVisit
from crawlprio.items import LinkPairs
from crawlprio.live.crawl_context import CrawlContext
from crawlprio.web.urls import host_of, normalise_url


class LinkPairPipeline:
    """Records every `LinkPairs` item in the crawl store, and returns it.

    It works under any scheduler, and on its own. If `LinksMiddleware` is in use, that records the
    pairs of a page with its visit, and the pipeline adds nothing.
    """

    def __init__(self, crawler: Crawler | None = None) -> None:
        # A project's own ITEM_PROCESSOR may pass no crawler; then nothing is recorded here.
        self._crawl = None if crawler is None else CrawlContext.of(crawler)

    @classmethod
    def from_crawler(cls, crawler: Crawler) -> LinkPairPipeline:
        return cls(crawler)

    def process_item(self, item: Any) -> Any:
        crawl = self._crawl
        if (
            isinstance(item, LinkPairs)
            and crawl is not None
            and crawl.is_running
            and not crawl.reads_visits
        ):
            url = normalise_url(item.source) or item.source
            discovery = crawl.recorder.discovery
            page = discovery.page_of(crawl.identities.of_url(url), url, host_of(url), 0)
            visit = discovery.visit_of(page, PageVisit(item))
            crawl.recorder.record(visit)
            crawl.recorder.commit()
        return item
