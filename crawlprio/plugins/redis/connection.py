"""Connecting to Redis, and opening and deleting crawls there."""

from __future__ import annotations

import json
import logging
import re
from collections.abc import Callable, Mapping
from time import monotonic, sleep
from typing import Any, TypeVar
from uuid import uuid4

from redis import Redis
from redis.backoff import NoBackoff
from redis.exceptions import RedisError
from redis.retry import Retry
from redis.sentinel import Sentinel

from crawlprio.errors import ConfigError, CrawlprioError
from crawlprio.frontier.domain_shares import LATELY
from crawlprio.plugins.redis.cluster import CLUSTER, connect_cluster, script_keys, servers
from crawlprio.plugins.redis.counts import pack_counts
from crawlprio.plugins.redis.rules import Rules
from crawlprio.plugins.redis.scripts import Client, script
from crawlprio.plugins.redis.shards import Shards, crawl_of, prefix_of, store_shards
from crawlprio.settings_table.config import CrawlConfig
from crawlprio.web import budgets
from crawlprio.web.addresses import SeedAddresses
from crawlprio.web.budgets import claimable, silent_sites

LAYOUT = 5
"""Version of the keys and records in Redis; workers refuse a crawl with another version."""

MAX_ATTEMPTS = 3
"""Workers that may die holding a page before it becomes a dead letter."""

_TIMEOUT = 5.0
"""Seconds after which a silent server counts as unreachable."""


START_SECONDS = 60.0
"""Seconds for which a worker that starts waits for the server."""

_SENTINELS = "redis+sentinel://"

_USER = re.compile(r"\A((?:rediss?|unix|redis\+\w+):/*)?.*@", re.DOTALL)
_NO_PORT = re.compile(r"((?:://|,)[^/:,\[]*):(?!\d+(?:[/,]|\Z))[^/,]*")
"""What stands in a URL before a host, and after one where its port should be."""

logger = logging.getLogger("crawlprio")

_T = TypeVar("_T")


class Unavailable(ConfigError):
    """The server does not answer, or does not accept calls at the moment."""


def when_available(action: Callable[[], _T]) -> _T:
    """Retry an action while it raises `Unavailable`, for at most `START_SECONDS`, and say so."""
    until, has_warned = monotonic() + START_SECONDS, False
    while True:
        try:
            return action()
        except Unavailable as error:
            if monotonic() >= until:
                raise
            if not has_warned:
                has_warned = True
                logger.warning("%s Waiting for up to %g seconds.", error, START_SECONDS)
        sleep(0.5)


def connect(url: str, parameters: Mapping[str, Any]) -> Client:
    """Return a client. For a single server it connects lazily, for a cluster at once.

    Parameters
    ----------
    url
        A URL of redis-py (`redis://`, `rediss://`, `unix://`);
        `redis+sentinel://HOST:PORT[,HOST:PORT...]/SERVICE[/DATABASE]`, to ask sentinels for the
        primary at each new connection, and so to follow a failover; or
        `redis+cluster://HOST:PORT[,HOST:PORT...]`, some nodes of a cluster.
    parameters
        Arguments of redis-py's client.

    Raises
    ------
    ConfigError
        If redis-py rejects the URL or a parameter, or no node of a cluster answers.
    """
    chosen = {
        "socket_timeout": _TIMEOUT,
        "socket_connect_timeout": _TIMEOUT,
        # The callers retry, and log.
        "retry": Retry(NoBackoff(), 0),
        **parameters,
        "decode_responses": False,
    }
    try:
        if url.startswith(_SENTINELS):
            return _sentinel_client(url, chosen)
        if url.startswith(CLUSTER):
            return connect_cluster(url, chosen)
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


def shown_url(url: str) -> str:
    """Return REDIS_URL for messages, without what may be a password, however it is malformed."""
    without_user = _USER.sub(r"\1", url).partition("?")[0]
    return _NO_PORT.sub(r"\1", without_user)


