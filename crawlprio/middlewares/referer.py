"""Scrapy's Referer headers, kept for redirects alone."""

from __future__ import annotations

from scrapy.spidermiddlewares.referer import RefererMiddleware


class RedirectReferer(RefererMiddleware):
    """Scrapy's own Referer headers, for redirects alone.

    A spider that yields no requests needs no more, and every page would go through two generators.
    """

    process_spider_output = None  # type: ignore[assignment]
    process_spider_output_async = None  # type: ignore[assignment]
