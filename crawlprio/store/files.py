"""The files of a crawl store: their names, who may write to them, what is wrong with them.

Nothing here knows what a store holds, but for the id of the process that last wrote to it.
"""

from __future__ import annotations

import contextlib
import itertools
import os
import sqlite3
import zlib
from collections.abc import Iterator
from pathlib import Path

from crawlprio.errors import StoreError

_COMPANIONS = ("", "-wal", "-shm")
"""SQLite's two further files while a database is open in WAL mode, after the database itself."""

_REMEDIES = {
    sqlite3.SQLITE_FULL: "the disk is full; free some space, then resume the crawl",
    sqlite3.SQLITE_IOERR: "the disk cannot be read or written, or a size limit is reached",
    sqlite3.SQLITE_BUSY: "another program keeps it locked; end that program's transaction",
    sqlite3.SQLITE_LOCKED: "another program keeps it locked; end that program's transaction",
    sqlite3.SQLITE_READONLY: "it may not be written; check the permissions of the file and folder",
    sqlite3.SQLITE_CANTOPEN: "it cannot be opened; check the permissions of the file and folder",
    sqlite3.SQLITE_PERM: "it cannot be opened; check the permissions of the file and folder",
    sqlite3.SQLITE_NOTADB: "not a crawl store, nor any SQLite database",
    sqlite3.SQLITE_CORRUPT: "the file is damaged; `sqlite3 FILE .recover` may save part of it",
}


class StoreInUse(StoreError):
    """A living process writes to the store; `pid` is its process id, 0 when it is not known."""

    def __init__(self, path: Path, pid: int) -> None:
        self.pid = pid
        process = f"process {pid}" if pid else "another process"
        super().__init__(
            f"{path}: {process} is writing to this crawl store; end it, or name another store."
        )


class NameTaken(StoreError):
    """There is a file of the name that a new store should have."""


class WriterLock:
    """At most one living writer holds the lock of a store, however earlier ones ended.

    An SQLite write lock on the empty file `PATH-lock`: the system drops it with the process, and it
    works wherever the store itself does. Readers never meet it.

    Parameters
    ----------
    path
        The store; it need not exist, its folder must.

    Raises
    ------
    StoreInUse
        Another store object, of this or another process, holds the lock.
    StoreError
        The folder is missing or may not be written.
    """

    def __init__(self, path: Path) -> None:
        self._file = Path(f"{path.resolve()}-lock")
        while True:
            before = _inode(self._file)
            db = None
            try:
                db = sqlite3.connect(self._file, timeout=0, isolation_level=None)
                db.execute("PRAGMA journal_mode = OFF")  # nothing is written: no journal file
                db.execute("BEGIN IMMEDIATE")
            except sqlite3.Error as error:
                if db is not None:
                    db.close()
                if primary_code(error) == sqlite3.SQLITE_BUSY:
                    raise StoreInUse(path, _last_writer(path)) from None
                ours = isinstance(error, sqlite3.OperationalError)
                raise unopened(path if ours else self._file, error) from None
            # The last holder may have removed the file between our opening and locking it.
            if before is not None and before == _inode(self._file):
                self._db: sqlite3.Connection | None = db
                return
            db.close()

    def release(self) -> None:
        """Give the lock up and remove its file; a second call does nothing."""
        if self._db is None:
            return
        with contextlib.suppress(OSError):  # Windows removes no open file, and no race is then left
            self._file.unlink()
        self._db.close()
        self._db = None
        if os.name == "nt":
            with contextlib.suppress(OSError):
                self._file.unlink()


def keep_existing(path: str | Path) -> Path | None:
    """An existing file named `path` is renamed to the next free numbered name, never overwritten.

    `crawl.sqlite` becomes `crawl.1.sqlite`, the next one `crawl.2.sqlite`; what its write-ahead log
    still held is moved into it first, so that one file is the whole store. A file that is no store
    is kept in the same way.

    Returns
    -------
    Path or None
        The name it is kept under; None when there was nothing to keep.

    Raises
    ------
    StoreInUse
        A living process writes to it.
    StoreError
        It is a folder, or the folder is missing or may not be written.
    """
    path = Path(path)
    if path.is_dir():
        raise StoreError(f"{path}: a folder has this name; name a file.")
    lock = WriterLock(path)
    try:
        if not any(os.path.lexists(f"{path}{companion}") for companion in _COMPANIONS):
            return None
        with contextlib.suppress(sqlite3.Error), contextlib.closing(_connect(path, "rw")) as db:
            db.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchone()
        for kept in numbered(path):
            with contextlib.suppress(NameTaken):
                reserve(kept)
                break
        # The log goes first: left behind, it would be taken for that of the next store.
        for companion in reversed(_COMPANIONS):
            with contextlib.suppress(FileNotFoundError):
                os.replace(f"{path}{companion}", f"{kept}{companion}")
        return kept
    except OSError as error:
        raise unopened(path, error) from None
    finally:
        lock.release()


