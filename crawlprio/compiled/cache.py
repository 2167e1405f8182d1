"""Where numba keeps compiled functions between runs, also where it finds no place itself."""

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
    """Return where compiled functions are kept for later runs; None if they may not last."""
    if not _folders or _temporary_folder.cache_info().currsize:
        return None
    return Path(os.path.commonpath(_folders))


def kept(numba: Any, function: Callable[..., Any], options: dict[str, Any]) -> Any:
    """Return numba's dispatcher of a function, which keeps on disk what it compiles.

    Numba writes beside the source, into `__pycache__`, or else into the user's cache folder
    (`NUMBA_CACHE_DIR` comes before both). Where it can write to none of them it gives up; here a
    folder of the user's own below that for temporary files comes next, and without one, no cache.

    Numba reads only where it can write. So what is in a folder that it cannot write to (compiled
    when an image was built, say) is copied to where it can.
    """
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
    """Copy the compiled functions of a module that the second folder does not have.

    The index of a function is copied last, so that whoever reads it finds what it names.
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
    """Return a folder of the user's own for compiled functions, and say so; None without one.

    What is in it is run, so it must be one that nobody else can write to.
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
            "Compiled code can be kept nowhere, so that each run compiles what it needs; set "
            "NUMBA_CACHE_DIR to a folder that can be written."
        )
        return None
    notices.say(
        f"Neither the package's folder nor a cache folder of the user can be written: compiled "
        f"code is kept in {folder}; set NUMBA_CACHE_DIR to keep it elsewhere."
    )
    return folder


def _user() -> int:
    return os.getuid() if hasattr(os, "getuid") else 0
