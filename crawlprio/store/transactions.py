"""The transactions of a crawl store, each whole or not at all, and when the log moves."""

from __future__ import annotations

import contextlib
import json
import os
import sqlite3
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from threading import Thread
from typing import Protocol

from crawlprio.errors import StoreError
from crawlprio.safe_files import real
from crawlprio.store.crawl_state import SiteState
from crawlprio.store.files import (
    Connection,
    WriterLock,
    primary_code,
    store_error,
    store_errors,
    too_large,
)
from crawlprio.store.pending import put_items
from crawlprio.store.reader import StoreReader
from crawlprio.store.schema import OWN_FACTS
from crawlprio.store.sitemap_rows import StoredSitemaps
from crawlprio.store.state_reader import ItemRow
from crawlprio.store.visit_rows import storable

VISITS = 2_000
"""Maximum number of visits between two checkpoints."""

LOG_BYTES = 2**26
"""Bytes by which the log grows between two checkpoints, or little more."""

_KEPT_BYTES = 2**25
"""Bytes that the log file keeps when it starts over, to avoid allocating them again."""


class Checkpoints:
    """Moves the log into the store after a number of visits, or of bytes if visits are large.

    SQLite's own checkpoints run within a commit, which then waits until the disk has everything.
    Here a thread with its own connection moves most of the log, twice, so that little is left for
    the writer. The writer's checkpoint then lets the log start over, which requires that all of it
    is moved. While a reader stays in one transaction, the log cannot start over, and grows.
    """

    def __init__(
        self, path: Path, db: sqlite3.Connection, visits: int = VISITS, log_bytes: int = LOG_BYTES
    ) -> None:
        self._path = path
        self._log = f"{real(path)}-wal"
        self._db = db
        self._visits = visits
        self._log_bytes = log_bytes
        self._n_left = visits
        self._size_before: int | None = None
        self._thread: Thread | None = None
        self.before: list[Callable[[], object]] = []
        """Called in the thread before it moves the log."""
        db.execute("PRAGMA wal_autocheckpoint = 0")
        db.execute(f"PRAGMA journal_size_limit = {min(_KEPT_BYTES, log_bytes // 2)}")

    def count_commit(self, n_visits: int) -> None:
        """Count the visits of a commit, or 1 for any other commit; call it after each commit."""
        self._n_left -= n_visits
        if self._n_left > 0 and self._n_grown() < self._log_bytes:
            return
        if self._thread is None:
            self._thread = Thread(target=self._move_most, name="crawlprio-checkpoint", daemon=True)
            self._thread.start()
        elif not self._thread.is_alive():
            self._thread = None
            _move(self._db)
            self._n_left = self._visits
            self._size_before = None

    def _n_grown(self) -> int:
        """Return the growth of the log, in bytes, since the first commit after a checkpoint."""
        try:
            size = os.stat(self._log).st_size
        except OSError:
            return 0
        if self._size_before is None or size < self._size_before:
            self._size_before = size
        return size - self._size_before

    def stop(self) -> None:
        """Wait for the running checkpoint."""
        if self._thread is not None:
            self._thread.join()
            self._thread = None

    def move_all(self) -> None:
        """Move the whole log into the store and empty it, as far as readers allow.

        Wait up to a second for transactions that are reading.
        """
        with contextlib.suppress(sqlite3.Error):
            self._db.execute("PRAGMA busy_timeout = 1000")
            self._db.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchone()

    def _move_most(self) -> None:
        for prepare in self.before:
            prepare()
        uri = f"{real(self._path).as_uri()}?mode=rw"
        with (
            contextlib.suppress(sqlite3.Error),
            contextlib.closing(sqlite3.connect(uri, uri=True)) as db,
        ):
            db.execute("PRAGMA synchronous = NORMAL")
            _move(db)
            _move(db)


def _move(db: sqlite3.Connection) -> None:
    """Move what can be moved now; if that fails, on a full disk say, leave it to the next time."""
    with contextlib.suppress(sqlite3.Error):
        db.execute("PRAGMA wal_checkpoint(PASSIVE)").fetchone()


class TransactionParticipant(Protocol):
    """Writes its part of each transaction of a store while it is attached; does nothing itself.

    What it writes to a file of its own in `write` is there before the transaction is committed. A
    kill in between leaves more in the file than the store knows of, which `open` cuts off.
    """

    def open(self, cursor: sqlite3.Cursor) -> None:
        """Create or read its tables, in a transaction of its own."""

    def write(self, cursor: sqlite3.Cursor) -> None:
        """Write what is new, inside a transaction; an error rolls all of it back."""

    def committed(self) -> None:
        """Take note that the transaction was committed."""

    def sync(self) -> None:
        """Wait until the disk has its files; called in another thread, before a checkpoint."""


