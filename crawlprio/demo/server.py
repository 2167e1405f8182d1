"""The loopback server, a process of its own: an HTTP proxy on 127.0.0.1 that answers from a web.

It never makes a connection itself, so no crawl of the demo can reach a network.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
import threading
from collections.abc import Mapping
from contextlib import AbstractContextManager, nullcontext, suppress
from pathlib import Path
from threading import Thread
from time import monotonic, sleep
from typing import Any, TextIO

from twisted.internet.error import CannotListenError, ReactorNotRunning
from twisted.internet.task import LoopingCall
from twisted.web import http

from crawlprio.demo import Answer, Web, text_answer
from crawlprio.errors import ConfigError, CrawlprioError
from crawlprio.safe_files import open_file

STARTUP_SECONDS = 120.0
"""Time to start in: large recordings take a while to index."""

_SCRIPT = (  # imports as this process does, which may be a zipapp
    "import json, sys; sys.path[:] = json.loads(sys.argv.pop()); "
    "from crawlprio.demo.server import main; sys.exit(main())"
)


class LoopbackServer:
    """A context manager that serves a web on 127.0.0.1 from a child process.

    It serves a demo web of some size and seed, or a recording: a WARC file or a crawl store. Port 0
    takes any free one. `log` gets one line of JSON per request. Once it has started, `port`,
    `seeds`, `n_pages` and `hosts` say what is served where. Without `with`, use `start` and `stop`.
    The child also ends when this process ends, however that happens.
    """

    def __init__(
        self,
        *,
        pages: int = 20_000,
        sites: int = 200,
        seed: int = 0,
        recording: str | Path | None = None,
        log: str | Path | None = None,
        port: int = 0,
    ) -> None:
        self.port = port
        self.seeds: list[str] = []
        self.hosts: list[str] = []
        self.n_pages = 0
        of_web = {"pages": pages, "sites": sites, "seed": seed, "recording": recording}
        self._asked = json.dumps({**of_web, "log": log, "port": port}, default=str)
        self._process: subprocess.Popen[bytes] | None = None

    @property
    def address(self) -> str:
        """`127.0.0.1:PORT`, the value for `CRAWLPRIO_LOOPBACK`."""
        return f"127.0.0.1:{self.port}"

    @property
    def pid(self) -> int | None:
        """The process id while the server runs, or None."""
        return None if self._process is None else self._process.pid

    def start(self) -> LoopbackServer:
        """Start the server; return once it answers, or raise its message as a CrawlprioError."""
        if self._process is not None:
            return self
        with tempfile.TemporaryFile() as errors:
            process = subprocess.Popen(
                # -P: without it, Python would import from the working folder first.
                [sys.executable, "-P", "-c", _SCRIPT, self._asked, json.dumps(sys.path)],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=errors,
                # Shield the server from Ctrl-C: the crawl needs it to shut down gracefully.
                start_new_session=True,
            )
            self._process = process
            try:
                line = self._ready_line(process)
                if not line:
                    process.wait()
                    errors.seek(0)
                    printed = errors.read().decode(errors="replace").strip().splitlines()
                    raise CrawlprioError(
                        printed[-1] if printed else "The loopback server did not start."
                    )
                served = json.loads(line)
            except BaseException:
                self.stop()
                raise
        self.port, self.n_pages = served["port"], served["pages"]
        self.seeds, self.hosts = served["seeds"], served["hosts"]
        return self

    def stop(self) -> None:
        """Stop the server and return once it is gone; a second call does nothing."""
        process, self._process = self._process, None
        if process is None:
            return
        assert process.stdin is not None
        assert process.stdout is not None
        process.terminate()
        process.stdin.close()
        try:
            process.wait(5.0)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
        process.stdout.close()

    def __enter__(self) -> LoopbackServer:
        return self.start()

    def __exit__(self, *error: object) -> None:
        self.stop()

    def _ready_line(self, process: subprocess.Popen[bytes]) -> str:
        """Return the line that says what is served; empty if the process ended instead."""
        assert process.stdout is not None
        overdue = threading.Timer(STARTUP_SECONDS, process.kill)
        overdue.start()
        try:
            return process.stdout.readline().decode().strip()
        finally:
            overdue.cancel()


class _ProxyRequest(http.Request):
    """A request to the proxy, answered from the web after the answer's delay."""

    _factory: LoopbackFactory
    _fetch: dict[str, Any]
    _call: Any = None

    def process(self) -> None:
        factory = self._factory = self.channel.factory
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
        log = self._factory.fetch_log
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


class _ProxyChannel(http.HTTPChannel):
    requestFactory = _ProxyRequest  # noqa: N815


class LoopbackFactory(http.HTTPFactory):
    """Serves one web on any number of connections, which are kept alive without limit.

    `fetch_log` gets `{"host", "url", "start", "end", "status", "bytes"}` for each request, as a
    line of JSON, with times by `time.monotonic`; status 0 means that the client hung up first.
    """

    protocol: Any = _ProxyChannel

    def __init__(self, web: Web, fetch_log: TextIO | None) -> None:
        super().__init__()
        self.timeOut = None
        self.web = web
        self.fetch_log = fetch_log
        self.hosts = frozenset((*web.hosts, "127.0.0.1", "localhost"))

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
    Thread(target=_wait_for_stdin, args=(parent,), daemon=True).start()
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
    reactor.callWhenRunning(print, line, flush=True)
    reactor.run()


def _wait_for_stdin(parent: int) -> None:
    """Stop the reactor when standard input ends, or the process if the parent is gone by then."""
    while os.read(0, 4096):
        pass
    reactor = _reactor()
    while not reactor.running:
        if os.getppid() != parent:
            os._exit(0)
        sleep(0.1)
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
