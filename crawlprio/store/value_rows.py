"""What pages are worth by the crawl's value model, as rows of a crawl store."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterable

from crawlprio.pages import Visit

_CREATE = (
    "CREATE TABLE page_values(seq INTEGER PRIMARY KEY, page INTEGER NOT NULL, value REAL NOT NULL)"
)
_INSERT = "INSERT INTO page_values(seq, page, value) VALUES(?, ?, ?)"
_OF_VISIT = "(SELECT value FROM page_values WHERE page_values.seq = visits.seq)"


def put_values(cursor: sqlite3.Cursor, visits: Iterable[tuple[int, Visit]]) -> None:
    """Insert the values of visits, each with its place, inside a transaction."""
    rows = [(seq, visit.page, visit.value) for seq, visit in visits if visit.value is not None]
    if rows:
        cursor.execute(_CREATE.replace("TABLE", "TABLE IF NOT EXISTS", 1))
        cursor.executemany(_INSERT, rows)


def value_column(db: sqlite3.Connection) -> str:
    """Return the SQL for the value of a visit: NULL in a store without values.

    Raises
    ------
    ValueError
        Something else has the place of the table.
    """
    found = db.execute("SELECT sql FROM sqlite_schema WHERE name = 'page_values'").fetchone()
    if found is not None and found[0] != _CREATE:
        raise ValueError("its table page_values is not as crawlprio creates it")
    return "NULL" if found is None else _OF_VISIT


def checked_value(value: object) -> float | None:
    """Return the value of a visit; raise ValueError if it is not one."""
    if value is None:
        return None
    if not isinstance(value, float) or not 0 <= value <= 1:
        raise ValueError(f"a value of a page that is {value!r}")
    return value
