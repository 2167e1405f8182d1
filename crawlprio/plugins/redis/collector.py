"""Copying the visits of a crawl from the streams of its shards into a crawl store."""

from __future__ import annotations

import json
from collections import deque
from collections.abc import Callable, Iterator
from itertools import chain
from typing import Any, NamedTuple

import numpy as np

from crawlprio.errors import StoreError
from crawlprio.graph.pages import NO_PAGE, NO_PAGES, PageTable, Visit
from crawlprio.plugins.redis.entries import read_visit, visit_of
from crawlprio.plugins.redis.scripts import Client
from crawlprio.plugins.redis.shards import Shards, shards_from_mapping
from crawlprio.store import Store

STATE_KEY = "redis_shards"
"""The key in `meta` that records which entries of each stream were collected."""

_BATCH = 500
"""Stream entries per read, and visits per commit."""

_Entry = dict[str, str]


class _Read(NamedTuple):
    """A stream entry, sorted by time and shard."""

    at: tuple[int, int]
    shard: int
    name: bytes
    entry: _Entry

    @property
    def number(self) -> int:
        return int(self.entry["n"])


class _Done:
    """The entries of a stream that are in the store: all up to `last`, and `others` beyond."""

    def __init__(self, last: int = 0, others: list[int] | None = None) -> None:
        self.last = last
        self.others = set(others or ())

    def add(self, number: int) -> None:
        self.others.add(number)
        while self.last + 1 in self.others:
            self.last += 1
            self.others.discard(self.last)

    def __contains__(self, number: int) -> bool:
        return number <= self.last or number in self.others


def stored_shards(store: Store, prefix: str) -> Shards | None:
    """Return the shards that a store was collected from; None if it was not."""
    state = json.loads(store.get_meta(STATE_KEY) or "null")
    return None if state is None else shards_from_mapping(prefix, state["shards"])


def ids_by_shard(pages: PageTable, shards: Shards) -> list[list[int]]:
    """Return the store's page ids by shard, indexed by the page's number there. O(pages)."""
    ids: list[list[int]] = [[] for _ in shards.prefixes]
    shard_of_site = [shards.of(pages.host(site)) for site in range(pages.n_sites)]
    for page, site in enumerate(pages.sites.tolist()):
        ids[shard_of_site[site]].append(page)
    return ids


