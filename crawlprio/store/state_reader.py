"""Reading of a crawl store: its connection, facts of the crawl, and what a resume needs."""

from __future__ import annotations

import contextlib
import json
import math
import sqlite3
from collections.abc import Iterator
from pathlib import Path

from crawlprio.store.crawl_state import (
    ROBOTS,
    Refusal,
    RequestRow,
    SiteState,
    read_refusals,
    read_requests,
)
from crawlprio.store.files import Connection, inode_of, store_errors
from crawlprio.store.side_tables import ARCHIVE_FILES, ARCHIVED, SideTable, all_exist

ItemRow = tuple[int, str]
"""The page of an item, or `NO_PAGE` if it has none, and the item as JSON."""

ITEMS = SideTable("items", "id INTEGER PRIMARY KEY, page INTEGER NOT NULL, item TEXT NOT NULL")


class StateReader:
    """An open store: facts, requests, leases, items and site states of its crawl."""

    def __init__(self, path: Path, db: Connection, *, writes: bool) -> None:
        self.path = path
        self._db = db
        self._inode = inode_of(path)
        self._writes = writes
        self.n_pages = self._n_sites = self._n_identities = self.n_visits = 0
        self.last_seq = 0
        self._is_open = True

    @property
    def is_archived(self) -> bool:
        """Whether the crawl has an archive."""
        with store_errors(self.path):
            return all_exist(self._db, ARCHIVE_FILES, ARCHIVED)

    @contextlib.contextmanager
    def snapshot(self) -> Iterator[None]:
        """Read a consistent snapshot inside the block, even beside a running crawl.

        It may be nested. Nothing can be recorded inside.
        """
        if self._db.in_transaction:
            yield
            return
        with store_errors(self.path):
            self._db.execute("BEGIN")
        try:
            if not self._writes:
                with store_errors(self.path):
                    self._count()
            yield
        finally:
            # Nothing was written; for a damaged file, SQLite may refuse even the rollback.
            with contextlib.suppress(sqlite3.Error):
                self._db.execute("ROLLBACK")

    def get_meta(self, key: str, default: str = "") -> str:
        """Return the fact of the crawl stored under `key`, or `default`."""
        with store_errors(self.path):
            row = self._db.execute("SELECT value FROM meta WHERE key = ?", (key,)).fetchone()
        return default if row is None else str(row[0])

    def orderings(self, *, unused: bool = False) -> list[tuple[int, str]]:
        """Return `(seq of the first visit, name)` of the orderings that ruled the crawl, in turn.

        Unless `unused`, one under which no page was visited is left out if it is not the first.
        A store that names one ordering alone was crawled under that one.
        """
        with store_errors(self.path):
            ruled = json.loads(self.get_meta("orderings", "[]"))
            while not unused and len(ruled) > 1 and int(ruled[-1][0]) > self.last_seq:
                ruled.pop()
            if not ruled and (only := self.get_meta("ordering")):
                return [(1, only)]
            return [(int(first), str(name)) for first, name in ruled]

    def facts(self, prefix: str) -> dict[str, str]:
        """Return all facts of the crawl whose key begins with `prefix`."""
        with store_errors(self.path):
            rows = self._db.execute(
                "SELECT key, value FROM meta WHERE substr(key, 1, ?) = ?", (len(prefix), prefix)
            )
            return {str(key): str(value) for key, value in rows}

    @property
    def last_request(self) -> int:
        """The largest number of a stored request; 0 if there is none."""
        with store_errors(self.path):
            (last,) = self._db.execute("SELECT ifnull(max(id), 0) FROM requests").fetchone()
            return _numbered(last)

    def requests(self) -> Iterator[RequestRow]:
        """Yield the requests that were recorded and have not ended, by number."""
        with store_errors(self.path):
            yield from read_requests(self._db, self.n_pages)

    def requests_of(self, page: int) -> list[RequestRow]:
        """Return the requests of one page that have not ended, by number."""
        with store_errors(self.path):
            return list(read_requests(self._db, self.n_pages, "page", page))

    def request(self, number: int) -> bytes:
        """Return a request that has not ended, by its number."""
        with store_errors(self.path):
            for row in read_requests(self._db, self.n_pages, "id", number):
                return row.request
            raise ValueError(f"request {number} is missing")

    def kept_items(self) -> Iterator[ItemRow]:
        """Yield page and JSON of each stored item, in the order of the visits."""
        with store_errors(self.path):
            yield from ITEMS.rows(self._db, "page, item", "id")

    def site_states(self) -> list[SiteState]:
        """Return the stored states of sites, by host name."""
        states = []
        with store_errors(self.path):
            for row in self._db.execute(
                "SELECT host, crawl_delay, refusals, pause, paused_until FROM site_states"
                " ORDER BY host"
            ):
                state = SiteState(*row)
                seconds = (state.crawl_delay or 0.0, state.pause, state.paused_until)
                if not isinstance(state.host, str) or not isinstance(state.refusals, int):
                    raise ValueError(f"not the state of a site: {tuple(row)}")
                if not all(isinstance(s, int | float) and 0 <= s < math.inf for s in seconds):
                    raise ValueError(f"not the seconds of a site: {tuple(row)}")
                states.append(state)
        return states

    def robots(self, site: str) -> str | None:
        """Return the rules of a site, by host and port; None if its robots.txt was not read."""
        with store_errors(self.path):
            if not ROBOTS.exists(self._db):
                return None
            query = "SELECT rules FROM robots WHERE site = ?"
            (rules,) = self._db.execute(query, (site,)).fetchone() or (None,)
            if not isinstance(rules, str | None):
                raise TypeError(f"the robots.txt of {site} is not text")
            return rules

    def refusals(self) -> dict[str, Refusal]:
        """Return the links that rules refused, counted by rule, in the order of their names."""
        with store_errors(self.path):
            return read_refusals(self._db)

    def leased(self) -> list[int]:
        """Return the pages that were handed out when the last writer was killed."""
        return self._marked("leased")

    def unfiltered(self) -> list[int]:
        """Return the known pages that are still new to requests without `dont_filter`."""
        return self._marked("unfiltered")

    def _marked(self, table: str) -> list[int]:
        """Return the pages in a table of marks; raise ValueError for an invalid one."""
        with store_errors(self.path):
            pages = [page for (page,) in self._db.execute(f"SELECT page FROM {table} ORDER BY 1")]
            if pages and not 0 <= pages[0] <= pages[-1] < self.n_pages:
                raise ValueError(f"page {pages[0]} or {pages[-1]}, of {self.n_pages}, in {table}")
        return pages

    def _checked(self, page: object) -> int:
        """Return the id of a page; raise ValueError if there is no such page."""
        if not (type(page) is int and 0 <= page < self.n_pages):
            raise ValueError(f"page {page!r}, of {self.n_pages}")
        return page

    def _count(self) -> None:
        """Count what is stored; ids are dense, so the largest id gives the number."""
        # Without a condition, count(*) is a single step, which no limit on steps can stop.
        one = self._db.execute(
            "SELECT (SELECT ifnull(max(id) + 1, 0) FROM pages),"
            " (SELECT ifnull(max(id) + 1, 0) FROM sites),"
            " (SELECT count(*) FROM aliases WHERE page >= 0),"
            " (SELECT count(*) FROM visits WHERE page >= 0),"
            " (SELECT ifnull(max(seq), 0) FROM visits)"
        ).fetchone()
        self.n_pages, self._n_sites, n_aliases, self.n_visits, self.last_seq = one
        _numbered(self.last_seq)
        self._n_identities = self.n_pages + n_aliases


def _numbered(last: int) -> int:
    """Return the last row number; raise ValueError if it leaves no room for more."""
    if not 0 <= last < 2**62:
        raise ValueError(f"a row has the number {last}")
    return last


def seconds_of(text: str) -> float | None:
    """Return a Unix time from `meta`; None if it is missing or invalid."""
    try:
        seconds = float(text)
    except ValueError:
        return None
    return seconds if math.isfinite(seconds) else None
