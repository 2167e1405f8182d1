"""Conditional requests: validators of a page's last copy go out; an unchanged page ends here.

What a process that fetches knows of an earlier copy comes with the request, so workers need no
store.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any, NamedTuple

from scrapy import Request
from scrapy.crawler import Crawler
from scrapy.exceptions import IgnoreRequest
from scrapy.http import HtmlResponse, Response

from crawlprio.items import content_hash
from crawlprio.live.crawl_context import CrawlContext
from crawlprio.live.response_parser import type_of
from crawlprio.plugins.update.sameness import blocks_of, packed
from crawlprio.store.side_tables import SideTable
from crawlprio.web.addresses import ALLOW_PRIVATE

EARLIER = "crawlprio_earlier"
"""Key in `meta` of a request for a page that was fetched before: the hash of its last body."""

NOT_MODIFIED = 304

HEADERS = {"if-none-match": "If-None-Match", "if-modified-since": "If-Modified-Since"}

LONGEST = 1_000
"""Characters of a validator that is sent back."""


class Copy(NamedTuple):
    """What is kept of a response: its validators, as its headers have them, and its blocks."""

    etag: str
    modified: str
    blocks: bytes

    @classmethod
    def of(cls, response: Response) -> Copy:
        names = ("ETag", "Last-Modified")
        etag, modified = ((response.headers.get(name) or b"").decode("latin-1") for name in names)
        is_html = isinstance(response, HtmlResponse)
        blocks = packed(blocks_of(response.body, type_of(response).header)) if is_html else b""
        return cls(_usable(etag), _usable(modified), blocks)


def _usable(validator: str) -> str:
    """Return a validator as it may stand in a header; empty if it may not."""
    is_usable = len(validator) <= LONGEST and validator.isprintable() and validator.isascii()
    return validator if is_usable else ""


COPIES = SideTable.of_visits(
    "page_copies",
    "etag TEXT NOT NULL, modified TEXT NOT NULL, blocks BLOB NOT NULL",
    is_valid=lambda etag, modified, blocks: (_usable(etag), _usable(modified)) == (etag, modified),
)
"""How a `Copy` travels with its visit to the process that has the store; no store has this table,
as `revisits` has one copy a page."""


def conditional(
    request: bytes | None, url: str, depth: int, etag: str, modified: str, body: int
) -> bytes:
    """Return a request, as JSON, that asks for a page only if it differs from an earlier copy.

    `request` is the project's own, None for a plain one; `body` the hash of the earlier body.
    """
    plain = {"url": url, "meta": {"depth": depth, ALLOW_PRIVATE: False}}
    fields: dict[str, Any] = plain if request is None else json.loads(request)
    meta = fields.get("meta", {})
    if fields.get("method", "GET") != "GET" or not _is_plain(meta):
        return json.dumps(fields).encode()
    headers = [row for row in fields.get("headers", []) if row[0].lower() not in HEADERS]
    validators = (("If-None-Match", _usable(etag)), ("If-Modified-Since", _usable(modified)))
    headers += [[name, value] for name, value in validators if value]
    fields |= {"meta": {**meta, EARLIER: body}} | ({"headers": headers} if headers else {})
    return json.dumps(fields).encode()


def _is_plain(meta: object) -> bool:
    """Return whether a JSON object stands for itself, and not for another type."""
    return isinstance(meta, Mapping) and not any(key.startswith("$") for key in meta)


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
            for name in HEADERS.values():
                request.headers.pop(name, None)

    def process_response(self, request: Request, response: Response) -> Response:
        lease = self._crawl.lease_of(request)
        if lease is None:
            return response
        earlier = request.meta.get(EARLIER)
        if earlier is not None and (
            response.status == NOT_MODIFIED
            or (200 <= response.status < 300 and content_hash(response.body) == earlier)
        ):
            lease.status = NOT_MODIFIED
            request.errback = None
            raise IgnoreRequest("the page is as it was")
        return response
