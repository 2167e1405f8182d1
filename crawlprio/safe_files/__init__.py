"""Opening files, and refusing a link, a pipe or a device in the place of one.

A folder may be somebody else's. Where a link in it has the name of a file that is written, the file
that it leads to would be overwritten, and opening a pipe may take forever. So every file that the
package writes is opened here, and every one that it finds beside a store or a graph.
"""

from __future__ import annotations

import errno
import os
import secrets
import stat
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Any

_STREAMS = ("/dev/stdin", "/dev/stdout", "/dev/stderr", "/dev/null", "/dev/fd/")
"""Names that mean a stream, in a folder that only the system writes to."""

_NO_LINK, _AT_ONCE = getattr(os, "O_NOFOLLOW", 0), getattr(os, "O_NONBLOCK", 0)


def open_file(
    path: str | Path,
    mode: str = "r",
    *,
    private: bool = False,
    follow: bool = False,
    **options: Any,
) -> Any:
    """Open a file as `open` does; raise OSError if there is something else of that name.

    `private`: if the file is created, only this user may read it. `follow`: a link to a file will
    do; for files that are only read, and that the user named.
    """

    def opener(name: str, flags: int) -> int:
        if name.startswith(_STREAMS):
            return os.open(name, flags)
        check_file(name, follow=follow)
        # Emptied only once it is known to be a file.
        safely = flags & ~os.O_TRUNC | (0 if follow else _NO_LINK) | _AT_ONCE
        descriptor = os.open(name, safely, 0o600 if private else 0o666)
        try:
            _check(name, os.fstat(descriptor))
            if flags & os.O_TRUNC:
                os.ftruncate(descriptor, 0)
        except OSError:
            os.close(descriptor)
            raise
        return descriptor

    return open(path, mode, opener=opener, **options)


@contextmanager
def replacing(path: Path, mode: str = "w", **options: Any) -> Iterator[IO[Any]]:
    """Yield a new file, which takes the place of another when it is complete, or not at all."""
    unfinished = path.with_name(f".{path.name}.{secrets.token_hex(8)}")
    try:
        with open_file(unfinished, mode.replace("w", "x"), **options) as file:
            yield file
        os.replace(unfinished, path)
    except BaseException:
        unfinished.unlink(missing_ok=True)
        raise


def real(path: str | Path) -> Path:
    """Return a path without links, or as far as they lead where they lead in a circle."""
    return Path(os.path.realpath(path))


def is_missing(path: str | Path) -> bool:
    """Whether nothing has this name; False if a folder on the way may not be entered."""
    try:
        os.stat(path)
    except (FileNotFoundError, NotADirectoryError):
        return True
    except (OSError, ValueError):
        return False
    return False


def check_file(path: str | Path, *, follow: bool = False) -> None:
    """Raise OSError if something of this name is not a file; for files that SQLite opens."""
    try:
        found = os.stat(path, follow_symlinks=follow)
    except (FileNotFoundError, NotADirectoryError):
        return
    _check(path, found)


def _check(path: str | Path, found: os.stat_result) -> None:
    if stat.S_ISDIR(found.st_mode):
        raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR), str(path))
    if stat.S_ISLNK(found.st_mode):
        raise OSError(
            errno.ELOOP, "a symbolic link has this name, which is not followed", str(path)
        )
    if not stat.S_ISREG(found.st_mode):
        raise OSError(errno.EINVAL, "this is a pipe or a device, not a file", str(path))
