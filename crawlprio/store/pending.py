"""The unit of work of a crawl store: all that its next transaction writes, by table."""

from __future__ import annotations

import json
import sqlite3
from collections import Counter
from collections.abc import Iterable, Mapping
from itertools import islice

from crawlprio.graph.pages import PageTable, Visit
from crawlprio.items import content_hash
from crawlprio.store.crawl_state import (
    REFUSALS,
    ROBOTS,
    Refusal,
    RequestRow,
    put_requests,
    read_refusals,
)
from crawlprio.store.side_tables import SideTable
from crawlprio.store.state_reader import ITEMS, ItemRow
from crawlprio.store.visit_rows import put_visits, storable

N_EXAMPLES = 3
"""Examples kept for each rule: the first ones."""

WRITTEN_EVERY = 50
"""Transactions with visits until changed counts are written: a kill loses those of fewer."""

Source = tuple[int, int]
"""A page whose callback runs, and the number of its saved request; 0: it is a plain link."""

MAX_RULES = 32_768
"""Characters of rules that are kept of a site: a host can invent subdomains, each with many."""

_YIELDED = SideTable(
    "yielded", "source INTEGER NOT NULL, source_request INTEGER NOT NULL, hash INTEGER NOT NULL"
)


class PageMarks:
    """Pages that are marked in a table of their own, of which changes alone are written."""

    def __init__(self, table: str) -> None:
        self._table = table
        self._marked: set[int] = set()
        self._changed: dict[int, bool] = {}

    def restore(self, marked: Iterable[int]) -> None:
        """Load the marks on disk."""
        self._marked.update(marked)

    def set(self, page: int, is_marked: bool = True) -> None:
        if is_marked:
            self._marked.add(page)
        elif page in self._marked:
            self._marked.remove(page)
        else:
            return
        self._changed[page] = is_marked

    def write(self, cursor: sqlite3.Cursor) -> None:
        """Write the changes, inside a transaction."""
        if self._changed:
            marked = [(page,) for page, is_marked in self._changed.items() if is_marked]
            removed = [(page,) for page, is_marked in self._changed.items() if not is_marked]
            cursor.executemany(f"INSERT OR IGNORE INTO {self._table} VALUES(?)", marked)
            cursor.executemany(f"DELETE FROM {self._table} WHERE page = ?", removed)
            self._changed.clear()


class Yielded:
    """The requests with `dont_filter` that running callbacks have yielded, by their hashes.

    They are saved before the callback has ended. After a kill it runs again, and yields them again.
    """

    def __init__(self) -> None:
        self._new: dict[Source, list[int]] = {}
        self._before: dict[Source, Counter[int]] = {}
        self._ended: set[Source] = set()
        self._on_disk: set[Source] = set()

    def restore(self, db: sqlite3.Connection) -> None:
        """Load what callbacks had yielded that ran when the last writer was killed."""
        for page, number, hashed in _YIELDED.rows(db, "*", "rowid"):
            self._before.setdefault((page, number), Counter())[hashed] += 1
        self._on_disk.update(self._before)

    def add(self, source: Source, request: bytes) -> None:
        """Remember a request that is saved before the callback that yielded it has ended."""
        self._new.setdefault(source, []).append(content_hash(request))

    def recognises(self, source: Source, request: bytes) -> bool:
        """Return whether a callback yielded a request before a kill, once for each time."""
        left = self._before.get(source)
        if not left:
            return False
        left[content_hash(request)] -= 1
        return left[content_hash(request)] >= 0

    def end(self, source: Source) -> None:
        """Forget the requests of a callback whose visit was just recorded."""
        self._before.pop(source, None)
        self._new.pop(source, None)
        if source in self._on_disk:
            self._ended.add(source)

    def write(self, cursor: sqlite3.Cursor) -> None:
        """Write the changes, inside a transaction."""
        if self._ended:
            ends = "DELETE FROM yielded WHERE source = ? AND source_request = ?"
            cursor.executemany(ends, self._ended)
            self._on_disk -= self._ended
            self._ended.clear()
        if self._new:
            hashes = self._new.items()
            rows = [(*source, hashed) for source, some in hashes for hashed in some]
            _YIELDED.put(cursor, rows)
            self._on_disk.update(self._new)
            self._new.clear()


