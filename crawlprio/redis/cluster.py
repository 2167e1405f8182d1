"""Redis Cluster: a client of it, and which of its servers has the keys of a shard."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from typing import Any

from redis.cluster import ClusterNode, RedisCluster
from redis.exceptions import ConnectionError as NoConnection
from redis.exceptions import RedisClusterException, RedisError

from crawlprio.redis.scripts import Argument, Client

CLUSTER = "redis+cluster://"
"""How the URL of a cluster begins."""


_Base: Any = RedisCluster
_Node: Any = ClusterNode


class ClusterClient(_Base):
    """redis-py's client of a cluster, whose errors are those of its client of one server."""

    def __init__(self, **parameters: Any) -> None:
        try:
            super().__init__(**parameters)
        except RedisClusterException as error:
            raise NoConnection(str(error)) from error

    def execute_command(self, *arguments: Any, **options: Any) -> Any:
        try:
            return super().execute_command(*arguments, **options)
        except RedisClusterException as error:
            raise NoConnection(str(error)) from error


def connect_cluster(url: str, chosen: Mapping[str, Any]) -> Client:
    """Return a client of the cluster that some of its nodes name; it connects at once.

    Parameters
    ----------
    url
        `redis+cluster://HOST:PORT[,HOST:PORT...]`
    chosen
        parameters of redis-py's client.

    Raises
    ------
    ValueError, TypeError
        if the URL or a parameter cannot be used.
    RedisError
        if no node answers.
    """
    addresses, _, database = url.removeprefix(CLUSTER).partition("/")
    if database not in ("", "0"):
        raise ValueError("a cluster has database 0 alone")
    nodes = []
    for address in addresses.split(","):
        host, _, port = address.rpartition(":")
        nodes.append(_Node(host.strip("[]"), int(port)))
    return ClusterClient(startup_nodes=nodes, **chosen)


def server_of(client: Client, prefix: str) -> Client:
    """Return a client of the one server that has the keys under a prefix, as far as is known.

    Raises
    ------
    RedisError
        if no server is known to have them.
    """
    if not isinstance(client, ClusterClient):
        return client
    try:
        return client.get_redis_connection(client.get_node_from_key(prefix))
    except (RedisClusterException, AttributeError) as error:
        raise NoConnection(f"no node of the cluster serves {prefix} ({error})") from error


def servers(client: Client) -> list[Client]:
    """Return a client of each server that keys may be on."""
    if not isinstance(client, ClusterClient):
        return [client]
    return [client.get_redis_connection(node) for node in client.get_primaries()]


def look_again(client: Client) -> None:
    """Ask the nodes of a cluster which of them has which keys by now."""
    if isinstance(client, ClusterClient):
        with suppress(RedisError, RedisClusterException):
            client.nodes_manager.initialize()


def keys_of(prefix: str) -> tuple[Argument, ...]:
    """Return the keys that a script is called with.

    The second one never exists. So a call of a slot that migrates is refused with TRYAGAIN before
    it begins, by the server that the slot leaves as well as by the one that it comes to, and no
    script finds some of its keys gone.
    """
    return 2, prefix, f"{prefix}:absent"
