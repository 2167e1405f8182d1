"""The files of a crawl store: their names and modes, and what is wrong with them."""

from __future__ import annotations

import contextlib
import itertools
import os
import sqlite3
from collections.abc import Iterator
from pathlib import Path

from crawlprio.errors import StoreError
from crawlprio.store.connection import Connection, connect
from crawlprio.store.failures import primary_code, unopened
from crawlprio.store.locks import StoreInUse, WriterLock, is_open_elsewhere

COMPANIONS = ("", "-wal", "-shm")
"""SQLite's two further files while a database is open in WAL mode, after the database itself."""


class NameTaken(StoreError):
    """There is a file of the name that a new store should have."""


def keep_existing(path: str | Path) -> Path | None:
    """Rename an existing file to the next free numbered name, unless somebody has it open.

    `crawl.sqlite` becomes `crawl.1.sqlite`, the next one `crawl.2.sqlite`; what its write-ahead log
    still holds is moved into it first, so that one file is the whole store. A file that is not a
    store is kept in the same way. Nothing is ever overwritten.

    A program that has the file open would find another store under the name it knows, and SQLite
    would even read that one's log as if it were the old one's. Two checks find such programs. By
    SQLite's own locks, on any system: every connection, of this process too, that has read the
    file since it was opened. By a lease, on Linux, where the file belongs to this user: every
    descriptor and mapping of the file, whatever program has it. Neither finds a program on another
    machine, nor one that opens the file in the moment of the renaming.

    Returns
    -------
    Path or None
        The name it is kept under; None when there was nothing to keep.

    Raises
    ------
    StoreInUse
        Somebody writes to it or has it open; a new store can have a numbered name instead
        (`Store.create_numbered`).
    StoreError
        It is a folder, or the folder is missing or may not be written.
    """
    path = Path(path)
    if path.is_dir():
        raise StoreError(f"{path}: a folder has this name; name a file.")
    lock = WriterLock(path)
    try:
        if not any(os.path.lexists(f"{path}{companion}") for companion in COMPANIONS):
            return None
        _check_unused(path)
        for kept in numbered(path):
            with contextlib.suppress(NameTaken):
                reserve(kept)
                break
        # The log goes first: left behind, it would be taken for that of the next store.
        for companion in reversed(COMPANIONS):
            with contextlib.suppress(FileNotFoundError):
                os.replace(f"{path}{companion}", f"{kept}{companion}")
        return kept
    except OSError as error:
        raise unopened(path, error) from None
    finally:
        lock.release()


def discard_unfinished(path: str | Path) -> bool:
    """Remove a store whose maker was killed before it had a table; return whether it was one.

    Raises
    ------
    StoreInUse
        A living process is at work on it.
    """
    path = Path(path)
    lock = WriterLock(path)
    try:
        with contextlib.closing(connect(path, "rw")) as db:
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
    """Create an empty file that only this user may read and write, whatever the umask.

    SQLite gives the files beside it the same mode. NameTaken if there is such a file, or a log of
    that name.
    """
    try:
        if any(os.path.lexists(f"{path}{companion}") for companion in COMPANIONS):
            raise FileExistsError
        os.close(os.open(path, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o600))
        path.chmod(0o600)
    except FileExistsError:
        raise NameTaken(f"{path}: a file of this name is there; name another store.") from None
    except OSError as error:
        raise unopened(path, error) from None


def make_private_folder(folder: str | Path) -> None:
    """Create a folder that only this user may enter, and those above it; one that exists stays.

    For a job directory, before anything else creates it: Scrapy gives it the mode of the umask.

    Raises
    ------
    StoreError
        A file has its name, or it may not be created.
    """
    folder = Path(folder)
    if folder.is_dir():
        return
    try:
        folder.parent.mkdir(parents=True, exist_ok=True)
        folder.mkdir(mode=0o700)
        folder.chmod(0o700)
    except FileExistsError:
        if not folder.is_dir():
            raise StoreError(f"{folder}: a file has this name; name another folder.") from None
    except OSError as error:
        raise StoreError(f"{folder} cannot be made: {error.strerror}; name another.") from None


def remove(path: Path) -> None:
    """Remove a store that was not finished."""
    for companion in COMPANIONS:
        Path(f"{path}{companion}").unlink(missing_ok=True)


def open_database(path: Path, *, readonly: bool) -> Connection:
    """Open the database in a file that exists, to read even where nothing may be written."""
    if path.is_dir():
        raise StoreError(f"{path}: this is a folder, not a crawl store.")
    if not path.exists():
        raise StoreError(f"{path}: there is no such crawl store; check the name.")
    try:
        try:
            # A reader may write too, or it would leave its shared-memory file and log behind.
            db = connect(path, "rw")
            if readonly:
                db.execute("PRAGMA query_only = ON")
        except sqlite3.OperationalError:
            if not readonly or Path(f"{path.resolve()}-wal").exists():
                raise
            # No files may be created beside it, and so nobody can be writing to it.
            db = connect(path, "ro&immutable=1")
        return db
    except sqlite3.Error as error:
        raise unopened(path, error) from None


def _check_unused(path: Path) -> None:
    """StoreInUse if anybody has the file open; else its log is moved into it."""
    try:
        with contextlib.closing(connect(path, "rw", timeout=0.0, exclusive=True)) as db:
            db.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchone()
            # Left by a crawl that was killed: nobody has it mapped.
            Path(f"{path.resolve()}-shm").unlink(missing_ok=True)
    except sqlite3.Error as error:
        if primary_code(error) in (sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED):
            raise StoreInUse(path, reads=True) from None
        # Not a database, or a damaged one: there is no log that belongs to it.
    if is_open_elsewhere(path):
        raise StoreInUse(path, reads=True)
