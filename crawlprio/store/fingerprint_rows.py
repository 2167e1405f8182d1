"""The fingerprints of what pages say, as rows of a crawl store, each with its visit."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterable

from crawlprio.pages import Visit

_CREATE = (
    "CREATE TABLE fingerprints(seq INTEGER PRIMARY KEY, page INTEGER NOT NULL, "
    "fingerprint INTEGER NOT NULL)"
)
_INSERT = "INSERT INTO fingerprints(seq, page, fingerprint) VALUES(?, ?, ?)"
_OF_VISIT = "(SELECT fingerprint FROM fingerprints WHERE fingerprints.seq = visits.seq)"


def put_fingerprints(cursor: sqlite3.Cursor, visits: Iterable[tuple[int, Visit]]) -> None:
    """Insert the fingerprints of visits, each with its place, inside a transaction."""
    rows = [(seq, visit.page, visit.fingerprint) for seq, visit in visits if visit.fingerprint]
    if rows:
        cursor.execute(_CREATE.replace("TABLE", "TABLE IF NOT EXISTS", 1))
        cursor.executemany(_INSERT, rows)


def fingerprint_column(db: sqlite3.Connection) -> str:
    """Return the SQL for the fingerprint of a visit: 0 in a store without any.

    Raises
    ------
    ValueError
        Something else has the place of the table.
    """
    found = db.execute("SELECT sql FROM sqlite_schema WHERE name = 'fingerprints'").fetchone()
    if found is not None and found[0] != _CREATE:
        raise ValueError("its table fingerprints is not as crawlprio creates it")
    return "0" if found is None else _OF_VISIT


def checked_fingerprint(fingerprint: object) -> int:
    """Return the fingerprint of a visit, 0 if it has none; raise ValueError if it is not one."""
    if fingerprint is not None and not isinstance(fingerprint, int):
        raise ValueError(f"a fingerprint that is {fingerprint!r}")
    return fingerprint or 0
