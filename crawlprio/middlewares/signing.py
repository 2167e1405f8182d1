"""The downloader middleware that signs requests, so that sites can tell a robot from impostors."""

from __future__ import annotations

from time import time
from typing import TYPE_CHECKING

from scrapy import Request
from scrapy.exceptions import NotConfigured

from crawlprio.errors import ConfigError
from crawlprio.live.running import RunningCrawl
from crawlprio.plugins import load
from crawlprio.settings_table.config import read_setting

if TYPE_CHECKING:
    from scrapy.crawler import Crawler

    from crawlprio.plugins.manners.signatures import Signer


class SigningMiddleware:
    """Signs each request with CRAWLPRIO_SIGNING_KEY just before it may be sent.

    Pages, redirects, robots.txt, sitemaps and page requisites are signed alike, each for the host
    that it goes to. It belongs behind all middlewares that change requests.
    """

    def __init__(self, signer: Signer) -> None:
        self._signer = signer

    @classmethod
    def from_crawler(cls, crawler: Crawler) -> SigningMiddleware:
        """Create the middleware if CRAWLPRIO_SIGNING_KEY is set."""
        try:
            key = read_setting(crawler.settings, "CRAWLPRIO_SIGNING_KEY")
            agent = read_setting(crawler.settings, "CRAWLPRIO_SIGNATURE_AGENT")
            if key is None and agent is None:
                raise NotConfigured
            if key is None or agent is None:
                raise ConfigError(
                    "CRAWLPRIO_SIGNING_KEY and CRAWLPRIO_SIGNATURE_AGENT belong together, but only "
                    "one of them is set; set both, or none."
                )
            return cls(load("signers", "CRAWLPRIO_SIGNING_KEY")(key, agent))
        except ConfigError as error:
            RunningCrawl.of(crawler).refuse(error)
            raise NotConfigured from None

    def process_request(self, request: Request) -> None:
        """Sign a request, in place of what signed its predecessor."""
        if request.url[:5].lower().startswith("http"):
            for name, value in self._signer.headers(request.url, time()).items():
                request.headers[name] = value
