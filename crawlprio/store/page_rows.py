"""A page table as rows of SQLite values, and rows as a page table.

It must not know files, transactions or visits.
"""

from __future__ import annotations

import sqlite3
from itertools import islice

from crawlprio.pages import PageTable
from crawlprio.store.rows import storable


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
    for key, page in db.execute("SELECT key, page FROM aliases ORDER BY id"):
        pages.alias(key, page)
    return pages


def insert_pages(
    cursor: sqlite3.Cursor, pages: PageTable, n_pages: int, n_sites: int, n_identities: int
) -> None:
    """Insert what the table holds beyond so many pages, sites and identities. O(what is new)."""
    n_new = len(pages._ids) - n_identities
    if n_new == 0:
        return
    if pages.n_sites > n_sites:
        new = range(n_sites, pages.n_sites)
        rows = [(site, storable(pages.host(site))) for site in new]
        cursor.executemany("INSERT INTO sites VALUES(?, ?)", rows)
    ids = range(n_pages, len(pages))
    urls = pages.urls(ids)
    keys: list[str | None] = [None] * len(urls)
    aliases: list[tuple[str, int]] = []
    found = n_pages
    # A table never forgets an identity, so the new ones are the last of its dictionary; the first
    # that means a page is the one it was added by.
    for key, page in reversed(list(islice(reversed(pages._ids.items()), n_new))):
        if page == found:
            if key != urls[page - n_pages]:
                keys[page - n_pages] = storable(key)
            found += 1
        else:
            aliases.append((storable(key), page))
    joined = "".join(urls)
    if storable(joined) != joined:
        urls = [storable(url) for url in urls]
    sites = pages.sites[n_pages:].tolist()
    depths = pages.depths[n_pages:].tolist()
    cursor.executemany(
        "INSERT INTO pages(id, url, key, site, depth) VALUES(?,?,?,?,?)",
        zip(ids, urls, keys, sites, depths, strict=True),
    )
    if aliases:
        cursor.executemany("INSERT INTO aliases(key, page) VALUES(?, ?)", aliases)
