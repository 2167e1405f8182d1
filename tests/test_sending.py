"""A worker sends nothing under a lease that it has lost, and aborts what it has sent.

The servers here note every byte that they are sent.
"""

import math
import subprocess
from contextlib import contextmanager
from functools import partial
from types import SimpleNamespace

import pytest
from crawls import ADDON, Answer, Site, _called, _in_loop, _reactor, page, run_spider
from scrapy import Request
from scrapy.core.downloader.handlers.http11 import HTTP11DownloadHandler
from scrapy.utils.test import get_crawler
from shared_crawls import coordinator_of
from twisted.internet import ssl
from twisted.internet.protocol import Factory, Protocol

from crawlprio.live.http_handler import HttpHandler
from crawlprio.live.leases import Sending, sending
from crawlprio.middlewares.fetch_gate import check_sends
from crawlprio.spiders.site import SiteSpider

ANSWER = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok"


class Server(Factory):
    """A server that calls `answer` with a connection and what it is sent, after TLS if any."""

    def __init__(self, answer):
        self.answer = answer
        self.heard = []

    def buildProtocol(self, addr):  # noqa: N802
        def hear(data):
            self.heard.append(data)
            self.answer(wire.transport, data)

        wire = Protocol()
        wire.dataReceived = hear
        return wire


@contextmanager
def listening(server, context=None):
    def listen():
        if context is None:
            return _reactor().listenTCP(0, server, interface="127.0.0.1")
        return _reactor().listenSSL(0, server, context, interface="127.0.0.1")

    port = _in_loop(_called(listen), 30.0)
    yield f"127.0.0.1:{port.getHost().port}"
    _in_loop(_called(port.stopListening), 30.0)


@pytest.fixture(scope="module")
def certificate():
    """A TLS context of a server for any name."""
    line = ["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256"]
    line += ["-nodes", "-subj", "/CN=a.test", "-keyout", "/dev/stdout"]
    return ssl.PrivateCertificate.loadPEM(subprocess.check_output(line)).options()


class Fetcher:
    """A download handler for HTTP/1.1, whose writes are checked."""

    def __init__(self, handler):
        self.crawler = get_crawler()
        self.crawler.spider = None
        self.handler = handler.from_crawler(self.crawler)
        handlers = SimpleNamespace(_get_handler=lambda scheme: self.handler)
        self.crawler.engine = SimpleNamespace(downloader=SimpleNamespace(handlers=handlers))
        check_sends(self.crawler)

    def fetch(self, url, is_allowed, **meta):
        """Return what was fetched, b"" if nothing, and whether a write was refused."""
        permission = Sending(is_allowed)

        async def fetch():
            sending.set(permission)
            try:
                return bytes((await self.handler.download_request(Request(url, meta=meta))).body)
            except Exception:
                return b""

        return _in_loop(fetch(), 60.0), permission.was_refused

    def close(self):
        _in_loop(self.handler.close(), 60.0)


@pytest.fixture(params=[HTTP11DownloadHandler, HttpHandler])
def fetcher(request):
    fetcher = _in_loop(_called(lambda: Fetcher(request.param)), 30.0)
    yield fetcher
    fetcher.close()


def reply(connection, data):
    connection.write(ANSWER)


def test_no_request_follows_a_tls_handshake_whose_lease_is_lost(fetcher, certificate):
    with listening(Server(reply), certificate) as address:
        asked = []
        found = fetcher.fetch(f"https://{address}/", lambda: not asked.append(True))
    assert found == (b"ok", False)
    assert len(asked) > 1
    for n_allowed in range(len(asked)):
        server = Server(reply)
        with listening(server, certificate) as address:
            left = iter([True] * n_allowed)
            outcome = fetcher.fetch(f"https://{address}/", lambda left=left: next(left, False))
        assert (outcome, server.heard) == ((b"", True), []), n_allowed


def test_a_proxy_is_asked_for_a_tunnel_and_passes_on_nothing_after_the_lease_is_lost(
    fetcher, certificate
):
    def tunnel(connection, data):
        if data.startswith(b"CONNECT"):
            connection.write(b"HTTP/1.1 200 OK\r\n\r\n")
            connection.startTLS(certificate)
        else:
            reply(connection, data)

    heard = []
    for is_allowed in (True, False):
        server = Server(tunnel)
        with listening(server) as address:
            allowed = partial(bool, is_allowed)
            found = fetcher.fetch("https://a.test/", allowed, proxy=f"http://{address}")
        assert found == ((b"ok", False) if is_allowed else (b"", True))
        heard.append([data.partition(b" ")[0] for data in server.heard])
    assert heard == [[b"CONNECT", b"GET"], [b"CONNECT"]]


@pytest.mark.parametrize("is_allowed", [True, False])
def test_a_request_is_not_sent_again_after_its_connection_turned_out_to_be_stale(
    is_allowed, fetcher
):
    """Handlers connect again when a kept connection closes without an answer."""

    def close_second(connection, data):
        if len(server.heard) == 2:
            connection.abortConnection()
        else:
            reply(connection, data)

    server = Server(close_second)
    with listening(server) as address:
        url = f"http://{address}/"
        assert fetcher.fetch(url, lambda: True) == (b"ok", False)
        found = fetcher.fetch(url, lambda: is_allowed or len(server.heard) < 2)
    assert found == ((b"ok", False) if is_allowed else (b"", True))
    assert len(server.heard) == (3 if is_allowed else 2)


def test_a_fetch_is_aborted_before_its_lease_is_lost_to_a_server_that_hangs(redis_server, tmp_path):
    """The page answers only after the request for it has been aborted."""

    class Slow(Site):
        n_slow = 0

        def answer(self, host, path):
            if path != "/slow":
                return page("/slow")
            self.n_slow += 1
            if self.n_slow > 1:
                return page()
            redis_server.client().execute_command("CLIENT", "PAUSE", 6000)
            return Answer(seconds=math.inf)

    settings = {
        **ADDON,
        "CRAWLPRIO_FRONTIER": "redis",
        "REDIS_URL": redis_server.url,
        "CRAWLPRIO_LEASE_SECONDS": 4.0,
        "DOWNLOAD_TIMEOUT": 600,
        "ROBOTSTXT_OBEY": False,
    }
    with Slow({}) as site, coordinator_of(tmp_path, "site", settings):
        worker = {**settings, "CRAWLPRIO_COORDINATOR": "never"}
        run = run_spider(SiteSpider, worker, site=site, seeds="http://a.test/")
    assert run.reason == "finished", run.messages()
    assert site.paths() == ["/", "/slow", "/slow"]
    assert run.stats["crawlprio/aborted"] == 1
    assert "crawlprio/failed_because" not in run.stats
