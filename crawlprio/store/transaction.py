"""A transaction on a crawl store: everything written inside it is committed, or nothing is."""

from __future__ import annotations

import contextlib
import sqlite3
from pathlib import Path
from types import TracebackType

from crawlprio.store.checkpoints import Checkpoints
from crawlprio.store.failures import primary_code, store_error, too_large


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
