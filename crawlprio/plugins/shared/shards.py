"""The shards of a crawl: the shard of each site, and the links of a brain to pages of others."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Iterable
from functools import lru_cache
from hashlib import blake2b
from typing import Any

from crawlprio.live.workers import LinksOut
from crawlprio.plugins.shared.messages import Statement, brain_of, written
from crawlprio.store.side_tables import SideTable
from crawlprio.web.scope import registered_domain

_CACHE_SIZE = 50_000
"""Hosts whose shard is cached."""

FACTS = "mailbox"
"""The fact in a store by which a brain knows its crawl, and what it has read."""


def shard_of_lease(lease: int, n_shards: int) -> int:
    """Return the shard whose brain gave a lease."""
    return brain_of(lease) % n_shards


class Shards:
    """Maps sites to the shards of a crawl.

    The shard is a hash of the site's host or, if pages are counted by registered domain, of that
    domain, which keeps the counts exact. The hash has a secret key, so that nobody can choose host
    names that all fall into one shard. `n` is their number, `key` ASCII, at most 64 characters.
    """

    def __init__(self, n: int = 1, key: str = "", *, by_domain: bool = False) -> None:
        self.n = n
        self.key = key
        self.by_domain = by_domain
        self._cached = lru_cache(_CACHE_SIZE)(self._of)

    def __len__(self) -> int:
        return self.n

    def of(self, host: str) -> int:
        """Return the shard of a host."""
        return 0 if self.n == 1 else self._cached(host)

    def _of(self, host: str) -> int:
        name = registered_domain(host) if self.by_domain else host
        key = self.key.encode()
        found = blake2b(name.encode("utf-8", "surrogatepass"), key=key, digest_size=8)
        return int.from_bytes(found.digest(), "big") % self.n

    def facts(self) -> dict[str, Any]:
        """Return what all processes of a crawl must agree on."""
        return {"shards": self.n, "key": self.key, "by_domain": int(self.by_domain)}


def shards_from(facts: dict[str, Any]) -> Shards:
    """Return the shards that have these facts; one, if they say nothing."""
    by_domain = bool(int(facts.get("by_domain", 0)))
    return Shards(int(facts.get("shards", 1)), str(facts.get("key", "")), by_domain=by_domain)


_OUTBOX = SideTable(
    "outbox",
    "shard INTEGER NOT NULL, number INTEGER NOT NULL, message BLOB NOT NULL, "
    "PRIMARY KEY(shard, number)",
)


class Outbox:
    """The links of a brain to pages of other shards, in its store until those have them.

    A `crawlprio.store.store.Companion`: the links of visits are on disk with them, as
    numbered messages, one for each shard and transaction. Messages of shards that have them are
    deleted, but for the last, which keeps the number.
    """

    def __init__(self, n_shards: int) -> None:
        self.n_said = [0] * n_shards
        self._new: dict[int, list[Statement]] = {}
        self._ready: list[tuple[int, int, bytes]] = []
        self._taken: dict[int, int] = {}

    def add(self, links: Iterable[tuple[int, LinksOut]]) -> None:
        """Keep links to shards, for the next transaction."""
        for shard, row in links:
            self._new.setdefault(shard, []).append(["links", *row])

    def has_taken(self, shard: int, number: int) -> None:
        """Note that a shard has all messages up to a number."""
        self._taken[shard] = number

    def deliver(self, send: Callable[[int, int, bytes], object]) -> None:
        """Send messages that are on disk: shard, number and message."""
        ready, self._ready = self._ready, []
        for shard, number, message in ready:
            send(shard, number, message)

    def open(self, cursor: sqlite3.Cursor) -> None:
        for shard, number, message in _OUTBOX.rows(
            cursor.connection, "shard, number, message", "shard, number"
        ):
            self.n_said[shard] = number
            self._ready.append((shard, number, message))

    def write(self, cursor: sqlite3.Cursor) -> None:
        rows = []
        for shard, statements in self._new.items():
            self.n_said[shard] += 1
            rows.append((shard, self.n_said[shard], written(statements)))
        self._new = {}
        _OUTBOX.put(cursor, rows)
        self._ready += rows
        if self._taken:
            cursor.executemany(
                "DELETE FROM outbox WHERE shard = ? AND number < ?", list(self._taken.items())
            )
            self._taken = {}

    def committed(self) -> None:
        """Do nothing: the caller knows when its transaction is over."""

    def sync(self) -> None:
        """Do nothing: all is in the store."""
