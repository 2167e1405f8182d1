"""What pages ask of those who use them, as rows of a crawl store, each with its visit."""

from __future__ import annotations

import sqlite3
from collections.abc import Sequence

from crawlprio.items import Directives
from crawlprio.store.visit_rows import storable

_CREATE = (
    "CREATE TABLE IF NOT EXISTS directives(seq INTEGER PRIMARY KEY, page INTEGER NOT NULL, "
    f"{', '.join(f'{name} TEXT NOT NULL' for name in Directives._fields)})"
)
_INSERT = (
    f"INSERT INTO directives(seq, page, {', '.join(Directives._fields)}) "
    f"VALUES({', '.join('?' * (2 + len(Directives._fields)))})"
)


def put_directives(cursor: sqlite3.Cursor, rows: Sequence[tuple[int, int, Directives]]) -> None:
    """Insert place of a visit, page and directives, inside a transaction; create the table."""
    if rows:
        cursor.execute(_CREATE)
        cursor.executemany(
            _INSERT, [(seq, page, *map(storable, asked)) for seq, page, asked in rows]
        )
