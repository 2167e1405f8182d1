"""Middlewares for Scrapy: visits, delays, robots.txt and refusals."""

from crawlprio.middlewares.fetch_gate import PolitenessMiddleware
from crawlprio.middlewares.permission import RobotsMiddleware
from crawlprio.middlewares.refusals import (
    BoundedCompression,
    LocationMiddleware,
    RefusalMiddleware,
)
from crawlprio.middlewares.visits import LinksMiddleware, RedirectReferer, YieldedLinksMiddleware

__all__ = [
    "BoundedCompression",
    "LinksMiddleware",
    "LocationMiddleware",
    "PolitenessMiddleware",
    "RedirectReferer",
    "RefusalMiddleware",
    "RobotsMiddleware",
    "YieldedLinksMiddleware",
]
