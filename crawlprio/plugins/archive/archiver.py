"""The fetches of a crawl as exchanges of its archive, each kept until its visit is recorded."""

from __future__ import annotations

import json
import platform
from collections.abc import Collection, Sequence
from http import HTTPStatus
from pathlib import Path
from time import time
from urllib.parse import urlsplit

from scrapy import Request, signals
from scrapy import __version__ as scrapy_version
from scrapy.exceptions import DownloadCancelledError, ResponseDataLossError, StopDownload
from scrapy.http import Headers, Response
from scrapy.settings import BaseSettings

from crawlprio import __version__
from crawlprio.frontier.protocol import HttpRecord
from crawlprio.live.crawl_context import CrawlContext, CrawlPart
from crawlprio.live.downloader import SIDE_FETCH
from crawlprio.live.spider_arguments import is_plain
from crawlprio.plugins.archive.archive import Archive, Fetched, packed
from crawlprio.settings_table.config import changed_settings, read_setting
from crawlprio.web.content import supplied_type
from crawlprio.web.urls import without_credentials

_LOSS = "download_fail_on_dataloss"
_TOO_LARGE = "too large"
"""A flag of a response whose body exceeds DOWNLOAD_MAXSIZE."""

_PHRASES = {status.value: status.phrase for status in HTTPStatus}


class Archiver(CrawlPart):
    """Archives each fetch as it came from the network, before any middleware changed it.

    Scrapy's download handlers drop what came of a body that the server breaks off, or that exceeds
    DOWNLOAD_MAXSIZE. Here they return it, and the fetch fails as it would have, once it is archived
    (under crawlprio's downloader).

    The answer to a leased page is kept with its lease, and archived with its visit: of a page that
    is retried, only the last. A requisite's goes to those who fetch it. All others (robots.txt,
    media, what a callback downloads) are archived when they come.
    """

    keeps = True

    def __init__(self, crawl: CrawlContext) -> None:
        super().__init__(crawl)
        settings = crawl.crawler.settings
        folder = Path(read_setting(settings, "CRAWLPRIO_WARC"))
        most_bytes = read_setting(settings, "CRAWLPRIO_MAX_WARC_BYTES")
        self.archive = Archive(folder, most_bytes, about(settings))
        self._secret = read_setting(settings, "CRAWLPRIO_WARC_SECRET_HEADERS")
        self._max_bytes = read_setting(settings, "DOWNLOAD_MAXSIZE")
        self._fails_on_loss = read_setting(settings, "DOWNLOAD_FAIL_ON_DATALOSS")
        self._is_open = False
        self._n_bytes: dict[Request, int] = {}
        self._cut_off: dict[Request, bool | None] = {}

    def opened(self) -> None:
        crawler, store = self.crawl.crawler, self.crawl.recorder.store
        if store is None:
            self.archive.open_alone()
        else:
            store.attach(self.archive)
        self._is_open = True
        crawler.signals.connect(self._headers_received, signal=signals.headers_received)
        crawler.signals.connect(self._bytes_received, signal=signals.bytes_received)

    def fetch_started(self, request: Request) -> None:
        if request.meta.get(_LOSS, self._fails_on_loss):
            self._cut_off[request] = request.meta.get(_LOSS)
            request.meta[_LOSS] = False

    def fetch_ended(self, request: Request) -> None:
        self._n_bytes.pop(request, None)
        if request in self._cut_off:
            before = self._cut_off.pop(request)
            if before is None:
                del request.meta[_LOSS]
            else:
                request.meta[_LOSS] = before

    def _headers_received(self, body_length: object, request: Request) -> None:
        if isinstance(body_length, int):
            self._check_size(request, body_length)
            self._n_bytes[request] = 0  # which are counted as they come

    def _bytes_received(self, data: bytes, request: Request) -> None:
        self._check_size(request, self._n_bytes.get(request, 0) + len(data))

    def _check_size(self, request: Request, n_bytes: int) -> None:
        """End a fetch whose body is too large, with what has come of it."""
        self._n_bytes[request] = n_bytes
        if self._is_too_large(request):
            raise StopDownload(fail=False)

    def _is_too_large(self, request: Request) -> bool:
        most = request.meta.get("download_maxsize", self._max_bytes)
        return bool(most) and self._n_bytes.get(request, 0) > most

    def fetch_cut(self, request: Request, response: Response) -> None:
        if "download_stopped" in response.flags and self._is_too_large(request):
            response.flags.append(_TOO_LARGE)
            self.fetch_answered(request, response)
            raise DownloadCancelledError("its body exceeds DOWNLOAD_MAXSIZE")
        if "dataloss" in response.flags and request in self._cut_off:
            self.fetch_answered(request, response)
            raise ResponseDataLossError("the server broke off its body")

    def fetch_answered(self, request: Request, response: Response) -> None:
        if not request.url[:5].lower().startswith("http"):
            return
        exchange = self.archive.pack(fetched(request, response, self._secret))
        kept = request.meta.get(SIDE_FETCH)
        if kept is not None:
            kept[:] = [exchange]
            return
        lease = self.crawl.lease_of(request)
        if lease is not None:
            lease.exchange = exchange
        else:
            with self.crawl.failing():
                self.crawl.recorder.keep_record(exchange)

    def keep_record(self, record: HttpRecord, visit: int | None) -> None:
        self.archive.add(record, visit)

    def closed(self, reason: str) -> None:
        if self._is_open and self.crawl.receipt is not None:
            self.archive.add_receipt(json.dumps(self.crawl.receipt))

    def flushed(self, has_failed: bool) -> None:
        if self._is_open:
            self.archive.close(has_failed=has_failed)


