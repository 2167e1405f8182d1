"""The elected worker: it computes the keys that no script can, from the stream of all visits."""

from __future__ import annotations

import logging
import os
import socket
import threading
from collections.abc import Callable, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from concurrent.futures import TimeoutError as NotDone
from contextlib import suppress
from time import monotonic
from typing import Any
from uuid import uuid4

import numpy as np
from numpy.typing import NDArray
from redis.exceptions import NoScriptError, RedisError

from crawlprio.config import CrawlConfig
from crawlprio.errors import CrawlprioError
from crawlprio.orderings import guard
from crawlprio.orderings.base import ALL_PAGES, Changed, Keys
from crawlprio.pages import PageTable, Visit
from crawlprio.redis.cluster import keys_of
from crawlprio.redis.entries import add_pages, read_visit
from crawlprio.redis.scripts import Client, script
from crawlprio.redis.session import RedisFailure, failure, is_transient, load_scripts

logger = logging.getLogger("crawlprio")

_MOST_ENTRIES = 200
"""Entries of the stream that are read at once."""

_MOST_NAMED = 5_000
"""Pages named as changed after which keys are written."""

_KEYS_OF_CALL = 500
"""Keys written in one call, which keeps the server for some milliseconds."""

_WAIT = 0.25
"""Seconds for which a reader waits for the next entry, and the end of a crawl for the reader."""

_KEYED = np.dtype([("page", ">u4"), ("key", ">f8")])


class SeenPages(PageTable):
    """A page table that finds no page by its identity; 6 bytes and a URL for each page."""

    def add(self, identity: str, url: str, site: int, depth: int = 0) -> int:
        page = self._place(site, depth)
        self._urls.append(url)
        return page


