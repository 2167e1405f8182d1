"""The fetches of a crawl as exchanges of its archive, each kept until its visit is recorded."""

from __future__ import annotations

import platform
import re
from collections.abc import Callable, Sequence
from http import HTTPStatus
from time import time
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from scrapy import Request
from scrapy import __version__ as scrapy_version
from scrapy.http import Response

from crawlprio import __version__
from crawlprio.archive import Archive, Exchange, Fetched
from crawlprio.config import CrawlConfig, changed_settings, read_setting
from crawlprio.errors import CrawlprioError
from crawlprio.live.dispatch import Dispatcher
from crawlprio.live.downloader import KEPT_EXCHANGES, FetchObserver, observe_fetches
from crawlprio.live.given import is_plain
from crawlprio.live.recorder import Recorder
from crawlprio.web.urls import without_credentials

if TYPE_CHECKING:
    from scrapy.crawler import Crawler
    from scrapy.settings import BaseSettings

_SECRET = frozenset({b"authorization", b"cookie", b"proxy-authorization"})
"""Request headers that are not archived."""

_PHRASES = {status.value: status.phrase for status in HTTPStatus}


def archive_crawl(
    crawler: Crawler,
    config: CrawlConfig,
    recorder: Recorder,
    dispatcher: Dispatcher | None,
    failed: Callable[[CrawlprioError], object],
) -> Archiver:
    """Open the archive of a crawl, and return what archives its fetches; keep a reference to it.

    Raises
    ------
    CrawlprioError
        an earlier run's files cannot be resumed.
    """
    assert config.warc_folder is not None
    archive = Archive(config.warc_folder, config.max_warc_bytes, about(crawler.settings))
    recorder.open_archive(archive)
    archiver = Archiver(archive, recorder, dispatcher, failed)
    observe_fetches(crawler, archiver)
    if dispatcher is not None and recorder.is_elsewhere:
        dispatcher.keep_exchange = archiver.keep
    return archiver


class Archiver(FetchObserver):
    """Archives each fetch as it came from the network, before any middleware changed it.

    The answer to a leased page is kept with its lease, and archived with its visit: of a page that
    is retried, only the last. A requisite's goes to those who fetch it. All others (robots.txt,
    media, what a callback downloads) are archived when they come.

    Parameters
    ----------
    archive, recorder
        the archive, and what it is recorded with.
    dispatcher
        knows the lease of a page; None under a scheduler other than crawlprio's.
    failed
        called with the error when the archive cannot be written.
    """

    def __init__(
        self,
        archive: Archive,
        recorder: Recorder,
        dispatcher: Dispatcher | None,
        failed: Callable[[CrawlprioError], object],
    ) -> None:
        self._archive = archive
        self._recorder = recorder
        self._dispatcher = dispatcher
        self._failed = failed

    def fetch_answered(self, request: Request, response: Response) -> None:
        if not request.url[:5].lower().startswith("http"):
            return
        exchange = self._archive.pack(fetched(request, response))
        kept = request.meta.get(KEPT_EXCHANGES)
        if kept is not None:
            kept[:] = [exchange]
            return
        lease = None if self._dispatcher is None else self._dispatcher.lease_of(request)
        if lease is not None:
            lease.exchange = exchange
        else:
            self.keep(exchange)

    def keep(self, exchange: Exchange) -> None:
        """Archive a fetch whose visit, if it has one, is not recorded here."""
        try:
            self._recorder.archive_fetch(exchange)
        except CrawlprioError as error:
            self._failed(error)


def fetched(request: Request, response: Response) -> Fetched:
    """Return what was sent and answered, as far as Scrapy's download handlers tell.

    Header names are spelt as Twisted spells them, in the order of their first lines. The body is
    free of the connection's chunks, and still compressed if it came so. The handlers do not tell
    the reason phrase, which is the standard's.
    """
    content_type = (response.headers.get("Content-Type") or b"").decode("latin-1")
    address = "" if response.ip_address is None else str(response.ip_address)
    return Fetched(
        url=_target(request.url),
        fetched_at=time(),
        request=_sent(request),
        head=_head(response),
        body=response.body,
        status=response.status,
        mime=re.split("[; ]", content_type, maxsplit=1)[0],
        address="" if request.meta.get("proxy") else address,
        cut=_cut(response.flags),
    )


def _cut(flags: Sequence[str]) -> str:
    """Return why a body is not whole, as WARC files name it; empty if it is."""
    if "dataloss" in flags:
        return "disconnect"
    return "unspecified" if "download_stopped" in flags else ""


def _target(url: str) -> str:
    return without_credentials(url).partition("#")[0]


def _sent(request: Request) -> bytes:
    parts = urlsplit(_target(request.url))
    path = f"{parts.path or '/'}{'?' * bool(parts.query)}{parts.query}"
    lines = [f"{request.method} {path} HTTP/1.1".encode()]
    if "Host" not in request.headers:
        lines.append(f"Host: {parts.netloc}".encode())
    lines += [
        b"%s: %s" % (name, value)
        for name, values in request.headers.items()
        if name.lower() not in _SECRET
        for value in values
    ]
    return b"\r\n".join([*lines, b"", request.body])


def _head(response: Response) -> bytes:
    protocol = response.protocol if response.protocol in ("HTTP/1.0", "HTTP/1.1") else "HTTP/1.1"
    lines = [f"{protocol} {response.status} {_PHRASES.get(response.status, '')}".encode()]
    for name, values in response.headers.items():
        lines += [b"%s: %s" % (name, value) for value in values]
    return b"\r\n".join([*lines, b"", b""])


def about(settings: BaseSettings) -> dict[str, str]:
    """Return what the first record of each file says of the program and the crawl."""
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
