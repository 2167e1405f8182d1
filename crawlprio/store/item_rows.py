"""The items of a spider as rows of a crawl store, each in the transaction of its visit."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator, Sequence

from crawlprio.store.visit_rows import storable

ItemRow = tuple[int, str]
"""The page of an item, or `NO_PAGE` if it has none, and the item as JSON."""

_CREATE = (
    "CREATE TABLE IF NOT EXISTS items(id INTEGER PRIMARY KEY, page INTEGER NOT NULL, "
    "item TEXT NOT NULL)"
)


def put_items(cursor: sqlite3.Cursor, items: Sequence[ItemRow]) -> None:
    """Insert items, inside a transaction; create the table if it does not exist."""
    cursor.execute(_CREATE)
    cursor.executemany(
        "INSERT INTO items(page, item) VALUES(?, ?)",
        [(page, storable(item)) for page, item in items],
    )


def read_items(db: sqlite3.Connection) -> Iterator[ItemRow]:
    """Yield all items, in the order kept; raises TypeError for a damaged one."""
    kinds = db.execute("SELECT type FROM sqlite_schema WHERE name = 'items'").fetchall()
    if not kinds:
        return
    if kinds != [("table",)]:
        raise TypeError("items that are not a table")
    for page, item in db.execute("SELECT page, item FROM items ORDER BY id"):
        if type(page) is not int or type(item) is not str:
            raise TypeError("an item that is not text")
        yield page, item
