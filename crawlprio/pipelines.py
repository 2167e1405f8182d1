"""The item pipeline that records link pairs; it knows the crawl store and no ordering."""

from __future__ import annotations

from time import time
from typing import TYPE_CHECKING, Any

from scrapy import Request

from crawlprio.items import LinkPairs
from crawlprio.live.job import Job, failure_of, reads_visits
from crawlprio.pages import NO_PAGE

if TYPE_CHECKING:
    from scrapy.crawler import Crawler


class LinkPairPipeline:
    """Records every `LinkPairs` item in the crawl store, and returns it.

    It works under any scheduler. Where `LinksMiddleware` is in use the pairs are in the store
    before the item comes here, so that no page is done before its links are recorded; then it adds
    nothing.
    """

    def __init__(self, crawler: Crawler) -> None:
        self._crawler = crawler

    @classmethod
    def from_crawler(cls, crawler: Crawler) -> LinkPairPipeline:
        return cls(crawler)

    def process_item(self, item: Any) -> Any:
        if isinstance(item, LinkPairs) and not self._is_recorded_before():
            job = Job.of(self._crawler)
            request = Request(item.source)
            page = job.page_of(request)
            if page == NO_PAGE:
                page = job.add_page(request)
            job.observe(job.timed(job.visit_of(page, item), time(), 0.0))
        return item

    def _is_recorded_before(self) -> bool:
        return failure_of(self._crawler) is not None or reads_visits(self._crawler)
