"""The store object, which records visits in transactions and moves its log into the file."""

from __future__ import annotations

import contextlib
import json
import os
import sqlite3
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from threading import Thread
from typing import NamedTuple, Protocol

from crawlprio.errors import StoreError
from crawlprio.graph.pages import NO_PAGE, PageTable, Visit
from crawlprio.store.crawl_state import (
    Marks,
    RequestRow,
    SiteState,
    put_requests,
    put_site_state,
)
from crawlprio.store.files import (
    Connection,
    NameTaken,
    StoreInUse,
    WriterLock,
    numbered,
    open_database,
    primary_code,
    remove,
    reserve,
    store_error,
    store_errors,
    too_large,
)
from crawlprio.store.reader import ITEMS, ItemRow, StoreReader, seconds_of
from crawlprio.store.saved_state import SavedState
from crawlprio.store.schema import (
    ADD_INDEX,
    DROP_INDEX,
    OWN_FACTS,
    add_newer_parts,
    check_schema,
    create_schema,
)
from crawlprio.store.sitemap_rows import StoredSitemaps
from crawlprio.store.stored_pages import (
    StoredPages,
    insert_pages,
    insert_sites,
    load_stored_pages,
    mark_seeds,
)
from crawlprio.store.visit_rows import (
    copy_beside_visits,
    fill_late_links,
    put_visits,
    storable,
)

VISITS = 2_000
"""Maximum number of visits between two checkpoints."""

LOG_BYTES = 2**26
"""Bytes by which the log grows between two checkpoints, or little more."""

_KEPT_BYTES = 2**25
"""Bytes that the log file keeps when it starts over, to avoid allocating them again."""


class Checkpoints:
    """Moves the log into the store after a number of visits, or of bytes if visits are large.

    SQLite's own checkpoints run within a commit, which then waits until the disk has everything.
    Here a thread with its own connection moves most of the log, twice, so that little is left for
    the writer. The writer's checkpoint then lets the log start over, which requires that all of it
    is moved. While a reader stays in one transaction, the log cannot start over, and grows.
    """

    def __init__(
        self,
        path: Path,
        db: sqlite3.Connection,
        visits: int = VISITS,
        log_bytes: int = LOG_BYTES,
    ) -> None:
        self._path = path
        self._log = f"{path.resolve()}-wal"
        self._db = db
        self._visits = visits
        self._log_bytes = log_bytes
        self._n_left = visits
        self._size_before: int | None = None
        self._thread: Thread | None = None
        self.before: list[Callable[[], object]] = []
        """Called in the thread before it moves the log."""
        db.execute("PRAGMA wal_autocheckpoint = 0")
        db.execute(f"PRAGMA journal_size_limit = {min(_KEPT_BYTES, log_bytes // 2)}")

    def count_commit(self, n_visits: int) -> None:
        """Count the visits of a commit, or 1 for any other commit; call it after each commit."""
        self._n_left -= n_visits
        if self._n_left > 0 and self._n_grown() < self._log_bytes:
            return
        if self._thread is None:
            self._thread = Thread(target=self._move_most, name="crawlprio-checkpoint", daemon=True)
            self._thread.start()
        elif not self._thread.is_alive():
            self._thread = None
            _move(self._db)
            self._n_left = self._visits
            self._size_before = None

    def _n_grown(self) -> int:
        """Return the growth of the log, in bytes, since the first commit after a checkpoint."""
        try:
            size = os.stat(self._log).st_size
        except OSError:
            return 0
        if self._size_before is None or size < self._size_before:
            self._size_before = size
        return size - self._size_before

    def stop(self) -> None:
        """Wait for the running checkpoint."""
        if self._thread is not None:
            self._thread.join()
            self._thread = None

    def move_all(self) -> None:
        """Move the whole log into the store and empty it, as far as readers allow.

        Wait up to a second for transactions that are reading.
        """
        with contextlib.suppress(sqlite3.Error):
            self._db.execute("PRAGMA busy_timeout = 1000")
            self._db.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchone()

    def _move_most(self) -> None:
        for prepare in self.before:
            prepare()
        with contextlib.suppress(sqlite3.Error), contextlib.closing(self._connection()) as db:
            _move(db)
            _move(db)

    def _connection(self) -> sqlite3.Connection:
        db = sqlite3.connect(f"{self._path.resolve().as_uri()}?mode=rw", uri=True)
        db.execute("PRAGMA synchronous = NORMAL")
        return db


