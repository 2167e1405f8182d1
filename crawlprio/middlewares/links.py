"""The spider middleware that turns each response into one visit."""

from __future__ import annotations

from collections.abc import AsyncIterator
from functools import partial
from time import time
from typing import TYPE_CHECKING, Any

from scrapy import Request
from scrapy.http import HtmlResponse, Response
from scrapy.utils.httpobj import urlparse_cached

from crawlprio.frontier.protocol import PageVisit
from crawlprio.items import LinkPairs, TextNotes, content_hash
from crawlprio.live import engine
from crawlprio.live.asked import directives_of, notes_of
from crawlprio.live.crawl import Crawl
from crawlprio.live.dispatch import site_of
from crawlprio.middlewares.yielded import dropped_links
from crawlprio.pipelines import LinkPairPipeline
from crawlprio.web.addresses import ALLOW_PRIVATE
from crawlprio.web.anchors import read_anchors, read_robots, read_title
from crawlprio.web.urls import without_credentials

if TYPE_CHECKING:
    from scrapy.crawler import Crawler


class LinksMiddleware:
    """Builds one visit from what a callback yields, for the ordering and the crawl store.

    A `LinkPairs` item is the whole visit: its links are queued at once, and the item goes on to the
    pipelines. A spider that knows nothing about crawlprio yields requests. These are the links, in
    the order in which they are yielded, with the anchor text from `meta["link_text"]` or else from
    the response. A callback that fails still leaves a visit of its page, with the links that it
    yielded before.

    It must be the outermost spider middleware, to see what the engine will see. Requests that
    another spider middleware drops (DEPTH_LIMIT) are links that are not followed.

    Where nothing consumes items (no pipeline, feed, extension or log line; checked at the first
    page), a `LinkPairs` item is counted here and not passed on: its way through the engine takes a
    tenth of the time per page.
    """

    def __init__(self, crawler: Crawler) -> None:
        self._crawler = crawler
        self._crawl = Crawl.of(crawler)
        self._items_are_consumed: bool | None = None

    @classmethod
    def from_crawler(cls, crawler: Crawler) -> LinksMiddleware:
        return cls(crawler)

    async def process_spider_output(
        self, response: Response, result: AsyncIterator[Any]
    ) -> AsyncIterator[Any]:
        """Pass everything on, and collect the links of the page for its visit."""
        crawl = self._crawl
        request = response.request
        if not crawl.is_running or request is None:
            async for output in result:
                yield output
            return
        dispatcher = crawl.dispatcher
        lease = None if dispatcher is None else dispatcher.lease_of(request)
        requests: list[Request] = []
        pairs: LinkPairs | None = None
        error = "callback did not end"
        if lease is not None:
            lease.pairs = partial(self._pairs_of, response, requests)
            lease.error = error
            lease.body = self._kept(response)
        try:
            async for output in result:
                if isinstance(output, LinkPairs) and pairs is None:
                    pairs = output
                    if crawl.valuer is not None:
                        await crawl.valuer.score(pairs)
                    if dispatcher is not None and lease is not None:
                        lease.error = ""
                        dispatcher.observe(lease, pairs)
                    if not self._passes_on():
                        self._crawler.stats.inc_value("item_scraped_count")
                        continue
                elif isinstance(output, Request):
                    requests.append(output)
                    if not crawl.addresses.is_open:
                        output.meta.setdefault(ALLOW_PRIVATE, False)
                if dispatcher is not None and lease is not None:
                    dispatcher.progressed(lease)
                yield output
                if dispatcher is not None and lease is not None:
                    dispatcher.progressed(lease)
            error = ""
            if crawl.valuer is not None and lease is not None and pairs is None:
                scored = self._pairs_of(response, requests)
                await crawl.valuer.score(scored)
                lease.pairs = lambda: scored
        except Exception as exception:
            error = type(exception).__name__
            raise
        finally:
            if lease is not None:
                lease.error = error
            elif crawl.dispatcher is None:
                # Under crawlprio's scheduler, output without a lease is what a middleware returned
                # for a failed callback, whose visit is already recorded.
                self._record(request, requests, pairs, response, error)

    def process_spider_exception(self, response: Response, exception: Exception) -> None:
        """Record the error of a callback that failed before it yielded anything."""
        dispatcher = self._crawl.dispatcher
        if dispatcher is None or response.request is None:
            return
        lease = dispatcher.lease_of(response.request)
        if lease is not None and lease.pairs is None:
            lease.pairs = partial(self._pairs_of, response, [])
            lease.error = type(exception).__name__

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

    def _passes_on(self) -> bool:
        """Return whether anything consumes the items of the spider."""
        if self._items_are_consumed is None:
            self._items_are_consumed = engine.items_are_consumed(self._crawler, LinkPairPipeline)
        return self._items_are_consumed

    def _record(
        self,
        request: Request,
        requests: list[Request],
        pairs: LinkPairs | None,
        response: Response,
        error: str,
    ) -> None:
        """Record a visit under a scheduler other than crawlprio's."""
        page = self._page_of(request)
        visit = PageVisit(
            pairs or LinkPairs("", []),
            fetched_at=time(),
            error=error,
            body=self._kept(response),
        )
        if pairs is None:
            for target in requests:
                self._page_of(target)
            visit = visit._replace(pairs=self._pairs_of(response, requests), links_are_entries=True)
        recorder = self._crawl.recorder
        recorder.record(recorder.discovery.visit_of(page, visit))

    def _kept(self, response: Response) -> bytes:
        """Return what the store keeps of a body."""
        return response.body if self._crawl.config.keeps_bodies else b""

    def _page_of(self, request: Request) -> int:
        """Return the page of a request, adding it under the next id if it is new."""
        depth = request.meta.get("depth", 0)
        return self._crawl.recorder.discovery.page_of(
            self._crawl.identities.of_request(request),
            without_credentials(request.url),
            site_of(request),
            depth if isinstance(depth, int) else 0,
        )

    def _pairs_of(self, response: Response, requests: list[Request]) -> LinkPairs:
        """Return the link pairs of a page whose callback yields requests."""
        crawl = self._crawl
        identity_of = crawl.identities.of_request
        targets: dict[str, Request] = {}
        for request in requests:
            targets.setdefault(identity_of(request), request)
        yielded = crawl.yielded.pop(response.request, []) if response.request else []
        dropped = dict(dropped_links(yielded, requests)) if len(yielded) > len(requests) else {}
        title, text = "", ""
        notes: TextNotes | None = None
        robots: list[str] = []
        texts: dict[str, str] = {}
        if crawl.wants_anchors and isinstance(response, HtmlResponse):
            robots = read_robots(response.selector.root)
            title, text, texts, notes = self._read(response, [*targets.values(), *dropped.values()])

        def anchor(request: Request) -> str:
            found = request.meta.get("link_text") or texts.get(request.url.partition("#")[0], "")
            return str(found).strip()

        pairs = LinkPairs(
            source=response.url,
            targets=list(targets),
            anchors=[anchor(request) for request in targets.values()],
            outside=[(url, anchor(request)) for url, request in dropped.items()],
            status=response.status,
            title=title,
            text=text,
            n_bytes=len(response.body),
            content_hash=content_hash(response.body),
            directives=directives_of(response, robots, crawl.usages),
            notes=notes,
        )
        crawl.config.set_fingerprint(pairs)
        return pairs

    def _read(
        self, response: HtmlResponse, requests: list[Request]
    ) -> tuple[str, str, dict[str, str], TextNotes | None]:
        """Return title and text of a page, the anchor texts that requests lack, and its notes."""
        if self._crawl.wants_text:
            from crawlprio.web.html import parse_page

            keeps_text = self._crawl.config.keeps_text
            content_type = (response.headers.get("Content-Type") or b"").decode("latin-1")
            page = parse_page(
                response.body,
                response.url,
                content_type=content_type,
                want_text=True,
                without_navigation=self._crawl.config.leaves_out_navigation,
            )
            anchors = dict(zip(page.urls, page.anchors, strict=True))
            return page.title, page.text, anchors, notes_of(page) if keeps_text else None
        # The spider has nearly always parsed the page already.
        root = response.selector.root
        wanted = {
            request.url.partition("#")[0]
            for request in requests
            if not request.meta.get("link_text")
        }
        texts = read_anchors(root, response.url, response.encoding, wanted) if wanted else {}
        return read_title(root), "", texts, None
