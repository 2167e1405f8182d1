"""The crawl store: opened, written to visit by visit, and closed."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Mapping, Sequence
from pathlib import Path

from crawlprio.errors import StoreError
from crawlprio.graph.pages import NO_PAGE, PageTable, Visit
from crawlprio.store.files import (
    Connection,
    NameTaken,
    StoreInUse,
    WriterLock,
    check_is_there,
    numbered,
    open_database,
    remove,
    reserve,
    store_errors,
)
from crawlprio.store.pending import Pending
from crawlprio.store.saved_state import SavedState
from crawlprio.store.schema import (
    ADD_INDEX,
    DROP_INDEX,
    add_newer_parts,
    check_schema,
    create_schema,
)
from crawlprio.store.side_tables import TABLES, SideTable
from crawlprio.store.state_reader import seconds_of
from crawlprio.store.stored_pages import (
    StoredPages,
    insert_pages,
    insert_sites,
    load_stored_pages,
)
from crawlprio.store.transactions import Checkpoints, StoreTransactions
from crawlprio.store.visit_rows import fill_late_links


class Store(StoreTransactions):
    """A crawl store, which keeps every committed visit, however the writing process ends.

    `Store.create` and `Store.open` return one. There is one writer at a time, and any number of
    readers, even while the crawl runs. What was committed survives `kill -9`; a power failure may
    lose the last few visits, but does not damage the file. All methods raise `StoreError`, in one
    sentence, if the disk is full or the file is damaged.

    NUL and lone surrogates in texts become U+FFFD. The text of a page is cut at `MAX_TEXT`
    characters. `pending` is what the next transaction of a writer writes.
    """

    def __init__(self, path: Path, db: Connection, lock: WriterLock | None) -> None:
        super().__init__(path, db, lock)
        self.pending = Pending()
        self.ended_at: float | None = None
        self._tables: Mapping[str, SideTable] = TABLES

    @classmethod
    def create(cls, path: str | Path) -> Store:
        """Create an empty store and open it for writing; the name must be free.

        Raises `StoreInUse` if a running process writes to a store of that name. Raises `StoreError`
        if the name is taken, or the folder is missing or not writable.
        """
        path = Path(path)
        with contextlib.ExitStack() as on_failure:
            lock = WriterLock(path)
            on_failure.callback(lock.close)
            reserve(path)
            on_failure.callback(remove, path)
            db = open_database(path, readonly=False)
            on_failure.callback(db.close)
            with store_errors(path):
                create_schema(db)
            lock.lock_file()
            store = cls(path, db, lock)._start_writing()
            on_failure.pop_all()
        return store

    @classmethod
    def create_numbered(cls, path: str | Path) -> Store:
        """Create a store under the next free numbered name: `crawl.1.sqlite` for `crawl.sqlite`.

        Use it for a crawl while another program has `path` open. Two simultaneous calls get two
        different names. The attribute `path` has the name.
        """
        for name in numbered(Path(path)):
            if os.path.lexists(name):  # a thousand times cheaper than to take its lock
                continue
            with contextlib.suppress(StoreInUse, NameTaken):
                return cls.create(name)
        raise AssertionError("numbered names do not end")

    @classmethod
    def open(cls, path: str | Path, *, readonly: bool = False) -> Store:
        """Open an existing store, to write to it or, with `readonly`, beside a running crawl.

        Raises
        ------
        StoreInUse
            Not `readonly`, and a running process writes to it.
        StoreError
            It is missing, damaged, unreadable, not a crawl store, or of a schema version that
            cannot be read or written; or, if not `readonly`, it has triggers or several hard links.
        """
        path = Path(path)
        with contextlib.ExitStack() as on_failure:
            lock = None
            if not readonly:
                check_is_there(path)
                lock = WriterLock(path)
                on_failure.callback(lock.close)
                lock.check_file()
            db = open_database(path, readonly=readonly)
            on_failure.callback(db.close)
            with store_errors(path):
                check_schema(path, db, writes=not readonly)
                store = cls(path, db, lock)
                store._count()
            if lock is not None:
                lock.lock_file()
                store._start_writing()
            on_failure.pop_all()
        return store

    def close(self) -> None:
        """Commit, move the log into the store, and release the writer's lock.

        The file is then complete, even while a program reads it. The last connection to close
        removes SQLite's other files, if it can write. A second call does nothing. The table of
        `stored_pages` stays readable.
        """
        try:
            if self._is_open:
                self.commit()
        finally:
            self._is_open = False
            if self._checkpoints is not None:
                self._checkpoints.stop()
                self._checkpoints.move_all()
            self._db.close()
            if self._lock is not None:
                self._lock.close()

    def __enter__(self) -> Store:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()

    @property
    def next_seq(self) -> int:
        """The number that `record` will give to the next visit."""
        return self.last_seq + len(self.pending.visits) + 1

    def declare(self, tables: Mapping[str, SideTable]) -> None:
        """Take rows of these side tables with visits, by name, and of no others."""
        self._tables = tables

    def record(
        self,
        visit: Visit,
        pages: PageTable,
        *,
        ended: int | None = None,
        items: Sequence[str] = (),
        commits: bool = True,
    ) -> int:
        """Record a visit and all pages discovered since the last call, both or neither.

        Page and targets of the visit are pages of `pages`, the page table of this crawl: always
        the same one, or the one that `load_pages` or `stored_pages` returned. A visit of `NO_PAGE`
        marks its targets as seeds. The request with the number `ended` is deleted. `items` are
        those scraped from the page, as JSON. `commits=False` leaves everything in memory until
        `commit`, which is far cheaper for several visits.

        Returns the visit's place in the crawl, from 1. O(new pages + links), see
        `benchmarks/store.py`.
        """
        seq = self.next_seq
        for name, row in visit.extras.items():
            try:
                self._tables[name].checked(row)
            except (KeyError, ValueError) as error:
                raise StoreError(
                    f"{self.path}: a part of the crawl has {error} for a page; a row must be of a "
                    "side table in `tables` of the part, and fit its columns."
                ) from None
        pending = self.pending
        pending.pages = pages
        pending.visits.append(visit)
        pending.items += [(visit.page, item) for item in items]
        if ended is not None:
            pending.end_request(ended, visit.page)
        if visit.page == NO_PAGE:
            pending.seeds += visit.targets.tolist()
        pending.leased.set(visit.page, False)
        if commits:
            self.commit()
        return seq

    def commit(self) -> None:
        """Write all that was recorded in one transaction; if it fails, none of it is on disk."""
        if self.pending.pages is not None:
            self._write(self.pending.pages, counts_can_wait=True)

    def record_pages(
        self, pages: PageTable, seeds: Sequence[int] = (), *, commits: bool = True
    ) -> None:
        """Write the new pages of the table, without visits; mark `seeds` among them.

        False for `commits` leaves them in memory until `commit`.
        """
        pending = self.pending
        pending.pages = pages
        pending.seeds += map(int, seeds)
        if commits:
            self._write(pages)

    def _write(self, pages: PageTable, *, counts_can_wait: bool = False) -> None:
        pending = self.pending
        visits = pending.visits
        cursor = self._cursor
        try:
            if len(pages) < self.n_pages:
                raise ValueError(
                    f"The table has {len(pages)} pages and the store {self.n_pages}; "
                    "pass the table that load_pages returned."
                )
            with self._transaction(n_visits=len(visits)):
                if pages.n_sites > self._n_sites:
                    insert_sites(cursor, pages, self._n_sites)
                if pages.n_identities > self._n_identities:
                    new = pages.new_since(self.n_pages, self._n_identities)
                    insert_pages(cursor, new, self.n_pages)
                for participant in self._participants:
                    participant.write(cursor)
                first = self.last_seq + 1
                pending.write(cursor, first, self._tables, counts_can_wait=counts_can_wait)
        finally:
            pending.clear()
        self.n_pages, self._n_sites = len(pages), pages.n_sites
        self._n_identities = pages.n_identities
        pages.forget_stored()
        for participant in self._participants:
            participant.committed()
        self.last_seq += len(visits)
        self.n_visits += sum(visit.page != NO_PAGE for visit in visits)

    def end_run(self, ended_at: float, pages: PageTable | None = None) -> None:
        """Record that the run ended cleanly, at a Unix time, with no page handed out.

        If given the table of the crawl, also add to the view `links` the links that were outside
        and whose target became known later. O(outside links), some 1 s for a million.

        The next process that opens the store for writing finds the time in the attribute
        `ended_at`; None means that the last writer was killed. An index on the visits of a page is
        created, and kept until the next writer. O(visits), 0.4 s for 200,000.
        """
        self.commit()
        with self._transaction():
            self._cursor.execute("DELETE FROM leased")
            self.pending.refusals.write(self._cursor)
            self._put_meta("ended_at", repr(ended_at))
        # There may be no room for the index, which nothing depends on.
        with contextlib.suppress(StoreError), self._transaction():
            self._cursor.execute(ADD_INDEX)
        if pages is not None:
            with contextlib.suppress(StoreError), store_errors(self.path), self._transaction():
                fill_late_links(self._cursor, pages)

    def stored_pages(self, state: SavedState | None = None) -> StoredPages:
        """Return the page table of the crawl, with its URLs left on disk.

        It is for the writer: `record` must then be given this table only. It reads URLs from the
        store, even after `close`. O(pages), some 5 s for a million; from a saved state, 0.1 s.
        """
        pages = StoredPages(self.read_urls)
        if state is not None:
            pages.restore(state)
        with self.snapshot(), store_errors(self.path):
            load_stored_pages(self._db, pages)
        self._n_identities = pages.n_identities
        return pages

    def _start_writing(self) -> Store:
        """Set the pragmas of the connection, and record which process writes."""
        self._db.execute("PRAGMA synchronous = NORMAL")
        self._db.execute("PRAGMA temp_store = MEMORY")
        self._checkpoints = Checkpoints(self.path, self._db)
        with self._transaction():
            self._put_meta("writer_pid", str(os.getpid()))
            self.ended_at = seconds_of(self.get_meta("ended_at"))
            self._cursor.execute("DELETE FROM meta WHERE key = 'ended_at'")
            self._cursor.execute(DROP_INDEX)
            add_newer_parts(self._cursor)
        with store_errors(self.path):
            self.pending.yielded.restore(self._db)
            self.pending.refusals.restore(self._db)
            self.pending.leased.restore(self.leased())
            self.pending.unfiltered.restore(self.unfiltered())
        return self
