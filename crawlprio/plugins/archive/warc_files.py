"""The WARC files of one crawl in a folder: appended to, rotated by size, cut back after a kill."""

from __future__ import annotations

import contextlib
import errno
import os
import re
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from io import FileIO
from pathlib import Path

from crawlprio.errors import StoreError
from crawlprio.outside import open_file

_NAME = re.compile(r"(crawlprio-\d{17}-\d{1,10})-(\d{5,10})\.warc\.gz", re.ASCII)
_FULL = frozenset({errno.ENOSPC, errno.EDQUOT, errno.EFBIG})


class WarcFiles:
    """Appends records to the current file of a series; what is appended waits until `flush`.

    The names of all files of the crawl begin with `series`; `number` is that of the first file to
    write. A file gets no further record from `max_bytes` on. `opening` returns the record that
    opens a file, by its name.
    """

    def __init__(
        self,
        folder: Path,
        series: str,
        number: int,
        max_bytes: int,
        opening: Callable[[str], bytes],
    ) -> None:
        self._folder = folder
        self._series = series
        self._next = number
        self._max_bytes = max_bytes
        self._opening = opening
        self._file: FileIO | None = None
        self._waiting: list[bytes] = []
        self._failure: StoreError | None = None
        self.number = 0
        self.name = ""
        self.end = 0
        """Number, name and size of the current file, with what waits; 0 and empty before the
        first record."""

    def append(self, *records: bytes) -> int:
        """Append records next to each other; return the offset of the first in the current file.

        Call `make_room` first.
        """
        offset = self.end
        self._waiting += records
        self.end += sum(map(len, records))
        return offset

    def make_room(self) -> None:
        """Begin a file, unless the current one gets the next records."""
        if self._file is None or self.end >= self._max_bytes:
            self._begin_file()

    def flush(self) -> None:
        """Hand to the system what was appended; after a failure, fail again with StoreError."""
        if self._failure is not None:
            raise self._failure
        if self._file is None or not self._waiting:
            return
        rest = memoryview(b"".join(self._waiting))
        self._waiting.clear()
        try:
            while rest:
                rest = rest[self._file.write(rest) :]
        except OSError as error:
            self._failure = file_error(self._folder / self.name, error)
            raise self._failure from None

    def sync(self) -> None:
        """Wait until the disk has what was flushed; any thread may call it."""
        # A file that is closed meanwhile was synchronised before.
        with contextlib.suppress(OSError, ValueError):
            if self._file is not None:
                os.fsync(self._file.fileno())

    def close(self) -> None:
        """Flush and close the current file, unless writing has failed."""
        if self._failure is None:
            self.flush()
            self.sync()
        if self._file is not None:
            self._file.close()
            self._file = None

    def _begin_file(self) -> None:
        self.close()
        if self._failure is not None:
            raise self._failure
        self.number, self._next = self._next, self._next + 1
        self.name = file_name(self._series, self.number)
        path = self._folder / self.name
        try:
            self._file = open_file(path, "xb", buffering=0)
        except OSError as error:
            self._failure = file_error(path, error)
            raise self._failure from None
        self._waiting = [self._opening(self.name)]
        self.end = len(self._waiting[0])


def new_series(now: float) -> str:
    """Return what the names of the files of a new crawl begin with."""
    begun = datetime.fromtimestamp(now, UTC)
    return f"crawlprio-{begun:%Y%m%d%H%M%S}{begun.microsecond // 1000:03d}-{os.getpid()}"


def file_name(series: str, number: int) -> str:
    """Return the name of a file of a series."""
    return f"{series}-{number:05d}.warc.gz"


def series_of(name: str) -> str:
    """Return the series of a file; empty if it is not the name of one of ours."""
    found = _NAME.fullmatch(name)
    return found[1] if found else ""


def cut(folder: Path, name: str, n_bytes: int) -> None:
    """Cut a file to what was recorded of it, and delete the files of its series after it.

    A file of which nothing was recorded is deleted too. StoreError is raised if the file is
    missing, or cannot be cut.
    """
    path = folder / name
    try:
        if n_bytes == 0:
            path.unlink(missing_ok=True)
        elif path.stat().st_size > n_bytes:
            with open_file(path, "r+b") as file:
                file.truncate(n_bytes)
        for later in _later_files(folder, name):
            later.unlink()
    except FileNotFoundError:
        raise StoreError(
            f"{path} is missing, the last file of this crawl's archive; name the folder that has "
            "it, or move it back."
        ) from None
    except OSError as error:
        raise file_error(path, error) from None


def _later_files(folder: Path, name: str) -> Iterator[Path]:
    mine = _NAME.fullmatch(name)
    assert mine is not None
    for path in folder.glob(f"{mine[1]}-*.warc.gz"):
        other = _NAME.fullmatch(path.name)
        if other is not None and int(other[2]) > int(mine[2]):
            yield path


def file_error(path: Path, error: OSError) -> StoreError:
    """Return the error for a failure to write a file of the archive."""
    if error.errno in _FULL:
        return StoreError(f"{path}: the disk is full; free some space, then resume the crawl.")
    return StoreError(f"{path}: {error.strerror}; check the file and its folder.")
