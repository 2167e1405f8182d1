"""Downloader middlewares that refuse private addresses and unreadable bodies, and count both."""

from __future__ import annotations

import logging
import re
from typing import Any, cast
from urllib.parse import urldefrag
from weakref import WeakKeyDictionary

from scrapy import Request, signals
from scrapy.core.downloader.handlers.http11 import HTTP11DownloadHandler
from scrapy.crawler import Crawler
from scrapy.downloadermiddlewares.httpcompression import HttpCompressionMiddleware
from scrapy.downloadermiddlewares.redirect import RedirectMiddleware
from scrapy.exceptions import DownloadCancelledError, IgnoreRequest, ResponseDataLossError
from scrapy.http import Response, TextResponse
from scrapy.utils.httpobj import urlparse_cached
from scrapy.utils.misc import load_object
from scrapy.utils.python import to_bytes
from twisted.web.client import URI

from crawlprio.live import engine
from crawlprio.live.crawl_context import CrawlComponent
from crawlprio.live.downloader import FetchObserver, observe_fetches
from crawlprio.live.private_networks import AddressCheck, CheckingResolver
from crawlprio.settings_table.config import download_handler, read_setting
from crawlprio.web.addresses import ALLOW_PRIVATE, PrivateAddresses, normal_host
from crawlprio.web.content import CUT, NOT_DECODED, decoded, is_unreadable
from crawlprio.web.urls import host_if_any, location_url, parse_url

logger = logging.getLogger("crawlprio")

_PRIVATE = "private-address"
# All parsers agree on such a URL.
_SCHEME = re.compile(rb"[\x00-\x20]*([a-z][a-z0-9+.-]*):", re.IGNORECASE).match
_PLAIN_URL = re.compile(r"https?://([a-z0-9](?:[a-z0-9.-]*[a-z0-9])?)(?::[0-9]{1,5})?/").match


