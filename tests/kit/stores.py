"""Crawl stores for tests: visits by hand, and plain SQL past the `Store`."""

import sqlite3
from contextlib import closing
from functools import partial

import numpy as np

from crawlprio.frontier import PageQueue
from crawlprio.graph.pages import NO_PAGE, PageTable, Visit
from crawlprio.orderings import make_ordering
from crawlprio.simulator.timed import crawl_order
from crawlprio.store import SiteState, Store
from crawlprio.store.graph_files import export_links
from crawlprio.store.side_tables import TABLES


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


def record_visits(path, pages, *visits, seeds=()):
    """Write a store of some pages, with these visits of them; return its path."""
    with Store.create(path) as store:
        if seeds:
            store.record_pages(pages, seeds)
        for each in visits:
            store.record(each, pages)
    return path


def write_full(path):
    """Write a store of 8 pages that has a row in each of its tables."""
    pages = letters(8)
    pages.alias("also 1", 1)
    with Store.create(path) as store:
        store.record_pages(pages, [0, 1])
        store.keep_site_state(SiteState("site1.example", 2.0, 1, 4.0, 1e9))
        store.pending.leased.set(6)
        store.pending.unfiltered.set(7)
        for page in range(6):
            about = {"anchors": ["six", "seven"], "outside": [("http://b.example/", "b")]}
            store.pending.put_request(page + 1, page, b'{"url":"http://b.example/"}')
            store.record(visit(page, 6, 7, text="text" * (page == 0), **about), pages)


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


def read_all(path, *, readonly=True):
    """Read everything in a store, as resuming, scoring, simulating and exporting do."""
    with Store.open(path, readonly=readonly) as store:
        pages = store.load_pages()
        store.stored_pages()
        frontier = PageQueue(make_ordering("opic"), pages)
        frontier.observe(visit(NO_PAGE, *store.seeds()))
        for each in store.visits():
            "".join([each.title, each.error, each.text, *each.anchors]).encode()
            if each.page != NO_PAGE:
                frontier.observe(each)
        waiting = [page for _, page, _ in store.requests()]
        for page in (*waiting, *store.leased(), *store.unfiltered()):
            frontier.add(page)
        while frontier.next_page(0.0) != NO_PAGE:
            pass
        for page in range(store.n_pages):
            store.requests_of(page)
        texts = partial(store.texts, TABLES.values())
        for read in (
            *(store.redirected_seeds, store.site_states, store.last_fetches, texts),
            *(store.bodies, store.kept_items, store.refusals, store.sitemaps().counts),
            *(store.page_urls, store.link_rows),
        ):
            list(read())
        assert store.last_request >= 0
        assert not store.is_archived
        store.read_urls(range(store.n_pages))
        graph = store.link_graph()
        if graph.n_pages:
            crawl_order(graph, [0], make_ordering("opic"))
        for name in ("links.csv", "links.jsonl"):
            export_links(store, path.with_name(name))
        if not readonly:
            store.end_run(1.0)
