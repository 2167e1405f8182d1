"""The location of numba's cache, with a fallback if numba finds no writable folder."""

from __future__ import annotations

import inspect
import os
import shutil
import stat
import tempfile
from collections.abc import Callable
from contextlib import suppress
from functools import cache
from pathlib import Path
from typing import Any

from crawlprio.compiled import notices

_INDEX, _CODE = ".nbi", ".nbc"

_folders: set[Path] = set()


def folder() -> Path | None:
    """Return the folder of compiled functions; None if it may not persist for later runs."""
    if not _folders or _temporary_folder.cache_info().currsize:
        return None
    return Path(os.path.commonpath(_folders))


def is_used() -> bool:
    """Return whether a function of this process is cached, in whatever folder."""
    return bool(_folders)


def cached_dispatcher(numba: Any, function: Callable[..., Any], options: dict[str, Any]) -> Any:
    """Return numba's dispatcher for a function, with a cache on disk.

    Numba writes to `__pycache__` beside the source, or else to the user's cache folder;
    `NUMBA_CACHE_DIR` overrides both. If it can write to none of them, it gives up. The fallback
    here is a private folder in the folder for temporary files, or else no cache.

    Numba only reads from folders that it can write to. Functions in a read-only folder (compiled
    when an image was built, for example) are therefore copied to a writable one.

    With NUMBA_BOUNDSCHECK, nothing is cached: numba's cache does not tell checked code from
    unchecked, so a process with it would run unchecked code from an earlier one, and leave checked
    code to later ones.
    """
    if numba.config.BOUNDSCHECK is not None:
        return numba.njit(**{**options, "cache": False})(function)
    try:
        dispatcher = numba.njit(**options)(function)
    except RuntimeError:  # "no locator available"
        temporary = _temporary_folder()
        if temporary is None:
            return numba.njit(**{**options, "cache": False})(function)
        given, numba.config.CACHE_DIR = numba.config.CACHE_DIR, str(temporary)
        try:
            dispatcher = numba.njit(**options)(function)
        finally:
            numba.config.CACHE_DIR = given
    chosen = Path(dispatcher.stats.cache_path)
    _folders.add(chosen)
    source = Path(inspect.getfile(function))
    _copy(source.parent / "__pycache__", chosen, source.stem)
    if numba.config.CACHE_DIR:
        _copy(Path(numba.config.CACHE_DIR, chosen.name), chosen, source.stem)
    return dispatcher


@cache
def _copy(from_folder: Path, to_folder: Path, module: str) -> None:
    """Copy the compiled functions of a module that are missing in the second folder.

    The index of a function is copied last, so that all files it refers to exist when it is read.
    """
    if from_folder == to_folder:
        return
    with suppress(OSError):
        for index in from_folder.glob(f"{module}.*{_INDEX}"):
            if not (to_folder / index.name).exists():
                codes = from_folder.glob(f"{index.stem}.*{_CODE}")
                for path in (*codes, index):
                    handle, part = tempfile.mkstemp(dir=to_folder)
                    os.close(handle)
                    shutil.copyfile(path, part)
                    os.replace(part, to_folder / path.name)


@cache
def _temporary_folder() -> Path | None:
    """Return a private temporary folder for compiled functions, and announce it; None if none.

    Its content is executed, so nobody else may be able to write to it.
    """
    try:
        folder = Path(tempfile.gettempdir(), f"crawlprio-{_user()}")
        with suppress(FileExistsError):
            folder.mkdir(mode=0o700)
        found = folder.lstat()
        is_own = stat.S_ISDIR(found.st_mode) and found.st_uid == _user()
        if not is_own or stat.S_IMODE(found.st_mode) & 0o022:
            folder = Path(tempfile.mkdtemp(prefix="crawlprio-"))
    except OSError:
        notices.say(
            "Compiled code cannot be cached, so every run compiles it again; set NUMBA_CACHE_DIR "
            "to a writable folder."
        )
        return None
    notices.say(
        f"Neither the package's folder nor the user's cache folder is writable, so compiled code "
        f"is cached in {folder}; set NUMBA_CACHE_DIR to cache it elsewhere."
    )
    return folder


def _user() -> int:
    return os.getuid() if hasattr(os, "getuid") else 0
