"""Moves what a store's write-ahead log holds into the store, beside the writing."""

from __future__ import annotations

import contextlib
import sqlite3
from pathlib import Path
from threading import Thread

VISITS = 2_000
"""Visits recorded from one checkpoint to the next."""


class Checkpoints:
    """Writing never waits for the disk while the log is moved, but for the last of it.

    SQLite's own checkpoints come with a commit that then waits until the disk has everything. Here
    a thread with a connection of its own moves most of the log, twice, so that little is left for
    the writer; its own checkpoint then lets the log start over, for which all of it must be moved.

    Parameters
    ----------
    path
        the store.
    db
        the writer's connection; its own checkpoints are turned off.
    visits
        visits from one checkpoint to the next.
    """

    def __init__(self, path: Path, db: sqlite3.Connection, visits: int = VISITS) -> None:
        self._path = path
        self._db = db
        self._visits = visits
        self._n_left = visits
        self._thread: Thread | None = None
        db.execute("PRAGMA wal_autocheckpoint = 0")

    def note_commit(self, n_visits: int) -> None:
        """Count the visits of a commit, any other as one; call it after each."""
        self._n_left -= n_visits
        if self._n_left > 0:
            return
        if self._thread is None:
            self._thread = Thread(target=self._move_most, name="crawlprio-checkpoint", daemon=True)
            self._thread.start()
        elif not self._thread.is_alive():
            self._thread = None
            _move(self._db)
            self._n_left = self._visits

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
