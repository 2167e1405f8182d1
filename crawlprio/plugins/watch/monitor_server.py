"""The web server of the live view: one page, its events, and what may be asked of the crawl.

It listens on loopback. A page of another site, or another program, must not read or change a crawl:

* a request must name this machine as its host, so that no other name leads here (DNS rebinding);
* one with an `Origin` must come from this very server, and so must one that a browser says it
  makes for a page (`Sec-Fetch-Site`), as for an image, which has no `Origin`;
* more connections than a few are closed at once, so that they leave the crawl its descriptors;
* what changes something must be a POST of JSON that carries the token.
"""

from __future__ import annotations

import hmac
import json
import logging
from collections.abc import Awaitable, Callable, Mapping
from importlib.resources import files
from typing import Any
from urllib.parse import urlsplit

from scrapy.utils.defer import deferred_from_coro
from twisted.internet.interfaces import IPushProducer
from twisted.protocols.policies import WrappingFactory
from twisted.python.failure import Failure
from twisted.web import http
from twisted.web.resource import Resource
from twisted.web.server import NOT_DONE_YET, Request, Site
from zope.interface import implementer  # type: ignore[import-untyped]

from crawlprio.errors import CrawlprioError

logger = logging.getLogger("crawlprio")

POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; img-src data:; "
    "base-uri 'none'; form-action 'none'; frame-ancestors 'none'; "
    "require-trusted-types-for 'script'"
)
"""The content security policy: the page asks this server only, and is shown in no other."""

HEADERS = {
    "Content-Security-Policy": POLICY,
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cache-Control": "no-store",
    "Server": "crawlprio",
}

TOKEN = "X-Crawlprio-Token"
"""The header that carries the token."""

MAX_STREAMS = 8
MAX_CONNECTIONS = 32
MAX_BODY = 10_000
_HOSTS = ("127.0.0.1", "localhost", "::1")
_TYPES = {"html": "text/html", "css": "text/css", "js": "text/javascript"}

Action = Callable[[Mapping[str, Any]], Awaitable[Any]]
"""Does what a POST asks for, and returns what to answer; raises CrawlprioError to refuse."""


@implementer(IPushProducer)
class Stream:
    """The events of one client, which gets none while it does not read."""

    def __init__(self, request: Request) -> None:
        self._request = request
        self._is_read = True
        request.setHeader("Content-Type", "text/event-stream; charset=utf-8")
        request.registerProducer(self, True)

    def send(self, event: bytes) -> None:
        if self._is_read:
            self._request.write(event)

    def end(self) -> None:
        self._request.unregisterProducer()
        self._request.finish()

    def pauseProducing(self) -> None:  # noqa: N802
        self._is_read = False

    def resumeProducing(self) -> None:  # noqa: N802
        self._is_read = True

    def stopProducing(self) -> None:  # noqa: N802
        self._is_read = False


