"""Conditional requests, which hold what is known of an earlier copy, so workers need no store."""

from __future__ import annotations

import json
from typing import Any

from scrapy.http import HtmlResponse, Response

from crawlprio.live.response_parser import type_of
from crawlprio.plugins.update.sameness import blocks_of
from crawlprio.store.side_tables import SideTable
from crawlprio.web.addresses import ALLOW_PRIVATE

EARLIER = "crawlprio_earlier"
"""Key in `meta` of a request for a page that was fetched before: the hash of its last body."""

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
"""How validators and blocks of a response travel with its visit to the process that has the store.
No store has this table: `revisits` has one copy a page."""


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
