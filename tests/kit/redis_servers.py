"""Runs Redis servers for tests, each a process with its own loopback port and folder."""

from __future__ import annotations

import os
import shutil
import signal
import socket
import subprocess
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from time import monotonic, sleep
from typing import Any

import pytest
from redis import Redis
from redis.crc import key_slot
from redis.exceptions import RedisError

from crawlprio.plugins.shared.connection import Client, connect

N_SLOTS = 16384


def free_port() -> int:
    """Return a port that is free on the loopback interface."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def redis_program() -> str:
    """Return the path of redis-server; without it, skip the test, but fail in CI."""
    found = shutil.which("redis-server")
    if found is None:
        reason = "redis-server is not installed (Debian: apt-get install redis-server)"
        if os.environ.get("CI") or os.environ.get("CRAWLPRIO_NEEDS_REDIS"):
            pytest.fail(reason)
        pytest.skip(reason)
    return found


def free_cluster_port() -> int:
    """Return a free port for a cluster node, which also listens 10,000 above it."""
    while True:
        port = free_port()
        with socket.socket() as probe, suppress(OSError, OverflowError):
            probe.bind(("127.0.0.1", port + 10_000))
            return port


class RedisServer:
    """A server that a test can start, kill and restart; its data are in `folder`."""

    def __init__(self, folder: Path, *options: str) -> None:
        self.folder = folder
        folder.mkdir(exist_ok=True)
        self.port = free_cluster_port() if "--cluster-enabled" in options else free_port()
        self.url = f"redis://127.0.0.1:{self.port}/0"
        self._line = [
            *(redis_program(), "--port", str(self.port), "--bind", "127.0.0.1"),
            *("--dir", str(folder), "--save", "", "--loglevel", "warning", *options),
        ]
        self.nodes = [self]
        self._process: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        """Start the server and wait until it answers."""
        until = monotonic() + 60.0
        with self.client() as client:
            while True:
                if self._process is None or self._process.poll() is not None:
                    # It ends if a connection of another process has its port just then.
                    self._process = subprocess.Popen(self._line, stdout=subprocess.DEVNULL)
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
        """Kill the server with SIGKILL."""
        if self._process is not None:
            self._process.kill()
            self._process.wait()
            self._process = None

    def client(self) -> Redis:
        return Redis.from_url(self.url)


class ClusterOfServers:
    """Three nodes of a Redis Cluster, each with a third of the slots.

    It has those methods of `RedisServer` that do not harm it.
    """

    def __init__(self, folder: Path, *options: str) -> None:
        self.nodes = []
        for name in ("one", "two", "three"):
            self.nodes.append(
                RedisServer(
                    folder / name,
                    *("--cluster-enabled", "yes", "--cluster-node-timeout", "2000", *options),
                )
            )
        addresses = (f"127.0.0.1:{node.port}" for node in self.nodes)
        self.url = f"redis+cluster://{','.join(addresses)}"

    def start(self) -> None:
        """Start all nodes and join them; wait until each knows that all slots are served."""
        for node in self.nodes:
            node.start()
        bounds = [N_SLOTS * at // len(self.nodes) for at in range(len(self.nodes) + 1)]
        for at, node in enumerate(self.nodes):
            with node.client() as client:
                slots = range(bounds[at], bounds[at + 1])
                client.execute_command("CLUSTER ADDSLOTS", *slots)
                client.execute_command("CLUSTER SET-CONFIG-EPOCH", at + 1)
                client.execute_command("CLUSTER MEET", "127.0.0.1", self.nodes[0].port)
        until = monotonic() + 60.0
        for node in self.nodes:
            with node.client() as client:
                while True:
                    facts = client.execute_command("CLUSTER INFO")
                    if facts["cluster_state"] == "ok" and facts["cluster_known_nodes"] == "3":
                        break
                    assert monotonic() < until, "the cluster does not form"
                    sleep(0.05)

    def kill(self) -> None:
        for node in self.nodes:
            node.kill()

    def client(self) -> Client:
        return connect(self.url, {})

    def owner(self, key: str) -> int:
        """Return the index of the node that serves a key's slot."""
        with self.client() as client:
            port = client.get_node_from_key(key).port
        return [node.port for node in self.nodes].index(port)


def migrate_slot(cluster: ClusterOfServers, key: str, each: Callable[[int], object]) -> int:
    """Move the slot of a key to the next node, as `redis-cli --cluster reshard` does.

    Keys move ten at a time, after each of which `each` is called with the number moved so far.
    Return that number.
    """
    slot = key_slot(key.encode())
    at = cluster.owner(key)
    source, target = cluster.nodes[at], cluster.nodes[(at + 1) % len(cluster.nodes)]
    n_moved = 0
    with source.client() as old, target.client() as new:
        old_id, new_id = (client.execute_command("CLUSTER MYID").decode() for client in (old, new))
        new.execute_command("CLUSTER SETSLOT", slot, "IMPORTING", old_id)
        old.execute_command("CLUSTER SETSLOT", slot, "MIGRATING", new_id)
        while keys := old.execute_command("CLUSTER GETKEYSINSLOT", slot, 10):
            command = ("MIGRATE", "127.0.0.1", target.port, "", 0, 5000, "KEYS", *keys)
            old.execute_command(*command)
            n_moved += len(keys)
            each(n_moved)
        for client in (new, old):
            client.execute_command("CLUSTER SETSLOT", slot, "NODE", new_id)
    return n_moved


@contextmanager
def sentinel_of(primary: RedisServer, folder: Path) -> Iterator[str]:
    """Run a sentinel that watches a server and its replicas; yield its address."""
    port = free_port()
    settings = folder / "sentinel.conf"
    settings.write_text(
        f"port {port}\nbind 127.0.0.1\ndir {folder}\n"
        f"sentinel monitor crawls 127.0.0.1 {primary.port} 1\n"
        "sentinel down-after-milliseconds crawls 1000\n"
        "sentinel failover-timeout crawls 5000\n"
    )
    process = subprocess.Popen(
        [redis_program(), str(settings), "--sentinel"], stdout=subprocess.DEVNULL
    )
    try:
        client = connect(f"redis://127.0.0.1:{port}", {})
        until = monotonic() + 30.0
        while True:
            with suppress(RedisError):
                if client.execute_command("SENTINEL", "REPLICAS", "crawls"):
                    break
            assert monotonic() < until, "the sentinel finds no replica"
            sleep(0.1)
        yield f"127.0.0.1:{port}"
    finally:
        process.kill()
        process.wait()


@pytest.fixture(scope="session")
def shared_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RedisServer]:
    """A server for all tests that do not harm it."""
    server = RedisServer(tmp_path_factory.mktemp("redis"))
    server.start()
    yield server
    server.kill()


@pytest.fixture(scope="session")
def shared_cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ClusterOfServers]:
    """A cluster for all tests that do not harm it."""
    cluster = ClusterOfServers(tmp_path_factory.mktemp("cluster"))
    try:
        cluster.start()
        yield cluster
    finally:
        cluster.kill()


@pytest.fixture
def redis_cluster(shared_cluster: ClusterOfServers) -> ClusterOfServers:
    """The shared cluster, emptied."""
    return _emptied(shared_cluster)


@pytest.fixture
def redis_server(shared_server: RedisServer) -> RedisServer:
    """The shared server, emptied."""
    return _emptied(shared_server)


def _emptied(server: Any) -> Any:
    for node in server.nodes:
        with node.client() as client:
            client.flushall()
    return server
