"""Middlewares for Scrapy: one reads visits off responses, one keeps the delays, one refuses."""

from crawlprio.middlewares.links import LinksMiddleware
from crawlprio.middlewares.politeness import PolitenessMiddleware
from crawlprio.middlewares.referer import RedirectReferer
from crawlprio.middlewares.refusals import BoundedCompression, RefusalMiddleware
from crawlprio.middlewares.robot_rules import BoundedRobotParser

__all__ = [
    "BoundedCompression",
    "BoundedRobotParser",
    "LinksMiddleware",
    "PolitenessMiddleware",
    "RedirectReferer",
    "RefusalMiddleware",
]
