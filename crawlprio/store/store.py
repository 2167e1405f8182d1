"""The store object: it records visits, each in a transaction, and gives them back.

It must not know Scrapy, nor what an ordering makes of a visit.
"""

from __future__ import annotations

import contextlib
import json
import math
import os
import sqlite3
from array import array
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING

import numpy as np

from crawlprio.errors import StoreError
from crawlprio.pages import NO_PAGE, PageTable, Visit
from crawlprio.store.checkpoints import Checkpoints
from crawlprio.store.files import (
    NameTaken,
    StoreInUse,
    WriterLock,
    numbered,
    open_database,
    remove,
    reserve,
    sentences,
    unopened,
)
from crawlprio.store.page_rows import insert_pages, load_stored_pages, read_pages
from crawlprio.store.page_rows import read_urls as read_url_rows
from crawlprio.store.rows import VISIT_COLUMNS, row_visit, storable, target_list, visit_row
from crawlprio.store.schema import OWN_FACTS, check_version, create_schema
from crawlprio.store.site_states import SiteState, put_site_state, read_site_states
from crawlprio.store.stored_pages import StoredPages, UrlRow

if TYPE_CHECKING:
    from crawlprio.linkgraph import LinkGraph

_INSERT_VISIT = f"INSERT INTO visits({VISIT_COLUMNS}) VALUES(?,?,?,?,?,?,?,?,?,?,?,?)"


_DELETE_REQUEST = "DELETE FROM requests WHERE id = (SELECT min(id) FROM requests WHERE page = ?)"


