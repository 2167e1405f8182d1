"""Connections to a file that somebody else may have made: what they may do is bounded."""

from __future__ import annotations

import contextlib
import sqlite3
from pathlib import Path
from typing import Any

MAX_VALUE = 2**28
"""Bytes of one value, or of one row, that are read or written."""

STEPS = 1_000_000
STEPS_PER_BYTE = 10
"""Steps of SQLite's machine that one query may take: so many, and so many per byte of the file.

What crawlprio asks takes less than one step per byte of the largest file and of the smallest.
"""

_STEPS_AT_ONCE = 10_000


class WorkLimit:
    """Stops a query that takes more steps than a file of its size can need.

    A few pages that name each other as children make a table without end, as does a file's author
    who likes; SQLite notices neither.

    Parameters
    ----------
    path
        the database.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        self.steps = 0

    def __call__(self) -> bool:
        """Note that some steps were taken; return whether to stop."""
        self.steps += _STEPS_AT_ONCE
        return self.steps > STEPS and self.steps > STEPS + STEPS_PER_BYTE * self._n_bytes()

    def _n_bytes(self) -> int:
        """The size of the database and of its log."""
        n_bytes = 0
        for companion in ("", "-wal"):
            with contextlib.suppress(OSError):
                n_bytes += Path(f"{self._path}{companion}").stat().st_size
        return n_bytes


class Connection(sqlite3.Connection):
    """A connection on which each `execute` may take the steps of one query.

    Statements that a cursor executes share the steps of the last `execute`, unless `lift` came
    after it.
    """

    work: WorkLimit

    def execute(self, *args: Any) -> sqlite3.Cursor:
        """Execute a statement."""
        self.work.steps = 0
        return super().execute(*args)

    def lift(self) -> None:
        """Lift the limit until the next `execute`, for statements of ours that write."""
        self.work.steps = -(2**60)


def connect(path: Path, mode: str, *, timeout: float = 10.0, exclusive: bool = False) -> Connection:
    """Open an existing database file for whatever is in it, and read its schema.

    Parameters
    ----------
    mode
        `rw` or `ro`, with further parameters of an SQLite URI.
    timeout
        seconds to wait for a lock that another connection holds.
    exclusive
        hold the file, from the first read on, so that no other connection has it open.

    Raises
    ------
    sqlite3.Error
        It cannot be opened, is not a database, or is locked.
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
        db.execute("SELECT 1 FROM sqlite_schema").fetchone()  # only now is the file read
    except sqlite3.Error:
        db.close()
        raise
    except (MemoryError, UnicodeDecodeError):
        # A damaged length asks for more than there is; a message quotes bytes that are not text.
        db.close()
        error = sqlite3.DatabaseError("the schema is damaged")
        error.sqlite_errorcode = sqlite3.SQLITE_CORRUPT
        raise error from None
    return db
