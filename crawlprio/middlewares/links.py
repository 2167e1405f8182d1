"""The spider middleware that turns each response into one visit."""

from __future__ import annotations

import hashlib
import re
from collections.abc import AsyncIterator
from functools import partial
from html import unescape
from time import time
from typing import TYPE_CHECKING, Any
from urllib.parse import unquote

from scrapy import Request
from scrapy.http import HtmlResponse, Response
from scrapy.utils.httpobj import urlparse_cached

from crawlprio.frontier.protocol import PageVisit
from crawlprio.items import LinkPairs
from crawlprio.live import engine
from crawlprio.live.crawl import OWN_REQUEST, Crawl
from crawlprio.live.dispatch import site_of
from crawlprio.middlewares.refusals import connected_host
from crawlprio.middlewares.yielded import dropped_links
from crawlprio.pages import NO_PAGE
from crawlprio.pipelines import LinkPairPipeline
from crawlprio.web.addresses import normal_host
from crawlprio.web.anchors import read_anchors, read_title
from crawlprio.web.urls import without_credentials

if TYPE_CHECKING:
    from scrapy.crawler import Crawler


_HOST_LIKE = re.compile(r"//([^\s/?#\\\"'<>]{1,100})")
_JSON_ESCAPE = re.compile(r"\\u([0-9a-fA-F]{4})")


def _unescaped(escape: re.Match[str]) -> str:
    return chr(int(escape[1], 16))


