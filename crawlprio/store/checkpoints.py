"""Moves what a store's write-ahead log holds into the store, beside the writing."""

from __future__ import annotations

import contextlib
import os
import sqlite3
from pathlib import Path
from threading import Thread

VISITS = 2_000
"""Visits recorded from one checkpoint to the next, at most."""

LOG_BYTES = 2**26
"""Bytes by which the log grows from one checkpoint to the next, or little more."""

_KEPT_BYTES = 2**25
"""Bytes that the log's file keeps when it starts over, so that they need not be allocated again."""


class Checkpoints:
    """Moves the log into the store after so many visits, or bytes of a few large ones.

    SQLite's own checkpoints come with a commit that then waits until the disk has everything. Here
    a thread with a connection of its own moves most of the log, twice, so that little is left for
    the writer; its own checkpoint then lets the log start over, for which all of it must be moved.
    The log of a store that somebody keeps reading in one transaction cannot start over, and grows.

    Parameters
    ----------
    path
        the store.
    db
        the writer's connection; its own checkpoints are turned off.
    visits, log_bytes
        visits, and bytes of the log, from one checkpoint to the next.
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
        db.execute("PRAGMA wal_autocheckpoint = 0")
        db.execute(f"PRAGMA journal_size_limit = {min(_KEPT_BYTES, log_bytes // 2)}")

    def note_commit(self, n_visits: int) -> None:
        """Count the visits of a commit, any other as one; call it after each."""
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
        """Bytes by which the log has grown since the first commit after the last checkpoint."""
        try:
            size = os.stat(self._log).st_size
        except OSError:
            return 0
        if self._size_before is None or size < self._size_before:
            self._size_before = size
        return size - self._size_before

    def stop(self) -> None:
        """Wait for what is under way."""
        if self._thread is not None:
            self._thread.join()
            self._thread = None

    def move_all(self) -> None:
        """Move the whole log into the store and empty it, as far as readers let that happen.

        Those who read a snapshot just now are waited for, a second at most.
        """
        with contextlib.suppress(sqlite3.Error):
            self._db.execute("PRAGMA busy_timeout = 1000")
            self._db.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchone()

    def _move_most(self) -> None:
        with contextlib.suppress(sqlite3.Error), contextlib.closing(self._connection()) as db:
            _move(db)
            _move(db)

    def _connection(self) -> sqlite3.Connection:
        db = sqlite3.connect(f"{self._path.resolve().as_uri()}?mode=rw", uri=True)
        db.execute("PRAGMA synchronous = NORMAL")
        return db


def _move(db: sqlite3.Connection) -> None:
    """Move what can be moved now; what fails, for want of space, is left to the next time."""
    with contextlib.suppress(sqlite3.Error):
        db.execute("PRAGMA wal_checkpoint(PASSIVE)").fetchone()
