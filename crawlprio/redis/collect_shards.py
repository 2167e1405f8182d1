"""Collects the visits of a crawl from the streams of its shards into a crawl store, each once."""

from __future__ import annotations

import json
from collections import deque
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from crawlprio.errors import StoreError
from crawlprio.pages import NO_PAGE, NO_PAGES, PageTable, Visit
from crawlprio.redis.entries import read_visit, visit_of
from crawlprio.redis.scripts import Client
from crawlprio.redis.shards import Shards, made_of
from crawlprio.store import Store

STATE_KEY = "redis_shards"
"""The key in `meta` of what was collected from each shard."""

_BATCH = 500
"""Entries that are read at once from a stream, and visits that are recorded at once."""

_Entry = dict[str, str]


class _Read(NamedTuple):
    """An entry of a stream, by time and shard, which is the order in which they are taken."""

    at: tuple[int, int]
    shard: int
    name: bytes
    entry: _Entry

    @property
    def number(self) -> int:
        return int(self.entry["n"])


class _Done:
    """Which entries of a stream are in the store: all up to a number, and some behind it."""

    def __init__(self, upto: int = 0, others: list[int] | None = None) -> None:
        self.upto = upto
        self.others = set(others or ())

    def add(self, number: int) -> None:
        self.others.add(number)
        while self.upto + 1 in self.others:
            self.upto += 1
            self.others.discard(self.upto)

    def __contains__(self, number: int) -> bool:
        return number <= self.upto or number in self.others


def stored_shards(store: Store, prefix: str) -> Shards | None:
    """Return the shards that a store was collected from; None if it was not from several."""
    state = json.loads(store.get_meta(STATE_KEY) or "null")
    return None if state is None else made_of(prefix, state["shards"])


def ids_by_shard(pages: PageTable, shards: Shards) -> list[list[int]]:
    """Return the pages of each shard, in the order in which the shard has them. O(pages)."""
    ids: list[list[int]] = [[] for _ in shards.prefixes]
    of_site = [shards.of(pages.host(site)) for site in range(pages.n_sites)]
    for page, site in enumerate(pages.sites.tolist()):
        ids[of_site[site]].append(page)
    return ids


