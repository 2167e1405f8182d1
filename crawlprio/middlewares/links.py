"""The spider middleware that turns each response into one visit.

It must not know how pages are ordered.
"""

from __future__ import annotations

import hashlib
from collections.abc import AsyncIterator
from functools import partial
from time import time
from typing import TYPE_CHECKING, Any

import numpy as np
from scrapy import Request, signals
from scrapy.exceptions import CloseSpider
from scrapy.http import HtmlResponse, Response
from scrapy.utils.httpobj import urlparse_cached

from crawlprio.errors import ConfigError
from crawlprio.items import LinkPairs
from crawlprio.live import engine
from crawlprio.live.dispatch import Dispatcher
from crawlprio.live.job import Job, failure_of
from crawlprio.live.leases import Lease
from crawlprio.middlewares.refusals import private_addresses
from crawlprio.pages import NO_PAGE, NO_PAGES, Visit
from crawlprio.pipelines import LinkPairPipeline
from crawlprio.web.html import parse_page

if TYPE_CHECKING:
    from scrapy.crawler import Crawler


class LinksMiddleware:
    """Reads one visit off what a callback yields, for the ordering and the crawl store.

    A `LinkPairs` item says all; its links wait from then on, and the item goes on to the pipelines.
    A spider that knows nothing of crawlprio yields requests: they are the links, in the order in
    which they are yielded, with the anchor text of `meta["link_text"]` or else of the response. A
    callback that fails still leaves the visit of its page, with the links that it had yielded.

    It must be the outermost spider middleware, so that it sees what the engine will see.

    Where nothing takes items (no pipeline, feed, extension or log line; looked up at the first
    page) a `LinkPairs` item is counted here and goes no further: its way through the engine costs a
    tenth of a page's time.
    """

    def __init__(self, crawler: Crawler) -> None:
        self._crawler = crawler
        self._job: Job | None = None
        self._items_are_taken: bool | None = None
        crawler.signals.connect(self._spider_opened, signal=signals.spider_opened)
        crawler.signals.connect(self._spider_closed, signal=signals.spider_closed)

    @classmethod
    def from_crawler(cls, crawler: Crawler) -> LinksMiddleware:
        return cls(crawler)

    async def process_spider_output(
        self, response: Response, result: AsyncIterator[Any]
    ) -> AsyncIterator[Any]:
        """Pass everything on, and observe the visit at the end or with the first `LinkPairs`."""
        job = self._job
        if job is None:
            async for output in result:
                yield output
            return
        request = response.request
        assert request is not None
        dispatcher = self._dispatcher()
        lease = None if dispatcher is None else dispatcher.answered(request)
        requests: list[Request] = []
        pairs: LinkPairs | None = None
        error = "callback did not end"
        try:
            async for output in result:
                if isinstance(output, LinkPairs) and pairs is None:
                    pairs = output
                    visit = job.visit_of(self._page(request, lease), pairs)
                    self._observe(dispatcher, lease, visit)
                    if not self._passes_on():
                        self._crawler.stats.inc_value("item_scraped_count")
                        continue
                elif isinstance(output, Request):
                    requests.append(output)
                    if dispatcher is not None and lease is not None:
                        dispatcher.expect(lease, output)
                yield output
            error = ""
        except Exception as exception:
            error = type(exception).__name__
            raise
        finally:
            if dispatcher is not None:
                # Without a lease this is what a middleware made of a failed callback: seen before.
                if lease is not None:
                    visit_of = partial(self._visit, lease.page, response, requests, error)
                    dispatcher.conclude(lease, visit_of)
            elif pairs is None:
                page = self._page(request, None)
                self._observe(None, None, self._visit(page, response, requests, error))

    def process_spider_exception(self, response: Response, exception: Exception) -> None:
        """Observe the visit of a page whose callback failed before it yielded anything."""
        dispatcher = None if self._job is None else self._dispatcher()
        lease = None
        if dispatcher is not None and response.request is not None:
            lease = dispatcher.lease_of(response.request)
        if dispatcher is None or lease is None or lease.in_callback:
            return
        lease.in_callback = True
        error = type(exception).__name__
        dispatcher.conclude(lease, partial(self._visit, lease.page, response, [], error))

    async def process_start(self, start: AsyncIterator[Any]) -> AsyncIterator[Any]:
        """Let a spider's `start` go on only as fast as its requests are handed out."""
        async for output in start:
            dispatcher = self._dispatcher()
            if isinstance(output, Request):
                private_addresses(self._crawler).add_seed(urlparse_cached(output).hostname or "")
                if dispatcher is not None:
                    await dispatcher.room_for_start()
            yield output

    def _passes_on(self) -> bool:
        """Whether anything takes the items of the spider."""
        if self._items_are_taken is None:
            self._items_are_taken = engine.items_are_taken(self._crawler, LinkPairPipeline)
        return self._items_are_taken

    def _observe(self, dispatcher: Dispatcher | None, lease: Lease | None, visit: Visit) -> None:
        assert self._job is not None
        if dispatcher is None:
            self._job.observe(self._job.timed(visit, time(), 0.0))
        elif lease is not None:
            dispatcher.observe(lease, visit)

    def _page(self, request: Request, lease: Lease | None) -> int:
        """The page of a response, which is new where another scheduler runs."""
        assert self._job is not None
        if lease is not None:
            return lease.page
        page = self._job.page_of(request)
        return self._job.add_page(request) if page == NO_PAGE else page

    def _visit(self, page: int, response: Response, requests: list[Request], error: str) -> Visit:
        """The visit of a page of a spider that yields requests."""
        job = self._job
        assert job is not None
        found: dict[int, Request] = {}
        for request in requests:
            target = job.page_of(request)
            if target == NO_PAGE and not job.orders:
                target = job.add_page(request)
            if target not in (NO_PAGE, page):
                found.setdefault(target, request)
        title, text, texts = "", "", {}
        if job.wants_anchors and isinstance(response, HtmlResponse):
            content_type = (response.headers.get("Content-Type") or b"").decode("latin-1")
            parsed = parse_page(
                response.body, response.url, content_type=content_type, want_text=job.wants_text
            )
            title, text = parsed.title, parsed.text
            texts = {link.url: link.anchor for link in parsed.links}
        return Visit(
            page=page,
            targets=np.array(list(found), dtype=np.int32) if found else NO_PAGES,
            anchors=[
                str(request.meta.get("link_text") or texts.get(request.url, "")).strip()
                for request in found.values()
            ],
            status=response.status,
            title=title,
            text=text,
            n_bytes=len(response.body),
            content_hash=int.from_bytes(
                hashlib.blake2b(response.body, digest_size=8).digest(), "big", signed=True
            ),
            error=error,
        )

    def _dispatcher(self) -> Dispatcher | None:
        """What keeps the leases, where crawlprio's scheduler or queue is in use."""
        return dispatcher_of(self._crawler)

    def _spider_opened(self) -> CloseSpider | None:
        failure = failure_of(self._crawler)
        if failure is not None:
            raise engine.refuse_to_start(self._crawler, failure)
        methods = self._crawler.engine.scraper.spidermw.methods["process_spider_output"]
        if self.process_spider_output not in methods:
            raise engine.refuse_to_start(
                self._crawler,
                ConfigError(
                    "Scrapy left out crawlprio's LinksMiddleware; list it in SPIDER_MIDDLEWARES."
                ),
            )
        self._job = Job.of(self._crawler)
        return None

    def _spider_closed(self) -> None:
        if self._job is not None:
            self._job.close()


def dispatcher_of(crawler: Crawler) -> Dispatcher | None:
    """Return what keeps the leases of a crawl; None under a scheduler that is not crawlprio's."""
    scheduler = crawler.engine.scheduler
    found = getattr(scheduler, "dispatcher", None)
    if found is None:
        found = getattr(getattr(scheduler, "mqs", None), "dispatcher", None)
    return found if isinstance(found, Dispatcher) else None
