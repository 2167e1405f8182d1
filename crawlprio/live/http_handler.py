"""A download handler for http and https that reads what servers send as browsers do."""

from __future__ import annotations

import asyncio
import re
import sys
from asyncio.staggered import staggered_race
from collections.abc import Callable
from functools import partial
from ipaddress import ip_address
from socket import AI_NUMERICHOST
from typing import Any, cast
from weakref import WeakValueDictionary

from OpenSSL.crypto import FILETYPE_ASN1
from scrapy import Request, exceptions
from scrapy.core.downloader.handlers.http11 import HTTP11DownloadHandler
from scrapy.crawler import Crawler
from scrapy.http import Headers, Response
from scrapy.utils.asyncio import is_asyncio_available
from twisted.internet.ssl import Certificate

from crawlprio.live import engine
from crawlprio.live.leases import check_may_send
from crawlprio.live.private_networks import resolved
from crawlprio.live.requests import IS_TOKEN, OF_CONNECTION, PlainRequest, plain_request
from crawlprio.settings_table.config import read_setting

MOST_HEAD = 262_144
"""The bytes that may come before a body, as in Chromium, and after one that comes in chunks."""

_MOST_SIZE_LINE = 16_384
_IDLE_SECONDS = 120
_STATUS = re.compile(
    rb"(HTTP(?:/[0-9]{1,3}(?:\.[0-9]{1,3})?)?|ICY)[ \t]+([1-9][0-9]{2})(?![0-9])", re.IGNORECASE
).match
_IS_LENGTH = re.compile(rb"[0-9]{1,18}").fullmatch
_IS_SIZE = re.compile(rb"[0-9A-Fa-f]+").fullmatch
_BLANK_LINE = re.compile(rb"\n\r?\n").search
_FOLD = re.compile(rb"\r?\n[ \t]+")
_TO_SPACES = bytes.maketrans(b"\r\0", b"  ")
_CODINGS = frozenset(b"br chunked compress deflate gzip x-compress x-gzip zstd".split())


class InvalidResponse(exceptions.DownloadFailedError):
    """What a server sent is not HTTP, or it is not certain where its body ends."""


