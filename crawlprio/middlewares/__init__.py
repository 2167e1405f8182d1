"""Middlewares for Scrapy: visits, delays, robots.txt and refusals."""

from crawlprio.middlewares.links import LinksMiddleware
from crawlprio.middlewares.permission import RobotsMiddleware
from crawlprio.middlewares.politeness import PolitenessMiddleware
from crawlprio.middlewares.referer import RedirectReferer
from crawlprio.middlewares.refusals import BoundedCompression, RefusalMiddleware
from crawlprio.middlewares.signing import SigningMiddleware
from crawlprio.middlewares.yielded import YieldedLinksMiddleware

__all__ = [
    "BoundedCompression",
    "LinksMiddleware",
    "PolitenessMiddleware",
    "RedirectReferer",
    "RefusalMiddleware",
    "RobotsMiddleware",
    "SigningMiddleware",
    "YieldedLinksMiddleware",
]
