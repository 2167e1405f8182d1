"""Connections to files that someone else may have made, with bounds on what these can cause."""

from __future__ import annotations

import contextlib
import sqlite3
from pathlib import Path
from typing import Any

MAX_VALUE = 2**28
"""Maximum number of bytes in one value, or one row, that is read or written."""

STEPS = 1_000_000
STEPS_PER_BYTE = 10
"""Steps of SQLite's virtual machine that one query may take: a constant, plus some per byte.

Queries of crawlprio take less than one step per byte, whatever the size of the file.
"""

_STEPS_AT_ONCE = 10_000


class WorkLimit:
    """Stops a query that takes more steps than a file of its size can need.

    A few database pages that name each other as children make an endless table, whether by damage
    or by intent. SQLite does not notice.

    Parameters
    ----------
    path
        the database.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        self.steps = 0

    def __call__(self) -> bool:
        """Count the steps since the last call; return whether to stop."""
        self.steps += _STEPS_AT_ONCE
        return self.steps > STEPS and self.steps > STEPS + STEPS_PER_BYTE * self._n_bytes()

    def _n_bytes(self) -> int:
        """Return the size of the database and its log."""
        n_bytes = 0
        for companion in ("", "-wal"):
            with contextlib.suppress(OSError):
                n_bytes += Path(f"{self._path}{companion}").stat().st_size
        return n_bytes


class Connection(sqlite3.Connection):
    """A connection on which each `execute` may take the steps of one query.

    Statements executed through a cursor share the steps of the last `execute`, unless `lift` was
    called since.
    """

    work: WorkLimit

    def execute(self, *args: Any) -> sqlite3.Cursor:
        """Execute a statement."""
        self.work.steps = 0
        return super().execute(*args)

    def lift(self) -> None:
        """Lift the limit until the next `execute`, for crawlprio's own writes."""
        self.work.steps = -(2**60)


def connect(path: Path, mode: str, *, timeout: float = 10.0, exclusive: bool = False) -> Connection:
    """Open an existing database file, whatever it contains, and read its schema.

    Parameters
    ----------
    mode
        `rw` or `ro`, optionally with further parameters of an SQLite URI.
    timeout
        seconds to wait for a lock that another connection holds.
    exclusive
        lock the file so that no other connection has it open; held until the connection closes.

    Raises
    ------
    sqlite3.Error
        The file cannot be opened, is not a database, or is locked.
    """
    db = sqlite3.connect(
        f"{path.resolve().as_uri()}?mode={mode}",
        uri=True,
        timeout=timeout,
        isolation_level=None,
        factory=Connection,
    )
    db.work = WorkLimit(path.resolve())
    try:
        db.set_progress_handler(db.work, _STEPS_AT_ONCE)
        db.setlimit(sqlite3.SQLITE_LIMIT_LENGTH, MAX_VALUE)
        db.execute("PRAGMA trusted_schema = OFF")
        db.execute("PRAGMA cell_size_check = ON")
        if exclusive:
            db.execute("PRAGMA locking_mode = EXCLUSIVE")
            db.execute("BEGIN EXCLUSIVE")
            db.execute("COMMIT")
        db.execute("SELECT 1 FROM sqlite_schema").fetchone()  # the first read of the file
    except sqlite3.Error:
        db.close()
        raise
    except (MemoryError, UnicodeDecodeError):
        # A damaged length asks for too much memory, or a message quotes bytes that are not text.
        db.close()
        error = sqlite3.DatabaseError("the schema is damaged")
        error.sqlite_errorcode = sqlite3.SQLITE_CORRUPT
        raise error from None
    return db