class LinksMiddleware:
    """Reads one visit off what a callback yields, for the ordering and the crawl store.

    A `LinkPairs` item says all; its links wait from then on, and the item goes on to the pipelines.
    A spider that knows nothing of crawlprio yields requests: they are the links, in the order in
    which they are yielded, with the anchor text of `meta["link_text"]` or else of the response. A
    callback that fails still leaves the visit of its page, with the links that it had yielded.

    It must be the outermost spider middleware, so that it sees what the engine will see. Requests
    that a spider middleware drops on the way (DEPTH_LIMIT) are links that are not followed.

    Where nothing takes items (no pipeline, feed, extension or log line; looked up at the first
    page) a `LinkPairs` item is counted here and goes no further: its way through the engine costs a
    tenth of a page's time.
    """

    def __init__(self, crawler: Crawler) -> None:
        self._crawler = crawler
        self._crawl = Crawl.of(crawler)
        self._items_are_taken: bool | None = None

    @classmethod
    def from_crawler(cls, crawler: Crawler) -> LinksMiddleware:
        return cls(crawler)

    async def process_spider_output(
        self, response: Response, result: AsyncIterator[Any]
    ) -> AsyncIterator[Any]:
        """Pass everything on, and note what the page says for its visit."""
        crawl = self._crawl
        request = response.request
        if not crawl.is_running or request is None:
            async for output in result:
                yield output
            return
        dispatcher = crawl.dispatcher
        lease = None if dispatcher is None else dispatcher.lease_of(request)
        requests: list[Request] = []
        origin = _allowed_origin(response)
        pairs: LinkPairs | None = None
        error = "callback did not end"
        if lease is not None:
            lease.pairs = partial(self._pairs_of, response, requests)
            lease.error = error
        try:
            async for output in result:
                if isinstance(output, LinkPairs) and pairs is None:
                    pairs = output
                    if dispatcher is not None and lease is not None:
                        lease.error = ""
                        dispatcher.observe(lease, pairs)
                    if not self._passes_on():
                        self._crawler.stats.inc_value("item_scraped_count")
                        continue
                elif isinstance(output, Request):
                    requests.append(output)
                    if not (origin and output.url.startswith(origin)):
                        self._mark_own(output, response)
                if dispatcher is not None and lease is not None:
                    dispatcher.progressed(lease)
                yield output
                if dispatcher is not None and lease is not None:
                    dispatcher.progressed(lease)
            error = ""
        except Exception as exception:
            error = type(exception).__name__
            raise
        finally:
            if lease is not None:
                lease.error = error
            elif crawl.dispatcher is None:
                # Without a lease under crawlprio's scheduler this is what a middleware made of a
                # failed callback, whose visit has been read.
                self._record(request, requests, pairs, response, error)

    def process_spider_exception(self, response: Response, exception: Exception) -> None:
        """Note the failure of a callback that failed before it yielded anything."""
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
                    self._crawl.addresses.add_seed(urlparse_cached(output).hostname or "")
                if self._crawl.dispatcher is not None:
                    await self._crawl.dispatcher.room_for_start(output)
            yield output

    def _mark_own(self, request: Request, response: Response) -> None:
        """Mark a request to a private address that is the project's own, not the page's.

        It is the page's if the page names the host, however it is written there, or if the host
        can be read in several ways.
        """
        if self._crawl.addresses.is_open:
            return
        host = connected_host(request)
        if not host or self._crawl.addresses.allows_host(host):
            return
        body = response.body.decode("latin-1")
        written = (body, unescape(body), unquote(body), _JSON_ESCAPE.sub(_unescaped, body))
        as_asked = urlparse_cached(request).hostname or host
        for text in written:
            lowered = text.lower()
            if host in lowered or as_asked in lowered:
                return
            if any(normal_host(name) == host for name in set(_HOST_LIKE.findall(lowered))):
                return
        request.meta[OWN_REQUEST] = True

    def _passes_on(self) -> bool:
        """Whether anything takes the items of the spider."""
        if self._items_are_taken is None:
            self._items_are_taken = engine.items_are_taken(self._crawler, LinkPairPipeline)
        return self._items_are_taken

    def _record(
        self,
        request: Request,
        requests: list[Request],
        pairs: LinkPairs | None,
        response: Response,
        error: str,
    ) -> None:
        """Record a visit under a scheduler that is not crawlprio's."""
        page = self._page_of(request)
        told = PageVisit(pairs or LinkPairs("", []), fetched_at=time(), error=error)
        if pairs is None:
            for target in requests:
                self._page_of(target)
            told = told._replace(pairs=self._pairs_of(response, requests), links_are_entries=True)
        recorder = self._crawl.recorder
        recorder.record(recorder.visit_of(page, told))

    def _page_of(self, request: Request) -> int:
        """The page of a request, which gets the next id if it is new."""
        recorder = self._crawl.recorder
        identity = self._crawl.identities.of_request(request)
        page = recorder.pages.find(identity)
        if page != NO_PAGE:
            return page
        depth = request.meta.get("depth", 0)
        return recorder.add_page(
            identity,
            without_credentials(request.url),
            recorder.pages.site(site_of(request)),
            depth if isinstance(depth, int) else 0,
        )

    def _pairs_of(self, response: Response, requests: list[Request]) -> LinkPairs:
        """What the page of a spider that yields requests says."""
        crawl = self._crawl
        identity_of = crawl.identities.of_request
        targets: dict[str, Request] = {}
        for request in requests:
            targets.setdefault(identity_of(request), request)
        yielded = crawl.yielded.pop(response.request, []) if response.request else []
        dropped = dict(dropped_links(yielded, requests)) if len(yielded) > len(requests) else {}
        title, text = "", ""
        texts: dict[str, str] = {}
        if crawl.wants_anchors and isinstance(response, HtmlResponse):
            title, text, texts = self._read(response, [*targets.values(), *dropped.values()])

        def anchor(request: Request) -> str:
            found = request.meta.get("link_text") or texts.get(request.url.partition("#")[0], "")
            return str(found).strip()

        return LinkPairs(
            source=response.url,
            targets=list(targets),
            anchors=[anchor(request) for request in targets.values()],
            outside=[(url, anchor(request)) for url, request in dropped.items()],
            status=response.status,
            title=title,
            text=text,
            n_bytes=len(response.body),
            content_hash=int.from_bytes(
                hashlib.blake2b(response.body, digest_size=8).digest(), "big", signed=True
            ),
        )

    def _read(
        self, response: HtmlResponse, requests: list[Request]
    ) -> tuple[str, str, dict[str, str]]:
        """Title and text of a page, and the anchor texts that requests do not bring along."""
        if self._crawl.wants_text:
            from crawlprio.web.html import parse_page

            content_type = (response.headers.get("Content-Type") or b"").decode("latin-1")
            page = parse_page(
                response.body, response.url, content_type=content_type, want_text=True
            )
            return page.title, page.text, dict(zip(page.urls, page.anchors, strict=True))
        # The spider has had the page parsed, nearly always.
        root = response.selector.root
        wanted = {
            request.url.partition("#")[0]
            for request in requests
            if not request.meta.get("link_text")
        }
        texts = read_anchors(root, response.url, response.encoding, wanted) if wanted else {}
        return read_title(root), "", texts


def _allowed_origin(response: Response) -> str:
    """Return how URLs of the host of a page begin, which was allowed as the page was fetched.

    Empty where it was fetched because the project itself asked for it.
    """
    if response.request is None or OWN_REQUEST in response.request.meta:
        return ""
    origin = "/".join(response.url.split("/", 3)[:3])
    return f"{origin}/" if origin.startswith("http") else ""
