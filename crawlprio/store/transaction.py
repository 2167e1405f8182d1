"""Transactions on a crawl store, what takes part in them, and its checkpoints."""

from __future__ import annotations

import contextlib
import os
import sqlite3
from collections.abc import Callable
from pathlib import Path
from threading import Thread
from types import TracebackType
from typing import Protocol

from crawlprio.store.files import primary_code, store_error, too_large

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

    `db` is the writer's connection; its automatic checkpoints are turned off. `visits` and
    `log_bytes` bound the visits, and the bytes of the log, between two checkpoints.
    """

    def __init__(
        self,
        path: Path,
        db: sqlite3.Connection,
        visits: int = VISITS,
        log_bytes: int = LOG_BYTES,
    ) -> None:
        self._path = path
        self._log = f"{path.resolve()}-wal"
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
        with contextlib.suppress(sqlite3.Error), contextlib.closing(self._connection()) as db:
            _move(db)
            _move(db)

    def _connection(self) -> sqlite3.Connection:
        db = sqlite3.connect(f"{self._path.resolve().as_uri()}?mode=rw", uri=True)
        db.execute("PRAGMA synchronous = NORMAL")
        return db


def _move(db: sqlite3.Connection) -> None:
    """Move what can be moved now; if that fails, on a full disk say, leave it to the next time."""
    with contextlib.suppress(sqlite3.Error):
        db.execute("PRAGMA wal_checkpoint(PASSIVE)").fetchone()


class Companion(Protocol):
    """Writes its part of each transaction of a store, for as long as it is attached.

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


class Transaction:
    """A context manager that commits at its end, or rolls back if anything was raised inside.

    Errors of SQLite become a `StoreError` of one sentence.
    """

    __slots__ = ("_checkpoints", "_cursor", "_n_visits", "_path")

    def __init__(
        self,
        path: Path,
        cursor: sqlite3.Cursor,
        checkpoints: Checkpoints | None,
        n_visits: int = 1,
    ) -> None:
        self._path = path
        self._cursor = cursor
        self._checkpoints = checkpoints
        self._n_visits = n_visits

    def __enter__(self) -> None:
        try:
            self._cursor.execute("BEGIN IMMEDIATE")
        except sqlite3.ProgrammingError:
            raise
        except sqlite3.Error as error:
            raise store_error(self._path, error) from None

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        if error is None:
            try:
                self._cursor.execute("COMMIT")
                if self._checkpoints is not None:
                    self._checkpoints.count_commit(self._n_visits)
                return
            except sqlite3.Error as failure:
                error = failure
        # SQLite rolls back by itself after some errors, such as a full disk.
        if self._cursor.connection.in_transaction:
            with contextlib.suppress(sqlite3.Error):
                self._cursor.execute("ROLLBACK")
        if isinstance(error, sqlite3.Error) and not isinstance(error, sqlite3.ProgrammingError):
            if primary_code(error) == sqlite3.SQLITE_FULL and self._is_at_limit():
                raise too_large(self._path) from None
            raise store_error(self._path, error) from None

    def _is_at_limit(self) -> bool:
        """Return whether the size limit, and not the disk, stopped the write."""
        n_pages, most = (
            self._cursor.execute(f"PRAGMA {name}").fetchone()[0]
            for name in ("page_count", "max_page_count")
        )
        # Rolled back pages are not in the file, so it may be somewhat smaller.
        return bool(n_pages >= 0.9 * most)
