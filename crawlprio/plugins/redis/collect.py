"""Collecting a crawl's visits from Redis into a crawl store, each exactly once."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

from redis.exceptions import RedisError

from crawlprio.errors import StoreError
from crawlprio.plugins.redis.collector import Collector, stored_shards
from crawlprio.plugins.redis.failures import failure
from crawlprio.plugins.redis.scripts import Client
from crawlprio.plugins.redis.shards import crawl_of, shards_of
from crawlprio.plugins.shared.mailbox import Mailbox
from crawlprio.store import Store


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
    """Copy the visits of a crawl from its streams into a store.

    The store knows which entries it has, so a collection that is killed neither loses nor repeats
    visits. Committed entries are deleted from the streams, except under an elected worker: its
    successor replays the stream from the start, so entries stay until the crawl has ended.

    Parameters
    ----------
    client, prefix
        The server, and the prefix of the crawl's keys.
    path
        A new store, or one that this crawl was collected into before.
    trims
        Delete committed entries from the streams unless an elected worker needs them.
    limit
        New entries to read at most; None: all.
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
    try:
        folder = Mailbox(client, crawl_of(prefix)).facts().get("folder")
    except RedisError as error:
        raise failure(error) from None
    if folder is not None:
        raise StoreError(
            f"The crawl {crawl_of(prefix)!r} has a brain, which records it in {folder}; there is "
            "nothing to collect."
        )
    store = Store.open(path) if path.exists() else Store.create(path)
    with store:
        try:
            if float(client.hget(f"{prefix}:config", "elected") or 0):
                trims = False
            shards = stored_shards(store, prefix) or shards_of(client, prefix)
            collector = Collector(client, shards, store, trims=trims)
            if ordering := client.hget(f"{prefix}:config", "ordering"):
                store.add_ordering(ordering.decode())
            return Collected(*collector.run(limit, progress))
        except RedisError as error:
            raise failure(error) from None
