"""Spider middleware that turns responses into visits, and the links that callbacks yield."""

from __future__ import annotations

from collections.abc import AsyncIterator
from time import thread_time
from typing import Any, Self

from scrapy import Request
from scrapy.crawler import Crawler
from scrapy.exceptions import NotConfigured
from scrapy.http import Response
from scrapy.spidermiddlewares.referer import RefererMiddleware
from scrapy.utils.asyncio import call_later
from scrapy.utils.httpobj import urlparse_cached

from crawlprio.items import LinkPairs
from crawlprio.live import engine
from crawlprio.live.crawl_context import CrawlComponent
from crawlprio.live.dispatch import depth_of, site_of
from crawlprio.live.response_parser import YIELDED, ResponseParser
from crawlprio.pipelines import LinkPairPipeline
from crawlprio.settings_table.config import names_own_components, read_setting
from crawlprio.web.addresses import ALLOW_PRIVATE
from crawlprio.web.urls import without_credentials

LONG_TURN = 0.05
"""Seconds of processor time that reading pages may take in one turn of the event loop; what has
arrived beside them is read in later turns."""


class YieldedLinksMiddleware(CrawlComponent):
    """Records the requests that a callback yields, so that `LinksMiddleware` finds dropped ones.

    Scrapy's `DepthMiddleware`, or a spider middleware of the project, decides which links are
    followed. The others are still links, and evidence if their target is known. This must be the
    innermost spider middleware. It is disabled if no other can drop requests: without DEPTH_LIMIT
    and without spider middlewares of the project.
    """

    @classmethod
    def from_crawler(cls, crawler: Crawler) -> Self:
        settings = crawler.settings
        may_drop = names_own_components(settings, "SPIDER_MIDDLEWARES")
        if not (may_drop or read_setting(settings, "DEPTH_LIMIT")):
            raise NotConfigured
        return cls(crawler)

    async def process_spider_output(
        self, response: Response, result: AsyncIterator[Any]
    ) -> AsyncIterator[Any]:
        """Pass everything on, and record the requests."""
        yielded: list[Request] = []
        if response.request is not None and self._crawl.is_running:
            YIELDED[response.request] = yielded
        async for output in result:
            if isinstance(output, Request):
                yielded.append(output)
            yield output


