"""Connections to Redis: one server, sentinels or a cluster; and its transient errors."""

from __future__ import annotations

import logging
import re
from collections.abc import Callable, Mapping
from contextlib import suppress
from time import monotonic, sleep
from typing import Any, TypeAlias, TypeVar

from redis import Redis
from redis.backoff import NoBackoff
from redis.cluster import ClusterNode, RedisCluster
from redis.exceptions import (
    AskError,
    AuthenticationError,
    ClusterError,
    OutOfMemoryError,
    ReadOnlyError,
    RedisClusterException,
    RedisError,
    TryAgainError,
)
from redis.exceptions import ConnectionError as NoConnection
from redis.exceptions import TimeoutError as TookTooLong
from redis.retry import Retry
from redis.sentinel import Sentinel

from crawlprio.errors import ConfigError, CrawlprioError
from crawlprio.settings_table.config import read_setting

Client: TypeAlias = Any
"""A client of redis-py, whose own annotations contradict each other."""

_TIMEOUT = 5.0
"""Seconds after which a silent server counts as unreachable."""

START_SECONDS = 60.0
"""Seconds for which a worker that starts waits for the server."""

_SENTINELS, _CLUSTER = "redis+sentinel://", "redis+cluster://"

_USER = re.compile(r"\A((?:rediss?|unix|redis\+\w+):/*)?.*@", re.DOTALL)
_NO_PORT = re.compile(r"((?:://|,)[^/:,\[]*):(?!\d+(?:[/,]|\Z))[^/,]*")
"""What stands in a URL before a host, and after one where its port should be."""

_TRANSIENT = ("BUSY", "MISCONF", "NOREPLICAS", "UNBLOCKED")
"""Codes of transient errors that have no class in redis-py."""

logger = logging.getLogger("crawlprio")

_T = TypeVar("_T")
_Base: Any = RedisCluster
_Node: Any = ClusterNode


class Unavailable(ConfigError):
    """The server does not answer."""


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


def connect(url: str, parameters: Mapping[str, Any]) -> Client:
    """Return a client. For a single server it connects lazily, for a cluster at once.

    `url`: a URL of redis-py (`redis://`, `rediss://`, `unix://`);
    `redis+sentinel://HOST:PORT[,HOST:PORT...]/SERVICE[/DATABASE]`, to ask sentinels for the primary
    at each new connection, and so to follow a failover; or
    `redis+cluster://HOST:PORT[,HOST:PORT...]`, some nodes of a cluster. `parameters`: arguments of
    redis-py's client. Raises `ConfigError` if redis-py rejects one of them, or no node of a cluster
    answers.
    """
    chosen = {
        "socket_timeout": _TIMEOUT,
        "socket_connect_timeout": _TIMEOUT,
        "retry": Retry(NoBackoff(), 0),
        **parameters,
        "decode_responses": False,
    }
    try:
        if url.startswith(_SENTINELS):
            return _sentinel_client(url, chosen)
        if url.startswith(_CLUSTER):
            return _cluster_client(url, chosen)
        client: Client = Redis
        return client.from_url(url, **chosen)
    except (ValueError, TypeError) as error:
        # Some errors quote the part of the URL that they are about.
        reason = f" ({error})" if isinstance(error, TypeError) or shown_url(url) == url else ""
        names = f" with REDIS_PARAMS {', '.join(map(str, parameters))}" if parameters else ""
        raise ConfigError(
            f"REDIS_URL is {shown_url(url)!r}{names}, which redis-py rejects{reason}; give a URL "
            "such as redis://localhost:6379/0, redis+sentinel://HOST:PORT,HOST:PORT/SERVICE/0 or "
            "redis+cluster://HOST:PORT,HOST:PORT, and the password of the last two in REDIS_PARAMS."
        ) from None
    except RedisError as error:
        raise _no_server(url, error) from None


def client_of(settings: Any) -> Client:
    """Return a client of the server that settings name."""
    return connect(read_setting(settings, "REDIS_URL"), read_setting(settings, "REDIS_PARAMS"))


def checked_client(settings: Any) -> Client:
    """Return a client of the server that settings name; raise `ConfigError` if it is unusable."""
    client = client_of(settings)
    check_server(client, read_setting(settings, "REDIS_URL"))
    return client


def when_available(action: Callable[[], _T]) -> _T:
    """Retry an action while the server is away, at most `START_SECONDS`; raise `CrawlprioError`."""
    until, has_warned = monotonic() + START_SECONDS, False
    while True:
        try:
            return action()
        except (Unavailable, RedisError) as error:
            refusal = failure(error) if isinstance(error, RedisError) else error
            is_passing = not isinstance(error, RedisError) or is_transient(error)
            if not is_passing or monotonic() >= until:
                raise refusal from None
            if not has_warned:
                has_warned = True
                logger.warning("%s Waiting for up to %g seconds.", refusal, START_SECONDS)
        sleep(0.5)


