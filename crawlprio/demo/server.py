"""The loopback server: an HTTP proxy on 127.0.0.1 that answers every request from a web.

It never makes a connection itself, so no crawl of the demo can reach a network.
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Mapping
from contextlib import AbstractContextManager, nullcontext, suppress
from threading import Thread
from time import monotonic
from typing import Any, TextIO

from twisted.internet.error import CannotListenError, ReactorNotRunning
from twisted.internet.task import LoopingCall
from twisted.web import http

from crawlprio.demo import Answer, Web, text_answer
from crawlprio.errors import ConfigError, CrawlprioError
from crawlprio.outside.opening import open_file


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


def main() -> int:
    """Serve one web, described by the JSON of `LoopbackServer`, as `python -m` with this module.

    What is served is printed as JSON once the server answers. It ends on SIGTERM or SIGINT, and
    when standard input closes or the parent process is gone, whichever is seen first.
    """
    parent = os.getppid()
    try:
        asked = json.loads(sys.argv[1])
        web = _web(asked)
        with _log(asked["log"]) as fetch_log:
            port = listen(web, asked["port"], fetch_log)
            served = {"pages": len(web), "hosts": list(web.hosts), "seeds": list(web.seeds)}
            serve(json.dumps({"port": port, **served}), parent)
    except CrawlprioError as error:
        print(error, file=sys.stderr)
        return 2
    except KeyboardInterrupt:
        return 130
    return 0


def _web(asked: Mapping[str, Any]) -> Web:
    """Return the web to serve; import no more than it needs."""
    if asked["recording"] is None:
        from crawlprio.demo.web import DemoWeb

        return DemoWeb(asked["pages"], asked["sites"], asked["seed"])
    from crawlprio.demo.recordings import open_web

    return open_web(asked["recording"])


def _log(path: str | None) -> AbstractContextManager[TextIO | None]:
    """Open the log of requests, if there is one."""
    try:
        return nullcontext() if path is None else open_file(path, "w", buffering=1)
    except OSError as error:
        raise ConfigError(f"{path} cannot be written ({error.strerror}).") from None


def listen(web: Web, port: int, fetch_log: TextIO | None = None) -> int:
    """Listen on 127.0.0.1 and return the port; 0 is any free one."""
    try:
        listening = _reactor().listenTCP(
            port, LoopbackFactory(web, fetch_log), backlog=512, interface="127.0.0.1"
        )
    except CannotListenError as error:
        raise ConfigError(
            f"Cannot listen on port {port} of 127.0.0.1 ({error.socketError.strerror}); "
            "set CRAWLPRIO_DEMO_PORT to another, or to 0 for any free one."
        ) from error
    listened: int = listening.getHost().port
    return listened


def serve(line: str, parent: int) -> None:
    """Print a line once requests are answered and signals handled; serve until told to stop."""
    reactor = _reactor()

    def end_without_parent() -> None:
        if os.getppid() != parent:
            _stop(reactor)

    LoopingCall(end_without_parent).start(0.5, now=False)
    Thread(target=_wait_for_stdin, args=(reactor,), daemon=True).start()
    reactor.callWhenRunning(print, line, flush=True)
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


if __name__ == "__main__":
    sys.exit(main())
