"""The shards of a crawl: which of them has a site, and under which keys."""

from __future__ import annotations

import re
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


def shards_of(client: Client, prefix: str) -> Shards:
    """Return the shards of a crawl that was begun; one where there is none. One round trip."""
    names = ("shards", "crawl_id", "per_domain")
    n, key, per_domain = client.hmget(f"{prefix}:config", names)
    return Shards(
        prefix, int(n or 1), key=(key or b"").decode(), by_domain=float(per_domain or 0) > 0
    )
