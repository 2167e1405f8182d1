"""Conditional requests: validators of a page's last copy go out; an unchanged page ends here.

What a process that fetches knows of an earlier copy comes with the request, so workers need no
store.
"""

from __future__ import annotations

import json
from typing import Any

from scrapy import Request
from scrapy.crawler import Crawler
from scrapy.exceptions import IgnoreRequest
from scrapy.http import HtmlResponse, Response

from crawlprio.items import content_hash
from crawlprio.live.crawl_context import CrawlContext
from crawlprio.live.response_parser import type_of
from crawlprio.plugins.update.sameness import blocks_of
from crawlprio.store.side_tables import SideTable
from crawlprio.web.addresses import ALLOW_PRIVATE

EARLIER = "crawlprio_earlier"
"""Key in `meta` of a request for a page that was fetched before: the hash of its last body."""

NOT_MODIFIED = 304

HEADERS = ("If-None-Match", "If-Modified-Since")

LONGEST = 1_000
"""Characters of a validator that is sent back."""


def copy_of(response: Response) -> tuple[str, str, bytes]:
    """Return the row of `COPIES` for a response, whose validators are as its headers have them."""
    names = ("ETag", "Last-Modified")
    etag, modified = ((response.headers.get(name) or b"").decode("latin-1") for name in names)
    is_html = isinstance(response, HtmlResponse)
    blocks = blocks_of(response.body, type_of(response).header).tobytes() if is_html else b""
    return _usable(etag), _usable(modified), blocks


def _usable(validator: str) -> str:
    """Return a validator as it may stand in a header; empty if it may not."""
    is_usable = len(validator) <= LONGEST and validator.isprintable() and validator.isascii()
    return validator if is_usable else ""


COPIES = SideTable.of_visits(
    "page_copies",
    "etag TEXT NOT NULL, modified TEXT NOT NULL, blocks BLOB NOT NULL",
    is_valid=lambda etag, modified, blocks: (_usable(etag), _usable(modified)) == (etag, modified),
)
"""How what is kept of a response (its validators, and its blocks) travels with its visit to the
process that has the store; no store has this table, as `revisits` has one copy a page."""


def conditional(
    request: bytes | None, url: str, depth: int, etag: str, modified: str, body: int
) -> bytes:
    """Return a request, as JSON, that asks for a page only if it differs from an earlier copy.

    `request` is the project's own, None for a plain one; `body` the hash of the earlier body.
    """
    plain = {"url": url, "meta": {"depth": depth, ALLOW_PRIVATE: False}}
    fields: dict[str, Any] = plain if request is None else json.loads(request)
    meta = fields.get("meta", {})
    # An object with such a key stands for a value of another type.
    is_plain = isinstance(meta, dict) and not any(key.startswith("$") for key in meta)
    if is_plain and fields.get("method", "GET") == "GET":
        headers = [row for row in fields.get("headers", []) if row[0].title() not in HEADERS]
        validators = zip(HEADERS, (_usable(etag), _usable(modified)), strict=True)
        headers += [[name, value] for name, value in validators if value]
        fields |= {"meta": {**meta, EARLIER: body}} | ({"headers": headers} if headers else {})
    return json.dumps(fields).encode()


class ConditionalMiddleware:
    """Ends the fetch of a page that is as it was.

    A 304, or the same body as before, reaches neither callback nor errback. It must be the
    outermost downloader middleware, so that it sees bodies decoded.
    """

    def __init__(self, crawler: Crawler) -> None:
        self._crawl = CrawlContext.of(crawler)

    @classmethod
    def from_crawler(cls, crawler: Crawler) -> ConditionalMiddleware:
        return cls(crawler)

    def process_request(self, request: Request) -> None:
        """Send no validators of a page to where it redirects."""
        if EARLIER in request.meta and "redirect_urls" in request.meta:
            del request.meta[EARLIER]
            for name in HEADERS:
                request.headers.pop(name, None)

    def process_response(self, request: Request, response: Response) -> Response:
        lease = self._crawl.lease_of(request)
        if lease is not None and EARLIER in request.meta:
            is_got, earlier = 200 <= response.status < 300, request.meta[EARLIER]
            is_same = is_got and content_hash(response.body) == earlier
            if is_same or response.status == NOT_MODIFIED:
                lease.status = NOT_MODIFIED
                request.errback = None
                raise IgnoreRequest("the page is as it was")
        return response
