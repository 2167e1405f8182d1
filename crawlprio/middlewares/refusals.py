"""The downloader middleware that fetches nothing private, and counts what else is refused."""

from __future__ import annotations

import logging
import re
from typing import TYPE_CHECKING, Any
from urllib.parse import urldefrag
from weakref import WeakKeyDictionary, WeakSet

from scrapy import Request, signals
from scrapy.core.downloader.handlers.http11 import HTTP11DownloadHandler
from scrapy.downloadermiddlewares.httpcompression import HttpCompressionMiddleware
from scrapy.exceptions import DownloadCancelledError, IgnoreRequest
from scrapy.http import Response
from scrapy.http.request import NO_CALLBACK
from scrapy.utils.httpobj import urlparse_cached
from scrapy.utils.misc import load_object
from scrapy.utils.python import to_bytes
from twisted.web.client import URI

from crawlprio.config import download_handler, read_setting
from crawlprio.live import engine
from crawlprio.live.crawl import OWN_REQUEST, Crawl
from crawlprio.live.downloader import FetchObserver, observe_fetches
from crawlprio.live.resolving import Asker, CheckingResolver
from crawlprio.web.addresses import PrivateAddresses, normal_host
from crawlprio.web.urls import parse_url

if TYPE_CHECKING:
    from scrapy.crawler import Crawler

logger = logging.getLogger("crawlprio")

MAX_ROBOTS_REDIRECTS = 5
"""Redirects that are followed from a robots.txt, as in RFC 9309, section 2.3.1.2."""

_PRIVATE = "private-address"
# All who read such a URL read it alike.
_PLAIN_URL = re.compile(r"https?://([a-z0-9](?:[a-z0-9.-]*[a-z0-9])?)(?::[0-9]{1,5})?/").match


class RefusalMiddleware(FetchObserver):
    """Refuses fetches from private addresses, before a name is resolved and after.

    What is asked for is checked first: pages, redirects, robots.txt, media. Then the addresses that
    a name resolves to are checked where the connection takes them from, so that a name that points
    to another address a moment later gains nothing. Through an HTTP proxy names are resolved at the
    proxy, and under a download handler that does not resolve with Twisted's reactor out of reach:
    then only hosts that are addresses themselves, or local names, are refused.

    What a project's own code asks for, and no page led to, is the project's business: a rendering
    service on this machine, an API that a pipeline asks.

    A URL whose host Scrapy, Twisted and the URL standard do not read alike is refused (`host`).
    Each refusal is an `IgnoreRequest`, counted as `crawlprio/refused/private-address`. Counted too
    are bodies beyond DOWNLOAD_MAXSIZE (`too-large`), redirects beyond REDIRECT_MAX_TIMES
    (`redirects`), and redirects that lead to no http(s) URL (`redirect-scheme`).

    In `scrapy shell`, where a person asks for each page, no address is refused.

    Its place is between Scrapy's own downloader middlewares and `PolitenessMiddleware`.
    """

    def __init__(self, crawler: Crawler) -> None:
        self._crawler = crawler
        self._crawl = Crawl.of(crawler)
        self._private = PrivateAddresses("refuse")
        self._max_redirects = read_setting(crawler.settings, "REDIRECT_MAX_TIMES")
        self._resolver: CheckingResolver | None = None
        self._latest = "", ""
        self._askers: dict[Request, Asker] = {}
        self._media: WeakSet[Request] = WeakSet()
        self._resolved: WeakKeyDictionary[Request, bool] = WeakKeyDictionary()
        """Whether fetches that are over, and had a name resolved, found private addresses alone."""
        connect = crawler.signals.connect
        connect(self._spider_opened, signal=signals.spider_opened)
        connect(self._spider_closed, signal=signals.spider_closed)

    @classmethod
    def from_crawler(cls, crawler: Crawler) -> RefusalMiddleware:
        return cls(crawler)

    def process_request(self, request: Request) -> None:
        """Refuse a fetch whose host is a private address, or a local name."""
        if not self._private.is_open:
            host = connected_host(request)
            self._latest = request.url, host
            if not (host and self._may_fetch(host)) and not self._is_own(request):
                self._refuse(_PRIVATE if host else "host")
                # One sentence for all hosts: it is a cause of failure, which are counted by text.
                raise IgnoreRequest(
                    "a page led to a private address, of a network that is not in "
                    "CRAWLPRIO_PRIVATE_NETWORKS"
                    if host
                    else "the host can be read in several ways"
                )
        if request.callback is NO_CALLBACK and request.url.endswith("/robots.txt"):
            request.meta.setdefault("redirect_ttl", MAX_ROBOTS_REDIRECTS)

    def process_response(self, request: Request, response: Response) -> Response:
        """Count a redirect that will not be followed."""
        location = response.headers.get("Location") if 300 <= response.status < 400 else None
        if location:
            scheme, colon, _ = location.strip().lower().partition(b":")
            if colon and scheme.isalpha() and scheme not in (b"http", b"https"):
                self._refuse("redirect-scheme")
            elif request.meta.get("redirect_ttl", self._max_redirects) <= 0:
                self._refuse("redirects")
        return response

    def process_exception(self, request: Request, exception: Exception) -> None:
        """Turn the end of a fetch whose host resolved to private addresses into a refusal."""
        if isinstance(exception, DownloadCancelledError):
            self._refuse("too-large")
        if self._resolver is None:
            return
        is_refused = self._resolved.pop(request, None)
        if is_refused is None:
            host = connected_host(request)
            is_refused = bool(host) and self._resolver.has_refused(self._private, host)
        if is_refused and not self._is_own(request):
            self._refuse(_PRIVATE)
            raise IgnoreRequest(
                "the host has a private address, of a network that is not in "
                "CRAWLPRIO_PRIVATE_NETWORKS"
            ) from exception

    def _refuse(self, reason: str) -> None:
        self._crawler.stats.inc_value(f"crawlprio/refused/{reason}")

    def _spider_opened(self) -> None:
        settings = self._crawler.settings
        if self._crawl.failure is not None:
            return
        self._private = self._crawl.addresses
        engine.watch_media(self._crawler, self._media.add)
        if not self._private.is_open and read_setting(settings, "TWISTED_REACTOR_ENABLED"):
            self._resolver = CheckingResolver.installed()
            self._resolver.n_users += 1
            observe_fetches(self._crawler, self)
        for scheme in ("http", "https"):
            handler = download_handler(settings, scheme)
            if handler and not self._private.is_open and not _resolves_with_reactor(handler):
                logger.info(
                    "The download handler for %s resolves names itself: of private addresses only "
                    "those that are written in URLs are refused.",
                    scheme,
                )

    def _spider_closed(self) -> None:
        if self._resolver is not None:
            self._resolver.n_users -= 1
            self._resolver.forget(self._private)
            self._resolver.uninstall_if_unused()

    def fetch_started(self, request: Request) -> None:
        if self._resolver is None:
            return
        if not self._resolver.is_installed:
            self._resolver = CheckingResolver.installed(self._resolver)
        url, host = self._latest
        if url != request.url:
            host = connected_host(request)
        self._askers[request] = self._resolver.begin(
            self._private, request, host, is_own=self._is_own(request)
        )

    def fetch_ended(self, request: Request) -> None:
        asker = self._askers.pop(request, None)
        if self._resolver is not None and asker is not None:
            self._resolver.end(asker)
            if asker.is_refused is not None:
                self._resolved[request] = asker.is_refused

    def _may_fetch(self, host: str) -> bool:
        """Whether a page may lead to a host, as far as is known before its name is resolved."""
        return self._private.allows_host(host) and not (
            self._resolver is not None and self._resolver.is_own(self._private, host)
        )

    def _is_own(self, request: Request) -> bool:
        """Whether a project's own code asks for this, and no page led there.

        That is a request that bypasses the scheduler, unless it is for robots.txt or media, and one
        of a callback whose page does not name the host; no redirect is, wherever it comes from.
        """
        if "redirect_urls" in request.meta:
            return False
        if OWN_REQUEST in request.meta:
            return True
        dispatcher = self._crawl.dispatcher
        is_robots = request.callback is NO_CALLBACK and request.url.endswith("/robots.txt")
        is_crawled = dispatcher is None or dispatcher.lease_of(request) is not None
        return not (is_crawled or is_robots or request in self._media)


