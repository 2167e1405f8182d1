"""Conversion between a page table and rows of SQLite values."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterable, Iterator
from itertools import islice

from crawlprio.graph.pages import NewPages, PageTable
from crawlprio.store.stored_pages import StoredPages, UrlRow
from crawlprio.store.visit_rows import storable, storable_all

_CHUNK = 10_000
"""Number of rows read at a time."""


def read_pages(db: sqlite3.Connection) -> PageTable:
    """Return the table stored on disk; raise ValueError or TypeError if rows are invalid."""
    pages = PageTable()
    for site, host in _sites(db):
        if pages.site(host) != site:
            raise ValueError(f"site {site} has the host of another, {host!r}")
    for page, url, key, site, depth in db.execute(
        "SELECT id, url, key, site, depth FROM pages ORDER BY id"
    ):
        if not (type(site) is int and 0 <= site < pages.n_sites and type(depth) is int):
            raise ValueError(f"page {page} is on site {site!r}, of {pages.n_sites}")
        if not (type(url) is str and (key is None or type(key) is str)):
            raise TypeError(f"page {page} has a URL or a key that is not text")
        if pages.add(url if key is None else key, url, site, depth) != page:
            raise ValueError(f"a page is missing before page {page}")
    for key, page in _aliases(db, len(pages)):
        pages.alias(key, page)
    return pages


def load_stored_pages(db: sqlite3.Connection, pages: StoredPages) -> None:
    """Load the hashes of what a table lacks of what is on disk; raise ValueError if invalid."""
    hosts, n_aliases = read_hosts(db), pages.n_identities - len(pages)
    cursor = db.execute(
        "SELECT id, url, key, site, depth FROM pages WHERE id >= ? ORDER BY id", (len(pages),)
    )
    chunks = iter(lambda: cursor.fetchmany(_CHUNK), [])
    pages.load(hosts, (list(zip(*chunk, strict=True)) for chunk in chunks))
    for key, page in islice(_aliases(db, len(pages)), n_aliases, None):
        pages.load_alias(key, page)


def read_hosts(db: sqlite3.Connection) -> list[str]:
    """Return the hosts of all sites, in order; raise ValueError or TypeError if one is invalid."""
    return [host for _, host in _sites(db)]


def read_urls(db: sqlite3.Connection, pages: Iterable[int]) -> list[UrlRow]:
    """Return the URL and the key of each page; raise ValueError or TypeError if one is invalid."""
    if isinstance(pages, range) and len(pages) > 1:
        rows = db.execute(
            "SELECT url, key FROM pages WHERE id BETWEEN ? AND ? ORDER BY id", (pages[0], pages[-1])
        ).fetchall()
        if len(rows) != len(pages):
            raise ValueError(f"{len(pages) - len(rows)} pages are missing from page {pages[0]} on")
    else:
        rows = []
        execute = db.cursor().execute
        for page in pages:
            row = execute("SELECT url, key FROM pages WHERE id = ?", (page,)).fetchone()
            if row is None:
                raise ValueError(f"page {page} is missing")
            rows.append(row)
    for url, key in rows:
        if not (type(url) is str and (key is None or type(key) is str)):
            raise TypeError("a URL or a key of a page is not text")
    return rows


def _sites(db: sqlite3.Connection) -> Iterator[tuple[int, str]]:
    """Yield the sites, in order; raise ValueError or TypeError if one is missing or invalid."""
    for number, (site, host) in enumerate(db.execute("SELECT id, host FROM sites ORDER BY id")):
        if site != number:
            raise ValueError(f"a site is missing before site {site}")
        if type(host) is not str:
            raise TypeError(f"the host of site {site} is not text")
        yield site, host


def _aliases(db: sqlite3.Connection, n_pages: int) -> Iterator[tuple[str, int]]:
    """Yield further identities of pages; raise ValueError or TypeError for an invalid one."""
    for key, page in db.execute("SELECT key, page FROM aliases ORDER BY id"):
        if not (type(page) is int and 0 <= page < n_pages):
            raise ValueError(f"an alias of page {page!r}, of {n_pages}")
        if type(key) is not str:
            raise TypeError(f"an alias of page {page} is not text")
        yield key, page


def insert_sites(cursor: sqlite3.Cursor, pages: PageTable, n_sites: int) -> None:
    """Insert the sites beyond the first `n_sites`."""
    rows = [(site, storable(pages.host(site))) for site in range(n_sites, pages.n_sites)]
    cursor.executemany("INSERT INTO sites VALUES(?, ?)", rows)


def insert_pages(cursor: sqlite3.Cursor, new: NewPages, first: int) -> None:
    """Insert new pages, with ids from `first` on, and aliases. O(new pages and aliases)."""
    urls, keys = storable_all(new.urls), new.keys
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


def mark_seeds(cursor: sqlite3.Cursor, seeds: Iterable[int]) -> None:
    """Mark pages as seeds."""
    cursor.executemany("UPDATE pages SET seed = 1 WHERE id = ?", [(seed,) for seed in seeds])
