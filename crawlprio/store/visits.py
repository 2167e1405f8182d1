"""Visits as rows of a crawl store: the table of visits, and those that hold parts of some."""

from __future__ import annotations

import sqlite3
from collections.abc import Sequence

from crawlprio.pages import Visit
from crawlprio.store.body_rows import put_bodies
from crawlprio.store.directive_rows import put_directives
from crawlprio.store.fingerprint_rows import put_fingerprints
from crawlprio.store.text_rows import put_notes
from crawlprio.store.value_rows import put_values
from crawlprio.store.visit_rows import VISIT_COLUMNS, visit_row

_VALUES = ",".join("?" * len(VISIT_COLUMNS.split(",")))
_INSERT_VISIT = f"INSERT INTO visits({VISIT_COLUMNS}) VALUES({_VALUES})"


def put_visits(cursor: sqlite3.Cursor, visits: Sequence[Visit], first_seq: int) -> None:
    """Insert visits, in order, inside a transaction."""
    cursor.executemany(_INSERT_VISIT, map(visit_row, visits))
    placed = list(enumerate(visits, first_seq))
    put_values(cursor, placed)
    put_fingerprints(cursor, placed)
    put_directives(cursor, placed)
    put_notes(cursor, placed)
    put_bodies(cursor, placed)
