"""Scrapy's Referer headers, for redirects only."""

from __future__ import annotations

from scrapy.spidermiddlewares.referer import RefererMiddleware


class RedirectReferer(RefererMiddleware):
    """Scrapy's own Referer headers, for redirects only.

    A spider that yields no requests needs no others, which would cost two generators per page.
    """

    process_spider_output = None  # type: ignore[assignment]
    process_spider_output_async = None  # type: ignore[assignment]
