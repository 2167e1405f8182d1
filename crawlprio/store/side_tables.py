"""Side tables of a crawl store, which a part of a crawl declares and creates with its first row."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple


class SideTable(NamedTuple):
    """A table that only some crawls need, as the part that fills it declares it.

    `columns` and the statements of `indexes` are SQL, on disk word for word: a table of that name
    with any other definition could run what the author of the file put there, and is refused.
    """

    name: str
    columns: str
    indexes: tuple[str, ...] = ()

    def exists(self, db: sqlite3.Connection | sqlite3.Cursor) -> bool:
        """Return whether a store has the table; raise TypeError if it is another one."""
        found = db.execute("SELECT sql FROM sqlite_schema WHERE name = ?", (self.name,)).fetchone()
        if found is not None and found[0] != f"CREATE TABLE {self.name}({self.columns})":
            raise TypeError(f"its table {self.name} is not as crawlprio creates it")
        return found is not None

    def create(self, cursor: sqlite3.Connection | sqlite3.Cursor) -> None:
        """Create the table and its indexes unless it exists, inside a transaction."""
        cursor.execute(f"CREATE TABLE IF NOT EXISTS {self.name}({self.columns})")
        for sql in self.indexes:
            cursor.execute(sql.replace("INDEX", "INDEX IF NOT EXISTS", 1))

    def put(self, cursor: sqlite3.Cursor, rows: Sequence[Sequence[Any]]) -> None:
        """Insert or replace whole rows, inside a transaction; create the table for the first."""
        if rows:
            self.create(cursor)
            values = ", ".join("?" * len(rows[0]))
            cursor.executemany(f"INSERT OR REPLACE INTO {self.name} VALUES({values})", rows)

    def rows(self, db: sqlite3.Connection, columns: str, order: str) -> Iterator[Any]:
        """Return the rows in an order; none without the table."""
        if not self.exists(db):
            return iter(())
        return db.execute(f"SELECT {columns} FROM {self.name} ORDER BY {order}")

    def beside_visits(self, db: sqlite3.Connection, *names: str) -> str:
        """Return SQL for columns of a visit's row here: NULL if row or table is missing."""
        if not self.exists(db):
            return ", ".join("NULL" for _ in names)
        return ", ".join(
            f"(SELECT {name} FROM {self.name} WHERE {self.name}.seq = visits.seq)" for name in names
        )


class SideRow(NamedTuple):
    """What a side table holds to be fetched: its row and its URL.

    `owner` is the host whose pages a sitemap may name, or the first page that needs a requisite;
    `nesting`, the number of sitemaps that lead to one.
    """

    number: int
    url: str
    owner: str
    nesting: int = 0


def all_exist(db: sqlite3.Connection, *tables: SideTable) -> bool:
    """Return whether a store has the tables of a part; raise TypeError if it has only some."""
    found = [table for table in tables if table.exists(db)]
    if found and len(found) < len(tables):
        raise TypeError(f"its table {found[0].name} is there without the others")
    return bool(found)
