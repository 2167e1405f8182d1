"""One-sentence messages for the errors of SQLite and the system about a store."""

from __future__ import annotations

import contextlib
import sqlite3
import zlib
from collections.abc import Iterator
from pathlib import Path

from crawlprio.errors import StoreError

_REMEDIES = {
    sqlite3.SQLITE_FULL: "the disk is full; free some space, then resume the crawl",
    sqlite3.SQLITE_IOERR: "the disk cannot be read or written, or a size limit is reached",
    sqlite3.SQLITE_BUSY: "another program keeps it locked; end that program's transaction",
    sqlite3.SQLITE_LOCKED: "another program keeps it locked; end that program's transaction",
    sqlite3.SQLITE_READONLY: "it is not writable; check the permissions of the file and folder",
    sqlite3.SQLITE_CANTOPEN: "it cannot be opened; check the permissions of the file and folder",
    sqlite3.SQLITE_PERM: "it cannot be opened; check the permissions of the file and folder",
    sqlite3.SQLITE_NOTADB: "not a crawl store, nor any other SQLite database",
    sqlite3.SQLITE_CORRUPT: "the file is damaged; `sqlite3 FILE .recover` may save part of it",
    sqlite3.SQLITE_INTERRUPT: "the file is damaged (a query does not end); restore a backup",
    sqlite3.SQLITE_TOOBIG: "the file is damaged (a value is too large); restore a backup",
}


def store_error(path: Path, error: Exception) -> StoreError:
    """Return the error for a failure to open, read, write or rename a store."""
    if not path.parent.is_dir():
        return StoreError(f"{path}: there is no folder {path.parent}; create it first.")
    if isinstance(error, OSError):
        return StoreError(f"{path}: {error.strerror}; check the file and its folder.")
    remedy = _REMEDIES.get(primary_code(error))
    quoted = f"SQLite failed with: {printable(error)}"
    return StoreError(f"{path}: {remedy or quoted}.")


def too_large(path: Path) -> StoreError:
    """Return the error for a store that has reached its size limit."""
    return StoreError(
        f"{path}: the limit of CRAWLPRIO_MAX_STORE_BYTES is reached; raise it, then resume the "
        "crawl."
    )


def printable(value: object, length: int = 200) -> str:
    """Return a value from a file, truncated and without control characters, for a terminal."""
    text = str(value)
    cut = text if len(text) <= length else f"{text[:length]}..."
    return "".join(char if char.isprintable() else "?" for char in cut)


def primary_code(error: BaseException) -> int:
    """Return SQLite's primary result code of an error; 0 if the error is not SQLite's own."""
    return int(getattr(error, "sqlite_errorcode", 0)) & 0xFF


@contextlib.contextmanager
def store_errors(path: Path) -> Iterator[None]:
    """Convert errors that a damaged file causes, in a query or in its rows, to StoreError."""
    try:
        yield
    except sqlite3.ProgrammingError:
        raise
    except sqlite3.Error as error:
        raise store_error(path, error) from None
    except RecursionError:
        raise StoreError(
            f"{path}: the file is damaged (JSON nested too deep); restore a backup."
        ) from None
    except (ValueError, TypeError, OverflowError, LookupError, zlib.error) as error:
        raise StoreError(
            f"{path}: the file is damaged ({printable(error)}); restore a backup."
        ) from None
    except MemoryError:
        raise StoreError(
            f"{path}: there is too little memory, or the file is damaged; restore a backup."
        ) from None


def increasing(number: int, before: int) -> int:
    """Return the number of a row; raise ValueError if it does not increase."""
    if number <= before:
        raise ValueError(f"row {number} after row {before}")
    return number