class Reply:
    """Reads a response: `feed` it what arrives, and tell it of the `end` of the connection.

    As in browsers, lines of the head that are no fields are skipped, folded ones joined, and
    transfer codings that are none ignored. Fields about the connection are left out; Content-Length
    is the one that counts. It is flagged `partial` if the body ends with the connection, `dataloss`
    if the body is not whole. The connection `is_reusable` only if head and framing have no fault,
    and nothing follows. `reception` is told of the head and of each part of the body.
    """

    status, protocol = 0, ""
    length: int | None = None
    has_begun = is_over = False
    is_reusable = True
    _kept, _is_after_chunk = b"", False
    _n_head = _left = 0

    def __init__(self, *, has_body: bool = True, reception: engine.Reception | None = None) -> None:
        self.headers = Headers()
        self.body = bytearray()
        self.flags: list[str] = []
        self._has_body, self._reception = has_body, reception
        self._read: Callable[[bytes], bytes] = self._read_head

    def feed(self, data: bytes) -> None:
        """Read what has arrived; raise InvalidResponse if it cannot be read."""
        self.has_begun = True
        while data and not self.is_over:
            data = self._read(data)
        self.is_reusable &= not data

    def end(self, error: Exception | None = None) -> None:
        """Take note that the connection is closed."""
        if self._read == self._read_head:
            part = "within the head" if self.has_begun else "without an answer"
            raise exceptions.DownloadFailedError(f"closed {part}: {error or 'EOF'}") from error
        if self._read != self._read_trailers:
            until_close = self._read == self._read_body and self.length is None
            self.flags.append("partial" if until_close else "dataloss")
        self._stop()

    def _stop(self) -> None:
        self.is_over, self.is_reusable = True, False

    def _lines(self, data: bytes) -> tuple[list[bytes], bytes]:
        """Return the lines before the first blank one, once it has come, and what follows it."""
        start, data = max(len(self._kept) - 2, 0), self._kept + data
        found = _BLANK_LINE(data, start)
        end = found.end() if found else len(data)
        if self._n_head + end > MOST_HEAD:
            raise InvalidResponse(f"more than {MOST_HEAD:,} bytes of fields")
        if not found:
            self._kept = data
            return [], b""
        head, self._kept, self._n_head = data[:end], b"", self._n_head + end
        is_clean = head.count(b"\n") == head.count(b"\r\n") == head.count(b"\r")
        if not is_clean or b"\n " in head or b"\n\t" in head:
            self.is_reusable, head = False, _FOLD.sub(b" ", head)
        return head.rstrip(b"\r\n").split(b"\n"), data[end:]

    def _read_head(self, data: bytes) -> bytes:
        if not self._kept and (n_blank := len(data) - len(data.lstrip(b"\r\n"))):
            self.is_reusable, self._n_head = False, self._n_head + n_blank
            data = data[n_blank:]
        lines, rest = self._lines(data)
        if not lines:
            return b""
        found = _STATUS(lines[0])
        if found is None or found[2] == b"101":
            raise InvalidResponse(f"the status line is {lines[0][:60]!r}")
        self.status = int(found[2])
        if self.status < 200:  # an interim response
            return rest
        version = found[1].decode().upper()
        self.protocol = version if "." in version else "HTTP/1.0"
        own: dict[bytes, list[bytes]] = {}
        for line in lines[1:]:
            name, _, value = line.partition(b":")
            bare, value = name.rstrip(b" \t"), value.strip(b" \t\r")
            is_field = b":" in line and IS_TOKEN(bare)
            if bare != name or not is_field or b"\r" in value or b"\0" in value:
                self.is_reusable, value = False, value.translate(_TO_SPACES)
            if is_field:  # past what `Headers` does to names and values, which costs a tenth of all
                fields: Any = own if (title := bare.title()) in OF_CONNECTION else self.headers
                dict.setdefault(fields, title, []).append(value)
        self._frame(own)
        if self._reception and not self._reception.begin(self.headers, self.length):
            self._stop()
        return rest

    def _frame(self, own: dict[bytes, list[bytes]]) -> None:
        """Find out how the body ends (RFC 9112, 6.3), and whether the connection stays open."""
        options, coded, said = (
            [item.strip(b" \t").lower() for line in own.get(name, ()) for item in line.split(b",")]
            for name in (b"Connection", b"Transfer-Encoding", b"Content-Length")
        )
        stays = {"HTTP/1.1": b"close" not in options, "HTTP/1.0": b"keep-alive" in options}
        self.is_reusable &= stays.get(self.protocol, False)
        codings = [item.partition(b";")[0].rstrip() for item in coded]
        codings = [coding for coding in codings if coding not in (b"", b"identity")]
        lengths = {int(item) if _IS_LENGTH(item) else item for item in said if item}
        if not self._has_body or self.status in (204, 304):
            self.length, self.is_over = 0, True
            may_have = not self._has_body or (self.status == 304 and not coded)
            self.is_reusable &= may_have or not (coded or lengths - {0})
            if len(lengths) == 1:
                self.headers[b"Content-Length"] = said[:1]
        elif codings == [b"chunked"]:
            self.is_reusable &= coded == codings and not said and self.protocol == "HTTP/1.1"
            self._read = self._read_chunks
        elif not _CODINGS.isdisjoint(codings):
            raise InvalidResponse(f"Transfer-Encoding is {b', '.join(codings)[:60]!r}")
        elif not lengths:
            self._left, self._read, self.is_reusable = sys.maxsize, self._read_body, False
        elif len(lengths) > 1 or not isinstance(length := lengths.pop(), int):
            raise InvalidResponse(f"Content-Length is {b', '.join(said)[:60]!r}")
        else:
            self.length, self._left, self._read = length, length, self._read_body
            self.is_over = not length
            self.is_reusable &= not coded and len(said) == 1
            self.headers[b"Content-Length"] = [b"%d" % length]

    def _take(self, data: bytes) -> None:
        self.body += data
        self._left -= len(data)
        if self._reception and not self._reception.go_on(data, len(self.body)):
            self._stop()

    def _read_body(self, data: bytes) -> bytes:
        rest = data[self._left :]
        self.is_over = len(data) >= self._left
        self._take(data[: self._left] if rest else data)
        return rest

    def _read_chunks(self, data: bytes) -> bytes:
        data, at, self._kept = self._kept + data, 0, b""
        while not self.is_over and at < len(data):
            if self._left:
                part = data[at : at + self._left]
                at, self._is_after_chunk = at + len(part), True
                self._take(part)
                continue
            end = data.find(b"\n", at) + 1
            is_long = (end or len(data)) - at > _MOST_SIZE_LINE
            if not end and not is_long:
                self._kept = data[at:]
                return b""
            line, at = data[at:end], end
            size = line.partition(b";")[0].strip(b" \t\r\n")
            self.is_reusable &= line == size + b"\r\n"
            if self._is_after_chunk and line.strip(b"\r") == b"\n":
                self._is_after_chunk = False
            elif self._is_after_chunk or is_long or not _IS_SIZE(size):
                self.flags.append("dataloss")
                self._stop()
            elif not (left := int(size, 16)):
                self._n_head, self._read = 0, self._read_trailers
                return b"\r\n" + data[at:]
            else:
                self._left = left
        return data[at:]

    def _read_trailers(self, data: bytes) -> bytes:
        lines, rest = self._lines(data)
        self.is_over = bool(lines)
        return rest


class _Idle(list["_Connection"]):
    """The connections to one server that wait for a request: at `most` so many, as in Scrapy."""

    most = 0


