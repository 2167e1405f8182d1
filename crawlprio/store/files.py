"""The files of a crawl store: named, locked, opened with bounds, renamed and discarded."""

from __future__ import annotations

import contextlib
import errno
import itertools
import os
import re
import signal
import sqlite3
import stat
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from crawlprio.errors import StoreError, printable
from crawlprio.safe_files import check_file, is_missing, real

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

MAX_QUOTED = 200
"""Characters that a sentence quotes of an error or of a value from a file."""


def store_error(path: Path, error: Exception) -> StoreError:
    """Return the error for a failure to open, read, write or rename a store."""
    if is_missing(path.parent):
        return StoreError(f"{path}: there is no folder {path.parent}; create it first.")
    if isinstance(error, OSError | ValueError):
        reason = getattr(error, "strerror", None) or error
        return StoreError(f"{path}: {reason}; check the file and its folder.")
    remedy = _REMEDIES.get(primary_code(error))
    quoted = f"SQLite failed with: {printable(error, MAX_QUOTED)}"
    return StoreError(f"{path}: {remedy or quoted}.")


def too_large(path: Path) -> StoreError:
    """Return the error for a store that has reached its size limit."""
    return StoreError(
        f"{path}: the limit of CRAWLPRIO_MAX_STORE_BYTES is reached; raise it, then resume the "
        "crawl."
    )


def damaged(path: Path, what: str) -> StoreError:
    """Return the error for a store that crawlprio has not written as it is."""
    return StoreError(f"{path}: the file is damaged ({what}); restore a backup.")


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
        raise damaged(path, "JSON nested too deep") from None
    except (ValueError, TypeError, OverflowError, LookupError, zlib.error) as error:
        raise damaged(path, printable(error, MAX_QUOTED)) from None
    except MemoryError:
        raise StoreError(
            f"{path}: there is too little memory, or the file is damaged; restore a backup."
        ) from None


def increasing(number: int, before: int) -> int:
    """Return the number of a row; raise ValueError if it does not increase."""
    if number <= before:
        raise ValueError(f"row {number} after row {before}")
    return number


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
        self.work.steps = 0
        return super().execute(*args)

    def lift(self) -> None:
        """Lift the limit until the next `execute`, for crawlprio's own writes."""
        self.work.steps = -(2**60)


def connect(path: Path, mode: str, *, timeout: float = 10.0, exclusive: bool = False) -> Connection:
    """Open an existing database file, whatever it contains, and read its schema.

    `mode`: `rw` or `ro`, optionally with further parameters of an SQLite URI. `exclusive`: lock the
    file so that no other connection has it open until this one closes. StoreError if it, or a file
    that SQLite opens beside it, is a link or a pipe; `sqlite3.Error` if it cannot be opened, is not
    a database, or is locked.
    """
    try:
        check_file(path, follow=True)
        for companion in ("-wal", "-shm", "-journal"):
            check_file(f"{real(path)}{companion}")
    except OSError as found:
        raise StoreError(f"{found.filename}: {found.strerror}; remove it.") from None
    db = sqlite3.connect(
        f"{real(path).as_uri()}?mode={mode}",
        uri=True,
        timeout=timeout,
        isolation_level=None,
        factory=Connection,
    )
    db.work = WorkLimit(real(path))
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

    `pid` is the id of the process, 0 if unknown; `reads` says that it may be only reading.
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
    Neither affects readers. StoreInUse if another store object, of this or another process, holds
    the lock.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        self._file = Path(f"{real(path)}-lock")
        self._inode: tuple[int, int] | None = None
        while True:
            before = inode_of(self._file)
            db = None
            try:
                check_file(self._file)
                db = sqlite3.connect(self._file, timeout=0, isolation_level=None)
                if before is None:
                    with contextlib.suppress(OSError):
                        self._file.chmod(0o600)
                db.execute("PRAGMA journal_mode = OFF")  # nothing is written: no journal file
                db.execute("BEGIN IMMEDIATE")
            except OSError as error:
                raise store_error(self._file, error) from None
            except sqlite3.Error as error:
                if db is not None:
                    db.close()
                if primary_code(error) == sqlite3.SQLITE_BUSY:
                    raise StoreInUse(path, _last_writer(path)) from None
                ours = isinstance(error, sqlite3.OperationalError)
                raise store_error(path if ours else self._file, error) from None
            # The previous holder may have removed the file after we opened it.
            if before is not None and before == inode_of(self._file):
                self._db: sqlite3.Connection | None = db
                return
            db.close()

    def check_file(self) -> None:
        """Check, before the store is opened, that its file can have only one writer.

        StoreInUse if this process writes to the file under another name; StoreError if it is a
        link, or has several names: SQLite keeps a log for each, which damages it.
        """
        with contextlib.suppress(OSError):
            if self._path.is_symlink():
                raise StoreError(f"{self._path}: this is a symbolic link; name the store itself.")
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
        work, because closing it would release SQLite's locks. StoreInUse if another process writes
        to the file under another name.
        """
        inode = inode_of(self._path)
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

    def close(self) -> None:
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


def inode_of(path: Path) -> tuple[int, int] | None:
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
    except (sqlite3.Error, StoreError):
        return 0
    pid = str(row[0])[:20] if row else ""
    return int(pid) if pid.isascii() and pid.isdecimal() else 0


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

    Return the new name of the file; None if there was nothing to keep.

    Raises `StoreInUse` if a program writes to it or has it open; a new store can have a numbered
    name instead (`Store.create_numbered`). Raises `StoreError` if it is a folder, or its folder is
    missing or not writable.
    """
    path = Path(path)
    if os.path.isdir(path):
        raise StoreError(f"{path}: a folder has this name; name a file.")
    with contextlib.closing(WriterLock(path)):
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


