"""The downloader middleware that lets no page of a site pass before its robots.txt is read."""

from __future__ import annotations

import logging
from typing import Any

from scrapy import Request
from scrapy.downloadermiddlewares.robotstxt import RobotsTxtMiddleware
from scrapy.exceptions import IgnoreRequest
from scrapy.http.request import NO_CALLBACK
from scrapy.robotstxt import RobotParser
from scrapy.utils.defer import maybe_deferred_to_future
from scrapy.utils.httpobj import urlparse_cached
from twisted.internet.defer import Deferred

from crawlprio.live.causes import cause_of

logger = logging.getLogger("crawlprio")


class RobotsMiddleware(RobotsTxtMiddleware):
    """Scrapy's own obedience to robots.txt, which holds for every page that waits for the file.

    Scrapy has all pages that leave while the file is on its way wait for one Deferred. It hands the
    rules to the first of them that waits and None to the others, so that with three or more fetches
    at once pages pass unchecked. Here each page asks again once the file is there.

    As in Scrapy a site whose robots.txt cannot be fetched is open. That is logged in one line.
    """

    async def robot_parser(self, request: Request) -> RobotParser | None:
        """Return the rules of the site of a request, once they are there; None: all is allowed."""
        url = urlparse_cached(request)
        netloc = url.netloc
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
            await self._parse_robots(response, netloc, request)
        except Exception as error:
            if not isinstance(error, IgnoreRequest):
                logger.warning("%s could not be read: %s.", url, cause_of(error))
            self._robots_error(error, netloc)
        self._stats.inc_value("robotstxt/request_count")


def _tell(result: Any, waiting: Deferred[None]) -> Any:
    """Wake one that waits, and pass the result on to the next."""
    waiting.callback(None)
    return result
