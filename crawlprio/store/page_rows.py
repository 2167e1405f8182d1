"""A page table as rows of SQLite values, and rows as a page table.

It must not know files, transactions or visits.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Iterable, Iterator

from crawlprio.pages import NewPages, PageTable
from crawlprio.store.stored_pages import StoredPages, UrlRow
from crawlprio.store.visit_rows import storable

_CHUNK = 10_000
"""Rows that are read at once."""


def read_pages(db: sqlite3.Connection) -> PageTable:
    """The table as it is on disk; ValueError if the rows make none."""
    pages = PageTable()
    for site, host in db.execute("SELECT id, host FROM sites ORDER BY id"):
        if pages.site(host) != site:
            raise ValueError(f"a site is missing before {host}")
    for page, url, key, site, depth in db.execute(
        "SELECT id, url, key, site, depth FROM pages ORDER BY id"
    ):
        if not 0 <= site < pages.n_sites:
            raise ValueError(f"page {page} is on site {site}, of {pages.n_sites}")
        if pages.add(url if key is None else key, url, site, depth) != page:
            raise ValueError(f"a page is missing before page {page}")
    for key, page in _aliases(db, len(pages)):
        pages.alias(key, page)
    return pages


def _aliases(db: sqlite3.Connection, n_pages: int) -> Iterator[tuple[str, int]]:
    """Further identities of pages; ValueError for one of no page."""
    for key, page in db.execute("SELECT key, page FROM aliases ORDER BY id"):
        if not (isinstance(page, int) and 0 <= page < n_pages):
            raise ValueError(f"an alias of page {page}, of {n_pages}")
        yield key, page


def load_stored_pages(db: sqlite3.Connection, pages: StoredPages) -> None:
    """Fill an empty table with the hashes of what is on disk; ValueError if the rows make none."""
    rows = db.execute("SELECT id, host FROM sites ORDER BY id").fetchall()
    hosts = [host for _, host in rows]
    if [site for site, _ in rows] != list(range(len(rows))):
        raise ValueError(f"a site is missing among {len(rows)}")
    cursor = db.execute("SELECT id, url, key, site, depth FROM pages ORDER BY id")
    chunks = iter(lambda: cursor.fetchmany(_CHUNK), [])
    (n_pages,) = db.execute("SELECT count(*) FROM pages").fetchone()
    chunked = (list(zip(*chunk, strict=True)) for chunk in chunks)
    pages.load(hosts, chunked, _aliases(db, n_pages))


def read_urls(db: sqlite3.Connection, pages: Iterable[int]) -> list[UrlRow]:
    """The URL and the key of each page; ValueError for one that is not there."""
    if isinstance(pages, range) and len(pages) > 1:
        rows = db.execute(
            "SELECT url, key FROM pages WHERE id BETWEEN ? AND ? ORDER BY id", (pages[0], pages[-1])
        ).fetchall()
        if len(rows) != len(pages):
            raise ValueError(f"{len(pages) - len(rows)} pages are missing from page {pages[0]} on")
        return rows
    rows = []
    execute = db.cursor().execute
    for page in pages:
        row = execute("SELECT url, key FROM pages WHERE id = ?", (page,)).fetchone()
        if row is None:
            raise ValueError(f"page {page} is missing")
        rows.append(row)
    return rows


def insert_sites(cursor: sqlite3.Cursor, pages: PageTable, n_sites: int) -> None:
    """Insert the sites beyond so many."""
    rows = [(site, storable(pages.host(site))) for site in range(n_sites, pages.n_sites)]
    cursor.executemany("INSERT INTO sites VALUES(?, ?)", rows)


def insert_pages(cursor: sqlite3.Cursor, new: NewPages, first: int) -> None:
    """Insert pages, the first of which has this id, and aliases. O(what is new)."""
    urls, keys = map(storable, new.urls), new.keys
    cursor.executemany(
        "INSERT INTO pages(id, url, site, depth) VALUES(?, ?, ?, ?)",
        zip(range(first, first + len(new.urls)), urls, new.sites, new.depths, strict=True),
    )
    if keys:
        cursor.executemany(
            "UPDATE pages SET key = ? WHERE id = ?",
            [(storable(key), first + at) for at, key in keys.items()],
        )
    if new.aliases:
        cursor.executemany(
            "INSERT INTO aliases(key, page) VALUES(?, ?)",
            [(storable(key), page) for key, page in new.aliases],
        )
