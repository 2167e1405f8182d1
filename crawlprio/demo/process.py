"""The loopback server as a child process that is reliably started and stopped."""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
import threading
from pathlib import Path
from types import TracebackType

from crawlprio.errors import CrawlprioError

STARTUP_SECONDS = 120.0
"""Time to start in: large recordings take a while to index."""


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
        """Start the server and return once it answers; its own message is a CrawlprioError."""
        if self._process is not None:
            return self
        with tempfile.TemporaryFile() as errors:
            process = subprocess.Popen(
                # -P: without it, Python would import from the working folder first.
                [sys.executable, "-P", "-m", "crawlprio.demo.server", self._asked],
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

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
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
