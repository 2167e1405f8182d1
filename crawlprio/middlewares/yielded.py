"""The spider middleware that sees what a callback yields before any other can drop some of it."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator
from typing import TYPE_CHECKING, Any

from scrapy import Request
from scrapy.exceptions import NotConfigured
from scrapy.http import Response

from crawlprio.config import names_own_components, read_setting
from crawlprio.live.crawl import Crawl
from crawlprio.web.html import MAX_LINK_CHARACTERS, MAX_LINKS
from crawlprio.web.urls import without_credentials

if TYPE_CHECKING:
    from scrapy.crawler import Crawler


class YieldedLinksMiddleware:
    """Records the requests that a callback yields, so that `LinksMiddleware` finds dropped ones.

    Scrapy's `DepthMiddleware`, or a spider middleware of the project, decides which links are
    followed. The others are still links, and evidence if their target is known. This must be the
    innermost spider middleware. It is disabled if no other can drop requests: without DEPTH_LIMIT
    and without spider middlewares of the project.
    """

    def __init__(self, crawler: Crawler) -> None:
        self._crawl = Crawl.of(crawler)

    @classmethod
    def from_crawler(cls, crawler: Crawler) -> YieldedLinksMiddleware:
        settings = crawler.settings
        may_drop = names_own_components(settings, "SPIDER_MIDDLEWARES")
        if not (may_drop or read_setting(settings, "DEPTH_LIMIT")):
            raise NotConfigured
        return cls(crawler)

    async def process_spider_output(
        self, response: Response, result: AsyncIterator[Any]
    ) -> AsyncIterator[Any]:
        """Pass everything on, and record the requests."""
        if response.request is None or not self._crawl.is_running:
            async for output in result:
                yield output
            return
        yielded = self._crawl.yielded[response.request] = []
        async for output in result:
            if isinstance(output, Request):
                yielded.append(output)
            yield output


def dropped_links(yielded: list[Request], kept: list[Request]) -> Iterator[tuple[str, Request]]:
    """Yield URL and request for each request that was yielded and not kept.

    Only plain links count (GET, without a body), up to the limits for the links of one page
    (`MAX_LINKS`, `MAX_LINK_CHARACTERS`).
    """
    kept_ids = set(map(id, kept))
    n_links = n_characters = 0
    for request in yielded:
        if id(request) in kept_ids or request.method != "GET" or request.body:
            continue
        url = without_credentials(request.url.partition("#")[0])
        n_links += 1
        n_characters += len(url)
        if n_links > MAX_LINKS or n_characters > MAX_LINK_CHARACTERS:
            return
        yield url, request
