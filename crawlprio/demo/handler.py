"""A download handler that sends every request to the loopback server instead of the network."""

from __future__ import annotations

import re

from scrapy import Request
from scrapy.core.downloader.handlers.http11 import HTTP11DownloadHandler
from scrapy.crawler import Crawler
from scrapy.http import Response

from crawlprio.errors import ConfigError
from crawlprio.settings_table.config import read_setting

_ADDRESS = re.compile(r"(?:http://)?((?:127\.0\.0\.1|localhost):[0-9]{1,5})/?")


class LoopbackHandler(HTTP11DownloadHandler):
    """Sends every http and https request to `CRAWLPRIO_LOOPBACK` as plain HTTP, and nowhere else.

    It wraps Scrapy's own handler. An https request is sent for the http URL with the header
    `X-Forwarded-Proto: https`; each response is returned under the URL of its request. No name is
    resolved, no other connection is made, and a proxy set on a request is ignored. Set it in
    `DOWNLOAD_HANDLERS` for both `http` and `https`.

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
                "127.0.0.1:PORT."
            )
        self._proxy = f"http://{matched[1].replace('localhost', '127.0.0.1')}"
        # Scrapy's connection pool sees the server as one host, whatever the sites.
        self._pool.maxPersistentPerHost = max(
            self._pool.maxPersistentPerHost, read_setting(crawler.settings, "CONCURRENT_REQUESTS")
        )

    async def download_request(self, request: Request) -> Response:
        """Return the loopback server's response for the request's URL."""
        wanted = request.meta.get("proxy")
        # Set on the request itself, so that the guard of private addresses sees it.
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
        """Fetch an https URL over http, and restore the URL of the response."""
        plain = request.replace(url=f"http:{request.url[6:]}")
        plain.headers["X-Forwarded-Proto"] = "https"
        response = await super().download_request(plain)
        if "download_latency" in plain.meta:
            request.meta["download_latency"] = plain.meta["download_latency"]
        return response.replace(url=request.url)
