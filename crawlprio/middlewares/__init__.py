"""Middlewares for Scrapy: one reads visits off responses, one keeps the delays."""

from crawlprio.middlewares.links import LinksMiddleware
from crawlprio.middlewares.politeness import PolitenessMiddleware

__all__ = ["LinksMiddleware", "PolitenessMiddleware"]