def discard_unfinished(path: str | Path) -> bool:
    """A store whose maker was killed before it had a table is removed; return whether it was.

    Raises
    ------
    StoreInUse
        A living process is at work on it.
    """
    path = Path(path)
    lock = WriterLock(path)
    try:
        with contextlib.closing(_connect(path, "rw")) as db:
            (n_tables,) = db.execute("SELECT count(*) FROM sqlite_schema").fetchone()
        if n_tables == 0:
            remove(path)
        return bool(n_tables == 0)
    except sqlite3.Error:
        return False
    finally:
        lock.release()


def numbered(path: Path) -> Iterator[Path]:
    """Every numbered name of `path`, from 1: `crawl.1.sqlite`, `crawl.2.sqlite`, ..."""
    for n in itertools.count(1):
        yield path.with_name(f"{path.stem}.{n}{path.suffix}")


def reserve(path: Path) -> None:
    """Make `path` an empty file; NameTaken if it, or a log of that name, is there already."""
    try:
        if any(os.path.lexists(f"{path}{companion}") for companion in _COMPANIONS):
            raise FileExistsError
        os.close(os.open(path, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o644))
    except FileExistsError:
        raise NameTaken(f"{path}: a file of this name is there; name another store.") from None
    except OSError as error:
        raise unopened(path, error) from None


def remove(path: Path) -> None:
    """Remove a store that was not finished."""
    for companion in _COMPANIONS:
        Path(f"{path}{companion}").unlink(missing_ok=True)


def open_database(path: Path, *, readonly: bool) -> sqlite3.Connection:
    """Open the database in a file that exists, to read even where nothing may be written."""
    if path.is_dir():
        raise StoreError(f"{path}: this is a folder, not a crawl store.")
    if not path.exists():
        raise StoreError(f"{path}: there is no such crawl store; check the name.")
    try:
        try:
            # A reader may write too, or it would leave its shared-memory file and log behind.
            db = _connect(path, "rw")
            if readonly:
                db.execute("PRAGMA query_only = ON")
        except sqlite3.OperationalError:
            if not readonly or Path(f"{path.resolve()}-wal").exists():
                raise
            # No files may be made beside it, and so nobody can be writing to it.
            db = _connect(path, "ro&immutable=1")
        return db
    except sqlite3.Error as error:
        raise unopened(path, error) from None


def unopened(path: Path, error: Exception) -> StoreError:
    """The sentence for a failure to open, read, write or rename a store."""
    if not path.parent.is_dir():
        return StoreError(f"{path}: there is no folder {path.parent}; make it first.")
    if isinstance(error, OSError):
        return StoreError(f"{path}: {error.strerror}; check the file and its folder.")
    remedy = _REMEDIES.get(primary_code(error))
    return StoreError(f"{path}: {remedy or f'the crawl store fails, as SQLite says: {error}'}.")


@contextlib.contextmanager
def sentences(path: Path) -> Iterator[None]:
    """Turn what a broken file makes of a query, or of its rows, into a StoreError."""
    try:
        yield
    except sqlite3.ProgrammingError:
        raise
    except sqlite3.Error as error:
        raise unopened(path, error) from None
    except (ValueError, TypeError, OverflowError, IndexError, zlib.error) as error:
        raise StoreError(f"{path}: the file is damaged ({error}); restore a copy.") from None
    except MemoryError:
        raise StoreError(
            f"{path}: there is too little memory, or the file is damaged; restore a copy."
        ) from None


def primary_code(error: BaseException) -> int:
    """SQLite's primary result code of an error; 0 when the error is not SQLite's own."""
    return int(getattr(error, "sqlite_errorcode", 0)) & 0xFF


def _connect(path: Path, mode: str) -> sqlite3.Connection:
    """Open without making a file: `mode` is `rw` or `ro`, with further parameters of the URI."""
    uri = f"{path.resolve().as_uri()}?mode={mode}"
    db = sqlite3.connect(uri, uri=True, timeout=10, isolation_level=None)
    try:
        db.execute("SELECT 1 FROM sqlite_schema").fetchone()  # only now is the file read
    except sqlite3.Error:
        db.close()
        raise
    except (MemoryError, UnicodeDecodeError):
        # A damaged length asks for more than there is; a message quotes bytes that are no text.
        db.close()
        error = sqlite3.DatabaseError("the schema is damaged")
        error.sqlite_errorcode = sqlite3.SQLITE_CORRUPT
        raise error from None
    return db


def _inode(path: Path) -> tuple[int, int] | None:
    """What tells a file from another of the same name; None when there is none."""
    try:
        status = path.stat()
    except OSError:
        return None
    return status.st_dev, status.st_ino


def _last_writer(path: Path) -> int:
    """The process id that the store's last writer left in it, 0 when there is none."""
    try:
        with contextlib.closing(_connect(path, "ro")) as db:
            row = db.execute("SELECT value FROM meta WHERE key = 'writer_pid'").fetchone()
    except sqlite3.Error:
        return 0
    return int(row[0]) if row and str(row[0]).isdecimal() else 0