def connected_host(request: Request) -> str:
    """Return the host that a fetch connects to; empty if its URL can be read in several ways.

    A page may write a host that the URL standard, Scrapy and Twisted read as three: what one of
    them judges, another connects to. Only for http(s); of other schemes it is what Scrapy reads.
    """
    url = request.url
    plain = _PLAIN_URL(url)
    if plain is not None:
        return plain[1]
    scraped = urlparse_cached(request).hostname or ""
    if not url[:5].lower().startswith("http"):
        return scraped or "-"
    parsed = parse_url(url)
    if parsed is None:
        return ""
    used: Any = URI
    try:
        sent = used.fromBytes(to_bytes(urldefrag(url)[0])).host
    except ValueError:  # of a host in other letters than ASCII, which no name in IDNA is
        return ""
    sent = sent.rpartition(b"@")[2].decode("latin-1")
    standard = normal_host(parsed.hostname)
    return standard if normal_host(scraped) == standard == normal_host(sent) else ""


def _resolves_with_reactor(handler: Any) -> bool:
    """Whether a download handler is one of Scrapy's on Twisted, or made from one."""
    try:
        found = load_object(handler)
    except (ImportError, NameError, ValueError):
        return False
    return getattr(found, "__module__", "").startswith("scrapy.core.downloader.handlers.h2") or (
        isinstance(found, type) and issubclass(found, HTTP11DownloadHandler)
    )


class BoundedCompression(HttpCompressionMiddleware):
    """Scrapy's decompression, which counts the bodies that grow beyond DOWNLOAD_MAXSIZE."""

    def process_response(  # type: ignore[override]
        self, request: Request, response: Response
    ) -> Request | Response:
        """Decompress a body, and no further than it may grow."""
        try:
            return super().process_response(request, response)
        except IgnoreRequest:
            if self.stats:
                self.stats.inc_value("crawlprio/refused/too-large")
        # Not from that exception, whose frames have what was decompressed: a hundred were 1 GB.
        raise IgnoreRequest("its body grows beyond DOWNLOAD_MAXSIZE")
