"""Collects the visits of all workers from the stream in Redis into a crawl store, each once."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

from redis.exceptions import RedisError

from crawlprio.errors import StoreError
from crawlprio.pages import NO_PAGE, NO_PAGES, PageTable, Visit
from crawlprio.redis.collect_shards import ShardsCollector, stored_shards
from crawlprio.redis.entries import StreamedVisit, add_pages, read_visit
from crawlprio.redis.scripts import Client
from crawlprio.redis.session import failure
from crawlprio.redis.shards import shards_of
from crawlprio.store import Store

CRAWL_KEY = "redis_crawl"
"""The key in `meta` of the crawl that a store is collected from."""

_BATCH = 500
"""Entries of the stream that are read, and recorded, at once."""


class Collected(NamedTuple):
    """What was added to a store: visits, and pages that they or others showed."""

    n_visits: int
    n_pages: int


def collect(
    client: Client,
    prefix: str,
    path: Path,
    *,
    trims: bool = True,
    limit: int | None = None,
    told: Callable[[int], object] = lambda n_visits: None,
) -> Collected:
    """Copy the visits of a crawl, as far as there are any, from its stream into a store.

    The place of a visit in the store is the number of its entry in the stream, so that whatever
    ends a collection, the next one goes on behind the last visit on disk: none is lost or doubled.
    What is on disk is deleted from the stream, unless an elected worker computes keys: whoever is
    elected next learns from all entries, so that they stay until the crawl has ended.

    Parameters
    ----------
    client, prefix
        of the server, and of the crawl's keys there.
    path
        the store: a new one, or one that the same crawl was collected into before.
    trims
        delete from the stream what is on disk, where nobody needs it any more.
    limit
        entries at most; None: all that there are.
    told
        is called with the number of visits so far.

    Raises
    ------
    StoreError
        if the store is of another crawl, lacks visits that the stream does not have any more, or
        cannot be written.
    RedisFailure
        if Redis cannot be read.
    """
    store = Store.open(path) if path.exists() else Store.create(path)
    with store:
        try:
            if float(client.hget(f"{prefix}:config", "elected") or 0):
                trims = False
            shards = stored_shards(store, prefix) or shards_of(client, prefix)
            if len(shards) > 1:
                found = ShardsCollector(client, shards, store, path).run(trims, limit, told)
                return Collected(*found)
            return _Collector(client, prefix, store, path).run(trims, limit, told)
        except RedisError as error:
            raise failure(error) from None


class _Collector:
    """One collection into an open store."""

    def __init__(self, client: Client, prefix: str, store: Store, path: Path) -> None:
        self._client = client
        self._key = f"{prefix}:visits"
        self._store = store
        self._path = path
        self._pages: PageTable = store.stored_pages()
        self._crawl = store.get_meta(CRAWL_KEY)
        self._n_recorded = store.last_seq
        if not self._crawl and len(self._pages):
            raise StoreError(
                f"{path} is the store of a crawl that was not collected from Redis; name another."
            )

    def run(self, trims: bool, limit: int | None, told: Callable[[int], object]) -> Collected:
        store, n_visits, n_pages = self._store, self._store.n_visits, len(self._pages)
        last, n_left = b"-", limit
        while n_left is None or n_left > 0:
            n_asked = _BATCH if n_left is None else min(_BATCH, n_left)
            start = last if last == b"-" else b"(" + last
            entries = self._client.xrange(self._key, start, "+", n_asked)
            if not entries:
                break
            for _, fields in entries:
                self._take({name.decode(): value.decode() for name, value in fields.items()})
            store.commit()
            last = entries[-1][0]
            if trims:
                self._client.xdel(self._key, *(name for name, _ in entries))
            if n_left is not None:
                n_left -= len(entries)
            told(store.n_visits - n_visits)
        return Collected(store.n_visits - n_visits, len(self._pages) - n_pages)

    def _take(self, entry: dict[str, str]) -> None:
        """Record an entry of the stream, unless the store has it."""
        number, n_recorded = int(entry["n"]), self._n_recorded
        if not self._crawl and number == 1:
            self._crawl = entry["c"]
            self._store.set_meta(CRAWL_KEY, self._crawl)
        if entry["c"] != self._crawl:
            raise StoreError(
                f"{self._path} has {n_recorded:,} entries of one crawl, and the next in Redis is "
                f"number {number:,} of another; collect that into another file."
            )
        if number <= n_recorded:
            return
        if number != n_recorded + 1:
            raise StoreError(
                f"{self._path} has {n_recorded:,} entries of this crawl, and the next in Redis is "
                f"number {number:,}; collect into the file that has those between."
            )
        self._n_recorded = number
        add_pages(entry, self._pages)
        visit, items = read_visit(entry) or StreamedVisit(Visit(NO_PAGE, NO_PAGES), [])
        self._store.record(visit, self._pages, items=items, commits=False)
