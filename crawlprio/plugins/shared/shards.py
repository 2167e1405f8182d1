"""The shards of a crawl: the shard of each site, and the prefix of each shard's keys."""

from __future__ import annotations

import re
from collections.abc import Mapping
from hashlib import blake2b

from crawlprio.web.scope import registered_domain

_PREFIX = re.compile(r"crawlprio:\{(.*):(\d+)\}", re.DOTALL)

_CACHE_SIZE = 50_000
"""Hosts whose shard is cached."""


def prefix_of(crawl: str, shard: int = 0) -> str:
    """Return the prefix of a shard's keys; its hash tag keeps the shard on one node."""
    return f"crawlprio:{{{crawl}:{shard}}}"


def crawl_of(prefix: str) -> str:
    """Return the crawl's name from a prefix."""
    found = _PREFIX.fullmatch(prefix)
    assert found is not None
    return found[1]


class Shards:
    """Maps sites to the shards of a crawl.

    The shard is a hash of the site's host or, if pages are counted by registered domain, of that
    domain, which keeps the counts exact. The hash has a secret key, so that nobody can choose host
    names that all fall into one shard.

    Parameters
    ----------
    prefix
        The prefix of shard 0.
    n
        Number of shards.
    key
        The key of the hash: ASCII, at most 64 characters, secret to the crawl.
    by_domain
        Whether to keep the hosts of a registered domain in one shard.

    Attributes
    ----------
    prefixes
        The prefix of each shard's keys.
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
        """Return the shard of a host."""
        if len(self.prefixes) == 1:
            return 0
        shard = self._known.get(host)
        if shard is None:
            name = registered_domain(host) if self._by_domain else host
            found = blake2b(name.encode("utf-8", "surrogatepass"), key=self._key, digest_size=8)
            shard = int.from_bytes(found.digest(), "big") % len(self.prefixes)
            if len(self._known) >= _CACHE_SIZE:
                self._known.clear()
            self._known[host] = shard
        return shard

    def as_mapping(self) -> dict[str, str]:
        """Return the arguments as text, for `shards_from_mapping`."""
        key, by_domain = self._key.decode(), int(self._by_domain)
        return {"shards": str(len(self)), "key": key, "by_domain": str(by_domain)}


def shards_from_mapping(prefix: str, mapping: Mapping[str, str]) -> Shards:
    """Return the shards that `Shards.as_mapping` described."""
    return Shards(
        prefix,
        int(mapping["shards"]),
        key=mapping["key"],
        by_domain=mapping["by_domain"] == "1",
    )