class Elected:
    """Learns from each visit of the stream as a local crawl would, and writes back changed keys.

    One worker at a time has the mandate; a token, which grows from mandate to mandate, keeps one
    whose mandate has passed from writing. A worker that is newly elected learns from the stream
    from its first entry on, and writes nothing before it is where the last one stopped: keys follow
    from the visits alone, so those in Redis are its own. That takes as long as a local crawl takes
    to resume. Keys written twice are written once.

    Parameters
    ----------
    client, prefix
        of the server, and of the crawl's keys there.
    config
        ordering, topic and their options, which this class alone uses from now on.
    lease_seconds
        after which a silent worker loses the mandate.
    truth
        PageRank of a page by its URL, where the whole web is known.

    Attributes
    ----------
    is_elected
        whether this worker has the mandate, as far as it knows.
    n_read
        entries of the stream that were learned from.

    Notes
    -----
    Memory: that of the ordering and its keys, 8 bytes a page for those in Redis, and 6 with the URL
    for each page known.
    """

    def __init__(
        self,
        client: Client,
        prefix: str,
        config: CrawlConfig,
        *,
        lease_seconds: float,
        truth: Callable[[str], float] | None = None,
    ) -> None:
        self._client = client
        self._prefix = prefix
        self._config = config
        self._ordering = config.ordering
        self._lease_seconds = lease_seconds
        self._truth = truth
        self._worker = uuid4().hex
        self._name = f"{socket.gethostname()}:{os.getpid()}"
        self._token = 0
        self._renew_at = 0.0
        self._executor: ThreadPoolExecutor | None = None
        self._last: bytes
        self._forget()

    @property
    def is_elected(self) -> bool:
        return self._token > 0

    def claim(self) -> bool:
        """Take or renew the mandate; return whether this worker has it."""
        sent_at = monotonic()
        token, read = self._elect("claim")
        if token != self._token:
            self._forget()
            self._token = token
            self._n_written = self._n_to_rebuild = read
            if token and read:
                logger.info("Elected to compute keys: learning from %d earlier entries.", read)
        self._renew_at = sent_at + self._lease_seconds / 3
        return self.is_elected

    def resign(self) -> None:
        """Give the mandate up, so that another worker has it at once."""
        if self.is_elected:
            self._token = 0
            self._elect("resign")
        if self._executor is not None:
            self._executor.shutdown(wait=False, cancel_futures=True)
            self._executor = None

    def step(self, wait_seconds: float = 0.0) -> bool:
        """Learn from the next entries, and write keys; return whether there were any.

        Raises
        ------
        CrawlprioError
            if the ordering fails, or the stream lacks entries.
        RedisError
            if Redis does.
        """
        if monotonic() >= self._renew_at and not self.claim():
            return False
        block = {"block": max(int(wait_seconds * 1000), 1)} if wait_seconds else {}
        found = self._client.xread(
            {f"{self._prefix}:visits": self._last}, count=_MOST_ENTRIES, **block
        )
        entries: list[tuple[bytes, dict[bytes, bytes]]] = found[0][1] if found else []
        for name, fields in entries:
            self._take({key.decode(): value.decode() for key, value in fields.items()})
            self._last = name
            if self._n_named >= _MOST_NAMED:
                self._write()
        self._write()
        return bool(entries)

    def recover(self, error: RedisError) -> bool:
        """Get ready for another attempt after an error; return whether that may help.

        Raises
        ------
        RedisFailure
            if nothing can.
        """
        text = str(error)
        if isinstance(error, NoScriptError):
            load_scripts(self._client)
            return True
        if text.startswith(("NOTELECTED", "LOST")):
            self._forget()
            return True
        if is_transient(error):
            return False
        raise failure(error) from None

    # Learning

    def _forget(self) -> None:
        """Forget all that was learned, and the mandate."""
        self._token = 0
        self._pages = SeenPages()
        self._last = b"0-0"
        self._crawl = ""
        self.n_read = self._n_written = self._n_to_rebuild = 0
        self._observed = bytearray()
        self._hot_queue = self._config.hot_queue()
        # By what key each page stands in Redis; NaN: not known.
        self._standing = np.empty(0)
        self._note_nothing()
        pages, truth = self._pages, self._truth
        guard.open_ordering(
            self._ordering, pages, None if truth is None else lambda page: truth(pages.url(page))
        )

    def _take(self, entry: Mapping[str, str]) -> None:
        """Learn from an entry."""
        number = int(entry["n"])
        self._crawl = self._crawl or entry["c"]
        if number != self.n_read + 1 or entry["c"] != self._crawl:
            raise RedisFailure(
                f"The stream of visits has entry {number:,} behind entry {self.n_read:,}, so that "
                "no worker can compute keys from all of them; keep its entries until the crawl has "
                "ended."
            )
        self.n_read = number
        add_pages(entry, self._pages)
        streamed = read_visit(entry)
        if streamed is not None:
            self._observe(streamed.visit)

    def _observe(self, visit: Visit) -> None:
        """Learn from a visit, as `CompiledFrontier.observe` does, and note which keys changed."""
        ordering, n_pages = self._ordering, len(self._pages)
        first = ordering.n_pages
        if n_pages > len(self._observed):
            self._observed.extend(bytes(n_pages - len(self._observed)))
        again = visit.page >= 0 and bool(self._observed[visit.page])
        changed = guard.learn(ordering, visit, n_pages, again=again)
        new = np.arange(first, n_pages, dtype=np.int32)
        self._note(changed, new)
        if self._hot_queue is not None:
            tiers = self._hot_queue.sort_in(visit, first, n_pages, self._pages)
            self._hot.append(new[tiers > 0])
        if visit.page >= 0:
            self._observed[visit.page] = 1
            self._visited.append(visit.page)
        while (work := guard.recomputation(ordering)) is not None:
            self._note(guard.accept(ordering, self._computed(work)))

    def _note_nothing(self) -> None:
        """Forget which keys are still to be written."""
        self._named: list[NDArray[np.int32]] = []
        self._n_named = 0
        self._names_all = False
        self._visited: list[int] = []
        self._hot: list[NDArray[np.int32]] = []

    def _note(self, changed: Changed, *new: NDArray[np.int32]) -> None:
        if changed is ALL_PAGES:
            self._names_all = True
            self._n_named = _MOST_NAMED
        else:
            self._named += [np.asarray(changed, dtype=np.int32), *new]
            self._n_named += sum(map(len, (changed, *new)))

    def _computed(self, work: Callable[[], Keys]) -> Keys:
        """The result of a computation, during which the mandate is renewed."""
        if self._executor is None:
            self._executor = ThreadPoolExecutor(1, thread_name_prefix="crawlprio-keys")
        result: Future[Keys] = self._executor.submit(work)
        while True:
            try:
                return result.result(timeout=max(self._renew_at - monotonic(), 0.01))
            except NotDone:
                if result.done():
                    raise
                # Where the mandate has passed nevertheless, the next write is refused.
                with suppress(RedisError):
                    self._elect("claim")
                self._renew_at = monotonic() + self._lease_seconds / 3

    # Writing

    def _write(self) -> None:
        """Write the keys that changed, unless they are in Redis already."""
        if self.n_read <= self._n_to_rebuild:
            self._note_nothing()
            return
        if self.n_read == self._n_written:
            return
        ordering = self._ordering
        n_pages = ordering.n_pages
        keys = ordering.keys[:n_pages]
        known = len(self._standing)
        if n_pages > known:
            room = np.full(max(n_pages, 2 * known, 1024), np.nan)
            room[:known] = self._standing
            self._standing = room
        standing = self._standing[:n_pages]
        if self._names_all:
            ids = np.flatnonzero(keys != standing)
        else:
            ids = np.unique(np.concatenate(self._named)) if self._named else np.empty(0, np.int32)
            ids = ids[keys[ids] != standing[ids]]
        # The page fetched need not be named; where it waits again already, it stays where it is.
        silent = np.unique(np.array(self._visited, dtype=np.int64))
        silent = silent[keys[silent] != standing[silent]]
        silent = np.setdiff1d(silent, ids)
        hot = np.concatenate([*self._hot, np.empty(0, np.int32)])
        parts = np.array_split(ids, max(-(-len(ids) // _KEYS_OF_CALL), 1))
        for part in parts[:-1]:
            self._rekey(self._n_written, _packed(part, keys))
        self._rekey(
            self.n_read,
            _packed(parts[-1], keys),
            _packed(silent, keys),
            hot.astype(">u4").tobytes(),
        )
        standing[ids] = keys[ids]
        standing[silent] = np.nan
        self._n_written = self.n_read
        self._note_nothing()

    def _rekey(self, number: int, keyed: bytes, silent: bytes = b"", hot: bytes = b"") -> None:
        self._client.evalsha(
            script("rekey").sha,
            *keys_of(self._prefix),
            self._worker,
            0,
            self._token,
            self._n_written,
            number,
            self._last,
            keyed,
            silent,
            hot,
            repr(float(self._ordering.initial_key)),
        )

    def _elect(self, action: str) -> tuple[int, int]:
        token, read = self._client.evalsha(
            script("elect").sha,
            *keys_of(self._prefix),
            self._worker,
            action,
            repr(self._lease_seconds),
            self._name,
        )
        return int(token), int(read)


def _packed(ids: NDArray[np.integer[Any]], keys: Keys) -> bytes:
    """Pages and their keys as `rekey.lua` reads them."""
    rows = np.empty(len(ids), dtype=_KEYED)
    rows["page"], rows["key"] = ids, keys[ids]
    return rows.tobytes()


class ElectedThread:
    """Has a worker stand for election, and do what the elected one does, from a thread of its own.

    Parameters
    ----------
    elected
        what the thread does; nobody else calls it.
    deliver
        calls a function in the thread of the crawl.
    keys_changed
        is called there when keys were written.
    failed
        is called there with the sentence when keys cannot be computed any more.
    poll_seconds
        between two questions whether the elected worker is gone.
    """

    def __init__(
        self,
        elected: Elected,
        *,
        deliver: Callable[[Callable[[], object]], object],
        keys_changed: Callable[[], object],
        failed: Callable[[CrawlprioError], object],
        poll_seconds: float,
    ) -> None:
        self._elected = elected
        self._deliver = deliver
        self._keys_changed = keys_changed
        self._failed = failed
        self._poll_seconds = poll_seconds
        self._is_over = threading.Event()
        self._thread = threading.Thread(target=self._run, name="crawlprio-elected", daemon=True)

    def start(self) -> None:
        self._thread.start()

    def stop(self) -> None:
        """Give up the mandate, and end the thread; waits for what is under way, for 5 s at most."""
        self._is_over.set()
        self._thread.join(5.0)

    def _run(self) -> None:
        try:
            while not self._is_over.is_set():
                self._is_over.wait(self._act())
            with suppress(RedisError):
                self._elected.resign()
        except CrawlprioError as error:
            self._fail(error)
        except Exception as error:
            logger.exception("Keys could not be computed.")
            self._fail(RedisFailure(f"The elected worker failed: {error!r}."))

    def _fail(self, error: CrawlprioError) -> None:
        with suppress(RedisError):
            self._elected.resign()
        self._deliver(lambda: self._failed(error))

    def _act(self) -> float:
        """Do one step; return the seconds to wait before the next."""
        elected = self._elected
        try:
            if not elected.is_elected and not elected.claim():
                return self._poll_seconds
            if elected.step(_WAIT):
                self._deliver(self._keys_changed)
        except RedisError as error:
            return 0.0 if elected.recover(error) else 0.5
        return 0.0
