"""The state of a crawl as arrays in a file beside its store, so that a resume replays little."""

from __future__ import annotations

import json
import os
import secrets
from collections.abc import Iterator
from contextlib import suppress
from hashlib import blake2b
from hmac import compare_digest
from itertools import chain
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import DTypeLike, NDArray

from crawlprio.safe_files import open_file, replacing

Array = NDArray[Any]

FORMAT = "crawlprio state 2"
"""What the file begins with, in JSON; a new number if the meaning of the rest changes."""

_KEY_BYTES, _SEAL_BYTES = 32, 32
_AT_ONCE = 2**20
"""Bytes that are read at once while the seal is checked."""


class SavedState:
    """Named arrays, and facts that JSON can hold: the state of a crawl after one of its visits.

    The file is one line of JSON (format, facts, and the type and length of each array), then the
    arrays as they are in memory, then a seal: BLAKE2b of all that under a key that only this user
    can read, in the user's cache folder. Compiled code trusts the arrays, so a file that another
    user or machine wrote is no better than a damaged one. `facts` are by the part of the crawl
    that put them there.
    """

    def __init__(self) -> None:
        self.facts: dict[str, Any] = {}
        self._arrays: dict[str, Array] = {}

    def put(self, arrays: dict[str, Array]) -> None:
        """Add copies of arrays."""
        self._arrays |= {name: np.array(array) for name, array in arrays.items()}

    def take(self, name: str, dtype: DTypeLike) -> Array:
        """Remove an array and return it, writable, as the dtype that it had."""
        return self._arrays.pop(name).view(dtype)

    def write(self, path: Path) -> None:
        """Replace the file, which only this user may read.

        It has another name until the disk has it, so a kill, or an OSError, leaves the earlier
        file.
        """
        arrays = [each.view(np.uint8) for each in self._arrays.values()]
        kinds = [[name, each.dtype.str, len(each)] for name, each in self._arrays.items()]
        head = json.dumps({"format": FORMAT, "facts": self.facts, "arrays": kinds}).encode()
        seal = blake2b(digest_size=_SEAL_BYTES, key=_user_key())
        with replacing(path, "wb", private=True) as file:
            parts: Iterator[Any] = chain((head, b"\n"), arrays)
            for part in parts:
                seal.update(part)
                file.write(part)
            file.write(seal.digest())
            file.flush()
            os.fsync(file.fileno())

    @classmethod
    def read(cls, path: Path) -> SavedState:
        """Return what a file holds.

        Raise ValueError if it is damaged, of another format, or was not written by this user here.
        """
        with open_file(path, "rb") as file:
            seal = blake2b(digest_size=_SEAL_BYTES, key=_user_key())
            n_left = os.stat(file.fileno()).st_size - _SEAL_BYTES
            while n_left > 0 and (part := file.read(min(n_left, _AT_ONCE))):
                seal.update(part)
                n_left -= len(part)
            # Nothing is parsed before it is known who wrote it.
            if not compare_digest(seal.digest(), file.read(_SEAL_BYTES + 1)):
                raise ValueError("it is damaged, or was written by another user or machine")
            file.seek(0)
            state = cls()
            head = json.loads(file.readline())
            if head["format"] != FORMAT:
                raise ValueError(f"its format is {head['format']!r}, not {FORMAT!r}")
            state.facts = head["facts"]
            for name, kind, length in head["arrays"]:
                array = state._arrays[name] = np.empty(length, dtype=kind)
                file.readinto(array.view(np.uint8).data)
            return state


def _user_key() -> bytes:
    """Return this user's key, made on the first call; OSError if there is nowhere to keep it."""
    folder = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "crawlprio"
    path = folder / "state.key"
    for _ in range(2):
        with suppress(FileNotFoundError):
            key = path.read_bytes()
            if len(key) == _KEY_BYTES:
                return key
            path.unlink()  # its writer was killed
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        unfinished = path.with_name(f"{path.name}.{secrets.token_hex(8)}")
        with open_file(unfinished, "xb", private=True) as file:
            file.write(secrets.token_bytes(_KEY_BYTES))
        with suppress(FileExistsError):
            os.link(unfinished, path)
        unfinished.unlink()
    return path.read_bytes()
