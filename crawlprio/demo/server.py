"""The loopback server: an HTTP proxy on 127.0.0.1 that answers every request itself, from a web.

It never connects anywhere, so that no crawl of the demo reaches a network.
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Callable
from contextlib import suppress
from threading import Thread
from typing import Any

from twisted.internet.error import CannotListenError, ReactorNotRunning
from twisted.internet.task import LoopingCall
from twisted.web import http

from crawlprio.demo.answers import Answer, Web, text_answer
from crawlprio.demo.fetches import CONTROL_HOST, FetchLog
from crawlprio.errors import ConfigError


class _ProxyRequest(http.Request):
    """One request to the proxy: answered from the web, after its delay."""

    channel_factory: LoopbackFactory
    _fetch: tuple[str, str, float]
    _call: Any = None

    def process(self) -> None:
        factory = self.channel_factory
        if self.method == b"CONNECT":
            self._reply(
                text_answer(405, "This server opens no tunnels; send the request in plain HTTP.\n")
            )
            return
        url = self._absolute_url()
        host = url.split("/", 3)[2].partition(":")[0].lower()
        if not self._is_proxied() and host not in factory.hosts:
            # A page in somebody's browser may point a name of its own at this server.
            self._reply(text_answer(421, f"This server has nothing of {host}.\n"))
            return
        if host == CONTROL_HOST:
            self._reply(factory.control(url))
            return
        self._fetch = (host, url, factory.fetches.start(host))
        answer = factory.answer(url)
        if answer.delay > 0:
            reactor: Any = factory.reactor
            self._call = reactor.callLater(answer.delay, self._reply_to_fetch, answer)
            self.notifyFinish().addErrback(self._hung_up)
        else:
            self._reply_to_fetch(answer)

    def _is_proxied(self) -> bool:
        """Whether it was asked as a proxy is, which no browser does by itself."""
        return b"://" in self.uri.partition(b"?")[0]

    def _absolute_url(self) -> str:
        """The URL asked for, with the scheme that the client says it stands for."""
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
        self.channel_factory.fetches.end(*self._fetch, answer.status, len(answer.body))

    def _hung_up(self, _: object) -> None:
        if self._call is not None:
            self._call.cancel()
            self.channel_factory.fetches.end(*self._fetch, 0, 0)

    def _reply(self, answer: Answer) -> None:
        self.setResponseCode(answer.status)
        headers = self.responseHeaders
        for name, text in answer.headers.items():
            headers.setRawHeaders(name.encode("latin-1"), [text.encode("utf-8")])
        headers.setRawHeaders(b"Content-Length", [b"%d" % len(answer.body)])
        self.write(answer.body)  # type: ignore[no-untyped-call]
        self.finish()  # type: ignore[no-untyped-call]


class LoopbackFactory(http.HTTPFactory):
    """Serves one web to any number of connections, kept alive without limit.

    Parameters
    ----------
    web
        What to serve.
    fetches
        Where requests are counted.
    """

    protocol: Any = http.HTTPChannel

    def __init__(self, web: Web, fetches: FetchLog) -> None:
        super().__init__()
        self.timeOut = None
        self.web = web
        self.fetches = fetches
        self.hosts = frozenset((*web.hosts, CONTROL_HOST, "127.0.0.1", "localhost"))

    def buildProtocol(self, addr: Any) -> Any:  # noqa: N802
        channel: Any = super().buildProtocol(addr)
        channel.requestFactory = self._request
        return channel

    def _request(self, *args: Any, **kwargs: Any) -> _ProxyRequest:
        request = _ProxyRequest(*args, **kwargs)
        request.channel_factory = self
        return request

    def log(self, request: object) -> None:
        """Write no access log of Twisted's kind."""

    def answer(self, url: str) -> Answer:
        """Return the web's answer, or status 500 with the reason on stderr if it raises."""
        try:
            return self.web.answer(url)
        except Exception as error:
            sys.stderr.write(f"{url}: {type(error).__name__}: {error}\n")
            return text_answer(500, "The web could not answer.\n")

    def control(self, url: str) -> Answer:
        """Return one of the server's own pages."""
        path = "/" + url.partition("://")[2].partition("/")[2]
        if path == "/summary":
            shown = self.fetches.summary()
        elif path == "/web":
            shown = {
                "pages": len(self.web),
                "hosts": list(self.web.hosts),
                "seeds": list(self.web.seeds),
            }
        else:
            return text_answer(404, "There are /summary and /web here.\n")
        return Answer(200, {"Content-Type": "application/json"}, json.dumps(shown).encode())


def listen(web: Web, port: int, fetches: FetchLog) -> int:
    """Listen on 127.0.0.1 and return the port; `serve` then answers.

    Parameters
    ----------
    port
        0 takes a free one.

    Raises
    ------
    ConfigError
        If the port cannot be had.
    """
    reactor = _reactor()
    try:
        listening = reactor.listenTCP(
            port, LoopbackFactory(web, fetches), backlog=512, interface="127.0.0.1"
        )
    except CannotListenError as error:
        raise ConfigError(
            f"Port {port} of 127.0.0.1 cannot be listened on ({error.socketError.strerror}); "
            "choose another with --port, or 0 for any free one."
        ) from error
    listened: int = listening.getHost().port
    return listened


def serve(
    ready: Callable[[], None], *, parent: int | None = None, until_stdin_closes: bool = False
) -> None:
    """Answer until SIGTERM or SIGINT, or until the parent process is gone.

    Parameters
    ----------
    ready
        Called once it answers and heeds signals.
    parent
        Process id of the parent as it was at start; by default, the present one.
    until_stdin_closes
        Also end when standard input does: the surest sign that whoever started it is gone.
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
    """Stop the reactor, which a signal may have stopped before."""
    with suppress(ReactorNotRunning):
        reactor.stop()


def _reactor() -> Any:
    """Twisted's reactor: importing it installs it, which whoever only imports this must not do."""
    from twisted.internet import reactor

    return reactor