class Store:
    """A store keeps every committed visit, whatever ends the process that wrote it.

    `Store.create` and `Store.open` make one. One writer at a time, any number of readers, also
    while the crawl runs. What was committed survives `kill -9`; a power failure may cost the last
    few visits and does not damage the file. All methods raise `StoreError`, in one sentence, when
    the disk is full or the file is damaged.

    In texts, NUL and lone surrogates become U+FFFD; the text of a page is cut at `MAX_TEXT`
    characters.
    """

    def __init__(self, path: Path, db: sqlite3.Connection, lock: WriterLock | None) -> None:
        self.path = path
        self._db = db
        self._cursor = db.cursor()
        self._lock = lock
        self._n_pages = self._n_sites = self._n_identities = self._n_visits = 0
        self._n_requests = 0
        self._leased: set[int] = set()
        self._newly_leased: set[int] = set()
        self._unfiltered: dict[int, bool] = {}
        self.ended_at: float | None = None
        self._checkpoints: Checkpoints | None = None
        self._is_open = True

    @classmethod
    def create(cls, path: str | Path) -> Store:
        """A new, empty store opens for writing; nothing may have that name yet.

        Raises
        ------
        StoreInUse
            A living process writes to a store of that name.
        StoreError
            The name is taken, or the folder is missing or may not be written.
        """
        path = Path(path)
        with contextlib.ExitStack() as on_failure:
            lock = WriterLock(path)
            on_failure.callback(lock.release)
            reserve(path)
            on_failure.callback(remove, path)
            db = open_database(path, readonly=False)
            on_failure.callback(db.close)
            with sentences(path):
                create_schema(db)
            store = cls(path, db, lock)._start_writing()
            on_failure.pop_all()
        return store

    @classmethod
    def create_numbered(cls, path: str | Path) -> Store:
        """A new store opens under the next free numbered name: `crawl.1.sqlite` for `crawl.sqlite`.

        For a second crawl, beside one that is writing to `path`; two that ask at the same time get
        two names. Its attribute `path` says which.
        """
        for name in numbered(Path(path)):
            with contextlib.suppress(StoreInUse, NameTaken):
                return cls.create(name)
        raise AssertionError("numbered names do not end")

    @classmethod
    def open(cls, path: str | Path, *, readonly: bool = False) -> Store:
        """An existing store opens, to go on writing or, with `readonly`, beside a running crawl.

        Raises
        ------
        StoreInUse
            Not `readonly`, and a living process writes to it.
        StoreError
            It is missing, damaged, unreadable, no crawl store, or of another schema version.
        """
        path = Path(path)
        with contextlib.ExitStack() as on_failure:
            lock = None
            if not readonly:
                lock = WriterLock(path)
                on_failure.callback(lock.release)
            db = open_database(path, readonly=readonly)
            on_failure.callback(db.close)
            with sentences(path):
                check_version(path, db)
                store = cls(path, db, lock)
                store._count()
            if not readonly:
                store._start_writing()
            on_failure.pop_all()
        return store

    def close(self) -> None:
        """Fold the log into the store and let the next writer in; a second call does nothing.

        The table of `stored_pages` reads on.
        """
        self._is_open = False
        if self._checkpoints is not None:
            self._checkpoints.stop()
        self._db.close()
        if self._lock is not None:
            self._lock.release()

    def __enter__(self) -> Store:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.close()

    @property
    def n_pages(self) -> int:
        """Pages stored, visited or not; to a reader, when it opened or last read the store."""
        return self._n_pages

    @property
    def n_visits(self) -> int:
        """Visits stored, revisits counted; those of `NO_PAGE`, which only name seeds, not."""
        return self._n_visits

    def record(
        self,
        visit: Visit,
        pages: PageTable,
        requests: Sequence[tuple[int, bytes]] = (),
        *,
        ends_request: bool = True,
    ) -> int:
        """A visit is on disk, with all pages discovered since the last call, or neither is.

        Parameters
        ----------
        visit
            Its page and targets are pages of `pages`. That of `NO_PAGE` marks its targets as seeds.
        pages
            The table of this crawl: the one given before, or the one that `load_pages` or
            `stored_pages` returned.
        requests
            `(page, request)` of the requests that wait since the last call and are more than a
            link, in whatever form the caller will read back.
        ends_request
            Whether the first request stored for its page, if there is one, is gone with the visit.

        Returns
        -------
        int
            The visit's place in the crawl, from 1.

        Raises
        ------
        StoreError
            The disk is full, the store is open for reading only, or the file is damaged.

        Notes
        -----
        O(new pages + links); `benchmarks/store.py` measures it.
        """
        targets = visit.targets.tolist()
        row = visit_row(visit, targets)
        with _Transaction(self):
            self._add_pages(pages)
            seq = self._cursor.execute(_INSERT_VISIT, row).lastrowid
            if visit.page == NO_PAGE:
                self._mark_seeds(targets)
            n_done = 0
            if self._n_requests and ends_request:
                n_done = self._cursor.execute(_DELETE_REQUEST, (visit.page,)).rowcount
            self._add_requests(requests)
            self._add_marks(visit.page)
        self._note(pages)
        self._n_visits += visit.page != NO_PAGE
        self._n_requests += len(requests) - n_done
        assert seq is not None
        return seq

    def record_pages(
        self,
        pages: PageTable,
        seeds: Sequence[int] = (),
        requests: Sequence[tuple[int, bytes]] = (),
    ) -> None:
        """The pages of the table are on disk, nothing visited; `seeds` among them are marked."""
        with _Transaction(self):
            self._add_pages(pages)
            self._mark_seeds([int(page) for page in seeds])
            self._add_requests(requests)
            self._add_marks(NO_PAGE)
        self._note(pages)
        self._n_requests += len(requests)

    def mark_leased(self, page: int) -> None:
        """A page is handed out: on disk with what is recorded next, until its visit is."""
        if page not in self._leased:
            self._newly_leased.add(page)

    def mark_unfiltered(self, page: int, *, unfiltered: bool) -> None:
        """A page that was asked for with `dont_filter` is new to requests without, or no more.

        On disk with what is recorded next.
        """
        self._unfiltered[page] = unfiltered

    def leased(self) -> list[int]:
        """The pages that were handed out when the process that wrote the store was killed."""
        pages = self._marked("leased")
        self._leased.update(pages)
        return pages

    def unfiltered(self) -> list[int]:
        """The pages that are new to requests without `dont_filter`."""
        return self._marked("unfiltered")

    def keep_site_state(self, state: SiteState) -> None:
        """What was learnt of a site is on disk, instead of what was before."""
        with _Transaction(self):
            put_site_state(self._cursor, state)

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

    def note_end(self, ended_at: float) -> None:
        """The run ends in good order, at a Unix time: nothing is handed out any more.

        The next process that opens the store for writing finds the time in the attribute
        `ended_at`; None there means that the last one was killed.
        """
        with _Transaction(self):
            self._cursor.execute("DELETE FROM leased")
            self._put_meta("ended_at", repr(ended_at))

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
            if self._lock is None:
                self._count()
        try:
            yield
        finally:
            self._db.execute("COMMIT")

    def load_pages(self) -> PageTable:
        """The page table of the crawl comes back: ids, identities, sites and depths as they were.

        O(pages).
        """
        with self.snapshot(), sentences(self.path):
            pages = read_pages(self._db)
        if self._lock is not None:
            self._n_identities = pages.n_identities
        return pages

    def stored_pages(self) -> StoredPages:
        """The page table of the crawl that this store is of, its URLs left on disk.

        For the one writer: `record` takes it, and no other table then. It reads URLs from here,
        also after `close`. O(pages), some 2 s for a million.
        """
        pages = StoredPages(self.read_urls)
        with self.snapshot(), sentences(self.path):
            load_stored_pages(self._db, pages)
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
            if self._lock is None:  # the pages that these visits may name, or more
                self._count()
            for row in self._db.execute(
                f"SELECT {columns} FROM visits WHERE seq <= ? ORDER BY seq", (last,)
            ):
                yield row_visit(row, self._n_pages)

    def requests(self) -> Iterator[tuple[int, bytes]]:
        """The requests that were recorded for pages and not visited since, in order."""
        with sentences(self.path):
            for row in self._db.execute("SELECT page, request FROM requests ORDER BY id"):
                page, request = row
                if not (isinstance(page, int) and 0 <= page < self._n_pages):
                    raise ValueError(f"a request of page {page}, of {self._n_pages} pages")
                if not isinstance(request, bytes):
                    raise TypeError(f"the request of page {page} is no bytes")
                yield page, request

    def request(self, page: int) -> bytes | None:
        """The first request recorded for a page and not visited since; None without one."""
        with sentences(self.path):
            row = self._db.execute(
                "SELECT request FROM requests WHERE page = ? ORDER BY id LIMIT 1", (page,)
            ).fetchone()
        return None if row is None else bytes(row[0])

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
            if self._lock is None:  # the pages as the query sees them, or more
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

    def get_meta(self, key: str, default: str = "") -> str:
        """The fact of the crawl stored under `key`, or `default`."""
        with sentences(self.path):
            row = self._db.execute("SELECT value FROM meta WHERE key = ?", (key,)).fetchone()
        return default if row is None else str(row[0])

    def set_meta(self, key: str, value: str) -> None:
        """A fact of the crawl is on disk under `key`; lists and the like as JSON text.

        ValueError for a key that the store writes itself: `schema_version`, `crawlprio_version`,
        `created`, `writer_pid`.
        """
        if key in OWN_FACTS:
            raise ValueError(f"meta key {key!r} is the store's own; choose another key.")
        with _Transaction(self):
            self._put_meta(storable(key), storable(value))

    def _put_meta(self, key: str, value: str) -> None:
        """Insert or replace one row of `meta`, inside a transaction."""
        self._cursor.execute("INSERT OR REPLACE INTO meta VALUES(?, ?)", (key, value))

    def _start_writing(self) -> Store:
        """Set what SQLite keeps per connection, and say which process writes."""
        self._db.execute("PRAGMA synchronous = NORMAL")
        self._checkpoints = Checkpoints(self.path, self._db)
        with _Transaction(self):
            self._put_meta("writer_pid", str(os.getpid()))
            self.ended_at = _seconds(self.get_meta("ended_at"))
            self._cursor.execute("DELETE FROM meta WHERE key = 'ended_at'")
        return self

    def _count(self) -> None:
        """Find out what is stored; ids are dense, so the largest tells the number."""
        one = self._db.execute(
            "SELECT (SELECT ifnull(max(id) + 1, 0) FROM pages),"
            " (SELECT ifnull(max(id) + 1, 0) FROM sites), (SELECT count(*) FROM aliases),"
            " (SELECT count(*) FROM visits WHERE page >= 0), (SELECT count(*) FROM requests)"
        ).fetchone()
        self._n_pages, self._n_sites, n_aliases, self._n_visits, self._n_requests = one
        self._n_identities = self._n_pages + n_aliases

    def _add_pages(self, pages: PageTable) -> None:
        """Insert sites, pages and aliases that are not stored yet, inside a transaction."""
        if len(pages) < self._n_pages:
            raise ValueError(
                f"The table has {len(pages)} pages and the store {self._n_pages}; "
                "record with the table that load_pages returned."
            )
        known = (self._n_pages, self._n_sites, self._n_identities)
        insert_pages(self._cursor, pages, *known)

    def _add_requests(self, requests: Sequence[tuple[int, bytes]]) -> None:
        """Insert requests, inside a transaction."""
        if requests:
            self._cursor.executemany("INSERT INTO requests(page, request) VALUES(?, ?)", requests)

    def _add_marks(self, visited: int) -> None:
        """Insert and delete what was marked since the last call, inside a transaction."""
        execute = self._cursor.execute
        if visited in self._leased:
            execute("DELETE FROM leased WHERE page = ?", (visited,))
            self._leased.discard(visited)
        self._newly_leased.discard(visited)
        for page in self._newly_leased:
            execute("INSERT OR IGNORE INTO leased VALUES(?)", (page,))
        for page, unfiltered in self._unfiltered.items():
            if unfiltered:
                execute("INSERT OR IGNORE INTO unfiltered VALUES(?)", (page,))
            else:
                execute("DELETE FROM unfiltered WHERE page = ?", (page,))

    def _marked(self, table: str) -> list[int]:
        """The pages in a table of marks; ValueError for one that is no page."""
        with sentences(self.path):
            pages = [page for (page,) in self._db.execute(f"SELECT page FROM {table} ORDER BY 1")]
            if pages and not 0 <= pages[0] <= pages[-1] < self._n_pages:
                raise ValueError(f"page {pages[0]} or {pages[-1]}, of {self._n_pages}, in {table}")
        return pages

    def _mark_seeds(self, seeds: list[int]) -> None:
        """Mark pages as seeds, inside a transaction."""
        self._cursor.executemany("UPDATE pages SET seed = 1 WHERE id = ?", [(s,) for s in seeds])

    def _note(self, pages: PageTable) -> None:
        """Remember, after the commit, how much of the table is stored."""
        self._n_pages, self._n_sites = len(pages), pages.n_sites
        self._n_identities = pages.n_identities
        pages.note_stored()
        self._leased |= self._newly_leased
        self._newly_leased.clear()
        self._unfiltered.clear()