def _move(db: sqlite3.Connection) -> None:
    """Move what can be moved now; if that fails, on a full disk say, leave it to the next time."""
    with contextlib.suppress(sqlite3.Error):
        db.execute("PRAGMA wal_checkpoint(PASSIVE)").fetchone()


class Companion(Protocol):
    """Writes its part of each transaction of a store while it is attached; does nothing itself.

    What it writes to a file of its own in `write` is there before the transaction is committed. A
    kill in between leaves more in the file than the store knows of, which `open` cuts off.
    """

    def open(self, cursor: sqlite3.Cursor) -> None:
        """Create or read its tables, in a transaction of its own."""

    def write(self, cursor: sqlite3.Cursor) -> None:
        """Write what is new, inside a transaction; an error rolls all of it back."""

    def committed(self) -> None:
        """Take note that the transaction was committed."""

    def sync(self) -> None:
        """Wait until the disk has its files; called in another thread, before a checkpoint."""


@contextlib.contextmanager
def transaction(
    path: Path, cursor: sqlite3.Cursor, checkpoints: Checkpoints | None, n_visits: int
) -> Iterator[None]:
    """Commit at the end of the block, or roll back if anything was raised inside.

    Errors of SQLite become a `StoreError` of one sentence.
    """
    try:
        cursor.execute("BEGIN IMMEDIATE")
    except sqlite3.ProgrammingError:
        raise
    except sqlite3.Error as error:
        raise store_error(path, error) from None
    try:
        yield
        cursor.execute("COMMIT")
        if checkpoints is not None:
            checkpoints.count_commit(n_visits)
    except BaseException as error:
        # SQLite rolls back by itself after some errors, such as a full disk.
        if cursor.connection.in_transaction:
            with contextlib.suppress(sqlite3.Error):
                cursor.execute("ROLLBACK")
        if not isinstance(error, sqlite3.Error) or isinstance(error, sqlite3.ProgrammingError):
            raise
        if primary_code(error) == sqlite3.SQLITE_FULL and _is_at_limit(cursor):
            raise too_large(path) from None
        raise store_error(path, error) from None


def _is_at_limit(cursor: sqlite3.Cursor) -> bool:
    """Return whether the size limit, and not the disk, stopped the write."""
    n_pages, most = (
        cursor.execute(f"PRAGMA {name}").fetchone()[0] for name in ("page_count", "max_page_count")
    )
    # Rolled back pages are not in the file, so it may be somewhat smaller.
    return bool(n_pages >= 0.9 * most)


class _Found(NamedTuple):
    """Pages to commit without a visit."""

    pages: PageTable
    seeds: Sequence[int]
    requests: Sequence[RequestRow]


class _Recorded(NamedTuple):
    """A visit to commit, with what was recorded with it."""

    visit: Visit
    pages: PageTable
    requests: Sequence[RequestRow]
    ended: int | None
    items: Sequence[str]


