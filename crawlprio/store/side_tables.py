"""Side tables of a crawl store, which a part of a crawl declares and creates with its first row."""

from __future__ import annotations

import re
import sqlite3
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import cache
from typing import Any, NamedTuple

from crawlprio.items import Directives, TextNotes

_OF_VISIT = "seq INTEGER PRIMARY KEY, page INTEGER NOT NULL"
_BESIDE_VISITS = re.compile(
    rf"(?:{_OF_VISIT}|visit INTEGER PRIMARY KEY)"
    r"((?:, [a-z]\w* (?:INTEGER|REAL|TEXT|BLOB) NOT NULL)+)"
)
_TYPES: dict[str, Any] = {"INTEGER": int, "REAL": (float, int), "TEXT": str, "BLOB": bytes}


@cache
def _types_of(columns: str) -> dict[str, str]:
    shape = _BESIDE_VISITS.fullmatch(columns)
    return dict(re.findall(r", (\w+) (\w+)", "" if shape is None else shape[1]))


@cache
def _python_types_of(columns: str) -> list[Any]:
    return [_TYPES[name] for name in _types_of(columns).values()]


class SideTable(NamedTuple):
    """A table that only some crawls need, as the part that fills it declares it.

    `columns` and the statements of `indexes` are SQL, on disk word for word: a table of that name
    with any other definition could run what the author of the file put there, and is refused.

    Of a table of visits, `is_valid` returns whether a row may have these values, if that depends on
    more than their types.
    """

    name: str
    columns: str
    indexes: tuple[str, ...] = ()
    is_valid: Callable[..., bool] | None = None

    @classmethod
    def of_visits(
        cls, name: str, columns: str, is_valid: Callable[..., bool] | None = None
    ) -> SideTable:
        """Return the table of a fact of fetched pages, which has a row for some visits.

        `columns` are NOT NULL and of type INTEGER, REAL, TEXT or BLOB. Those of number and page of
        the visit precede them. A part puts a row, without these, into the `extras` of a page.
        """
        table = cls(name, f"{_OF_VISIT}, {columns}", (), is_valid)
        if not table.types:
            raise ValueError(f"{name}: {columns!r} are no columns of a table of visits")
        return table

    @property
    def types(self) -> dict[str, str]:
        """The types of the columns of a table of visits, by name, without number and page."""
        return _types_of(self.columns)

    @property
    def key(self) -> str:
        """The name of the first column."""
        return self.columns.partition(" ")[0]

    def checked(self, row: Any) -> tuple[Any, ...]:
        """Return a row of a table of visits; raise ValueError if it is none."""
        types = _python_types_of(self.columns)
        if (
            not (isinstance(row, tuple | list) and len(row) == len(types))
            or not all(map(isinstance, row, types))
            or not (self.is_valid is None or self.is_valid(*row))
        ):
            raise ValueError(f"a row that its table {self.name} cannot have")
        return tuple(row)

    def exists(self, db: sqlite3.Connection | sqlite3.Cursor) -> bool:
        """Return whether a store has the table; raise TypeError if it is another one."""
        found = db.execute("SELECT sql FROM sqlite_schema WHERE name = ?", (self.name,)).fetchone()
        if found is not None and found[0] != f"CREATE TABLE {self.name}({self.columns})":
            raise TypeError(f"its table {self.name} is not as crawlprio creates it")
        return found is not None

    def check(self, db: sqlite3.Connection) -> None:
        """Raise TypeError if a value is of another type than its column, as SQLite allows.

        O(rows), 0.2 s for a million.
        """
        if not self.exists(db):
            return
        wrong = []
        for _, name, declared, is_set, _, is_key in db.execute(f"PRAGMA table_info({self.name})"):
            types = declared.lower() if is_set or is_key else f"{declared.lower()}', 'null"
            wrong.append(f"WHEN typeof({name}) NOT IN ('{types}') THEN '{name}'")
        column = f"CASE {' '.join(wrong)} END"
        query = f"SELECT rowid, {column} FROM {self.name} WHERE {column} IS NOT NULL LIMIT 1"
        for row, name in db.execute(query):
            raise TypeError(f"{name} of row {row} of its table {self.name} has another type")

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
        """Return the rows in an order, checked; none without the table."""
        if not self.exists(db):
            return iter(())
        self.check(db)
        return db.execute(f"SELECT {columns} FROM {self.name} ORDER BY {order}")


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


def _texts(names: Iterable[str]) -> str:
    return ", ".join(f"{name} TEXT NOT NULL" for name in names)


VALUES = SideTable.of_visits("page_values", "value REAL NOT NULL", lambda value: 0 <= value <= 1)
FINGERPRINTS = SideTable.of_visits("fingerprints", "fingerprint INTEGER NOT NULL")
DIRECTIVES = SideTable.of_visits("directives", _texts(Directives._fields))
NOTES = SideTable.of_visits("text_notes", _texts(TextNotes._fields))
BODIES = SideTable("bodies", "visit INTEGER PRIMARY KEY, body BLOB NOT NULL")

ARCHIVE_FILES = SideTable(
    "archive_files", "id INTEGER PRIMARY KEY, name TEXT NOT NULL, n_bytes INTEGER NOT NULL"
)
ARCHIVED = SideTable(
    "archived",
    "id INTEGER PRIMARY KEY, visit INTEGER, url TEXT NOT NULL, fetched_at REAL NOT NULL, "
    "status INTEGER NOT NULL, mime TEXT NOT NULL, digest BLOB NOT NULL, revisit INTEGER NOT NULL, "
    "file INTEGER NOT NULL, offset INTEGER NOT NULL, length INTEGER NOT NULL",
    ("CREATE INDEX archived_digest ON archived(digest) WHERE revisit = 0",),
)
"""The archive of a crawl: its files up to what is recorded, and the place of each response."""

EVIDENCE = VALUES, FINGERPRINTS
"""The side tables whose rows orderings read, so that they are read with visits."""

TABLES = {table.name: table for table in (*EVIDENCE, DIRECTIVES, NOTES, BODIES)}
"""The side tables of visits that crawlprio itself declares, by name."""
