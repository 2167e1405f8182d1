"""What keeps rows, or files beside the store, that must agree with its transactions."""

from __future__ import annotations

import sqlite3
from typing import Protocol


class Companion(Protocol):
    """Writes its part of each transaction of a store, for as long as it is attached.

    What it writes to a file of its own in `write` is there before the transaction is committed. A
    kill in between leaves more in the file than the store knows of, which `open` cuts off.
    """

    def open(self, cursor: sqlite3.Cursor) -> None:
        """Create or read its tables, in a transaction of its own."""

    def write(self, cursor: sqlite3.Cursor) -> None:
        """Write what is new, inside a transaction; an error rolls all of it back."""

    def committed(self) -> None:
        """Take note that the transaction was committed."""

    def sync(self) -> None:
        """Wait until the disk has its files; called in another thread, before a checkpoint."""


class Companions:
    """All companions of a store, as one."""

    def __init__(self) -> None:
        self._all: list[Companion] = []

    def open(self, companion: Companion, cursor: sqlite3.Cursor) -> None:
        """Add a companion once it is open, in a transaction of its own."""
        companion.open(cursor)
        self._all.append(companion)

    def write(self, cursor: sqlite3.Cursor) -> None:
        for companion in self._all:
            companion.write(cursor)

    def committed(self) -> None:
        for companion in self._all:
            companion.committed()

    def sync(self) -> None:
        for companion in self._all:
            companion.sync()
