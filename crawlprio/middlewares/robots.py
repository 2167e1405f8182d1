"""The downloader middleware that holds each page until the robots.txt of its site is read."""

from __future__ import annotations

import logging
from time import monotonic
from typing import TYPE_CHECKING, Any

from scrapy import Request
from scrapy.downloadermiddlewares.robotstxt import RobotsTxtMiddleware
from scrapy.exceptions import IgnoreRequest
from scrapy.http.request import NO_CALLBACK
from scrapy.robotstxt import RobotParser
from scrapy.utils.defer import maybe_deferred_to_future
from scrapy.utils.httpobj import urlparse_cached
from twisted.internet.defer import Deferred

from crawlprio.config import read_setting
from crawlprio.live.causes import UNREACHABLE, cause_of

if TYPE_CHECKING:
    from typing import Self

    from scrapy.crawler import Crawler
    from scrapy.statscollectors import StatsCollector

logger = logging.getLogger("crawlprio")

ASK_AGAIN = 600
"""Seconds for which a site stays closed after its robots.txt could not be read."""


class RobotsMiddleware(RobotsTxtMiddleware):
    """Scrapy's own robots.txt middleware, which here checks every page that waits for the file.

    In Scrapy, all pages handed out while the file is being fetched wait for one Deferred. It passes
    the rules to the first of them and None to the others, so that with three or more concurrent
    fetches pages go unchecked. Here each page asks again once the file has arrived.

    If CRAWLPRIO_ROBOTS_UNREACHABLE is `allow`, a site whose robots.txt gets a 5xx status or no
    response is open, as in Scrapy. If it is `forbid`, nothing of that site is fetched until the
    file can be read (RFC 9309, section 2.3.1.4): after the project's own retries, its pages are
    refused and counted as `crawlprio/refused/robots-unreachable`, and the file is requested again
    for the next page after `ASK_AGAIN` seconds. Either is logged in one line.
    """

    def __init__(self, crawler: Crawler) -> None:
        super().__init__(crawler)
        self._forbids = read_setting(crawler.settings, "CRAWLPRIO_ROBOTS_UNREACHABLE") == "forbid"

    async def robot_parser(self, request: Request) -> RobotParser | None:
        """Return the rules for the site of a request once it has them; None allows everything."""
        url = urlparse_cached(request)
        netloc = url.netloc
        known = self._parsers.get(netloc)
        if isinstance(known, _Unreachable) and monotonic() >= known.until:
            del self._parsers[netloc]
        if netloc not in self._parsers:
            self._parsers[netloc] = Deferred()
            await self._fetch(f"{url.scheme}://{netloc}/robots.txt", netloc, request)
        while isinstance(waited := self._parsers[netloc], Deferred):
            own: Deferred[None] = Deferred()
            # A Deferred passes the result of each callback to the next one.
            waited.addCallback(_wake, own)
            await maybe_deferred_to_future(own)
        return waited

    async def _fetch(self, url: str, netloc: str, request: Request) -> None:
        """Fetch and parse the robots.txt of a site, for its first page."""
        robots = Request(
            url,
            priority=self.DOWNLOAD_PRIORITY,
            meta={"dont_obey_robotstxt": True},
            callback=NO_CALLBACK,
        )
        try:
            response = await self.crawler.engine.download_async(robots)
            if self._forbids and response.status >= 500:
                self._close(url, netloc, f"status {response.status}")
            else:
                await self._parse_robots(response, netloc, request)
        except Exception as error:
            if self._forbids and not isinstance(error, IgnoreRequest):
                self._close(url, netloc, cause_of(error))
            else:
                if not isinstance(error, IgnoreRequest):
                    logger.warning("%s could not be read: %s.", url, cause_of(error))
                self._robots_error(error, netloc)
        self._stats.inc_value("robotstxt/request_count")

    def _close(self, url: str, netloc: str, cause: str) -> None:
        """Forbid all pages of a site for a while."""
        logger.warning(
            "%s could not be read: %s; nothing of the site is fetched for %d s.",
            url,
            cause,
            ASK_AGAIN,
        )
        waiting = self._parsers[netloc]
        closed = self._parsers[netloc] = _Unreachable(self._stats, cause)
        if isinstance(waiting, Deferred):
            waiting.callback(closed)


class RobotsUnreachable(IgnoreRequest):
    """A page is not fetched because the robots.txt of its site cannot be read."""


class _Unreachable(RobotParser):
    """The rules of a site whose robots.txt cannot be read: nothing is allowed."""

    def __init__(self, stats: StatsCollector, cause: str) -> None:
        self.until = monotonic() + ASK_AGAIN
        self._stats = stats
        self._cause = cause

    @classmethod
    def from_crawler(cls, crawler: Crawler, robotstxt_body: bytes) -> Self:
        raise NotImplementedError

    def allowed(self, url: str | bytes, user_agent: str | bytes) -> bool:
        self._stats.inc_value("crawlprio/refused/robots-unreachable")
        raise RobotsUnreachable(f"{UNREACHABLE} ({self._cause})")


def _wake(result: Any, waiting: Deferred[None]) -> Any:
    """Wake a waiting page, and pass the result on to the next one."""
    waiting.callback(None)
    return result
