"""The archive of a crawl as rows of its store: which record is where, and how far files go.

`archive_files.n_bytes` is the size of a file as of the last transaction: what is behind it belongs
to visits that were not recorded.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from crawlprio.store.side_tables import SideTable, all_exist

_FILES = SideTable(
    "archive_files", "id INTEGER PRIMARY KEY, name TEXT NOT NULL, n_bytes INTEGER NOT NULL"
)
_ARCHIVED = SideTable(
    "archived",
    "id INTEGER PRIMARY KEY, visit INTEGER, url TEXT NOT NULL, fetched_at REAL NOT NULL, "
    "status INTEGER NOT NULL, mime TEXT NOT NULL, digest BLOB NOT NULL, revisit INTEGER NOT NULL, "
    "file INTEGER NOT NULL, offset INTEGER NOT NULL, length INTEGER NOT NULL",
    ("CREATE INDEX archived_digest ON archived(digest) WHERE revisit = 0",),
)


class ArchivedRow(NamedTuple):
    """Where the response of a fetch is archived: a file by its number, and a place in it.

    `visit` is the `seq` of its visit, None for robots.txt files and other fetches that are no
    visit. `digest` is the SHA-1 of the body, and `revisit` 1 if that is in an earlier record.
    """

    visit: int | None
    url: str
    fetched_at: float
    status: int
    mime: str
    digest: bytes
    revisit: int
    file: int
    offset: int
    length: int


class FileRow(NamedTuple):
    """A file of the archive; all before `n_bytes` is recorded."""

    number: int
    name: str
    n_bytes: int


def has_archive(db: sqlite3.Connection) -> bool:
    """Return whether a store has the tables; raise TypeError if they are not as created here."""
    return all_exist(db, _FILES, _ARCHIVED)


def open_archive(cursor: sqlite3.Cursor) -> None:
    """Create the tables, inside a transaction, or raise TypeError if their rows are damaged."""
    if not has_archive(cursor.connection):
        for table in (_FILES, _ARCHIVED):
            table.create(cursor)
    _ARCHIVED.check(cursor.connection)


def put_archived(
    cursor: sqlite3.Cursor, rows: Sequence[ArchivedRow], files: Sequence[FileRow]
) -> None:
    """Insert records, and replace the sizes of files, inside a transaction."""
    _ARCHIVED.put(cursor, [(None, *row) for row in rows])
    _FILES.put(cursor, files)


_COLUMNS = ", ".join(ArchivedRow._fields)


def find_original(cursor: sqlite3.Cursor, digest: bytes) -> ArchivedRow | None:
    """Return the first record with a body; None if there is none."""
    found = cursor.execute(
        f"SELECT {_COLUMNS} FROM archived WHERE digest = ? AND revisit = 0 ORDER BY id LIMIT 1",
        (digest,),
    ).fetchone()
    return found and ArchivedRow(*found)


def archive_files(db: sqlite3.Connection) -> list[FileRow]:
    """Return all files, in the order written; raise TypeError for a damaged row."""
    return [FileRow(*row) for row in _FILES.rows(db, "*", "id")]


def archived(db: sqlite3.Connection) -> Iterator[ArchivedRow]:
    """Yield all records, in the order written."""
    for row in _ARCHIVED.rows(db, _COLUMNS, "id"):
        yield ArchivedRow(*row)


def last_record(cursor: sqlite3.Cursor, file: int) -> ArchivedRow | None:
    """Return the last record of a file; None if it has none."""
    query = f"SELECT {_COLUMNS} FROM archived WHERE file = ? ORDER BY id DESC LIMIT 1"
    found = cursor.execute(query, (file,)).fetchone()
    return found and ArchivedRow(*found)


def drop_last(cursor: sqlite3.Cursor, file: FileRow, last: ArchivedRow) -> FileRow:
    """Forget the last record of a file, inside a transaction; return the file without it."""
    cursor.execute("DELETE FROM archived WHERE file = ? AND offset = ?", (file.number, last.offset))
    shorter = file._replace(n_bytes=last.offset)
    _FILES.put(cursor, [shorter])
    return shorter
