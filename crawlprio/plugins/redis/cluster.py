"""Redis Cluster: its client, and the node of each shard."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from typing import Any

from redis.cluster import ClusterNode, RedisCluster
from redis.exceptions import ConnectionError as NoConnection
from redis.exceptions import RedisClusterException, RedisError

from crawlprio.plugins.redis.scripts import Argument, Client

CLUSTER = "redis+cluster://"
"""The scheme of a cluster's URL."""


_Base: Any = RedisCluster
_Node: Any = ClusterNode


class ClusterClient(_Base):
    """redis-py's cluster client, raising the same errors as its client of a single server."""

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
    """Return a client of a cluster; it connects at once.

    Parameters
    ----------
    url
        Some nodes of the cluster: `redis+cluster://HOST:PORT[,HOST:PORT...]`.
    chosen
        Arguments of redis-py's client.

    Raises
    ------
    ValueError, TypeError
        If the URL or an argument is invalid.
    RedisError
        If no node answers.
    """
    addresses, _, database = url.removeprefix(CLUSTER).partition("/")
    if database not in ("", "0"):
        raise ValueError("a cluster has only database 0")
    if "@" in addresses:
        raise ValueError("its addresses have a password")
    nodes = []
    for address in addresses.split(","):
        host, _, port = address.rpartition(":")
        nodes.append(_Node(host.strip("[]"), int(port)))
    return ClusterClient(startup_nodes=nodes, **chosen)


def node_for(client: Client, prefix: str) -> Client:
    """Return a client of the node that serves a prefix, according to the last known topology.

    Raises
    ------
    RedisError
        If no node serves it.
    """
    if not isinstance(client, ClusterClient):
        return client
    try:
        return client.get_redis_connection(client.get_node_from_key(prefix))
    except (RedisClusterException, AttributeError) as error:
        raise NoConnection(f"no node of the cluster serves {prefix} ({error})") from error


def servers(client: Client) -> list[Client]:
    """Return a client of each primary."""
    if not isinstance(client, ClusterClient):
        return [client]
    return [client.get_redis_connection(node) for node in client.get_primaries()]


def refresh_topology(client: Client) -> None:
    """Ask a cluster's nodes which of them serves which slots."""
    if isinstance(client, ClusterClient):
        with suppress(RedisError, RedisClusterException):
            client.nodes_manager.initialize()


def script_keys(prefix: str) -> tuple[Argument, ...]:
    """Return the keys to pass to a script.

    The second one never exists. While the slot is migrated, Redis therefore refuses the call with
    TRYAGAIN before the script begins, on the source node and on the target, so no script runs with
    part of its keys missing.
    """
    return 2, prefix, f"{prefix}:absent"