def check_server(client: Client, url: str) -> None:
    """Refuse a server that is unreachable, too old, or may evict keys of the crawl."""
    try:
        for server in servers(client):
            _check_facts(server.info(), url)
    except TypeError as error:  # parameters are first used for a connection
        raise ConfigError(
            f"REDIS_PARAMS are not those of redis-py's client ({error}); correct them."
        ) from None
    except RedisError as error:
        raise _no_server(url, error) from None


def _check_facts(facts: Mapping[str, Any], url: str) -> None:
    """Refuse a server by its INFO."""
    version = str(facts.get("redis_version", "0"))
    if tuple(int(part) for part in version.split(".")[:2]) < (6, 2):
        raise ConfigError(
            f"The server at {shown_url(url)} is Redis {version}; upgrade it to 6.2 or later."
        )
    policy = str(facts.get("maxmemory_policy", "noeviction"))
    if policy.startswith("allkeys"):
        raise ConfigError(
            f"The server at {shown_url(url)} has maxmemory-policy {policy}, which may evict parts "
            "of the frontier; set it to noeviction."
        )


def shown_url(url: str) -> str:
    """Return REDIS_URL for messages, without a password, however malformed the URL is."""
    without_user = _USER.sub(r"\1", url).partition("?")[0]
    return _NO_PORT.sub(r"\1", without_user)


def _no_server(url: str, error: RedisError) -> ConfigError:
    reason = str(error).rstrip(".")
    if not is_transient(error):
        return ConfigError(
            f"REDIS_URL is {shown_url(url)!r}, but the server there cannot be used ({reason}); "
            "correct the URL, the password, or what the server permits."
        )
    return Unavailable(
        f"REDIS_URL is {shown_url(url)!r}, but no server answers there ({reason}); start one or "
        "correct the URL."
    )


def _addresses(listed: str) -> list[tuple[str, int]]:
    """Return the addresses of sentinels or nodes; ValueError if they are none."""
    if "@" in listed:
        raise ValueError("its addresses have a password")
    split = (address.rpartition(":") for address in listed.split(","))
    return [(host.strip("[]"), int(port)) for host, _, port in split]


def _sentinel_client(url: str, chosen: dict[str, Any]) -> Client:
    """Return a client of a service's primary, as named by sentinels."""
    addresses, _, path = url.removeprefix(_SENTINELS).partition("/")
    service, _, database = path.partition("/")
    if not service:
        raise ValueError("the service is missing")
    timeouts = {name: chosen[name] for name in ("socket_timeout", "socket_connect_timeout")}
    make: Client = Sentinel
    sentinel = make(_addresses(addresses), sentinel_kwargs=timeouts)
    client: Client = sentinel.master_for(service, **{"db": int(database or 0), **chosen})
    return client


def _cluster_client(url: str, chosen: Mapping[str, Any]) -> Client:
    """Return a client of a cluster; it connects at once."""
    addresses, _, database = url.removeprefix(_CLUSTER).partition("/")
    if database not in ("", "0"):
        raise ValueError("a cluster has only database 0")
    nodes = [_Node(host, port) for host, port in _addresses(addresses)]
    return ClusterClient(startup_nodes=nodes, **chosen)


def is_cluster(client: Client) -> bool:
    """Return whether a call can reach only keys of the same slot."""
    return isinstance(client, ClusterClient)


def servers(client: Client) -> list[Client]:
    """Return a client of each primary."""
    if not is_cluster(client):
        return [client]
    return [client.get_redis_connection(node) for node in client.get_primaries()]


def refresh_topology(client: Client) -> None:
    """Ask a cluster's nodes which of them serves which slots."""
    if is_cluster(client):
        with suppress(RedisError, RedisClusterException):
            client.nodes_manager.initialize()


def is_transient(error: RedisError) -> bool:
    """Return whether an error may pass: the server is down, starting, full or a replica."""
    if isinstance(error, AuthenticationError):
        return False
    passing = (
        *(NoConnection, TookTooLong, OutOfMemoryError, ReadOnlyError),
        # The cluster has no node for the slot, or is migrating it.
        *(ClusterError, AskError, TryAgainError),
    )
    return isinstance(error, passing) or str(error).startswith(_TRANSIENT)


def failure(error: RedisError) -> CrawlprioError:
    """Return an error of Redis as one sentence."""
    return CrawlprioError(f"The frontier in Redis is unusable: {str(error).rstrip('.')}.")
