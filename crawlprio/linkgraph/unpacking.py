"""Reading packed files no further than a file of that size may grow."""

from __future__ import annotations

import codecs
import gzip
import math
import tokenize
import zlib
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import numpy as np

from crawlprio.errors import GraphError

GROWTH = 50
FREE_BYTES = 2**28
"""A file may unpack to `FREE_BYTES`, or to `GROWTH` times its size; texts grow to some 5 times."""

_CHUNK = 2**20


def most_bytes(path: Path, asked: int | None = None) -> int:
    """Return how many bytes a packed file may unpack to: what is asked for, or what is usual."""
    return max(FREE_BYTES, GROWTH * path.stat().st_size) if asked is None else asked


def too_many(path: Path, most: int) -> GraphError:
    """The sentence for a file that unpacks to more."""
    return GraphError(
        f"{path} unpacks to more than {most} bytes, as a file made to fill memory does; unpack it "
        "yourself if it is sound, or raise CRAWLPRIO_MAX_UNPACKED_BYTES."
    )


def unpack_gzip(path: Path, most: int | None = None, *, is_text: bool = False) -> bytearray:
    """Return what a gzip file holds.

    Parameters
    ----------
    most
        bytes that it may unpack to; by default `most_bytes`.
    is_text
        whether it must be UTF-8.

    Raises
    ------
    GraphError
        When it unpacks to more.
    OSError, EOFError, zlib.error, UnicodeDecodeError
        When it is cut short, broken or not text.
    """
    most = most_bytes(path, most)
    unpacked = bytearray()
    decoder = codecs.getincrementaldecoder("utf-8")()
    with gzip.open(path) as file:
        while chunk := file.read(_CHUNK):
            if is_text:
                decoder.decode(chunk)
            unpacked += chunk
            if len(unpacked) > most:
                raise too_many(path, most)
    decoder.decode(b"", final=True)
    return unpacked


BROKEN_GZIP = (OSError, EOFError, zlib.error)
"""What a gzip file cut short or altered raises."""


def check_arrays(path: Path, archive: Any, names: Iterable[str], most: int | None = None) -> None:
    """Refuse the arrays of an .npz that are larger than it may unpack to, before one is read.

    NumPy allocates what the header of an array asks for, and zipfile believes the size that the
    directory of the archive states, no further than which it reads.

    Raises
    ------
    GraphError
        When they are, or an array's header asks for more than the archive holds of it.
    """
    most = most_bytes(path, most)
    members = {info.filename: info.file_size for info in archive.zip.infolist()}
    n_bytes = 0
    for name in names:
        if name not in archive.files:
            continue
        member = f"{name}.npy" if f"{name}.npy" in members else name
        n_bytes += members[member]
        if n_bytes > most:
            raise too_many(path, most)
        with archive.zip.open(member) as file:
            version = np.lib.format.read_magic(file)
            read = _HEADERS.get(version)
            if read is None:
                continue  # NumPy says what is wrong
            try:
                shape, _, kind = read(file)
            except (tokenize.TokenError, SyntaxError) as error:
                raise ValueError(f"the header of {name} is not one of an array") from error
        if math.prod(shape) * kind.itemsize > members[member]:
            raise GraphError(
                f"{path}: {name} says that it has the shape {shape}, and the file holds "
                f"{members[member]} bytes of it; write it again."
            )


_HEADERS: dict[tuple[int, int], Any] = {
    (1, 0): np.lib.format.read_array_header_1_0,
    (2, 0): np.lib.format.read_array_header_2_0,
}
