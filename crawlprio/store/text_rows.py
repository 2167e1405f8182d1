"""The texts of pages in a crawl store, and what is known of each, recorded with its visit."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterable, Iterator
from typing import NamedTuple

from crawlprio.items import Directives, TextNotes
from crawlprio.pages import Visit
from crawlprio.store.directive_rows import DIRECTIVES
from crawlprio.store.value_rows import checked_value, value_column, visit_columns
from crawlprio.store.visit_rows import inflated, storable

NOTES = (
    "CREATE TABLE text_notes(seq INTEGER PRIMARY KEY, page INTEGER NOT NULL, "
    f"{', '.join(f'{name} TEXT NOT NULL' for name in TextNotes._fields)})"
)
_INSERT = (
    f"INSERT INTO text_notes(seq, page, {', '.join(TextNotes._fields)}) "
    f"VALUES({', '.join('?' * (2 + len(TextNotes._fields)))})"
)
_LAST = (
    "seq IN (SELECT max(seq) FROM visits WHERE page >= 0 AND text IS NOT NULL"
    " AND status BETWEEN 200 AND 299 GROUP BY page)"
)
"""The last visit of each page that got a text."""


class TextRow(NamedTuple):
    """A page with its text."""

    page: int
    url: str
    title: str
    text: str
    fetched_at: float
    value: float | None
    notes: TextNotes
    directives: Directives


def put_notes(cursor: sqlite3.Cursor, visits: Iterable[tuple[int, Visit]]) -> None:
    """Insert what is known of texts, from visits with their places, inside a transaction."""
    rows = [
        (seq, visit.page, *map(storable, visit.notes))
        for seq, visit in visits
        if visit.notes is not None and visit.text
    ]
    if rows:
        cursor.execute(NOTES.replace("TABLE", "TABLE IF NOT EXISTS", 1))
        cursor.executemany(_INSERT, rows)


def read_text_bytes(db: sqlite3.Connection) -> Iterator[tuple[int, bytes]]:
    """Yield each page that has a text, and the text in UTF-8, in the order of the visits.

    Raises
    ------
    TypeError, ValueError, zlib.error
        A row is damaged.
    """
    for page, text in db.execute(f"SELECT page, text FROM visits WHERE {_LAST} ORDER BY seq"):
        if type(page) is not int:
            raise TypeError("a text that has no page")
        yield page, inflated(text)


def read_texts(db: sqlite3.Connection) -> Iterator[TextRow]:
    """Yield each page that has a text, in the order of the visits; one at a time is in memory.

    Raises
    ------
    TypeError, ValueError, zlib.error
        A row is damaged.
    """
    notes = visit_columns(db, "text_notes", NOTES, TextNotes._fields)
    asked = visit_columns(db, "directives", DIRECTIVES, Directives._fields)
    n_notes = len(TextNotes._fields)
    for page, url, title, text, fetched_at, value, *rest in db.execute(
        f"SELECT page, url, title, text, fetched_at, {value_column(db)}, {notes}, {asked} "
        f"FROM visits LEFT JOIN pages ON pages.id = page WHERE {_LAST} ORDER BY seq"
    ):
        texts = [url, title, *("" if column is None else column for column in rest)]
        if type(page) is not int or type(fetched_at) is not float or set(map(type, texts)) != {str}:
            raise TypeError("a text that was not stored by crawlprio")
        yield TextRow(
            page,
            texts[0],
            texts[1],
            inflated(text).decode(),
            fetched_at,
            checked_value(value),
            TextNotes(*texts[2 : 2 + n_notes]),
            Directives(*texts[2 + n_notes :]),
        )
