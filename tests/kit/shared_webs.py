"""Demo webs that are served once for all crawls in this process.

Starting a server takes 1.8 seconds of processor time, and crawling a small web 0.3.
"""

from __future__ import annotations

import atexit
import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from crawlprio.demo.server import LoopbackServer


@cache
def _running(pages: int, sites: int, seed: int) -> tuple[LoopbackServer, Path]:
    """Return a server and its log."""
    handle, log = tempfile.mkstemp(suffix=".jsonl")
    os.close(handle)
    server = LoopbackServer(pages=pages, sites=sites, seed=seed, log=log).start()
    atexit.register(os.unlink, log)
    atexit.register(server.stop)
    return server, Path(log)


class SharedServer(LoopbackServer):
    """A server of a demo web for one crawl, which keeps serving; its log is that crawl's part."""

    def __init__(self, *, log: str | Path | None = None, **web: Any) -> None:
        super().__init__()
        self._running, self._all_fetches = _running(web["pages"], web["sites"], web["seed"])
        self._log = log
        self._begin = 0

    def start(self) -> LoopbackServer:
        served = self._running
        self.port, self.n_pages = served.port, served.n_pages
        self.seeds, self.hosts = served.seeds, served.hosts
        self._begin = self._all_fetches.stat().st_size
        return self

    def stop(self) -> None:
        # A fetch is in the log before its answer is sent.
        if self._log is not None:
            Path(self._log).write_bytes(self._all_fetches.read_bytes()[self._begin :])


@contextmanager
def shared_webs() -> Iterator[None]:
    """Serve the demo web of all crawls inside by one server."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("crawlprio.live.virtual.LoopbackServer", SharedServer)
        yield
