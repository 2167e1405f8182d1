"""The parts of a crawl that keep its items, stop it at a coverage, and make its receipt."""

from __future__ import annotations

import logging
from typing import Any

from itemadapter import ItemAdapter
from scrapy import signals
from scrapy.http import Response
from scrapy.utils.serialize import ScrapyJSONEncoder

from crawlprio.graph.pages import Visit
from crawlprio.items import LinkPairs
from crawlprio.live.crawl_context import CrawlPart

logger = logging.getLogger("crawlprio")


class Receipt(CrawlPart):
    """Makes the receipt of a crawl from what is on disk."""

    def closed(self, reason: str) -> None:
        recorder = self.crawl.recorder
        if recorder.store is None:
            return
        recorder.finish(reason)
        from crawlprio.measure.receipt_document import make_receipt

        self.crawl.receipt = make_receipt(recorder.store.path)

    def ended(self) -> None:
        from crawlprio.measure.receipt_document import write_receipt

        store = self.crawl.recorder.store
        if self.crawl.receipt is not None and store is not None:
            write_receipt(self.crawl.receipt, store.path)


class StopAtCoverage(CrawlPart):
    """Keeps the estimate of the coverage up to date, which ends the crawl if it is to be likely."""

    def visited(self, visit: Visit) -> None:
        crawl = self.crawl
        if (
            crawl.likely_share is not None
            and crawl.is_running
            and crawl.coverage_so_far is not None
        ):
            crawl.coverage_so_far.coverage(crawl.recorder.figures.n_fetched)


class ItemKeeper(CrawlPart):
    """Takes each item as it leaves the pipelines, and keeps it until its page is recorded.

    Items are stored as the JSON that Scrapy's feeds write. `LinkPairs` are skipped: the store has
    them as visits. An item that belongs to no page, as `start` yields it, is stored at once.
    """

    keeps = True
    is_in_workers = True

    def opened(self) -> None:
        self._crawler = self.crawl.crawler
        self._encode = ScrapyJSONEncoder(ensure_ascii=False).encode
        self._has_logged = False
        self._crawler.signals.connect(self._keep, signal=signals.item_scraped)

    def _keep(self, item: Any, response: Response | None) -> None:
        if isinstance(item, LinkPairs):
            return
        try:
            text = self._encode(ItemAdapter(item).asdict())
        except (TypeError, ValueError, RecursionError) as error:
            self._refuse(item, error)
            return
        lease = None if response is None else self.crawl.lease_of(response.request)
        self._crawler.stats.inc_value("crawlprio/items_kept")
        if lease is not None and not lease.is_observed:
            lease.items.append(text)
            return
        with self.crawl.failing():
            self.crawl.recorder.keep_item(text)

    def _refuse(self, item: Any, error: Exception) -> None:
        self._crawler.stats.inc_value("crawlprio/items_not_kept")
        if not self._has_logged:
            self._has_logged = True
            logger.error(
                "An item of type %s cannot be stored as JSON (%s); others like it are counted in "
                "the stats.",
                type(item).__name__,
                error,
            )
