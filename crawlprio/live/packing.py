"""Requests in the form in which a frontier keeps them."""

from __future__ import annotations

import logging
from collections.abc import Collection

from scrapy import Request
from scrapy.crawler import Crawler

from crawlprio.frontier.protocol import Frontier, Handout
from crawlprio.live.request_json import RequestNotStorable, from_json, to_json
from crawlprio.web.addresses import ALLOW_PRIVATE

logger = logging.getLogger("crawlprio")


class Packing:
    """Packs requests for a frontier: as JSON if it carries nothing else, or else as they are.

    Parameters
    ----------
    kept_headers
        names of the headers to pack; None: all.
    """

    def __init__(
        self, crawler: Crawler, frontier: Frontier, kept_headers: Collection[bytes] | None
    ) -> None:
        assert crawler.spider is not None
        self._spider = crawler.spider
        self._crawler = crawler
        self._frontier = frontier
        self._kept_headers = kept_headers
        self._has_warned = False

    def pack(self, request: Request) -> object:
        if not self._frontier.carries_json_only:
            return request
        try:
            return to_json(request, self._spider, kept_headers=self._kept_headers)
        except RequestNotStorable as error:
            self._crawler.stats.inc_value("scheduler/unserializable")
            if not self._has_warned:
                self._has_warned = True
                logger.warning(
                    "Unable to serialize request: %s - reason: %s It is %s; others like it are "
                    "counted in the stats.",
                    request,
                    error,
                    "kept in memory, and lost if the crawl ends before it is fetched"
                    if self._frontier.keeps_objects
                    else "dropped because other workers could not fetch it",
                )
            return request

    def unpack(self, handout: Handout) -> Request:
        """Return the request for a page; raises StoreError if its JSON is damaged."""
        request = handout.request
        if request is None:
            return Request(handout.url, meta={"depth": handout.depth, ALLOW_PRIVATE: False})
        if isinstance(request, bytes):
            return from_json(request, self._spider)
        assert isinstance(request, Request)
        return request
