"""Rows of a crawl store that a resume needs in addition to pages and visits.

Waiting requests, the politeness state of sites, rules of robots.txt, and the links refused.
"""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Collection, Iterator
from typing import NamedTuple

from crawlprio.store.files import increasing
from crawlprio.store.side_tables import SideTable

UNHELD = b'{"unheld":'
"""What the row of a request begins with that JSON cannot hold; the reason follows."""


class RequestRow(NamedTuple):
    """A waiting request: its number, its page, and its JSON in UTF-8.

    One that JSON cannot hold waits in memory, and its row says only that there was one, and why it
    is lost; without this, its page would wait as a plain link on resume. An empty request deletes
    the row.
    """

    number: int
    page: int
    request: bytes

    @property
    def is_unheld(self) -> bool:
        """Whether JSON could not hold the request."""
        return self.request.startswith(UNHELD)


def put_requests(cursor: sqlite3.Cursor, requests: Collection[RequestRow]) -> None:
    """Insert or replace requests, inside a transaction, or delete those that are empty."""
    if requests:
        cursor.executemany(
            "INSERT OR REPLACE INTO requests(id, page, request) VALUES(?, ?, ?)",
            [(number, page, request.decode()) for number, page, request in requests if request],
        )
        gone = [(number,) for number, _, request in requests if not request]
        cursor.executemany("DELETE FROM requests WHERE id = ?", gone)


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


class SiteState(NamedTuple):
    """What a crawl knows about a site and keeps across a restart.

    The site is named by its host, because its id may not be stored yet. `crawl_delay` is in
    seconds, None if its robots.txt asks for none. `refusals` counts consecutive responses that
    asked for fewer fetches (429, 503); `pause` is the length in seconds of the pause that the last
    of them started, and `paused_until` its end as a Unix time.
    """

    host: str
    crawl_delay: float | None = None
    refusals: int = 0
    pause: float = 0.0
    paused_until: float = 0.0


REFUSALS = SideTable(
    "refusals", "rule TEXT PRIMARY KEY, links INTEGER NOT NULL, examples TEXT NOT NULL"
)


ROBOTS = SideTable("robots", "site TEXT PRIMARY KEY, rules TEXT NOT NULL")


class Refusal(NamedTuple):
    """How many links a rule refused, over all runs, and the URLs of the first ones."""

    links: int
    examples: list[str]


def read_refusals(db: sqlite3.Connection) -> dict[str, Refusal]:
    """Return the refusals on disk, by rule; raise TypeError for a damaged table."""
    refusals = {}
    for rule, links, examples in REFUSALS.rows(db, "*", "rule"):
        urls = json.loads(examples)
        is_list = isinstance(urls, list) and all(isinstance(url, str) for url in urls)
        if not is_list:
            raise TypeError(f"the examples of {rule!r} are not a list of texts")
        refusals[rule] = Refusal(links, urls)
    return refusals
