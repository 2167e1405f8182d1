"""What pages need to look like themselves, as rows of a crawl store."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterable
from pathlib import Path
from typing import NamedTuple

from crawlprio.store.files import store_errors
from crawlprio.store.side_tables import SideTable
from crawlprio.store.visit_rows import storable

_REQUISITES = SideTable(
    "requisites",
    "id INTEGER PRIMARY KEY, url TEXT NOT NULL UNIQUE, page TEXT NOT NULL, "
    "fetched_at REAL, n_bytes INTEGER NOT NULL, remark TEXT NOT NULL",
)
_END_ARCHIVED = """
UPDATE requisites SET fetched_at = answered.fetched_at, remark = 'archived before' FROM (
    SELECT r.id, max(a.fetched_at) AS fetched_at
    FROM archived a CROSS JOIN requisites r ON r.url = a.url WHERE r.fetched_at IS NULL GROUP BY 1
) answered WHERE answered.id = requisites.id
"""
_MAX_RECENT = 50_000


class RequisiteRow(NamedTuple):
    """A requisite that waits: its row, its URL, and the first page that needs it."""

    number: int
    url: str
    page: str


class Need(NamedTuple):
    """How many requisites a page was the first to need, and their size in bytes so far."""

    n_requisites: int
    n_bytes: int


class StoredRequisites:
    """The requisites of a crawl store, recorded with the visits of the pages that need them.

    It is a `crawlprio.store.Companion`: what it is told is on disk with the next transaction, which
    also records where the archive has the response. Beyond `max_rows`, requisites are dropped.
    """

    def __init__(self, path: Path, max_rows: int) -> None:
        self._path = path
        self._max_rows = max_rows
        self._cursor: sqlite3.Cursor
        self._n_rows = 0
        self._named: list[tuple[str, str]] = []
        self._ended: list[tuple[float | None, int, str, int]] = []
        self._recent: set[str] = set()

    def open(self, cursor: sqlite3.Cursor) -> None:
        """Create the table, or find it, inside a transaction; StoreError if it is another."""
        self._cursor = cursor
        with store_errors(self._path):
            if not _REQUISITES.exists(cursor):
                _REQUISITES.create(cursor)
            (self._n_rows,) = cursor.execute("SELECT count(*) FROM requisites").fetchone()

    def name(self, urls: Iterable[str], page: str) -> None:
        """Note what a page needs; a requisite belongs to the first page that needs it."""
        if len(self._recent) > _MAX_RECENT:
            self._recent.clear()
        new = [url for url in urls if url not in self._recent]
        self._recent.update(new)
        self._named += [(url, page) for url in new]

    def end(self, row: RequisiteRow, fetched_at: float | None, n_bytes: int, remark: str) -> None:
        """Note what became of a requisite; without a time, a later run fetches it again."""
        self._ended.append((fetched_at, n_bytes, storable(remark), row.number))

    def write(self, cursor: sqlite3.Cursor) -> None:
        for row in self._named:
            if self.is_full:
                break
            cursor.execute(
                "INSERT OR IGNORE INTO requisites(url, page, n_bytes, remark) VALUES(?, ?, 0, '')",
                row,
            )
            self._n_rows += cursor.rowcount
        cursor.executemany(
            "UPDATE requisites SET fetched_at = ?, n_bytes = ?, remark = ? WHERE id = ?",
            self._ended,
        )

    def committed(self) -> None:
        self._named.clear()
        self._ended.clear()

    def sync(self) -> None:
        """Do nothing: there is no file beside the store."""

    @property
    def is_full(self) -> bool:
        """Whether the crawl may have no more requisites."""
        return self._n_rows >= self._max_rows

    # What is committed

    def end_archived(self) -> None:
        """End the requisites whose URL the archive has already, as pages. O(archived responses)."""
        with store_errors(self._path):
            self._cursor.connection.execute(_END_ARCHIVED)

    def waiting(self, after: int = 0) -> list[RequisiteRow]:
        """Return the requisites behind a row that have no response, in the order named."""
        with store_errors(self._path):
            found = self._cursor.connection.execute(
                "SELECT id, url, page FROM requisites WHERE id > ? AND fetched_at IS NULL "
                "ORDER BY id",
                (after,),
            )
            return [RequisiteRow(int(row), str(url), str(page)) for row, url, page in found]

    def needs(self) -> dict[str, Need]:
        """Return what each page needs. O(requisites)."""
        with store_errors(self._path):
            found = self._cursor.connection.execute(
                "SELECT page, count(*), sum(n_bytes) FROM requisites GROUP BY page"
            )
            return {str(page): Need(int(n), int(n_bytes)) for page, n, n_bytes in found}