class RefusalMiddleware(CrawlComponent, FetchObserver):
    """Refuses fetches from private addresses, both before and after a name is resolved.

    The host of each request is checked first: pages, redirects, robots.txt, media. Then the
    addresses that a name resolves to are checked in the resolver that the connection uses, so that
    a name that points to another address a moment later gains nothing. An HTTP proxy resolves names
    itself, and so does a download handler that does not use the resolver of Twisted's reactor. For
    these, only hosts that are addresses themselves, or local names, are refused.

    What counts as the page's are the requests that callbacks and errbacks yield, plain links, all
    redirects to another host, and the robots.txt of each of these. The project's own requests are
    not checked: those of `start` and `engine.crawl`, and what spiders, pipelines and middlewares
    download themselves. A request that says otherwise (`ALLOW_PRIVATE`) is taken at its word.

    A URL whose host Scrapy, Twisted and the URL standard parse differently is refused (`host`).
    Each refusal is an `IgnoreRequest`, counted as `crawlprio/refused/private-address`. Also counted
    are bodies beyond DOWNLOAD_MAXSIZE (`too-large`), redirects beyond REDIRECT_MAX_TIMES
    (`redirects`), and redirects to a URL that is not http(s) (`redirect-scheme`).

    In `scrapy shell`, where a person requests each page, no address is refused.

    It belongs between Scrapy's own downloader middlewares and `PolitenessMiddleware`.
    """

    def __init__(self, crawler: Crawler) -> None:
        super().__init__(crawler)
        self._private = PrivateAddresses("refuse")
        self._max_redirects = read_setting(crawler.settings, "REDIRECT_MAX_TIMES")
        self._resolver: CheckingResolver | None = None
        self._askers: dict[Request, AddressCheck] = {}
        self._resolved: WeakKeyDictionary[Request, bool] = WeakKeyDictionary()
        """By finished fetch that resolved a name, whether it found only private addresses."""
        connect = crawler.signals.connect
        connect(self._spider_opened, signal=signals.spider_opened)
        connect(self._spider_closed, signal=signals.spider_closed)

    def process_request(self, request: Request) -> None:
        """Refuse a page's fetch of a private address, a local name or a file."""
        if self._private.is_open or _is_own(request):
            return
        if request.url[:5].lower() == "file:":
            self._refuse(_PRIVATE)
            raise IgnoreRequest("a page led to a file of this machine")
        host = connected_host(request)
        if not (host and self._private.allows_host(host)):
            self._refuse(_PRIVATE if host else "host")
            # One text for all hosts, because causes of failure are counted by their text.
            raise IgnoreRequest(
                "a page led to a private address in a network that is not in "
                "CRAWLPRIO_PRIVATE_NETWORKS"
                if host
                else "parsers disagree on the host"
            )

    def process_response(self, request: Request, response: Response) -> Response:
        """Count a redirect that will not be followed."""
        location = response.headers.get("Location") if 300 <= response.status < 400 else None
        if location:
            scheme = _SCHEME(location.translate(None, b"\t\n\r"))
            if scheme and scheme[1].lower() not in (b"http", b"https"):
                self._refuse("redirect-scheme")
            elif request.meta.get("redirect_ttl", self._max_redirects) <= 0:
                self._refuse("redirects")
        return response

    def process_exception(self, request: Request, exception: Exception) -> None:
        """Turn the failure of a fetch whose host resolved to private addresses into a refusal."""
        if isinstance(exception, DownloadCancelledError):
            self._refuse("too-large")
        if self._resolved.pop(request, False):
            self._refuse(_PRIVATE)
            raise IgnoreRequest(
                "the host has a private address in a network that is not in "
                "CRAWLPRIO_PRIVATE_NETWORKS"
            ) from exception

    def _refuse(self, reason: str) -> None:
        self._crawler.stats.inc_value(f"crawlprio/refused/{reason}")

    def _spider_opened(self) -> None:
        settings = self._crawler.settings
        if self._crawl.failure is not None:
            return
        self._private = self._crawl.addresses
        if not self._private.is_open and read_setting(settings, "TWISTED_REACTOR_ENABLED"):
            self._resolver = CheckingResolver.installed()
            self._resolver.n_users += 1
            observe_fetches(self._crawler, self)
        if not self._private.is_open:
            engine.watch_errbacks(self._crawler, _count_as_the_pages)
        for scheme in ("http", "https"):
            handler = download_handler(settings, scheme)
            if handler and not self._private.is_open and not _resolves_with_reactor(handler):
                logger.info(
                    "The download handler for %s resolves names itself: a private address is "
                    "refused only where it is written in the URL.",
                    scheme,
                )

    def _spider_closed(self) -> None:
        if self._resolver is not None:
            self._resolver.n_users -= 1
            self._resolver.uninstall_if_unused()

    def fetch_started(self, request: Request) -> None:
        if self._resolver is None:
            return
        if not self._resolver.is_installed:
            self._resolver = CheckingResolver.installed(self._resolver)
        asker = AddressCheck(
            self._private, request, normal_host(connected_host(request)), _is_own(request)
        )
        self._askers[request] = asker
        self._resolver.begin(asker)

    def fetch_ended(self, request: Request) -> None:
        asker = self._askers.pop(request, None)
        if self._resolver is not None and asker is not None:
            self._resolver.end(asker)
            if asker.is_refused is not None:
                self._resolved[request] = asker.is_refused


class LocationMiddleware(RedirectMiddleware):
    """Scrapy's redirects, to the URL that a link with the value of the Location header leads to.

    Scrapy resolves it by other rules than browsers do and links are here: it keeps a backslash, an
    encoded dot segment, and a name and password, so that one page has two URLs, of which robots.txt
    may forbid but one.
    """

    def process_response(  # type: ignore[override]
        self, request: Request, response: Response
    ) -> Request | Response:
        """Return the request that follows a redirect, or a response that is none."""
        location = response.headers.get("Location")
        if location is None or not 300 <= response.status < 400:
            return response
        url = location_url(location, request.url)
        if url is None:
            return response
        headers = response.headers.copy()
        headers["Location"] = url
        followed = super().process_response(request, response.replace(headers=headers))
        return followed if isinstance(followed, Request) else response


def _count_as_the_pages(failed: Request, request: Request) -> None:
    """Have a request checked, unless it says itself that it may go anywhere."""
    request.meta.setdefault(ALLOW_PRIVATE, False)


