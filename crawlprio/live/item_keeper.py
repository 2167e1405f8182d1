"""Storage of items in the crawl store, each with the visit of the page it was scraped from."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Any

from itemadapter import ItemAdapter
from scrapy import signals
from scrapy.http import Response
from scrapy.utils.serialize import ScrapyJSONEncoder

from crawlprio.errors import CrawlprioError
from crawlprio.items import LinkPairs
from crawlprio.live.dispatch import Dispatcher
from crawlprio.live.recorder import Recorder

if TYPE_CHECKING:
    from collections.abc import Callable

    from scrapy.crawler import Crawler

logger = logging.getLogger("crawlprio")


class ItemKeeper:
    """Takes each item as it leaves the pipelines, and keeps it until its page is recorded.

    Items are stored as the JSON that Scrapy's feeds write. `LinkPairs` are skipped: the store has
    them as visits.

    Parameters
    ----------
    crawler
        the crawler whose items are kept.
    dispatcher
        knows the lease of the page that an item comes from.
    recorder
        stores items that belong to no page: those that `start` yields.
    failed
        called with the error when the store fails.
    """

    def __init__(
        self,
        crawler: Crawler,
        dispatcher: Dispatcher,
        recorder: Recorder,
        failed: Callable[[CrawlprioError], object],
    ) -> None:
        self._crawler = crawler
        self._dispatcher = dispatcher
        self._recorder = recorder
        self._failed = failed
        self._encode = ScrapyJSONEncoder(ensure_ascii=False).encode
        self._has_logged = False
        crawler.signals.connect(self._keep, signal=signals.item_scraped)

    def _keep(self, item: Any, response: Response | None) -> None:
        if isinstance(item, LinkPairs):
            return
        try:
            text = self._encode(ItemAdapter(item).asdict())
        except (TypeError, ValueError, RecursionError) as error:
            self._refuse(item, error)
            return
        request = None if response is None else response.request
        lease = None if request is None else self._dispatcher.lease_of(request)
        self._crawler.stats.inc_value("crawlprio/items_kept")
        if lease is not None and not lease.is_observed:
            lease.items.append(text)
            return
        try:
            self._recorder.keep_item(text)
        except CrawlprioError as error:
            self._failed(error)

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