def _no_server(url: str, error: RedisError) -> Unavailable:
    return Unavailable(
        f"REDIS_URL is {shown_url(url)!r}, but no server answers there "
        f"({str(error).rstrip('.')}); start one or correct the URL."
    )


def _sentinel_client(url: str, chosen: dict[str, Any]) -> Client:
    """Return a client of a service's primary, as named by sentinels."""
    addresses, _, path = url.removeprefix(_SENTINELS).partition("/")
    service, _, database = path.partition("/")
    if not service:
        raise ValueError("the service is missing")
    if "@" in addresses:
        raise ValueError("its addresses have a password")
    hosts = []
    for address in addresses.split(","):
        host, _, port = address.rpartition(":")
        hosts.append((host.strip("[]"), int(port)))
    timeouts = {name: chosen[name] for name in ("socket_timeout", "socket_connect_timeout")}
    make: Client = Sentinel
    sentinel = make(hosts, sentinel_kwargs=timeouts)
    client: Client = sentinel.master_for(service, **{"db": int(database or 0), **chosen})
    return client


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


def open_crawl(
    client: Client,
    prefix: str,
    config: CrawlConfig,
    rules: Rules,
    *,
    lease_seconds: float,
    records: bool = True,
    bounded: bool = True,
    n_shards: int = 1,
    others: Mapping[str, str] = {},
    scope: Mapping[str, Any] = {},
) -> Shards:
    """Begin a crawl or join it, after comparing the settings that all workers must share.

    Parameters
    ----------
    lease_seconds
        Silence after which a worker is considered dead.
    records
        Whether visits are written to the stream.
    bounded
        Whether the budget by URL pattern applies.
    n_shards
        Number of shards.
    others
        Further names and values that all workers must share.
    scope
        Seeds and scope of the crawl, by the names of the spider's arguments; the first worker that
        gives any decides.

    Returns
    -------
    Shards
        The crawl's shards.

    Raises
    ------
    ConfigError
        If the crawl was begun with other values.
    """
    wanted = _values(
        config, rules, lease_seconds, records=records, bounded=bounded, n_shards=n_shards
    )
    wanted.update(others, shards=str(n_shards))
    slots = [
        text
        for host, (delay, limit) in config.slots.items()
        for text in (host, f"{-1 if delay is None else delay!r} {limit or 0}")
    ]
    counts = pack_counts({"initial": rules.initial_key})
    crawl_id = ""
    crawl = crawl_of(prefix)
    for shard in range(n_shards):
        wanted["shard"] = str(shard)
        flat = [text for pair in wanted.items() for text in pair]
        arguments = (1, len(config.slots), crawl_id or uuid4().hex, *slots, counts, *flat)
        shard_prefix = prefix_of(crawl, shard)
        reply = client.eval(script("open").text, *script_keys(shard_prefix), *arguments)
        texts = [part.decode() for part in reply]
        found = dict(zip(texts[::2], texts[1::2], strict=True))
        crawl_id = crawl_id or found["crawl_id"]
        for name, value in (*wanted.items(), ("crawl_id", crawl_id)):
            if found.get(name) != value:
                raise ConfigError(
                    f"The crawl under {shard_prefix} was begun with {name} {found.get(name)}, but "
                    f"this worker has {value}; give all workers the same settings, or set "
                    "SCHEDULER_FLUSH_ON_START to begin a new crawl."
                )
    if scope:
        _check_scope(client, prefix, scope)
    by_domain = config.max_pages_per_domain is not None
    shards = Shards(prefix, n_shards, key=crawl_id, by_domain=by_domain)
    store_shards(client, shards)
    return shards


def share_seeds(client: Client, prefix: str, found: SeedAddresses) -> SeedAddresses:
    """Record the private addresses of seeds; return what is on record, of all if none given.

    What the first worker records is what all use.
    """
    key = f"{prefix}:seeds"
    try:
        for host, addresses in found.items():
            client.hsetnx(key, host, " ".join(addresses))
        known = client.hgetall(key)
    except RedisError as error:
        raise CrawlprioError(f"The seeds' addresses cannot be shared: {error}.") from None
    shared = {host.decode(): addresses.decode().split() for host, addresses in known.items()}
    return {host: shared[host] for host in found} if found else shared