class LinksMiddleware(CrawlComponent):
    """Builds one visit from what a callback yields, for the ordering and the crawl store.

    A `LinkPairs` item is the whole visit: its links are queued at once, and the item goes on to the
    pipelines. A spider that knows nothing about crawlprio yields requests. These are the links, in
    the order in which they are yielded, with the anchor text from `meta["link_text"]` or else from
    the response. A callback that fails still leaves a visit of its page, with the links that it
    yielded before.

    It must be the outermost spider middleware, to see what the engine will see. Requests that
    another spider middleware drops (DEPTH_LIMIT) are links that are not followed.

    Once pages that come as `LinkPairs` have taken `LONG_TURN` of a turn of the event loop, others
    that have arrived are read in later turns, so that fetches and timers go on between them. What
    callbacks of a project take is not counted.

    Where nothing consumes items (no pipeline, feed, extension or log line; checked at the first
    page), a `LinkPairs` item is counted here and not passed on: its way through the engine takes a
    tenth of the time per page.
    """

    def __init__(self, crawler: Crawler) -> None:
        super().__init__(crawler)
        self._items_are_consumed: bool | None = None
        self._spent = 0.0

    async def process_spider_output(
        self, response: Response, result: AsyncIterator[Any]
    ) -> AsyncIterator[Any]:
        """Pass everything on, and collect the links of the page for its visit."""
        while self._spent > LONG_TURN:
            await engine.sleep(0)
        began = thread_time()
        crawl, request, dispatcher = self._crawl, response.request, self._crawl.dispatcher
        if not crawl.is_running or request is None:
            async for output in result:
                yield output
            return
        reading = ResponseParser(crawl, response)
        is_guarded = not crawl.addresses.is_open
        lease = crawl.lease_of(request)
        error = "callback did not end"
        if lease is not None:
            lease.is_read = True
        try:
            async for output in result:
                if isinstance(output, LinkPairs) and reading.item is None:
                    reading.item = output
                    for judge in crawl.parts.defining("judge"):
                        await judge(output)
                    # Items are recorded with their page, and so at the end.
                    if dispatcher is not None and lease and not crawl.config.keeps_items:
                        dispatcher.observe(lease, reading.visit())
                    self._spend(thread_time() - began)
                    if not self._passes_on():
                        self._crawler.stats.inc_value("item_scraped_count")
                        continue
                elif isinstance(output, Request):
                    reading.requests.append(output)
                    if output.dont_filter and dispatcher is not None:
                        dispatcher.yielded(request, output)
                    if is_guarded:
                        output.meta.setdefault(ALLOW_PRIVATE, False)
                if dispatcher is not None and lease is not None:
                    dispatcher.callbacks.prolong(lease)
                yield output
                if dispatcher is not None and lease is not None:
                    dispatcher.callbacks.prolong(lease)
            error = ""
            if lease is not None and reading.item is None:
                for judge in crawl.parts.defining("judge"):
                    await judge(reading.pairs)
        except Exception as exception:
            error = type(exception).__name__
            raise
        finally:
            # Under crawlprio's scheduler, output without a lease is what a middleware returned for
            # a failed callback, whose visit is already recorded.
            if dispatcher is None:
                self._record(request, reading, error)
            elif lease is not None and not lease.is_observed:
                lease.visit = reading.visit(error)  # the dispatcher reports it

    def process_spider_exception(self, response: Response, exception: Exception) -> None:
        """Record the error of a callback that failed before it yielded anything."""
        lease = self._crawl.lease_of(response.request)
        if lease is not None and not lease.is_read:
            lease.is_read = True
            reading = ResponseParser(self._crawl, response, keeps_body=False)
            lease.visit = reading.visit(type(exception).__name__)

    async def process_start(self, start: AsyncIterator[Any]) -> AsyncIterator[Any]:
        """Pull from a spider's `start` only as fast as its requests are handed out."""
        async for output in start:
            if isinstance(output, Request):
                if self._crawl.is_running:
                    await self._admit(output)
                if self._crawl.dispatcher is not None:
                    await self._crawl.dispatcher.starts.wait(output)
            yield output

    async def _admit(self, request: Request) -> None:
        """Open the private addresses of a start request, or have it checked like a page's."""
        addresses = self._crawl.addresses
        if addresses.opens_seeds:
            await self._crawl.admit_seeds([urlparse_cached(request).hostname or ""])
        elif not addresses.is_open:
            request.meta.setdefault(ALLOW_PRIVATE, False)

    def _spend(self, seconds: float) -> None:
        """Count processor time against this turn of the event loop."""
        if not self._spent:
            call_later(0, setattr, self, "_spent", 0.0)
        self._spent += seconds

    def _passes_on(self) -> bool:
        """Return whether anything consumes the items of the spider."""
        if self._items_are_consumed is None:
            self._items_are_consumed = engine.items_are_consumed(self._crawler, LinkPairPipeline)
        return self._items_are_consumed

    def _record(self, request: Request, reading: ResponseParser, error: str) -> None:
        """Record a visit under a scheduler other than crawlprio's."""
        page = self._page_of(request)
        if reading.item is None:
            for target in reading.requests:
                self._page_of(target)
        recorder = self._crawl.recorder
        recorder.record(recorder.discovery.visit_of(page, reading.visit(error)))
        recorder.commit()

    def _page_of(self, request: Request) -> int:
        """Return the page of a request, adding it under the next id if it is new."""
        return self._crawl.recorder.discovery.page_of(
            self._crawl.identities.of_request(request),
            without_credentials(request.url),
            site_of(request),
            depth_of(request),
        )


class RedirectReferer(RefererMiddleware):
    """Scrapy's own Referer headers, for redirects only.

    A spider that yields no requests needs no others, which would cost two generators per page.
    """

    process_spider_output = None  # type: ignore[assignment]
    process_spider_output_async = None  # type: ignore[assignment]
