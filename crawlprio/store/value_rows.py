"""What pages are worth by the crawl's value model, as rows of a crawl store."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterable

from crawlprio.pages import Visit

_CREATE = (
    "CREATE TABLE page_values(seq INTEGER PRIMARY KEY, page INTEGER NOT NULL, value REAL NOT NULL)"
)
_INSERT = "INSERT INTO page_values(seq, page, value) VALUES(?, ?, ?)"


def put_values(cursor: sqlite3.Cursor, visits: Iterable[tuple[int, Visit]]) -> None:
    """Insert the values of visits, each with its place, inside a transaction."""
    rows = [(seq, visit.page, visit.value) for seq, visit in visits if visit.value is not None]
    if rows:
        cursor.execute(_CREATE.replace("TABLE", "TABLE IF NOT EXISTS", 1))
        cursor.executemany(_INSERT, rows)


def value_column(db: sqlite3.Connection) -> str:
    """Return the SQL for the value of a visit: NULL in a store without values."""
    return visit_columns(db, "page_values", _CREATE, ["value"])


def visit_columns(db: sqlite3.Connection, table: str, created: str, names: Iterable[str]) -> str:
    """Return the SQL for columns of a table that has rows for some visits: NULL without the table.

    Raises
    ------
    ValueError
        Something else has the place of the table, which `created` would have created.
    """
    found = db.execute("SELECT sql FROM sqlite_schema WHERE name = ?", (table,)).fetchone()
    if found is None:
        return ", ".join("NULL" for _ in names)
    if found[0] != created:
        raise ValueError(f"its table {table} is not as crawlprio creates it")
    return ", ".join(
        f"(SELECT {name} FROM {table} WHERE {table}.seq = visits.seq)" for name in names
    )


def checked_value(value: object) -> float | None:
    """Return the value of a visit; raise ValueError if it is not one."""
    if value is None:
        return None
    if not isinstance(value, float) or not 0 <= value <= 1:
        raise ValueError(f"a value of a page that is {value!r}")
    return value