class Collector:
    """One collection into an open store.

    The stream of a page's shard holds its visit; the streams of other shards hold the targets of
    its links to them, as received in messages. A visit is recorded once all these parts have been
    read, so visits are recorded in the order in which they became complete: with one shard, in
    that of its stream. Pages are numbered in the order read, which keeps the order within each
    shard. The same transaction stores which entries are done. Done entries are then deleted, those
    too that an earlier collection recorded but was killed before it could delete them.

    Parameters
    ----------
    client, shards
        The server, and the crawl's shards.
    store
        The store.
    trims
        Whether to delete done entries from the streams.
    """

    def __init__(self, client: Client, shards: Shards, store: Store, *, trims: bool) -> None:
        self._client = client
        self._shards = shards
        self._store = store
        self._trims = trims
        self._pages: PageTable = store.stored_pages()
        state = json.loads(store.get_meta(STATE_KEY) or "null")
        if state is None and len(self._pages):
            raise StoreError(
                f"{store.path} holds a crawl that was not collected from Redis; choose another "
                "file."
            )
        self._crawl = ""
        self._done = [_Done() for _ in shards.prefixes]
        if state is not None:
            self._crawl = state["crawl"]
            self._done = [_Done(*entries) for entries in state["done"]]
        self._ids = ids_by_shard(self._pages, shards)
        self._last: list[bytes | None] = [None] * len(shards)
        self._seen = [done.last for done in self._done]
        self._parts: dict[tuple[int, str], _Read] = {}
        self._waiting: dict[str, _Read] = {}
        self._waits_for: dict[tuple[int, str], str] = {}
        self._n_recorded = 0
        self._done_names: list[list[bytes]] = [[] for _ in shards.prefixes]

    def run(self, limit: int | None, progress: Callable[[int], object]) -> tuple[int, int]:
        """Collect; return the number of visits and pages added."""
        store, n_visits, n_pages = self._store, self._store.n_visits, len(self._pages)
        for n_read, read in enumerate(self._entries(), 1):
            self._take(read)
            if self._n_recorded >= _BATCH:
                self._commit()
                progress(store.n_visits - n_visits)
            if n_read == limit:
                break
        else:
            self._record_incomplete()
        self._commit()
        progress(store.n_visits - n_visits)
        return store.n_visits - n_visits, len(self._pages) - n_pages

    # Reading

    def _entries(self) -> Iterator[_Read]:
        """Yield the entries of all shards that are not done, oldest first."""
        buffers: list[deque[_Read]] = [deque() for _ in self._shards.prefixes]
        while True:
            for shard, buffer in enumerate(buffers):
                if not buffer:
                    buffer.extend(self._read(shard))
            first = min((buffer[0] for buffer in buffers if buffer), default=None)
            if first is None:
                return
            buffers[first.shard].popleft()
            yield first

    def _read(self, shard: int) -> Iterator[_Read]:
        """Yield the next batch of a shard's entries that are not done."""
        key = f"{self._shards.prefixes[shard]}:visits"
        while True:
            last = self._last[shard]
            start = b"-" if last is None else b"(" + last
            entries = self._client.xrange(key, start, "+", _BATCH)
            if not entries:
                return
            self._last[shard] = entries[-1][0]
            found = []
            for name, fields in entries:
                entry = {key.decode(): value.decode() for key, value in fields.items()}
                self._check(shard, entry)
                if int(entry["n"]) in self._done[shard]:
                    if self._trims:
                        self._done_names[shard].append(name)
                    continue
                milliseconds, _, place = name.partition(b"-")
                found.append(_Read((int(milliseconds), int(place)), shard, name, entry))
            if found:
                yield from found
                return

    def _check(self, shard: int, entry: _Entry) -> None:
        """Refuse an entry of another crawl, or a gap before it."""
        self._crawl = self._crawl or entry["c"]
        number = int(entry["n"])
        if entry["c"] != self._crawl:
            raise StoreError(
                f"{self._store.path} has entries of one crawl, but the next in shard {shard} is "
                f"number {number:,} of another; collect it into another file."
            )
        for missing in range(self._seen[shard] + 1, number):
            if missing not in self._done[shard]:
                raise StoreError(
                    f"{self._store.path} lacks entry {missing:,} of shard {shard}, but the next in "
                    f"Redis is number {number:,}; collect into the file that has the entries in "
                    "between."
                )
        self._seen[shard] = max(self._seen[shard], number)

    # Recording

    def _take(self, read: _Read) -> None:
        """Add the pages of an entry and record the visits that it completes."""
        entry, shard = read.entry, read.shard
        self._add_pages(shard, entry)
        if "b" in entry:
            key = (shard, entry["b"])
            self._parts[key] = read
            home = self._waits_for.get(key)
            if home is not None:
                self._record_if_complete(home)
        elif "p" in entry:
            name = f"{shard} {entry['n']}"
            self._waiting[name] = read
            for key in _parts_of(entry):
                self._waits_for[key] = name
            self._record_if_complete(name)
        else:
            found = read_visit(entry)
            ids = self._ids[shard]
            seeds = [] if found is None else [ids[page] for page in found.visit.targets.tolist()]
            self._record(Visit(NO_PAGE, np.array(seeds, dtype=np.int32)), [], read)

    def _record_if_complete(self, name: str, *, lost: bool = False) -> None:
        read = self._waiting[name]
        keys = _parts_of(read.entry)
        if not lost and any(key not in self._parts for key in keys):
            return
        del self._waiting[name]
        entry, home = read.entry, read.shard
        stored: list[Any] = json.loads(entry["v"])
        parts = {home: [entry]}
        read_parts = []
        for key in keys:
            del self._waits_for[key]
            if key in self._parts:
                part = self._parts.pop(key)
                parts.setdefault(key[0], []).append(part.entry)
                read_parts.append(part)
        targets = {
            shard: [json.loads(entry["t"]) for entry in entries] for shard, entries in parts.items()
        }
        link_shards: list[int] = stored[11] if len(stored) > 11 else []
        following = {shard: chain.from_iterable(found) for shard, found in targets.items()}
        found, places = [], {shard: list[int]() for shard in parts}
        # With one shard, an entry does not list the shards of its links.
        for at, shard in enumerate(link_shards or [home] * len(targets[home][0])):
            target = int(next(following[shard])) if shard in parts else NO_PAGE
            found.append(NO_PAGE if target < 0 else self._ids[shard][target])
            if shard in parts:
                places[shard].append(at)
        refused = [
            (places[shard][sum(map(len, targets[shard][:nth])) + at], url)
            for shard, entries in parts.items()
            for nth, part in enumerate(entries)
            for at, url in json.loads(part.get("o", "[]"))
        ]
        visit, items = visit_of(self._ids[home][int(entry["p"])], found, stored, refused)
        self._record(visit, items, read, *read_parts)

    def _record_incomplete(self) -> None:
        """Record visits whose missing parts were lost when a server lost its last second.

        A visit is written before its messages, and all streams have been read to the end.
        """
        for key, part in list(self._parts.items()):
            if key not in self._waits_for:
                del self._parts[key]
                self._record(Visit(NO_PAGE, NO_PAGES), [], part)
        for name, read in list(self._waiting.items()):
            missing = [key for key in _parts_of(read.entry) if key not in self._parts]
            if not any(self._is_in_flight(read.shard, *key) for key in missing):
                for more in self._entries():
                    self._take(more)
                if name in self._waiting:
                    self._record_if_complete(name, lost=True)

    def _is_in_flight(self, home: int, shard: int, token: str) -> bool:
        """Return whether a message is still to be delivered."""
        prefix, name = self._shards.prefixes[home], f"{shard} {token.partition(' ')[2]}"
        workers = [b"", *self._client.zrange(f"{prefix}:workers", 0, -1)]
        keys = [f"{prefix}:outbox:{worker.decode()}" for worker in workers]
        return any(self._client.hexists(key, name) for key in keys)

    def _record(self, visit: Visit, items: list[str], *reads: _Read) -> None:
        self._store.record(visit, self._pages, items=items, commits=False)
        self._n_recorded += 1
        for read in reads:
            self._done[read.shard].add(read.number)
            self._done_names[read.shard].append(read.name)

    def _add_pages(self, shard: int, entry: _Entry) -> None:
        """Add the entry's new pages that are not in the store yet."""
        if "f" not in entry:
            return
        first, ids, pages = int(entry["f"]), self._ids[shard], self._pages
        identities = dict(json.loads(entry["k"]))
        depth = int(float(entry["d"]))
        hosts = json.loads(entry["s"])
        for at, (url, host) in enumerate(zip(json.loads(entry["u"]), hosts, strict=True)):
            if first + at < len(ids):
                continue
            identity = identities.get(at, url)
            if pages.find(identity) != NO_PAGE:
                # A page with a download slot of its own is in that slot's shard; its URL may
                # be another page in the shard of its host.
                identity = f"{identity} (shard {shard})"
            ids.append(pages.add(identity, url, pages.site(host), depth))

    def _commit(self) -> None:
        """Commit visits and which entries are done; then delete these from the streams."""
        if self._n_recorded:
            done = [(done.last, sorted(done.others)) for done in self._done]
            state = {"shards": self._shards.as_mapping(), "crawl": self._crawl, "done": done}
            self._store.commit({STATE_KEY: json.dumps(state)})
            self._n_recorded = 0
        for prefix, names in zip(self._shards.prefixes, self._done_names, strict=True):
            if names and self._trims:
                self._client.xdel(f"{prefix}:visits", *names)
            names.clear()


def _parts_of(entry: _Entry) -> list[tuple[int, str]]:
    """Return shard and token of each message of a visit."""
    return [(int(shard), token) for shard, token in json.loads(entry.get("m", "[]"))]