def earlier_stores(path: str | Path) -> list[Path]:
    """Return the crawl stores kept under numbered names of `path`, the latest written first."""
    path = Path(path)
    name = re.compile(rf"{re.escape(path.stem)}\.\d+{re.escape(path.suffix)}")
    found = [file for file in path.parent.iterdir() if name.fullmatch(file.name)]
    return sorted(filter(_is_store, found), key=lambda file: file.stat().st_mtime_ns, reverse=True)


def discard(path: Path) -> None:
    """Delete a store.

    Raises `StoreInUse` if a program writes to it or has it open.
    """
    with contextlib.closing(WriterLock(path)):
        _check_unused(path)
        remove(path)


def discard_unfinished(path: str | Path) -> bool:
    """Remove a store whose creator was killed before it made a table; return whether it was one.

    Raises `StoreInUse` if a running process is writing to it.
    """
    path, n_tables = Path(path), -1
    with contextlib.closing(WriterLock(path)):
        with contextlib.suppress(sqlite3.Error), contextlib.closing(connect(path, "rw")) as db:
            (n_tables,) = db.execute("SELECT count(*) FROM sqlite_schema").fetchone()
        if n_tables == 0:
            remove(path)
    return n_tables == 0


def numbered(path: Path) -> Iterator[Path]:
    """Yield every numbered name of `path`, from 1: `crawl.1.sqlite`, `crawl.2.sqlite`, ..."""
    for n in itertools.count(1):
        yield path.with_name(f"{path.stem}.{n}{path.suffix}")


def reserve(path: Path) -> None:
    """Create an empty file that only this user may read and write, whatever the umask.

    SQLite gives the files beside it the same mode. NameTaken if the file, or a log of it, exists.
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
    """
    folder = Path(folder)
    if os.path.isdir(folder):
        return
    try:
        folder.parent.mkdir(parents=True, exist_ok=True)
        folder.mkdir(mode=0o700)
        folder.chmod(0o700)
    except FileExistsError:
        if not os.path.isdir(folder):
            raise StoreError(f"{folder}: a file has this name; name another folder.") from None
    except OSError as error:
        raise StoreError(f"{folder} cannot be created: {error.strerror}; name another.") from None


def remove(path: Path) -> None:
    """Remove a store whose creation did not finish."""
    for companion in COMPANIONS:
        Path(f"{path}{companion}").unlink(missing_ok=True)


def check_is_there(path: Path) -> None:
    """Raise `StoreError` if no file of this name can be reached."""
    if is_missing(path):
        raise StoreError(f"{path}: no such crawl store; check the name.")
    try:
        is_folder = stat.S_ISDIR(os.stat(path).st_mode)
    except (OSError, ValueError) as error:
        raise store_error(path, error) from None
    if is_folder:
        raise StoreError(f"{path}: this is a folder, not a crawl store.")


def open_database(path: Path, *, readonly: bool) -> Connection:
    """Open an existing database file, for reading even where nothing is writable."""
    check_is_there(path)
    try:
        try:
            # A reader opens it for writing too, or would leave its log and shared memory behind.
            db = connect(path, "rw")
            if readonly:
                db.execute("PRAGMA query_only = ON")
        except sqlite3.OperationalError:
            if not readonly or not is_missing(f"{real(path)}-wal"):
                raise
            # No file can be created beside it, so nothing can be writing to it.
            db = connect(path, "ro&immutable=1")
        return db
    except sqlite3.Error as error:
        raise store_error(path, error) from None


def _is_store(path: Path) -> bool:
    try:
        with contextlib.closing(connect(path, "ro&immutable=1")) as db:
            return bool(db.execute("SELECT 1 FROM sqlite_schema WHERE name = 'visits'").fetchone())
    except (sqlite3.Error, StoreError):
        return False


def _check_unused(path: Path) -> None:
    """Raise StoreInUse if a program has the file open; otherwise move its log into it."""
    try:
        with contextlib.closing(connect(path, "rw", timeout=0.0, exclusive=True)) as db:
            db.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchone()
            # Left behind by a crawl that was killed: no process has it mapped.
            Path(f"{real(path)}-shm").unlink(missing_ok=True)
    except sqlite3.Error as error:
        if primary_code(error) in (sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED):
            raise StoreInUse(path, reads=True) from None
        # Not a database, or a damaged one: there is no log that belongs to it.
    if is_open_elsewhere(path):
        raise StoreInUse(path, reads=True)