def _is_own(request: Request) -> bool:
    """Return whether a request comes from the project's own code, and not from a page."""
    asked = {normal_host(host_if_any(url)) for url in request.meta.get("redirect_urls", ())}
    if asked and asked != {normal_host(connected_host(request))}:
        return False
    return bool(request.meta.get(ALLOW_PRIVATE, True))


def connected_host(request: Request) -> str:
    """Return the host that a fetch connects to; empty if parsers disagree on it.

    A page may write a host that the URL standard, Scrapy and Twisted parse as three different ones,
    so that one host is checked and another is connected to. For schemes other than http(s), return
    the host that Scrapy parses.
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
    except ValueError:  # a host that is not ASCII, and so is not encoded in IDNA
        return ""
    sent = sent.rpartition(b"@")[2].decode("latin-1")
    standard = normal_host(parsed.hostname)
    return standard if normal_host(scraped) == standard == normal_host(sent) else ""


def _resolves_with_reactor(handler: Any) -> bool:
    """Return whether a download handler is one of Scrapy's that use Twisted, or a subclass."""
    try:
        found = load_object(handler)
    except (ImportError, NameError, ValueError):
        return False
    return getattr(found, "__module__", "").startswith("scrapy.core.downloader.handlers.h2") or (
        isinstance(found, type) and issubclass(found, HTTP11DownloadHandler)
    )


class TooLarge(IgnoreRequest):
    """The body of a page is larger than DOWNLOAD_MAXSIZE once decompressed."""


class NotDecoded(Exception):
    """The body of a page is not in the coding that its Content-Encoding names."""


class BoundedCompression(HttpCompressionMiddleware):
    """Scrapy's decompression, which fails pages whose bodies cannot be read, or not to the end.

    A page whose body is not in the coding that it names is `NotDecoded`; so is one in a coding that
    nobody knows, if it is binary and its type says text. A body that ends before its coding does
    fails as one that is shorter than its Content-Length, unless DOWNLOAD_FAIL_ON_DATALOSS is off:
    what came of it is then handed on, as Scrapy's own does in any case. Bodies of errors are handed
    on as they are. Bodies that grow beyond DOWNLOAD_MAXSIZE are counted.
    """

    def __init__(self, *, crawler: Crawler) -> None:
        super().__init__(crawler=crawler)
        self._fails_on_loss = read_setting(crawler.settings, "DOWNLOAD_FAIL_ON_DATALOSS")
        self._fault = ""

    def process_response(  # type: ignore[override]
        self, request: Request, response: Response
    ) -> Request | Response:
        """Decompress a body, up to DOWNLOAD_MAXSIZE."""
        if request.method == "HEAD" or "Content-Encoding" not in response.headers:
            return response
        coded = response
        if isinstance(response, TextResponse):
            # Its encoding would be guessed from compressed bytes. `super` makes it what it is.
            coded = Response(**{name: getattr(response, name) for name in Response.attributes})
        found: Any = super().process_response(request, coded)
        fault, headers = self._fault, found.headers
        if "Content-Encoding" in headers and is_unreadable(found.body, headers.getlist(_TYPE)):
            fault = NOT_DECODED
        is_error = not 200 <= response.status < 300
        if fault == CUT and not request.meta.get("download_fail_on_dataloss", self._fails_on_loss):
            found.flags.append("dataloss")
        elif fault == NOT_DECODED and is_error:
            return response
        elif fault and not (is_error and fault == CUT):
            # No frame of an exception may hold what was decompressed: 100 of them took 1 GB.
            del found
            self._fail(fault)
        return cast("Response", found)

    def _handle_encoding(
        self, body: bytes, content_encoding: list[bytes], max_size: int
    ) -> tuple[bytes, list[bytes]]:
        body, unknown, self._fault = decoded(body, content_encoding, max_size)
        return body, unknown

    def _fail(self, fault: str) -> None:
        if fault == CUT:
            raise ResponseDataLossError("the body ends before its Content-Encoding does")
        if fault == NOT_DECODED:
            raise NotDecoded("the body is not what its Content-Encoding says")
        if self.stats:
            self.stats.inc_value("crawlprio/refused/too-large")
        raise TooLarge("its body grows beyond DOWNLOAD_MAXSIZE")


_TYPE = "Content-Type"
