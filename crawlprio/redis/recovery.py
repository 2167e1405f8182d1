"""Delivering messages between shards when no worker is left to do it."""

from __future__ import annotations

import os
import socket
from time import time
from typing import Any
from uuid import uuid4

from crawlprio.redis.cluster import node_for, script_keys
from crawlprio.redis.scripts import Argument, Client, load_scripts, script
from crawlprio.redis.shards import Shards

_MAX_MESSAGES = 50
"""Messages per call."""


def deliver_all(client: Client, shards: Shards) -> int:
    """Deliver the messages of dead workers; return how many there were.

    Raises
    ------
    RedisError
        If Redis fails.
    """
    load_scripts(client)
    callers = [_Caller(client, prefix) for prefix in shards.prefixes]
    n_delivered = 0
    for caller in callers:
        while client.zcount(f"{caller.prefix}:workers", "-inf", f"({time()!r}"):
            caller.call("lease", 0, "0", 0)
        while messages := caller.call("undelivered", _MAX_MESSAGES):
            for name, arguments in zip(messages[::2], messages[1::2], strict=True):
                if name.startswith(b"parts "):
                    for _ in range(max(int(arguments[0]), 1)):
                        caller.call("more", name.removeprefix(b"parts "))
                    continue
                callers[int(name.partition(b" ")[0])].call("deliver", *arguments)
                caller.call("delivered", name)
                n_delivered += 1
    for caller in callers:
        caller.leave()
    return n_delivered


class _Caller:
    """A minimal worker on one shard, which waits for each answer."""

    def __init__(self, client: Client, prefix: str) -> None:
        self._client = client
        self.prefix = prefix
        self._worker = uuid4().hex
        self._seq = 0

    def call(self, name: str, *arguments: Argument) -> list[Any]:
        self._seq += 1
        result: list[Any] = self._run("calls", self._seq, name, len(arguments), *arguments)[10]
        return result

    def leave(self) -> None:
        """Leave, so that no worker waits for this one's lease to expire."""
        name = f"{socket.gethostname()}:{os.getpid()}"
        run_id = str(node_for(self._client, self.prefix).info("server")["run_id"])
        self._run("heartbeat", self._seq + 1, "leave", name, run_id)

    def _run(self, name: str, *arguments: Argument) -> list[Any]:
        found: list[Any] = self._client.evalsha(
            script(name).sha, *script_keys(self.prefix), self._worker, *arguments
        )
        return found
