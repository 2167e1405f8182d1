"""Runs Redis servers for tests, each a process with its own loopback port and folder."""

import os
import shutil
import socket
import subprocess
from contextlib import contextmanager, suppress

import pytest
from forked import running
from redis import Redis
from redis.crc import key_slot
from redis.exceptions import RedisError
from waiting import until

from crawlprio.plugins.shared.connection import connect


def free_port():
    """Return a free port; that 10,000 above it, where a node of a cluster also listens, is too."""
    while True:
        with socket.socket() as one, socket.socket() as other, suppress(OSError, OverflowError):
            one.bind(("127.0.0.1", 0))
            port = one.getsockname()[1]
            other.bind(("127.0.0.1", port + 10_000))
            return port


def redis_program():
    """Return the path of redis-server; without it, skip the test, but fail in CI."""
    found = shutil.which("redis-server")
    if found is None:
        reason = "redis-server is not installed (Debian: apt-get install redis-server)"
        if os.environ.get("CI") or os.environ.get("CRAWLPRIO_NEEDS_REDIS"):
            pytest.fail(reason)
        pytest.skip(reason)
    return found


class RedisServer:
    """A server that a test can start, kill and restart; its data are in `folder`."""

    def __init__(self, folder, *options):
        self.folder = folder
        folder.mkdir(exist_ok=True)
        self.port = free_port()
        self.url = f"redis://127.0.0.1:{self.port}/0"
        self._line = [
            *(redis_program(), "--port", str(self.port), "--bind", "127.0.0.1"),
            *("--dir", str(folder), "--save", "", "--loglevel", "warning", *options),
        ]
        self.nodes = [self]
        self._process = None

    def start(self):
        """Start the server and wait until it answers."""

        def answers():
            if self._process is None or self._process.poll() is not None:
                # It ends if a connection of another process has its port just then.
                self._process = subprocess.Popen(self._line, stdout=subprocess.DEVNULL)
            with suppress(RedisError):
                return client.ping()

        with self.client() as client:
            until(answers)

    def send(self, number):
        self._process.send_signal(number)

    def kill(self):
        if self._process is not None:
            self._process.kill()
            self._process.wait()
            self._process = None

    def client(self):
        return Redis.from_url(self.url)


class ClusterOfServers:
    """Three nodes of a Redis Cluster, each with a third of the slots.

    It has those methods of `RedisServer` that do not harm it.
    """

    def __init__(self, folder):
        options = "--cluster-enabled", "yes", "--cluster-node-timeout", "2000"
        self.nodes = [RedisServer(folder / name, *options) for name in ("one", "two", "three")]
        self._addresses = [f"127.0.0.1:{node.port}" for node in self.nodes]
        self.url = f"redis+cluster://{','.join(self._addresses)}"

    def start(self):
        """Start all nodes and join them; wait until each knows that all slots are served."""
        for node in self.nodes:
            node.start()
        join = ["redis-cli", "--cluster", "create", *self._addresses, "--cluster-yes"]
        subprocess.run(join, check=True, stdout=subprocess.DEVNULL)
        for node in self.nodes:
            with node.client() as client:
                until(lambda c=client: c.execute_command("CLUSTER INFO")["cluster_state"] == "ok")

    def kill(self):
        for node in self.nodes:
            node.kill()

    def client(self):
        return connect(self.url, {})

    def owner(self, key):
        """Return the index of the node that serves a key's slot."""
        with self.client() as client:
            port = client.get_node_from_key(key).port
        return [node.port for node in self.nodes].index(port)


def migrate_slot(cluster, key, each):
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
def sentinel_of(primary, folder):
    """Run a sentinel that watches a server and its replicas; yield its address."""
    port = free_port()
    settings = folder / "sentinel.conf"
    settings.write_text(
        f"port {port}\nbind 127.0.0.1\ndir {folder}\n"
        f"sentinel monitor crawls 127.0.0.1 {primary.port} 1\n"
        "sentinel down-after-milliseconds crawls 1000\n"
        "sentinel failover-timeout crawls 5000\n"
    )
    line = [redis_program(), str(settings), "--sentinel"]
    with running(line, stdout=subprocess.DEVNULL):
        client = connect(f"redis://127.0.0.1:{port}", {})

        def knows_replica():
            with suppress(RedisError):
                return client.execute_command("SENTINEL", "REPLICAS", "crawls")

        until(knows_replica)
        yield f"127.0.0.1:{port}"


@pytest.fixture(scope="session")
def shared_server(tmp_path_factory):
    """A server for all tests that do not harm it."""
    yield from _run(RedisServer(tmp_path_factory.mktemp("redis")))


@pytest.fixture(scope="session")
def shared_cluster(tmp_path_factory):
    """A cluster for all tests that do not harm it."""
    yield from _run(ClusterOfServers(tmp_path_factory.mktemp("cluster")))


def _run(server):
    try:
        server.start()
        yield server
    finally:
        server.kill()


@pytest.fixture
def redis_cluster(shared_cluster):
    """The shared cluster, emptied."""
    return _emptied(shared_cluster)


@pytest.fixture
def redis_server(shared_server):
    """The shared server, emptied."""
    return _emptied(shared_server)


def _emptied(server):
    for node in server.nodes:
        node.client().flushall()
    return server
