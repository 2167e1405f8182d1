"""A download handler that sends every request to the loopback server, none to the network."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from scrapy.core.downloader.handlers.http11 import HTTP11DownloadHandler

from crawlprio.config import read_setting
from crawlprio.errors import ConfigError

if TYPE_CHECKING:
    from scrapy import Request
    from scrapy.crawler import Crawler
    from scrapy.http import Response

_ADDRESS = re.compile(r"(?:http://)?((?:127\.0\.0\.1|localhost):[0-9]{1,5})/?")


class LoopbackHandler(HTTP11DownloadHandler):
    """Every http and https request goes to `CRAWLPRIO_LOOPBACK`, as plain HTTP, and nowhere else.

    Scrapy's own handler does the work. An https request goes as one for the http URL with the
    header `X-Forwarded-Proto: https`; each response is returned under the URL of its request. No
    name is looked up, no connection made but to the server, and a proxy that a request names is
    not used. Meant for `DOWNLOAD_HANDLERS`, under both `http` and `https`.

    Raises
    ------
    ConfigError
        If the setting is not `127.0.0.1:PORT`.
    """

    lazy = False

    def __init__(self, crawler: Crawler) -> None:
        super().__init__(crawler)
        address = read_setting(crawler.settings, "CRAWLPRIO_LOOPBACK")
        matched = _ADDRESS.fullmatch(str(address))
        if matched is None:
            raise ConfigError(
                f"CRAWLPRIO_LOOPBACK is {address!r}; it must be the address of a loopback server, "
                "127.0.0.1:PORT, as `python -m crawlprio.demo` prints it."
            )
        self._proxy = f"http://{matched[1].replace('localhost', '127.0.0.1')}"
        # To Scrapy's pool the server is one host, whatever the sites.
        self._pool.maxPersistentPerHost = max(
            self._pool.maxPersistentPerHost, read_setting(crawler.settings, "CONCURRENT_REQUESTS")
        )

    async def download_request(self, request: Request) -> Response:
        """Return what the loopback server answers for the request's URL."""
        wanted = request.meta.get("proxy")
        # On the request itself, where whoever judges its connection sees it.
        request.meta["proxy"] = self._proxy
        try:
            if request.url.startswith("https:"):
                return await self._download_secure(request)
            return await super().download_request(request)
        finally:
            if wanted is None:
                del request.meta["proxy"]
            else:
                request.meta["proxy"] = wanted

    async def _download_secure(self, request: Request) -> Response:
        """Fetch an https URL as an http one, and give the response its own URL back."""
        plain = request.replace(url=f"http:{request.url[6:]}")
        plain.headers["X-Forwarded-Proto"] = "https"
        response = await super().download_request(plain)
        if "download_latency" in plain.meta:
            request.meta["download_latency"] = plain.meta["download_latency"]
        return response.replace(url=request.url)
