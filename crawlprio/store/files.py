"""The files of a crawl store: names, permissions, renaming and opening."""

from __future__ import annotations

import contextlib
import itertools
import os
import re
import sqlite3
from collections.abc import Iterator
from pathlib import Path

from crawlprio.errors import StoreError
from crawlprio.store.connection import Connection, connect
from crawlprio.store.failures import primary_code, store_error
from crawlprio.store.locks import StoreInUse, WriterLock, is_open_elsewhere

COMPANIONS = ("", "-wal", "-shm")
"""Suffixes of the database itself, and of SQLite's two other files in WAL mode."""


class NameTaken(StoreError):
    """The name for a new store is taken."""


def keep_existing(path: str | Path) -> Path | None:
    """Rename an existing file to the next free numbered name, unless a program has it open.

    `crawl.sqlite` becomes `crawl.1.sqlite`, the next one `crawl.2.sqlite`. What its write-ahead log
    still holds is moved into it first, so that the store is a single file. A file that is not a
    store is kept in the same way. Nothing is ever overwritten.

    A program that has the file open would find a different store under the name it knows, and
    SQLite would even read the new store's log as the old one's. Two checks find such programs.
    SQLite's own locks, on any system, find every connection, including those of this process, that
    has read the file since it was opened. A lease, on Linux and if the file belongs to this user,
    finds every descriptor and mapping of the file, in any program. Neither finds a program on
    another machine, or one that opens the file at the moment of the renaming.

    Returns
    -------
    Path or None
        The new name of the file; None if there was nothing to keep.

    Raises
    ------
    StoreInUse
        A program writes to it or has it open; a new store can have a numbered name instead
        (`Store.create_numbered`).
    StoreError
        It is a folder, or its folder is missing or not writable.
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
        # The log goes first: if it were left behind, the next store would read it as its own.
        for companion in reversed(COMPANIONS):
            with contextlib.suppress(FileNotFoundError):
                os.replace(f"{path}{companion}", f"{kept}{companion}")
        return kept
    except OSError as error:
        raise store_error(path, error) from None
    finally:
        lock.release()


def earlier_stores(path: str | Path) -> list[Path]:
    """Return the crawl stores kept under numbered names of `path`, the latest written first."""
    path = Path(path)
    name = re.compile(rf"{re.escape(path.stem)}\.\d+{re.escape(path.suffix)}")
    found = [file for file in path.parent.iterdir() if name.fullmatch(file.name)]
    return sorted(filter(_is_store, found), key=lambda file: file.stat().st_mtime_ns, reverse=True)


def discard(path: Path) -> None:
    """Delete a store.

    Raises
    ------
    StoreInUse
        A program writes to it or has it open.
    """
    lock = WriterLock(path)
    try:
        _check_unused(path)
        remove(path)
    finally:
        lock.release()


def discard_unfinished(path: str | Path) -> bool:
    """Remove a store whose creator was killed before it made a table; return whether it was one.

    Raises
    ------
    StoreInUse
        A running process is writing to it.
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
    """Yield every numbered name of `path`, from 1: `crawl.1.sqlite`, `crawl.2.sqlite`, ..."""
    for n in itertools.count(1):
        yield path.with_name(f"{path.stem}.{n}{path.suffix}")


def reserve(path: Path) -> None:
    """Create an empty file that only this user may read and write, whatever the umask.

    SQLite gives the files beside it the same mode. Raise NameTaken if the file, or a log of that
    name, exists.
    """
    try:
        if any(os.path.lexists(f"{path}{companion}") for companion in COMPANIONS):
            raise FileExistsError
        os.close(os.open(path, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o600))
        path.chmod(0o600)
    except FileExistsError:
        raise NameTaken(f"{path}: a file of this name exists; name another store.") from None
    except OSError as error:
        raise store_error(path, error) from None


def make_private_folder(folder: str | Path) -> None:
    """Create a folder that only this user may enter, and its parents, unless it exists.

    Call it for a job directory before anything else creates that: Scrapy uses the umask's mode.

    Raises
    ------
    StoreError
        A file has its name, or it cannot be created.
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
        raise StoreError(f"{folder} cannot be created: {error.strerror}; name another.") from None


def remove(path: Path) -> None:
    """Remove a store whose creation did not finish."""
    for companion in COMPANIONS:
        Path(f"{path}{companion}").unlink(missing_ok=True)


def open_database(path: Path, *, readonly: bool) -> Connection:
    """Open an existing database file, for reading even where nothing is writable."""
    if path.is_dir():
        raise StoreError(f"{path}: this is a folder, not a crawl store.")
    if not path.exists():
        raise StoreError(f"{path}: no such crawl store; check the name.")
    try:
        try:
            # A reader opens it for writing too, or would leave its log and shared memory behind.
            db = connect(path, "rw")
            if readonly:
                db.execute("PRAGMA query_only = ON")
        except sqlite3.OperationalError:
            if not readonly or Path(f"{path.resolve()}-wal").exists():
                raise
            # No file can be created beside it, so nothing can be writing to it.
            db = connect(path, "ro&immutable=1")
        return db
    except sqlite3.Error as error:
        raise store_error(path, error) from None


def _is_store(path: Path) -> bool:
    """Return whether a file is a crawl store."""
    try:
        with contextlib.closing(connect(path, "ro&immutable=1")) as db:
            return bool(db.execute("SELECT 1 FROM sqlite_schema WHERE name = 'visits'").fetchone())
    except sqlite3.Error:
        return False


def _check_unused(path: Path) -> None:
    """Raise StoreInUse if a program has the file open; otherwise move its log into it."""
    try:
        with contextlib.closing(connect(path, "rw", timeout=0.0, exclusive=True)) as db:
            db.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchone()
            # Left behind by a crawl that was killed: no process has it mapped.
            Path(f"{path.resolve()}-shm").unlink(missing_ok=True)
    except sqlite3.Error as error:
        if primary_code(error) in (sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED):
            raise StoreInUse(path, reads=True) from None
        # Not a database, or a damaged one: there is no log that belongs to it.
    if is_open_elsewhere(path):
        raise StoreInUse(path, reads=True)