class _Connection(asyncio.Protocol):
    """A connection, which fetches one page at a time."""

    certificate: Certificate | None = None
    _answer: Reply | None = None

    def __init__(self, idle: _Idle) -> None:
        self._idle, self._loop = idle, asyncio.get_running_loop()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast("asyncio.Transport", transport)
        self._transport.set_write_buffer_limits(0)  # uvloop would write after other callbacks
        self.address = ip_address(transport.get_extra_info("peername")[0])
        tls = transport.get_extra_info("ssl_object")
        if tls is not None and (found := tls.getpeercert(binary_form=True)):
            self.certificate = Certificate.load(found, FILETYPE_ASN1)
        self._timer = self._loop.call_later(_IDLE_SECONDS, self.close)

    async def ask(self, request: bytes, answer: Reply) -> _Connection:
        """Send a request and read the answer; then wait for the next request, or close."""
        self._take()
        try:
            check_may_send()
            self._answer, self._over = answer, self._loop.create_future()
            self._transport.write(request)
            await self._over
        finally:
            self._answer = None
            is_usable = answer.is_over and answer.is_reusable and not self._transport.is_closing()
            if is_usable and len(self._idle) < self._idle.most:
                self._idle.append(self)
                self._timer = self._loop.call_later(_IDLE_SECONDS, self.close)
            else:
                self.close()
        return self

    def _take(self) -> None:
        """Wait for a request no longer."""
        self._timer.cancel()
        if self in self._idle:
            self._idle.remove(self)

    def close(self) -> None:
        self._take()
        self._transport.abort()

    def data_received(self, data: bytes) -> None:
        if self._answer is None:  # it answers no request, and must not answer the next
            self.close()
        else:
            self._read(self._answer, self._answer.feed, data)

    def connection_lost(self, error: Exception | None) -> None:
        self._take()
        if self._answer is not None:
            self._read(self._answer, self._answer.end, error)

    def _read(self, answer: Reply, read: Callable[[Any], None], what: Any) -> None:
        failure = None
        try:
            read(what)
        except Exception as error:
            failure = error
        if (failure or answer.is_over) and not self._over.done():
            self._answer = None
            self._over.set_exception(failure) if failure else self._over.set_result(None)


class HttpHandler(HTTP11DownloadHandler):
    """Fetches plain pages with a client that reads HTTP as browsers do, and others as Scrapy does.

    CRAWLPRIO_LENIENT_HTTP installs it for http and https. Requests with another method than GET and
    HEAD, with a body, a proxy or a bind address, or with an unusual URL or header go to Scrapy's
    handler, from which it derives. Settings, `meta`, signals and exceptions are the same.

    Names are resolved by the resolver of Twisted's reactor in the context of the fetch, so that
    `CheckingResolver` judges each address; what it connects to is an address, not a name.
    """

    def __init__(self, crawler: Crawler) -> None:
        super().__init__(crawler)
        self._is_able = is_asyncio_available() and not self._bind_address
        self._tls = engine.tls_context(crawler.settings)
        self._most_idle = read_setting(crawler.settings, "CONCURRENT_REQUESTS_PER_DOMAIN")
        self._idle: WeakValueDictionary[tuple[bool, str, int], _Idle] = WeakValueDictionary()

    async def download_request(self, request: Request) -> Response:
        """Fetch a page."""
        plain = plain_request(request) if self._is_able else None
        if plain is None or (plain.is_tls and self._tls is None):
            return await super().download_request(request)
        limits = self._default_maxsize, self._default_warnsize
        reception = engine.Reception(self.crawler, request, *limits)
        answer = Reply(has_body=request.method != "HEAD", reception=reception)
        seconds = request.meta.get("download_timeout") or 10
        try:
            async with asyncio.timeout(seconds):
                used = await self._ask(plain, answer)
        except (OSError, UnicodeError) as error:
            raise engine.failure_of(error, request.url, seconds) from error
        if "dataloss" in answer.flags:
            engine.fail_if_data_is_lost(self, request)
        told = answer.status, answer.headers, bytes(answer.body), answer.flags
        return reception.response(*told, used.certificate, used.address, answer.protocol)

    async def _ask(self, plain: PlainRequest, answer: Reply) -> _Connection:
        """Ask over a connection that waits for a request, if there is one, or over a new one."""
        idle = self._idle.setdefault(plain.server, _Idle())
        idle.most = self._most_idle
        if idle:
            try:
                return await idle[-1].ask(plain.sent, answer)
            except exceptions.DownloadFailedError:
                if answer.has_begun:  # otherwise the server may just have closed it
                    raise
        check_may_send()
        if not (addresses := await resolved(plain.host)):
            raise exceptions.CannotResolveHostError(f"no address of {plain.host} was found")
        tls = {"ssl": self._tls, "server_hostname": plain.host.rstrip(".")} if plain.is_tls else {}
        make: Any = partial(asyncio.get_running_loop().create_connection, **tls)
        make = partial(make, partial(_Connection, idle), port=plain.port, flags=AI_NUMERICHOST)
        attempts = [partial(make, address) for address in addresses]
        made, _, errors = await staggered_race(attempts, 0.3)  # seconds to the next
        if made is None:
            raise min(filter(None, errors), key=lambda error: isinstance(error, ConnectionError))
        connection: _Connection = made[1]
        return await connection.ask(plain.sent, answer)

    async def close(self) -> None:
        for connection in [each for idle in self._idle.values() for each in idle]:
            connection.close()
        await asyncio.sleep(0)
        await super().close()
