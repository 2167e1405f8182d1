"""Collecting a crawl's visits from Redis into a crawl store, each exactly once."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

from redis.exceptions import RedisError

from crawlprio.errors import StoreError
from crawlprio.pages import NO_PAGE, NO_PAGES, PageTable, Visit
from crawlprio.redis.collect_shards import ShardsCollector, stored_shards
from crawlprio.redis.entries import StreamedVisit, add_pages, read_visit
from crawlprio.redis.failures import failure
from crawlprio.redis.scripts import Client
from crawlprio.redis.shards import shards_of
from crawlprio.store import Store

CRAWL_KEY = "redis_crawl"
"""The key in `meta` that names the crawl a store was collected from."""

_BATCH = 500
"""Stream entries per read and per commit."""


class Collected(NamedTuple):
    """The number of visits and pages that were added to a store."""

    n_visits: int
    n_pages: int


def collect(
    client: Client,
    prefix: str,
    path: Path,
    *,
    trims: bool = True,
    limit: int | None = None,
    progress: Callable[[int], object] = lambda n_visits: None,
) -> Collected:
    """Copy the visits of a crawl from its stream into a store.

    A visit's sequence number in the store is the number of its stream entry, so a collection that
    is killed neither loses nor repeats visits: the next one continues after the last visit
    committed. Committed entries are deleted from the stream, except under an elected worker: its
    successor replays the stream from the start, so entries stay until the crawl has ended.

    Parameters
    ----------
    client, prefix
        The server, and the prefix of the crawl's keys.
    path
        A new store, or one that this crawl was collected into before.
    trims
        Delete committed entries from the stream unless an elected worker needs them.
    limit
        Entries to read at most; None: all.
    progress
        Called with the number of visits added so far.

    Raises
    ------
    StoreError
        If the store belongs to another crawl, lacks visits that are no longer in the stream, or
        cannot be written.
    RedisFailure
        If Redis cannot be read.
    """
    store = Store.open(path) if path.exists() else Store.create(path)
    with store:
        try:
            if float(client.hget(f"{prefix}:config", "elected") or 0):
                trims = False
            shards = stored_shards(store, prefix) or shards_of(client, prefix)
            if len(shards) > 1:
                found = ShardsCollector(client, shards, store, path).run(trims, limit, progress)
                return Collected(*found)
            return _Collector(client, prefix, store, path).run(trims, limit, progress)
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
                f"{path} holds a crawl that was not collected from Redis; choose another file."
            )

    def run(self, trims: bool, limit: int | None, progress: Callable[[int], object]) -> Collected:
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
            progress(store.n_visits - n_visits)
        return Collected(store.n_visits - n_visits, len(self._pages) - n_pages)

    def _take(self, entry: dict[str, str]) -> None:
        """Record a stream entry unless the store has it."""
        number, n_recorded = int(entry["n"]), self._n_recorded
        if not self._crawl and number == 1:
            self._crawl = entry["c"]
            self._store.set_meta(CRAWL_KEY, self._crawl)
        if entry["c"] != self._crawl:
            raise StoreError(
                f"{self._path} has {n_recorded:,} entries of one crawl, but the next in Redis is "
                f"number {number:,} of another; collect it into another file."
            )
        if number <= n_recorded:
            return
        if number != n_recorded + 1:
            raise StoreError(
                f"{self._path} has {n_recorded:,} entries of this crawl, but the next in Redis is "
                f"number {number:,}; collect into the file that has the entries in between."
            )
        self._n_recorded = number
        add_pages(entry, self._pages)
        visit, items = read_visit(entry) or StreamedVisit(Visit(NO_PAGE, NO_PAGES), [])
        self._store.record(visit, self._pages, items=items, commits=False)
