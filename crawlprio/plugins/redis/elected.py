"""The elected worker, which computes the keys that the scripts cannot, from the visit stream."""

from __future__ import annotations

import logging
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

from crawlprio.errors import CrawlprioError
from crawlprio.graph.pages import PageTable, Visit
from crawlprio.orderings import guard
from crawlprio.orderings.base import ALL_PAGES, Changed, Keys
from crawlprio.plugins.redis.caller import worker_name
from crawlprio.plugins.redis.cluster import script_keys
from crawlprio.plugins.redis.entries import add_pages, read_visit
from crawlprio.plugins.redis.failures import RedisFailure, failure, is_transient
from crawlprio.plugins.redis.scripts import Client, load_scripts, script
from crawlprio.settings_table.config import CrawlConfig

logger = logging.getLogger("crawlprio")

_MAX_ENTRIES = 200
"""Stream entries to read at once."""

_MAX_CHANGED = 5_000
"""Changed pages after which keys are written."""

_KEYS_OF_CALL = 250
"""Keys to write per call, which blocks the server for some milliseconds."""

_WAIT = 0.25
"""Seconds for which a read of the stream may block; closing waits for it."""

_KEYED = np.dtype([("page", ">u4"), ("key", ">f8")])


class SeenPages(PageTable):
    """A page table without lookup by identity: 6 bytes and the URL per page."""

    def add(self, identity: str, url: str, site: int, depth: int = 0) -> int:
        page = self._place(site, depth)
        self._urls.append(url)
        return page