class Refusals:
    """The links that rules refused, counted over all runs."""

    def __init__(self) -> None:
        self._counts: dict[str, Refusal] = {}
        self._changed: set[str] = set()
        self._n_waited = 0

    def restore(self, db: sqlite3.Connection) -> None:
        """Load the counts on disk."""
        self._counts = read_refusals(db)

    def add(self, rule: str, n_links: int, urls: Iterable[str]) -> None:
        """Count links refused by a rule; `urls` is read only while the rule lacks examples."""
        links, examples = self._counts.get(rule, Refusal(0, []))
        if len(examples) < N_EXAMPLES:
            new = (url for url in dict.fromkeys(map(storable, urls)) if url not in examples)
            examples = [*examples, *islice(new, N_EXAMPLES - len(examples))]
        self._counts[rule] = Refusal(links + n_links, examples)
        self._changed.add(rule)

    def write(self, cursor: sqlite3.Cursor, *, can_wait: bool = False) -> None:
        """Write the changes, inside a transaction, or, if they can wait, with a later one.

        Counts change with almost every visit, and writing them costs as much as a third of it.
        """
        self._n_waited += bool(self._changed)
        if self._changed and not (can_wait and self._n_waited < WRITTEN_EVERY):
            changed = [(rule, *self._counts[rule]) for rule in sorted(self._changed)]
            REFUSALS.put(cursor, [(rule, n, json.dumps(urls)) for rule, n, urls in changed])
            self._n_waited = 0
            self._changed.clear()


class Pending:
    """All that the next transaction of a store writes. If it fails, none of it is tried again.

    `pages` is the page table once visits or seeds wait to be committed, and None before. The rest
    is added to at any time: `requests` by number, of which an empty one is deleted; pages that are
    handed out (`leased`), or known and still new to requests without `dont_filter` (`unfiltered`).
    """

    def __init__(self) -> None:
        self.pages: PageTable | None = None
        self.visits: list[Visit] = []
        self.seeds: list[int] = []
        self.items: list[ItemRow] = []
        self.requests: dict[int, RequestRow] = {}
        self.leased = PageMarks("leased")
        self.unfiltered = PageMarks("unfiltered")
        self.yielded = Yielded()
        self.refusals = Refusals()
        self._robots: dict[str, str | None] = {}

    def put_request(self, number: int, page: int, request: bytes) -> None:
        """Save a request, in place of any with this number, which grows from one to the next."""
        self.requests[number] = RequestRow(number, page, request)

    def end_request(self, number: int, page: int) -> None:
        self.put_request(number, page, b"")

    def keep_robots(self, site: str, rules: str) -> None:
        """Keep what the robots.txt of a site, by host and port, tells this crawl's robot.

        Nothing is kept of a site whose rules are longer than `MAX_RULES`: a part would mislead.
        """
        self._robots[site] = storable(rules) if len(rules) <= MAX_RULES else None

    def write(
        self,
        cursor: sqlite3.Cursor,
        first_seq: int,
        tables: Mapping[str, SideTable],
        *,
        counts_can_wait: bool,
    ) -> None:
        """Write everything but the pages, inside a transaction; counts only if they cannot wait.

        Visits are numbered from `first_seq`; `tables` are their side tables by name.
        """
        put_visits(cursor, self.visits, first_seq, tables)
        seeds = [(seed,) for seed in self.seeds]
        cursor.executemany("UPDATE pages SET seed = 1 WHERE id = ?", seeds)
        put_requests(cursor, self.requests.values())
        put_items(cursor, self.items)
        self.leased.write(cursor)
        self.unfiltered.write(cursor)
        self.yielded.write(cursor)
        ROBOTS.put(cursor, [item for item in self._robots.items() if item[1] is not None])
        too_long = [(site,) for site, rules in self._robots.items() if rules is None]
        if too_long and ROBOTS.exists(cursor):
            cursor.executemany("DELETE FROM robots WHERE site = ?", too_long)
        self.refusals.write(cursor, can_wait=counts_can_wait)

    def clear(self) -> None:
        """Forget what was written, or could not be."""
        self.pages = None
        self.visits, self.seeds, self.items = [], [], []
        self.requests.clear()
        self._robots.clear()


def put_items(cursor: sqlite3.Cursor, items: Iterable[ItemRow]) -> None:
    """Insert items, inside a transaction."""
    ITEMS.put(cursor, [(None, page, storable(item)) for page, item in items])