class Store(StoreReader):
    """A crawl store, which keeps every committed visit, however the writing process ends.

    `Store.create` and `Store.open` return one. There is one writer at a time, and any number of
    readers, even while the crawl runs. What was committed survives `kill -9`; a power failure may
    lose the last few visits, but does not damage the file. All methods raise `StoreError`, in one
    sentence, if the disk is full or the file is damaged.

    NUL and lone surrogates in texts become U+FFFD. The text of a page is cut at `MAX_TEXT`
    characters. `marks` are written with what is recorded next.
    """

    def __init__(self, path: Path, db: Connection, lock: WriterLock | None) -> None:
        super().__init__(path, db, writes=lock is not None)
        self._cursor = db.cursor()
        self._lock = lock
        self._recorded: list[_Recorded] = []
        self._found: list[_Found] = []
        self.marks = Marks()
        self.ended_at: float | None = None
        self._checkpoints: Checkpoints | None = None
        self._companions: list[Companion] = []
        self._is_together = False

    @classmethod
    def create(cls, path: str | Path) -> Store:
        """Create an empty store and open it for writing; the name must be free.

        Raises `StoreInUse` if a running process writes to a store of that name. Raises `StoreError`
        if the name is taken, or the folder is missing or not writable.
        """
        path = Path(path)
        with contextlib.ExitStack() as on_failure:
            lock = WriterLock(path)
            on_failure.callback(lock.release)
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
                lock = WriterLock(path)
                on_failure.callback(lock.release)
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
                self._lock.release()

    def __enter__(self) -> Store:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()

    @property
    def next_seq(self) -> int:
        """The number that `record` will give to the next visit."""
        return self._last_seq + len(self._recorded) + 1

    @property
    def is_behind(self) -> bool:
        """Whether visits or seeds are recorded that are not on disk yet."""
        return bool(self._recorded or self._found)

    def record(
        self,
        visit: Visit,
        pages: PageTable,
        requests: Sequence[RequestRow] = (),
        *,
        ended: int | None = None,
        items: Sequence[str] = (),
        commits: bool = True,
    ) -> int:
        """Record a visit and all pages discovered since the last call, both or neither.

        Parameters
        ----------
        visit
            Its page and targets are pages of `pages`. A visit of `NO_PAGE` marks its targets as
            seeds.
        pages
            The page table of this crawl: always the same one, or the one that `load_pages` or
            `stored_pages` returned.
        requests
            `(number, page, request)` of the requests queued since the last call that are more than
            a link, as JSON in UTF-8. The caller chooses numbers, each larger than `last_request`
            and those before.
        ended
            Number of the request that the visit completes, which is deleted with it.
        items
            The items scraped from the page, each as JSON: on disk with the visit, or not at all.
        commits
            False leaves the visit in memory until `commit`, which is far cheaper for several.

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
        seq = self.next_seq
        self._recorded.append(_Recorded(visit, pages, requests, ended, items))
        self.marks.end_lease(visit.page)
        if commits:
            self.commit()
        return seq

    def commit(self) -> None:
        """Write all that was recorded in one transaction; if it fails, none of it is on disk."""
        if self._recorded or self._found:
            self._write(counts_can_wait=True)

    def record_pages(
        self,
        pages: PageTable,
        seeds: Sequence[int] = (),
        requests: Sequence[RequestRow] = (),
        *,
        commits: bool = True,
    ) -> None:
        """Write the new pages of the table, without visits; mark `seeds` among them.

        False for `commits` leaves them in memory until `commit`.
        """
        self._found.append(_Found(pages, seeds, requests))
        if commits:
            self._write()

    def _write(self, *, counts_can_wait: bool = False) -> None:
        recorded, self._recorded = self._recorded, []
        found, self._found = self._found, []
        pages = (recorded or found)[-1].pages
        with self._transaction(n_visits=len(recorded)):
            self._add_pages(pages, counts_can_wait=counts_can_wait)
            for each in found:
                mark_seeds(self._cursor, [int(seed) for seed in each.seeds])
                put_requests(self._cursor, each.requests)
            put_visits(self._cursor, [each.visit for each in recorded], self._last_seq + 1)
            for visit, _, requests, ended, items in recorded:
                if visit.page == NO_PAGE:
                    mark_seeds(self._cursor, visit.targets.tolist())
                if requests:
                    put_requests(self._cursor, requests)
                if ended is not None:
                    self._cursor.execute("DELETE FROM requests WHERE id = ?", (ended,))
                self._put_items([(visit.page, item) for item in items])
        self._committed(pages)
        self._last_seq += len(recorded)
        self._n_visits += sum(each.visit.page != NO_PAGE for each in recorded)

    def mark_leased(self, page: int) -> None:
        """Mark a page as handed out until its visit is recorded; written with the next record."""
        self.marks.lease(page)

    def mark_unfiltered(self, page: int, *, unfiltered: bool) -> None:
        """Mark a page as still new to requests without `dont_filter`, or remove the mark.

        It is written with what is recorded next.
        """
        self.marks.set_unfiltered(page, unfiltered)

    def refuse(self, rule: str, n_links: int, urls: Iterable[str]) -> None:
        """Count links that a rule refused; written with one of the next records. O(1) mostly.

        Pages recorded without visits, and the end of a run, write all counts.

        `urls` are theirs; the first few of each rule are kept.
        """
        self.marks.refusals.add(rule, n_links, urls)

    def leased(self) -> list[int]:
        """Return the pages that were handed out when the last writer was killed."""
        pages = self._marked("leased")
        self.marks.restore_leased(pages)
        return pages

    def keep_items(self, items: Sequence[ItemRow]) -> None:
        """Write items as JSON, each with its page, or `NO_PAGE` if it has none."""
        with self._transaction():
            self._put_items(items)

    def copy_beside_visits(
        self, other: StoreReader, seqs: dict[int, int], pages: dict[int, int]
    ) -> None:
        """Copy what another store has beside its visits, under the new numbers given."""
        with store_errors(other.path), self._transaction():
            copy_beside_visits(other._db, self._cursor, seqs, pages)

    def keep_site_state(self, state: SiteState) -> None:
        """Replace the stored state of a site."""
        with self._transaction():
            put_site_state(self._cursor, state)

    def sitemaps(self) -> StoredSitemaps:
        """Return the sitemaps of the crawl, to read and, for the writer, to record."""
        return StoredSitemaps(self.path, self._db, self._transaction)

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
            self.marks.refusals.write(self._cursor)
            self._put_meta("ended_at", repr(ended_at))
        self.marks.refusals.committed()
        # There may be no room for the index, which nothing depends on.
        with contextlib.suppress(StoreError), self._transaction():
            self._cursor.execute(ADD_INDEX)
        if pages is not None:
            with contextlib.suppress(StoreError), store_errors(self.path), self._transaction():
                fill_late_links(self._cursor, pages)

    def limit_size(self, n_bytes: int) -> None:
        """Limit the size of the file; a write beyond it fails as on a full disk."""
        (page_bytes,) = self._db.execute("PRAGMA page_size").fetchone()
        self._db.execute(f"PRAGMA max_page_count = {max(1, n_bytes // page_bytes)}")

    def attach(self, companion: Companion) -> None:
        """Have a companion write its part of each transaction from now on."""
        assert self._checkpoints is not None, "the store is open for reading only"
        with self._transaction():
            companion.open(self._cursor)
        self._companions.append(companion)
        self._checkpoints.before.append(companion.sync)

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

    def set_meta(self, key: str, value: str) -> None:
        """Store a fact of the crawl under `key`; pass lists and the like as JSON text.

        Raise ValueError for a key that the store writes itself: `schema_version`,
        `crawlprio_version`, `created`, `writer_pid`, `ended_at`.
        """
        if key in OWN_FACTS:
            raise ValueError(f"meta key {key!r} is the store's own; choose another key.")
        with self._transaction():
            self._put_meta(storable(key), storable(value))

    def add_ordering(self, name: str) -> None:
        """Record that visits from now on are made under an ordering."""
        ruled = self.orderings()
        begin = self.last_seq + 1
        if ruled and ruled[-1][0] == begin:
            ruled.pop()
        if not ruled or ruled[-1][1] != name:
            ruled.append((begin, name))
        self.set_meta("orderings", json.dumps(ruled))
        self.set_meta("ordering", name)

    @contextlib.contextmanager
    def together(self, facts: Callable[[], Mapping[str, str]]) -> Iterator[None]:
        """Commit all that is written inside at once, with some facts, or none of it.

        `facts` are called at the end, and written as `set_meta` does.
        """
        with self._transaction():
            self._is_together = True
            try:
                yield
                for key, value in facts().items():
                    self._put_meta(key, value)
            finally:
                self._is_together = False

    def _transaction(self, n_visits: int = 1) -> contextlib.AbstractContextManager[None]:
        """Return a transaction: everything written inside it is committed, or nothing is."""
        if self._lock is None:
            raise StoreError(f"{self.path}: open for reading only; open it without readonly.")
        if self._is_together:
            return contextlib.nullcontext()
        self._db.lift()
        return transaction(self.path, self._cursor, self._checkpoints, n_visits)

    def _put_meta(self, key: str, value: str) -> None:
        """Insert or replace one row of `meta`, inside a transaction."""
        self._cursor.execute("INSERT OR REPLACE INTO meta VALUES(?, ?)", (key, value))

    def _put_items(self, items: Sequence[ItemRow]) -> None:
        """Insert items, inside a transaction."""
        ITEMS.put(self._cursor, [(None, page, storable(item)) for page, item in items])

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
            self.marks.restore(self._db)
        return self

    def _add_pages(self, pages: PageTable, *, counts_can_wait: bool = False) -> None:
        """Insert marks and what the table has that is not stored yet, inside a transaction."""
        if len(pages) < self._n_pages:
            raise ValueError(
                f"The table has {len(pages)} pages and the store {self._n_pages}; "
                "pass the table that load_pages returned."
            )
        cursor = self._cursor
        if pages.n_sites > self._n_sites:
            insert_sites(cursor, pages, self._n_sites)
        if pages.n_identities > self._n_identities:
            new = pages.new_since(self._n_pages, self._n_identities)
            insert_pages(cursor, new, self._n_pages)
        self.marks.write(cursor, counts_can_wait=counts_can_wait)
        for companion in self._companions:
            companion.write(cursor)

    def _committed(self, pages: PageTable) -> None:
        """Remember, after the commit, how much of the table is stored."""
        self._n_pages, self._n_sites = len(pages), pages.n_sites
        self._n_identities = pages.n_identities
        pages.forget_stored()
        self.marks.committed()
        for companion in self._companions:
            companion.committed()
