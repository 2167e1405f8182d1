"""Middlewares for Scrapy: visits, delays, robots.txt and refusals."""

from crawlprio.middlewares.links import LinksMiddleware
from crawlprio.middlewares.politeness import PolitenessMiddleware
from crawlprio.middlewares.referer import RedirectReferer
from crawlprio.middlewares.refusals import BoundedCompression, RefusalMiddleware
from crawlprio.middlewares.robot_rules import BoundedRobotParser
from crawlprio.middlewares.robots import RobotsMiddleware
from crawlprio.middlewares.yielded import YieldedLinksMiddleware

__all__ = [
    "BoundedCompression",
    "BoundedRobotParser",
    "LinksMiddleware",
    "PolitenessMiddleware",
    "RedirectReferer",
    "RefusalMiddleware",
    "RobotsMiddleware",
    "YieldedLinksMiddleware",
]
