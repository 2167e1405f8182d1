"""The waiting requests of a crawl as rows of SQLite values."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from crawlprio.store.failures import increasing


class RequestRow(NamedTuple):
    """A waiting request: its number, its page, and its JSON in UTF-8."""

    number: int
    page: int
    request: bytes


def put_requests(cursor: sqlite3.Cursor, requests: Sequence[RequestRow]) -> None:
    """Insert or replace requests, inside a transaction."""
    cursor.executemany(
        "INSERT OR REPLACE INTO requests(id, page, request) VALUES(?, ?, ?)",
        [(number, page, request.decode()) for number, page, request in requests],
    )


def read_requests(
    db: sqlite3.Connection, n_pages: int, column: str = "", value: int = 0
) -> Iterator[RequestRow]:
    """Yield all requests, or those with a value in a column, by number.

    Raise ValueError or TypeError for a damaged one.
    """
    where, values = (f"WHERE {column} = ?", (value,)) if column else ("", ())
    before = 0
    for number, page, request in db.execute(
        f"SELECT id, page, request FROM requests {where} ORDER BY id", values
    ):
        before = increasing(number, before)
        if not (isinstance(page, int) and 0 <= page < n_pages):
            raise ValueError(f"a request of page {page!r}, of {n_pages} pages")
        if not isinstance(request, str):
            raise TypeError(f"the request of page {page} is not text")
        yield RequestRow(number, page, request.encode())
