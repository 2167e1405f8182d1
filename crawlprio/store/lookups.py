"""Single pages in a crawl store: by URL, with their visits and the links to them; their texts."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import NamedTuple

from crawlprio.pages import NO_PAGE, Visit
from crawlprio.store.connection import Connection
from crawlprio.store.failures import store_errors
from crawlprio.store.text_rows import TextRow, read_text_bytes, read_texts
from crawlprio.store.visit_rows import VISIT_COLUMNS, pair_list, row_visit


class OutsideLink(NamedTuple):
    """A link that was not followed: the page that has it, the depth of that, the anchor text."""

    page: int
    depth: int
    anchor: str


class Lookups:
    """What a store knows of single pages; the methods raise `StoreError` for a damaged file."""

    path: Path
    _db: Connection
    _n_pages: int

    def visits_of(self, page: int) -> list[tuple[int, Visit]]:
        """Return each visit of a page with its place in the crawl, without texts. O(visits)."""
        with store_errors(self.path):
            return _visits_of(self._db, page, self._n_pages)

    def text_bytes(self) -> Iterator[tuple[int, bytes]]:
        """Yield each page that has a text, by its last visit, and the text in UTF-8."""
        with store_errors(self.path):
            yield from read_text_bytes(self._db)

    def texts(self) -> Iterator[TextRow]:
        """Yield each page that has a text, by its last visit, with what is known of the text."""
        with store_errors(self.path):
            yield from read_texts(self._db)

    def find_page(self, urls: Iterable[str]) -> int:
        """Return the page of the first of these URLs that is known, or `NO_PAGE`. O(pages)."""
        with store_errors(self.path):
            return _find_page(self._db, urls, self._n_pages)

    def outside_links(self, url: str) -> list[OutsideLink]:
        """Return the recorded links to a URL that were not followed. O(outside links)."""
        with store_errors(self.path):
            return _outside_links(self._db, url, self._n_pages)


def _find_page(db: sqlite3.Connection, urls: Iterable[str], n_pages: int) -> int:
    """Return the page of the first URL that is known, or `NO_PAGE`; ValueError if damaged."""
    for url in urls:
        found = db.execute(
            "SELECT id FROM pages WHERE url = ?1 OR key = ?1"
            " UNION ALL SELECT page FROM aliases WHERE key = ?1 LIMIT 1",
            (url,),
        ).fetchone()
        if found is not None:
            return _checked(found[0], n_pages)
    return NO_PAGE


def _visits_of(db: sqlite3.Connection, page: int, n_pages: int) -> list[tuple[int, Visit]]:
    """Return place in the crawl and visit, with its title alone as text, of each visit of a page.

    ValueError or TypeError if one is damaged.
    """
    columns = VISIT_COLUMNS.replace("anchors, outside, title, text", "NULL, NULL, title, NULL")
    rows = db.execute(f"SELECT {columns}, seq FROM visits WHERE page = ? ORDER BY seq", (page,))
    return [(row[-1], row_visit(row, n_pages)) for row in rows]


def _outside_links(db: sqlite3.Connection, url: str, n_pages: int) -> list[OutsideLink]:
    """Return the recorded links to a URL that were not followed, one for each page, in turn.

    ValueError or TypeError if one is damaged.
    """
    found: dict[int, OutsideLink] = {}
    for page, depth, outside in db.execute(
        "SELECT page, depth, outside FROM visits JOIN pages ON id = page"
        " WHERE instr(outside, ?) ORDER BY seq",
        (json.dumps(url, ensure_ascii=False),),
    ):
        for target, anchor in pair_list(outside):
            if target == url:
                found.setdefault(page, OutsideLink(_checked(page, n_pages), int(depth), anchor))
    return list(found.values())


def _checked(page: object, n_pages: int) -> int:
    if not (type(page) is int and 0 <= page < n_pages):
        raise ValueError(f"page {page!r}, of {n_pages}")
    return page
