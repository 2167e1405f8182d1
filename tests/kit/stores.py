"""Crawl stores for tests: visits by hand, and plain SQL past the `Store`."""

import sqlite3
from contextlib import closing

import numpy as np

from crawlprio.graph.pages import NO_PAGE, PageTable, Visit
from crawlprio.store import Store


def table(*urls):
    """Return a page table of some URLs, each on the site of its host."""
    pages = PageTable()
    for url in urls:
        pages.add(url, url, pages.site(url.split("/")[2]))
    return pages


def letters(n):
    """Return a table of `n` pages on three sites."""
    return table(*(f"http://site{i % 3}.example/{i}" for i in range(n)))


def visit(page, *targets, **fields):
    """Return the visit of a page with links to some pages."""
    return Visit(page, np.array(targets, dtype=np.int32), **fields)


def query(store, sql, *values):
    """Return the rows that a query finds in a store."""
    with closing(sqlite3.connect(store)) as db:
        return db.execute(sql, values).fetchall()


def change(store, sql, *values):
    """Change a store; return how many rows were changed."""
    with closing(sqlite3.connect(store)) as db, db:
        return db.execute(sql, values).rowcount


def visited_urls(store, where="true"):
    """Return the URL of each visit for which `where` holds, in order."""
    sql = f"SELECT url FROM visits JOIN pages ON pages.id = page WHERE {where} ORDER BY seq"
    return [url for (url,) in query(store, sql)]


def visited_pages(store):
    """Return the page of each visit, in order."""
    with Store.open(store, readonly=True) as opened:
        return [visit.page for visit in opened.visits() if visit.page != NO_PAGE]