class View(Resource):
    """Serves the page, its events, and, by path, the actions that a request with the token may ask.

    `first_client` is called when a client opens the events and no other has.
    """

    isLeaf = True  # noqa: N815 - twisted.web names it so

    def __init__(
        self, token: str, actions: Mapping[str, Action], first_client: Callable[[], object]
    ) -> None:
        super().__init__()
        self._token = token.encode()
        self._actions = actions
        self._first_client = first_client
        self._streams: dict[Request, Stream] = {}
        self._last = b""
        folder = files("crawlprio.plugins.watch") / "page"
        self._pages = {
            "/" if kind == "html" else f"/monitor.{kind}": (
                (folder / f"monitor.{kind}").read_bytes(),
                f"{_TYPES[kind]}; charset=utf-8",
            )
            for kind in _TYPES
        }

    @property
    def is_watched(self) -> bool:
        """Whether any client reads the events."""
        return bool(self._streams)

    def send(self, name: str, document: Any) -> None:
        """Send an event to all clients; one that joins others gets the last one at once."""
        self._last = f"event: {name}\ndata: {json.dumps(document)}\n\n".encode()
        for stream in list(self._streams.values()):
            stream.send(self._last)

    def end(self) -> None:
        for stream in list(self._streams.values()):
            stream.end()
        self._streams.clear()

    def render(self, request: Request) -> bytes | int:
        for name, value in HEADERS.items():
            request.setHeader(name, value)
        path = request.path.decode("latin-1")
        refusal = self._refusal(request, path)
        if refusal is not None:
            status, sentence = refusal
            return _answer(request, status, {"error": sentence})
        if path == "/events":
            return self._open_stream(request)
        if path in self._actions:
            return self._act(request, path)
        body, kind = self._pages[path]
        request.setHeader("Content-Type", kind)
        return body

    def _refusal(self, request: Request, path: str) -> tuple[int, str] | None:
        """Return the status and the sentence that refuse a request; None if nothing does."""
        host = request.getHeader("Host") or ""
        if _host_name(host) not in _HOSTS:
            return http.FORBIDDEN, "This server answers to 127.0.0.1 and localhost only."
        origin = request.getHeader("Origin")
        if origin is not None and origin != f"http://{host}":
            return http.FORBIDDEN, "Another site may not ask this server."
        maker = request.getHeader("Sec-Fetch-Site") or "none"
        if path != "/" and maker not in ("none", "same-origin"):
            return http.FORBIDDEN, "A page of another site may not ask this server."
        is_action = path in self._actions
        if not (is_action or path == "/events" or path in self._pages):
            return http.NOT_FOUND, "There is no such page."
        if request.method != (b"POST" if is_action else b"GET"):
            request.setHeader("Allow", "POST" if is_action else "GET")
            return http.NOT_ALLOWED, f"{'POST' if is_action else 'GET'} is the only method here."
        if not is_action:
            return None
        token = (request.getHeader(TOKEN) or "").encode("latin-1", "replace")
        if not hmac.compare_digest(token, self._token):
            sentence = "The token is missing or wrong; open the address that the crawl printed."
            return http.FORBIDDEN, sentence
        if (request.getHeader("Content-Type") or "").partition(";")[0] != "application/json":
            return http.UNSUPPORTED_MEDIA_TYPE, "The body must be JSON."
        return None

    def _open_stream(self, request: Request) -> bytes | int:
        if len(self._streams) >= MAX_STREAMS:
            sentence = f"{MAX_STREAMS} pages show this crawl already; close one."
            return _answer(request, http.SERVICE_UNAVAILABLE, {"error": sentence})
        stream = Stream(request)
        request.notifyFinish().addBoth(lambda _: self._streams.pop(request, None))
        stream.send(b"retry: 2000\n\n" + (self._last if self._streams else b""))
        self._streams[request] = stream
        if len(self._streams) == 1:
            self._first_client()
        return NOT_DONE_YET

    def _act(self, request: Request, path: str) -> bytes | int:
        asked = _json_object(request)
        if asked is None:
            return _answer(request, http.BAD_REQUEST, {"error": "The body is not a JSON object."})
        gone: list[object] = []
        request.notifyFinish().addErrback(gone.append)

        async def act() -> None:
            status, answer = http.OK, {}
            try:
                answer = await self._actions[path](asked)
            except CrawlprioError as error:
                status, answer = http.CONFLICT, {"error": str(error)}
            if not gone:
                request.write(_answer(request, status, answer))
                request.finish()

        def failed(failure: Failure) -> None:
            logger.error("The live view failed: %s", failure.getTraceback())
            if not gone:
                request.setResponseCode(http.INTERNAL_SERVER_ERROR)
                request.finish()

        deferred_from_coro(act()).addErrback(failed)
        return NOT_DONE_YET


class _SmallRequest(Request):
    """A request of which no more than `MAX_BODY` bytes are kept."""

    is_too_long = False

    def gotLength(self, length: int | None) -> None:  # noqa: N802
        super().gotLength(min(length or 0, MAX_BODY))

    def handleContentChunk(self, data: bytes) -> None:  # noqa: N802
        assert self.content is not None
        if self.content.tell() + len(data) > MAX_BODY:
            self.is_too_long = True
        else:
            super().handleContentChunk(data)


class QuietSite(Site):
    """A site that logs no request."""

    noisy = False

    def __init__(self, view: View) -> None:
        super().__init__(view, requestFactory=_SmallRequest)

    def log(self, request: object) -> None:
        """Log nothing: the log is the crawl's."""


class FewConnections(WrappingFactory):
    """A server that closes connections beyond `MAX_CONNECTIONS` as soon as they are made."""

    noisy = False

    def buildProtocol(self, addr: Any) -> Any:  # noqa: N802
        return super().buildProtocol(addr) if len(self.protocols) < MAX_CONNECTIONS else None


def _host_name(host: str) -> str | None:
    try:
        return urlsplit(f"//{host}").hostname
    except ValueError:
        return None


def _json_object(request: Request) -> dict[str, Any] | None:
    """Return the JSON object of a request; None if its body is anything else."""
    assert request.content is not None
    if getattr(request, "is_too_long", False):
        return None
    try:
        asked = json.loads(request.content.read() or b"{}")
    except (ValueError, RecursionError):
        return None
    return asked if isinstance(asked, dict) else None


def _answer(request: Request, status: int, answer: Any) -> bytes:
    request.setResponseCode(status)
    request.setHeader("Content-Type", "application/json")
    return json.dumps(answer).encode()
