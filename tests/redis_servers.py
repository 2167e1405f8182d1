"""Redis servers for tests: processes of their own on free loopback ports, each with its folder."""

from __future__ import annotations

import os
import shutil
import signal
import socket
import subprocess
from collections.abc import Iterator
from pathlib import Path
from time import monotonic, sleep

import pytest
from redis import Redis
from redis.exceptions import RedisError


def free_port() -> int:
    """Return a port that is free on the loopback interface."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


class RedisServer:
    """A server that a test starts, kills and starts again; its data are in `folder`."""

    def __init__(self, folder: Path, *options: str) -> None:
        self.folder = folder
        self._options = options
        self.port = free_port()
        self.url = f"redis://127.0.0.1:{self.port}/0"
        self._process: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        """Start the server and wait until it answers."""
        program = shutil.which("redis-server")
        assert program is not None
        options = ["--port", str(self.port), "--bind", "127.0.0.1", "--dir", str(self.folder)]
        options += ["--save", "", "--loglevel", "warning", *self._options]
        self._process = subprocess.Popen([program, *options], stdout=subprocess.DEVNULL)
        until = monotonic() + 20.0
        with self.client() as client:
            while True:
                try:
                    client.ping()
                    return
                except RedisError:
                    assert monotonic() < until, "the server does not start"
                    sleep(0.02)

    def send(self, number: signal.Signals) -> None:
        """Send a signal to the server."""
        assert self._process is not None
        self._process.send_signal(number)

    def kill(self) -> None:
        """End the server as a power failure would end its process."""
        if self._process is not None:
            self._process.kill()
            self._process.wait()
            self._process = None

    def client(self) -> Redis:
        return Redis.from_url(self.url)


def require_redis() -> None:
    """Skip a test where no server is installed, but fail in CI."""
    if shutil.which("redis-server") is None:
        reason = "redis-server is not installed (Debian: apt-get install redis-server)"
        if os.environ.get("CI") or os.environ.get("CRAWLPRIO_NEEDS_REDIS"):
            pytest.fail(reason)
        pytest.skip(reason)


@pytest.fixture(scope="session")
def shared_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RedisServer]:
    """One server for all tests that do not harm it."""
    require_redis()
    server = RedisServer(tmp_path_factory.mktemp("redis"))
    server.start()
    yield server
    server.kill()


@pytest.fixture
def redis_server(shared_server: RedisServer) -> RedisServer:
    """That server, empty."""
    with shared_server.client() as client:
        client.flushall()
    return shared_server
