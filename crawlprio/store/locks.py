"""Locking of a crawl store: the writer's lock, and the check for other programs."""

from __future__ import annotations

import contextlib
import errno
import os
import signal
import sqlite3
from pathlib import Path

from crawlprio.errors import StoreError
from crawlprio.store.connection import connect
from crawlprio.store.failures import primary_code, store_error

try:
    import fcntl
except ImportError:  # Windows can neither rename an open file nor hard-link it.
    fcntl = None  # type: ignore[assignment]

_LOCKED_BYTE = 0x4000_0000 + 1024
"""A byte that SQLite neither locks (it locks those before it) nor stores data in."""

_locked: set[tuple[int, int]] = set()
"""Files whose `_LOCKED_BYTE` this process has locked, by device and inode."""


class StoreInUse(StoreError):
    """A running process writes to the store, or has it open.

    Parameters
    ----------
    path
        the store.
    pid
        the id of the process; 0 if unknown.
    reads
        whether the process may be only reading.
    """

    def __init__(self, path: Path, pid: int = 0, *, reads: bool = False) -> None:
        self.pid = pid
        if reads:
            does = "another program has this file open; close it there"
        else:
            process = f"process {pid}" if pid else "another process"
            does = f"{process} is writing to this crawl store; end it"
        super().__init__(f"{path}: {does}, or name another store.")


class WriterLock:
    """The exclusive right to write to a store, held by one process, however earlier ones ended.

    The lock on the name is an SQLite write lock on the empty file `PATH-lock`. The system releases
    it with the process, it works wherever the store itself does, and it is taken before the store
    exists. `lock_file` adds a lock on the file itself, which holds even if the file is renamed.
    Neither affects readers.

    Parameters
    ----------
    path
        The store; it need not exist, but its folder must.

    Raises
    ------
    StoreInUse
        Another store object, of this or another process, holds the lock.
    StoreError
        The folder is missing or not writable.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        self._file = Path(f"{path.resolve()}-lock")
        self._inode: tuple[int, int] | None = None
        while True:
            before = _inode(self._file)
            db = None
            try:
                db = sqlite3.connect(self._file, timeout=0, isolation_level=None)
                if before is None:
                    with contextlib.suppress(OSError):
                        self._file.chmod(0o600)
                db.execute("PRAGMA journal_mode = OFF")  # nothing is written: no journal file
                db.execute("BEGIN IMMEDIATE")
            except sqlite3.Error as error:
                if db is not None:
                    db.close()
                if primary_code(error) == sqlite3.SQLITE_BUSY:
                    raise StoreInUse(path, _last_writer(path)) from None
                ours = isinstance(error, sqlite3.OperationalError)
                raise store_error(path if ours else self._file, error) from None
            # The previous holder may have removed the file after we opened it.
            if before is not None and before == _inode(self._file):
                self._db: sqlite3.Connection | None = db
                return
            db.close()

    def check_file(self) -> None:
        """Check, before the store is opened, that its file can have only one writer.

        Raises
        ------
        StoreInUse
            This process writes to the file under another name.
        StoreError
            The file has several names: SQLite keeps a log for each, which damages the file.
        """
        with contextlib.suppress(OSError):
            status = self._path.stat()
            if status.st_nlink > 1:
                raise StoreError(
                    f"{self._path}: this file has {status.st_nlink} names (hard links), and "
                    "changes under one name damage it for the others; copy it, and use the copy."
                )
            if (status.st_dev, status.st_ino) in _locked:
                raise StoreInUse(self._path, os.getpid())

    def lock_file(self) -> None:
        """Lock the file of the store, once a connection of this process has it open.

        This is a POSIX lock on SQLite's own descriptor of the file. A separate descriptor would not
        work, because closing it would release SQLite's locks.

        Raises
        ------
        StoreInUse
            Another process writes to the file under another name.
        """
        inode = _inode(self._path)
        if fcntl is None or inode is None:
            return
        for descriptor in _descriptors(inode):
            try:
                fcntl.lockf(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB, 1, _LOCKED_BYTE)
            except OSError as error:
                if error.errno in (errno.EACCES, errno.EAGAIN):
                    raise StoreInUse(self._path) from None
                continue  # open for reading only
            self._inode = inode
            _locked.add(inode)
            return

    def release(self) -> None:
        """Release the lock and remove its file; a second call does nothing."""
        if self._db is None:
            return
        if self._inode is not None:
            # A reader of this process may still have the file open.
            for descriptor in _descriptors(self._inode):
                with contextlib.suppress(OSError):
                    fcntl.lockf(descriptor, fcntl.LOCK_UN, 1, _LOCKED_BYTE)
            _locked.discard(self._inode)
        with contextlib.suppress(OSError):  # Windows cannot remove an open file, so it has no race
            self._file.unlink()
        self._db.close()
        self._db = None
        if os.name == "nt":
            with contextlib.suppress(OSError):
                self._file.unlink()


def is_open_elsewhere(path: Path) -> bool:
    """Return whether any program has a file open or mapped; False if the system cannot tell.

    A write lease is granted only while nothing else has the file open (Linux, local files that
    belong to this user). It is released immediately: some 15 µs. No connection of this process may
    have the file open, because it would lose its locks.
    """
    if fcntl is None or not hasattr(fcntl, "F_SETLEASE"):
        return False
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    except OSError:
        return False
    try:
        # If a program opens the file at this moment, the signal must be a harmless one.
        fcntl.fcntl(descriptor, fcntl.F_SETSIG, signal.SIGURG)
        fcntl.fcntl(descriptor, fcntl.F_SETLEASE, fcntl.F_WRLCK)
        fcntl.fcntl(descriptor, fcntl.F_SETLEASE, fcntl.F_UNLCK)
    except OSError as error:
        return error.errno == errno.EAGAIN
    finally:
        os.close(descriptor)
    return False


def _inode(path: Path) -> tuple[int, int] | None:
    """Return the device and inode of a file; None if it does not exist."""
    try:
        status = path.stat()
    except OSError:
        return None
    return status.st_dev, status.st_ino


def _descriptors(inode: tuple[int, int]) -> list[int]:
    """Return this process's descriptors of a file; none if the system does not list them."""
    found = []
    with contextlib.suppress(OSError):
        for name in os.listdir("/dev/fd"):
            with contextlib.suppress(OSError, ValueError):
                status = os.fstat(int(name))
                if (status.st_dev, status.st_ino) == inode:
                    found.append(int(name))
    return found


def _last_writer(path: Path) -> int:
    """Return the process id that the store's last writer left in it; 0 if there is none."""
    try:
        with contextlib.closing(connect(path, "ro")) as db:
            row = db.execute("SELECT value FROM meta WHERE key = 'writer_pid'").fetchone()
    except sqlite3.Error:
        return 0
    pid = str(row[0])[:20] if row else ""
    return int(pid) if pid.isascii() and pid.isdecimal() else 0