def _is_at_limit(cursor: sqlite3.Cursor) -> bool:
    """Return whether the size limit, and not the disk, stopped the write."""
    n_pages, most = (
        cursor.execute(f"PRAGMA {name}").fetchone()[0] for name in ("page_count", "max_page_count")
    )
    # Rolled back pages are not in the file, so it may be somewhat smaller.
    return bool(n_pages >= 0.9 * most)


class StoreTransactions(StoreReader):
    """An open store whose facts, items and sitemaps its one writer changes, in transactions."""

    def __init__(self, path: Path, db: Connection, lock: WriterLock | None) -> None:
        super().__init__(path, db, writes=lock is not None)
        self._cursor = db.cursor()
        self._lock = lock
        self._checkpoints: Checkpoints | None = None
        self._participants: list[TransactionParticipant] = []
        self._is_together = False

    def attach(self, participant: TransactionParticipant) -> None:
        """Have a participant write its part of each transaction from now on."""
        assert self._checkpoints is not None, "the store is open for reading only"
        with store_errors(self.path), self._transaction():
            participant.open(self._cursor)
        self._participants.append(participant)
        self._checkpoints.before.append(participant.sync)

    def limit_size(self, n_bytes: int) -> None:
        """Limit the size of the file; a write beyond it fails as on a full disk."""
        (page_bytes,) = self._db.execute("PRAGMA page_size").fetchone()
        self._db.execute(f"PRAGMA max_page_count = {max(1, n_bytes // page_bytes)}")

    def sitemaps(self) -> StoredSitemaps:
        """Return the sitemaps of the crawl, to read and, for the writer, to record."""
        return StoredSitemaps(self.path, self._db, self._transaction)

    def keep_items(self, items: Sequence[ItemRow]) -> None:
        """Write items as JSON, each with its page, or `NO_PAGE` if it has none."""
        with self._transaction():
            put_items(self._cursor, items)

    def keep_site_state(self, state: SiteState) -> None:
        """Replace the stored state of a site."""
        query = "INSERT OR REPLACE INTO site_states VALUES(?, ?, ?, ?, ?)"
        with self._transaction():
            self._cursor.execute(query, state)

    def set_meta(self, key: str, value: str) -> None:
        """Store a fact of the crawl under `key`; pass lists and the like as JSON text.

        Raise ValueError for a key that the store writes itself: `schema_version`,
        `crawlprio_version`, `created`, `writer_pid`, `ended_at`.
        """
        if key in OWN_FACTS:
            raise ValueError(f"meta key {key!r} is the store's own; choose another key.")
        with self._transaction():
            self._put_meta(storable(key), storable(value))

    def add_ordering(self, name: str) -> None:
        """Record that visits from now on are made under an ordering."""
        ruled = self.orderings()
        begin = self.last_seq + 1
        if ruled and ruled[-1][0] == begin:
            ruled.pop()
        if not ruled or ruled[-1][1] != name:
            ruled.append((begin, name))
        self.set_meta("orderings", json.dumps(ruled))
        self.set_meta("ordering", name)

    @contextlib.contextmanager
    def together(self, facts: Callable[[], Mapping[str, str]]) -> Iterator[None]:
        """Commit all that is written inside at once, with some facts, or none of it.

        `facts` are called at the end, and written as `set_meta` does.
        """
        with self._transaction():
            self._is_together = True
            try:
                yield
                for key, value in facts().items():
                    self._put_meta(key, value)
            finally:
                self._is_together = False

    @contextlib.contextmanager
    def _transaction(self, n_visits: int = 1) -> Iterator[None]:
        """Commit at the end of the block, or roll back if anything was raised inside."""
        if self._lock is None or self._checkpoints is None:
            raise StoreError(f"{self.path}: open for reading only; open it without readonly.")
        if self._is_together:
            yield
            return
        self._db.lift()
        try:
            self._cursor.execute("BEGIN IMMEDIATE")
            yield
            self._cursor.execute("COMMIT")
            self._checkpoints.count_commit(n_visits)
        except BaseException as error:
            # SQLite rolls back by itself after some errors, such as a full disk.
            if self._db.in_transaction:
                with contextlib.suppress(sqlite3.Error):
                    self._cursor.execute("ROLLBACK")
            if not isinstance(error, sqlite3.Error) or isinstance(error, sqlite3.ProgrammingError):
                raise
            if primary_code(error) == sqlite3.SQLITE_FULL and _is_at_limit(self._cursor):
                raise too_large(self.path) from None
            raise store_error(self.path, error) from None

    def _put_meta(self, key: str, value: str) -> None:
        """Insert or replace one row of `meta`, inside a transaction."""
        self._cursor.execute("INSERT OR REPLACE INTO meta VALUES(?, ?)", (key, value))
