"""A minimal worker, for commands that change a crawl."""

from __future__ import annotations

import os
import socket
from typing import Any
from uuid import uuid4

from redis.exceptions import RedisError

from crawlprio.plugins.redis.cluster import node_for, script_keys
from crawlprio.plugins.redis.scripts import Argument, Client, script

N_STATUS = 13
"""Values with which each answer begins, before the results of its calls."""


def worker_name() -> str:
    """Return the name of this process's workers, for people."""
    return f"{socket.gethostname()}:{os.getpid()}"


class Caller:
    """A worker on one shard that waits for each answer and holds no leases.

    The scripts must be loaded. Any method may raise RedisError.

    Attributes
    ----------
    worker
        Its identifier.
    """

    def __init__(self, client: Client, prefix: str) -> None:
        self._client = client
        self.prefix = prefix
        self.worker = uuid4().hex
        self._seq = 0
        self._heartbeat("renew")

    def call(self, name: str, *arguments: Argument) -> list[Any]:
        """Run one call; return its result."""
        result: list[Any] = self.run([name, len(arguments), *arguments], 1)[N_STATUS]
        return result

    def run(self, calls: list[Argument], n_calls: int) -> list[Any]:
        """Run calls, encoded as `calls.lua` expects them; return its reply."""
        try:
            reply = self._eval("calls", self._seq + 1, "", *calls)
        except RedisError as error:
            if not str(error).startswith("LAPSED"):
                raise
            self._heartbeat("renew")
            reply = self._eval("calls", self._seq + 1, "", *calls)
        self._seq += n_calls
        return reply

    def leave(self) -> None:
        """Leave, so that no worker waits for this one's lease to expire."""
        self._heartbeat("leave")

    def _heartbeat(self, action: str) -> None:
        run_id = str(node_for(self._client, self.prefix).info("server")["run_id"])
        self._eval("heartbeat", self._seq, "", action, worker_name(), run_id, 0)

    def _eval(self, name: str, *arguments: Argument) -> list[Any]:
        reply: list[Any] = self._client.evalsha(
            script(name).sha, *script_keys(self.prefix), self.worker, *arguments
        )
        return reply
