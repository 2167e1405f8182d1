"""The store object: it records visits, each in a transaction, and gives them back.

It must not know Scrapy, nor what an ordering makes of a visit.
"""

from __future__ import annotations

import contextlib
import json
import os
import sqlite3
from array import array
from collections.abc import Iterator, Sequence
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING

import numpy as np

from crawlprio.errors import StoreError
from crawlprio.pages import NO_PAGE, PageTable, Visit
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
from crawlprio.store.page_rows import insert_pages, read_pages
from crawlprio.store.rows import VISIT_COLUMNS, row_visit, storable, target_list, visit_row
from crawlprio.store.schema import OWN_FACTS, check_version, create_schema

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
        self._requested: set[int] = set()

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
        """Fold the log into the store and let the next writer in; a second call does nothing."""
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
        self, visit: Visit, pages: PageTable, requests: Sequence[tuple[int, bytes]] = ()
    ) -> int:
        """A visit is on disk, with all pages discovered since the last call, or neither is.

        The first request stored for its page, if there is one, is gone with it.

        Parameters
        ----------
        visit
            Its page and targets are pages of `pages`. That of `NO_PAGE` marks its targets as seeds.
        pages
            The table of this crawl: the one given before, or the one that `load_pages` returned.
        requests
            `(page, request)` of the requests that wait since the last call and are more than a
            link, in whatever form the caller will read back.

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
            if visit.page in self._requested:
                self._cursor.execute(_DELETE_REQUEST, (visit.page,))
            self._add_requests(requests)
        self._note(pages)
        self._n_visits += visit.page != NO_PAGE
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
        self._note(pages)

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
            self._n_identities = len(pages._ids)
        return pages

    def visits(self) -> Iterator[Visit]:
        """The visits come back in the order recorded, equal field by field to what was put in.

        Anchors that were all empty come back as none. Visits recorded while this runs are not
        among them. One visit at a time is in memory.
        """
        with sentences(self.path):
            (last,) = self._db.execute("SELECT max(seq) FROM visits").fetchone()
            if self._lock is None:  # the pages that these visits may name, or more
                self._count()
            for row in self._db.execute(
                f"SELECT {VISIT_COLUMNS} FROM visits WHERE seq <= ? ORDER BY seq", (last,)
            ):
                yield row_visit(row, self._n_pages)

    def requests(self) -> Iterator[tuple[int, bytes]]:
        """The requests that were recorded for pages and not visited since, in order."""
        with sentences(self.path):
            for page, request in self._db.execute("SELECT page, request FROM requests ORDER BY id"):
                self._requested.add(page)
                yield page, request

    def seeds(self) -> list[int]:
        """The pages marked as seeds, in order of discovery."""
        with sentences(self.path):
            rows = self._db.execute("SELECT id FROM pages WHERE seed ORDER BY id")
            return [page for (page,) in rows]

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
        with _Transaction(self):
            self._put_meta("writer_pid", str(os.getpid()))
        return self

    def _count(self) -> None:
        """Find out what is stored; ids are dense, so the largest tells the number."""
        one = self._db.execute(
            "SELECT (SELECT ifnull(max(id) + 1, 0) FROM pages),"
            " (SELECT ifnull(max(id) + 1, 0) FROM sites), (SELECT count(*) FROM aliases),"
            " (SELECT count(*) FROM visits WHERE page >= 0)"
        ).fetchone()
        self._n_pages, self._n_sites, n_aliases, self._n_visits = one
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
            self._requested.update(page for page, _ in requests)

    def _mark_seeds(self, seeds: list[int]) -> None:
        """Mark pages as seeds, inside a transaction."""
        self._cursor.executemany("UPDATE pages SET seed = 1 WHERE id = ?", [(s,) for s in seeds])

    def _note(self, pages: PageTable) -> None:
        """Remember, after the commit, how much of the table is stored."""
        self._n_pages, self._n_sites = len(pages), pages.n_sites
        self._n_identities = len(pages._ids)


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
                return
            except sqlite3.Error as failure:
                error = failure
        # SQLite has rolled back by itself after some errors, a full disk among them.
        if store._db.in_transaction:
            with contextlib.suppress(sqlite3.Error):
                store._cursor.execute("ROLLBACK")
        if isinstance(error, sqlite3.Error) and not isinstance(error, sqlite3.ProgrammingError):
            raise unopened(store.path, error) from None