class Elected:
    """Learns from the visit stream as a local crawl would, and writes changed keys to Redis.

    One worker at a time is elected, for a term that it renews. A fencing token, which grows with
    each term, keeps a worker whose term has expired from writing. A newly elected worker replays
    the stream from its first entry and writes nothing until it reaches the entry where its
    predecessor stopped: keys depend on the visits alone, so those in Redis are equal to its own.
    This takes as long as resuming a local crawl. Writes are idempotent.

    Parameters
    ----------
    client, prefix
        The server, and the prefix of the crawl's keys.
    config
        Provides the ordering and the topic, which nothing else may use from now on.
    lease_seconds
        The length of a term.
    truth
        Returns the PageRank of a URL, if the whole web is known.

    Attributes
    ----------
    is_elected
        Whether this worker is elected, as far as it knows.
    n_read
        Stream entries replayed so far.

    Notes
    -----
    Memory: the ordering's own, plus 8 bytes per page for the keys stored in Redis, plus 6 bytes and
    the URL per page.
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
        self._name = worker_name()
        self._token = 0
        self._renew_at = 0.0
        self._executor: ThreadPoolExecutor | None = None
        self._last: bytes
        self._forget()

    @property
    def is_elected(self) -> bool:
        return self._token > 0

    def claim(self) -> bool:
        """Begin or renew a term; return whether this worker is elected."""
        sent_at = monotonic()
        token, read = self._elect("claim")
        if token != self._token:
            self._forget()
            self._token = token
            self._n_written = self._n_to_rebuild = read
            if token and read:
                logger.info("Elected to compute keys: replaying %d earlier entries.", read)
        self._renew_at = sent_at + self._lease_seconds / 3
        return self.is_elected

    def resign(self) -> None:
        """End the term, so that another worker can be elected at once."""
        if self.is_elected:
            self._token = 0
            self._elect("resign")
        if self._executor is not None:
            self._executor.shutdown(wait=False, cancel_futures=True)
            self._executor = None

    def step(self, wait_seconds: float = 0.0) -> bool:
        """Learn from the next entries and write keys; return whether there were any entries.

        Raises
        ------
        CrawlprioError
            If the ordering fails, or entries are missing from the stream.
        RedisError
            If Redis fails.
        """
        if monotonic() >= self._renew_at and not self.claim():
            return False
        block = {"block": max(int(wait_seconds * 1000), 1)} if wait_seconds else {}
        found = self._client.xread(
            {f"{self._prefix}:visits": self._last}, count=_MAX_ENTRIES, **block
        )
        entries: list[tuple[bytes, dict[bytes, bytes]]] = found[0][1] if found else []
        for name, fields in entries:
            self._take({key.decode(): value.decode() for key, value in fields.items()})
            self._last = name
            if self._n_changed >= _MAX_CHANGED:
                self._write()
        self._write()
        return bool(entries)

    def recover(self, error: RedisError) -> bool:
        """Prepare to retry after an error; return whether to retry at once.

        Raises
        ------
        RedisFailure
            If the error is permanent.
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
        """Discard the term and all that was learned in it."""
        self._token = 0
        self._pages = SeenPages()
        self._last = b"0-0"
        self._crawl = ""
        self.n_read = self._n_written = self._n_to_rebuild = 0
        self._observed = bytearray()
        self._hot_queue = self._config.hot_queue()
        # The key of each page in Redis; NaN: not known.
        self._stored = np.empty(0)
        self._clear_changes()
        pages, truth = self._pages, self._truth
        guard.open_ordering(
            self._ordering, pages, None if truth is None else lambda page: truth(pages.url(page))
        )

    def _take(self, entry: Mapping[str, str]) -> None:
        """Learn from a stream entry."""
        number = int(entry["n"])
        self._crawl = self._crawl or entry["c"]
        if number != self.n_read + 1 or entry["c"] != self._crawl:
            raise RedisFailure(
                f"The visit stream has entry {number:,} after entry {self.n_read:,}, so keys "
                "cannot be computed any more; keep all entries until the crawl has ended."
            )
        self.n_read = number
        add_pages(entry, self._pages)
        streamed = read_visit(entry)
        if streamed is not None:
            self._observe(streamed.visit)

    def _observe(self, visit: Visit) -> None:
        """Learn from a visit as `PageQueue.observe` does; note the changed keys."""
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

    def _clear_changes(self) -> None:
        """Forget the changes that are still to be written."""
        self._changed: list[NDArray[np.int32]] = []
        self._n_changed = 0
        self._all_changed = False
        self._visited: list[int] = []
        self._hot: list[NDArray[np.int32]] = []

    def _note(self, changed: Changed, *new: NDArray[np.int32]) -> None:
        if changed is ALL_PAGES:
            self._all_changed = True
            self._n_changed = _MAX_CHANGED
        else:
            self._changed += [np.asarray(changed, dtype=np.int32), *new]
            self._n_changed += sum(map(len, (changed, *new)))

    def _computed(self, work: Callable[[], Keys]) -> Keys:
        """Run a computation in another thread, renewing the term meanwhile."""
        if self._executor is None:
            self._executor = ThreadPoolExecutor(1, thread_name_prefix="crawlprio-keys")
        result: Future[Keys] = self._executor.submit(work)
        while True:
            try:
                return result.result(timeout=max(self._renew_at - monotonic(), 0.01))
            except NotDone:
                if result.done():
                    raise
                # If the term expires nevertheless, the next write is refused.
                with suppress(RedisError):
                    self._elect("claim")
                self._renew_at = monotonic() + self._lease_seconds / 3

    # Writing

    def _write(self) -> None:
        """Write changed keys that are not in Redis yet."""
        if self.n_read <= self._n_to_rebuild:
            self._clear_changes()
            return
        if self.n_read == self._n_written:
            return
        ordering = self._ordering
        n_pages = ordering.n_pages
        keys = ordering.keys[:n_pages]
        known = len(self._stored)
        if n_pages > known:
            room = np.full(max(n_pages, 2 * known, 1024), np.nan)
            room[:known] = self._stored
            self._stored = room
        stored = self._stored[:n_pages]
        if self._all_changed:
            ids = np.flatnonzero(keys != stored)
        else:
            ids = (
                np.unique(np.concatenate(self._changed)) if self._changed else np.empty(0, np.int32)
            )
            ids = ids[keys[ids] != stored[ids]]
        # An ordering need not report the visited page; if it waits again, it keeps its place.
        silent = np.unique(np.array(self._visited, dtype=np.int64))
        silent = silent[keys[silent] != stored[silent]]
        silent = np.setdiff1d(silent, ids)
        hot = np.concatenate([*self._hot, np.empty(0, np.int32)])
        parts = np.array_split(ids, max(-(-len(ids) // _KEYS_OF_CALL), 1))
        for part in parts[:-1]:
            self._rekey(self._n_written, _packed(part, keys))
        *others, hot = np.split(hot, range(_KEYS_OF_CALL, len(hot), _KEYS_OF_CALL))
        for more in others:
            self._rekey(self._n_written, b"", hot=more.astype(">u4").tobytes())
        self._rekey(
            self.n_read,
            _packed(parts[-1], keys),
            _packed(silent, keys),
            hot.astype(">u4").tobytes(),
        )
        stored[ids] = keys[ids]
        stored[silent] = np.nan
        self._n_written = self.n_read
        self._clear_changes()

    def _rekey(self, number: int, keyed: bytes, silent: bytes = b"", hot: bytes = b"") -> None:
        self._client.evalsha(
            script("rekey").sha,
            *script_keys(self._prefix),
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
            *script_keys(self._prefix),
            self._worker,
            action,
            repr(self._lease_seconds),
            self._name,
        )
        return int(token), int(read)


def _packed(ids: NDArray[np.integer[Any]], keys: Keys) -> bytes:
    """Pack pages and their keys for `rekey.lua`."""
    rows = np.empty(len(ids), dtype=_KEYED)
    rows["page"], rows["key"] = ids, keys[ids]
    return rows.tobytes()


class ElectedThread:
    """Runs for election and does the elected worker's work, in a thread of its own.

    Parameters
    ----------
    elected
        The work; only this thread may call it.
    call_from_thread
        Calls a function in the crawl's thread.
    on_keys_changed
        Called there after keys were written.
    on_failure
        Called there with the error when keys can no longer be computed.
    poll_seconds
        Seconds between two attempts to be elected.
    """

    def __init__(
        self,
        elected: Elected,
        *,
        call_from_thread: Callable[[Callable[[], object]], object],
        on_keys_changed: Callable[[], object],
        on_failure: Callable[[CrawlprioError], object],
        poll_seconds: float,
    ) -> None:
        self._elected = elected
        self._call_from_thread = call_from_thread
        self._on_keys_changed = on_keys_changed
        self._on_failure = on_failure
        self._poll_seconds = poll_seconds
        self._is_over = threading.Event()
        self._thread = threading.Thread(target=self._run, name="crawlprio-elected", daemon=True)

    def start(self) -> None:
        self._thread.start()

    def stop(self) -> None:
        """End the term and the thread; wait at most 5 s for the current step."""
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
        self._call_from_thread(lambda: self._on_failure(error))

    def _act(self) -> float:
        """Do one step; return the seconds to wait before the next one."""
        elected = self._elected
        try:
            if not elected.is_elected and not elected.claim():
                return self._poll_seconds
            if elected.step(_WAIT):
                self._call_from_thread(self._on_keys_changed)
        except RedisError as error:
            return 0.0 if elected.recover(error) else 0.5
        return 0.0
