"""What a crawl store holds, read back: pages, visits, links, requests and facts of the crawl.

It must not know how any of it is written.
"""

from __future__ import annotations

import contextlib
import json
import sqlite3
from array import array
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from crawlprio.pages import PageTable, Visit
from crawlprio.store.files import open_database, sentences
from crawlprio.store.page_rows import read_pages
from crawlprio.store.page_rows import read_urls as read_url_rows
from crawlprio.store.site_states import SiteState, read_site_states
from crawlprio.store.stored_pages import UrlRow
from crawlprio.store.visit_rows import VISIT_COLUMNS, row_visit, target_list

if TYPE_CHECKING:
    from crawlprio.linkgraph import LinkGraph


RequestRow = tuple[int, int, bytes]
"""A request that waits: its number, its page, and what it takes to make it again."""


class StoreReader:
    """The reading half of `Store`, which opens it; all methods raise `StoreError` as that does."""

    def __init__(self, path: Path, db: sqlite3.Connection, *, writes: bool) -> None:
        self.path = path
        self._db = db
        self._writes = writes
        self._n_pages = self._n_sites = self._n_identities = self._n_visits = 0
        self._n_requests = self._last_seq = 0
        self._is_open = True

    @property
    def n_pages(self) -> int:
        """Pages stored, visited or not; to a reader, when it opened or last read the store."""
        return self._n_pages

    @property
    def n_visits(self) -> int:
        """Visits stored, revisits counted; those of `NO_PAGE`, which only name seeds, not."""
        return self._n_visits

    @contextlib.contextmanager
    def snapshot(self) -> Iterator[None]:
        """All that is read inside is of one moment, also beside a running crawl; it may be nested.

        Nothing can be recorded inside.
        """
        if self._db.in_transaction:
            yield
            return
        with sentences(self.path):
            self._db.execute("BEGIN")
        try:
            if not self._writes:
                with sentences(self.path):
                    self._count()
            yield
        finally:
            # Nothing was written; of a damaged file SQLite may refuse even to end it.
            with contextlib.suppress(sqlite3.Error):
                self._db.execute("ROLLBACK")

    def load_pages(self) -> PageTable:
        """The page table of the crawl comes back: ids, identities, sites and depths as they were.

        O(pages).
        """
        with self.snapshot(), sentences(self.path):
            pages = read_pages(self._db)
        if self._writes:
            self._n_identities = pages.n_identities
        return pages

    def read_urls(self, pages: Iterable[int]) -> list[UrlRow]:
        """URL and `key` of stored pages, also once the store is closed. Some 3 µs each."""
        if not self._is_open:
            with (
                contextlib.closing(open_database(self.path, readonly=True)) as db,
                sentences(self.path),
            ):
                return read_url_rows(db, pages)
        with sentences(self.path):
            return read_url_rows(self._db, pages)

    def page_urls(self) -> Iterator[str]:
        """The URL of every page, in order; one at a time is in memory."""
        with sentences(self.path):
            for (url,) in self._db.execute("SELECT url FROM pages ORDER BY id"):
                yield url

    def visits(self, *, texts: bool = True, anchors: bool = True) -> Iterator[Visit]:
        """The visits come back in the order recorded, equal field by field to what was put in.

        Anchors that were all empty come back as none. Visits recorded while this runs are not
        among them. One visit at a time is in memory.

        Parameters
        ----------
        texts
            False leaves out title, text and links outside, which saves half of the time.
        anchors
            False leaves out anchor texts.
        """
        columns = VISIT_COLUMNS
        if not texts:
            columns = columns.replace("outside, title, text", "NULL, '', NULL")
        if not anchors:
            columns = columns.replace("anchors", "NULL")
        with sentences(self.path):
            (last,) = self._db.execute("SELECT max(seq) FROM visits").fetchone()
            if not self._writes:  # the pages that these visits may name, or more
                self._count()
            for row in self._db.execute(
                f"SELECT {columns} FROM visits WHERE seq <= ? ORDER BY seq", (last,)
            ):
                yield row_visit(row, self._n_pages)

    @property
    def last_request(self) -> int:
        """The largest number of a stored request; 0 without one."""
        with sentences(self.path):
            (last,) = self._db.execute("SELECT ifnull(max(id), 0) FROM requests").fetchone()
        return int(last)

    def requests(self) -> Iterator[RequestRow]:
        """The requests that were recorded for pages and have not ended, by number."""
        with sentences(self.path):
            for row in self._db.execute("SELECT id, page, request FROM requests ORDER BY id"):
                yield self._checked(*row)

    def requests_of(self, page: int) -> list[RequestRow]:
        """The requests of one page that have not ended, by number."""
        with sentences(self.path):
            rows = self._db.execute(
                "SELECT id, page, request FROM requests WHERE page = ? ORDER BY id", (page,)
            ).fetchall()
            return [self._checked(*row) for row in rows]

    def request(self, number: int) -> bytes:
        """A request that has not ended, by its number."""
        with sentences(self.path):
            row = self._db.execute(
                "SELECT id, page, request FROM requests WHERE id = ?", (number,)
            ).fetchone()
            if row is None:
                raise ValueError(f"request {number} is missing")
            return self._checked(*row)[2]

    def _checked(self, number: int, page: object, request: object) -> RequestRow:
        """A row of `requests`; ValueError or TypeError for a damaged one."""
        if not (isinstance(page, int) and 0 <= page < self._n_pages):
            raise ValueError(f"a request of page {page}, of {self._n_pages} pages")
        if not isinstance(request, bytes):
            raise TypeError(f"the request of page {page} is not bytes")
        return number, page, request

    def seeds(self) -> list[int]:
        """The pages marked as seeds, in order of discovery."""
        with sentences(self.path):
            rows = self._db.execute("SELECT id FROM pages WHERE seed ORDER BY id")
            return [page for (page,) in rows]

    def redirected_seeds(self) -> list[str]:
        """The URLs at which seeds that redirect arrived, in the order of the seeds. O(seeds)."""
        with sentences(self.path):
            rows = self._db.execute(
                "WITH RECURSIVE hops(first, page, n) AS ("
                " SELECT id, id, 0 FROM pages WHERE seed UNION"
                " SELECT first, json_extract(targets, '$[0]'), n + 1"
                " FROM hops JOIN visits USING (page)"
                " WHERE status BETWEEN 300 AND 399 AND targets <> '[]' AND n < 20)"
                " SELECT url FROM hops JOIN pages ON id = hops.page"
                " WHERE n > 0 AND EXISTS(SELECT 1 FROM visits WHERE visits.page = hops.page"
                " AND status BETWEEN 200 AND 299) ORDER BY first, n"
            )
            return [url for (url,) in rows]

    def link_rows(self) -> Iterator[tuple[int, list[int], list[str]]]:
        """Each visited page with its targets and their anchor texts, by its last visit, in order.

        The order is that of the last visits. Anchors are as many as targets, or none. One page at a
        time is in memory.
        """
        with sentences(self.path):
            rows = self._db.execute(
                "SELECT page, targets, anchors FROM visits WHERE seq IN"
                " (SELECT max(seq) FROM visits WHERE page >= 0 GROUP BY page) ORDER BY seq"
            )
            if not self._writes:  # the pages as the query sees them, or more
                self._count()
            for page, targets, anchors in rows:
                row = target_list(targets, self._n_pages)
                yield page, row, [] if anchors is None else json.loads(anchors)

    def link_graph(self) -> LinkGraph:
        """The links between stored pages, each row in page order; unvisited pages have none.

        A page visited more than once has the row of its last visit, be that a failed one. O(pages +
        links) time and memory.
        """
        from crawlprio.linkgraph import LinkGraph

        flat = array("i")
        with self.snapshot(), sentences(self.path):
            pages = read_pages(self._db)
            indptr = np.zeros(len(pages) + 1, dtype=np.int64)
            for page, targets in self._db.execute(
                "SELECT page, targets FROM (SELECT max(seq) AS last FROM visits WHERE page >= 0"
                " GROUP BY page) CROSS JOIN visits ON seq = last ORDER BY page"
            ):
                row = target_list(targets, len(pages))
                flat.extend(row)
                indptr[page + 1] = len(row)
        np.cumsum(indptr, out=indptr)
        indices = np.array(flat, dtype=np.int32)
        return LinkGraph.cleaned(
            indptr,
            indices,
            site=pages.sites.copy(),
            urls=pages.urls(range(len(pages))),
            hosts=[pages.host(site) for site in range(pages.n_sites)],
        )

    def site_states(self) -> list[SiteState]:
        """What was learnt of sites, by host name."""
        with sentences(self.path):
            return list(read_site_states(self._db))

    def last_fetches(self) -> list[tuple[int, float, float]]:
        """For each site fetched from: its id, and `fetched_at` and `elapsed` of its last visit.

        O(visits).
        """
        with sentences(self.path):
            return self._db.execute(
                "SELECT site, fetched_at, elapsed FROM (SELECT site, max(seq) AS last"
                " FROM visits JOIN pages ON pages.id = page GROUP BY site)"
                " CROSS JOIN visits ON seq = last ORDER BY site"
            ).fetchall()

    def unfiltered(self) -> list[int]:
        """The pages that are new to requests without `dont_filter`."""
        return self._marked("unfiltered")

    def get_meta(self, key: str, default: str = "") -> str:
        """The fact of the crawl stored under `key`, or `default`."""
        with sentences(self.path):
            row = self._db.execute("SELECT value FROM meta WHERE key = ?", (key,)).fetchone()
        return default if row is None else str(row[0])

    def _marked(self, table: str) -> list[int]:
        """The pages in a table of marks; ValueError for one that is no page."""
        with sentences(self.path):
            pages = [page for (page,) in self._db.execute(f"SELECT page FROM {table} ORDER BY 1")]
            if pages and not 0 <= pages[0] <= pages[-1] < self._n_pages:
                raise ValueError(f"page {pages[0]} or {pages[-1]}, of {self._n_pages}, in {table}")
        return pages

    def _count(self) -> None:
        """Find out what is stored; ids are dense, so the largest tells the number."""
        one = self._db.execute(
            "SELECT (SELECT ifnull(max(id) + 1, 0) FROM pages),"
            " (SELECT ifnull(max(id) + 1, 0) FROM sites), (SELECT count(*) FROM aliases),"
            " (SELECT count(*) FROM visits WHERE page >= 0),"
            " (SELECT ifnull(max(seq), 0) FROM visits)"
        ).fetchone()
        self._n_pages, self._n_sites, n_aliases, self._n_visits, self._last_seq = one
        self._n_identities = self._n_pages + n_aliases
