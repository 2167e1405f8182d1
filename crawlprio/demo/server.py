"""The loopback server: an HTTP proxy on 127.0.0.1 that answers every request from a web.

It never makes a connection itself, so no crawl of the demo can reach a network.
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Callable
from contextlib import suppress
from threading import Thread
from time import monotonic
from typing import Any, TextIO

from twisted.internet.error import CannotListenError, ReactorNotRunning
from twisted.internet.task import LoopingCall
from twisted.web import http

from crawlprio.demo import Answer, Web, text_answer
from crawlprio.errors import ConfigError


class _ProxyRequest(http.Request):
    """A request to the proxy, answered from the web after the answer's delay."""

    channel_factory: LoopbackFactory
    _fetch: dict[str, Any]
    _call: Any = None

    def process(self) -> None:
        factory = self.channel_factory
        if self.method == b"CONNECT":
            self._reply(
                text_answer(405, "This server opens no tunnels; send the request as plain HTTP.\n")
            )
            return
        url = self._absolute_url()
        host = url.split("/", 3)[2].partition(":")[0].lower()
        if not self._is_proxied() and host not in factory.hosts:
            # DNS rebinding: a page in a browser may resolve its own name to this server.
            self._reply(text_answer(421, f"This server does not serve {host}.\n"))
            return
        self._fetch = {"host": host, "url": url, "start": monotonic()}
        answer = factory.answer(url)
        if answer.delay > 0:
            reactor: Any = factory.reactor
            self._call = reactor.callLater(answer.delay, self._reply_to_fetch, answer)
            self.notifyFinish().addErrback(self._hung_up)
        else:
            self._reply_to_fetch(answer)

    def _is_proxied(self) -> bool:
        """Whether it is a proxy request, which no browser sends by itself."""
        return self.uri.lower().startswith((b"http://", b"https://"))

    def _absolute_url(self) -> str:
        """Return the requested URL, with the scheme of `X-Forwarded-Proto` if given."""
        url: str = self.uri.decode("latin-1")
        if not self._is_proxied():
            host = self.requestHeaders.getRawHeaders(b"host", [b"localhost"])[0]
            url = f"http://{host.decode('latin-1')}/{url.removeprefix('/')}"
        if self.requestHeaders.getRawHeaders(b"x-forwarded-proto") == [b"https"]:
            url = f"https://{url.partition('://')[2]}"
        return url

    def _reply_to_fetch(self, answer: Answer) -> None:
        self._call = None
        self._reply(answer)
        self._log_fetch(answer.status, len(answer.body))

    def _hung_up(self, _: object) -> None:
        if self._call is not None:
            self._call.cancel()
            self._log_fetch(0, 0)

    def _log_fetch(self, status: int, n_bytes: int) -> None:
        log = self.channel_factory.fetch_log
        if log is not None:
            line = {**self._fetch, "end": monotonic(), "status": status, "bytes": n_bytes}
            log.write(json.dumps(line) + "\n")

    def _reply(self, answer: Answer) -> None:
        self.setResponseCode(answer.status)
        headers = self.responseHeaders
        for name, text in answer.headers.items():
            headers.setRawHeaders(name.encode("latin-1"), [text.encode("utf-8")])
        headers.setRawHeaders(b"Content-Length", [b"%d" % len(answer.body)])
        self.write(answer.body)  # type: ignore[no-untyped-call]
        self.finish()  # type: ignore[no-untyped-call]


class LoopbackFactory(http.HTTPFactory):
    """Serves one web on any number of connections, which are kept alive without limit.

    `fetch_log` gets `{"host", "url", "start", "end", "status", "bytes"}` for each request, as a
    line of JSON. The times at which it arrived and was answered are by `time.monotonic`; status 0
    means that the client hung up first.
    """

    protocol: Any = http.HTTPChannel

    def __init__(self, web: Web, fetch_log: TextIO | None) -> None:
        super().__init__()
        self.timeOut = None
        self.web = web
        self.fetch_log = fetch_log
        self.hosts = frozenset((*web.hosts, "127.0.0.1", "localhost"))

    def buildProtocol(self, addr: Any) -> Any:  # noqa: N802
        channel: Any = super().buildProtocol(addr)
        channel.requestFactory = self._request
        return channel

    def _request(self, *args: Any, **kwargs: Any) -> _ProxyRequest:
        request = _ProxyRequest(*args, **kwargs)
        request.channel_factory = self
        return request

    def log(self, request: object) -> None:
        """Disable Twisted's access log."""

    def answer(self, url: str) -> Answer:
        """Return the web's answer, or status 500 with the reason on stderr if it raises."""
        try:
            return self.web.answer(url)
        except Exception as error:
            sys.stderr.write(f"{url}: {type(error).__name__}: {error}\n")
            return text_answer(500, "The web could not answer.\n")


def listen(web: Web, port: int, fetch_log: TextIO | None = None) -> int:
    """Listen on 127.0.0.1 and return the port; requests are answered once `serve` runs.

    Port 0 is any free one; a port that is not available is a ConfigError.
    """
    reactor = _reactor()
    try:
        listening = reactor.listenTCP(
            port, LoopbackFactory(web, fetch_log), backlog=512, interface="127.0.0.1"
        )
    except CannotListenError as error:
        raise ConfigError(
            f"Cannot listen on port {port} of 127.0.0.1 ({error.socketError.strerror}); "
            "choose another with --port, or 0 for any free one."
        ) from error
    listened: int = listening.getHost().port
    return listened


def serve(
    ready: Callable[[], None], *, parent: int | None = None, until_stdin_closes: bool = False
) -> None:
    """Serve until SIGTERM or SIGINT, or until the parent process is gone.

    `ready` is called once the server answers requests and handles signals. `parent` is the process
    id of the parent at startup; by default, the current one. With `until_stdin_closes` it also
    stops when standard input closes: the most reliable sign that the parent is gone.
    """
    reactor = _reactor()
    started_by = os.getppid() if parent is None else parent

    def end_without_parent() -> None:
        if os.getppid() != started_by:
            _stop(reactor)

    watch = LoopingCall(end_without_parent)
    watch.start(0.5, now=False)
    if until_stdin_closes:
        Thread(target=_wait_for_stdin, args=(reactor,), daemon=True).start()
    reactor.callWhenRunning(ready)
    reactor.run()


def _wait_for_stdin(reactor: Any) -> None:
    """Stop the reactor when standard input ends."""
    while os.read(0, 4096):
        pass
    reactor.callFromThread(_stop, reactor)


def _stop(reactor: Any) -> None:
    """Stop the reactor, unless a signal has already stopped it."""
    with suppress(ReactorNotRunning):
        reactor.stop()


def _reactor() -> Any:
    """Return Twisted's reactor, imported here because importing it installs it."""
    from twisted.internet import reactor

    return reactor
