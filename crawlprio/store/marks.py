"""Marks on pages, and counts, that survive a kill: written with whatever is recorded next."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterable

from crawlprio.store.refusals import Refusals


class Marks:
    """Pages that are handed out, pages that are still new to requests without `dont_filter`, and
    refused links.

    Only what has changed since the last commit is written, and counts not with each one.
    """

    def __init__(self) -> None:
        self._leased: set[int] = set()
        self._leased_on_disk: set[int] = set()
        self._unfiltered: dict[int, bool] = {}
        self.refusals = Refusals()

    def restore_leased(self, pages: Iterable[int]) -> None:
        """Take over marks that are on disk."""
        self._leased_on_disk.update(pages)
        self._leased.update(pages)

    def lease(self, page: int) -> None:
        """Mark a page as handed out."""
        self._leased.add(page)

    def end_lease(self, page: int) -> None:
        """Remove that mark."""
        self._leased.discard(page)

    def set_unfiltered(self, page: int, unfiltered: bool) -> None:
        """Mark a page as new to requests without `dont_filter`, or not."""
        self._unfiltered[page] = unfiltered

    def write(self, cursor: sqlite3.Cursor, *, counts_wait: bool) -> None:
        """Write the changes, inside a transaction; `counts_wait`: counts may wait for a later."""
        if self._leased != self._leased_on_disk:
            ended = [(page,) for page in self._leased_on_disk - self._leased]
            begun = [(page,) for page in self._leased - self._leased_on_disk]
            cursor.executemany("DELETE FROM leased WHERE page = ?", ended)
            cursor.executemany("INSERT OR IGNORE INTO leased VALUES(?)", begun)
        for page, unfiltered in self._unfiltered.items():
            if unfiltered:
                cursor.execute("INSERT OR IGNORE INTO unfiltered VALUES(?)", (page,))
            else:
                cursor.execute("DELETE FROM unfiltered WHERE page = ?", (page,))
        self.refusals.write(cursor, waits=counts_wait)

    def committed(self) -> None:
        """Forget the changes, which are on disk now."""
        self._leased_on_disk = self._leased.copy()
        self._unfiltered.clear()
        self.refusals.committed()