def _seconds(text: str) -> float | None:
    """A Unix time as `meta` has it; None if there is none, or it is no time."""
    try:
        seconds = float(text)
    except ValueError:
        return None
    return seconds if math.isfinite(seconds) else None


class _Transaction:
    """All writes inside are committed at the end, or none is."""

    __slots__ = ("_store",)

    def __init__(self, store: Store) -> None:
        self._store = store

    def __enter__(self) -> None:
        store = self._store
        if store._lock is None:
            raise StoreError(f"{store.path}: open for reading only; open it without readonly.")
        try:
            store._cursor.execute("BEGIN IMMEDIATE")
        except sqlite3.ProgrammingError:
            raise
        except sqlite3.Error as error:
            raise unopened(store.path, error) from None

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        store = self._store
        if error is None:
            try:
                store._cursor.execute("COMMIT")
                if store._checkpoints is not None:
                    store._checkpoints.note_commit()
                return
            except sqlite3.Error as failure:
                error = failure
        # SQLite has rolled back by itself after some errors, a full disk among them.
        if store._db.in_transaction:
            with contextlib.suppress(sqlite3.Error):
                store._cursor.execute("ROLLBACK")
        if isinstance(error, sqlite3.Error) and not isinstance(error, sqlite3.ProgrammingError):
            raise unopened(store.path, error) from None
