"""The downloader middleware that lets no page of a site pass before its robots.txt is read."""

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
"""Seconds for which a site is closed whose robots.txt cannot be read."""


class RobotsMiddleware(RobotsTxtMiddleware):
    """Scrapy's own obedience to robots.txt, which holds for every page that waits for the file.

    Scrapy has all pages that leave while the file is on its way wait for one Deferred. It hands the
    rules to the first of them that waits and None to the others, so that with three or more fetches
    at once pages pass unchecked. Here each page asks again once the file is there.

    Where CRAWLPRIO_ROBOTS_UNREACHABLE is `allow`, as in Scrapy, a site is open whose robots.txt is
    answered with a status of 5xx, or not at all. Where it is `forbid` nothing of that site is
    fetched until the file can be read (RFC 9309, section 2.3.1.4): after the retries that the
    project has, its pages are refused, counted as `crawlprio/refused/robots-unreachable`, and the
    file is asked for again, for the next page after `ASK_AGAIN` seconds. Either is logged in one
    line.
    """

    def __init__(self, crawler: Crawler) -> None:
        super().__init__(crawler)
        self._forbids = read_setting(crawler.settings, "CRAWLPRIO_ROBOTS_UNREACHABLE") == "forbid"

    async def robot_parser(self, request: Request) -> RobotParser | None:
        """Return the rules of the site of a request, once they are there; None: all is allowed."""
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
            # What a callback of a Deferred returns is what the next one gets.
            waited.addCallback(_tell, own)
            await maybe_deferred_to_future(own)
        return waited

    async def _fetch(self, url: str, netloc: str, request: Request) -> None:
        """Fetch and parse the robots.txt of a site, for the first page of it."""
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
    """A page is not fetched, as the robots.txt of its site cannot be read."""


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


def _tell(result: Any, waiting: Deferred[None]) -> Any:
    """Wake one that waits, and pass the result on to the next."""
    waiting.callback(None)
    return result
