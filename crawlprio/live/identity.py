"""Page identity: the project's request fingerprinter decides when two requests are the same."""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING

from scrapy import Request
from scrapy.utils.httpobj import urlparse_cached
from scrapy.utils.request import RequestFingerprinter

from crawlprio.web.urls import canonical, without_credentials

if TYPE_CHECKING:
    from scrapy.crawler import Crawler

_canonical = lru_cache(4096)(canonical)
"""Cached: each request is looked up twice, when queued and as a link, and pages repeat links."""


class Identities:
    """Maps requests and links to the string that identifies their page in the page table.

    With Scrapy's own fingerprinter a plain GET is identified by its canonical URL, which needs no
    hash. Any other request, and one with a user name in its URL, is identified by its fingerprint.
    Links are identified without user name and password. With another fingerprinter, everything is
    identified by fingerprint.
    """

    def __init__(self, crawler: Crawler) -> None:
        self._fingerprinter = crawler.request_fingerprinter
        self._by_url = type(self._fingerprinter) is RequestFingerprinter

    def of_url(self, url: str) -> str:
        """Return the identity of the page that a plain link to `url` leads to."""
        if not self._by_url:
            return self.of_request(Request(url))
        return _canonical(url)

    def of_request(self, request: Request) -> str:
        """Return the identity of the page that a request fetches."""
        url = request.url
        is_plain = request.method == "GET" and not request.body
        if self._by_url and is_plain and without_credentials(url) == url:
            return self.of_url(url)
        return "fingerprint:" + self._fingerprinter.fingerprint(request).hex()


def forget_inherited_slot(request: Request) -> None:
    """Remove the download slot that a redirect inherited from the page that redirects.

    Scrapy's downloader writes the slot into `meta` and a redirect copies it, so the fetch would
    count towards the wrong host.
    """
    slot = request.meta.get("download_slot")
    urls = request.meta.get("redirect_urls")
    if slot and urls and slot == urlparse_cached(Request(urls[-1])).hostname:
        del request.meta["download_slot"]