class ShardsCollector:
    """One collection into an open store.

    A visit stands in the stream of the shard of its page, and where its links lead to in those of
    other shards, by the messages that they were sent in. It is recorded when all of them have been
    read, so that visits are recorded in the order in which they became complete. Pages are numbered
    as they are read, those of a shard in their order. Which entries are done is on disk with them.

    Parameters
    ----------
    client, shards
        of the server, and of the crawl.
    store, path
        where to.
    """

    def __init__(self, client: Client, shards: Shards, store: Store, path: Path) -> None:
        self._client = client
        self._shards = shards
        self._store = store
        self._path = path
        self._pages: PageTable = store.stored_pages()
        state = json.loads(store.get_meta(STATE_KEY) or "null")
        if state is None and len(self._pages):
            raise StoreError(
                f"{path} is the store of a crawl that was not collected from these shards; name "
                "another."
            )
        self._crawl = ""
        self._done = [_Done() for _ in shards.prefixes]
        if state is not None:
            self._crawl = state["crawl"]
            # It was written before the visits that it tells of: they may not have been.
            told = state["after"] if store.last_seq >= state["last"] else state["before"]
            self._done = [_Done(*one) for one in told]
        self._ids = ids_by_shard(self._pages, shards)
        self._last: list[bytes | None] = [None] * len(shards)
        self._seen = [done.upto for done in self._done]
        self._parts: dict[tuple[int, str], _Read] = {}
        self._waiting: dict[str, _Read] = {}
        self._waits_for: dict[tuple[int, str], str] = {}
        self._n_recorded = 0
        self._recorded: list[tuple[int, bytes]] = []
        self._before = self._told()

    def run(self, trims: bool, limit: int | None, told: Callable[[int], object]) -> tuple[int, int]:
        """Collect; return visits and pages that were added."""
        store, n_visits, n_pages = self._store, self._store.n_visits, len(self._pages)
        for n_read, read in enumerate(self._entries(), 1):
            self._take(read)
            if len(self._recorded) >= _BATCH:
                self._commit(trims)
                told(store.n_visits - n_visits)
            if n_read == limit:
                break
        else:
            self._take_lost()
        self._commit(trims)
        told(store.n_visits - n_visits)
        return store.n_visits - n_visits, len(self._pages) - n_pages

    # Reading

    def _entries(self) -> Iterator[_Read]:
        """All entries that are not done, the oldest first."""
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
        """The next entries of a shard that are not done."""
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
                if int(entry["n"]) not in self._done[shard]:
                    milliseconds, _, place = name.partition(b"-")
                    found.append(_Read((int(milliseconds), int(place)), shard, name, entry))
            if found:
                yield from found
                return

    def _check(self, shard: int, entry: _Entry) -> None:
        """Refuse an entry of another crawl, or behind some that are nowhere any more."""
        self._crawl = self._crawl or entry["c"]
        number = int(entry["n"])
        if entry["c"] != self._crawl:
            raise StoreError(
                f"{self._path} has entries of one crawl, and the next in shard {shard} is number "
                f"{number:,} of another; collect that into another file."
            )
        for missing in range(self._seen[shard] + 1, number):
            if missing not in self._done[shard]:
                raise StoreError(
                    f"{self._path} lacks entry {missing:,} of shard {shard}, and the next in Redis "
                    f"is number {number:,}; collect into the file that has those between."
                )
        self._seen[shard] = max(self._seen[shard], number)

    # Recording

    def _take(self, read: _Read) -> None:
        """Add the pages of an entry, and record the visits that are complete by it."""
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
        told: list[Any] = json.loads(entry["v"])
        of_links: list[int] = told[11] if len(told) > 11 else []
        parts = {home: entry}
        read_parts = []
        for key in keys:
            del self._waits_for[key]
            if key in self._parts:
                part = self._parts.pop(key)
                parts[key[0]] = part.entry
                read_parts.append(part)
        targets = {shard: iter(json.loads(part["t"])) for shard, part in parts.items()}
        found, places = [], {shard: list[int]() for shard in parts}
        for at, shard in enumerate(of_links):
            target = int(next(targets[shard])) if shard in parts else NO_PAGE
            found.append(NO_PAGE if target < 0 else self._ids[shard][target])
            if shard in parts:
                places[shard].append(at)
        refused = [
            (places[shard][at], url)
            for shard, part in parts.items()
            for at, url in json.loads(part.get("o", "[]"))
        ]
        visit, items = visit_of(self._ids[home][int(entry["p"])], found, told, refused)
        self._record(visit, items, read, *read_parts)

    def _take_lost(self) -> None:
        """Record what will never be complete, as a server has lost its last second.

        All streams were read to their end, and of a message its visit was written first.
        """
        for key, part in list(self._parts.items()):
            if key not in self._waits_for:
                del self._parts[key]
                self._record(Visit(NO_PAGE, NO_PAGES), [], part)
        for name, read in list(self._waiting.items()):
            missing = [key for key in _parts_of(read.entry) if key not in self._parts]
            if not any(self._is_under_way(read.shard, *key) for key in missing):
                for more in self._entries():
                    self._take(more)
                if name in self._waiting:
                    self._record_if_complete(name, lost=True)

    def _is_under_way(self, home: int, shard: int, token: str) -> bool:
        """Whether a message waits to be delivered."""
        prefix, name = self._shards.prefixes[home], f"{shard} {token.partition(' ')[2]}"
        workers = [b"", *self._client.zrange(f"{prefix}:workers", 0, -1)]
        keys = [f"{prefix}:outbox:{worker.decode()}" for worker in workers]
        return any(self._client.hexists(key, name) for key in keys)

    def _record(self, visit: Visit, items: list[str], *reads: _Read) -> None:
        self._store.record(visit, self._pages, items=items, commits=False)
        self._n_recorded += 1
        for read in reads:
            self._done[read.shard].add(read.number)
            self._recorded.append((read.shard, read.name))

    def _add_pages(self, shard: int, entry: _Entry) -> None:
        """Add the new pages of an entry that the store does not have."""
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
                # One that has a download slot of its own is with its slot, and is a page there too.
                identity = f"{identity} (shard {shard})"
            ids.append(pages.add(identity, url, pages.site(host), depth))

    def _told(self) -> list[tuple[int, list[int]]]:
        return [(done.upto, sorted(done.others)) for done in self._done]

    def _commit(self, trims: bool) -> None:
        """Write what is recorded, and what is done by it; then it may leave Redis."""
        if not self._n_recorded:
            return
        after = self._told()
        last = self._store.last_seq + self._n_recorded
        state = {
            "shards": self._shards.described(),
            "crawl": self._crawl,
            "last": last,
            "before": self._before,
            "after": after,
        }
        self._store.set_meta(STATE_KEY, json.dumps(state))
        self._store.commit()
        self._before, self._n_recorded = after, 0
        if trims:
            for shard, prefix in enumerate(self._shards.prefixes):
                names = [name for its, name in self._recorded if its == shard]
                if names:
                    self._client.xdel(f"{prefix}:visits", *names)
        self._recorded = []


def _parts_of(entry: _Entry) -> list[tuple[int, str]]:
    """Shard and token of the messages of a visit."""
    return [(int(shard), token) for shard, token in json.loads(entry.get("m", "[]"))]
