"""The shards of a crawl: which of them has a site, and under which keys."""

from __future__ import annotations

import re
from collections.abc import Mapping
from hashlib import blake2b

from crawlprio.redis.scripts import Client
from crawlprio.web.scope import registered_domain

_PREFIX = re.compile(r"crawlprio:\{(.*):(\d+)\}", re.DOTALL)

_REMEMBERED = 50_000
"""Hosts whose shard is remembered."""


def prefix_of(crawl: str, shard: int = 0) -> str:
    """Return the prefix of the keys of a crawl; its hash tag keeps a shard on one node."""
    return f"crawlprio:{{{crawl}:{shard}}}"


def crawl_of(prefix: str) -> str:
    """Return the name of the crawl that a prefix is of."""
    found = _PREFIX.fullmatch(prefix)
    assert found is not None
    return found[1]


class Shards:
    """Spreads sites over the shards of a crawl.

    A site is in the shard that a hash of its host says, or of its registered domain, where pages
    are counted by it, so that the count is exact. The hash is keyed with a text that nobody knows
    outside of the crawl, so that nobody can choose a shard for the hosts of a domain.

    Parameters
    ----------
    prefix
        of the keys of shard 0.
    n
        how many there are.
    key
        of the hash: the crawl's own, in ASCII, 64 characters at most.
    by_domain
        whether hosts of one registered domain are in one shard.

    Attributes
    ----------
    prefixes
        of the keys of each.
    """

    def __init__(self, prefix: str, n: int = 1, *, key: str = "", by_domain: bool = False) -> None:
        crawl = crawl_of(prefix)
        self.prefixes = [prefix_of(crawl, shard) for shard in range(n)]
        self._key = key.encode()
        self._by_domain = by_domain
        self._known: dict[str, int] = {}

    def __len__(self) -> int:
        return len(self.prefixes)

    def of(self, host: str) -> int:
        """Return the shard of a site."""
        if len(self.prefixes) == 1:
            return 0
        shard = self._known.get(host)
        if shard is None:
            name = registered_domain(host) if self._by_domain else host
            found = blake2b(name.encode("utf-8", "surrogatepass"), key=self._key, digest_size=8)
            shard = int.from_bytes(found.digest(), "big") % len(self.prefixes)
            if len(self._known) >= _REMEMBERED:
                self._known.clear()
            self._known[host] = shard
        return shard

    def described(self) -> dict[str, str]:
        """Return what `made_of` makes the same again from."""
        key, by_domain = self._key.decode(), int(self._by_domain)
        return {"shards": str(len(self)), "key": key, "by_domain": str(by_domain)}


def made_of(prefix: str, described: Mapping[str, str]) -> Shards:
    """Return shards as `Shards.described` tells of them."""
    return Shards(
        prefix,
        int(described["shards"]),
        key=described["key"],
        by_domain=described["by_domain"] == "1",
    )


def keep_shards(client: Client, shards: Shards) -> None:
    """Write down in Redis how sites are spread, where there are several shards.

    It stays there as long as visits do.
    """
    if len(shards) > 1:
        client.hset(f"{shards.prefixes[0]}:shards", mapping=shards.described())


def shards_of(client: Client, prefix: str) -> Shards:
    """Return the shards of a crawl that was begun; one where nothing is known. One round trip."""
    found = client.hgetall(f"{prefix}:shards")
    described = {name.decode(): value.decode() for name, value in found.items()}
    return made_of(prefix, described) if described else Shards(prefix)
