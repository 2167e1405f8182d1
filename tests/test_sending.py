"""A worker sends nothing under a lease that it has lost, and aborts what it has sent.

The servers here note every byte that they are sent.
"""

import math
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from types import SimpleNamespace

import pytest
from crawls import ADDON, Answer, Site, _called, _in_loop, _reactor, page, run_spider
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from scrapy import Request
from scrapy.core.downloader.handlers.http11 import HTTP11DownloadHandler
from scrapy.utils.test import get_crawler
from shared_crawls import brain_of
from twisted.internet import ssl
from twisted.internet.protocol import Factory, Protocol

from crawlprio.middlewares.fetch_gate import Sending, check_sends, sending
from crawlprio.spiders.site import SiteSpider

ANSWER = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok"


class Wire(Protocol):
    """Answers each request; notes what it is sent, after TLS if there is any."""

    factory: "Server"

    def dataReceived(self, data):  # noqa: N802
        self.factory.heard.append(data)
        self.factory.answer(self, data)


class Server(Factory):
    """A server whose connections call `answer` with what they are sent."""

    protocol = Wire

    def __init__(self, answer):
        self.answer = answer
        self.heard = []

    def logPrefix(self):  # noqa: N802
        return "server"


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
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, "a.test")])
    now = datetime.now(UTC)
    made = x509.CertificateBuilder(name, name, key.public_key(), x509.random_serial_number())
    made = made.not_valid_before(now - timedelta(1)).not_valid_after(now + timedelta(1))
    pem = made.sign(key, hashes.SHA256()).public_bytes(serialization.Encoding.PEM)
    secret = key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )
    return ssl.PrivateCertificate.loadPEM(pem + secret).options()


class Fetcher:
    """Scrapy's download handler for HTTP/1.1, whose writes are checked."""

    def __init__(self):
        self.crawler = get_crawler()
        self.crawler.spider = SimpleNamespace()
        self.handler = HTTP11DownloadHandler.from_crawler(self.crawler)
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


@pytest.fixture
def fetcher():
    fetcher = _in_loop(_called(Fetcher), 30.0)
    yield fetcher
    fetcher.close()


def reply(wire, data):
    wire.transport.write(ANSWER)


def test_no_request_follows_a_tls_handshake_whose_lease_is_lost(fetcher, certificate):
    with listening(Server(reply), certificate) as address:
        url = f"https://{address}/"
        n_asked = 0

        def allowed():
            nonlocal n_asked
            n_asked += 1
            return True

        assert fetcher.fetch(url, allowed) == (b"ok", False)
    assert n_asked > 1
    for n_allowed in range(n_asked):
        server = Server(reply)
        with listening(server, certificate) as address:
            left = iter([True] * n_allowed)
            outcome = fetcher.fetch(f"https://{address}/", lambda left=left: next(left, False))
        assert (outcome, server.heard) == ((b"", True), []), n_allowed


def test_a_proxy_is_asked_for_a_tunnel_and_passes_on_nothing_after_the_lease_is_lost(
    fetcher, certificate
):
    def tunnel(wire, data):
        if data.startswith(b"CONNECT"):
            wire.transport.write(b"HTTP/1.1 200 OK\r\n\r\n")
            wire.transport.startTLS(certificate, wire.factory)
        else:
            reply(wire, data)

    heard = []
    for is_allowed in (True, False):
        server = Server(tunnel)
        with listening(server) as address:
            proxied = {"proxy": f"http://{address}"}
            found = fetcher.fetch(
                "https://a.test/", lambda is_allowed=is_allowed: is_allowed, **proxied
            )
        assert found == ((b"ok", False) if is_allowed else (b"", True))
        heard.append([data.partition(b" ")[0] for data in server.heard])
    assert heard == [[b"CONNECT", b"GET"], [b"CONNECT"]]


@pytest.mark.parametrize("is_allowed", [True, False])
def test_a_request_is_not_sent_again_after_its_connection_turned_out_to_be_stale(
    is_allowed, fetcher
):
    """Twisted connects again when a kept connection closes without an answer."""

    def close_second(wire, data):
        if len(wire.factory.heard) == 2:
            wire.transport.abortConnection()
        else:
            reply(wire, data)

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
    with Slow({}) as site, brain_of(tmp_path, "site", settings):
        worker = {**settings, "CRAWLPRIO_BRAIN": "never"}
        run = run_spider(SiteSpider, worker, site=site, seeds="http://a.test/")
    assert run.reason == "finished", run.messages()
    assert site.paths() == ["/", "/slow", "/slow"]
    assert run.stats["crawlprio/aborted"] == 1
    assert "crawlprio/failed_because" not in run.stats