class WorkerArchiver(CrawlPart):
    """Packs each answer, to a leased page or a side fetch, for the coordinator, which archives it.

    That of a page comes with its visit; any other is sent at once.
    """

    def __init__(self, crawl: CrawlContext) -> None:
        super().__init__(crawl)
        self._secret = read_setting(crawl.crawler.settings, "CRAWLPRIO_WARC_SECRET_HEADERS")

    def fetch_answered(self, request: Request, response: Response) -> None:
        lease, tell = self.crawl.lease_of(request), self.crawl.tell_coordinator
        is_beside = SIDE_FETCH in request.meta
        if not (is_beside or lease) or not request.url[:5].lower().startswith("http"):
            return
        exchange = packed(fetched(request, response, self._secret))
        if lease is not None and not is_beside:
            lease.exchange = exchange
        elif tell is not None:
            tell(["archive", exchange])


def fetched(request: Request, response: Response, secret: Collection[bytes]) -> Fetched:
    """Return what was sent and answered, as far as Scrapy's download handlers tell.

    Header names are spelt as Scrapy spells them, in the order of their first lines. The body is
    free of the connection's chunks, and still compressed if it came so. The handlers do not tell
    the reason phrase, which is the standard's.
    """
    has_body = request.method != "HEAD" and response.status not in (204, 304)
    address = "" if response.ip_address is None else str(response.ip_address)
    return Fetched(
        url=_target(request.url),
        fetched_at=time(),
        request=_sent(request, secret),
        head=_head(response, secret if has_body else {*secret, b"Content-Length"}),
        body=response.body,
        status=response.status,
        mime=supplied_type(tuple(response.headers.getlist("Content-Type"))).essence,
        address="" if request.meta.get("proxy") else address,
        cut=_cut(response.flags),
    )


def _cut(flags: Sequence[str]) -> str:
    """Return why a body is not whole, as WARC files name it; empty if it is."""
    if "dataloss" in flags:
        return "disconnect"
    if _TOO_LARGE in flags:
        return "length"
    return "unspecified" if "download_stopped" in flags else ""


def _target(url: str) -> str:
    return without_credentials(url).partition("#")[0]


def _lines(headers: Headers, secret: Collection[bytes]) -> list[bytes]:
    return [
        b"%s: %s" % (name, value)
        for name, values in headers.items()
        if name not in secret
        for value in values
    ]


def _sent(request: Request, secret: Collection[bytes]) -> bytes:
    parts = urlsplit(_target(request.url))
    path = f"{parts.path or '/'}{'?' * bool(parts.query)}{parts.query}"
    lines = [f"{request.method} {path} HTTP/1.1".encode()]
    if "Host" not in request.headers:
        lines.append(f"Host: {parts.netloc}".encode())
    lines += _lines(request.headers, secret)
    return b"\r\n".join([*lines, b"", request.body])


def _head(response: Response, left_out: Collection[bytes]) -> bytes:
    """Return start line and headers; Twisted adds a length to responses that never have a body."""
    protocol = response.protocol if response.protocol in ("HTTP/1.0", "HTTP/1.1") else "HTTP/1.1"
    lines = [f"{protocol} {response.status} {_PHRASES.get(response.status, '')}".encode()]
    lines += _lines(response.headers, left_out)
    return b"\r\n".join([*lines, b"", b""])


def about(settings: BaseSettings) -> dict[str, str]:
    """Return the fields on program and crawl for the first record of each file."""
    obeys = read_setting(settings, "ROBOTSTXT_OBEY")
    fields = {
        "software": f"crawlprio/{__version__} Scrapy/{scrapy_version} Python/"
        f"{platform.python_version()}",
        "format": "WARC File Format 1.1",
        "conformsTo": "https://iipc.github.io/warc-specifications/specifications/warc-format/"
        "warc-1.1/",
        "robots": "obey" if obeys else "ignore",
        "http-header-user-agent": str(read_setting(settings, "USER_AGENT")),
    }
    return fields | {
        f"setting-{name}": repr(value)
        for name, value in changed_settings(settings).items()
        if is_plain(name, value)
    }
