"""Delivering messages between shards when no worker is left to do it."""

from __future__ import annotations

from crawlprio.plugins.redis.caller import Caller
from crawlprio.plugins.redis.scripts import Client, load_scripts
from crawlprio.plugins.redis.shards import Shards

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
    callers = [Caller(client, prefix) for prefix in shards.prefixes]
    n_delivered = 0
    for caller in callers:
        n_workers = client.zcard(f"{caller.prefix}:workers")
        for _ in range(n_workers):
            caller.call("lease", 0, 0, "")  # takes over from one dead worker, if there is one
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