def _check_scope(client: Client, prefix: str, scope: Mapping[str, Any]) -> None:
    """Refuse to join a crawl that has other seeds or another scope."""
    client.hsetnx(f"{prefix}:config", "scope", json.dumps(scope))
    found = json.loads(client.hget(f"{prefix}:config", "scope"))
    for name in dict.fromkeys([*found, *scope]):
        if found.get(name) != scope.get(name):
            crawl = crawl_of(prefix)
            raise ConfigError(
                f"The crawl {crawl!r} in Redis was begun with {name} {_shortened(found.get(name))},"
                f" but this worker has {_shortened(scope.get(name))}; set CRAWLPRIO_REDIS_CRAWL to "
                "another name, or delete that crawl with 'crawlprio frontier delete "
                f"{crawl} --yes'."
            )


def _shortened(value: Any) -> str:
    text = ", ".join(value) if isinstance(value, list) else "none" if value is None else str(value)
    return text if len(text) <= 100 else f"{text[:100]}... ({len(value):,})"


def delete_crawl(client: Client, prefix: str, *, keeps_visits: bool = False) -> None:
    """Delete all keys of a crawl, in all shards, without blocking the server. O(keys there)."""
    crawl = crawl_of(prefix)
    escaped = "".join(f"[{char}]" if char in "*?[\\" else char for char in crawl)
    pattern = re.compile(rf"crawlprio:\{{{re.escape(crawl)}:\d+\}}:(.*)".encode(), re.DOTALL)
    for key in client.scan_iter(match=f"crawlprio:{{{escaped}:*}}:*", count=1000):
        found = pattern.fullmatch(key)
        if found and not (keeps_visits and found[1] in (b"visits", b"shards")):
            client.unlink(key)


def _values(
    config: CrawlConfig,
    rules: Rules,
    lease_seconds: float,
    *,
    records: bool,
    bounded: bool,
    n_shards: int,
) -> dict[str, str]:
    """Return the contents of `config` in the scripts."""
    politeness = config.politeness
    per_pattern = config.max_pages_per_pattern if bounded else None
    # Each shard has an equal share, since none knows the sites of the others.
    max_sites = None if config.max_sites is None else -(-config.max_sites // n_shards)
    numbers: dict[str, float] = {
        "layout": LAYOUT,
        "first_rule": rules.first_rule,
        "evidence_rule": rules.evidence_rule,
        "initial_key": rules.initial_key,
        "new_key": rules.new_key,
        "seed_key": rules.seed_key,
        "random_seed": rules.random_seed,
        "factor": rules.factor,
        "link": rules.link,
        "by_waiting_pages": rules.by_waiting_pages,
        "elected": rules.is_elected,
        "limit": config.limit,
        "pages_per_visit": config.pages_per_visit,
        **{name: -1.0 if item is None else item for name, item in politeness.values().items()},
        "max_back_off": politeness.max_back_off,
        "per_site": config.max_pages_per_site or 0,
        "per_domain": config.max_pages_per_domain or 0,
        "per_pattern": per_pattern or 0,
        "site_claims": claimable(config.max_pages_per_site),
        "domain_claims": claimable(config.max_pages_per_domain),
        "pattern_claims": claimable(per_pattern),
        "max_sites": max_sites or 0,
        "page_sites": budgets.MAX_NEW_SITES,
        "domain_sites": claimable(max_sites),
        "silent_sites": silent_sites(max_sites or 0),
        "records": records,
        "lease_seconds": lease_seconds,
        "max_attempts": MAX_ATTEMPTS,
        "lately": LATELY,
    }
    return {"ordering": config.ordering_name} | {
        name: repr(float(number)).removesuffix(".0") for name, number in numbers.items()
    }
