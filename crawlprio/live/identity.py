"""When two requests are the same page, as the project's request fingerprinter has it."""

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
"""Each request is asked for twice, as it is queued and as a link, and pages repeat links."""


class Identities:
    """Gives requests and links the text under which the page table knows their page.

    With Scrapy's own fingerprinter a plain GET is known by its canonical URL, which needs no hash;
    any other request, and one with a user name in its URL, by its fingerprint. A link is known
    without user name and password. With another fingerprinter all are known by fingerprint.
    """

    def __init__(self, crawler: Crawler) -> None:
        self._fingerprinter = crawler.request_fingerprinter
        self._by_url = type(self._fingerprinter) is RequestFingerprinter

    def of_url(self, url: str) -> str:
        """Return the identity of the page that a plain link to `url` means."""
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
    """Take from a redirect the download slot that it has from the page that redirects.

    Scrapy's downloader writes the slot into `meta`, and a redirect copies it, so that the fetch
    would count for a host that it does not go to.
    """
    slot = request.meta.get("download_slot")
    urls = request.meta.get("redirect_urls")
    if slot and urls and slot == urlparse_cached(Request(urls[-1])).hostname:
        del request.meta["download_slot"]
