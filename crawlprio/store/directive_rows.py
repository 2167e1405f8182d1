"""What pages ask of those who use them, as rows of a crawl store, each with its visit."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterable

from crawlprio.items import NO_DIRECTIVES, Directives
from crawlprio.pages import Visit
from crawlprio.store.visit_rows import storable

DIRECTIVES = (
    "CREATE TABLE directives(seq INTEGER PRIMARY KEY, page INTEGER NOT NULL, "
    f"{', '.join(f'{name} TEXT NOT NULL' for name in Directives._fields)})"
)
_INSERT = (
    f"INSERT INTO directives(seq, page, {', '.join(Directives._fields)}) "
    f"VALUES({', '.join('?' * (2 + len(Directives._fields)))})"
)


def put_directives(cursor: sqlite3.Cursor, visits: Iterable[tuple[int, Visit]]) -> None:
    """Insert what pages ask, from visits with their places, inside a transaction."""
    rows = [
        (seq, visit.page, *map(storable, visit.directives))
        for seq, visit in visits
        if visit.directives is not NO_DIRECTIVES
    ]
    if rows:
        cursor.execute(DIRECTIVES.replace("TABLE", "TABLE IF NOT EXISTS", 1))
        cursor.executemany(_INSERT, rows)
